"""Levels of a graph, each of clusters of the level below, and samples of all levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.hsgt.coarsen import coarsen, pooled
from dhilgt.baselines.loaders import RowStore
from dhilgt.baselines.shared.message_graph import CleanGraph, row_offsets, rows_of
from dhilgt.baselines.shared.pairs import near_pairs
from dhilgt.baselines.shared.sparse import SparseMatrix

Ints = NDArray[np.int64]


def level_sizes(num_nodes: int, cluster_sizes: Sequence[int]) -> list[int]:
    """Return the number of nodes of each level, level 0 included.

    Example:
        >>> level_sizes(95, (10, 5))
        [95, 10, 2]
    """
    sizes = [num_nodes]
    for size in cluster_sizes:
        sizes.append(-(-sizes[-1] // size))
    return sizes


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy.

    Attributes:
        graph: Edges without loops.
        x: Features of the nodes, above level 0 the mean over the children, [n_l, F0].
        parents: Parent of each node, [n_l]; None on the highest level.
        child_offsets: Where each node's children begin in `children`, [n_l + 1]; None on level 0.
        children: Nodes of the level below, sorted by parent; None on level 0.
    """

    graph: CleanGraph
    x: RowStore
    parents: Ints | None = None
    child_offsets: Ints | None = None
    children: Ints | None = None


def hierarchy(graph: CleanGraph, x: Tensor, cluster_sizes: Sequence[int]) -> list[Level]:
    """Return the levels, the graph itself first.

    Args:
        graph: A graph without loops.
        x: Features, [n, F0].
        cluster_sizes: Mean number of children per node of each level above.

    Example:
        >>> import dhilgt
        >>> two = dhilgt.Graph.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3])  # two triangles
        >>> clean, x = CleanGraph.of(two, self_loops=False), torch.arange(6.0)[:, None]
        >>> below, above = hierarchy(clean, x, (3,))
        >>> below.parents.tolist(), above.x.host.flatten().tolist()
        ([0, 0, 0, 1, 1, 1], [1.0, 4.0])
    """
    levels = [Level(graph, RowStore(x))]
    for count in level_sizes(graph.num_nodes, cluster_sizes)[1:]:
        below = levels[-1]
        parents = coarsen(below.graph, count)
        offsets = row_offsets(parents, count)
        children = np.argsort(parents, kind="stable")
        weights = np.repeat(1.0 / np.diff(offsets), np.diff(offsets))
        mean = SparseMatrix.from_numpy(offsets, children, weights, len(parents)) @ below.x.host
        levels[-1] = replace(below, parents=parents)
        levels.append(
            Level(
                pooled(below.graph, parents, count),
                RowStore(mean),
                child_offsets=offsets,
                children=children,
            )
        )
    return levels


@dataclass(frozen=True)
class LevelBatch:
    """The nodes of one level in a batch.

    Attributes:
        x: Features of the nodes, [s, F0].
        nodes: Indices of the nodes on the level, [s].
        degrees: Degrees in the whole graph of the level, [s].
        pairs: Pairs of nodes that attend to each other, s x s.
        distances: Distance of each pair, within the batch, [pairs].
        child_offsets: Where each node's children begin, [s + 1]; None on level 0.
        children: Indices of the children on the level below; None on level 0.
        places: Places of the children in the batch of the level below, -1 if not in it.
        whole: Whether the batch has all nodes of the level.
    """

    x: Any
    nodes: Tensor
    degrees: Tensor
    pairs: SparseMatrix
    distances: Tensor
    child_offsets: Tensor | None
    children: Tensor | None
    places: Tensor | None
    whole: bool

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.nodes.device

    def to(self, device: Any, non_blocking: bool = False) -> LevelBatch:
        """Return the batch on a device."""

        def moved(part: Any) -> Any:
            return None if part is None else part.to(device, non_blocking=non_blocking)

        return LevelBatch(
            moved(self.x),
            moved(self.nodes),
            moved(self.degrees),
            moved(self.pairs),
            moved(self.distances),
            moved(self.child_offsets),
            moved(self.children),
            moved(self.places),
            self.whole,
        )


def whole_levels(levels: Sequence[Level], max_distance: int) -> list[LevelBatch]:
    """Return all nodes of all levels."""
    nodes = [np.arange(level.graph.num_nodes) for level in levels]
    batches = _batches(levels, nodes, max_distance)
    return [replace(part, x=level.x.host) for part, level in zip(batches, levels, strict=True)]


