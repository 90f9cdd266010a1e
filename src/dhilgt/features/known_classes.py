"""The classes that a model may see as inputs: those of training nodes, matched by id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find


def training_classes(graph: Graph) -> NDArray[np.int64]:
    """Return the class of each training node, -1 for all other nodes.

    Args:
        graph: A graph with classes and a mask of training nodes.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], labels=[1, 0, 1])
        >>> training_classes(graph.with_nodes(masks={"train": np.array([True, True, False])}))
        array([ 1,  0, -1])
    """
    if graph.labels is None or "train" not in (graph.masks or {}):
        raise GraphError(
            "classes as inputs are those of training nodes, and the graph lacks "
            f"{'labels' if graph.labels is None else 'a mask of training nodes'}; pass them when "
            "you make it"
        )
    assert graph.masks is not None
    return np.where(graph.masks["train"], graph.labels, -1)


def carried_over(trained: Graph, other: Graph) -> NDArray[np.int64]:
    """Return, for each node of another graph, its class if it was a training node; else -1.

    Args:
        trained: The graph of the training; see `training_classes`.
        other: The graph to predict on; see `matched_nodes`. Its own classes are ignored.
    """
    carried = np.full(other.num_nodes, -1, np.int64)
    classes = training_classes(trained)
    old = np.flatnonzero(classes >= 0)
    at = matched_nodes(trained, other, old)
    carried[at[at >= 0]] = classes[old[at >= 0]]
    return carried


def matched_nodes(trained: Graph, other: Graph, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index in another graph of some nodes of the trained one, -1 for those it lacks.

    Nodes are matched by id. Integer ids alone do not identify a node, since any graph can have a
    node 7: with them, the features must be equal too.

    Args:
        trained: The graph of the training.
        other: The graph to predict on.
        nodes: Node indices in `trained`.
    """
    if trained.ids.are_text != other.ids.are_text:
        return np.full(len(nodes), -1, np.int64)
    at = find(other.node_ids, other.num_nodes, trained.nodes[nodes])
    if not other.ids.are_text:
        there = np.flatnonzero(at >= 0)
        same = _equal_rows(trained.features, nodes[there], other.features, at[there])
        at[there[~same]] = -1
    return at


def _equal_rows(
    first: Any, rows: NDArray[np.int64], second: Any, others: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return for each pair of rows whether both hold the same numbers."""
    differ = first[rows] != second[others]
    if hasattr(differ, "tocsr"):
        return np.asarray(np.diff(differ.tocsr().indptr) == 0)
    return np.asarray(~np.asarray(differ).any(axis=1))
