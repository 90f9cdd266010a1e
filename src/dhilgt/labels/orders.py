"""Orders of the nodes by importance: which of them become hubs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph

NUM_PIVOTS = 64
"""Nodes whose distances to all others stand for closeness: one bit each of a word."""

DRAWN = ("closeness", "random")
"""Orders that depend on a seed."""

Values = NDArray[np.int64]


def node_order(graph: Graph, name: str, seed: int = 0) -> NDArray[np.uint32] | None:
    """Gives the indices of all nodes from most to least important; None stands for "degree".

    Ties are broken by degree, then by ascending index. The directions of edges are not looked at.

    Args:
        graph: The graph.
        name: One of `ORDERS`: "degree"; "neighbor-degree", by degree, then by the sum of the
            neighbours' degrees; "core", by k-core number; "closeness", by the sum of the distances
            from `NUM_PIVOTS` random nodes, small ones first; "random".
        seed: Of the orders in `DRAWN`.

    Raises:
        ValueError: If there is no such order.

    Example:
        >>> graph = Graph.from_edges([0, 0, 1, 2, 3, 3, 3], [1, 2, 2, 3, 4, 5, 6])
        >>> node_order(graph, "core")  # a triangle and the rest
        array([2, 0, 1, 3, 4, 5, 6], dtype=uint32)
    """
    if name not in ORDERS:
        raise ValueError(f"order = {name!r}; choose {' or '.join(map(repr, ORDERS))}")
    if name == "degree":
        return None  # the native core's own
    arcs = _Arcs(graph)
    keys = _KEYS[name](arcs, seed)
    # The last key counts most; the sort is stable, so that equal ones ascend.
    return np.lexsort((-arcs.degrees, *reversed(keys))).astype(np.uint32)


class _Arcs:
    """The neighbours of all nodes, in either direction."""

    def __init__(self, graph: Graph) -> None:
        self._sides = [(graph.offsets, graph.targets)]
        if graph.directed:
            self._sides.append((graph.in_offsets, graph.in_targets))
        self.num_nodes = graph.num_nodes
        self.degrees: Values = np.sum([np.diff(offsets) for offsets, _ in self._sides], axis=0)

    def of(self, nodes: Values) -> tuple[Values, Values]:
        """Gives the ends of all arcs of some nodes: places in `nodes`, and neighbours."""
        places, found = [], []
        for offsets, targets in self._sides:
            counts = offsets[nodes + 1] - offsets[nodes]
            ends = np.cumsum(counts)
            # 0, 1, 2, ... along each row, behind where the row begins
            within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
            places.append(np.repeat(np.arange(len(nodes)), counts))
            found.append(targets[np.repeat(offsets[nodes], counts) + within].astype(np.int64))
        return np.concatenate(places), np.concatenate(found)


def _by_neighbors(arcs: _Arcs, seed: int) -> tuple[Values, ...]:
    near, others = arcs.of(np.arange(arcs.num_nodes))
    sums = np.bincount(near, weights=arcs.degrees[others], minlength=arcs.num_nodes)
    return -arcs.degrees, -sums.astype(np.int64)


def _by_core(arcs: _Arcs, seed: int) -> tuple[Values, ...]:
    return (-core_numbers(arcs),)


def core_numbers(arcs: _Arcs) -> Values:
    """Gives the largest k for each node such that it lies in a part of degrees k or more."""
    left = arcs.degrees.copy()
    cores = np.zeros(arcs.num_nodes, np.int64)
    there = np.ones(arcs.num_nodes, np.bool_)
    alive = np.arange(arcs.num_nodes)
    level = 0
    while len(alive):
        level = max(level, int(left[alive].min()))
        leaving = alive[left[alive] <= level]
        while len(leaving):
            cores[leaving] = level
            there[leaving] = False
            _, near = arcs.of(leaving)
            near = near[there[near]]
            np.subtract.at(left, near, 1)
            leaving = np.unique(near[left[near] <= level])
        alive = alive[there[alive]]
    return cores


def _by_closeness(arcs: _Arcs, seed: int) -> tuple[Values, ...]:
    count = min(NUM_PIVOTS, arcs.num_nodes)
    pivots = np.random.default_rng(seed).choice(arcs.num_nodes, count, replace=False)
    return (distance_sums(arcs, pivots),)


def distance_sums(arcs: _Arcs, pivots: Values) -> Values:
    """Gives the sum of each node's distances from the pivots; no path counts as num_nodes.

    All pivots search at once: a bit of a word per node says which of them have come by.
    """
    seen = np.zeros(arcs.num_nodes, np.uint64)
    seen[pivots] = np.uint64(1) << np.arange(len(pivots), dtype=np.uint64)
    sums = np.full(arcs.num_nodes, len(pivots) * arcs.num_nodes, np.int64)
    sums[pivots] -= arcs.num_nodes
    found = np.zeros(arcs.num_nodes, np.uint64)
    front, news, steps = np.asarray(pivots, np.int64), seen[pivots], 0
    while len(front):
        steps += 1
        places, near = arcs.of(front)
        arriving = news[places] & ~seen[near]
        some = arriving != 0
        np.bitwise_or.at(found, near[some], arriving[some])
        front = np.unique(near[some])
        news = found[front]
        found[front] = 0
        seen[front] |= news
        bits = np.unpackbits(news.view(np.uint8).reshape(-1, 8), axis=1).sum(1, dtype=np.int64)
        sums[front] -= bits * (arcs.num_nodes - steps)
    return sums


def _at_random(arcs: _Arcs, seed: int) -> tuple[Values, ...]:
    return (np.random.default_rng(seed).permutation(arcs.num_nodes),)


_KEYS: dict[str, Callable[[_Arcs, int], tuple[Values, ...]]] = {
    "neighbor-degree": _by_neighbors,
    "core": _by_core,
    "closeness": _by_closeness,
    "random": _at_random,
}
ORDERS = ("degree", *_KEYS)
"""Names of the orders."""


def ranking(graph: Graph, order: Any, seed: int = 0) -> NDArray[np.uint32] | None:
    """Gives what `HubLabels.build` takes for an order as a ranking by index; None is by degree."""
    if order is None:
        return None
    if isinstance(order, str):
        return node_order(graph, order, seed)
    return checked_order(graph, order)


def checked_order(graph: Graph, order: Any) -> NDArray[np.uint32]:
    """Gives a ranking of all nodes by index, from one by id."""
    indices = graph.index_of(np.atleast_1d(order) if np.ndim(order) == 0 else order)
    if len(indices) != graph.num_nodes:
        raise GraphError(
            f"order lists {len(indices)} nodes, the graph has {graph.num_nodes}; list each once"
        )
    times = np.bincount(indices, minlength=graph.num_nodes)
    if times.max() > 1:
        twice = graph.ids_of(int(times.argmax()))
        raise GraphError(f"order lists node {twice!r} {times.max()} times; list each node once")
    ranked: NDArray[np.uint32] = indices.astype(np.uint32)
    return ranked