def sampled_levels(
    levels: Sequence[Level],
    nodes: Ints,
    fanouts: Sequence[int],
    upper_fanout: int,
    max_distance: int,
    rng: np.random.Generator,
) -> tuple[list[LevelBatch], Ints]:
    """Return some nodes with sampled neighbourhoods on all levels.

    Level 0 has the nodes, and hop by hop at most `fanouts` neighbours of each. Every level above
    has the parents of the nodes below, and at most `upper_fanout` neighbours of each. The edges of
    a level are all those among its sampled nodes.

    Returns:
        The levels, and the place of each node, its parent, the parent's parent, ... [B, levels].
    """
    sampled = spread(levels[0].graph, nodes, fanouts, rng)
    chosen, targets = [sampled], nodes
    places = [np.searchsorted(sampled, targets)]
    for level in levels[:-1]:
        assert level.parents is not None, "only the highest level has none"
        above = levels[len(chosen)].graph
        sampled = spread(above, level.parents[sampled], (upper_fanout,), rng)
        chosen.append(sampled)
        targets = level.parents[targets]
        places.append(np.searchsorted(sampled, targets))
    return _batches(levels, chosen, max_distance), np.stack(places, 1)


def ancestors(levels: Sequence[Level]) -> Ints:
    """Return each node, its parent, the parent's parent, ..., [n, levels]."""
    lines = [np.arange(levels[0].graph.num_nodes)]
    for level in levels[:-1]:
        assert level.parents is not None, "only the highest level has none"
        lines.append(level.parents[lines[-1]])
    return np.stack(lines, 1)


def spread(
    graph: CleanGraph, nodes: Ints, fanouts: Sequence[int], rng: np.random.Generator
) -> Ints:
    """Return nodes and, hop by hop, at most `fanouts` neighbours of each new node; ascending.

    Example:
        >>> import dhilgt
        >>> star = CleanGraph.of(dhilgt.Graph.from_edges([0] * 9, range(1, 10)), self_loops=False)
        >>> len(spread(star, np.array([0]), (4,), np.random.default_rng(0)))
        5
    """
    is_sampled = np.zeros(graph.num_nodes, np.bool_)
    is_sampled[nodes] = True
    frontier = np.flatnonzero(is_sampled)
    for most in fanouts:
        starts, reached = rows_of(graph.offsets, graph.targets, frontier)
        if np.diff(starts).max(initial=0) > most:
            reached = reached[_smallest(rng.random(len(reached)), starts, most)]
        is_new = np.zeros_like(is_sampled)
        is_new[reached] = True
        is_new &= ~is_sampled
        frontier = np.flatnonzero(is_new)
        is_sampled |= is_new
    return np.flatnonzero(is_sampled)


def _smallest(values: NDArray[np.float64], starts: Ints, most: int) -> NDArray[np.bool_]:
    """Return which values are among the smallest `most` of their row; overwrites the values."""
    counts = np.diff(starts)
    long = counts > most
    is_chosen = np.repeat(~long, counts)
    begins, counts = starts[:-1][long], counts[long]
    places = np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts)
    values, begins = values[places], np.cumsum(counts) - counts
    # Sorting all values would take longer than `most` passes over them.
    for _ in range(most):
        is_least = values == np.repeat(np.minimum.reduceat(values, begins), counts)
        is_chosen[places[is_least]] = True
        values[is_least] = np.inf
    return is_chosen


def _batches(
    levels: Sequence[Level], chosen: Sequence[Ints], max_distance: int
) -> list[LevelBatch]:
    batches: list[LevelBatch] = []
    for number, (level, nodes) in enumerate(zip(levels, chosen, strict=True)):
        whole = len(nodes) == level.graph.num_nodes
        part = level.graph if whole else level.graph.induced(nodes)
        near = near_pairs(part, max_distance)
        ones = np.ones(len(near.columns))
        pairs = SparseMatrix.from_numpy(near.offsets, near.columns, ones, symmetric=True)
        offsets = children = places = None
        if level.child_offsets is not None and level.children is not None:
            offsets, children = rows_of(level.child_offsets, level.children, nodes)
            below = chosen[number - 1]
            place = np.full(levels[number - 1].graph.num_nodes, -1)
            place[below] = np.arange(len(below))
            places = place[children]
        batches.append(
            LevelBatch(
                level.x.rows(nodes),
                torch.from_numpy(nodes),
                torch.from_numpy(level.graph.degrees[nodes]),
                pairs,
                torch.from_numpy(near.distances),
                None if offsets is None else torch.from_numpy(offsets),
                None if children is None else torch.from_numpy(children),
                None if places is None else torch.from_numpy(places),
                whole,
            )
        )
    return batches
