"""New nodes of a graph on hand, from only their rows of features and their edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument
from dhilgt.graph import checks
from dhilgt.graph.checks import IdArray
from dhilgt.graph.graph import Graph
from dhilgt.graph.growth import grown_graph
from dhilgt.graph.node_ids import as_objects, find
from dhilgt.graph.table import is_frame
from dhilgt.readers import files, frames, node_lists, node_tables, pipes
from dhilgt.readers.edge_layout import EdgeTextOptions
from dhilgt.readers.edge_text import read_pairs
from dhilgt.readers.node_tables import ColumnOptions
from dhilgt.readers.tables import Table
from dhilgt.readers.text_table import TextTable
from dhilgt.utils.checks import as_array, num_threads


@pipes.kept()
def graph_with_new_nodes(
    graph: Graph,
    edges: Any = None,
    features: Any = None,
    *,
    nodes: Any = None,
    separator: str | None = None,
    columns: Sequence[str | int] | None = None,
    ignore_weights: bool = False,
    options: ColumnOptions = node_tables.DEFAULT,
    threads: int | None = None,
) -> Graph:
    """Return a graph with new nodes, from their features and edges; see `grown_graph`.

    Args:
        graph: The graph before.
        edges: The new edges: two arrays of ids, a frame of two columns, or a file of edges. They
            join new nodes to old ones and to each other; a new node without an edge is allowed.
        features: The rows of the new nodes: a table or frame with a column of ids, encoded by the
            columns of the graph; or an array or its file. None: the ids of the edges that the
            graph does not have are the new nodes, and the result has no features.
        nodes: Ids of the rows of an array; by default those that follow 0 to n - 1.
        separator: Of a file of edges, as for `Graph.read`.
        columns: Its two columns.
        ignore_weights: Skip further columns.
        options: How tables, headers and comments are read.
        threads: Number of threads; None for all.

    Raises:
        GraphError: If something does not fit the graph; the message names it.
    """
    rows, notes = None, list[str]()
    if features is not None:  # the smaller file first: its errors need not wait
        ids, rows, notes = _new_rows(graph, features, nodes, options)
    if edges is None:
        src = dst = _no_ids(graph)
    elif isinstance(edges, (str, PathLike)):
        text = EdgeTextOptions(
            path=files.check_file(edges),
            separator=separator,
            header=options.header,
            columns=None if columns is None else (columns[0], columns[1]),
            ignore_weights=ignore_weights,
            integers_only=False,
            threads=num_threads(threads),
            comment=options.comment,
        )
        src, dst, decided = _read_ends(graph, text, _no_ids(graph) if rows is None else ids)
        notes += decided
    elif is_frame(edges):
        names, arrays = frames.edge_columns(edges)
        if len(names) != 2:
            raise GraphError(f"edges has {len(names)} columns ({', '.join(names)}); pass two")
        src, dst = checks.edges(*arrays)
    else:
        src, dst = checks.edges(*_pair(edges))
    if features is None:
        ids = _unknown(graph, src, dst)
    return grown_graph(graph, src, dst, ids, rows, threads=threads).with_notes(*notes)


def new_ids(graph: Graph, grown: Graph) -> IdArray:
    """Return the ids of a grown graph that the graph before does not have, ascending."""
    return grown.nodes[find(graph.node_ids, graph.num_nodes, grown.nodes) < 0]


# ---- features ----------------------------------------------------------------------------------


def _new_rows(
    graph: Graph, features: Any, nodes: Any, options: ColumnOptions
) -> tuple[IdArray, Any, list[str]]:
    """Return the ids of new nodes, their rows, and notes about the table."""
    file = features if isinstance(features, (str, PathLike)) else None
    place = "features" if file is None else str(file)
    table = features
    if file is not None:
        table = node_lists.read_features(file, options)
    elif is_frame(features):
        table = frames.to_table(features, place)
    if isinstance(table, (Table, TextTable)):
        by_model = graph.feature_columns or options.feature_columns
        found, _ = node_tables.features_of(table, None, replace(options, feature_columns=by_model))
        if found.ids is not None:
            ids = found.ids_like(graph.ids.are_text)
            found.refuse_repeats(ids)
            return ids, checks.features(found.values, len(ids)), list(found.notes)
        table = found.values
    rows = table if hasattr(table, "tocsr") else as_array(table)
    if len(rows.shape) != 2:
        raise GraphError(f"{place} has shape {rows.shape}; pass one row per new node")
    ids = _ids_of_rows(graph, int(rows.shape[0]), nodes, place)
    return ids, checks.features(rows, len(ids)), []


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


def _read_ends(
    graph: Graph, options: EdgeTextOptions, new: IdArray
) -> tuple[IdArray, IdArray, tuple[str, ...]]:
    """Return both ends of the edges in a file, like the graph's ids, and notes.

    Text is read as strings: "007" is not "7" where ids are strings, whatever the other lines hold.
    """
    known_texts = {str(value) for value in [*graph.nodes.tolist(), *new.tolist()]}

    def is_known(ids: IdArray) -> NDArray[np.bool_]:
        return np.array([str(value) in known_texts for value in ids.tolist()], np.bool_)

    notes: tuple[str, ...] = ()
    with files.opened(options.path, False) as stream:
        is_text = not stream.read(4).startswith((b"PAR1", b"PK"))
        if is_text:
            pairs = read_pairs(stream, options, is_known)
            ends, notes = (pairs.sources, pairs.targets), pairs.notes
    if not is_text:
        read = Graph.read(options.path, directed=True, columns=options.columns)
        ends = tuple(read.ids_of(end) for end in read.to_edge_index())
    if graph.ids.are_text:
        src, dst = (as_objects([str(value) for value in end.tolist()]) for end in ends)
    else:
        src, dst = (_integers(end.tolist(), options) for end in ends)
    return src, dst, notes


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
