"""A graph with further nodes: their ids, features and edges, joined to the graph on hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph import checks
from dhilgt.graph.build import assemble
from dhilgt.graph.checks import IdArray
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find, nearest, plain_value
from dhilgt.utils.checks import num_threads


def grown_graph(
    graph: Graph,
    src: IdArray,
    dst: IdArray,
    nodes: IdArray,
    features: Any = None,
    *,
    threads: int | None = None,
) -> Graph:
    """Return a graph with further nodes and edges; labels and masks are left out.

    Args:
        graph: The graph before.
        src: Ids of the first ends of the new edges, which may join new nodes and old ones.
        dst: Ids of the other ends.
        nodes: Ids of the new nodes, of the same type as the graph's.
        features: A row for each of them, an array or a SciPy sparse matrix; None leaves all
            features out.
        threads: Number of threads; None for all.

    Raises:
        GraphError: If a new node exists already or is listed twice, an end of an edge is neither a
            node of the graph nor a new one, or the features have another width.

    Example:
        >>> graph = Graph.from_edges(["ann", "bob"], ["bob", "eve"], features=[[1.0], [2.0], [3.0]])
        >>> src, dst, nodes = (np.array([name], object) for name in ("dan", "eve", "dan"))
        >>> grown = grown_graph(graph, src, dst, nodes, np.array([[9.0]]))
        >>> grown.nodes.tolist(), grown.features[:, 0].tolist()
        (['ann', 'bob', 'dan', 'eve'], [1.0, 2.0, 9.0, 3.0])
    """
    _check_new(graph, nodes)
    before = graph.nodes
    together = np.concatenate([before, nodes]) if len(nodes) else before
    order = np.argsort(together, kind="stable")
    node_ids = together[order]
    count = checks.num_nodes(len(node_ids), name="number of ids")
    place = np.empty(count, np.int64)  # in the grown graph, of old nodes and then of new ones
    place[order] = np.arange(count)
    ends = [_places(graph, ids, nodes) for ids in (src, dst)]
    old = graph.to_edge_index()
    sources, targets = (
        place[np.concatenate([was, new])] for was, new in zip(old, ends, strict=True)
    )
    parts = assemble(
        sources,
        targets,
        count,
        directed=graph.directed,
        node_ids=node_ids,
        rows=None,
        features=None if features is None else _joined(graph.features, features, order),
        labels=None,
        masks=None,
        threads=num_threads(threads),
    )
    columns = None if features is None else graph.feature_columns
    return Graph(replace(parts, feature_columns=columns))


def _check_new(graph: Graph, nodes: IdArray) -> None:
    if len(nodes) and (nodes.dtype == object) != graph.ids.are_text:
        kind = "strings" if graph.ids.are_text else "integers"
        raise GraphError(
            f"the id {plain_value(nodes[0])!r} of a new node is of another type than those of the "
            f"graph, which are {kind}; convert one side",
            argument="features",
        )
    known = np.flatnonzero(find(graph.node_ids, graph.num_nodes, nodes) >= 0)
    if known.size:
        raise GraphError(
            f"{plain_value(nodes[known[0]])!r} is a node of the graph already ({known.size:,} such "
            "nodes); leave out the rows of old nodes, or pass the whole grown graph to change them",
            argument="features",
        )
    distinct, counts = np.unique(nodes, return_counts=True)
    if (counts > 1).any():
        twice = plain_value(distinct[counts > 1][0])
        raise GraphError(
            f"the new node {twice!r} is listed twice; keep one of its rows", argument="features"
        )


def _places(graph: Graph, ids: IdArray, nodes: IdArray) -> NDArray[np.int64]:
    """Return indices of old nodes, and for new ones the number of old nodes + their place."""
    if len(ids) and (ids.dtype == object) != graph.ids.are_text:
        kind = "strings" if graph.ids.are_text else "integers"
        raise GraphError(
            f"the id {plain_value(ids[0])!r} in a new edge is of another type than those of the "
            f"graph, which are {kind}; convert one side"
        )
    at = find(graph.node_ids, graph.num_nodes, ids)
    unknown = np.flatnonzero(at < 0)
    if not unknown.size:
        return at
    order = np.argsort(nodes, kind="stable")
    found = np.full(len(unknown), -1)
    if len(nodes):
        found = find(nodes[order], len(nodes), ids[unknown])
    for missing in unknown[found < 0][:1].tolist():
        value = plain_value(ids[missing])
        near = ", ".join(map(repr, nearest(graph.node_ids, graph.num_nodes, value)))
        raise GraphError(
            f"{value!r} in a new edge is not a node of the graph (nearest: {near}), and no row of "
            "features makes it a new one; add its row, or correct the id"
        )
    at[unknown] = graph.num_nodes + order[found]
    return at


def _joined(before: Any, rows: Any, order: NDArray[np.int64]) -> Any:
    """Return the features of old and new nodes in the order of the grown graph."""
    if before is None:
        raise GraphError("the graph has no features, so new nodes cannot have any; leave them out")
    if rows.shape[1] != before.shape[1]:
        raise GraphError(
            f"new nodes have {rows.shape[1]:,} features, those of the graph {before.shape[1]:,}; "
            "pass the same ones",
            argument="features",
        )
    if not hasattr(before, "tocsr"):
        dense = rows.toarray() if hasattr(rows, "tocsr") else np.asarray(rows, np.float32)
        return np.concatenate([before, dense])[order]
    import scipy.sparse

    added = scipy.sparse.csr_array(rows, dtype=np.float32)
    return scipy.sparse.vstack([before, added], format="csr")[order]
