"""The folder of a trained classifier: settings, scores, model, graph, feature scale.

``bundle.json`` holds a checksum of itself and of the files it was written with, so that a file of
another run is refused by name.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dhilgt._version import __version__
from dhilgt.classifier.inputs import FitInputs
from dhilgt.classifier.projection_file import check_projection, read_projection, write_projection
from dhilgt.errors import ArtifactError, ConfigError, argument, wording
from dhilgt.features.ego_vocabulary import EgoVocabulary
from dhilgt.features.from_graph import num_copies
from dhilgt.features.projection import Projection, projected_width
from dhilgt.features.scale import AUTO, NONE, FeatureScale
from dhilgt.graph.graph import Graph
from dhilgt.graph.store import load_graph, save_graph
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dhilgt import DHILGT
from dhilgt.model.store import CONFIG, WEIGHTS, checked_bytes, read_checked
from dhilgt.settings.settings import Settings
from dhilgt.store import files
from dhilgt.store.files import (
    canonical_json,
    explained,
    hash_file,
    open_regular,
    read_object,
    strict_json,
    write_file,
)
from dhilgt.store.manifest import MANIFEST
from dhilgt.training import run_folder
from dhilgt.training.run_folder import RunFolder
from dhilgt.training.state import TrainResult, finite_or_none

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

KIND = "dhilgt-classifier"
FORMAT = 2
_OLDEST_FORMAT = 1  # without checksums
_TIED = (
    f"{run_folder.MODEL}/{CONFIG}",
    f"{run_folder.MODEL}/{WEIGHTS}",
    f"{run_folder.GRAPH}/{MANIFEST}",  # which has the checksums of the graph's arrays
    run_folder.SCALE,
    run_folder.PROJECTION,
    run_folder.RESULT,
    run_folder.METRICS,
)
_MAX_BYTES = 64 << 20
_TYPES = {"str": "U", "int": "i", "float": "f", "bool": "b"}  # of classes, by dtype.kind


@dataclass(frozen=True)
class Bundle:
    """A classifier as its folder holds it; see `NodeClassifier` for the parts."""

    settings: dict[str, Any]
    cache: bool
    inputs: FitInputs
    model: DHILGT
    scale: FeatureScale | None
    projection: Projection | None
    result: TrainResult
    scores: dict[str, dict[str, float]]
    stages: dict[str, Any]
    batch_size: int
    vocabulary_digest: str | None = None


def write(clf: NodeClassifier, path: str | PathLike[str], *, overwrite: bool) -> None:
    """Write a classifier; see `NodeClassifier.save`.

    ``bundle.json`` is removed first and written last: what lacks it is not a classifier.
    """
    folder = RunFolder(path)
    folder.open(resume=overwrite)
    try:
        seal = folder.path / run_folder.BUNDLE
        with explained("replace", seal):
            if seal.exists():
                files.ops.unlink(seal)
        clf.model_.save_pretrained(folder.path / run_folder.MODEL)
        write_scale(folder.path, clf._pipeline.scale)
        write_projection(folder.path, clf._pipeline.projection)
        save_graph(clf.graph_, folder.path / run_folder.GRAPH, overwrite=True)
        folder.rewrite(clf.result_.history)
        folder.write(run_folder.RESULT, clf.result_.to_dict())
        if not (folder.path / run_folder.ENVIRONMENT).exists():
            device = next(clf.model_.parameters()).device
            folder.write(run_folder.ENVIRONMENT, run_folder.environment(device, 1))
        folder.write(run_folder.BUNDLE, _sealed(_facts(clf), folder.path))
    finally:
        folder.close()


def _facts(clf: NodeClassifier) -> dict[str, Any]:
    kinds = {letter: name for name, letter in _TYPES.items()}
    vocabulary = clf._pipeline.vocabulary
    known: dict[str, Any] = {} if vocabulary is None else {"vocabulary": vocabulary.digest}
    return known | {
        "kind": KIND,
        "format": FORMAT,
        "library": __version__,
        "classes": clf.classes_.tolist(),
        "class_type": kinds["i" if clf.classes_.dtype.kind == "u" else clf.classes_.dtype.kind],
        "features": clf.n_features_in_,
        "from_array": clf._from_array,
        "graph": clf.graph_.fingerprint,
        "scaled_columns": _num_scaled(clf._pipeline.scale),
        "settings": clf.settings_.to_dict(),
        "cache": bool(clf.cache),
        "batch_size": clf.batch_size_,
        "split": {part: len(nodes) for part, nodes in clf.split_.items()},
        "scores": {
            part: {name: finite_or_none(value) for name, value in scores.items()}
            for part, scores in clf.scores_.items()
        },
        "stages": clf.stages_,
    }


def read(path: str | PathLike[str]) -> Bundle:
    """Read a classifier from an untrusted folder; see `NodeClassifier.load`."""
    folder = Path(path).expanduser()
    seal = folder / run_folder.BUNDLE
    if not seal.is_file():
        way_out = wording(
            "pass a folder that save wrote, or finish the run in it with resume=True",
            "give the folder of a run that `dhilgt train` wrote",
        )
        raise ArtifactError(
            f"{folder} has no {run_folder.BUNDLE}, so it holds no trained classifier; {way_out}"
        )
    facts = read_object(seal)
    _check_head(seal, facts)
    try:
        num_metrics = _check_seal(seal, facts)
        # Folders from before there were scales do not name one.
        settings = Settings.from_dict({"feature_scale": NONE} | facts["settings"]).to_dict()
        classes = _classes(facts)
        graph = load_graph(folder / run_folder.GRAPH)
        model = DHILGT.from_pretrained(folder / run_folder.MODEL)
        result = _result(folder, num_metrics)
        scores = {
            part: {name: math.nan if value is None else float(value) for name, value in one.items()}
            for part, one in facts["scores"].items()
        }
        split = {name: np.flatnonzero(mask) for name, mask in (graph.masks or {}).items()}
        inputs = FitInputs(graph, classes, split, bool(facts["from_array"]), 0)
        bundle = Bundle(
            settings=settings,
            cache=bool(facts["cache"]),
            inputs=inputs,
            model=model,
            scale=_scale(folder, settings["feature_scale"], int(facts["features"])),
            projection=read_projection(folder),
            result=result,
            scores=scores,
            stages=dict(facts["stages"]),
            batch_size=int(facts["batch_size"]),
            vocabulary_digest=facts.get("vocabulary"),
        )
        _check_parts(bundle, facts)
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise ArtifactError(f"{seal} is not as written ({error!r}); save it again") from error
    return bundle


def _check_head(path: Path, facts: dict[str, Any]) -> None:
    if facts.get("kind") != KIND:
        raise ArtifactError(f"{path} is of kind {facts.get('kind')!r}, not {KIND!r}")
    version = facts.get("format")
    if not isinstance(version, int) or not _OLDEST_FORMAT <= version <= FORMAT:
        raise ArtifactError(
            f"{path} has format {version!r}, this version reads up to {FORMAT}; use the version "
            f"that wrote it ({facts.get('library')!r})"
        )


# ---- checksums -----------------------------------------------------------------------------------


def _sealed(facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the facts with a checksum of the files of the folder, and of everything."""
    sums = {}
    for name in _TIED:
        path = folder / name
        with explained("read", path):
            if path.exists():
                sums[name] = {"bytes": path.stat().st_size, "sha256": hash_file(path)}
    facts = facts | {"files": sums}
    return facts | {"sha256": hashlib.sha256(canonical_json(facts)).hexdigest()}


