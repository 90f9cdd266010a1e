"""Line and bar charts as inline SVG; the page's style sheet colours them.

A chart is 400 units wide, so that its text is readable on a phone and not huge on a desktop.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dhilgt.report.html import Markup, tag
from dhilgt.report.svg import circle, label, line, rect, scale

WIDTH = 400
Point = tuple[float, float]


class ChartText(NamedTuple):
    """What a chart is called, and what a screen reader says of it.

    Attributes:
        name: Its id, unique on the page, and its class.
        title: What the chart is.
        desc: What it shows, in words.
    """

    name: str
    title: str
    desc: str


def chart(text: ChartText, height: float, *parts: Any) -> Markup:
    """Return a drawing that screen readers can describe.

    Args:
        text: Its name and description.
        height: In units.
        *parts: Shapes and labels.
    """
    return tag(
        "svg",
        tag("title", text.title, id=f"{text.name}-title"),
        tag("desc", text.desc, id=f"{text.name}-desc"),
        *parts,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{text.name}-title {text.name}-desc",
        class_=f"chart {text.name}",
    )


def _empty(text: ChartText) -> Markup:
    return chart(text, 60, label("nothing to draw", WIDTH / 2, 34, "middle"))


# ---- lines -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A line of a chart.

    Attributes:
        name: For the legend; "" leaves the line out of it.
        points: (x, y), by ascending x.
        style: Class of the style sheet.
    """

    name: str
    points: Sequence[Point]
    style: str


def line_chart(
    text: ChartText, curves: Sequence[Curve], *, x_name: str, mark: tuple[float, str] | None = None
) -> Markup:
    """Return curves over a common x axis of whole numbers.

    Args:
        text: Name and description of the chart.
        curves: What to draw; empty ones are left out.
        x_name: Name of the x axis.
        mark: An x to mark with a vertical line, and its label.
    """
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return _empty(text)
    left, right = 48, WIDTH - 10
    legend, more = _legend([curve for curve in curves if curve.name], left, right)
    height, top, bottom = 256 + more, 46 + more, 218 + more
    all_x = [x for curve in curves for x, _ in curve.points]
    all_y = [y for curve in curves for _, y in curve.points]
    first, last = min(all_x), max(all_x)
    x_ticks = [x for x in ticks(first, last, whole=True) if first <= x <= last] or [first]
    y_ticks = ticks(min(all_y), max(all_y))
    margin = 0.5 if first == last else 0.0  # a single point is drawn in the middle
    x = scale(first - margin, last + margin, left, right)
    y = scale(y_ticks[0], y_ticks[-1], bottom, top)
    parts: list[Markup] = []
    for value, words in zip(y_ticks, tick_text(y_ticks), strict=True):
        parts.append(line(left, y(value), right, y(value), "grid"))
        parts.append(label(words, left - 6, y(value) + 4, "end"))
    for value, words in zip(x_ticks, tick_text(x_ticks), strict=True):
        parts.append(label(words, x(value), bottom + 16, "middle"))
    parts.append(label(x_name, (left + right) / 2, height - 4, "middle"))
    if mark is not None and first <= mark[0] <= last:
        at = x(mark[0])
        anchor = "end" if at > WIDTH * 0.8 else "start" if at < WIDTH * 0.25 else "middle"
        parts += [line(at, top, at, bottom, "mark"), label(mark[1], at, top - 7, anchor)]
    parts += legend
    for curve in curves:
        points = [(x(a), y(b)) for a, b in thinned(curve.points)]
        if len(points) == 1:
            parts.append(circle(*points[0], 3.5, f"dot {curve.style}"))
        else:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(tag("polyline", points=path, class_=f"line {curve.style}"))
    return chart(text, height, *parts)


def _legend(curves: Sequence[Curve], left: float, right: float) -> tuple[list[Markup], float]:
    """Return the legend of curves, in as many rows as it needs, and the height of all but one."""
    parts: list[Markup] = []
    x, y = left, 14.0
    for curve in curves:
        end = x + 28 + 6.2 * len(curve.name)
        if end > right and x > left:
            x, end, y = left, left + end - x, y + 18
        parts.append(line(x, y, x + 22, y, f"line {curve.style}"))
        parts.append(label(curve.name, x + 28, y + 4))
        x = end + 16
    return parts, y - 14


def ticks(low: float, high: float, about: int = 5, *, whole: bool = False) -> list[float]:
    """Return round numbers that cover a range.

    Args:
        low: Smallest value to cover.
        high: Largest value to cover.
        about: Approximate number of ticks.
        whole: Return whole numbers only.

    Example:
        >>> ticks(0.0, 0.93), ticks(1, 4, whole=True)
        ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 2.0, 3.0, 4.0])
    """
    if high <= low:
        margin = 1.0 if whole else max(abs(low) * 0.1, 0.1)
        low, high = low - (0 if whole else margin), high + margin
    rough = (high - low) / max(1, about - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(at * step, 12) for at in range(first, last + 1)]


