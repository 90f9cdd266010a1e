"""Hub labels: time against Algorithm 1 and NetworKit, memory, disk, queries and growth.

`make bench-labels` prints the table and writes `labels.jsonl` and `labels-growth.png`.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import graphs
from bench.measure import Bench, draw_growth, exponent, peak_memory, seconds
from dhilgt import Graph, HubLabels, generate

GROWTH_EDGES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
GROWTH_DEGREE = 10


def build(graph: Graph, threads: int, algorithm: str = "auto") -> HubLabels:
    """Build labels without progress and memory checks, to time the labeling alone."""
    return HubLabels.build(
        graph, threads=threads, algorithm=algorithm, progress=False, preflight=False
    )


def against_pll(name: str, threads: int) -> dict[str, Any]:
    """Time the fast path and Algorithm 1 in one process, one after the other."""
    shown, graph = graphs.load(name)
    fast = seconds(lambda: build(graph, threads), 3)
    one = seconds(lambda: build(graph, 1), 2)
    slow = seconds(lambda: build(graph, 1, "pll"))
    labels = build(graph, threads)
    return {
        "measure": "against pll",
        "graph": shown,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges // 2,
        "entries": labels.num_entries,
        "longest_distance": labels.max_distance,
        "threads": threads,
        "seconds": fast,
        "seconds_1_thread": one,
        "seconds_pll": slow,
        "ratio": slow / fast,
        "ratio_1_thread": slow / one,
    }


def against_networkit(name: str) -> dict[str, Any]:
    """Time NetworKit's pruned landmark labeling and ours, one thread each."""
    import networkit

    shown, graph = graphs.load(name)
    networkit.setNumberOfThreads(1)
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees)
    once = source < graph.targets
    peer_graph = networkit.GraphFromCoo(
        (source[once].astype(np.uint64), graph.targets[once].astype(np.uint64)), n=graph.num_nodes
    )
    peer = networkit.distance.PrunedLandmarkLabeling(peer_graph)
    theirs = seconds(peer.run)
    ours = seconds(lambda: build(graph, 1), 3)
    labels = build(graph, 1)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, graph.num_nodes, (200, 2))
    agree = all(
        int(peer.query(int(u), int(v))) == labels.distance(int(u), int(v)) for u, v in pairs
    )
    return {
        "measure": "against networkit",
        "graph": shown,
        "seconds": ours,
        "seconds_networkit": theirs,
        "ratio": theirs / ours,
        "distances_agree": agree,
    }


def memory(name: str, threads: int) -> dict[str, Any]:
    """Return the rise of resident memory while labels are built, beyond the loaded graph."""
    shown, graph = graphs.load(name)
    with peak_memory() as risen:
        labels = build(graph, threads)
    return {
        "measure": "memory",
        "graph": shown,
        "threads": threads,
        "peak_bytes": risen[0],
        "label_bytes": labels.nbytes,
    }


def disk_and_queries(name: str, threads: int) -> dict[str, Any]:
    """Return bytes an entry on disk, and the time of a million random distances."""
    shown, graph = graphs.load(name)
    labels = build(graph, threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels"
        save = seconds(lambda: labels.save(path, overwrite=True))
        size = sum(file.stat().st_size for file in path.iterdir())
        opened = seconds(lambda: HubLabels.load(path))
        mapped = HubLabels.load(path)
        rng = np.random.default_rng(0)
        sources, targets = rng.integers(0, graph.num_nodes, (2, 1_000_000))
        in_memory = seconds(lambda: labels.distances(sources, targets, threads=threads), 3)
        from_disk = seconds(lambda: mapped.distances(sources, targets, threads=threads), 3)
        matrix = seconds(lambda: labels.distance_matrix(sources[:1000], threads=threads))
    return {
        "measure": "disk and queries",
        "graph": shown,
        "threads": threads,
        "bytes_per_entry": size / labels.num_entries,
        "seconds_save": save,
        "seconds_open": opened,
        "seconds_million_pairs": in_memory,
        "seconds_million_pairs_mapped": from_disk,
        "seconds_matrix_1000": matrix,
    }


def growth_point(edges: int, threads: int) -> dict[str, Any]:
    """Build the labels of a generated graph with so many edges (both directions counted)."""
    graph = generate(edges // GROWTH_DEGREE, GROWTH_DEGREE, num_features=1)
    taken = float("inf")
    for _ in range(3 if edges <= 1_000_000 else 1):
        with peak_memory() as risen:
            start = time.perf_counter()
            labels = build(graph, threads)
            taken = min(taken, time.perf_counter() - start)
    return {
        "measure": "growth",
        "edges": graph.num_edges,
        "nodes": graph.num_nodes,
        "entries": labels.num_entries,
        "seconds": taken,
        "peak_bytes": risen[0],
        "threads": threads,
    }


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("labels", PARTS, __doc__ or "")
    threads = bench.threads
    for name in ("ogbn-arxiv", "physics", "cornell5", "tolokers"):
        figures = bench.measured(against_pll, name, threads)
        bench.row(
            f"{figures['graph']}: {threads} threads against pll",
            f"{figures['ratio']:.1f} x ({figures['seconds_pll']:.2f} s / "
            f"{figures['seconds']:.3f} s), "
            f"{figures['entries'] / figures['nodes']:.1f} entries a node",
        )
    figures = bench.measured(against_networkit, "tolokers")
    bench.row(
        f"{figures['graph']}: against NetworKit, 1 thread each",
        f"{figures['ratio']:.0f} x ({figures['seconds_networkit']:.2f} s / "
        f"{figures['seconds']:.3f} s), distances agree: {figures['distances_agree']}",
    )
    figures = bench.measured(memory, "ogbn-arxiv", threads)
    bench.row(
        f"{figures['graph']}: peak memory over the graph",
        f"{figures['peak_bytes'] / 1e6:.0f} MB "
        f"({figures['label_bytes'] / 1e6:.0f} MB of it labels)",
    )
    figures = bench.measured(disk_and_queries, "ogbn-arxiv", threads)
    bench.row(f"{figures['graph']}: on disk", f"{figures['bytes_per_entry']:.2f} B an entry")
    bench.row(
        f"{figures['graph']}: a million random distances",
        f"{figures['seconds_million_pairs']:.2f} s "
        f"({figures['seconds_million_pairs_mapped']:.2f} s from mapped files)",
    )
    points = [bench.measured(growth_point, edges, threads) for edges in GROWTH_EDGES]
    entries = [float(point["entries"]) for point in points]
    times = [float(point["seconds"]) for point in points]
    bench.row(
        f"growth, {GROWTH_EDGES[0]:,} to {GROWTH_EDGES[-1]:,} edges: time against entries",
        f"exponent {exponent(entries, times):.2f}",
    )
    for point in points:
        bench.row(
            f"  {point['edges']:,} edges, {point['nodes']:,} nodes",
            f"{point['seconds']:.2f} s, {point['entries'] / 1e6:.1f} M entries, "
            f"{point['peak_bytes'] / 1e6:.0f} MB",
        )
    curves = [
        ("seconds", "seconds", 1.0),
        ("entries", "label entries", 1.0),
        ("peak_bytes", "peak memory (MB)", 1e-6),
    ]
    draw_growth(points, "edges", curves, bench.folder / "labels-growth.png")
    bench.finish()


PARTS = [against_pll, against_networkit, memory, disk_and_queries, growth_point]

if __name__ == "__main__":
    main()
