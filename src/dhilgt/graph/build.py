"""The parts of a graph, checked and put together."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, warn
from dhilgt.graph import checks, node_ids
from dhilgt.graph.checks import IdArray


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What was changed on the way from the input to the graph.

    Attributes:
        self_loops: Input edges from a node to itself, all dropped.
        duplicates: Other input edges whose ordered pair (source, target) had been seen before.
        reversed_added: Edges (v, u) that the input held only as (u, v); 0 for directed graphs.
    """

    self_loops: int = 0
    duplicates: int = 0
    reversed_added: int = 0

    def __str__(self) -> str:
        parts = [
            f"{count:,} {what}{'' if count == 1 else 's'} {done}"
            for count, what, done in (
                (self.self_loops, "self-loop", "removed"),
                (self.duplicates, "duplicate edge", "merged"),
                (self.reversed_added, "reverse edge", "added"),
            )
            if count
        ]
        return ("; ".join(parts) if parts else "nothing to clean") + "."


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a graph holds; arrays are read-only. See `Graph` for what they mean."""

    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    directed: bool
    cleaning: Cleaning
    node_ids: IdArray | None
    features: Any
    labels: NDArray[np.int64] | None
    class_names: tuple[str, ...] | None
    masks: Mapping[str, NDArray[np.bool_]] | None
    name: str | None = None

    def __post_init__(self) -> None:
        masks = () if self.masks is None else tuple(self.masks.values())
        for array in (self.offsets, self.targets, self.node_ids, self.labels, *masks):
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies travel to other processes; a read-only view of masks does not by itself."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["masks"] = None if self.masks is None else dict(self.masks)
        return _restored, tuple(values.values())


def _restored(*values: Any) -> Parts:
    named: dict[str, Any] = dict(zip([one.name for one in fields(Parts)], values, strict=True))
    if named["masks"] is not None:
        named["masks"] = MappingProxyType(named["masks"])
    return Parts(**named)


def assemble(
    sources: NDArray[Any],
    targets: NDArray[Any],
    count: int,
    *,
    directed: bool,
    names: IdArray | None,
    rows: NDArray[np.int64] | None,
    features: Any,
    labels: Any,
    masks: Mapping[str, Any] | None,
    threads: int,
) -> Parts:
    """Checks what is said of the nodes, then cleans the edges.

    Args:
        sources: Indices of the ends of edges.
        targets: The other ends.
        count: Number of nodes.
        directed: Keep the direction.
        names: Ids in ascending order, or None.
        rows: The user's row of node i, if it is not i.
        features: As the user gave them, like labels and masks.
        labels: See features.
        masks: See features.
        threads: Threads for the native part.
    """
    if names is not None and node_ids.is_plain(names):
        names = None
    x = None if features is None else checks.features(features, count)
    classes, class_names = None, None
    if isinstance(labels, Mapping):
        classes, class_names = checks.labels(node_ids.labels_by_id(labels, names, count), count)
        if rows is not None:
            classes = classes[np.argsort(rows)]  # to the user's rows, as all else here
    elif labels is not None:
        classes, class_names = checks.labels(labels, count)
    split = None if masks is None else checks.masks(masks, count, classes)
    if rows is not None:
        x = None if x is None else checks.features(x[rows], count)
        classes = None if classes is None else classes[rows]
        split = None if split is None else {name: mask[rows] for name, mask in split.items()}
    try:
        offsets, neighbors, loops, again, added = _native.build_csr(
            sources, targets, count, directed, threads
        )
    except ValueError as error:
        raise GraphError(str(error)) from error
    cleaning = Cleaning(loops, again, added)
    if loops or again:
        warn(f"the input was cleaned: {cleaning}")
    return Parts(
        offsets=offsets,
        targets=neighbors,
        directed=directed,
        cleaning=cleaning,
        node_ids=names,
        features=x,
        labels=classes,
        class_names=class_names,
        masks=None if split is None else MappingProxyType(split),
    )


def checked_data(
    parts: Parts, features: Any, labels: Any, masks: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Gives features, labels, class names and masks, checked; None keeps what is there."""
    count = len(parts.offsets) - 1
    x = parts.features if features is None else checks.features(features, count)
    classes, class_names = parts.labels, parts.class_names
    if labels is not None:
        if isinstance(labels, Mapping):
            labels = node_ids.labels_by_id(labels, parts.node_ids, count)
        classes, class_names = checks.labels(labels, count)
    split = parts.masks
    if masks is not None:
        split = MappingProxyType(checks.masks(masks, count, classes))
    elif split is not None and labels is not None:
        checks.masks(split, count, classes)  # they may select nodes unlabelled by now
    return {"features": x, "labels": classes, "class_names": class_names, "masks": split}
