"""Labels on disk: a checksummed folder of packed arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.graph.node_ids import NodeIds
from dhilgt.store.artifact import Artifact, ArtifactWriter

KIND = "labels"
FORMAT = 1
_FORMAT_WITH_RADIUS = 2  # so that a reader that takes all distances as exact refuses them

PackedSide = tuple[NDArray[np.uint64], NDArray[np.uint8]]  # offsets per rank, records


@dataclass(frozen=True)
class StoredLabels:
    """The content of the folder: packed sides (in, then out if directed), order and ids."""

    sides: list[PackedSide]
    order: NDArray[np.uint32]
    ids: NodeIds
    num_entries: int
    max_distance: int
    graph_fingerprint: str
    order_name: str | None = None  # see `HubLabels.order_name`
    grown_from: str | None = None  # fingerprint of the labels that these extend
    radius: int | None = None  # the largest distance kept; None for full labels
    check: Callable[[], None] | None = None  # of all bytes, where not all of them are checked


def save(path: "str | PathLike[str]", stored: StoredLabels, *, overwrite: bool) -> None:
    """Write labels, all or nothing."""
    params: dict[str, Any] = {
        "num_nodes": len(stored.order),
        "num_entries": stored.num_entries,
        "max_distance": stored.max_distance,
        "directed": len(stored.sides) == 2,
    }
    if stored.order_name is not None:
        params["order"] = stored.order_name
    if stored.grown_from is not None:
        params["grown_from"] = stored.grown_from
    if stored.radius is not None:
        params["radius"] = stored.radius
    arrays: dict[str, NDArray[Any]] = {"order": stored.order}
    for name, (offsets, records) in zip(("in", "out"), stored.sides, strict=False):
        arrays[f"{name}_offsets"] = offsets
        arrays[f"{name}_records"] = records
    arrays.update(stored.ids.to_arrays())
    with ArtifactWriter(
        path,
        kind=KIND,
        format_version=FORMAT if stored.radius is None else _FORMAT_WITH_RADIUS,
        params=params,
        fingerprint=stored.graph_fingerprint,
        overwrite=overwrite,
        need_bytes=sum(array.nbytes for array in arrays.values()),
    ) as writer:
        for name, array in arrays.items():
            writer.write_array(name, array)


def load(path: "str | PathLike[str]", *, verify: bool) -> StoredLabels:
    """Open labels; the packed sides stay mapped, and of large ones a sample is checked."""
    artifact = Artifact.open(path, kind=KIND, max_format=_FORMAT_WITH_RADIUS)
    if verify:
        artifact.verify()
    num_nodes = _whole_number(artifact, artifact.params, "num_nodes")
    names = ("in", "out") if artifact.params.get("directed") is True else ("in",)
    sides = []
    for name in names:
        offsets = artifact.array(f"{name}_offsets")
        records = artifact.array(f"{name}_records")
        if (
            offsets.dtype != np.uint64
            or offsets.shape != (num_nodes + 1,)
            or records.dtype != np.uint8
            or records.ndim != 1
        ):
            raise ArtifactError(f"{Path(path)}: {name}_offsets does not fit the nodes; build again")
        sides.append((np.asarray(offsets), np.asarray(records)))
    return stored_labels(artifact, sides, verified=verify)


def stored_labels(artifact: Artifact, sides: list[PackedSide], *, verified: bool) -> StoredLabels:
    """Return the content of an artifact of labels around its packed sides.

    Args:
        artifact: The artifact.
        sides: Its rows.
        verified: Whether all bytes are checked already.
    """
    params = artifact.params
    num_nodes = _whole_number(artifact, params, "num_nodes")
    order = artifact.array("order", mmap=False)
    if order.dtype != np.uint32 or order.shape != (num_nodes,) or not _is_permutation(order):
        raise ArtifactError(
            f"{artifact.path}: order is not a ranking of {num_nodes} nodes; build again"
        )
    stored_arrays = {
        name: artifact.array(name, mmap=False) for name in artifact.names if name.startswith("ids")
    }
    return StoredLabels(
        sides=sides,
        order=order,
        ids=NodeIds.from_arrays(stored_arrays, num_nodes),
        num_entries=_whole_number(artifact, params, "num_entries"),
        max_distance=_whole_number(artifact, params, "max_distance"),
        graph_fingerprint=artifact.fingerprint,
        order_name=_text_or_none(artifact, params, "order"),
        grown_from=_text_or_none(artifact, params, "grown_from"),
        radius=_whole_number(artifact, params, "radius") if "radius" in params else None,
        check=artifact.verify if artifact.is_large and not verified else None,
    )


def _whole_number(artifact: Artifact, params: dict[str, Any], name: str) -> int:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ArtifactError(f"{artifact.path}: {name} = {value!r} is not a number; build again")
    return value


def _text_or_none(artifact: Artifact, params: dict[str, Any], name: str) -> str | None:
    value = params.get(name)
    if value is not None and not isinstance(value, str):
        raise ArtifactError(f"{artifact.path}: {name} = {value!r} is not a text; build again")
    return value


def _is_permutation(order: NDArray[np.uint32]) -> bool:
    if len(order) == 0:
        return True
    return bool(order.max() < len(order)) and bool(
        (np.bincount(order, minlength=len(order)) == 1).all()
    )
