"""What a run began with: digests of its inputs, part by part, and its settings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ConfigError, TrainingWarning, setting, warn
from dhilgt.graph.graph import Graph
from dhilgt.labels.radius import AUTO
from dhilgt.settings.earlier import renamed
from dhilgt.settings.settings import Settings
from dhilgt.store.files import canonical_json
from dhilgt.training.resume import FREE
from dhilgt.training.run_folder import SEARCH_RECORD, RunFolder

INPUTS, SETTINGS = "inputs", "settings"
"""The keys of a run's origin in its checkpoints."""

# These say where and how to compute; the nodes that `validation` holds out are in the split.
_FREE = FREE | {"device", "threads", "attention", "validation"}
_BLOCK_BYTES = 1 << 24
_NAMES = {
    "edges": "other edges",
    "ids": "other ids of nodes",
    "features": "other features",
    "labels": "other labels",
    "split": "another split",
}

Digests = dict[str, dict[str, str]]


def origin(graph: Graph, classes: NDArray[Any], settings: Settings) -> dict[str, Any]:
    """Return what a run begins with, as plain values for its checkpoints.

    Args:
        graph: The graph with the split of the run; its labels are places in ``classes``.
        classes: The classes.
        settings: All settings.
    """
    return {INPUTS: input_digests(graph, classes), SETTINGS: settings.to_dict()}


def check_origin(run_dir: str | PathLike[str], now: Mapping[str, Any]) -> None:
    """Raise if the run in a folder began with something else; before its first save it may.

    Args:
        run_dir: Folder of the run.
        now: The `origin` of the run that is to go on.

    Raises:
        ConfigError: If the inputs or a setting differ; the message names them.
    """
    folder = RunFolder(run_dir)
    saved = folder.checkpoints.values()
    if saved is None:
        return
    if INPUTS not in saved:
        warn(
            f"the run in {folder.path} was begun by an earlier version, which kept no digests of "
            "its inputs: whether they are the same cannot be checked",
            TrainingWarning,
        )
        return
    check_inputs(saved[INPUTS], now[INPUTS], str(folder.path))
    # A setting that did not exist when the run was saved had the value that is its default now.
    before = Settings().to_dict() | renamed(saved[SETTINGS])
    for name, value in now[SETTINGS].items():
        if value != before[name] and name not in _FREE:
            raise ConfigError(
                f"{setting(name, value)}, but the run in this folder has "
                f"{setting(name, before[name])}; resume with that value, or choose another folder"
            )


def with_radius_of_run(run_dir: str | PathLike[str], settings: Settings) -> Settings:
    """Return settings with the radius that "auto" chose when the run in a folder began.

    Another one may fit the memory now, but a run goes on with the labels it began with.

    Args:
        run_dir: Folder of the run.
        settings: Those of the run that is to go on.
    """
    if settings.radius != AUTO:
        return settings
    saved = RunFolder(run_dir).checkpoints.values() or {}
    return replace(settings, radius=saved.get(SETTINGS, {}).get("radius", AUTO))


def check_recipe(run_dir: str | PathLike[str], searches: bool) -> None:
    """Raise if the run in a folder has another recipe.

    Args:
        run_dir: Folder of the run.
        searches: Whether the recipe is the one that searches for settings.

    Raises:
        ConfigError: If the run has the other one.
    """
    folder = RunFolder(run_dir)
    if searches and folder.checkpoints.path.exists():
        wanted, found = "auto", "paper"
    elif not searches and (folder.path / SEARCH_RECORD).exists():
        wanted, found = "paper", "auto"
    else:
        return
    raise ConfigError(
        f"{setting('recipe', wanted)}, but the run in {folder.path} has "
        f"{setting('recipe', found)}; resume with that value, or choose another folder"
    )


def check_inputs(saved: Digests, now: Digests, run_dir: str, what: str = "run") -> None:
    """Raise if inputs are not those that a run began with.

    Args:
        saved: The `input_digests` of the run.
        now: Those of the inputs to go on with.
        run_dir: Folder of the run, for the message.
        what: What is in the folder, for the message.

    Raises:
        ConfigError: If any differ; the message names each part.
    """
    changed = []
    for part, name in _NAMES.items():
        before, after = saved.get(part, {}), now[part]
        if before.get("sha256") != after["sha256"]:
            then = before.get("about")
            numbers = "" if then == after["about"] else f" ({then} then, {after['about']} now)"
            changed.append(name + numbers)
    if changed:
        listed = " and ".join([", ".join(changed[:-1]), changed[-1]] if changed[1:] else changed)
        raise ConfigError(
            f"the {what} in {run_dir} began with {listed}; resume with the inputs it began with, "
            "or choose another folder"
        )


# ---- digests -----------------------------------------------------------------------------------


def input_digests(graph: Graph, classes: NDArray[Any] | None = None) -> Digests:
    """Return the SHA-256 of each part of a graph, and a few words about the part.

    They depend on what was read, not on the files: the same rows in another order or format give
    the same digests.

    Args:
        graph: The graph; parts that it lacks count as empty.
        classes: What its labels stand for; None for its own class names or numbers.

    Example:
        >>> one = Graph.from_edges([0, 1], [1, 2], labels=[0, 1, 0])
        >>> two = Graph.from_edges([0, 1], [1, 2], labels=[0, 1, 1])
        >>> first, second = input_digests(one), input_digests(two)
        >>> [part for part in first if first[part]["sha256"] != second[part]["sha256"]]
        ['labels']
    """
    names = graph.class_names if classes is None else classes.tolist()
    labels = graph.labels if graph.labels is not None else np.empty(0, np.int64)
    masks = graph.masks or {}
    features = graph.features
    width = 0 if features is None else int(features.shape[1])
    known = f"{int((labels >= 0).sum()):,} labelled nodes in {len(np.unique(labels[labels >= 0]))}"
    return {
        "edges": {"sha256": graph.fingerprint, "about": f"{graph.num_distinct_edges:,}"},
        "ids": _part(f"{graph.num_nodes:,}", **graph.ids.to_arrays()),
        "features": _part(f"{width:,} per node", **_feature_arrays(features)),
        "labels": _part(
            f"{known} classes",
            labels=labels,
            names=np.frombuffer(canonical_json(names), np.uint8),
        ),
        "split": _part(
            ", ".join(f"{int(mask.sum()):,} {name}" for name, mask in masks.items()) or "none",
            **dict(sorted(masks.items())),
        ),
    }


def _part(about: str, **arrays: NDArray[Any]) -> dict[str, str]:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.newbyteorder('<').str} {array.shape}\n".encode())
        for block_digest in _block_digests(array):
            digest.update(block_digest)
    return {"sha256": digest.hexdigest(), "about": about}


def _block_digests(array: NDArray[Any]) -> Iterator[bytes]:
    """Yield the SHA-256 of each block of rows; features may be mapped and larger than memory."""
    rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))

    def digest(start: int) -> bytes:
        block = array[start : start + rows]
        data = np.ascontiguousarray(block, block.dtype.newbyteorder("<"))
        return hashlib.sha256(data.reshape(-1).view(np.uint8).data).digest()

    with ThreadPoolExecutor() as pool:  # hashing leaves the interpreter to other threads
        yield from pool.map(digest, range(0, len(array), rows))


def _feature_arrays(features: Any) -> dict[str, NDArray[Any]]:
    if features is None:
        return {}
    if not hasattr(features, "tocsr"):
        return {"features": np.asarray(features)}
    csr = features.tocsr()
    return {
        "offsets": csr.indptr.astype(np.int64),
        "columns": csr.indices.astype(np.int64),
        "values": csr.data,
    }
