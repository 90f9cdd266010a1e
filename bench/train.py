"""Training on the CPU: loader against model, first batch, memory, and the distinct-node projection.

`make bench-train` prints the table and writes `train.jsonl`.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import graphs
from bench.labels import build
from bench.measure import Bench, peak_memory, seconds
from bench.plain_model import PlainModel
from dhilgt import (
    DHILGT,
    HubLabels,
    TokenLoader,
    Tokens,
    TokenSampler,
    TrainConfig,
    Trainer,
    generate,
)

DEGREE, CHANNELS, HIDDEN, CLASSES, BATCH = 10, 128, 128, 10, 256
RATE_NODES, MEMORY_NODES = 100_000, 400_000
STEPS = 12
TRAIN_NODES = 534  # of chameleon: 60 of 100, one batch


def _labels(nodes: int, threads: int) -> HubLabels:
    return build(generate(nodes, DEGREE, num_features=0), threads)


def _model(in_channels: int, **settings: Any) -> DHILGT:
    torch.manual_seed(0)
    return DHILGT(in_channels, HIDDEN, CLASSES, **settings)


def _step(model: torch.nn.Module, inputs: tuple[Any, ...], classes: torch.Tensor) -> None:
    model.zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(model(*inputs), classes).backward()


def loader_rate(nodes: int, threads: int) -> dict[str, Any]:
    """Return rows per second of the loader alone and of training steps of the model alone."""
    torch.set_num_threads(threads)
    labels = _labels(nodes, threads)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(nodes, CHANNELS)).astype(np.float32)
    classes = rng.integers(0, CLASSES, nodes)
    figures: dict[str, Any] = {"measure": "loader", "nodes": nodes, "batch": BATCH}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens"
        stored = Tokens.build(labels, threads=threads, progress=False, path=path)
        sampler = TokenSampler(labels, threads=threads, progress=False)
        for name, source, more in (
            ("stored", stored, {}),
            ("fresh", sampler, {"fresh": True}),
        ):
            loader = TokenLoader(source, features, classes, batch_size=BATCH, shuffle=True, **more)
            taken = seconds(lambda loader=loader: [None for _ in loader], 2)
            figures[f"rows_per_second_{name}"] = nodes / taken
        model = _model(CHANNELS)
        batch = next(iter(TokenLoader(stored, features, classes, batch_size=BATCH, shuffle=True)))
        assert batch.labels is not None
        taken = seconds(lambda: _step(model, batch.inputs, batch.labels), 5)
    figures["rows_per_second_model"] = BATCH / taken
    figures["ratio"] = figures["rows_per_second_stored"] / figures["rows_per_second_model"]
    figures["ratio_fresh"] = figures["rows_per_second_fresh"] / figures["rows_per_second_model"]
    return figures


def memory(nodes: int, threads: int) -> dict[str, Any]:
    """Return the rise of memory in training from stored tokens, and the time to a first batch."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens"
        Tokens.build(_labels(nodes, threads), threads=threads, progress=False, path=path)
        rng = np.random.default_rng(0)
        features = rng.normal(size=(nodes, CHANNELS)).astype(np.float32)
        classes = rng.integers(0, CLASSES, nodes)
        with peak_memory() as risen:
            start = time.perf_counter()
            tokens = Tokens.load(path)
            loader = TokenLoader(tokens, features, classes, batch_size=BATCH, shuffle=True)
            next(iter(loader))
            first = time.perf_counter() - start
            config = TrainConfig(epochs=1, max_batches=STEPS, max_eval_batches=STEPS)
            trainer = Trainer(_model(CHANNELS), config, device="cpu", progress=False)
            trainer.fit(loader)
        with peak_memory() as risen_later:
            trainer.predict(loader)
    return {
        "measure": "memory",
        "nodes": nodes,
        "peak_bytes": risen[0],
        "peak_bytes_inference": risen_later[0],
        "feature_bytes": features.nbytes,
        "seconds_first_batch": first,
    }


def projection(threads: int) -> dict[str, Any]:
    """Time a step with features projected once per distinct node, and once per slot."""
    torch.set_num_threads(threads)
    shown, graph = graphs.load("chameleon")
    sampler = TokenSampler(build(graph, threads), threads=threads, progress=False)
    classes = np.random.default_rng(1).integers(0, CLASSES, graph.num_nodes)
    loader = TokenLoader(sampler, graph.features, classes, batch_size=TRAIN_NODES, shuffle=True)
    batch = next(iter(loader))
    assert batch.labels is not None
    x, index, spd = batch.inputs
    real = index >= 0
    slots = torch.where(real, torch.cumsum(real.reshape(-1), 0).reshape(index.shape) - 1, -1)
    per_slot = (x[index[real]], slots, spd)
    every_slot = x[index.clamp(min=0)] * real[:, :, None]  # [B, s, channels]
    torch.manual_seed(0)
    plain = PlainModel(x.shape[1], HIDDEN, CLASSES)
    ours = _model(x.shape[1])
    taken = {
        "seconds_step": seconds(lambda: _step(ours, batch.inputs, batch.labels), 7),
        "seconds_step_per_slot": seconds(lambda: _step(ours, per_slot, batch.labels), 7),
        "seconds_step_plain": seconds(
            lambda: _step(plain, (every_slot, real, spd), batch.labels), 7
        ),
    }
    return {
        "measure": "projection",
        "graph": shown,
        "channels": x.shape[1],
        "batch": TRAIN_NODES,
        **taken,
        "ratio": taken["seconds_step_plain"] / taken["seconds_step"],
        "ratio_per_slot": taken["seconds_step_per_slot"] / taken["seconds_step"],
    }


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("train", PARTS, __doc__ or "")
    rate = bench.measured(loader_rate, RATE_NODES, bench.threads)
    held = bench.measured(memory, MEMORY_NODES, bench.threads)
    step = bench.measured(projection, bench.threads)
    bench.row(
        f"loader against CPU model, {RATE_NODES:,} nodes",
        f"{rate['ratio']:.0f} x stored, {rate['ratio_fresh']:.0f} x fresh "
        f"({rate['rows_per_second_model']:.0f} rows a second learned)",
    )
    bench.row(
        f"peak memory beyond features, {MEMORY_NODES:,} nodes, stored tokens",
        f"{held['peak_bytes'] / 1e9:.2f} GB",
    )
    bench.row(
        "rise of memory while predicting with the same batches, after training",
        f"{held['peak_bytes_inference'] / 1e9:.2f} GB",
    )
    bench.row("first batch after opening", f"{held['seconds_first_batch']:.2f} s")
    bench.row(
        f"step against a plain eager model, {step['graph']}, {step['batch']} rows",
        f"{step['ratio']:.1f} x ({step['seconds_step_plain']:.2f} s / "
        f"{step['seconds_step']:.2f} s, {step['channels']} wide); distinct nodes alone "
        f"{step['ratio_per_slot']:.1f} x",
    )
    bench.finish()


PARTS = [loader_rate, memory, projection]

if __name__ == "__main__":
    main()
