"""Diagrams of the quality of predictions, as inline SVG."""

from collections.abc import Sequence
from typing import Any

from dhilgt.report.html import Markup, tag
from dhilgt.report.run.charts import WIDTH, ChartText, chart
from dhilgt.report.svg import circle, label, line, rect, scale
from dhilgt.report.text import breadth, fitted

STRONG = 0.78  # fraction of its row above which a cell has light text


def score_scale(
    text: ChartText,
    score: tuple[float, str],
    interval: tuple[float, float] | None,
    baseline: tuple[float, str] | None,
) -> Markup:
    """Return a score on a scale from 0 to 1, with its interval and a baseline.

    Args:
        text: Name and description of the diagram.
        score: Its value and its label.
        interval: The ends of the interval.
        baseline: Value and label of the score of a constant answer.
    """
    y = 32
    x = scale(0, 1, 4, WIDTH - 4)
    parts = [
        rect(x(0), y - 5, x(1) - x(0), 10, "track", rx=5),
        rect(x(0), y - 5, x(score[0]) - x(0), 10, "bar soft", rx=5),
    ]
    if interval is not None:
        low, high = map(x, interval)
        parts.append(rect(low, y - 8, max(2.0, high - low), 16, "range"))
    parts.append(circle(x(score[0]), y, 6, "dot first"))
    parts.append(label(score[1], x(score[0]), y - 15, _anchor(score[0]), "strong-text"))
    if baseline is not None:
        at = x(baseline[0])
        parts.append(line(at, y - 12, at, y + 12, "mark"))
        parts.append(label(baseline[1], at, y + 26, _anchor(baseline[0])))
    return chart(text, 64, *parts)


def _anchor(value: float) -> str:
    return "start" if value < 0.3 else "end" if value > 0.7 else "middle"


def heat_map(text: ChartText, names: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """Return a square of cells, each coloured by its fraction of its row.

    Args:
        text: Name and description of the diagram.
        names: Names of the rows and of the columns.
        counts: Numbers in the cells.
    """
    longest = max(map(breadth, names))
    across, up = (18, 16) if len(names) <= 6 else (14, 12)  # letters of a name
    left = 28 + 6.4 * min(across, longest)
    top = 30 + 6.4 * min(up, longest)
    side = min(64.0, (WIDTH - left - 2) / len(names))
    right, bottom = left + side * len(names), top + side * len(names)
    parts: list[Markup] = [
        label("predicted as", left, 11),
        label("true class", 11, top, "end", upwards=True),
    ]
    for at, name in enumerate(names):
        middle = side * (at + 0.5) + 4
        tip = tag("title", name)
        parts.append(label(fitted(name, across), left - 6, top + middle, "end", None, tip))
        above = label(fitted(name, up), left + middle, top - 6, "start", None, tip, upwards=True)
        parts.append(above)
    for row, cells in enumerate(counts):
        total = sum(cells)
        for column, count in enumerate(cells):
            fraction = count / total if total else 0.0
            x, y = left + column * side, top + row * side
            tip = tag("title", f"{count:,} of {total:,} {names[row]} predicted as {names[column]}")
            parts.append(rect(x, y, side, side, "cell", tip, fill_opacity=fraction))
            if count and len(f"{count}") * 6.6 <= side:
                style = "on-strong" if fraction > STRONG else "on-weak"
                parts.append(label(str(count), x + side / 2, y + side / 2 + 4, "middle", style))
    for at in range(len(names) + 1):
        x, y = left + at * side, top + at * side
        parts += [line(left, y, right, y, "grid"), line(x, top, x, bottom, "grid")]
    return chart(text, bottom + 4, *parts)


def reliability_diagram(text: ChartText, bins: Sequence[dict[str, Any]]) -> Markup:
    """Return accuracy over predicted probability, and the number of nodes of each bin below.

    Args:
        text: Name and description of the diagram.
        bins: Each with low, high, nodes, and where there are nodes confidence and accuracy.
    """
    left, right, top, bottom, strip = 48, WIDTH - 10, 10, 210, 34
    height = bottom + strip + 38
    x, y = scale(0, 1, left, right), scale(0, 1, bottom, top)
    parts: list[Markup] = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        words, anchor = f"{100 * value:.0f} %", "end" if value == 1 else "middle"
        parts.append(line(left, y(value), right, y(value), "grid"))
        parts.append(label(words, left - 6, y(value) + 4, "end"))
        parts.append(label(words, x(value), bottom + strip + 16, anchor))
    filled = [one for one in bins if one["nodes"]]
    most = max((one["nodes"] for one in filled), default=1)
    for one in filled:
        start, width = x(one["low"]) + 1.5, x(one["high"]) - x(one["low"]) - 3
        depth = max(1.0, (strip - 8) * one["nodes"] / most)
        accuracy = y(one["accuracy"])
        tip = tag(
            "title",
            f"{one['nodes']:,} nodes, mean probability {100 * one['confidence']:.1f} %, "
            f"accuracy {100 * one['accuracy']:.1f} %",
        )
        parts.append(rect(start, accuracy, width, bottom - accuracy, "bar soft", tip))
        parts.append(rect(start, bottom + 4, width, depth, "count"))
    parts.append(line(x(0), y(0), x(1), y(1), "mark"))
    parts += [circle(x(one["confidence"]), y(one["accuracy"]), 4, "dot first") for one in filled]
    parts.append(label("predicted probability", (left + right) / 2, height - 4, "middle"))
    parts.append(label("accuracy", left + 6, top + 12))
    parts.append(label("nodes", left - 6, bottom + 20, "end"))
    return chart(text, height, *parts)
