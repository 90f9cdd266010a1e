"""Coarsening of a graph by algebraic distance: near neighbours merge into super-nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.shared.message_graph import CleanGraph, row_offsets
from dhilgt.baselines.shared.sparse import SparseMatrix

_VECTORS = 10  # random vectors that are relaxed
_SWEEPS = 20  # sweeps of relaxation
_LEVELS = 40  # most levels of merging


@dataclass(frozen=True)
class CoarseGraph:
    """Super-nodes and the edges among them.

    Attributes:
        member_of: Super-node of each node, [n].
        sizes: Number of nodes of each super-node.
        adjacency: Â of the coarse graph, with a loop at every super-node.
    """

    member_of: NDArray[np.int64]
    sizes: NDArray[np.int64]
    adjacency: SparseMatrix

    def means(self, x: Tensor) -> Tensor:
        """Return the mean of the rows of each super-node's nodes, [super-nodes, F]."""
        order = np.argsort(self.member_of, kind="stable")
        offsets = row_offsets(self.member_of, len(self.sizes))
        weights = 1 / self.sizes[self.member_of[order]]
        return SparseMatrix.from_numpy(offsets, order, weights, len(order)) @ x


def coarsen(graph: CleanGraph, keep: float, seed: int = 0) -> CoarseGraph:
    """Return super-nodes, merged level by level until a fraction is left or there are no edges.

    At each level random vectors are relaxed by Jacobi's method; the algebraic distance of two
    neighbours is the largest difference that remains between their entries. Neighbours that are
    each other's nearest merge, repeatedly; a node whose neighbours have all merged joins the
    nearest of them. The weight of an edge between super-nodes is the sum over the edges between
    their nodes, divided by the square roots of both sizes.

    Args:
        graph: A graph without loops.
        keep: Fraction of super-nodes to nodes.
        seed: Seed of the random vectors.

    Example:
        >>> import dhilgt
        >>> pairs = CleanGraph.of(dhilgt.Graph.from_edges([0, 2], [1, 3]), self_loops=False)
        >>> coarsen(pairs, 0.5).member_of.tolist()
        [0, 0, 1, 1]
    """
    n = graph.num_nodes
    target = max(1, round(keep * n))
    rng = np.random.default_rng([seed, 2])
    member_of, count = np.arange(n), n
    sources, targets = graph.sources(), graph.targets
    weights = np.ones(len(targets))
    for _ in range(_LEVELS):
        if count <= target or len(sources) == 0:
            break
        distance = algebraic_distance(sources, targets, weights, count, rng)
        leader = _merge(sources, targets, distance, count, count - target)
        heads, joined = np.unique(leader, return_inverse=True)
        member_of, count = joined[member_of], len(heads)
        sources, targets, weights = _contract(joined, sources, targets, weights, count)
    sizes = np.bincount(member_of, minlength=count)
    first, last = member_of[graph.sources()], member_of[graph.targets]
    return CoarseGraph(member_of, sizes, _normalised(first, last, sizes))


def algebraic_distance(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    weights: NDArray[np.float64],
    count: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the distance of the ends of each edge after relaxation; edges sorted by source."""
    degrees = np.maximum(np.bincount(sources, weights, minlength=count), 1e-12)
    walk = SparseMatrix.from_numpy(row_offsets(sources, count), targets, weights / degrees[sources])
    x = torch.from_numpy(rng.standard_normal((count, _VECTORS)).astype(np.float32))
    for _ in range(_SWEEPS):
        x = 0.5 * x + 0.5 * (walk @ x)
    values = x.numpy()
    distance: NDArray[np.float64] = np.abs(values[sources] - values[targets]).max(1)
    return distance


def _merge(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    distance: NDArray[np.float64],
    count: int,
    most: int,
) -> NDArray[np.int64]:
    """Return the node that each node merges into; at most `most` merge into another."""
    rank = np.empty(len(distance), np.int64)
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    # Both directions of an edge are adjacent, so that both ends rank it alike.
    rank[np.lexsort((high, low, distance))] = np.arange(len(distance))
    rank //= 2
    leader, free = np.arange(count), np.ones(count, np.bool_)
    while most > 0:
        alive = free[sources] & free[targets]
        best = _nearest(sources[alive], rank[alive], count)
        chosen = alive & (best[sources] == rank) & (best[targets] == rank) & (sources < targets)
        pairs = np.flatnonzero(chosen)
        if len(pairs) == 0:
            break
        pairs = pairs[np.argsort(rank[pairs])][:most]
        leader[targets[pairs]] = sources[pairs]
        free[sources[pairs]] = free[targets[pairs]] = False
        most -= len(pairs)
    # Leaves of a star have the same neighbour: all join it at once, not one per level.
    alive = free[sources] & ~free[targets]
    best = _nearest(sources[alive], rank[alive], count)
    left = np.flatnonzero(alive & (best[sources] == rank))
    left = left[np.argsort(rank[left])][: max(0, most)]
    leader[sources[left]] = leader[targets[left]]
    return leader


def _nearest(sources: NDArray[np.int64], rank: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    best = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(best, sources, rank)
    return best


def _contract(
    joined: NDArray[np.int64],
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    weights: NDArray[np.float64],
    count: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    keys = joined[sources] * np.int64(count) + joined[targets]
    edges, places = np.unique(keys, return_inverse=True)
    total = np.bincount(places, weights, minlength=len(edges))
    crossing = edges // count != edges % count
    return edges[crossing] // count, edges[crossing] % count, total[crossing]


def _normalised(
    first: NDArray[np.int64], last: NDArray[np.int64], sizes: NDArray[np.int64]
) -> SparseMatrix:
    """Return Â of the super-nodes; edges within one add to its loop."""
    count, own = len(sizes), np.arange(len(sizes))
    roots = sizes.astype(np.float64) ** -0.5
    keys = np.concatenate([first * np.int64(count) + last, own * np.int64(count) + own])
    values = np.concatenate([roots[first] * roots[last], np.ones(count)])
    edges, places = np.unique(keys, return_inverse=True)
    total = np.bincount(places, values, minlength=len(edges))
    rows, columns = edges // count, edges % count
    scale = np.bincount(rows, total, minlength=count) ** -0.5
    return SparseMatrix.from_numpy(
        row_offsets(rows, count), columns, total * scale[rows] * scale[columns], symmetric=True
    )
