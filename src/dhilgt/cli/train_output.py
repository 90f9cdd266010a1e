"""The output of `dhilgt train`: the graph, the scores, the files, the next command."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from dhilgt.classifier.planning import format_seconds
from dhilgt.cli import search_lines, shell
from dhilgt.datasets.splits import split_hash
from dhilgt.graph.graph import Graph
from dhilgt.metrics import constant_score
from dhilgt.report.run import tried
from dhilgt.report.run.seeds import summary as summary_of
from dhilgt.settings import yaml_files
from dhilgt.store.files import strict_json

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier


ENVIRONMENT = "environment.json"
_FILES = (
    "config.yaml", "chosen.yaml", "metrics.jsonl", "search.json", "model", "members", "graph",
    "checkpoints", "report.html",
)  # fmt: skip


def graph_lines(graph: Graph, edges: str | None) -> list[str]:
    """Return a description of the graph, line by line."""
    kind = "directed" if graph.directed else "undirected"
    count = graph.num_distinct_edges
    lines = [f"read {edges}: {kind}, {graph.num_nodes:,} nodes, {count:,} edges; {graph.cleaning}"]
    about = []
    if graph.features is not None:
        sparse = " (sparse)" if hasattr(graph.features, "indptr") else ""
        about.append(f"{graph.features.shape[1]:,} features a node{sparse}")
    if graph.labels is not None:
        known = int((graph.labels >= 0).sum())
        classes = len(np.unique(graph.labels[graph.labels >= 0]))
        about.append(f"{classes:,} classes on {known:,} labelled nodes")
    if graph.masks:
        about.append(", ".join(f"{mask.sum():,} {name}" for name, mask in graph.masks.items()))
    lines += ["; ".join(about)] if about else []
    return [*lines, *graph.notes]


def facts(
    clf: "NodeClassifier", place: Path, reused: set[str], seconds: float, data: dict[str, Any]
) -> dict[str, Any]:
    """Return the facts of a run as plain values.

    Args:
        clf: The trained classifier.
        place: Folder of the run.
        reused: Kinds of artifacts that came from the cache.
        seconds: Wall clock; 0 for a run that had ended before.
        data: Where the graph came from.
    """
    stages = clf.stages_
    if not seconds:  # what the stages of that run took together
        seconds = sum(float(one["seconds"]) for one in stages.values())
    graph = clf.graph_
    labels = graph.labels
    assert labels is not None
    known = labels[clf.split_["train"]]
    counts = np.bincount(known, minlength=len(clf.classes_))
    common = int(counts.argmax())
    scaled = clf._pipeline.scale_summary
    record = tried.search_record(clf)
    return ({"scaled_features": scaled} if scaled else {}) | {
        "path": str(place),
        "seed": clf.settings_.seed,
        "nodes": graph.num_nodes,
        "edges": graph.num_distinct_edges,
        "classes": clf.classes_.tolist(),
        "classes_without_training_nodes": clf.classes_[counts == 0].tolist(),
        "metric": clf.settings_.metric,
        "split": {part: len(nodes) for part, nodes in clf.split_.items()},
        "split_hash": split_hash(graph.masks),
        "scores": {
            part: {name: _finite(value) for name, value in scores.items()}
            for part, scores in clf.scores_.items()
        },
        "majority_class": clf.classes_[common].item(),
        "majority_accuracy": {
            part: float((labels[nodes] == common).mean()) for part, nodes in clf.split_.items()
        },
        "majority": {
            part: _finite(constant_score(clf.settings_.metric, labels[nodes], known, len(counts)))
            for part, nodes in clf.split_.items()
        },
        "files": [name for name in _FILES if (place / name).exists()],
        "epochs": clf.result_.epochs,
        "best_epoch": clf.result_.best_epoch,
        "reused_from_cache": sorted(reused),
        "seconds": round(seconds, 3),
        "stages": {name: round(one["seconds"], 4) for name, one in stages.items()},
        "memory": {
            name: max(int(one.get(name, 0)) for one in stages.values())
            for name in ("host_peak_bytes", "device_peak_bytes")
        },
        "data": data,
        "config": clf.settings_.to_dict(),
        "recipe": yaml_files.PAPER if record is None else yaml_files.AUTO,
        "search": record,
        "environment": _environment(place),
    }


def _environment(place: Path) -> dict[str, Any] | None:
    """Return versions and hardware of a run, as its folder has them."""
    path = place / ENVIRONMENT
    if not path.exists():
        return None
    environment: dict[str, Any] = strict_json(path.read_bytes())
    return environment


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def score_rows(run: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the table of scores: a heading, then a line per part.

    The last column is the score of one answer for all nodes, by the metric of the run; after a
    search that of a plain MLP stands before it.
    """
    names = list(next(iter(run["scores"].values())))
    record = run.get("search")
    beside = ("majority class",) if record is None else ("plain MLP", "majority class")
    rows: list[tuple[str, ...]] = [("part", "nodes", *names, *beside)]
    majority = run["majority"] or {}
    for part, scores in run["scores"].items():
        shown = [score_text(scores.get(name)) for name in names]
        nodes = (run["split"] or {}).get(part, 0)
        if record is not None:
            alone = tried.reference(record, "mlp", part)
            shown.append("-" if alone is None else score_text(alone))
        rows.append((part, f"{nodes:,}", *shown, score_text(majority.get(part))))
    return rows


