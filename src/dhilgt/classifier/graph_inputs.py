"""Graphs as users pass them: a `Graph` or a PyG `Data`, and hints for what is neither."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph import convert
from dhilgt.graph.graph import Graph
from dhilgt.utils.checks import as_array


def is_graph(data: Any) -> bool:
    """Return whether this is a `Graph` or a PyG `Data`, rather than an array.

    Raises:
        GraphError: For what holds graphs in another way; the message names the way to one.

    Example:
        >>> is_graph(Graph.from_edges([0], [1])), is_graph([[0.5, 1.0]])
        (True, False)
    """
    if isinstance(data, Graph):
        return True
    _refuse_other_graphs(data)
    return hasattr(data, "edge_index")


def as_graph(data: Any, *, directed: bool = False, split: int = 0, classes: bool = True) -> Graph:
    """Return the graph of a `Graph` or of a PyG `Data`.

    Args:
        data: What the user passed.
        directed: Whether edges of a `Data` keep their direction.
        split: Column of masks with several splits.
        classes: Whether to take classes and masks of a `Data` too.
    """
    if isinstance(data, Graph):
        return data
    return convert.from_pyg(data, split, directed=directed, classes=classes)


def same_nodes(one: Graph, other: Graph) -> bool:
    """Return whether two graphs have the same edges, ids and features, so the same predictions."""
    return one is other or (
        one.num_nodes == other.num_nodes
        and one.num_edges == other.num_edges
        and np.array_equal(one.nodes, other.nodes)
        and _equal(one.features, other.features)
        and one.fingerprint == other.fingerprint
    )


def scored_split(data: Any, test: NDArray[np.int64] | None, num_nodes: int) -> int:
    """Return the column of a `Data`'s masks that has the test nodes of the training.

    Args:
        data: A `Graph` or a PyG `Data`.
        test: Indices of these nodes, where there were any.
        num_nodes: Of the graph of the training. Of a graph of another size it is the first column.

    Raises:
        GraphError: If no column has them: a score would be of nodes that were trained on.
    """
    mask = None if isinstance(data, Graph) else getattr(data, "test_mask", None)
    if mask is None or as_array(mask).ndim != 2 or len(mask) != num_nodes:
        return 0
    columns = as_array(mask).T
    for split, column in enumerate(columns):
        if test is not None and np.array_equal(np.flatnonzero(column), test):
            return split
    raise GraphError(
        f"test_mask has {len(columns)} splits, and none has the test nodes of this training; "
        "pass the nodes to score, as in score(data.test_mask[:, 3])"
    )


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if one is None or other is None or one.shape != other.shape:
        return False
    if hasattr(one, "tocsr") != hasattr(other, "tocsr"):
        return False
    return (one != other).nnz == 0 if hasattr(one, "tocsr") else np.array_equal(one, other)


def _refuse_other_graphs(data: Any) -> None:
    """Raise for objects of PyG and NetworkX that are not one homogeneous graph with features."""
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        raise GraphError(
            f"a {type(data).__name__} has several types of nodes, and nodes of one type are "
            "classified; pass data.to_homogeneous()"
        )
    if hasattr(data, "is_directed") and hasattr(data, "adj"):
        raise GraphError(
            f"a {type(data).__name__} of NetworkX does not say which attributes of its nodes are "
            "features; pass dhilgt.Graph.from_networkx(graph, features=[...], labels=...) with the "
            "names of attributes"
        )
    several = isinstance(data, (list, tuple)) and len(data) > 0
    if several and (isinstance(data[0], Graph) or hasattr(data[0], "edge_index")):
        raise GraphError(
            f"a {type(data).__name__} of {len(data)} graphs; pass one graph, or several as one: "
            "torch_geometric.data.Batch.from_data_list(graphs)"
        )
    pyg = sys.modules.get("torch_geometric.data")
    if pyg is not None and isinstance(data, pyg.Dataset):
        raise GraphError(
            f"a {type(data).__name__} is a dataset of {len(data)} graph"
            f"{'' if len(data) == 1 else 's'}; pass one of them: dataset[0]"
        )
    # One of SciPy's sparse matrices is a dict, too.
    if isinstance(data, Mapping) and not hasattr(data, "tocsr"):
        raise GraphError("a dict is neither a graph nor features; pass a Graph, a Data or an array")
