"""Sampled neighbourhoods of nodes, with the distance of each sampled node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.baselines.shared.message_graph import (
    CleanGraph,
    ascending,
    first_of_each,
    row_offsets,
    rows_of,
)


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
    n, hops = graph.num_nodes, len(sizes)
    bits = hops.bit_length()
    # A root, a node of its neighbourhood and the distance are one integer, so that sets are sorted
    # arrays in which a node's smallest distance is first.
    top = max(len(roots) * n, 1) << bits
    kind = np.int32 if top <= np.iinfo(np.int32).max else np.int64
    owners, frontier = np.arange(len(roots)), roots
    tagged = ((owners * n + roots) << bits).astype(kind)
    for hop, size in enumerate(sizes, 1):
        starts, drawn = sample_neighbours(graph, frontier, size, rng)
        reached = np.repeat(owners * n, np.diff(starts)) + drawn
        reached = ((reached << bits) + hop).astype(kind)
        tagged = first_of_each(ascending(np.concatenate([tagged, reached])), bits)
        if hop < hops:
            new = tagged[(tagged & ((1 << bits) - 1)) == hop].astype(np.int64) >> bits
            owners = new // n
            frontier = new - owners * n
    keys, distance = tagged >> bits, (tagged & ((1 << bits) - 1)).astype(np.int64)
    owners = (keys // kind(n)).astype(np.int64)
    ring = owners * (hops + 1) + distance
    ring_sizes = np.bincount(ring, minlength=1)
    return Rings(row_offsets(owners, len(roots)), keys - owners * n, distance, ring_sizes[ring])


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
    last = degrees[many] - size
    chosen = integers_below(last + np.arange(1, size + 1)[:, None], rng)  # [size, many]
    for place in range(1, size):
        taken = chosen[0] == chosen[place]
        for before in chosen[1:place]:
            taken |= before == chosen[place]
        np.copyto(chosen[place], last + place, where=taken)
    places = offsets[many] + np.arange(size)[:, None]
    out[places] = graph.targets[graph.offsets[nodes[many]] + chosen]
    return offsets, out


def integers_below(highs: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ``rng.integers(0, highs)``, for limits from 2 to 2^32 - 1, in a fifth of the time.

    NumPy multiplies 32 random bits by the limit and takes the upper half, one number at a time; the
    few whose lower half is below the limit may be drawn again, which is left to NumPy.

    Example:
        >>> highs = np.array([5, 70, 900])
        >>> drawn = integers_below(highs, np.random.default_rng(3))
        >>> bool((drawn == np.random.default_rng(3).integers(0, highs)).all())
        True
    """
    state = rng.bit_generator.state
    bits = rng.integers(0, 1 << 32, highs.shape, dtype=np.uint32)
    products = bits * highs.astype(np.uint64)
    if (products.astype(np.uint32) < highs).any():
        rng.bit_generator.state = state
        return rng.integers(0, highs)
    return (products >> np.uint64(32)).astype(np.int64)
