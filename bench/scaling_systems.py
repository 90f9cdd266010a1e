"""Every system against the size of a graph: time and memory of preparing, an epoch, inference.

Two series of generated graphs: nodes grow while their degree stays, and edges grow while the nodes
stay. Each figure is fitted as a power of what grows. `make bench-scaling` prints the table and
writes `scaling_systems.jsonl`.
"""

import argparse
import subprocess
import sys
from typing import Any

import numpy as np
import torch

from bench.measure import Bench, Row, exponent, peak_memory, seconds
from dhilgt import MemoryLimitError, baselines, generate

NODES, DEGREE = (10_000, 20_000, 40_000, 80_000), 10
FIXED_NODES, DEGREES = 20_000, (5, 10, 20, 40)
CHANNELS, CLASSES, HIDDEN = 32, 5, 64
EPOCHS = 2
LIMIT_SECONDS = 300.0  # a series ends with the first graph that takes longer
SLACK = 0.2  # a small graph, caches and fixed costs bend a straight line by about this much

STAGES = ("prepare", "epoch", "inference")
# What preparing and an epoch should cost, where the edges grow with the nodes: as papers say it.
CLAIMS = {
    "ansgt": ("n s² + K m", "L n F² + L n s² F"),
    "difformer": ("-", "L n F² + L m F"),
    "gcn": ("m", "L n F² + L m F"),
    "goat": ("n F", "L n F² + L m F"),
    "hsgt": ("n + L m", "L n F² + L m F"),
    "linkx": ("-", "n F² + m F"),
    "mlp": ("-", "n F²"),
    "nagphormer": ("K m F₀", "K n F²"),
    "polynormer": ("-", "L n F² + L m F"),
    "sage": ("m", "L n F² + L m F"),
    "sgformer": ("m", "L n F² + L m F"),
}


def point(system: str, nodes: int, degree: int, threads: int, device: str) -> dict[str, Any]:
    """Measures a system on one generated graph."""
    torch.set_num_threads(threads)
    _warm_up(system, device)
    graph = generate(nodes, degree, num_features=CHANNELS, num_classes=CLASSES)
    found: dict[str, Any] = {
        "measure": "point",
        "system": system,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "degree": degree,
        "device": device,
        "threads": threads,
    }
    train = np.random.default_rng(0).permutation(nodes)[: max(1, nodes * 6 // 10)]
    try:
        with peak_memory() as risen:
            model = baselines.create(system, graph, **_settings(system))
        found |= {"prepare_seconds": model.stages.seconds()["precompute"]}
        found |= {"prepare_bytes": max(risen[0], 0)}
        config = model.train_config(epochs=EPOCHS, patience=None)
        with peak_memory() as risen:
            result = baselines.fit(model, train, None, config, device=device, progress=False)
        epochs = result.stages.to_dict()["epoch"]
        found |= {"epoch_seconds": epochs["seconds"] / epochs["times"]}
        found |= {"epoch_bytes": max(risen[0], 0), "epoch_gpu_bytes": epochs["device_peak_bytes"]}
        everyone = model.inference_batches()
        with peak_memory() as risen:
            taken = seconds(lambda: result.trainer.predict(everyone), 2)
        found |= {"inference_seconds": taken, "inference_bytes": max(risen[0], 0)}
        found |= {"inference_device": model.inference_device}
    except (MemoryError, MemoryLimitError, torch.OutOfMemoryError) as error:
        found["failed"] = f"out of memory: {error}"
    return found


def _settings(system: str) -> dict[str, Any]:
    known = baselines.describe(system)["settings"]
    return {"hidden_channels": HIDDEN} if "hidden_channels" in known else {}


def _warm_up(system: str, device: str) -> None:
    # What is loaded at first use, 180 MB of it, is not the system's.
    graph = generate(60, 4, num_features=CHANNELS, num_classes=CLASSES)
    model = baselines.create(system, graph, **_settings(system))
    config = model.train_config(epochs=1, patience=None)
    baselines.fit(model, np.arange(40), None, config, device=device, progress=False)


def series(bench: Bench, system: str, sizes: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Measures a system on graphs of growing size, until one fails or takes too long."""
    points: list[dict[str, Any]] = []
    for nodes, degree in sizes:
        try:
            found = bench.measured(
                point, system, nodes, degree, bench.threads, bench.options.device
            )
        except subprocess.CalledProcessError as error:
            # Killed for its memory, most likely; what it said is above.
            print(f"{system}, {nodes} nodes: ended with {error.returncode}", file=sys.stderr)
            break
        if "failed" in found:
            break
        points.append(found)
        if sum(found[f"{stage}_seconds"] for stage in STAGES) > bench.options.limit:
            break
    return points


def exponents(points: list[dict[str, Any]], size: str) -> dict[str, float]:
    """Gives the power of a size that each figure grows with; none for figures of next to nothing.

    Args:
        points: Measurements of one system, at least two.
        size: "nodes" or "edges".
    """
    found = {}
    for key, least in (("seconds", 1e-3), ("bytes", 1e6)):
        for stage in STAGES:
            name = f"{stage}_{key}"
            # The smallest graphs hide behind what any graph costs.
            used = [p for p in points if p[name] > least]
            if len(used) >= 2:
                xs, ys = ([float(p[part]) for p in used] for part in (size, name))
                found[name] = exponent(xs, ys)
    return found


def rows_of(system: str, by_nodes: dict[str, float], by_edges: dict[str, float]) -> list[Row]:
    """Gives the table's lines of a system."""
    claimed = dict(zip(STAGES, (*CLAIMS.get(system, ("", "")), ""), strict=True))
    lines: list[Row] = []
    for stage in STAGES:
        cells = [
            _power("time", "n", by_nodes.get(f"{stage}_seconds")),
            _power("memory", "n", by_nodes.get(f"{stage}_bytes")),
            _power("time", "m", by_edges.get(f"{stage}_seconds")),
            _power("memory", "m", by_edges.get(f"{stage}_bytes")),
        ]
        shown = "; ".join(cell for cell in cells if cell) or "too little to tell"
        largest = max(by_nodes.get(f"{stage}_seconds", 0), by_nodes.get(f"{stage}_bytes", 0))
        verdict = " (more than linear)" if largest > 1 + SLACK else ""
        lines.append((f"{system}: {stage}", claimed[stage], shown + verdict))
    return lines


def _power(what: str, of: str, found: float | None) -> str:
    return "" if found is None else f"{what} {of}^{found:.2f}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen: systems, sizes, device and limit."""
    parser.add_argument("--systems", nargs="+", default=baselines.names())
    parser.add_argument("--nodes", nargs="+", type=int, default=list(NODES))
    parser.add_argument("--degrees", nargs="+", type=int, default=list(DEGREES))
    parser.add_argument("--fixed-nodes", type=int, default=FIXED_NODES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS)


def main() -> None:
    """Measures every system and prints the table."""
    bench = Bench("scaling_systems", PARTS, __doc__ or "", add_options)
    options = bench.options
    rows: list[Row] = []
    for system in options.systems:
        nodes = series(bench, system, [(nodes, DEGREE) for nodes in options.nodes])
        edges = series(bench, system, [(options.fixed_nodes, d) for d in options.degrees])
        powers = exponents(nodes, "nodes"), exponents(edges, "edges")
        bench.keep({"measure": "fit", "system": system, "nodes": powers[0], "edges": powers[1]})
        rows += rows_of(system, *powers)
        bench.finish(rows, show=system == options.systems[-1])


PARTS = [point]

if __name__ == "__main__":
    main()
