"""The parts of the page that tell of single classes and of probabilities."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dhilgt.report import text
from dhilgt.report.html import Markup, columns, figure, joined, named, section, table, tag
from dhilgt.report.run import analysis, diagrams
from dhilgt.report.run.facts import dense

Facts = Mapping[str, Any]

_MOST_IN_MATRIX = 12
_MOST_PAIRS = 10
_MOST_IN_TABLE = 20


def confusion(facts: Facts) -> Markup:
    """Gives the confusion matrix, of the most confused classes where there are many."""
    names = [one["name"] for one in facts["classes"]]
    matrix = dense(facts["confusion"], len(names))
    shown, labels = matrix, names
    notes: list[Markup] = []
    if len(names) > _MOST_IN_MATRIX:
        kept = analysis.most_confused(matrix, _MOST_IN_MATRIX - 1)
        shown = analysis.folded(matrix, kept)
        rest = len(names) - len(kept)
        labels = [*(names[at] for at in kept), f"{rest} others"]
        notes.append(
            tag(
                "p",
                f"The matrix shows the {len(kept)} classes of {len(names)} with the most mistakes; "
                f"the {rest} others are added up in the last row and column.",
                class_="note",
            )
        )
    total, right = int(matrix.sum()), int(matrix.diagonal().sum())
    drawn = figure(
        diagrams.heat_map(
            "confusion-matrix",
            "Confusion matrix",
            f"{right:,} of {total:,} nodes are on the diagonal, that is predicted right.",
            labels,
            shown.tolist(),
        ),
        "A row holds the nodes of one true class, a column those predicted as one class; the "
        "stronger the colour of a cell off the diagonal, the more of the row's class were taken "
        "for the column's.",
    )
    return section(
        "confusion", "Which classes are confused", *notes, columns(drawn, _pairs(names, matrix))
    )


def _pairs(names: list[str], matrix: "np.typing.NDArray[np.int64]") -> Markup:
    off = matrix.copy()
    np.fill_diagonal(off, 0)
    rows, columns_ = np.nonzero(off)
    if not len(rows):
        return tag("p", "Every node was predicted right.")
    order = np.argsort(-off[rows, columns_], kind="stable")[:_MOST_PAIRS]
    lines = [
        [
            named(names[true]),
            named(names[guess]),
            text.number(int(off[true, guess])),
            text.percent(off[true, guess] / matrix[true].sum()),
        ]
        for true, guess in zip(rows[order].tolist(), columns_[order].tolist(), strict=True)
    ]
    heads = ["True class", "Predicted as", "Nodes", "Of the class"]
    return table("The most common mistakes", heads, lines, text_columns=2)


def classes(facts: Facts) -> Markup:
    """Gives precision, recall and F1 of each class."""
    found = facts["classes"]
    how = tag(
        "p",
        "Precision is the share of right ones among the nodes predicted as the class, recall the "
        "share of the class's nodes that were found, F1 their harmonic mean; 100 % is best.",
        class_="how",
    )
    if len(found) <= _MOST_IN_TABLE:
        return section("classes", "Class by class", how, _table("All classes", found))
    worst = sorted(found, key=lambda one: (one["f1"] is None, one["f1"] or 0.0))[:_MOST_IN_TABLE]
    name = f"All {len(found)} classes"
    return section(
        "classes",
        "Class by class",
        how,
        _table(f"The {_MOST_IN_TABLE} classes with the lowest F1", worst),
        tag("details", tag("summary", name), _table(name, found)),
    )


def _table(caption: str, found: list[dict[str, Any]]) -> Markup:
    rows = [
        [
            named(one["name"]),
            text.number(one["nodes"]),
            text.number(one["predicted"]),
            text.percent(one["precision"]),
            text.percent(one["recall"]),
            _metered(one["f1"]),
        ]
        for one in found
    ]
    return table(
        caption,
        ["Class", "Nodes", "Predicted", "Precision", "Recall", "F1"],
        rows,
        hidden_when_narrow=[2],
    )


def _metered(share: float | None) -> Markup:
    filled = 100 * share if text.is_number(share) and share is not None else 0.0
    bar = tag("span", tag("i", style=f"width:{filled:.0f}%"), class_="meter", aria_hidden="true")
    return joined([text.percent(share), bar])


def calibration(facts: Facts) -> Markup:
    """Gives whether probabilities can be taken at their word."""
    found = facts["calibration"]
    error = text.percent(found["error"])
    said = (
        f"The expected calibration error is {error}: so far is the probability given from the "
        "share of nodes that are right, on average over the nodes."
    )
    drawn = figure(
        diagrams.reliability_diagram(
            "reliability",
            "Reliability diagram",
            f"The expected calibration error is {error}.",
            found["bins"],
        ),
        "Dots on the dashed line mean that probabilities can be taken at their word; below it the "
        "model is too sure of itself, above it not sure enough.",
    )
    rows = [
        [
            f"{100 * one['low']:.0f} to {100 * one['high']:.0f} %",
            text.number(one["nodes"]),
            text.percent(one["confidence"]),
            text.percent(one["accuracy"]),
        ]
        for one in found["bins"]
        if one["nodes"]
    ]
    heads = ["Probability", "Nodes", "Said", "Right"]
    numbers = table("Nodes by the probability of the predicted class", heads, rows)
    return section(
        "calibration", "Can the probabilities be trusted?", tag("p", said), columns(drawn, numbers)
    )