def _check_seal(seal: Path, facts: dict[str, Any]) -> int:
    """Compare a bundle and the files it belongs with; return the bytes of metrics to read.

    Raises:
        ArtifactError: If one was changed, or is of another run; the message names it.
    """
    if facts["format"] == _OLDEST_FORMAT and "sha256" not in facts:
        return _MAX_BYTES
    rest = {key: value for key, value in facts.items() if key != "sha256"}
    if facts.get("sha256") != hashlib.sha256(canonical_json(rest)).hexdigest():
        raise ArtifactError(
            f"{seal} was changed after it was written (its checksum differs); restore it from a "
            "copy, or save the classifier again"
        )
    sums = facts.get("files")
    if not isinstance(sums, dict) or not {*sums} <= {*_TIED} or run_folder.METRICS not in sums:
        raise ArtifactError(f"{seal} does not list the files it belongs with; save it again")
    for name in _TIED:
        path = seal.parent / name
        if name in sums:
            _check_sum(path, seal, sums[name])
        elif path.exists():
            raise ArtifactError(f"{path} was not there when {seal} was written; remove it")
    return int(sums[run_folder.METRICS]["bytes"])


def _check_sum(path: Path, seal: Path, expected: Any) -> None:
    if not path.exists():
        raise ArtifactError(
            f"{path} is missing; copy the folder of the run as a whole, or save it again"
        )
    num_bytes, sha256 = expected["bytes"], expected["sha256"]
    with explained("read", path):
        if path.name == run_folder.METRICS:
            # A run that goes on with more epochs appends lines before there is a new bundle.
            with open_regular(path) as file:
                found = hashlib.sha256(file.read(num_bytes)).hexdigest()
        else:
            found = hash_file(path)
    if found != sha256:
        raise ArtifactError(
            f"{path} is damaged or of another run: {seal.name} was written with SHA-256 {sha256}, "
            f"found {found}; copy the folder of the run as a whole, save it again, or finish the "
            f"run in it with {argument('resume', True)}"
        )


