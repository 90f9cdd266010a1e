"""Diagrams of how good predictions are, as inline SVG."""

from collections.abc import Sequence
from typing import Any

from dhilgt.report.html import Markup, tag
from dhilgt.report.svg import WIDTH, drawing, label, level, scale
from dhilgt.report.text import breadth, fitted

STRONG = 0.78  # cells fuller than this have the other colour of text


def score_scale(
    name: str,
    title: str,
    desc: str,
    score: tuple[float, str],
    between: tuple[float, float] | None,
    baseline: tuple[float, str] | None,
) -> Markup:
    """Gives a score on a scale from 0 to 1, with its interval and what it has to beat.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        score: It and its words.
        between: The ends of the interval.
        baseline: The score of a plain answer, and its words.
    """
    left, right, y = 4, 4, 32
    x = scale(0, 1, left, WIDTH - right)
    parts = [
        tag("rect", x=x(0), y=y - 5, width=x(1) - x(0), height=10, rx=5, class_="track"),
        tag(
            "rect",
            x=x(0),
            y=y - 5,
            width=max(0.0, x(score[0]) - x(0)),
            height=10,
            rx=5,
            class_="bar soft",
        ),
    ]
    if between is not None:
        wide = max(2.0, x(between[1]) - x(between[0]))
        parts.append(tag("rect", x=x(between[0]), y=y - 8, width=wide, height=16, class_="range"))
    parts.append(tag("circle", cx=x(score[0]), cy=y, r=6.0, class_="dot first"))
    parts.append(label(score[1], x(score[0]), y - 15, _side(score[0]), "strong-text"))
    if baseline is not None:
        at = x(baseline[0])
        parts.append(tag("line", x1=at, x2=at, y1=y - 12, y2=y + 12, class_="mark"))
        parts.append(label(baseline[1], at, y + 26, _side(baseline[0]), "faint"))
    return drawing(name, title, desc, 64, *parts)


def _side(share: float) -> str:
    return "start" if share < 0.3 else "end" if share > 0.7 else "middle"


def heat_map(
    name: str,
    title: str,
    desc: str,
    names: Sequence[str],
    counts: Sequence[Sequence[int]],
) -> Markup:
    """Gives a square of cells, each row coloured by the share of the row that a cell holds.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        names: Of rows and of columns.
        counts: Numbers in the cells.
    """
    longest = max(map(breadth, names))
    across, up = (18, 16) if len(names) <= 6 else (14, 12)  # letters for names
    left = 28 + 6.4 * min(across, longest)
    top = 30 + 6.4 * min(up, longest)
    side = min(64.0, (WIDTH - left - 2) / len(names))
    parts: list[Markup] = [
        label("predicted as", left, 11, "start", "faint"),
        label("true class", 11, top, "end", "faint", turn=True),
    ]
    for at, word in enumerate(names):
        middle = side * (at + 0.5) + 4
        whole = tag("title", word)
        parts.append(label(fitted(word, across), left - 6, top + middle, "end", extra=whole))
        parts.append(
            label(fitted(word, up), left + middle, top - 6, "start", extra=whole, turn=True)
        )
    for row, line in enumerate(counts):
        total = sum(line)
        for column, count in enumerate(line):
            share = count / total if total else 0.0
            x, y = left + column * side, top + row * side
            words = f"{count:,} of {total:,} {names[row]} predicted as {names[column]}"
            parts.append(
                tag(
                    "rect",
                    tag("title", words),
                    x=x,
                    y=y,
                    width=side,
                    height=side,
                    fill_opacity=share,
                    class_="cell own" if row == column else "cell",
                )
            )
            if count and len(f"{count}") * 6.6 <= side:
                kind = "on-strong" if share > STRONG else "on-weak"
                parts.append(label(str(count), x + side / 2, y + side / 2 + 4, "middle", kind))
    end = left + side * len(names)
    for at in range(len(names) + 1):
        place = at * side
        parts.append(level(left, end, top + place))
        parts.append(
            tag(
                "line", x1=left + place, x2=left + place, y1=top, y2=top + end - left, class_="grid"
            )
        )
    return drawing(name, title, desc, top + side * len(names) + 4, *parts)


def reliability_diagram(name: str, title: str, desc: str, bins: Sequence[dict[str, Any]]) -> Markup:
    """Gives the share of right nodes over the probability, and the nodes in each bin below.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        bins: Each with low, high, nodes, and where there are nodes confidence and accuracy.
    """
    left, right, top, plot, strip, bottom = 48, 10, 10, 200, 34, 38
    base = top + plot
    height = base + strip + bottom
    x = scale(0, 1, left, WIDTH - right)
    y = scale(0, 1, base, top)
    parts: list[Markup] = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(level(left, WIDTH - right, y(value)))
        parts.append(label(f"{100 * value:.0f} %", left - 6, y(value) + 4, "end"))
        parts.append(
            label(
                f"{100 * value:.0f} %",
                x(value),
                base + strip + 16,
                "end" if value == 1 else "middle",
            )
        )
    most = max((group["nodes"] for group in bins), default=0) or 1
    for group in bins:
        if not group["nodes"]:
            continue
        begin, wide = x(group["low"]) + 1.5, x(group["high"]) - x(group["low"]) - 3
        deep = max(1.0, (strip - 8) * group["nodes"] / most)
        words = (
            f"{group['nodes']:,} nodes, said {100 * group['confidence']:.1f} %, "
            f"right {100 * group['accuracy']:.1f} %"
        )
        parts.append(
            tag(
                "rect",
                tag("title", words),
                x=begin,
                y=y(group["accuracy"]),
                width=wide,
                height=base - y(group["accuracy"]),
                class_="bar soft",
            )
        )
        parts.append(tag("rect", x=begin, y=base + 4, width=wide, height=deep, class_="count"))
    parts.append(tag("line", x1=x(0), y1=y(0), x2=x(1), y2=y(1), class_="mark"))
    for group in bins:
        if group["nodes"]:
            at_x, at_y = x(group["confidence"]), y(group["accuracy"])
            parts.append(tag("circle", cx=at_x, cy=at_y, r=4.0, class_="dot first"))
    parts.append(label("probability given", (left + WIDTH - right) / 2, height - 4, "middle"))
    parts.append(label("share right", left + 6, top + 12, "start", "faint"))
    parts.append(label("nodes", left - 6, base + 20, "end", "faint"))
    return drawing(name, title, desc, height, *parts)
