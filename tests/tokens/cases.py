"""Graphs, labels and slow, obvious answers that the token tests share."""

import random
from collections import deque
from dataclasses import dataclass
from functools import cache

import numpy as np

from dhilgt import Graph, HubLabels, generate

FAR, NO_PATH = 254, 255


def labels_of(graph):
    return HubLabels.build(graph, progress=False, threads=1)


def path_graph(length):
    return Graph.from_edges(range(length - 1), range(1, length), num_nodes=length)


def star(leaves):
    return Graph.from_edges(
        np.zeros(leaves, np.int64), np.arange(1, leaves + 1), num_nodes=leaves + 1
    )


def landmark_path(length):
    """A path and an order that begins with its first node: that node's holders are all others."""
    graph = path_graph(length)
    return HubLabels.build(graph, order=range(length), progress=False, threads=1)


def random_graph(seed, directed):
    """At most 40 nodes, often in several pieces, sometimes without any edge."""
    random_numbers = random.Random(seed)
    n = random_numbers.randint(1, 40)
    m = random_numbers.randint(0, 3 * n)
    pairs = [(random_numbers.randrange(n), random_numbers.randrange(n)) for _ in range(m)]
    pairs = [(u, v) for u, v in pairs if u != v]
    kept = sorted({pair if directed else (min(pair), max(pair)) for pair in pairs})
    return Graph.from_edges(
        [u for u, _ in kept], [v for _, v in kept], num_nodes=n, directed=directed
    )


@cache
def generated(directed):
    """A graph with hubs, large enough to fill rows, small enough for a search from every node."""
    return generate(400, 6, seed=5, num_features=0, directed=directed)


@cache
def generated_labels(directed=False):
    return labels_of(generated(directed))


def neighbors_of(graph):
    """Neighbours along either direction, per node."""
    actual = [set() for _ in range(graph.num_nodes)]
    for u, v in zip(*(ends.tolist() for ends in graph.to_edge_index()), strict=True):
        actual[u].add(v)
        actual[v].add(u)
    return actual


def bfs_codes(graph):
    """[n, n] distance codes: row = source."""
    n = graph.num_nodes
    codes = np.full((n, n), NO_PATH, np.uint8)
    for source in range(n):
        codes[source, source] = 0
        seen, queue = {source: 0}, deque([source])
        while queue:
            u = queue.popleft()
            for v in graph.targets[graph.offsets[u] : graph.offsets[u + 1]].tolist():
                if v not in seen:
                    seen[v] = seen[u] + 1
                    codes[source, v] = min(seen[v], FAR)
                    queue.append(v)
    return codes


def expected_square(ids, codes):
    """The distances a row must show, from those of all pairs."""
    padding = ids < 0
    square = codes[ids[:, :, None], ids[:, None, :]].copy()
    square[padding[:, :, None] | padding[:, None, :]] = NO_PATH
    return square


def packed_slowly(square, directed):
    """One row's square, packed as `PackedRows` says."""
    size = len(square)
    to_later = [square[j, i] for i in range(size) for j in range(i)]
    to_earlier = [square[i, j] for i in range(size) for j in range(i)]
    return to_later + (to_earlier if directed else [])


@dataclass(frozen=True)
class Sides:
    """Whom a node may draw: node -> distance, itself left out."""

    hubs: dict
    holders: dict


def sides_of(labels):
    """The sides of every node, from single labels; on directed graphs both label sets joined."""
    n = labels.num_nodes
    sides = [Sides({}, {}) for _ in range(n)]
    for node in range(n):
        name = labels.ids.ids_of(node)
        for side in ("in", "out"):
            hubs, distances = labels.hubs(name, side=side)
            for hub, distance in zip(labels.ids.index_of(hubs), distances.tolist(), strict=True):
                if hub != node:
                    old = sides[node].hubs.get(int(hub), distance)
                    sides[node].hubs[int(hub)] = min(old, distance)
    for node in range(n):
        for hub, distance in sides[node].hubs.items():
            sides[hub].holders[node] = distance
    return sides


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
