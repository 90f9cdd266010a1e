"""Graphs for the label tests, and labels in a form that compares."""

import numpy as np

from dhilgt import Graph, HubLabels, _native
from dhilgt.labels.sizes import native_arrays

ALGORITHMS = ("auto", "pll", "planes", "psl")
PLAN = _native.PLAN_HUBS
UNLIMITED = 2**64 - 1


def build(graph, **options):
    return HubLabels.build(graph, progress=False, **options)


def random_graph(seed, *, most_nodes=14, directed=None):
    """Connected or not, directed or not, sparse or dense."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most_nodes + 1))
    num_edges = int(rng.integers(0, int(n * rng.choice([0.5, 1.0, 1.5, 4.0])) + 1))
    directed = bool(rng.integers(2)) if directed is None else directed
    u, v = rng.integers(n, size=(2, num_edges))
    different = u != v
    return Graph.from_edges(u[different], v[different], num_nodes=n, directed=directed)


def rows_of(graph):
    ends = zip(graph.offsets[:-1].tolist(), graph.offsets[1:].tolist(), strict=True)
    return [graph.targets[start:end].tolist() for start, end in ends]


def label(labels, node, side="out"):
    ids, distances = labels.hubs(node, side=side)
    return dict(zip(ids.tolist(), distances.tolist(), strict=True))


def packed(native):
    """All bytes of labels."""
    sides = range(2 if native.directed else 1)
    return [array.tobytes() for side in sides for array in native.pack(side, 1)]


def native_labels(graph, *, algorithm="auto", plane_hubs=PLAN, threads=1, order=None):
    actual, _, _ = _native.build_labels(
        *native_arrays(graph), order, algorithm, plane_hubs, threads, UNLIMITED, None
    )
    return actual


def path(num_nodes, *, seed=None):
    """A path, its ids in order or shuffled; gives the graph and the place of each id."""
    ids = np.arange(num_nodes)
    if seed is not None:
        ids = np.random.default_rng(seed).permutation(num_nodes)
    return Graph.from_edges(ids[:-1], ids[1:], num_nodes=num_nodes), np.argsort(ids)


def grid(side, *, seed):
    ids = np.random.default_rng(seed).permutation(side * side).reshape(side, side)
    u = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    v = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    place = np.argsort(ids.ravel())
    return Graph.from_edges(u, v, num_nodes=side * side), place // side, place % side
