"""All values of a report, as plain values for JSON; None stands for an undefined number."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.classifier.majority import majority_note
from dhilgt.errors import ArtifactError, TrainingWarning
from dhilgt.metrics import METRICS, constant_score, metric
from dhilgt.report import text
from dhilgt.report.run import analysis
from dhilgt.report.run.tried import search_record
from dhilgt.store.files import explained, strict_json
from dhilgt.tokens.sampler import PackedRows
from dhilgt.tokens.single import TokenSource
from dhilgt.tokens.stats import token_stats
from dhilgt.tokens.store import Shard, ShardPlace, TokenLayout
from dhilgt.tokens.tokens import Tokens

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier
    from dhilgt.graph.graph import Graph

KIND = "dhilgt-report"
FORMAT = 1
_EDGES_AT_ONCE = 1 << 22
_ROWS_COUNTED = 1 << 20  # with more token rows than this, a sample is counted
_ROWS_SAMPLED = 20_000


def run_facts(
    clf: "NodeClassifier",
    title: str | None = None,
    environment: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the facts of a fitted classifier.

    The test nodes are predicted once more (the validation nodes if there are no test nodes, the
    training nodes if there are neither).

    Args:
        clf: After `fit` or `load`.
        title: Heading of the report; the numbers of nodes and classes when None.
        environment: Versions and hardware of the run; those of this process when None.

    Raises:
        NotFittedError: If it is not fitted.
    """
    clf._check_fitted("report")
    name = clf.settings_.metric
    classes = [str(value) for value in clf.classes_]
    part, nodes = _evaluated(clf)
    truth = _truth(clf, nodes)
    probabilities = np.asarray(clf.predict_proba(clf.graph_.ids_of(nodes)), np.float64)  # (n, C)
    confusion = analysis.confusion_matrix(truth, probabilities.argmax(axis=1), len(classes))
    graph = _graph(clf.graph_, clf)
    record = search_record(clf)
    return {
        "kind": KIND,
        "format": FORMAT,
        "title": title
        or f"{text.plural(graph['nodes'], 'node')}, "
        f"{text.plural(len(classes), 'class', 'classes')}",
        "graph": graph,
        "classes": _per_class(classes, confusion),
        "metric": name,
        "split": {key: len(part_nodes) for key, part_nodes in clf.split_.items()},
        "scores": {
            key: {one: _plain(value) for one, value in values.items()}
            for key, values in clf.scores_.items()
        },
        "evaluated": {
            "part": part,
            "nodes": len(nodes),
            "score": _plain(clf.scores_.get(part, {}).get(name, math.nan)),
            "note": metric(name)(truth, _logits(probabilities)).note if name in METRICS else "",
            "interval": _interval(name, truth, probabilities),
            "majority": _majority(clf, classes, name, truth),
            "warning": str(TrainingWarning(majority_note(clf))),
        },
        **({} if record is None else {"search": record}),
        "training": {
            "best_epoch": clf.result_.best_epoch,
            "epochs": clf.result_.epochs,
            "stopped_early": clf.result_.stopped_early,
            "out_of_time": clf.result_.out_of_time,
            "metric": clf.result_.metric,
            "history": [dict(epoch) for epoch in clf.result_.history],
        },
        "confusion": _sparse(confusion),
        "calibration": _calibration(truth, probabilities),
        # Without a layer of attention the model sees no token rows.
        "tokens": _tokens(clf.tokens_) if clf.settings_.num_layers else None,
        "stages": {key: dict(stage) for key, stage in clf.stages_.items()},
        "settings": _settings(clf.settings_),
        "environment": dict(environment or _environment(clf)),
        "environment_of": "the model was trained" if environment else "the report was made",
    }


def read_facts(path: str | Path) -> dict[str, Any]:
    """Return the facts that `write_report` saved beside its page.

    Args:
        path: The file, `report.json`.

    Raises:
        ArtifactError: If it cannot be read or holds something else.
    """
    path = Path(path)
    with explained("read", path):
        data = path.read_bytes()
    try:
        facts = strict_json(data)
    except ArtifactError as error:
        raise ArtifactError(f"{path} is not the data of a report: {error}") from error
    if not isinstance(facts, dict) or facts.get("kind") != KIND:
        raise ArtifactError(f"{path} is not the data of a report; pass the report.json of a run")
    if facts.get("format") != FORMAT:
        raise ArtifactError(
            f"{path} has format {facts.get('format')!r} and this version reads {FORMAT}; write "
            "the report again"
        )
    return facts


def dense(entries: Mapping[str, list[int]], num_classes: int) -> NDArray[np.int64]:
    """Return the confusion matrix of facts, [true, predicted]."""
    matrix = np.zeros((num_classes, num_classes), np.int64)
    matrix[entries["true"], entries["predicted"]] = entries["nodes"]
    return matrix


# ---- the graph ---------------------------------------------------------------------------------


def _graph(graph: "Graph", clf: "NodeClassifier") -> dict[str, Any]:
    labels = graph.labels
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_distinct_edges,
        "directed": graph.directed,
        "features": int(clf.n_features_in_),
        "labelled": 0 if labels is None else int((labels >= 0).sum()),
        "edges_within_classes": _same_class(graph),
        "cleaning": asdict(graph.cleaning),
        "fingerprint": graph.fingerprint,
    }


