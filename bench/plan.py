"""What a plan predicts of labels and tokens, against what they take: `python -m bench.plan`.

Graphs with short and with long distances; real ones where `DHILGT_DATA` names their folder.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np

from bench import graphs
from dhilgt import Graph, HubLabels, TokenSampler
from dhilgt.classifier.trials import measure_graph
from dhilgt.labels.sizes import estimate
from dhilgt.settings.settings import Settings

ROWS = 1000


def grid(side: int, diagonals: bool = False) -> Graph:
    """Return a square grid."""
    at = np.arange(side * side).reshape(side, side)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    if diagonals:
        ends += [(at[:-1, :-1], at[1:, 1:]), (at[:-1, 1:], at[1:, :-1])]
    sources, targets = (np.concatenate([pair[end].ravel() for pair in ends]) for end in (0, 1))
    return Graph.from_edges(sources, targets, num_nodes=side * side)


def roads(count: int, degree: float) -> Graph:
    """Return random points of a square, joined where they are near."""
    from scipy.spatial import cKDTree

    points = np.random.default_rng(0).random((count, 2))
    pairs = cKDTree(points).query_pairs((degree / np.pi / count) ** 0.5, output_type="ndarray")
    return Graph.from_edges(*pairs.T, num_nodes=count)


def uniform(count: int, degree: int) -> Graph:
    """Return edges between random nodes."""
    ends = np.random.default_rng(0).integers(0, count, (2, count * degree // 2))
    return Graph.from_edges(*ends, num_nodes=count)


def chain(count: int, closed: bool) -> Graph:
    """Return a path, or a cycle."""
    nodes = np.arange(count if closed else count - 1)
    return Graph.from_edges(nodes, (nodes + 1) % count, num_nodes=count)


def tree(count: int) -> Graph:
    """Return a binary tree."""
    nodes = np.arange(1, count)
    return Graph.from_edges(nodes, (nodes - 1) // 2, num_nodes=count)


def star(count: int) -> Graph:
    """Return one node joined to all others."""
    nodes = np.arange(1, count)
    return Graph.from_edges(np.zeros_like(nodes), nodes, num_nodes=count)


CASES: dict[str, Callable[[], Graph]] = {
    "grid 60 x 60": lambda: grid(60),
    "grid 100 x 100": lambda: grid(100),
    "grid 100 x 100 with diagonals": lambda: grid(100, diagonals=True),
    "path of 3,000": lambda: chain(3000, closed=False),
    "cycle of 5,000": lambda: chain(5000, closed=True),
    "binary tree of 100,000": lambda: tree(100_000),
    "roads of 20,000": lambda: roads(20_000, 6),
    "star of 50,000": lambda: star(50_000),
    "uniform of 10,000": lambda: uniform(10_000, 8),
    **{name: lambda name=name: graphs.load(name)[1] for name in ("cora", "pubmed", "physics")},  # type: ignore[misc]
    "ogbn-arxiv": lambda: graphs.load("ogbn-arxiv")[1],
}


def compare(graph: Graph) -> tuple[float, float, float, float, float]:
    """Return predicted over actual of entries, bytes, label time and row time, and label time."""
    predicted = estimate(graph)
    cost = measure_graph(graph, predicted, None, Settings())
    start = time.perf_counter()
    labels = HubLabels.build(graph, progress=False, preflight=False)
    took = time.perf_counter() - start
    sampler = TokenSampler(labels, progress=False)
    nodes = np.linspace(0, graph.num_nodes - 1, min(ROWS, graph.num_nodes)).astype(np.int64)
    start = time.perf_counter()
    sampler.packed_rows(nodes)
    row = (time.perf_counter() - start) / len(nodes)
    return (
        predicted.num_entries / labels.num_entries,
        predicted.num_bytes / labels.nbytes,
        cost.label_seconds / took,
        cost.row_seconds / row,
        took,
    )


def main() -> None:
    """Print a table of predicted over actual."""
    warnings.simplefilter("ignore")
    print("| graph | entries | bytes | time of labels | time of a row | labels took |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, make in CASES.items():
        *ratios, took = compare(make())
        print(f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} | {took:.2f} s |")


if __name__ == "__main__":
    main()
