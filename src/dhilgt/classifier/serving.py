"""Export of a trained classifier: its model, and the files a server needs beside it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dhilgt._version import __version__
from dhilgt.classifier.members import Member
from dhilgt.classifier.sharing import inputs_key
from dhilgt.features.scale import NONE
from dhilgt.labels.radius import AUTO
from dhilgt.model.export import WRITERS, check_ending, prefix_of
from dhilgt.store.exports import Export, write_beside
from dhilgt.tokens.single import SingleRows

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier


def export_classifier(clf: NodeClassifier, path: str | PathLike[str]) -> Path:
    """Write the model of a classifier, and beside it what serves it: model.onnx.json.

    The second file names the classes, the settings of the tokens and the width of the features,
    so that a server needs neither PyTorch nor the classifier. A model with `label_inputs` has a
    third file, model.onnx.known.npy: class + 1 of each node of the graph, 0 = not known. One with
    a scale has model.onnx.scale.npz: the arrays of its `FeatureScale`, one with projected features
    model.onnx.projection.npz: those of its `Projection`. One that takes neighbours, hubs or classes
    has model.onnx.ego.npz: their rows.
    `dhilgt.store.exports.read_export` reads and checks them. Several members are one program: its
    logits are the logarithms of the mean of their probabilities. Members whose settings give the
    same inputs share them; the inputs of a second group are named ``m2_x``, ``m2_index`` and so on,
    and its files model.onnx.m2.scale.npz and so on.

    Args:
        clf: A fitted classifier.
        path: File to write; its ending, .onnx or .pt2, decides the form.

    Returns:
        The second file.

    Raises:
        ConfigError: If the ending is another.
        ArtifactError: If a file cannot be written.
    """
    clf._check_fitted("model to export")
    file = Path(path)
    ending = check_ending(file)
    groups = _groups(clf.members_)
    WRITERS[ending]([[one.model for one in group] for group in groups], file)
    first, *others = (_group_inputs(group[0]) for group in groups)
    facts = _common_facts(clf) | first.facts
    members = (
        replace(one, facts={"prefix": prefix_of(at), **one.facts})
        for at, one in enumerate(others, start=1)
    )
    return write_beside(file, replace(first, facts=facts, members=tuple(members)))


def _groups(members: Sequence[Member]) -> list[list[Member]]:
    """Return the members that take the same inputs together; the first one is in the first."""
    groups: dict[Hashable, list[Member]] = {}
    for member in members:
        groups.setdefault(inputs_key(member.settings), []).append(member)
    return list(groups.values())


def _group_inputs(member: Member) -> Export:
    """Return what the inputs of a member, and of those like it, are made with."""
    settings, pipeline = member.settings, member.pipeline
    scale, projection = pipeline.scale, pipeline.projection
    if scale is not None and not len(scale.columns):  # no column needed one
        scale = None
    facts = {
        "hops": settings.hops,
        "hop_kind": settings.hop_kind,
        "hop_restart": settings.hop_restart,
        "feature_scale": NONE if scale is None else scale.kind,
        "tokens": settings.token_options() if settings.num_layers else SingleRows.spec.to_dict(),
        "copies": pipeline.copies,
        "order": settings.order,
    }
    if settings.radius != AUTO:
        facts["radius"] = settings.radius
    if settings.message_layers:
        facts["message_layers"] = settings.message_layers
    vocabulary = pipeline.vocabulary
    if vocabulary is not None and vocabulary.num_channels:
        facts["ego_rows"] = list(vocabulary.groups)
    return Export(
        facts,
        None if pipeline.known is None else pipeline.known + 1,
        None if scale is None else scale.arrays,
        None if projection is None else projection.arrays,
        _ego_arrays(pipeline.ego),
    )


def _ego_arrays(rows: Any) -> dict[str, NDArray[Any]] | None:
    if rows is None:
        return None
    return {"offsets": rows.indptr, "columns": rows.indices, "values": rows.data}


def _common_facts(clf: NodeClassifier) -> dict[str, Any]:
    facts = {
        "library": __version__,
        "classes": clf.classes_.tolist(),
        "features": clf.n_features_in_,
        "graph": clf.graph_.fingerprint,
    }
    if clf.feature_columns_ is not None:
        facts["feature_names"] = list(clf.feature_columns_.names)
    return facts
