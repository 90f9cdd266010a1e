"""The data of a graph, checked and assembled."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, warn
from dhilgt.graph import checks
from dhilgt.graph.checks import IdArray
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.node_ids import is_plain, labels_by_id


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Counts of the changes between the input and the graph.

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
            f"{count:,} {noun}{'' if count == 1 else 's'} {change}"
            for count, noun, change in (
                (self.self_loops, "self-loop", "removed"),
                (self.duplicates, "duplicate edge", "merged"),
                (self.reversed_added, "reverse edge", "added"),
            )
            if count
        ]
        return ("; ".join(parts) if parts else "nothing to clean") + "."


@dataclass(frozen=True, slots=True)
class Parts:
    """The data of a graph, in read-only arrays; see `Graph` for their meaning."""

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
    notes: tuple[str, ...] = ()
    feature_columns: FeatureColumns | None = None

    def __post_init__(self) -> None:
        masks = () if self.masks is None else tuple(self.masks.values())
        for array in (self.offsets, self.targets, self.node_ids, self.labels, *masks):
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies for other processes: a read-only view of a dict cannot be pickled."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["masks"] = None if self.masks is None else dict(self.masks)
        return _restored, (values,)


def _restored(values: dict[str, Any]) -> Parts:
    if values["masks"] is not None:
        values["masks"] = MappingProxyType(values["masks"])
    return Parts(**values)


def assemble(
    sources: NDArray[Any],
    targets: NDArray[Any],
    count: int,
    *,
    directed: bool,
    node_ids: IdArray | None,
    rows: NDArray[np.int64] | None,
    features: Any,
    labels: Any,
    masks: Mapping[str, Any] | None,
    threads: int,
) -> Parts:
    """Check the data of the nodes, clean the edges and return both.

    Args:
        sources: Indices of the first ends of the edges.
        targets: Indices of the other ends.
        count: Number of nodes.
        directed: Keep the direction of edges.
        node_ids: Ids of the nodes in ascending order; None for 0 to count - 1.
        rows: The row of node i in the user's arrays, if it is not i.
        features: Features, unchecked.
        labels: Classes by row or by id, unchecked.
        masks: Masks, unchecked.
        threads: Number of threads of the native core.
    """
    if node_ids is not None and is_plain(node_ids):
        node_ids = None
    x = None if features is None else checks.features(features, count)
    classes, class_names = None, None
    if isinstance(labels, Mapping):
        classes, class_names = checks.labels(labels_by_id(labels, node_ids, count), count)
        if rows is not None:
            classes = classes[np.argsort(rows)]  # to the user's rows, as features and masks
    elif labels is not None:
        classes, class_names = checks.labels(labels, count)
    split = None if masks is None else checks.masks(masks, count, classes)
    if rows is not None:
        x = None if x is None else checks.features(x[rows], count)
        classes = None if classes is None else classes[rows]
        split = None if split is None else {name: mask[rows] for name, mask in split.items()}
    try:
        offsets, neighbors, num_loops, num_duplicates, num_added = _native.build_csr(
            sources, targets, count, directed, threads
        )
    except ValueError as error:
        raise GraphError(str(error)) from error
    cleaning = Cleaning(num_loops, num_duplicates, num_added)
    if num_loops or num_duplicates:
        warn(f"the input was cleaned: {cleaning}")
    return Parts(
        offsets=offsets,
        targets=neighbors,
        directed=directed,
        cleaning=cleaning,
        node_ids=node_ids,
        features=x,
        labels=classes,
        class_names=class_names,
        masks=None if split is None else MappingProxyType(split),
    )


def checked_data(
    parts: Parts, features: Any, labels: Any, masks: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return checked features, classes, class names and masks; None keeps those of ``parts``.

    Other features have no columns that are known.
    """
    count = len(parts.offsets) - 1
    x = parts.features if features is None else checks.features(features, count)
    classes, class_names = parts.labels, parts.class_names
    if labels is not None:
        if isinstance(labels, Mapping):
            labels = labels_by_id(labels, parts.node_ids, count)
        classes, class_names = checks.labels(labels, count)
    split = parts.masks
    if masks is not None:
        split = MappingProxyType(checks.masks(masks, count, classes))
    elif split is not None and labels is not None:
        checks.masks(split, count, classes)  # a node in a mask may have no class any more
    return {
        "features": x,
        "feature_columns": parts.feature_columns if features is None else None,
        "labels": classes,
        "class_names": class_names,
        "masks": split,
    }
