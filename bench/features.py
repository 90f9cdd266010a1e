"""Averages of wide features over neighbours: projected first, against as they are.

`make bench-features` prints the table and writes `features.jsonl`. One training on such features:
`python -m bench.features --part scores cora 2 256 0` (graph, rounds, columns or 0, seed).
"""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.graphs import data_folder
from bench.measure import Bench, peak_memory
from dhilgt import Graph, datasets, generate
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.errors import DatasetError
from dhilgt.features.from_graph import HOP_KINDS
from dhilgt.settings.settings import Settings

ROUNDS = 3
EXACT_ROUNDS = 2  # a third one takes tens of GB
CHANNELS = (128, 256, 512)
_WORDS = 33  # of a node of physics, on average


def wide_graph() -> Graph:
    """Return physics, or a graph of its size with random words."""
    folder = data_folder()
    if folder is not None:
        try:
            return datasets.load("physics", folder, None, download=False)
        except DatasetError:
            pass
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    graph = generate(34_493, 14.38, seed=0)
    nodes, words = graph.num_nodes, 8_415
    common = words * rng.random(nodes * _WORDS) ** 2  # some words are frequent
    rows = np.repeat(np.arange(nodes), _WORDS)
    ones = np.ones(len(rows), np.float32)
    features = csr_array((ones, (rows, common.astype(np.int64))), shape=(nodes, words))
    return graph.with_nodes(features=features)


def dense_graph() -> Graph:
    """Return a graph with as many dense columns as a graph of products has."""
    return generate(100_000, 50, seed=0, num_features=100)


def averages(which: str, rounds: int, kind: str, channels: int) -> dict[str, Any]:
    """Time the features of a pipeline, projection included; 0 channels for none."""
    import torch

    graph = wide_graph() if which == "wide" else dense_graph()
    settings = Settings(hops=rounds, hop_kind=kind, hop_channels=channels or None)
    torch.zeros(1).add_(1)  # the libraries are loaded before the clock starts
    pipeline = Pipeline(graph, settings, cache=None, progress=False)
    with peak_memory() as risen:
        began, busy = time.perf_counter(), time.process_time()
        made = pipeline.features
        wall, busy = time.perf_counter() - began, time.process_time() - busy
    return {
        "measure": "averages",
        "graph": which,
        "nodes": graph.num_nodes,
        "columns": int(graph.features.shape[1]),
        "rounds": rounds,
        "kind": kind,
        "channels": channels,
        "result_columns": int(made.shape[1]),
        "seconds": wall,
        "cpu_seconds": busy,
        "peak_bytes": risen[0],
        "cores": len(os.sched_getaffinity(0)),
    }


def scores(name: str, rounds: int, channels: int, seed: int) -> dict[str, Any]:
    """Train a plain MLP on averages of the features of a graph; 0 channels for exact ones."""
    graph = datasets.load(name, data_folder(), "random", seed=seed)
    settings = Settings(hops=rounds, hop_kind="stack", hop_channels=channels or None)
    inputs = Pipeline(graph, settings, cache=None, progress=False).features
    val, test = _mlp_scores(inputs, graph, seed)
    about = {"measure": "scores", "graph": name, "rounds": rounds, "channels": channels}
    return {**about, "seed": seed, "val": val, "test": test}


def _mlp_scores(inputs: Any, graph: Graph, seed: int) -> tuple[float, float]:
    """Return the best accuracy of validation in 60 full steps, and that of the test then."""
    import torch
    from torch import nn

    class Product(torch.autograd.Function):
        """A sparse matrix times weights, which are what is learned."""

        @staticmethod
        def forward(context: Any, weights: Any, matrix: Any) -> Any:
            context.matrix = matrix
            return torch.from_numpy(matrix @ weights.detach().numpy())

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            return torch.from_numpy(context.matrix.T @ gradients[0].contiguous().numpy()), None

    torch.manual_seed(seed)
    first = nn.Linear(inputs.shape[1], 128)
    rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, graph.num_classes))

    def logits(rows: Any) -> Any:
        if hasattr(rows, "tocsr"):
            product: Any = Product  # torch has no types here
            return rest(product.apply(first.weight.T.contiguous(), rows) + first.bias)
        return rest(first(torch.from_numpy(rows)))

    assert graph.labels is not None
    assert graph.masks is not None
    is_val, is_test = graph.masks["val"], graph.masks["test"]
    train, held_out = np.flatnonzero(graph.masks["train"]), np.flatnonzero(is_val | is_test)
    truth = torch.tensor(graph.labels)
    known, shown = inputs[train], inputs[held_out]
    model = nn.ModuleList([first, rest])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = 0.0, 0.0
    for step in range(60):
        model.train()
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits(known), truth[train]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 2:
            model.eval()
            with torch.no_grad():
                right = (logits(shown).argmax(1) == truth[held_out]).numpy()
            of_parts = (float(right[part[held_out]].mean()) for part in (is_val, is_test))
            best = max(best, (next(of_parts), next(of_parts)))
    return best


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("features", PARTS, __doc__ or "")
    exact = bench.measured(averages, "wide", EXACT_ROUNDS, "stack", 0)
    same = bench.measured(averages, "wide", EXACT_ROUNDS, "stack", 256)
    bench.row(
        f"{EXACT_ROUNDS} rounds on {exact['nodes']:,} nodes with {exact['columns']:,} columns: "
        "as they are / projected to 256",
        f"{_shown(exact)} / {_shown(same)}: {exact['seconds'] / same['seconds']:.0f} x faster, "
        f"{exact['peak_bytes'] / same['peak_bytes']:.0f} x less memory",
    )
    for kind in HOP_KINDS:
        for channels in CHANNELS if kind == "stack" else (256,):
            made = bench.measured(averages, "wide", ROUNDS, kind, channels)
            bench.row(f'{ROUNDS} rounds, projected to {channels}, "{kind}"', _shown(made))
    for kind in HOP_KINDS:
        made = bench.measured(averages, "dense", ROUNDS, kind, 0)
        title = f"{made['nodes']:,} nodes with {made['columns']} dense columns"
        bench.row(f'{ROUNDS} rounds on {title}, "{kind}"', _shown(made))
    bench.finish()


def _shown(made: dict[str, Any]) -> str:
    return f"{made['seconds']:.1f} s, {made['peak_bytes'] / 1e9:.2f} GB"


PARTS: list[Callable[..., dict[str, Any]]] = [averages, scores]

if __name__ == "__main__":
    main()
