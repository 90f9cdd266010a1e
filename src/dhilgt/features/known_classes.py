"""Which classes a model with `label_inputs` may see: those of training nodes, found again by id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find


def training_classes(graph: Graph) -> NDArray[np.int64]:
    """Gives the class of each training node, -1 for all other nodes.

    Args:
        graph: With labels, and a mask of its training nodes.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], labels=[1, 0, 1])
        >>> training_classes(graph.with_nodes(masks={"train": np.array([True, True, False])}))
        array([ 1,  0, -1])
    """
    if graph.labels is None or "train" not in (graph.masks or {}):
        raise GraphError(
            "label_inputs needs the classes of training nodes, and the graph lacks "
            f"{'labels' if graph.labels is None else 'a mask of training nodes'}; pass them when "
            "you make it"
        )
    assert graph.masks is not None
    return np.where(graph.masks["train"], graph.labels, -1)


def carried_over(trained: Graph, other: Graph) -> NDArray[np.int64]:
    """Gives, for each node of another graph, its class if it was a training node; else -1.

    Nodes are matched by id. Whole numbers are no names, any graph has a node 7: where ids are
    numbers, the features must be the same too.

    Args:
        trained: As for `training_classes`.
        other: The graph to predict on. Its own labels are not looked at.
    """
    found = np.full(other.num_nodes, -1, np.int64)
    if trained.ids.are_text != other.ids.are_text:
        return found
    classes = training_classes(trained)
    old = np.flatnonzero(classes >= 0)
    at = find(other.node_ids, other.num_nodes, trained.nodes[old])
    old, at = old[at >= 0], at[at >= 0]
    if not other.ids.are_text:
        same = _same_rows(trained.features, old, other.features, at)
        old, at = old[same], at[same]
    found[at] = classes[old]
    return found


def _same_rows(
    first: Any, rows: NDArray[np.int64], second: Any, others: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Says of each pair of rows whether both hold the same numbers."""
    differ = first[rows] != second[others]
    if hasattr(differ, "tocsr"):
        return np.asarray(np.diff(differ.tocsr().indptr) == 0)
    return np.asarray(~np.asarray(differ).any(axis=1))
