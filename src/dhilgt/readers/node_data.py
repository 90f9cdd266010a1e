"""Features, classes and masks from files and frames, joined with a graph by the ids of rows."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, GraphWarning, argument, warn
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find
from dhilgt.graph.table import has_index_of_ids, is_frame
from dhilgt.readers import frames, node_lists, node_match, node_tables
from dhilgt.readers.node_match import NodeTable
from dhilgt.readers.node_tables import ColumnOptions
from dhilgt.readers.tables import Table
from dhilgt.readers.text_table import TextTable
from dhilgt.utils.checks import name_hint

AnyTable = Table | TextTable


def is_path(value: Any) -> bool:
    """Return whether a value names a file."""
    return isinstance(value, (str, PathLike))


def is_table(value: Any) -> bool:
    """Return whether a value is a table, or a frame or series whose rows have names or ids."""
    return (
        isinstance(value, (Table, TextTable))
        or is_frame(value)
        or (frames.is_series(value) and has_index_of_ids(value))
    )


@dataclass(frozen=True)
class NodeData:
    """Data of nodes as a user passes it, with the files read.

    Attributes:
        features: A table, or whatever `Graph.from_edges` takes.
        labels: Likewise.
        masks: Likewise.
        options: What the user says about the columns of tables.
    """

    features: Any = None
    labels: Any = None
    masks: Any = None
    options: ColumnOptions = node_tables.DEFAULT

    @classmethod
    def read(cls, features: Any, labels: Any, masks: Any, options: ColumnOptions) -> "NodeData":
        """Return the data with its files read; one file is read once.

        Args:
            features: A file, a frame, or an array.
            labels: Likewise, or a dict.
            masks: Likewise, or a dict of masks.
            options: How to read tables.
        """
        tables: list[tuple[Any, AnyTable]] = []

        def opened(value: Any, name: str, read: Callable[[Any, ColumnOptions], Any]) -> Any:
            if isinstance(value, (Table, TextTable)):
                tables.append((value.source, value))
                return value
            if not is_path(value) and not is_table(value):
                return value
            for source, table in tables:
                if _are_same(source, value):
                    return table
            table = read(value, options) if is_path(value) else frames.to_table(value, name)
            if isinstance(table, (Table, TextTable)):
                tables.append((value, table))
            return table

        data = cls(
            opened(features, "features", node_lists.read_features),
            opened(labels, "labels", node_lists.read_labels),
            opened(masks, "masks", lambda path, how: node_tables.open_table(path, "masks", how)),
            options,
        )
        data._check_id_column([table for _, table in tables])
        return data

    def _check_id_column(self, tables: list[AnyTable]) -> None:
        requested = self.options.id_column
        if requested is None or any(node_tables.has_column(one, requested) for one in tables):
            return
        names = [n for t in tables for n in (t.names if isinstance(t, Table) else t.first[1])]
        hint = name_hint(requested, names, f"their columns are {', '.join(names[:12])}")
        raise GraphError(f"{argument('id_column', requested)}: no table has such a column; {hint}")

    @property
    def arrays(self) -> dict[str, Any]:
        """What is no table, by argument of `Graph.from_edges`."""
        return {
            name: None if isinstance(value, (Table, TextTable)) else value
            for name, value in (
                ("features", self.features), ("labels", self.labels), ("masks", self.masks)
            )
        }  # fmt: skip

    def joined(
        self, build: Callable[[Any], Graph], *, nodes: Any = None, may_add: bool = True
    ) -> Graph:
        """Return the graph with the tables.

        Args:
            build: Returns the graph with `arrays` from the ids of all nodes; None for those of the
                edges, or for what the caller knows.
            nodes: The nodes in the order of rows without ids.
            may_add: Whether nodes with features and no edge become part of the graph.
        """
        graph = build(None)
        labels = split = None
        taken: dict[str, str] = {}
        if isinstance(self.labels, (Table, TextTable)):
            labels = node_tables.labels_of(self.labels, graph.ids, self.options)
            if self.labels is self.features:
                taken |= dict.fromkeys(labels.columns, "the class")
        if isinstance(self.masks, (Table, TextTable)):
            split = node_tables.split_of(self.masks, graph.ids, self.options)
            if self.masks is self.features:
                taken |= dict.fromkeys(split.columns, "the split")
        notes: list[str] = []
        if isinstance(self.features, (Table, TextTable)):
            table, encoding = node_tables.features_of(
                self.features,
                graph.ids,
                self.options,
                taken=taken,
                classes=() if labels is None else labels.columns,
            )
            if may_add and table.ids is not None:
                graph = _with_isolated(graph, table, build)
            matrix = node_match.features_of(table, graph.ids, nodes)
            graph = graph.with_data(features=matrix).with_nodes(feature_columns=encoding)
            notes += table.notes
        if labels is not None:
            graph = graph.with_data(labels=node_match.classes_of(labels, graph.ids, nodes))
            notes += labels.notes
        if split is not None:
            graph = graph.with_data(masks=node_match.masks_of(split, graph.ids, graph.labels))
            notes += split.notes
        return graph.with_notes(*dict.fromkeys(notes)) if notes else graph


def _are_same(one: Any, other: Any) -> bool:
    if is_path(one) and is_path(other):
        return Path(one).exists() and Path(other).exists() and Path(one).samefile(other)
    return one is other


def _with_isolated(graph: Graph, table: NodeTable, build: Callable[[Any], Graph]) -> Graph:
    """Return the graph with the nodes that have features and no edge."""
    ids = table.ids_like(graph.ids.are_text)
    table.refuse_repeats(ids)
    isolated = ids[find(graph.node_ids, graph.num_nodes, ids) < 0]
    if not isolated.size:
        return graph
    with warnings.catch_warnings():  # the first graph has warned about cleaning
        warnings.simplefilter("ignore", GraphWarning)
        graph = build(np.sort(np.concatenate([graph.nodes, isolated])))
    warn(
        f"{table.source}: nodes with features and no edge: {isolated.size:,} (kept, without "
        "neighbours)"
    )
    return graph


# ---- frames in Python --------------------------------------------------------------------------


def aligned_masks(masks: Any, graph: Graph) -> Any:
    """Return masks by index from a dict of masks, some of which may be series with ids."""
    if not isinstance(masks, Mapping):
        return masks
    return {name: _aligned(name, mask, graph) for name, mask in masks.items()}


def _aligned(name: str, mask: Any, graph: Graph) -> Any:
    if not (frames.is_series(mask) and has_index_of_ids(mask)):
        return mask
    values = np.asarray(mask.to_numpy())
    if values.dtype != np.bool_:
        raise GraphError(f"mask {name!r} is a series of {values.dtype}; pass booleans by id")
    result = np.zeros(graph.num_nodes, np.bool_)
    result[graph.index_of(mask.index.to_numpy())] = values
    return result


def from_edges(
    build: Callable[[Any, dict[str, Any]], Graph],
    *,
    features: Any,
    labels: Any,
    masks: Any,
    nodes: Any,
    may_add: bool,
) -> Graph:
    """Return the graph of `Graph.from_edges` with data of which some is in frames.

    Args:
        build: Returns the graph from the ids of all nodes, None for those passed, and the arrays.
        features: As for `Graph.from_edges`.
        labels: As for `Graph.from_edges`.
        masks: As for `Graph.from_edges`.
        nodes: The nodes in the order of rows without ids.
        may_add: Whether nodes with features and no edge become part of the graph.
    """
    split = None if isinstance(masks, Mapping) else masks
    data = NodeData.read(features, labels, split, node_tables.DEFAULT)
    graph = data.joined(lambda ids: build(ids, data.arrays), nodes=nodes, may_add=may_add)
    if isinstance(masks, Mapping):
        graph = graph.with_data(masks=aligned_masks(masks, graph))
    return graph


def with_data(graph: Graph, features: Any, labels: Any, masks: Any) -> Graph:
    """Return the graph of `Graph.with_data` with data of which some is in frames."""
    return from_edges(
        lambda ids, arrays: graph.with_data(**arrays),
        features=features,
        labels=labels,
        masks=masks,
        nodes=None,
        may_add=False,
    )


def node_ids_of(nodes: Any, comment: str | None = None) -> tuple[Any, tuple[str, ...]]:
    """Return the list of all ids from a file, a frame, a series, or what it is; and notes."""
    if is_path(nodes):
        return node_lists.nodes_and_notes(nodes, comment)
    if is_frame(nodes) or frames.is_series(nodes):
        return frames.as_ids(nodes), ()
    return nodes, ()
