"""A graph at several levels, each made of clusters of the one below, and samples of all levels."""

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
    """Gives the nodes of each level, level 0 included; known before any cluster is made.

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
        x: Features: those of the nodes, above level 0 the mean over the children, [n_l, F0].
        parents: Node above each, [n_l]; None on the highest level.
        child_offsets: Where each node's children begin in `children`, [n_l + 1]; None on level 0.
        children: Nodes of the level below, by parent; None on level 0.
    """

    graph: CleanGraph
    x: RowStore
    parents: Ints | None = None
    child_offsets: Ints | None = None
    children: Ints | None = None


def hierarchy(graph: CleanGraph, x: Tensor, cluster_sizes: Sequence[int]) -> list[Level]:
    """Gives the levels, the graph itself first.

    Args:
        graph: Without loops.
        x: Features, [n, F0].
        cluster_sizes: Children per node of each level above, on the average.

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
        share = np.repeat(1.0 / np.diff(offsets), np.diff(offsets))
        mean = SparseMatrix.from_numpy(offsets, children, share, len(parents)) @ below.x.host
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
    """The nodes of one level that a batch sees.

    Attributes:
        x: Their features, [s, F0].
        nodes: Their numbers on the level, [s].
        degrees: Neighbours on the level, in the whole of it, [s].
        pairs: Which of them attend to each other, s x s.
        distances: Of each pair, within the batch, [pairs].
        child_offsets: Where each one's children begin, [s + 1]; None on level 0.
        children: Their numbers on the level below; None on level 0.
        places: Where the children stand in the batch of the level below, -1 for those outside.
        whole: Whether the batch is all of the level.
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
        """Where it lies."""
        return self.nodes.device

    def to(self, device: Any, non_blocking: bool = False) -> LevelBatch:
        """Gives the batch on a device."""

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
    """Gives all nodes of all levels."""
    everyone = [np.arange(level.graph.num_nodes) for level in levels]
    found = _batches(levels, everyone, max_distance)
    return [replace(part, x=level.x.host) for part, level in zip(found, levels, strict=True)]


def sampled_levels(
    levels: Sequence[Level],
    nodes: Ints,
    fanouts: Sequence[int],
    upper_fanout: int,
    max_distance: int,
    rng: np.random.Generator,
) -> tuple[list[LevelBatch], Ints]:
    """Gives some nodes with sampled surroundings on all levels, and where they stand on each.

    Level 0: the nodes, and hop by hop at most `fanouts` neighbours of each. Every level above: the
    parents of what the level below has, and at most `upper_fanout` neighbours of each. On each the
    edges are all those among what is there.

    Returns:
        The levels, and the place of each node, its parent, the parent's parent, ... [B, levels].
    """
    seen = spread(levels[0].graph, nodes, fanouts, rng)
    chosen, climbing = [seen], nodes
    places = [np.searchsorted(seen, climbing)]
    for level in levels[:-1]:
        assert level.parents is not None, "only the highest level has none"
        above = levels[len(chosen)].graph
        seen = spread(above, np.unique(level.parents[seen]), (upper_fanout,), rng)
        chosen.append(seen)
        climbing = level.parents[climbing]
        places.append(np.searchsorted(seen, climbing))
    return _batches(levels, chosen, max_distance), np.stack(places, 1)


def ancestors(levels: Sequence[Level]) -> Ints:
    """Gives each node, its parent, the parent's parent, ..., [n, levels]."""
    found = [np.arange(levels[0].graph.num_nodes)]
    for level in levels[:-1]:
        assert level.parents is not None, "only the highest level has none"
        found.append(level.parents[found[-1]])
    return np.stack(found, 1)


def spread(
    graph: CleanGraph, nodes: Ints, fanouts: Sequence[int], rng: np.random.Generator
) -> Ints:
    """Gives nodes and, hop by hop, at most so many neighbours of each one new; ascending.

    Example:
        >>> import dhilgt
        >>> star = CleanGraph.of(dhilgt.Graph.from_edges([0] * 9, range(1, 10)), self_loops=False)
        >>> len(spread(star, np.array([0]), (4,), np.random.default_rng(0)))
        5
    """
    seen = border = np.unique(nodes)
    for most in fanouts:
        starts, reached = rows_of(graph.offsets, graph.targets, border)
        counts = np.diff(starts)
        if counts.max(initial=0) > most:
            rows = np.repeat(np.arange(len(border)), counts)
            order = np.lexsort((rng.random(len(rows)), rows))
            reached = reached[order[np.arange(len(rows)) - starts[rows] < most]]
        border = np.setdiff1d(reached, seen)
        seen = np.union1d(seen, border)
    return seen


def _batches(
    levels: Sequence[Level], chosen: Sequence[Ints], max_distance: int
) -> list[LevelBatch]:
    found: list[LevelBatch] = []
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
        found.append(
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
    return found
