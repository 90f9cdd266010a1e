"""What a file says about nodes, matched with a graph by their ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument, warn
from dhilgt.graph import node_ids
from dhilgt.graph.node_ids import NodeIds


@dataclass(frozen=True)
class NodeTable:
    """What a file says about nodes, by id.

    Attributes:
        file: The file.
        ids: Ids as the file has them: text, or integers from Parquet.
        values: One row (features) or one cell (anything else) per id.
        lines: Line of each id in a text file; None for Parquet, whose rows count from 0.
        columns: Names of the columns of features.
    """

    file: Path
    ids: Sequence[Any]
    values: Any
    lines: Sequence[int] | None = None
    columns: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Gives where a row is, for a message."""
        where = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.file}, {where}"

    def ids_like(self, text: bool) -> NDArray[Any]:
        """Gives the ids as strings or as integers, as those of the graph are."""
        if text:
            return node_ids.as_objects([str(value) for value in self.ids])
        return np.fromiter(
            (self._integer(row, value) for row, value in enumerate(self.ids)),
            np.int64,
            count=len(self.ids),
        )

    def _integer(self, row: int, value: Any) -> int:
        try:
            if isinstance(value, float):
                raise ValueError
            number = int(value)
        except ValueError:
            try:
                wide = float(value)  # programs that allow gaps write 7 as 7.0
            except ValueError:
                wide = float("nan")
            if not wide.is_integer():
                hint = "; if this line is a header, call the column of ids 'id'" if row == 0 else ""
                raise GraphError(
                    f"{self.place(row)}: {value!r} is not the id of a node, the ids of the graph "
                    f"are integers{hint}"
                ) from None
            number = int(wide)
        if not -(2**63) <= number < 2**63:
            raise GraphError(f"{self.place(row)}: the id {value} does not fit 64 bits")
        return number

    def nodes_of(self, ids: NodeIds) -> NDArray[np.int64]:
        """Gives the index of the node of each row; unknown and repeated ids are refused."""
        wanted = self.ids_like(ids.are_text)
        self.refuse_repeats(wanted)
        found = node_ids.find(ids.names, ids.count, wanted)
        for row in np.flatnonzero(found < 0)[:1].tolist():
            value = node_ids.plain_value(wanted[row])
            near = ", ".join(map(repr, node_ids.nearest(ids.names, ids.count, value)))
            head = " or, if this line is a header, name its columns id and label"
            raise GraphError(
                f"{self.place(row)}: {value!r} is not a node of the graph (nearest: {near}); "
                f"correct the id, remove the line, or list all nodes with {argument('nodes', ...)}"
                f"{head if row == 0 and ids.are_text else ''}"
            )
        return found

    def refuse_repeats(self, wanted: NDArray[Any]) -> None:
        """Refuses two rows for one id."""
        order = np.argsort(wanted, kind="stable")
        same = np.flatnonzero(wanted[order[1:]] == wanted[order[:-1]])
        if same.size:
            first, again = int(order[same[0]]), int(order[same[0] + 1])
            value = node_ids.plain_value(wanted[again])
            there = self.place(first).removeprefix(f"{self.file}, ")
            raise GraphError(
                f"{self.place(again)}: {value!r} has a row already ({there}); keep one of them"
            )


def features_of(table: NodeTable, ids: NodeIds) -> NDArray[np.float32]:
    """Gives the features of all nodes by index; a node without a row is refused."""
    at = table.nodes_of(ids)
    if len(at) < ids.count:
        bare = np.flatnonzero(np.bincount(at, minlength=ids.count) == 0)
        raise GraphError(
            f"{table.file} has {len(at):,} rows, but the graph has {ids.count:,} nodes: node "
            f"{ids.ids_of(int(bare[0]))!r} has no features ({bare.size:,} such nodes); add their "
            "rows, or take the nodes out of the edges"
        )
    out = np.empty(table.values.shape, np.float32)
    out[at] = table.values
    return out


def labels_of(table: NodeTable, ids: NodeIds) -> NDArray[Any]:
    """Gives the class of all nodes by index, None where the file has none."""
    out = np.full(ids.count, None, dtype=object)
    at = table.nodes_of(ids)
    for node, value in zip(at.tolist(), table.values, strict=True):
        out[node] = value
    return out


def masks_of(
    table: NodeTable, ids: NodeIds, labels: NDArray[np.int64] | None
) -> dict[str, NDArray[np.bool_]]:
    """Gives the masks that a split describes.

    Test nodes without a label are no part of the mask: there is nothing to compare with.
    """
    at = table.nodes_of(ids)
    masks: dict[str, NDArray[np.bool_]] = {}
    unscored = 0
    for row, (node, part) in enumerate(zip(at.tolist(), table.values, strict=True)):
        if part is None:
            continue
        mask = masks.setdefault(part, np.zeros(ids.count, np.bool_))
        if labels is None or labels[node] >= 0:
            mask[node] = True
        elif part == "test":
            unscored += 1
        else:
            raise GraphError(
                f"{table.place(row)}: node {ids.ids_of(node)!r} is in {part!r} and has no label; "
                "label it, or leave its part empty"
            )
    if unscored:
        warn(f"{table.file}: test nodes without a label: {unscored:,} (not scored)")
    return {name: mask for name, mask in masks.items() if name != "test" or mask.any()}
