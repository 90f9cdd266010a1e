"""Slow, obvious versions that the fast ones are compared to."""

import itertools

import numpy as np


def clean(edges, num_nodes, directed):
    """Rows of neighbours, and (self-loops, duplicates, reverse edges added)."""
    self_loops = sum(u == v for u, v in edges)
    kept, duplicates = set(), 0
    for u, v in edges:
        if u == v:
            continue
        duplicates += (u, v) in kept
        kept.add((u, v))
    full = kept if directed else kept | {(v, u) for u, v in kept}
    rows = [sorted(v for u, v in full if u == node) for node in range(num_nodes)]
    return rows, (self_loops, duplicates, len(full) - len(kept))


def rows_of(offsets, targets):
    return [targets[start:end].tolist() for start, end in itertools.pairwise(offsets)]


FAR = 10**6  # no path


def bfs(rows, source):
    distance, queue = {source: 0}, [source]
    for node in queue:
        for other in rows[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    return distance


def all_distances(rows):
    """[n, n] distances by breadth-first search, FAR without a path."""
    found = np.full((len(rows), len(rows)), FAR)
    for source in range(len(rows)):
        for target, distance in bfs(rows, source).items():
            found[source, target] = distance
    return found


def best_on_paths(distance, rank):
    """[n, n] best rank of all nodes on all shortest paths from u to v; n without a path."""
    through = distance[:, :, None] + distance[None, :, :]  # u, w, v
    on_path = (through == distance[:, None, :]) & (distance[:, None, :] < FAR)
    return np.where(on_path, rank[None, :, None], len(rank)).min(axis=1)


def canonical_labels(rows, order):
    """The definition: ({hub: distance} a node reaches, {hub: distance} that reach it) per node."""
    rank = np.argsort(order)
    distance = all_distances(rows)
    best = best_on_paths(distance, rank)
    nodes = range(len(rows))
    reached = [{h: distance[v, h] for h in nodes if best[v, h] == rank[h]} for v in nodes]
    reaching = [{h: distance[h, v] for h in nodes if best[h, v] == rank[h]} for v in nodes]
    return reached, reaching


def degree_order(graph):
    """Degree descending (both directions counted), ties by a hash of the id, then by the id."""
    degree = np.diff(graph.offsets) + (np.diff(graph.in_offsets) if graph.directed else 0)
    ties = [tie_breaker(node) for node in graph.nodes.tolist()]
    return np.array(sorted(range(graph.num_nodes), key=lambda v: (-degree[v], ties[v], v)))


def tie_breaker(node):
    """The upper 32 bits of SplitMix64 of a whole number, or of the words of a text one by one."""
    if isinstance(node, int):
        return splitmix(node) >> 32
    text = node.encode("utf-8", "surrogatepass")
    number = splitmix(len(text))
    for at in range(0, len(text), 8):
        number = splitmix(number ^ int.from_bytes(text[at : at + 8], "little"))
    return number >> 32


def splitmix(seed):
    """The first number of SplitMix64, as its authors write it in C."""
    number = (seed + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def label_by_search(offsets, targets, rank, node):
    """({hub: distance} of one node, its distances to all), by one search with whole-array steps."""
    distance, best = np.full(len(rank), -1), rank.copy()
    distance[node], frontier, depth = 0, np.array([node]), 0
    while frontier.size:
        depth += 1
        counts = offsets[frontier + 1] - offsets[frontier]
        shift = np.repeat(offsets[frontier] - np.cumsum(counts) + counts, counts)
        reached = targets[shift + np.arange(counts.sum())]
        distance[reached[distance[reached] < 0]] = depth
        level = distance[reached] == depth
        np.minimum.at(best, reached[level], best[np.repeat(frontier, counts)[level]])
        frontier = np.unique(reached[level])
    hubs = np.flatnonzero((distance >= 0) & (best == rank))
    return dict(zip(hubs.tolist(), distance[hubs].tolist(), strict=True)), distance
