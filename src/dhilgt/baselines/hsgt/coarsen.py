"""Clusters of a graph by repeated heavy-edge matching, without random draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhilgt.baselines.shared.message_graph import CleanGraph, distinct, row_offsets
from dhilgt.errors import ConfigError

_ROUNDS = 12  # rounds of one matching; each leaves a fraction of the edges
_FEW = 0.1  # fraction of single nodes above which nodes with a common neighbour are paired too
_HEAVY = 1.5  # largest size of a merged cluster, relative to the mean

Ints = NDArray[np.int64]


def coarsen(graph: CleanGraph, count: int) -> Ints:
    """Return each node's cluster, 0 to `count` - 1; no cluster is empty.

    In every round nodes are paired along their heaviest edges and each pair becomes one node; the
    weight of an edge is the number of edges it represents. Where stars leave many nodes unpaired,
    those with the same heaviest neighbour are paired too. Components that have become one node are
    paired with each other, smallest first. Pairs far above the mean size are postponed. Time and
    memory of a round are linear in the remaining edges, except for sorting them.

    Args:
        graph: A graph without loops.
        count: Number of clusters, 1 to the number of nodes.

    Example:
        >>> import dhilgt
        >>> two = dhilgt.Graph.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3])  # two triangles
        >>> clusters = coarsen(CleanGraph.of(two, self_loops=False), 2)
        >>> clusters.tolist()
        [0, 0, 0, 1, 1, 1]
    """
    n = graph.num_nodes
    if not 1 <= count <= n:
        raise ConfigError(f"{count} clusters of {n} nodes; ask for 1 to {n}")
    left = _Weighted(graph.sources(), graph.targets, np.ones(len(graph.targets)), np.ones(n))
    clusters = np.arange(n)
    limit = max(2.0, _HEAVY * n / count)
    while left.num_nodes > count:
        partner = _partners(left, limit)
        partner = _heaviest_pairs(left, partner, left.num_nodes - count)
        alone = partner == np.arange(left.num_nodes)
        if alone.all():
            limit *= 2
            continue
        first = np.minimum(partner, np.arange(left.num_nodes))
        _, ids = np.unique(first, return_inverse=True)
        clusters = ids[clusters]
        left = left.merged(ids)
    return clusters


def pooled(graph: CleanGraph, clusters: Ints, count: int) -> CleanGraph:
    """Return the graph of clusters, with an edge between clusters that an edge connects.

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1, 2], [1, 2, 3]), self_loops=False)
        >>> pooled(path, np.array([0, 0, 1, 1]), 2).targets.tolist()
        [1, 0]
    """
    source, target = clusters[graph.sources()], clusters[graph.targets]
    crossing = source != target  # edges within a cluster would dominate the degrees
    keys = distinct(source[crossing] * count + target[crossing])
    return CleanGraph(row_offsets(keys // count, count), keys % count)


@dataclass(frozen=True)
class _Weighted:
    """Weighted edges in both directions, sorted by source, and the size of each node."""

    sources: Ints
    targets: Ints
    weights: NDArray[np.float64]
    sizes: NDArray[np.float64]

    @property
    def num_nodes(self) -> int:
        return len(self.sizes)

    def merged(self, ids: Ints) -> _Weighted:
        count = int(ids.max()) + 1
        source, target = ids[self.sources], ids[self.targets]
        crossing = source != target
        keys = source[crossing] * count + target[crossing]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        weights = self.weights[crossing][order]
        weights = np.add.reduceat(weights, begins) if len(begins) else weights
        kept = keys[begins]
        sizes = np.bincount(ids, self.sizes, minlength=count).astype(np.float64)
        return _Weighted(kept // count, kept % count, weights, sizes)


def _partners(graph: _Weighted, limit: float) -> Ints:
    """Return the node that each node is paired with, or the node itself."""
    n, sizes = graph.num_nodes, graph.sizes
    scores = graph.weights + _tie_breaks(graph.sources, graph.targets, n)
    partner = _mutual_pairs(graph.sources, graph.targets, scores, sizes, limit)
    alone = np.flatnonzero(partner == np.arange(n))
    if len(alone) > _FEW * n:
        common = np.full(n, -1)
        heaviest = _heaviest(graph.sources, graph.targets, scores, n)
        common[alone] = heaviest[alone]
        chosen = alone[(common[alone] >= 0) & (2 * sizes[alone] <= limit)]
        # Nodes of similar size together, so that no pair exceeds the limit.
        chosen = chosen[np.lexsort((chosen, sizes[chosen], common[chosen]))]
        _pair_up(partner, chosen, common)
    # Nodes without edges are whole components, which can be paired only with each other.
    bare = np.flatnonzero((np.bincount(graph.sources, minlength=n) == 0) & (2 * sizes <= limit))
    _pair_up(partner, bare[np.argsort(sizes[bare], kind="stable")], np.zeros(n, np.int64))
    return partner


def _mutual_pairs(
    sources: Ints, targets: Ints, scores: NDArray[np.float64], sizes: NDArray[np.float64],
    limit: float,
) -> Ints:  # fmt: skip
    """Return pairs of nodes that are each other's heaviest neighbour, in several rounds."""
    n = len(sizes)
    partner = np.arange(n)
    open_ = sizes[sources] + sizes[targets] <= limit
    for _ in range(_ROUNDS):
        sources, targets, scores = sources[open_], targets[open_], scores[open_]
        if len(sources) == 0:
            break
        best = _heaviest(sources, targets, scores, n)
        asking = np.flatnonzero(best >= 0)
        mutual = asking[best[best[asking]] == asking]
        if len(mutual) == 0:
            break
        partner[mutual] = best[mutual]
        free = partner == np.arange(n)
        open_ = free[sources] & free[targets]
    return partner


