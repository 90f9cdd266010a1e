"""Classifiers and facts to report on, made without training."""

from types import SimpleNamespace

import numpy as np

from dhilgt import Graph, HubLabels, Tokens, generate
from dhilgt.metrics import METRICS
from dhilgt.report import run_facts
from dhilgt.settings.settings import Settings

STAGE = {"seconds": 1.5, "times": 2, "host_peak_bytes": 3 * 10**8, "device_peak_bytes": 0}


def graph_of(num_nodes=300, num_classes=4, names=None, seed=0):
    graph = generate(
        num_nodes, 6, num_classes=num_classes, num_features=8, seed=seed,
        homophily=1.0 if num_classes == 1 else 0.7,
    )  # fmt: skip
    if names is None:
        return graph
    source, target = graph.to_edge_index()
    labels = np.array(names, dtype=object)[graph.labels]
    return Graph.from_edges(
        source, target, num_nodes=num_nodes, features=graph.features, labels=labels
    )


def history(epochs, *, validated=True, metric="accuracy"):
    return [
        {
            "epoch": at,
            "lr": 1e-3,
            "train_loss": 2.0 / at,
            "val_loss": 2.2 / at + 0.01 * at if validated else None,
            "val_score": 1 - 1 / (at + 1) if validated else None,
            "metric": metric if validated else None,
        }
        for at in range(1, epochs + 1)
    ]


def classifier(
    graph=None,
    *,
    parts=("train", "val", "test"),
    metric="accuracy",
    epochs=12,
    tokens=None,
    sharpness=3.0,
    seed=0,
    **settings,
):
    """Something that answers as a fitted `NodeClassifier` does; right more often than not."""
    graph = graph_of() if graph is None else graph
    rng = np.random.default_rng(seed)
    classes = graph.num_classes
    logits = rng.normal(size=(graph.num_nodes, classes))
    logits[np.arange(graph.num_nodes), np.maximum(graph.labels, 0)] += 1.2
    proba = np.exp(sharpness * logits)
    proba = (proba / proba.sum(axis=1, keepdims=True)).astype(np.float32)
    order = rng.permutation(np.flatnonzero(graph.labels >= 0))
    split = dict(zip(parts, np.array_split(order, len(parts)), strict=True))
    split = {part: np.sort(nodes) for part, nodes in split.items()}
    labels = HubLabels.build(graph, progress=False)

    def predict_proba(nodes=None):
        return proba if nodes is None else proba[graph.index_of(nodes)]

    def score(nodes):
        return METRICS[metric](graph.labels[nodes], np.log(proba[nodes]))

    lines = history(epochs, validated="val" in parts, metric=metric)
    names = graph.class_names or tuple(range(classes))
    return SimpleNamespace(
        classes_=np.array(names, dtype=object),
        n_features_in_=8,
        graph_=graph,
        hub_labels_=labels,
        tokens_=tokens(labels) if tokens else Tokens.build(labels, size=8, progress=False),
        model_=SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device="cpu")])),
        result_=SimpleNamespace(
            best_epoch=max(1, epochs - 3) if "val" in parts else epochs,
            epochs=epochs,
            stopped_early="val" in parts,
            out_of_time=False,
            metric=metric,
            history=lines,
        ),
        split_=split,
        scores_={part: {metric: score(nodes)} for part, nodes in split.items()},
        settings_=Settings(metric=metric, **settings),
        stages_={name: dict(STAGE) for name in ("labels", "tokens", "epoch", "evaluation")},
        predict_proba=predict_proba,
        _check_fitted=lambda what: None,
    )


def record(**changes):
    """The record of a search: three candidates, one of them chosen, and the plain MLP."""

    def candidate(name, status, scores, seconds=2.0, error=None, **settings):
        rungs = [
            {"epochs": epochs, "scores": of_seeds, "seconds": seconds}
            for epochs, of_seeds in zip((30, 90, 270), scores, strict=False)
        ]
        about = f"what {name} is"
        return {"name": name, "about": about, "settings": settings, "rungs": rungs,
                "status": status, "error": error}  # fmt: skip

    return {
        "format": 1,
        "recipe": "auto",
        "metric": "accuracy",
        "higher_is_better": True,
        "num_epochs": 270,
        "seconds": 31.5,
        "rungs": [30, 90, 270],
        "seeds": 2,
        "candidates": [
            candidate(
                "features alone", "reference", [[0.5, 0.6], [0.6, 0.6], [0.7, 0.7]], num_layers=0
            ),
            candidate("neighbours", "chosen", [[0.6, 0.6], [0.7, 0.8], [0.85, 0.95]],
                      neighbor_inputs=True),
            candidate("token row", "dropped", [[0.4, 0.6]], hops=2),
            candidate("hubs", "failed", [], error="out of memory", hub_inputs=True),
        ],
        "references": {
            "mlp": {"val": 0.7, "test": 0.25}, "majority": {"val": 0.4, "test": 0.125},
        },
        "chosen": [{"name": "neighbours", "seed": 0, "weight": 1.0}],
        "sentence": "Chosen: neighbours, accuracy 0.900 on the validation nodes.",
        **changes,
    }  # fmt: skip


def facts_of(graph=None, **options):
    return run_facts(classifier(graph, **options))