def _classes(facts: dict[str, Any]) -> Any:
    kind = _TYPES[facts["class_type"]]
    classes = np.array(facts["classes"])
    if classes.ndim != 1 or classes.dtype.kind != kind or not len(classes):
        raise TypeError(f"classes are not a list of {facts['class_type']}")
    return classes


def _result(folder: Path, num_metrics: int) -> TrainResult:
    values = read_object(folder / run_folder.RESULT)
    path = folder / run_folder.METRICS
    with explained("read", path), open_regular(path) as file:
        lines = file.read(num_metrics).splitlines()
    return TrainResult(history=[strict_json(line) for line in lines], **values)


def _check_parts(bundle: Bundle, facts: dict[str, Any]) -> None:
    """Raise for parts that do not belong together."""
    graph, classes = bundle.inputs.graph, len(bundle.inputs.classes)
    config = bundle.model.config
    copies = num_copies(int(bundle.settings["hops"]), bundle.settings["hop_kind"])
    if graph.features is None or graph.labels is None:
        raise TypeError("the graph lacks features or labels")
    width = int(graph.features.shape[1])
    if graph.fingerprint != facts["graph"] or width != facts["features"]:
        raise TypeError("the graph is not the one it was trained on")
    channels = projected_width(width, bundle.settings["hop_channels"]) * copies
    if config.in_channels != channels or config.out_channels != classes:
        raise TypeError("the model does not fit the graph and its classes")
    check_projection(bundle.projection, width, bundle.settings["hop_channels"])
    setting = bundle.settings["feature_scale"]
    kind = NONE if bundle.scale is None else bundle.scale.kind
    if kind != setting:
        has = f"has {kind!r}" if bundle.scale else "is missing"
        raise ArtifactError(
            f"settings and folder do not agree on feature_scale: {setting!r} is set, "
            f"{run_folder.SCALE} {has}; copy the folder of the run as a whole, or save it again"
        )
    scaled_width = width if setting == AUTO else config.in_channels  # before or after the hops
    if bundle.scale is not None and bundle.scale.num_channels != scaled_width:
        raise TypeError("the scale of the features does not fit the model")
    if setting == AUTO and _num_scaled(bundle.scale) != facts["scaled_columns"]:
        raise ArtifactError(
            f"{facts['scaled_columns']} columns of the features were scaled in training, "
            f"{run_folder.SCALE} has {_num_scaled(bundle.scale)}; copy the folder of the run as a "
            "whole, or save it again"
        )
    if config.label_inputs != bundle.settings["label_inputs"]:
        raise TypeError("model and settings do not agree on label_inputs")
    if config.label_inputs and "train" not in bundle.inputs.split:
        raise TypeError("the graph lacks its training nodes, whose classes the model sees")
    _check_inputs(config, Settings.from_dict(bundle.settings), graph, classes)
    if graph.labels.max(initial=-1) >= classes or bundle.batch_size < 1:
        raise TypeError("the graph has classes without a name")


