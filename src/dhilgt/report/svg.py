"""Small charts as inline SVG; the page's style sheet colours them.

A chart is 400 units wide, so that its text is readable on a phone and not huge on a desktop.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dhilgt.report.html import Markup, joined, tag

Point = tuple[float, float]


def ticks(low: float, high: float, about: int = 5, *, whole: bool = False) -> list[float]:
    """Gives round numbers from low or below to high or above, about so many.

    Args:
        low: Smallest value to show.
        high: Largest value to show.
        about: How many are wanted.
        whole: Give whole numbers only.

    Example:
        >>> ticks(0.0, 0.93), ticks(1, 4, whole=True)
        ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 2.0, 3.0, 4.0])
    """
    if high <= low:
        wide = 1.0 if whole else max(abs(low) * 0.1, 0.1)
        low, high = low - (0 if whole else wide), high + wide
    rough = (high - low) / max(1, about - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(at * step, 12) for at in range(first, last + 1)]


def tick_text(values: Sequence[float]) -> list[str]:
    """Gives ticks as text, all with the digits that they need to differ.

    Example:
        >>> tick_text([0.0, 0.25, 0.5]), tick_text([0, 5000])
        (['0.00', '0.25', '0.50'], ['0', '5,000'])
    """
    for digits in range(7):
        if all(abs(value - round(value, digits)) <= 1e-9 * max(1, abs(value)) for value in values):
            return [f"{value:,.{digits}f}" for value in values]
    return [f"{value:g}" for value in values]


def scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    """Gives the map of values between low and high to places between start and stop."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (stop - start)


def thinned(points: Sequence[Point], most: int = 400) -> list[Point]:
    """Gives a line of fewer points that looks the same: lowest and highest of each stretch stay.

    Args:
        points: By ascending x.
        most: About how many to keep.

    Example:
        >>> len(thinned([(float(x), float(x % 7)) for x in range(10_000)])) <= 402
        True
    """
    if len(points) <= most:
        return list(points)
    stretches = most // 2
    kept = {0, len(points) - 1}
    for at in range(stretches):
        begin = at * len(points) // stretches
        inside = range(begin, (at + 1) * len(points) // stretches)
        kept.add(min(inside, key=lambda i: points[i][1]))
        kept.add(max(inside, key=lambda i: points[i][1]))
    return [points[i] for i in sorted(kept)]


WIDTH = 400


@dataclass(frozen=True)
class Line:
    """A line of a chart.

    Attributes:
        name: For the legend.
        points: (x, y), by ascending x.
        style: Class of the style sheet.
    """

    name: str
    points: Sequence[Point]
    style: str


def drawing(name: str, title: str, desc: str, height: float, *parts: Any) -> Markup:
    """Gives an SVG that says what it shows.

    Args:
        name: Unique on the page.
        title: What it is.
        desc: What is to be seen, for those who do not see it.
        height: In units.
        *parts: What is drawn.
    """
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", desc, id=f"{name}-desc"),
        *parts,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_=f"chart {name}",
    )