def score_text(value: float | None) -> str:
    """Return a score as text.

    Example:
        >>> score_text(0.84312), score_text(None)
        ('0.8431', 'undefined')
    """
    return "undefined" if value is None else f"{value:.4f}"


def _majority_text(run: dict[str, Any]) -> str:
    metric = run["metric"]
    if metric in ("accuracy", "macro_f1"):
        return f"(majority class: {metric} of always saying {run['majority_class']!r})"
    return f"(majority class: {metric} of always giving the fractions of the training classes)"


def show(run: dict[str, Any], as_json: bool, quiet: bool) -> None:
    """Print the facts of one run."""
    if as_json:
        shell.print_json(run)
        return
    if quiet:
        return
    missing = run["classes_without_training_nodes"]
    if missing:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        shell.note(f"no training node has class {listed}; it will hardly be predicted")
    shell.print_columns(score_rows(run))
    typer.echo(_majority_text(run))
    place = run["path"]
    stages = ", ".join(f"{name} {value:.2f}" for name, value in run["stages"].items())
    reused = run["reused_from_cache"]
    record = run["search"]
    shell.print_table(
        [
            *(
                []
                if record is None
                else search_lines.summary_rows(record, run["metric"], run["scores"])
            ),
            ("epochs", f"{run['epochs']:,}, the best was {run['best_epoch']:,}"),
            *([("features", run["scaled_features"])] if "scaled_features" in run else []),
            ("cache", f"{' and '.join(reused)} reused" if reused else "nothing reused"),
            ("seconds", f"{run['seconds']:.2f}: {stages}"),
            ("written", f"{place} ({', '.join(run['files'])})"),
        ]
    )
    quoted = shlex.quote(place)
    typer.echo(f"next: dhilgt predict {quoted} -o predictions.csv")
    typer.echo(f"      dhilgt evaluate {quoted}")


def show_seeds(runs: list[dict[str, Any]], lines: Path, as_json: bool, quiet: bool) -> None:
    """Print the scores of runs, their mean and standard deviation."""
    metric = runs[0]["metric"]
    summary = summary_of([run["scores"] for run in runs], metric)
    if as_json:
        shell.print_json({"runs": runs, "metric": metric, "summary": summary, "path": str(lines)})
        return
    if quiet:
        return
    parts = list(summary)
    searched = any(run["search"] for run in runs)
    heads = [f"{part} {metric}" for part in parts] + (["chosen"] if searched else [])
    rows: list[tuple[str, ...]] = [("seed", *heads, "time")]
    for run in runs:
        shown = [score_text(run["scores"].get(part, {}).get(metric)) for part in parts]
        shown += [tried.chosen_names(run["search"])] if searched else []
        rows.append((str(run["seed"]), *shown, format_seconds(run["seconds"])))
    spread = [spread_text(one) for one in summary.values()]
    rows.append(("mean ± sd", *spread, *([""] if searched else []), ""))
    shell.print_columns(rows)
    shell.print_table([("written", f"{lines.parent} (a folder per seed, {lines.name})")])


def spread_text(one: Mapping[str, float | None]) -> str:
    """Return mean and standard deviation.

    Example:
        >>> spread_text({"mean": 0.5, "sd": 0.01}), spread_text({"mean": 0.5, "sd": None})
        ('0.5000 ± 0.0100', '0.5000')
    """
    return score_text(one["mean"]) + ("" if one["sd"] is None else f" ± {one['sd']:.4f}")