def tick_text(values: Sequence[float]) -> list[str]:
    """Return ticks as text, all with the number of decimals that they need to differ.

    Example:
        >>> tick_text([0.0, 0.25, 0.5]), tick_text([0, 5000])
        (['0.00', '0.25', '0.50'], ['0', '5,000'])
    """
    for digits in range(7):
        if all(abs(value - round(value, digits)) <= 1e-9 * max(1, abs(value)) for value in values):
            return [f"{value:,.{digits}f}" for value in values]
    return [f"{value:g}" for value in values]


def thinned(points: Sequence[Point], most: int = 400) -> list[Point]:
    """Return fewer points that look the same: the lowest and highest of each interval are kept.

    Args:
        points: By ascending x.
        most: Approximate number of points to keep.

    Example:
        >>> len(thinned([(float(x), float(x % 7)) for x in range(10_000)])) <= 402
        True
    """
    if len(points) <= most:
        return list(points)
    intervals = most // 2
    kept = {0, len(points) - 1}
    for at in range(intervals):
        start, stop = (i * len(points) // intervals for i in (at, at + 1))
        kept.add(min(range(start, stop), key=lambda i: points[i][1]))
        kept.add(max(range(start, stop), key=lambda i: points[i][1]))
    return [points[i] for i in sorted(kept)]


# ---- bars --------------------------------------------------------------------------------------


def bar_chart(text: ChartText, bars: Sequence[tuple[str, float, str]], *, x_name: str) -> Markup:
    """Return upright bars.

    Args:
        text: Name and description of the chart.
        bars: For each bar the label below it, its height and the label above it.
        x_name: Name of the x axis.
    """
    if not bars:
        return _empty(text)
    height, left, right, top, bottom = 220, 8, WIDTH - 8, 26, 180
    step = (right - left) / len(bars)
    width = min(46.0, step * 0.72)
    y = scale(0, max(value for _, value, _ in bars) or 1, bottom, top)
    every = 1 + (len(bars) - 1) // 16  # more labels would overlap
    parts: list[Markup] = []
    for at, (below, value, above) in enumerate(bars):
        middle, start = left + step * (at + 0.5), y(value)
        tip = tag("title", f"{below}: {above}")
        parts.append(rect(middle - width / 2, start, width, bottom - start, "bar", tip))
        if at % every == 0:
            parts.append(label(below, middle, bottom + 15, "middle"))
        if step >= 36:
            parts.append(label(above, middle, start - 5, "middle"))
    parts.append(line(left, bottom, right, bottom, "axis"))
    parts.append(label(x_name, WIDTH / 2, height - 6, "middle"))
    return chart(text, height, *parts)


def row_chart(text: ChartText, rows: Sequence[tuple[str, float, str]]) -> Markup:
    """Return horizontal bars, each below its label.

    Args:
        text: Name and description of the chart.
        rows: For each bar its label, its length and its value as text.
    """
    if not rows:
        return _empty(text)
    step, top = 38, 4
    x = scale(0, max(value for _, value, _ in rows) or 1, 0, WIDTH)
    parts: list[Markup] = []
    for at, (words, value, shown) in enumerate(rows):
        y = top + at * step
        parts += [
            label(words, 0, y + 12),
            label(shown, WIDTH, y + 12, "end", "strong-text"),
            rect(0, y + 18, WIDTH, 9, "track", rx=2),
            rect(0, y + 18, max(1.5, x(value)), 9, "bar", rx=2),
        ]
    return chart(text, top + step * len(rows), *parts)


def stacked_bar(text: ChartText, pieces: Sequence[tuple[str, float, str, str]]) -> Markup:
    """Return one bar cut into fractions of a whole, with a legend below.

    Args:
        text: Name and description of the chart.
        pieces: For each its label, its fraction, the fraction as text and its style.
    """
    parts: list[Markup] = []
    start = 0.0
    for at, (words, fraction, shown, style) in enumerate(pieces):
        y = 50 + at * 22
        parts += [
            rect(start, 4, fraction * WIDTH, 26, f"piece {style}"),
            rect(0, y - 1, 12, 12, f"piece {style}"),
            label(words, 20, y + 9),
            label(shown, WIDTH, y + 9, "end", "strong-text"),
        ]
        start += fraction * WIDTH
    return chart(text, 46 + 22 * len(pieces), *parts)
