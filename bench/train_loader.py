"""The loader alone: rows per second from stored tokens and from a sampler, and the first batch.

`python -m bench.train_loader --part rates 100000` prints one JSON object.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.labels import build
from bench.measure import Results, in_process, peak_memory, seconds
from dhilgt import HubLabels, TokenLoader, Tokens, TokenSampler, generate
from dhilgt.assemble import Distinct

DEGREE, SIZE, BATCH = 10, 32, 1024


def _labels(nodes: int, threads: int) -> HubLabels:
    return build(generate(nodes, DEGREE, num_features=0), threads)


def _epoch(loader: TokenLoader) -> float:
    """Gives rows per second of one epoch, every batch being dropped as it comes."""
    taken = seconds(lambda: [None for _ in loader], 3)
    return loader.num_nodes / taken


def rates(nodes: int, threads: int = 2, channels: int = 128) -> dict[str, Any]:
    """Gives rows per second by source and setting, and the memory an epoch takes."""
    labels = _labels(nodes, threads)
    features = np.random.default_rng(0).normal(size=(nodes, channels)).astype(np.float32)
    classes = np.random.default_rng(1).integers(0, 10, nodes)
    sampler = TokenSampler(labels, size=SIZE, threads=threads, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        Tokens.build(labels, size=SIZE, threads=threads, progress=False, path=Path(folder) / "t")
        stored = Tokens.load(Path(folder) / "t")
        found: dict[str, Any] = {}
        for name, source, more in (
            ("stored", stored, {}),
            ("stored_no_prefetch", stored, {"prefetch": 0}),
            ("stored_resident", stored, {"resident": True}),
            ("sampler", sampler, {}),
            ("sampler_fresh", sampler, {"fresh": True}),
        ):
            loader = TokenLoader(source, features, classes, batch_size=BATCH, shuffle=True, **more)
            with peak_memory() as risen:
                found[f"rows_per_second_{name}"] = _epoch(loader)
            found[f"peak_bytes_{name}"] = risen[0]
        ids = stored.packed_rows(np.arange(BATCH) * (nodes // BATCH)).ids
        distinct = Distinct(nodes)
        found["us_distinct"] = seconds(lambda: distinct(ids), 20) * 1e6
        found["us_numpy_unique"] = seconds(lambda: np.unique(ids, return_inverse=True), 20) * 1e6
        found["distinct_of_slots"] = len(distinct(ids)[0]) / ids.size
    return {"measure": "loader", "nodes": nodes, "channels": channels, "threads": threads, **found}


def first_batch(nodes: int, threads: int = 2, channels: int = 128) -> dict[str, Any]:
    """Gives the time from a folder of tokens and a mapped file of features to the first batch."""
    labels = _labels(nodes, threads)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        Tokens.build(labels, size=SIZE, threads=threads, progress=False, path=root / "t")
        rng = np.random.default_rng(0)
        np.save(root / "x.npy", rng.normal(size=(nodes, channels)).astype(np.float32))
        taken = {}
        for name, mode in (("mapped", "r"), ("read", None)):
            start = time.perf_counter()
            tokens = Tokens.load(root / "t")
            features = np.load(root / "x.npy", mmap_mode=mode)
            opened = time.perf_counter() - start
            batches = iter(TokenLoader(tokens, features, batch_size=BATCH, shuffle=True))
            next(batches)
            taken[f"seconds_first_batch_{name}"] = time.perf_counter() - start
            taken[f"seconds_open_{name}"] = opened
            del batches
    return {"measure": "first batch", "nodes": nodes, "channels": channels, **taken}


def main() -> None:
    """Measures everything, or one part in this process (`--part`)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--part", nargs="*")
    options = parser.parse_args()
    if options.part:
        name, *arguments = options.part
        print(json.dumps(globals()[name](*map(int, arguments))))
        return
    results = Results(options.results, "train-loader")
    for part in ("rates", "first_batch"):
        figures = in_process("bench.train_loader", "--part", part, str(options.nodes))
        results.add(**figures)
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