def _heaviest(sources: Ints, targets: Ints, scores: NDArray[np.float64], n: int) -> Ints:
    """Return the target of each source's best edge; -1 without edges."""
    best = np.full(n, -1)
    if len(sources) == 0:
        return best
    begins = np.flatnonzero(np.diff(sources, prepend=-1))
    counts = np.diff(begins, append=len(sources))
    top = np.flatnonzero(scores == np.repeat(np.maximum.reduceat(scores, begins), counts))
    best[sources[top]] = targets[top]
    return best


def _pair_up(partner: Ints, nodes: Ints, groups: Ints) -> None:
    """Pair consecutive nodes of a list that are in one group, each node at most once."""
    if len(nodes) < 2:
        return
    group = groups[nodes]
    begins = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    place = np.arange(len(nodes)) - np.repeat(begins, np.diff(begins, append=len(nodes)))
    first = np.flatnonzero((place[:-1] % 2 == 0) & (group[:-1] == group[1:]))
    left, right = nodes[first], nodes[first + 1]
    partner[left], partner[right] = right, left


def _heaviest_pairs(graph: _Weighted, partner: Ints, most: int) -> Ints:
    """Return at most `most` pairs, those of small nodes and heavy edges first."""
    first = np.flatnonzero(partner > np.arange(len(partner)))
    if len(first) <= most:
        return partner
    weights = np.zeros(len(partner))
    along = partner[graph.sources] == graph.targets
    weights[graph.sources[along]] = graph.weights[along]
    sizes = graph.sizes[first] + graph.sizes[partner[first]]
    kept = first[np.lexsort((first, -weights[first], sizes))[:most]]
    fewer = np.arange(len(partner))
    fewer[kept], fewer[partner[kept]] = partner[kept], kept
    return fewer


def _tie_breaks(sources: Ints, targets: Ints, n: int) -> NDArray[np.float64]:
    """Return a hash of each edge from 0 to below 1, the same in both directions.

    It orders edges of equal weight: without it a path or a grid would be paired from one end, one
    pair per round.
    """
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    bits = (low * n + high).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits >> np.uint64(32)) / 2.0**32
