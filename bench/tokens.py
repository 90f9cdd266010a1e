"""Tokens: sampling, distances, the whole precompute, disk and growth.

`make bench-tokens` prints the table and writes `tokens.jsonl` and `tokens-growth.png`.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import graphs
from bench.labels import build
from bench.measure import Bench, draw_growth, exponent, peak_memory, seconds
from dhilgt import HubLabels, Tokens, TokenSampler, _native, generate

GROWTH_NODES = (50_000, 100_000, 200_000, 400_000, 1_000_000)
GROWTH_DEGREE = 10
PEER_BLOCK, PEER_STEP = 20_000, 8  # the peer answers every 8th row of a block of nodes


def rows(name: str, threads: int) -> dict[str, Any]:
    """Time sampling, sampling with all distances, and the same distances pair by pair."""
    shown, graph = graphs.load(name)
    labels = build(graph, threads)
    sampler = TokenSampler(labels, threads=threads, progress=False)
    everyone = np.arange(graph.num_nodes)
    n = graph.num_nodes
    sampling = seconds(lambda: sampler.ids(everyone), 3) / n
    whole = seconds(lambda: sampler.packed_rows(everyone), 3) / n
    # The peer: every pair of a row by merging two labels, natively, on as many threads.
    block = everyone[n // 4 : n // 4 + PEER_BLOCK]
    same_rows = seconds(lambda: sampler.packed_rows(block), 3) / len(block)
    ids = sampler.ids(block[::PEER_STEP])
    sources, targets = [], []
    for row in ids:
        real = row[row >= 0]
        first, second = np.tril_indices(len(real), -1)
        sources.append(real[first])
        targets.append(real[second])
    left, right = np.concatenate(sources), np.concatenate(targets)
    left_ranks, right_ranks = labels.ranks[left], labels.ranks[right]
    index = _native.MergeIndex(labels.native)
    by_pairs = seconds(lambda: index.pairs(left_ranks, right_ranks, threads), 3) / len(ids)
    return {
        "measure": "rows",
        "graph": shown,
        "threads": threads,
        "size": sampler.spec.size,
        "us_sampling": sampling * 1e6,
        "us_row": whole * 1e6,
        "us_row_by_merging": by_pairs * 1e6,
        "us_row_same_rows": same_rows * 1e6,
        "ratio": by_pairs / same_rows,
        "mean_members": float((ids >= 0).sum(1).mean()),
    }


def whole_way(name: str, threads: int) -> dict[str, Any]:
    """Time edges on disk -> labels -> tokens with distances on disk."""
    import time

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        shown, graph = graphs.load(name)
        read = time.perf_counter()
        labels = HubLabels.build(graph, threads=threads, progress=False)
        built = time.perf_counter()
        tokens = Tokens.build(labels, threads=threads, path=Path(folder) / "tokens", progress=False)
        done = time.perf_counter()
        files = sum(file.stat().st_size for file in (Path(folder) / "tokens").iterdir())
        short = Tokens.build(
            labels, threads=threads, bits=4, path=Path(folder) / "short", progress=False
        )
        short_files = sum(file.stat().st_size for file in (Path(folder) / "short").iterdir())
        some = np.random.default_rng(0).choice(graph.num_nodes, 4096, replace=False)
        stored = seconds(lambda: tokens.packed_rows(some), 3) / len(some)
    return {
        "measure": "whole way",
        "graph": shown,
        "threads": threads,
        "seconds_read": read - start,
        "seconds_labels": built - read,
        "seconds_tokens": done - built,
        "seconds": done - start,
        "bytes_per_node": files / graph.num_nodes,
        "bytes_per_node_4_bit": short_files / graph.num_nodes,
        "us_row_stored": stored * 1e6,
        "rows": len(short),
    }


def growth_point(nodes: int, threads: int) -> dict[str, Any]:
    """Make the tokens of a generated graph, on disk."""
    graph = generate(nodes, GROWTH_DEGREE, num_features=1)
    labels = build(graph, threads)
    with tempfile.TemporaryDirectory() as folder, peak_memory() as risen:
        taken = seconds(
            lambda: Tokens.build(
                labels,
                threads=threads,
                path=Path(folder) / "tokens",
                overwrite=True,
                progress=False,
            )
        )
    return {
        "measure": "growth",
        "nodes": nodes,
        "edges": graph.num_edges,
        "entries": labels.num_entries,
        "seconds": taken,
        "peak_bytes": risen[0],
        "label_bytes": labels.nbytes,
        "threads": threads,
    }


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("tokens", PARTS, __doc__ or "")
    threads = bench.threads
    made = bench.measured(rows, "ogbn-arxiv", threads)
    whole = bench.measured(whole_way, "ogbn-arxiv", threads)
    points = [bench.measured(growth_point, nodes, threads) for nodes in GROWTH_NODES]
    times = [float(point["seconds"]) for point in points]
    shown = made["graph"]
    bench.row(
        f"{shown}: sampling + all distances, {threads} threads",
        f"{made['us_row']:.1f} µs a token",
    )
    bench.row(
        f"{shown}: against per-pair merge queries",
        f"{made['ratio']:.0f} x ({made['us_row_by_merging']:.0f} / "
        f"{made['us_row_same_rows']:.1f} µs a token)",
    )
    bench.row(f"{shown}: sampling alone", f"{made['us_sampling']:.2f} µs a token")
    bench.row(
        f"{shown}: edges to tokens on disk",
        f"{whole['seconds']:.1f} s (read {whole['seconds_read']:.1f}, labels "
        f"{whole['seconds_labels']:.1f}, tokens {whole['seconds_tokens']:.1f})",
    )
    bench.row(
        f"{shown}: on disk, size 32",
        f"{whole['bytes_per_node']:.0f} B a node, {whole['bytes_per_node_4_bit']:.0f} B in 4 bits",
    )
    bench.row(f"{shown}: stored rows read back", f"{whole['us_row_stored']:.2f} µs a row")
    bench.row(
        f"growth, {GROWTH_NODES[0]:,} to {GROWTH_NODES[-1]:,} nodes: time against nodes",
        f"exponent {exponent([float(p['nodes']) for p in points], times):.2f} "
        f"({exponent([float(p['entries']) for p in points], times):.2f} against label entries)",
    )
    for point in points:
        bench.row(
            f"  {point['nodes']:,} nodes, {point['entries'] // point['nodes']} entries a node",
            f"{point['seconds']:.2f} s, {point['peak_bytes'] / 1e6:.0f} MB beyond labels of "
            f"{point['label_bytes'] / 1e6:.0f} MB",
        )
    curves = [
        ("seconds", "seconds", 1.0),
        ("peak_bytes", "memory beyond labels (MB)", 1e-6),
    ]
    draw_growth(points, "nodes", curves, bench.folder / "tokens-growth.png")
    bench.finish()


PARTS = [rows, whole_way, growth_point]

if __name__ == "__main__":
    main()
