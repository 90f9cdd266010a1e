"""The graph as message passing uses it: edges in both directions, and dense features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.errors import MemoryLimitError
from dhilgt.graph.graph import Graph
from dhilgt.utils.memory import available_bytes, format_bytes

KINDS = ("symmetric", "row", "ones")


@dataclass(frozen=True)
class CleanGraph:
    """An undirected graph without duplicate edges, in compressed rows.

    Attributes:
        offsets: Where the neighbours of each node begin, [n + 1] int64.
        targets: Neighbours, ascending for each node, [m] int64.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.Graph.from_edges([0, 1], [1, 2], num_nodes=4, directed=True)
        >>> clean = CleanGraph.of(graph)
        >>> clean.offsets.tolist(), clean.targets.tolist()
        ([0, 2, 5, 7, 8], [0, 1, 0, 1, 2, 1, 2, 3])
        >>> clean.induced(np.array([1, 2])).targets.tolist()
        [0, 1, 0, 1]
    """

    offsets: NDArray[np.int64]
    targets: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, *, self_loops: bool = True) -> CleanGraph:
        """Return the edges of a graph in both directions, with one loop per node or none."""
        n = graph.num_nodes
        offsets, targets = np.asarray(graph.offsets), np.asarray(graph.targets, np.int64)
        if graph.directed:
            sources = np.repeat(np.arange(n), np.diff(offsets))
            keys = distinct(np.concatenate([sources * n + targets, targets * n + sources]))
            offsets, targets = row_offsets(keys // n, n), keys % n
        bare = cls(offsets, targets)
        return bare.with_loops() if self_loops else bare

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.offsets) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of entries of each row; a loop counts once."""
        return np.diff(self.offsets)

    def sources(self) -> NDArray[np.int64]:
        """Return the row of each entry of `targets`."""
        return np.repeat(np.arange(self.num_nodes), self.degrees)

    def with_loops(self) -> CleanGraph:
        """Return the graph with a loop per node; this one must have none."""
        n, sources = self.num_nodes, self.sources()
        after = self.targets > sources
        targets = np.empty(len(sources) + n, np.int64)
        targets[np.arange(len(sources)) + sources + after] = self.targets
        below = np.bincount(sources[~after], minlength=n)
        targets[self.offsets[:-1] + np.arange(n) + below] = np.arange(n)
        return CleanGraph(self.offsets + np.arange(n + 1), targets)

    def induced(self, nodes: NDArray[np.int64]) -> CleanGraph:
        """Return the edges among some nodes, which are renumbered by their place in `nodes`.

        Rows are ascending if `nodes` is.
        """
        place = np.full(self.num_nodes, -1, np.int64)
        place[nodes] = np.arange(len(nodes))
        starts, neighbours = rows_of(self.offsets, self.targets, nodes)
        targets = place[neighbours]
        kept = targets >= 0
        rows = np.repeat(np.arange(len(nodes)), np.diff(starts))[kept]
        return CleanGraph(row_offsets(rows, len(nodes)), targets[kept])

    def adjacency(self, kind: str = "symmetric") -> SparseMatrix:
        """Return the adjacency matrix.

        Args:
            kind: "symmetric" (D^-1/2 A D^-1/2), "row" (D^-1 A) or "ones" (A). D counts the
                entries of rows, loops included; a row without entries stays empty.
        """
        if kind not in KINDS:
            raise ValueError(f"kind = {kind!r}; choose {', '.join(map(repr, KINDS))}")
        degrees = np.maximum(self.degrees, 1).astype(np.float64)
        if kind == "symmetric":
            roots = degrees**-0.5
            values = np.repeat(roots, self.degrees) * roots[self.targets]
        elif kind == "row":
            values = np.repeat(1.0 / degrees, self.degrees)
        else:
            values = np.ones(len(self.targets))
        return SparseMatrix.from_numpy(self.offsets, self.targets, values, symmetric=kind != "row")


def row_offsets(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return where each of `count` rows begins, [count + 1], from the row of each entry.

    Example:
        >>> row_offsets(np.array([0, 0, 2]), 3)
        array([0, 2, 2, 3])
    """
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])


def rows_of(
    offsets: NDArray[np.int64], targets: NDArray[Any], nodes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return some rows of a compressed matrix, as offsets and targets.

    Example:
        >>> rows_of(np.array([0, 2, 3]), np.array([5, 6, 7]), np.array([1, 0]))
        (array([0, 1, 3]), array([7, 5, 6]))
    """
    counts = offsets[nodes + 1] - offsets[nodes]
    starts = np.concatenate([[0], np.cumsum(counts)])
    at = np.arange(starts[-1]) + np.repeat(offsets[nodes] - starts[:-1], counts)
    return starts, targets[at]


def ascending(keys: NDArray[Any]) -> NDArray[Any]:
    """Return integers in ascending order, in a third of the time that NumPy takes.

    Example:
        >>> ascending(np.array([3, 1, 3]))
        array([1, 3, 3])
    """
    ordered: NDArray[Any] = torch.from_numpy(keys).sort().values.numpy()
    return ordered


def distinct(keys: NDArray[Any]) -> NDArray[Any]:
    """Return the different ones of some integers in ascending order.

    Example:
        >>> distinct(np.array([3, 1, 3]))
        array([1, 3])
    """
    return first_of_each(ascending(keys), 0)


def first_of_each(ordered: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return the first of each run of integers in ascending order that differ in low bits only.

    Example:
        >>> first_of_each(np.array([4, 5, 9]), bits=2)
        array([4, 9])
    """
    keys = ordered >> bits
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return ordered[is_first]


def dense_features(graph: Graph) -> Tensor:
    """Return the features of a graph as a dense float32 tensor, [n, F0].

    Raises:
        MemoryLimitError: If the dense form of sparse features does not fit.
    """
    values = graph.features
    if hasattr(values, "toarray"):
        need, free = 4 * values.shape[0] * values.shape[1], available_bytes()
        if free is not None and need > free:
            raise MemoryLimitError(
                f"dense features take {format_bytes(need)}, {format_bytes(free)} are free; "
                "reduce the features first, for example with a truncated SVD"
            )
        values = values.toarray()
    return torch.from_numpy(np.array(values, np.float32))