def _check_inputs(config: DHILGTConfig, settings: Settings, graph: Graph, classes: int) -> None:
    """Raise for a model whose table does not fit the neighbours, hubs and classes of its graph.

    The hubs themselves are known with the labels, which are not built here: the digest in the
    bundle is compared when they are.
    """
    kinds = EgoVocabulary.of(
        graph,
        None,
        neighbors=settings.neighbor_inputs,
        num_classes=classes if settings.class_inputs else 0,
        table_rows=settings.table_rows,
    )
    most_hubs = 0
    if settings.hub_inputs:
        kinds = replace(kinds, hubs=np.zeros(0, np.int64))
        most_hubs = min(settings.table_rows, graph.num_nodes) if graph.num_edges else 0
    fewest = kinds.num_channels + (most_hubs > 0)
    groups = len(kinds.groups) if fewest else 0
    fits = fewest <= config.ego_channels <= kinds.num_channels + most_hubs
    if config.ego_groups != groups or not fits:
        raise TypeError("the model does not fit the neighbours, hubs and classes of the graph")


# ---- the scale of the features -----------------------------------------------------------------


def _num_scaled(scale: FeatureScale | None) -> int:
    return 0 if scale is None else len(scale.columns)


def _scale(folder: Path, setting: str, width: int) -> FeatureScale | None:
    """Return the scale of a run; one of kind "auto" that changes no column has no file."""
    scale = read_scale(folder)
    return FeatureScale.unchanged(width) if scale is None and setting == AUTO else scale


def write_scale(folder: Path, scale: FeatureScale | None) -> None:
    """Write a scale to a folder; None and one that changes nothing remove the one that is there.

    Args:
        folder: Of a run.
        scale: What to write.
    """
    path = folder / run_folder.SCALE
    with explained("write", path):
        if scale is None or not len(scale.columns):
            if path.exists():
                files.ops.unlink(path)
            return
        tensors = {name: torch.tensor(array) for name, array in scale.arrays.items()}
        data = checked_bytes(tensors, canonical_json({"kind": scale.kind}))
        write_file(path, iter((memoryview(data),)))


def read_scale(folder: Path) -> FeatureScale | None:
    """Return the scale in an untrusted folder; None where there is none.

    Args:
        folder: Of a run.

    Raises:
        ArtifactError: If its file is damaged.
    """
    path = folder / run_folder.SCALE
    if not path.exists():
        return None
    tensors, noted = read_checked(path)
    try:
        kind = strict_json(noted or b"null")["kind"]
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return FeatureScale.from_arrays(kind, arrays)
    except (ArtifactError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path} is not as written ({error}); save it again") from error


def scale_of_run(run_dir: str | PathLike[str], kind: str, features: Any) -> FeatureScale | None:
    """Return the scale that the run in a folder began with, None before its first checkpoint.

    Args:
        run_dir: Folder of the run.
        kind: The `feature_scale` to go on with.
        features: Those of the graph.

    Raises:
        ConfigError: If the run has another one.
    """
    folder = RunFolder(run_dir)
    if folder.checkpoints.latest() is None:
        return None
    scale = read_scale(folder.path)
    if scale is None and kind == AUTO:
        # It began with no column to scale, or with "none".
        fitted = FeatureScale.fit(features, AUTO)
        if not len(fitted.columns):
            return fitted
    then = NONE if scale is None else scale.kind
    if then != kind:
        raise ConfigError(
            f"feature_scale = {kind!r}, but the run in this folder has feature_scale = {then!r}; "
            "resume with that value, or choose another folder",
            argument="feature_scale",
        )
    return scale
