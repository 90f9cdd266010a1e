"""`dhilgt evaluate`: the scores of a trained run."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dhilgt.cli import shell
from dhilgt.cli.predict import load
from dhilgt.errors import GraphError
from dhilgt.readers import node_tables
from dhilgt.readers.node_match import NodeTable

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

OTHER = "other"
"""The part of nodes in no part of the run's split."""


def run(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder that `dhilgt train` wrote.")
    ],
    labels: Annotated[
        Path | None, typer.Option(help="File of id and class to compare with instead.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of ids in that file; found by its values.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of classes in that file.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda, cuda:1, ...; as in training by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Print the scores of a run by part: training, validation and test nodes.

    With --labels predictions are compared with the classes in a file, and nodes outside the run's
    split are a part of their own.

    \b
    Example:
      dhilgt evaluate runs/mine
      dhilgt evaluate runs/mine --labels held_back.csv --json
    """  # noqa: D301 - \b keeps the example's lines apart
    options = node_tables.ColumnOptions(id_column, label_column)
    opened = None if labels is None else node_tables.open_table(labels, "labels", options)
    clf = load(run_folder, device, quiet or as_json)
    if opened is None:
        assert clf.graph_.labels is not None
        truth, split = clf.graph_.labels, clf.split_
    else:
        table = node_tables.labels_of(opened, clf.graph_.ids, options)
        for note in table.notes if not (quiet or as_json) else ():
            shell.note(note)
        truth = _classes_of(clf, table)
        split = _parts_of(clf, truth)
    facts: dict[str, Any] = {"path": str(run_folder), "parts": _scores(clf, truth, split)}
    if as_json:
        shell.print_json(facts)
        return
    names = list(next(iter(facts["parts"].values())))
    rows: list[tuple[str, ...]] = [("part", *names)]
    for part, scores in facts["parts"].items():
        rows.append((part, *(_shown(scores[name]) for name in names)))
    shell.print_columns(rows)


def _classes_of(clf: "NodeClassifier", table: NodeTable) -> NDArray[np.int64]:
    """Return places in the run's list of classes, -1 for nodes that are not in the file."""
    graph = clf.graph_
    if table.ids is None:
        raise GraphError(f"{table.source} has one column; give an id and a class per line")
    text = clf.classes_.dtype.kind not in "biuf"
    places = {value: at for at, value in enumerate(clf.classes_.tolist())}
    truth = np.full(graph.num_nodes, -1, np.int64)
    for row, node in enumerate(table.nodes_of(graph.ids).tolist()):
        value = table.values[row]
        if value is None:
            continue
        place = places.get(str(value) if text else value)
        if place is None:
            known = ", ".join(map(repr, clf.classes_.tolist()[:8]))
            raise GraphError(
                f"{table.place(row)}: the run knows no class {value!r}; its classes are {known}"
            )
        truth[node] = place
    return truth


def _parts_of(clf: "NodeClassifier", truth: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    rest = truth >= 0
    split: dict[str, NDArray[np.int64]] = {}
    for part, nodes in clf.split_.items():
        split[part] = nodes[truth[nodes] >= 0]
        rest[nodes] = False
    split[OTHER] = np.flatnonzero(rest)
    return {part: nodes for part, nodes in split.items() if len(nodes)}


def _scores(
    clf: "NodeClassifier", truth: NDArray[np.int64], split: dict[str, NDArray[np.int64]]
) -> dict[str, dict[str, float | int | None]]:
    from dhilgt.metrics import METRICS

    all_nodes = np.concatenate(list(split.values()))
    probabilities = clf.predict_proba(clf.graph_.ids_of(all_nodes))
    logits = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
    scores_by_part: dict[str, dict[str, float | int | None]] = {}
    start = 0
    for part, nodes in split.items():
        rows = logits[start : start + len(nodes)]
        start += len(nodes)
        scores: dict[str, float | int | None] = {"nodes": len(nodes)}
        for name, metric in METRICS.items():
            value = float(metric(truth[nodes], rows))
            scores[name] = value if math.isfinite(value) else None
        scores_by_part[part] = scores
    return scores_by_part


def _shown(value: float | int | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
