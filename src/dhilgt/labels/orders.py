"""Orders of the nodes by importance: which of them become hubs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import NodeIds
from dhilgt.utils.checks import choice
from dhilgt.utils.hashes import hashed, hashed_texts

NUM_PIVOTS = 64
"""Nodes from which closeness is estimated: one bit each of a word."""

BY_ID = "-id"
"""End of the names of orders whose ties are broken by id, as earlier versions did."""

GIVEN = "given"
"""Stands for an order that was passed as a list of ids."""

_DEGREE_SHIFT = np.uint64(32)  # of a sort key: the degree above these bits, the tie below

IntArray = NDArray[np.int64]


def node_order(graph: Graph, name: str, seed: int = 0) -> NDArray[np.uint32]:
    """Return the indices of all nodes from most to least important.

    Ties are broken by degree, then by `tie_breakers` of the ids, then by ascending index; under a
    name that ends in "-id" by degree, then by ascending index, the ids being in ascending order.
    Neither depends on the order of the rows of the input. The directions of edges are ignored.

    Args:
        graph: The graph.
        name: One of `ORDERS`: "degree"; "neighbor-degree", by degree, then by the sum of the
            neighbours' degrees; "core", by k-core number; "closeness", by the sum of the distances
            from `NUM_PIVOTS` random nodes, smallest first; "random"; and all but the last with
            "-id" at the end.
        seed: Seed of the orders in `DRAWN`.

    Raises:
        ConfigError: If the name is unknown.

    Example:
        >>> graph = Graph.from_edges([0, 0, 1, 2, 3, 3, 3], [1, 2, 2, 3, 4, 5, 6])
        >>> node_order(graph, "core-id")  # a triangle and the rest
        array([2, 0, 1, 3, 4, 5, 6], dtype=uint32)
        >>> node_order(graph, "core")  # the same, equal nodes by the hashes of their ids
        array([2, 1, 0, 3, 5, 4, 6], dtype=uint32)
    """
    choice("order", name, ORDERS)
    adjacency = _Adjacency(graph)
    keys = _SORT_KEYS[name.removesuffix(BY_ID)](adjacency, seed)
    # Largest degree first; no node has as many as 2**32 neighbours.
    last = (np.uint64(2**32 - 1) - adjacency.degrees.astype(np.uint64)) << _DEGREE_SHIFT
    if not name.endswith(BY_ID):
        last |= tie_breakers(graph.ids)
    # lexsort takes the last key first and is stable: equal nodes stay in ascending order.
    return np.lexsort((last, *reversed(keys))).astype(np.uint32)


def tie_breakers(ids: NodeIds) -> NDArray[np.uint64]:
    """Return the number by which each node is ranked among its equals, smallest first.

    It is the upper half of a 64-bit hash of the id: `hashed` of an integer (a negative one as its
    two's complement), `hashed_texts` of a string. Ids in reading order, as on grids and meshes,
    are close to the worst order there is; a hash scatters them.

    Example:
        >>> tie_breakers(NodeIds(None, 4)).tolist()
        [3793791033, 2433363436, 2539140574, 487265508]
    """
    if ids.are_text:
        hashes = hashed_texts(ids.all.tolist())
    else:
        hashes = hashed(ids.all.astype(np.int64, copy=False).view(np.uint64))
    return hashes >> np.uint64(32)


def total_degrees(graph: Graph) -> IntArray:
    """Return the number of edges at each node, those of both directions on a directed graph."""
    return graph.degrees + np.diff(graph.in_offsets) if graph.directed else graph.degrees


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


def _by_degree(adjacency: _Adjacency, seed: int) -> tuple[IntArray, ...]:
    return ()  # what remains of every order when all else is equal


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
    "degree": _by_degree,
    "neighbor-degree": _by_neighbor_degree,
    "core": _by_core,
    "closeness": _by_closeness,
    "random": _at_random,
}
ORDERS = (*_SORT_KEYS, *(f"{name}{BY_ID}" for name in _SORT_KEYS if name != "random"))
"""Names of the orders."""

DRAWN = ("closeness", f"closeness{BY_ID}", "random")
"""Orders that depend on a seed."""


def former_order(name: str) -> str:
    """Return what the order of this name in earlier versions is called now.

    Example:
        >>> former_order("degree"), former_order("random")
        ('degree-id', 'random')
    """
    return f"{name}{BY_ID}" if f"{name}{BY_ID}" in ORDERS else name


def ranking(graph: Graph, order: Any, seed: int = 0) -> NDArray[np.uint32]:
    """Return the `order` of `HubLabels.build` as node indices by rank."""
    name = order_name(order)
    return checked_order(graph, order) if name == GIVEN else node_order(graph, name, seed)


def order_name(order: Any) -> str:
    """Return the name of the `order` of `HubLabels.build`, `GIVEN` for a list of ids."""
    if order is None:
        return "degree"
    return order if isinstance(order, str) else GIVEN


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
