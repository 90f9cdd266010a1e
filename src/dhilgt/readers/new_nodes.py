"""New nodes of a graph on hand, from only their rows of features and their edges."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, argument
from dhilgt.graph import checks
from dhilgt.graph.checks import IdArray
from dhilgt.graph.graph import Graph
from dhilgt.graph.growth import grown_graph
from dhilgt.graph.node_ids import as_objects, find
from dhilgt.readers import files, node_lists
from dhilgt.readers.edge_text import EdgeTextOptions, read_pairs
from dhilgt.readers.node_match import NodeTable
from dhilgt.utils.checks import as_array, num_threads


def graph_with_new_nodes(
    graph: Graph,
    edges: Any = None,
    features: Any = None,
    *,
    nodes: Any = None,
    separator: str | None = None,
    header: bool | None = None,
    columns: Sequence[str | int] | None = None,
    ignore_weights: bool = False,
    threads: int | None = None,
) -> Graph:
    """Return a graph with new nodes, from their features and edges; see `grown_graph`.

    Args:
        graph: The graph before.
        edges: The new edges: two arrays of ids, or a file of edges. They join new nodes to old
            ones and to each other; a new node without an edge is allowed.
        features: The rows of the new nodes: a table with a column of ids, or an array or its file.
            None: the ids of the edges that the graph does not have are the new nodes, and the
            result has no features.
        nodes: Ids of the rows of an array; by default those that follow 0 to n - 1.
        separator: Of a file of edges, as for `Graph.read`; so are the next three.
        header: Whether its first line is a header.
        columns: Its two columns.
        ignore_weights: Skip further columns.
        threads: Number of threads; None for all.

    Raises:
        GraphError: If something does not fit the graph; the message names it.
    """
    rows = None
    if features is not None:  # the smaller file first: its errors need not wait
        ids, rows = _new_rows(graph, features, nodes)
    if edges is None:
        src = dst = _no_ids(graph)
    elif isinstance(edges, (str, PathLike)):
        options = EdgeTextOptions(
            path=files.check_file(edges),
            separator=separator,
            header=header,
            columns=None if columns is None else (columns[0], columns[1]),
            ignore_weights=ignore_weights,
            integers_only=False,
            threads=num_threads(threads),
        )
        src, dst = _read_ends(graph, options)
    else:
        src, dst = checks.edges(*_pair(edges))
    if features is None:
        ids = _unknown(graph, src, dst)
    return grown_graph(graph, src, dst, ids, rows, threads=threads)


def new_ids(graph: Graph, grown: Graph) -> IdArray:
    """Return the ids of a grown graph that the graph before does not have, ascending."""
    return grown.nodes[find(graph.node_ids, graph.num_nodes, grown.nodes) < 0]


# ---- features ----------------------------------------------------------------------------------


def _new_rows(graph: Graph, features: Any, nodes: Any) -> tuple[IdArray, Any]:
    """Return the ids of new nodes and their rows."""
    file = features if isinstance(features, (str, PathLike)) else None
    table = features if file is None else node_lists.read_features(file)
    if isinstance(table, NodeTable):
        ids = table.ids_like(graph.ids.are_text)
        table.refuse_repeats(ids)
        rows = table.values
    else:
        rows = table if hasattr(table, "tocsr") else as_array(table)
        place = "features" if file is None else str(file)
        if len(rows.shape) != 2:
            raise GraphError(f"{place} has shape {rows.shape}; pass one row per new node")
        ids = _ids_of_rows(graph, int(rows.shape[0]), nodes, place)
    return ids, checks.features(rows, len(ids))


def _ids_of_rows(graph: Graph, count: int, nodes: Any, place: str) -> IdArray:
    if nodes is not None:
        ids = checks.ids(nodes, "nodes")
        if len(ids) != count:
            raise GraphError(f"{place} has {count} rows for {len(ids)} nodes; pass one for each")
        return ids
    if graph.node_ids is not None:
        raise GraphError(
            f"{place} has no ids, and those of the graph are not 0 to {graph.num_nodes - 1:,}, so "
            f"its rows cannot be told apart; pass a table with a column of ids"
            f" or {argument('nodes', ...)}"
        )
    return np.arange(graph.num_nodes, graph.num_nodes + count)


# ---- edges -------------------------------------------------------------------------------------


def _pair(edges: Any) -> tuple[Any, Any]:
    pair = tuple(edges) if isinstance(edges, (tuple, list, np.ndarray)) else ()
    if len(pair) != 2:
        raise GraphError("edges are neither a file nor two arrays of ids; pass (src, dst)")
    return pair[0], pair[1]


def _read_ends(graph: Graph, options: EdgeTextOptions) -> tuple[IdArray, IdArray]:
    """Return both ends of the edges in a file, as strings or integers like the graph's ids.

    Text is read as strings: "007" is not "7" where ids are strings, whatever the other lines hold.
    """
    with files.opened(options.path, False) as stream:
        is_text = not stream.read(4).startswith((b"PAR1", b"PK"))
        if is_text:
            ends = read_pairs(stream, options)
    if not is_text:
        read = Graph.read(options.path, directed=True, columns=options.columns)
        ends = tuple(read.ids_of(end) for end in read.to_edge_index())
    if graph.ids.are_text:
        src, dst = (as_objects([str(value) for value in end.tolist()]) for end in ends)
    else:
        src, dst = (_integers(end.tolist(), options) for end in ends)
    return src, dst


def _integers(values: Sequence[Any], options: EdgeTextOptions) -> IdArray:
    numbers = []
    for value in values:
        try:
            # Programs that allow gaps write 7 as 7.0.
            numbers.append(int(str(value).removesuffix(".0")))
        except ValueError:
            raise GraphError(
                f"{options.path}: {value!r} is not the id of a node, those of the graph are "
                f"integers; correct it, or pass {argument('header', True)} if it is in a header"
            ) from None
    return np.array(numbers, np.int64)


def _unknown(graph: Graph, src: IdArray, dst: IdArray) -> IdArray:
    ids = np.unique(np.concatenate([src, dst])) if len(src) else _no_ids(graph)
    return ids[find(graph.node_ids, graph.num_nodes, ids) < 0]


def _no_ids(graph: Graph) -> IdArray:
    return np.empty(0, object if graph.ids.are_text else np.int64)
