"""Labels with a radius against full ones: time, entries, bytes, and exactness within the radius.

`make bench-radius` prints the table and writes `radius.jsonl`.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import graphs
from bench.measure import Bench, peak_memory, seconds
from dhilgt import BEYOND, Graph, HubLabels
from dhilgt.store.artifact import Artifact

NAME = "ogbn-arxiv"
RADII = (3, 2)
REPEATS = 3
SOURCES = 20  # nodes whose distances are compared with a search


def build(graph: Graph, threads: int, radius: int | None) -> HubLabels:
    """Build labels without progress and memory checks, to time the labeling alone."""
    return HubLabels.build(graph, threads=threads, radius=radius, progress=False, preflight=False)


def against_full(name: str, radius: int, threads: int) -> dict[str, Any]:
    """Time full labels and those of a radius in one process, in turns, and compare sizes."""
    shown, graph = graphs.load(name)
    seconds_full = seconds_near = float("inf")
    for _ in range(REPEATS):
        seconds_full = min(seconds_full, seconds(lambda: build(graph, threads, None)))
        seconds_near = min(seconds_near, seconds(lambda: build(graph, threads, radius)))
    full, near = (_sizes(graph, threads, end) for end in (None, radius))
    figures = {
        "measure": "against full",
        "graph": shown,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges // 2,
        "threads": threads,
        "radius": radius,
        "seconds_full": seconds_full,
        "seconds": seconds_near,
        "times_faster": seconds_full / seconds_near,
    }
    for name in full:
        figures[f"{name}_full"] = full[name]
        figures[name] = near[name]
        figures[f"{name}_times_smaller"] = full[name] / near[name]
    return figures


def _sizes(graph: Graph, threads: int, radius: int | None) -> dict[str, Any]:
    with peak_memory() as risen:
        labels = build(graph, threads, radius)
    with tempfile.TemporaryDirectory() as folder:
        labels.save(Path(folder) / "labels", threads=threads)
        on_disk = Artifact.open(Path(folder) / "labels").nbytes
    return {
        "entries": labels.num_entries,
        "bytes": labels.nbytes,
        "bytes_on_disk": on_disk,
        "peak_bytes": risen[0],
    }


def against_search(name: str, radius: int, threads: int) -> dict[str, Any]:
    """Compare all distances from some nodes with those of a search."""
    shown, graph = graphs.load(name)
    labels = build(graph, threads, radius)
    everyone = np.arange(graph.num_nodes)
    near = bounds = beyond = excess = 0
    for source in np.random.default_rng(0).choice(graph.num_nodes, SOURCES, replace=False):
        true = _searched(graph, int(source))
        found = labels.distances(np.full(graph.num_nodes, source), everyone, threads=threads)
        within = (true >= 0) & (true <= radius)
        assert (found[within] == true[within]).all(), "a distance within the radius is wrong"
        exact = labels.is_exact(found)
        assert (found[exact] == true[exact]).all(), "a distance said to be exact is not"
        bound = ~exact & (found != BEYOND)
        assert (found[bound] >= true[bound]).all(), "a bound is too short"
        near += int(within.sum())
        bounds += int(bound.sum())
        excess += int((found[bound] - true[bound]).sum())
        beyond += int((found == BEYOND).sum())
    pairs = SOURCES * graph.num_nodes
    return {
        "measure": "against search",
        "graph": shown,
        "radius": radius,
        "pairs": pairs,
        "within": near / pairs,
        "within_exact": 1.0,  # else an error ended this
        "bounds": bounds / pairs,
        "mean_excess_of_bounds": excess / max(1, bounds),
        "beyond": beyond / pairs,
    }


def _searched(graph: Graph, source: int) -> NDArray[np.int32]:
    """Return the distance of all nodes from one by breadth-first search, -1 without a path."""
    distance = np.full(graph.num_nodes, -1, np.int32)
    frontier, depth = np.array([source]), 0
    while frontier.size:
        distance[frontier] = depth
        depth += 1
        starts, counts = graph.offsets[frontier], graph.degrees[frontier]
        ends = np.cumsum(counts)
        arcs = np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)
        frontier = np.unique(graph.targets[arcs])
        frontier = frontier[distance[frontier] < 0]
    return distance


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("radius", [against_full, against_search], "Labels with a radius.")
    for radius in RADII:
        line = bench.measured(against_full, NAME, radius, bench.threads)
        bench.row(
            f"{line['graph']}, {line['threads']} threads, radius {line['radius']} against full",
            f"{line['times_faster']:.1f} x faster ({line['seconds']:.2f} s), "
            f"{line['entries_times_smaller']:.1f} x fewer entries, "
            f"{line['bytes_times_smaller']:.1f} x fewer bytes, "
            f"{line['bytes_on_disk_times_smaller']:.1f} x on disk",
        )
    for radius in RADII:
        line = bench.measured(against_search, NAME, radius, bench.threads)
        bench.row(
            f"{line['graph']}, radius {radius}, {line['pairs']:,} pairs against a search",
            f"{line['within']:.2%} within the radius, all exact; {line['bounds']:.1%} bounds "
            f"({line['mean_excess_of_bounds']:.2f} too long on average), "
            f"{line['beyond']:.1%} beyond",
        )
    bench.finish()


if __name__ == "__main__":
    main()
