"""Tables about nodes, matched with a graph by the ids of their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument, warn
from dhilgt.graph.node_ids import NodeIds, as_objects, find, nearest, plain_value


@dataclass(frozen=True)
class NodeTable:
    """A table with one row per node.

    Attributes:
        source: What messages call it: a path, or the name of an argument.
        ids: Ids of the rows: text, or integers of a typed table; None if the rows are those of the
            nodes in order.
        values: A row of features or a single cell per id.
        lines: Line of each id in a text file; None for others, whose rows count from 0.
        columns: Names of the columns of features, or of the one column.
        notes: Decisions made while it was read.
    """

    source: str
    ids: Sequence[Any] | None
    values: Any
    lines: Sequence[int] | None = None
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Return the table and line of a row, for a message."""
        line = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.source}, {line}"

    def ids_like(self, text: bool) -> NDArray[Any]:
        """Return the ids as strings or as integers, like those of the graph."""
        ids = self.ids or ()
        if text:
            return as_objects([str(value) for value in ids])
        return np.fromiter(
            (self._integer(row, value) for row, value in enumerate(ids)), np.int64, count=len(ids)
        )

    def _integer(self, row: int, value: Any) -> int:
        try:
            if isinstance(value, float):
                raise ValueError
            number = int(value)
        except ValueError:
            try:
                real = float(value)  # programs that allow gaps write 7 as 7.0
            except ValueError:
                real = float("nan")
            if not real.is_integer():
                hint = "; if this line is a header, call the column of ids 'id'" if row == 0 else ""
                raise GraphError(
                    f"{self.place(row)}: {value!r} is not the id of a node, the ids of the graph "
                    f"are integers{hint}"
                ) from None
            number = int(real)
        if not -(2**63) <= number < 2**63:
            raise GraphError(f"{self.place(row)}: the id {value} does not fit 64 bits")
        return number

    def nodes_of(self, ids: NodeIds) -> NDArray[np.int64]:
        """Return the index of the node of each row; raise for unknown and repeated ids."""
        row_ids = self.ids_like(ids.are_text)
        self.refuse_repeats(row_ids)
        nodes = find(ids.node_ids, ids.count, row_ids)
        for row in np.flatnonzero(nodes < 0)[:1].tolist():
            value = plain_value(row_ids[row])
            near = ", ".join(map(repr, nearest(ids.node_ids, ids.count, value)))
            hint = f", or pass {argument('header', True)} if this line is a header"
            raise GraphError(
                f"{self.place(row)}: {value!r} is not a node of the graph (nearest: {near}); "
                f"correct the id, remove the line, or list all nodes with {argument('nodes', ...)}"
                f"{hint if row == 0 and ids.are_text else ''}"
            )
        return nodes

    def refuse_repeats(self, row_ids: NDArray[Any]) -> None:
        """Raise if two rows have the same id."""
        order = np.argsort(row_ids, kind="stable")
        same = np.flatnonzero(row_ids[order[1:]] == row_ids[order[:-1]])
        if same.size:
            first, again = int(order[same[0]]), int(order[same[0] + 1])
            value = plain_value(row_ids[again])
            line = self.place(first).removeprefix(f"{self.source}, ")
            raise GraphError(
                f"{self.place(again)}: {value!r} has a row already ({line}); keep one of them"
            )


def features_of(table: NodeTable, ids: NodeIds, listed: Any = None) -> NDArray[np.float32]:
    """Return the features of all nodes by index; raise if a node has no row."""
    nodes = rows_of(table, ids, listed)
    if len(nodes) < ids.count:
        missing = np.flatnonzero(np.bincount(nodes, minlength=ids.count) == 0)
        raise GraphError(
            f"{table.source} has {len(nodes):,} rows, but the graph has {ids.count:,} nodes: node "
            f"{ids.ids_of(int(missing[0]))!r} has no features ({missing.size:,} such nodes); add "
            "their rows, or take the nodes out of the edges"
        )
    features = np.empty(table.values.shape, np.float32)
    features[nodes] = table.values
    return features


def rows_of(table: NodeTable, ids: NodeIds, listed: Any = None) -> NDArray[np.int64]:
    """Return the index of the node of each row: by id, or the nodes in order.

    Args:
        table: The table.
        ids: Ids of the graph.
        listed: The nodes in the order of the rows of a table without ids; None for ascending ids.
    """
    if table.ids is not None:
        return table.nodes_of(ids)
    count = len(table.values)
    if count != ids.count:
        raise GraphError(
            f"{table.source} has {count:,} rows and no ids, but the graph has {ids.count:,} nodes; "
            f"give one row per node, or name the column of ids with {argument('id_column', ...)}"
        )
    if listed is None:
        return np.arange(count)
    return np.asarray(ids.index_of(listed), np.int64)


def classes_of(table: NodeTable, ids: NodeIds, listed: Any = None) -> NDArray[Any]:
    """Return the classes of all nodes by index, None for nodes without one in the table."""
    classes = np.full(ids.count, None, dtype=object)
    for node, value in zip(rows_of(table, ids, listed).tolist(), table.values, strict=True):
        classes[node] = value
    return classes


def masks_of(
    table: NodeTable, ids: NodeIds, classes: NDArray[np.int64] | None
) -> dict[str, NDArray[np.bool_]]:
    """Return the masks of a split.

    Test nodes without a class are left out of the mask: they cannot be scored.
    """
    nodes = table.nodes_of(ids).tolist()
    masks: dict[str, NDArray[np.bool_]] = {}
    unscored = 0
    for row, (node, part) in enumerate(zip(nodes, table.values, strict=True)):
        if part is None:
            continue
        mask = masks.setdefault(part, np.zeros(ids.count, np.bool_))
        if classes is None or classes[node] >= 0:
            mask[node] = True
        elif part == "test":
            unscored += 1
        else:
            raise GraphError(
                f"{table.place(row)}: node {ids.ids_of(node)!r} is in {part!r} and has no label; "
                "label it, or leave its part empty"
            )
    if unscored:
        warn(f"{table.source}: test nodes without a label: {unscored:,} (not scored)")
    return {name: mask for name, mask in masks.items() if name != "test" or mask.any()}
