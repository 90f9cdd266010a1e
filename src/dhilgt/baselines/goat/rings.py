"""Sampled neighbourhoods of nodes, with the distance of each sampled node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.baselines.shared.message_graph import CleanGraph, row_offsets, rows_of


class Rings(NamedTuple):
    """Sampled neighbourhoods in compressed rows, one row per root.

    Attributes:
        offsets: Where the nodes of each root begin, [B + 1].
        nodes: The sampled nodes, ascending for each root, [entries].
        distance: Hops in which each was first reached; 0 for the root itself, [entries].
        ring_size: Number of nodes of this root at the same distance, [entries].
    """

    offsets: NDArray[np.int64]
    nodes: NDArray[np.int64]
    distance: NDArray[np.int64]
    ring_size: NDArray[np.int64]


def sample_rings(
    graph: CleanGraph, roots: NDArray[np.int64], sizes: tuple[int, ...], rng: np.random.Generator
) -> Rings:
    """Return the nodes sampled around each root, independently of the other roots.

    Args:
        graph: A graph without loops.
        roots: [B].
        sizes: For each hop, how many neighbours at most are drawn, without replacement, of each
            node that was first reached in the hop before.
        rng: Random generator.

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1, 2], [1, 2, 3]), self_loops=False)
        >>> rings = sample_rings(path, np.array([0]), (2, 2), np.random.default_rng(0))
        >>> rings.nodes.tolist(), rings.distance.tolist(), rings.ring_size.tolist()
        ([0, 1, 2], [0, 1, 2], [1, 1, 1])
    """
    n = np.int64(graph.num_nodes)
    # A root and a node of its neighbourhood are one integer, so that sets are sorted arrays.
    frontier = np.arange(len(roots), dtype=np.int64) * n + roots
    keys, distance = frontier, np.zeros(len(roots), np.int64)
    for hop, size in enumerate(sizes, 1):
        starts, drawn = sample_neighbours(graph, frontier % n, size, rng)
        owners = np.repeat(frontier // n, np.diff(starts))
        reached = np.sort(owners * n + drawn)
        new = ~_is_in(reached, keys)
        new[1:] &= reached[1:] != reached[:-1]
        frontier = reached[new]
        keys = np.concatenate([keys, frontier])
        distance = np.concatenate([distance, np.full(len(frontier), hop)])
        order = np.argsort(keys, kind="stable")
        keys, distance = keys[order], distance[order]
    owners = keys // n
    ring = owners * (len(sizes) + 1) + distance
    offsets = row_offsets(owners, len(roots))
    return Rings(offsets, keys % n, distance, np.bincount(ring)[ring])


def sample_neighbours(
    graph: CleanGraph, nodes: NDArray[np.int64], size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return neighbours of each node in compressed rows: all, or `size` different ones.

    Example:
        >>> import dhilgt
        >>> star = CleanGraph.of(dhilgt.Graph.from_edges([0] * 9, range(1, 10)), self_loops=False)
        >>> _, drawn = sample_neighbours(star, np.array([0]), 4, np.random.default_rng(0))
        >>> len(set(drawn.tolist()))
        4
    """
    degrees = graph.degrees[nodes]
    few, many = np.flatnonzero(degrees <= size), np.flatnonzero(degrees > size)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(degrees, size))])
    out = np.empty(offsets[-1], np.int64)
    starts, whole = rows_of(graph.offsets, graph.targets, nodes[few])
    out[np.arange(len(whole)) + np.repeat(offsets[few] - starts[:-1], np.diff(starts))] = whole
    # Floyd's sampling without replacement, for all rows at once: `size` rounds for any degrees.
    chosen = np.empty((len(many), size), np.int64)
    last = degrees[many] - size
    for place in range(size):
        drawn = rng.integers(0, last + place + 1)
        taken = (chosen[:, :place] == drawn[:, None]).any(1)
        chosen[:, place] = np.where(taken, last + place, drawn)
    places = offsets[many][:, None] + np.arange(size)
    out[places] = graph.targets[graph.offsets[nodes[many]][:, None] + chosen]
    return offsets, out


def _is_in(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    is_in: NDArray[np.bool_] = ascending[at] == values
    return is_in
