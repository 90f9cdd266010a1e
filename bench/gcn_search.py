"""A GCN searched with the same budget as a run of `dhilgt train`, from the same files.

`python -m bench.gcn_search FILES SEARCH PREDICTIONS`: as many candidates as the run's search.json
has, as many trainings of each, each as many epochs as the run gave it.
"""

import argparse
import csv
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt import Graph, baselines
from dhilgt.benchmark.running.inputs import Inputs
from dhilgt.benchmark.running.search import draws, read_space


def trainings(search: Mapping[str, Any]) -> list[list[int]]:
    """Return the epochs of each training, by candidate and seed.

    Example:
        >>> rungs = [{"epochs": 30, "scores": [0.1, 0.2]}, {"epochs": 90, "scores": [0.3]}]
        >>> trainings({"candidates": [{"rungs": rungs}, {"rungs": rungs[:1]}]})
        [[90, 30], [30, 30]]
    """
    plan = []
    for candidate in search["candidates"]:
        rungs = candidate["rungs"]
        seeds = max((len(rung["scores"]) for rung in rungs), default=0)
        plan.append(
            [max(r["epochs"] for r in rungs if len(r["scores"]) > seed) for seed in range(seeds)]
        )
    return [epochs for epochs in plan if epochs]


def read_graph(folder: Path) -> Graph:
    """Return the graph of the files that `bench.default_time` writes."""
    features = next(folder.glob("features.*"))
    return Graph.read(
        folder / "edges.csv",
        nodes=folder / "nodes.csv",
        features=features,
        labels=folder / "labels.csv",
        masks=folder / "split.csv",
    )


def search_gcn(graph: Graph, plan: list[list[int]]) -> tuple[Any, float]:
    """Return the trained system with the best validation score and that score.

    The candidate is chosen by the mean over its trainings, of which the best one is returned.
    """
    masks = graph.masks
    assert masks is not None, "the files have a split"
    chosen: tuple[float, Any, float] | None = None
    for epochs, changes in zip(plan, draws(read_space("gcn"), "gcn", len(plan)), strict=True):
        fits = []
        inputs, own = Inputs.parted(changes.model)
        seen = inputs.of(graph)
        for seed, length in enumerate(epochs):
            model = baselines.create("gcn", seen, seed=seed, **own)
            given = {**changes.training, "epochs": length, "patience": None, "seed": seed}
            config = model.train_config(**given)
            fit = baselines.fit(model, masks["train"], masks["val"], config, progress=False)
            fits.append((fit.best_score or 0.0, model, fit))
        mean = statistics.fmean(score for score, _, _ in fits)
        if chosen is None or mean > chosen[0]:
            best = max(fits, key=lambda one: one[0])
            chosen = mean, (best[1], best[2]), best[0]
    assert chosen is not None, "a search has candidates"
    return chosen[1], chosen[2]


def main() -> None:
    """Search, write the predictions of all nodes, and print the scores as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("files", "search", "predictions"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    plan = trainings(json.loads(options.search.read_text(encoding="utf-8")))
    graph = read_graph(options.files)
    assert graph.masks is not None, "the files have a split"
    assert graph.labels is not None, "and classes"
    (model, fit), val = search_gcn(graph, plan)
    probabilities = fit.trainer.predict(model.inference_batches())[1]
    predicted = probabilities.argmax(axis=1)
    with options.predictions.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(("node", "label", "probability"))
        ids = graph.ids_of(np.arange(graph.num_nodes))
        lines.writerows(zip(ids, predicted, probabilities.max(axis=1), strict=True))
    test = graph.masks["test"]
    print(
        json.dumps(
            {
                "candidates": len(plan),
                "trainings": sum(map(len, plan)),
                "epochs": sum(map(sum, plan)),
                "val": float(val),
                "test": float((predicted == graph.labels)[test].mean()),
            }
        )
    )


if __name__ == "__main__":
    main()
