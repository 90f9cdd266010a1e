"""Sections of the report about single classes and about probabilities."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dhilgt.report import text
from dhilgt.report.html import Markup, columns, figure, joined, named, section, table, tag
from dhilgt.report.run import analysis, diagrams
from dhilgt.report.run.charts import ChartText
from dhilgt.report.run.facts import dense

Facts = Mapping[str, Any]

_MOST_IN_MATRIX = 12
_MOST_PAIRS = 10
_MOST_IN_TABLE = 20


def confusion(facts: Facts) -> Markup:
    """Return the confusion matrix, of the most confused classes where there are many."""
    names = [one["name"] for one in facts["classes"]]
    matrix = dense(facts["confusion"], len(names))
    shown, labels = matrix, names
    note = None
    if len(names) > _MOST_IN_MATRIX:
        kept = analysis.most_confused(matrix, _MOST_IN_MATRIX - 1)
        shown = analysis.folded(matrix, kept)
        rest = len(names) - len(kept)
        labels = [*(names[at] for at in kept), f"{rest} others"]
        note = tag(
            "p",
            f"The matrix shows the {len(kept)} classes of {len(names)} with the most mistakes; "
            f"the {rest} others are added up in the last row and column.",
            class_="note",
        )
    desc = (
        f"{int(matrix.diagonal().sum()):,} of {int(matrix.sum()):,} nodes are on the diagonal, "
        "that is, predicted correctly."
    )
    drawn = figure(
        diagrams.heat_map(
            ChartText("confusion-matrix", "Confusion matrix", desc), labels, shown.tolist()
        ),
        "A row holds the nodes of one true class, a column those predicted as one class. The "
        "stronger the colour of a cell off the diagonal, the larger the fraction of the row's "
        "class that was predicted as the column's.",
    )
    return section(
        "confusion", "Which classes are confused", note, columns(drawn, _pairs(names, matrix))
    )


def _pairs(names: list[str], matrix: "np.typing.NDArray[np.int64]") -> Markup:
    mistakes = matrix.copy()
    np.fill_diagonal(mistakes, 0)
    true, predicted = np.nonzero(mistakes)
    if not len(true):
        return tag("p", "Every node was predicted correctly.")
    order = np.argsort(-mistakes[true, predicted], kind="stable")[:_MOST_PAIRS]
    rows = [
        [
            named(names[row]),
            named(names[column]),
            text.number(int(mistakes[row, column])),
            text.percent(mistakes[row, column] / matrix[row].sum()),
        ]
        for row, column in zip(true[order].tolist(), predicted[order].tolist(), strict=True)
    ]
    heads = ["True class", "Predicted as", "Nodes", "Of the class"]
    return table("The most common mistakes", heads, rows, text_columns=2)


def classes(facts: Facts) -> Markup:
    """Return precision, recall and F1 of each class."""
    listed = facts["classes"]
    how = tag(
        "p",
        "Precision is the fraction of the nodes predicted as the class that belong to it, recall "
        "the fraction of the class's nodes that were predicted as it, F1 their harmonic mean; "
        "100 % is best.",
        class_="how",
    )
    if len(listed) <= _MOST_IN_TABLE:
        return section("classes", "Class by class", how, _table("All classes", listed))
    worst = sorted(listed, key=lambda one: (one["f1"] is None, one["f1"] or 0.0))[:_MOST_IN_TABLE]
    name = f"All {len(listed)} classes"
    return section(
        "classes",
        "Class by class",
        how,
        _table(f"The {_MOST_IN_TABLE} classes with the lowest F1", worst),
        tag("details", tag("summary", name), _table(name, listed)),
    )


def _table(caption: str, listed: list[dict[str, Any]]) -> Markup:
    rows = [
        [
            named(one["name"]),
            text.number(one["nodes"]),
            text.number(one["predicted"]),
            text.percent(one["precision"]),
            text.percent(one["recall"]),
            _metered(one["f1"]),
        ]
        for one in listed
    ]
    heads = ["Class", "Nodes", "Predicted", "Precision", "Recall", "F1"]
    return table(caption, heads, rows, hidden_when_narrow=[2])


def _metered(fraction: float | None) -> Markup:
    filled = 0.0 if fraction is None else 100 * fraction
    bar = tag("span", tag("i", style=f"width:{filled:.0f}%"), class_="meter", aria_hidden="true")
    return joined([text.percent(fraction), bar])


def calibration(facts: Facts) -> Markup:
    """Return how well the predicted probabilities agree with the accuracy."""
    bins = facts["calibration"]["bins"]
    error = text.percent(facts["calibration"]["error"])
    desc = f"The expected calibration error is {error}"
    about = tag(
        "p",
        f"{desc}: the difference between the predicted probability and the accuracy, on average "
        "over the nodes.",
    )
    drawn = figure(
        diagrams.reliability_diagram(
            ChartText("reliability", "Reliability diagram", f"{desc}."), bins
        ),
        "Dots on the dashed line mean that the probabilities are well calibrated; below it the "
        "model is overconfident, above it underconfident.",
    )
    rows = [
        [
            f"{100 * one['low']:.0f} to {100 * one['high']:.0f} %",
            text.number(one["nodes"]),
            text.percent(one["confidence"]),
            text.percent(one["accuracy"]),
        ]
        for one in bins
        if one["nodes"]
    ]
    heads = ["Probability", "Nodes", "Confidence", "Accuracy"]
    numbers = table("Nodes by the probability of the predicted class", heads, rows)
    return section(
        "calibration", "Can the probabilities be trusted?", about, columns(drawn, numbers)
    )