def _same_class(graph: "Graph") -> float | None:
    """Return the fraction of edges within a class, of those with two labelled ends."""
    if graph.labels is None:
        return None
    classes, offsets, same, known = graph.labels, graph.offsets, 0, 0
    # Blocks of whole rows, so that the sources of their edges are known.
    steps = np.arange(0, graph.num_edges + _EDGES_AT_ONCE, _EDGES_AT_ONCE)
    cuts = np.unique(np.searchsorted(offsets[1:], steps, side="left"))
    cuts = np.unique(np.concatenate([[0], np.minimum(cuts + 1, graph.num_nodes)]))
    for first, last in pairwise(cuts.tolist()):
        one = np.repeat(classes[first:last], np.diff(offsets[first : last + 1]))
        other = classes[graph.targets[offsets[first] : offsets[last]]]
        both = (one >= 0) & (other >= 0)
        known += int(both.sum())
        same += int((both & (one == other)).sum())
    return same / known if known else None


# ---- scores ------------------------------------------------------------------------------------


def _evaluated(clf: "NodeClassifier") -> tuple[str, NDArray[np.int64]]:
    """Return the part that is evaluated, and its nodes that have a class."""
    for part in ("test", "val", "train"):
        nodes = np.asarray(clf.split_.get(part, ()), np.int64)
        if len(nodes) and len(nodes := nodes[_truth(clf, nodes) >= 0]):
            return part, nodes
    raise ValueError("the classifier's split has no node with a class; fit it again")


def _truth(clf: "NodeClassifier", nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    labels = clf.graph_.labels
    if labels is None:
        return np.full(len(nodes), -1, np.int64)
    classes: NDArray[np.int64] = labels[nodes]
    return classes


def _logits(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(probabilities, 1e-30))  # single precision rounds small ones to 0


def _interval(
    name: str, truth: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> dict[str, Any] | None:
    if name == "accuracy":
        correct = int((probabilities.argmax(axis=1) == truth).sum())
        interval = analysis.wilson_interval(correct, len(truth))
    elif name in METRICS:
        interval = analysis.bootstrap_interval(metric(name), truth, _logits(probabilities))
    else:
        return None
    return {"low": _plain(interval.low), "high": _plain(interval.high), "method": interval.method}


def _majority(
    clf: "NodeClassifier", classes: list[str], name: str, truth: NDArray[np.int64]
) -> dict[str, Any]:
    """Return the score of one answer for all nodes: how common each class is in training."""
    known = _truth(clf, np.asarray(clf.split_["train"], np.int64))
    known = known[known >= 0]
    common = int(np.bincount(known, minlength=len(classes)).argmax())
    score = constant_score(name, truth, known, len(classes))
    return {"class": classes[common], "score": _plain(score)}


def _per_class(classes: list[str], confusion: NDArray[np.int64]) -> list[dict[str, Any]]:
    scores = analysis.class_scores(confusion)
    return [
        {
            "name": name,
            "nodes": int(scores.support[at]),
            "predicted": int(scores.predicted[at]),
            "precision": _plain(scores.precision[at]),
            "recall": _plain(scores.recall[at]),
            "f1": _plain(scores.f1[at]),
        }
        for at, name in enumerate(classes)
    ]


def _sparse(confusion: NDArray[np.int64]) -> dict[str, list[int]]:
    rows, columns = np.nonzero(confusion)
    return {
        "true": rows.tolist(),
        "predicted": columns.tolist(),
        "nodes": confusion[rows, columns].tolist(),
    }


def _calibration(truth: NDArray[np.int64], probabilities: NDArray[np.float64]) -> dict[str, Any]:
    result = analysis.calibration(truth, probabilities)
    bins = [
        {
            "low": float(result.edges[at]),
            "high": float(result.edges[at + 1]),
            "nodes": int(result.count[at]),
            "confidence": _plain(result.confidence[at]),
            "accuracy": _plain(result.accuracy[at]),
        }
        for at in range(len(result.count))
    ]
    return {"bins": bins, "error": _plain(result.error)}


# ---- tokens, settings, environment -------------------------------------------------------------


def _tokens(source: TokenSource) -> dict[str, Any]:
    """Return the statistics of all token rows, or of an even sample where there are many."""
    if isinstance(source, Tokens) and len(source) <= _ROWS_COUNTED:
        return {**token_stats(source).to_dict(), "sampled": False}
    nodes = source.nodes if isinstance(source, Tokens) else np.arange(source.num_nodes)
    chosen = nodes[np.linspace(0, len(nodes) - 1, min(len(nodes), _ROWS_SAMPLED)).astype(np.int64)]
    rows = source.packed_rows(chosen)
    return {**token_stats(_as_tokens(source, chosen, rows)).to_dict(), "sampled": True}


def _as_tokens(source: TokenSource, nodes: NDArray[np.int64], rows: PackedRows) -> Tokens:
    plan = TokenLayout(
        spec=source.spec,
        copies=1,
        bits=8,
        directed=source.directed,
        num_nodes=source.num_nodes,
        num_egos=len(nodes),
        graph_fingerprint=source.graph_fingerprint,
        labels_fingerprint="",
        radius=source.radius,
    )
    return Tokens(plan, [Shard(ShardPlace(0, 0, len(nodes)), *rows)], nodes)


def _settings(settings: Any) -> list[dict[str, Any]]:
    """Return all settings, those that differ from the defaults first."""
    values = [
        {
            "name": field.name,
            "value": getattr(settings, field.name),
            "default": field.default,
            "group": field.metadata.get("group", ""),
            "help": field.metadata.get("help", ""),
            "changed": getattr(settings, field.name) != field.default,
        }
        for field in fields(settings)
    ]
    return sorted(values, key=lambda one: not one["changed"])


def _environment(clf: "NodeClassifier") -> dict[str, Any]:
    from dhilgt.training.run_folder import environment

    return environment(next(clf.model_.parameters()).device, 1)


def _plain(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
