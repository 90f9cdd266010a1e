"""Orders of the nodes by importance: which of them become hubs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.utils.checks import choice

NUM_PIVOTS = 64
"""Nodes from which closeness is estimated: one bit each of a word."""

DRAWN = ("closeness", "random")
"""Orders that depend on a seed."""

IntArray = NDArray[np.int64]


def node_order(graph: Graph, name: str, seed: int = 0) -> NDArray[np.uint32] | None:
    """Return the indices of all nodes from most to least important; None stands for "degree".

    Ties are broken by degree, then by ascending index. The directions of edges are ignored.

    Args:
        graph: The graph.
        name: One of `ORDERS`: "degree"; "neighbor-degree", by degree, then by the sum of the
            neighbours' degrees; "core", by k-core number; "closeness", by the sum of the distances
            from `NUM_PIVOTS` random nodes, smallest first; "random".
        seed: Seed of the orders in `DRAWN`.

    Raises:
        ConfigError: If the name is unknown.

    Example:
        >>> graph = Graph.from_edges([0, 0, 1, 2, 3, 3, 3], [1, 2, 2, 3, 4, 5, 6])
        >>> node_order(graph, "core")  # a triangle and the rest
        array([2, 0, 1, 3, 4, 5, 6], dtype=uint32)
    """
    choice("order", name, ORDERS)
    if name == "degree":
        return None  # the default of the native core
    adjacency = _Adjacency(graph)
    keys = _SORT_KEYS[name](adjacency, seed)
    # lexsort takes the last key first and is stable: equal nodes stay in ascending order.
    return np.lexsort((-adjacency.degrees, *reversed(keys))).astype(np.uint32)


def total_degrees(graph: Graph) -> IntArray:
    """Return the number of edges at each node, those of both directions on a directed graph."""
    return graph.degrees + np.diff(graph.in_offsets) if graph.directed else graph.degrees


def order_by_degree(graph: Graph) -> IntArray:
    """Return node indices from most to least important: by degree, ties by ascending index.

    Example:
        >>> order_by_degree(Graph.from_edges([0, 1, 2], [1, 2, 3])).tolist()
        [1, 2, 0, 3]
    """
    return np.argsort(-total_degrees(graph), kind="stable")


class _Adjacency:
    """The neighbours of all nodes, in both directions."""

    def __init__(self, graph: Graph) -> None:
        self._sides = [(graph.offsets, graph.targets)]
        if graph.directed:
            self._sides.append((graph.in_offsets, graph.in_targets))
        self.num_nodes = graph.num_nodes
        self.degrees = total_degrees(graph)

    def arcs_of(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Return all arcs of some nodes: the position in `nodes`, and the neighbour, of each."""
        positions, neighbors = [], []
        for offsets, targets in self._sides:
            counts = offsets[nodes + 1] - offsets[nodes]
            ends = np.cumsum(counts)
            # 0, 1, 2, ... along each row, counted from where the row begins
            within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
            positions.append(np.repeat(np.arange(len(nodes)), counts))
            neighbors.append(targets[np.repeat(offsets[nodes], counts) + within].astype(np.int64))
        return np.concatenate(positions), np.concatenate(neighbors)


def _by_neighbor_degree(adjacency: _Adjacency, seed: int) -> tuple[IntArray, ...]:
    count = adjacency.num_nodes
    nodes, neighbors = adjacency.arcs_of(np.arange(count))
    sums = np.bincount(nodes, weights=adjacency.degrees[neighbors], minlength=count)
    return -adjacency.degrees, -sums.astype(np.int64)


def _by_core(adjacency: _Adjacency, seed: int) -> tuple[IntArray, ...]:
    """Sort by the largest k for which the node lies in a subgraph of minimum degree k."""
    degrees = adjacency.degrees.copy()  # among the nodes that remain
    cores = np.zeros(adjacency.num_nodes, np.int64)
    remains = np.ones(adjacency.num_nodes, np.bool_)
    remaining = np.arange(adjacency.num_nodes)
    level = 0
    while len(remaining):
        level = max(level, int(degrees[remaining].min()))
        removed = remaining[degrees[remaining] <= level]
        while len(removed):
            cores[removed] = level
            remains[removed] = False
            _, neighbors = adjacency.arcs_of(removed)
            neighbors = neighbors[remains[neighbors]]
            np.subtract.at(degrees, neighbors, 1)
            removed = np.unique(neighbors[degrees[neighbors] <= level])
        remaining = remaining[remains[remaining]]
    return (-cores,)


def _by_closeness(adjacency: _Adjacency, seed: int) -> tuple[IntArray, ...]:
    """Sort by the sum of the distances from random pivots; no path counts as num_nodes.

    All pivots search at once: each has a bit in a word per node, set when its search arrives.
    """
    count = adjacency.num_nodes
    num_pivots = min(NUM_PIVOTS, count)
    pivots = np.random.default_rng(seed).choice(count, num_pivots, replace=False)
    visited = np.zeros(count, np.uint64)
    visited[pivots] = np.uint64(1) << np.arange(num_pivots, dtype=np.uint64)
    sums = np.full(count, num_pivots * count, np.int64)
    sums[pivots] -= count
    arrived = np.zeros(count, np.uint64)
    frontier, searches, steps = np.asarray(pivots, np.int64), visited[pivots], 0
    while len(frontier):
        steps += 1
        positions, neighbors = adjacency.arcs_of(frontier)
        arriving = searches[positions] & ~visited[neighbors]
        is_new = arriving != 0
        np.bitwise_or.at(arrived, neighbors[is_new], arriving[is_new])
        frontier = np.unique(neighbors[is_new])
        searches = arrived[frontier]
        arrived[frontier] = 0
        visited[frontier] |= searches
        bits = np.unpackbits(searches.view(np.uint8).reshape(-1, 8), axis=1)
        sums[frontier] -= bits.sum(1, dtype=np.int64) * (count - steps)
    return (sums,)


def _at_random(adjacency: _Adjacency, seed: int) -> tuple[IntArray, ...]:
    return (np.random.default_rng(seed).permutation(adjacency.num_nodes),)


_SORT_KEYS: dict[str, Callable[[_Adjacency, int], tuple[IntArray, ...]]] = {
    "neighbor-degree": _by_neighbor_degree,
    "core": _by_core,
    "closeness": _by_closeness,
    "random": _at_random,
}
ORDERS = ("degree", *_SORT_KEYS)
"""Names of the orders."""


def ranking(graph: Graph, order: Any, seed: int = 0) -> NDArray[np.uint32] | None:
    """Return the `order` of `HubLabels.build` as node indices by rank; None means by degree."""
    if order is None:
        return None
    if isinstance(order, str):
        return node_order(graph, order, seed)
    return checked_order(graph, order)


def checked_order(graph: Graph, order: Any) -> NDArray[np.uint32]:
    """Return a ranking of all nodes by index, from one by id."""
    indices = graph.index_of(np.atleast_1d(order) if np.ndim(order) == 0 else order)
    if len(indices) != graph.num_nodes:
        raise GraphError(
            f"order lists {len(indices)} nodes, the graph has {graph.num_nodes}; list each once"
        )
    counts = np.bincount(indices, minlength=graph.num_nodes)
    if counts.max() > 1:
        node = graph.ids_of(int(counts.argmax()))
        raise GraphError(f"order lists node {node!r} {counts.max()} times; list each node once")
    ranked: NDArray[np.uint32] = indices.astype(np.uint32)
    return ranked