def line_chart(
    name: str,
    title: str,
    desc: str,
    lines: Sequence[Line],
    *,
    x_name: str,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Gives lines over a common x axis of whole numbers.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        lines: What to draw; empty ones are left out.
        x_name: Below the axis.
        mark: An x to mark with a vertical line, and its word.
    """
    lines = [line for line in lines if line.points]
    height, left, right, top, bottom = 256, 48, 10, 46, 38
    all_x = [x for line in lines for x, _ in line.points]
    all_y = [y for line in lines for _, y in line.points]
    if not all_x:
        return nothing(name, title, desc)
    x_ticks = [x for x in ticks(min(all_x), max(all_x), 5, whole=True) if x <= max(all_x)]
    x_ticks = [x for x in x_ticks if x >= min(all_x)] or [min(all_x)]
    y_ticks = ticks(min(all_y), max(all_y), 5)
    lone = 0.5 if min(all_x) == max(all_x) else 0.0  # stands in the middle
    x = scale(min(all_x) - lone, max(all_x) + lone, left, WIDTH - right)
    y = scale(y_ticks[0], y_ticks[-1], height - bottom, top)
    parts: list[Markup] = []
    for value, words in zip(y_ticks, tick_text(y_ticks), strict=True):
        parts.append(level(left, WIDTH - right, y(value)))
        parts.append(label(words, left - 6, y(value) + 4, "end"))
    for value, words in zip(x_ticks, tick_text(x_ticks), strict=True):
        parts.append(label(words, x(value), height - bottom + 16, "middle"))
    parts.append(label(x_name, (left + WIDTH - right) / 2, height - 4, "middle"))
    if mark is not None and min(all_x) <= mark[0] <= max(all_x):
        at = x(mark[0])
        side = "end" if at > WIDTH * 0.8 else "start" if at < WIDTH * 0.25 else "middle"
        parts.append(tag("line", x1=at, x2=at, y1=top, y2=height - bottom, class_="mark"))
        parts.append(label(mark[1], at, top - 7, side))
    begin = float(left)
    for line in lines:
        parts.append(
            tag("line", x1=begin, x2=begin + 22, y1=14, y2=14, class_=f"line {line.style}")
        )
        parts.append(label(line.name, begin + 28, 18, "start"))
        begin += 44 + 6.2 * len(line.name)
        if len(line.points) == 1:
            (at_x, at_y) = line.points[0]
            parts.append(tag("circle", cx=x(at_x), cy=y(at_y), r=3.5, class_=f"dot {line.style}"))
            continue
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in thinned(line.points))
        parts.append(tag("polyline", points=path, class_=f"line {line.style}"))
    return drawing(name, title, desc, height, *parts)


def bar_chart(
    name: str, title: str, desc: str, bars: Sequence[tuple[str, float, str]], *, x_name: str
) -> Markup:
    """Gives upright bars.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        bars: For each bar the words below it, its height and the words above it.
        x_name: Below the axis.
    """
    if not bars:
        return nothing(name, title, desc)
    height, left, right, top, bottom = 220, 8, 8, 26, 40
    step = (WIDTH - left - right) / len(bars)
    wide = min(46.0, step * 0.72)
    y = scale(0, max(value for _, value, _ in bars) or 1, height - bottom, top)
    every = 1 + (len(bars) - 1) // 16  # more words would run into each other
    parts: list[Markup] = []
    for at, (below, value, above) in enumerate(bars):
        middle = left + step * (at + 0.5)
        parts.append(
            tag(
                "rect",
                tag("title", f"{below}: {above}"),
                x=middle - wide / 2,
                width=wide,
                y=y(value),
                height=max(0.0, height - bottom - y(value)),
                class_="bar",
            )
        )
        if at % every == 0:
            parts.append(label(below, middle, height - bottom + 15, "middle"))
        if step >= 36:
            parts.append(label(above, middle, y(value) - 5, "middle"))
    parts.append(level(left, WIDTH - right, height - bottom, "axis"))
    parts.append(label(x_name, WIDTH / 2, height - 6, "middle"))
    return drawing(name, title, desc, height, *parts)


def row_chart(name: str, title: str, desc: str, rows: Sequence[tuple[str, float, str]]) -> Markup:
    """Gives bars that lie, each below its words.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        rows: For each bar its words, its length and the words of its value.
    """
    if not rows:
        return nothing(name, title, desc)
    step, top = 38, 4
    x = scale(0, max(value for _, value, _ in rows) or 1, 0, WIDTH)
    parts: list[Markup] = []
    for at, (words, value, shown) in enumerate(rows):
        y = top + at * step
        parts.append(label(words, 0, y + 12, "start"))
        parts.append(label(shown, WIDTH, y + 12, "end", "strong-text"))
        parts.append(tag("rect", x=0, y=y + 18, width=WIDTH, height=9, rx=2, class_="track"))
        parts.append(
            tag("rect", x=0, y=y + 18, width=max(1.5, x(value)), height=9, rx=2, class_="bar")
        )
    return drawing(name, title, desc, top + step * len(rows), *parts)


def share_bar(
    name: str, title: str, desc: str, shares: Sequence[tuple[str, float, str, str]]
) -> Markup:
    """Gives one bar cut into shares of a whole, with a legend below.

    Args:
        name: As for `drawing`, like title and desc.
        title: See name.
        desc: See name.
        shares: For each its words, the share, the words of its value and its style.
    """
    parts: list[Markup] = []
    begin = 0.0
    for at, (words, share, shown, style) in enumerate(shares):
        wide = share * WIDTH
        parts.append(
            tag("rect", x=begin, y=4, width=max(0.0, wide), height=26, class_=f"share {style}")
        )
        begin += wide
        y = 50 + at * 22
        parts.append(tag("rect", x=0, y=y - 1, width=12, height=12, class_=f"share {style}"))
        parts.append(label(words, 20, y + 9, "start"))
        parts.append(label(shown, WIDTH, y + 9, "end", "strong-text"))
    return drawing(name, title, desc, 46 + 22 * len(shares), *parts)


def nothing(name: str, title: str, desc: str) -> Markup:
    """Gives the chart of no values."""
    return drawing(name, title, desc, 60, label("nothing to draw", WIDTH / 2, 34, "middle"))


def level(x1: float, x2: float, y: float, style: str = "grid") -> Markup:
    """Gives a level line."""
    return tag("line", x1=float(x1), x2=float(x2), y1=float(y), y2=float(y), class_=style)


def label(
    words: str,
    x: float,
    y: float,
    anchor: str,
    style: str | None = None,
    *,
    extra: Markup | None = None,
    turn: bool = False,
) -> Markup:
    """Gives words at a place.

    Args:
        words: What to write.
        x: Where.
        y: Where its letters stand.
        anchor: Which end of the words is at x: "start", "middle" or "end".
        style: Class of the style sheet.
        extra: What is to go inside beside the words.
        turn: Write upwards.
    """
    place: dict[str, Any] = {"x": float(x), "y": float(y)}
    if turn:
        place = {"transform": f"translate({x:.1f} {y:.1f}) rotate(-90)"}
    return tag("text", joined([extra, words]), **place, text_anchor=anchor, class_=style)
