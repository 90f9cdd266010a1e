"""SVG shapes and text, the scale that places them, and the colours of classes.

Where no colour is passed, the style sheet of the page or picture colours a shape by its class.
"""

from collections.abc import Callable
from typing import Any

from dhilgt.report.html import Markup, tag

# Distinguishable with most colour deficiencies, on a light and on a dark background.
PALETTE = (
    "#3b82c4", "#e08a1e", "#2f9e6e", "#c94f7c", "#8a6fd1", "#b0a11f", "#4fb3bf", "#a9674a",
)  # fmt: skip
OTHER = "#8b929a"
"""What has no colour of the palette."""


def scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    """Return the linear map from values between low and high to places between start and stop."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (stop - start)


def rect(
    x: float, y: float, width: float, height: float, style: str | None, *inside: Any, **more: Any
) -> Markup:
    """Return a rectangle.

    Args:
        x: Its left edge.
        y: Its top edge.
        width: Negative widths count as 0.
        height: Negative heights count as 0.
        style: Class of the style sheet.
        *inside: Its content, such as a title.
        **more: Further attributes.
    """
    size = {"width": max(0.0, width), "height": max(0.0, height)}
    return tag("rect", *inside, x=float(x), y=float(y), **size, **more, class_=style)


def circle(
    x: float, y: float, radius: float, style: str | None, *inside: Any, **more: Any
) -> Markup:
    """Return a circle around a point; see `rect` for the other arguments."""
    return tag("circle", *inside, cx=float(x), cy=float(y), r=float(radius), **more, class_=style)


def line(x1: float, y1: float, x2: float, y2: float, style: str, **more: Any) -> Markup:
    """Return a straight line between two points; see `rect` for the other arguments."""
    ends = {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2)}
    return tag("line", **ends, **more, class_=style)


def label(
    words: str,
    x: float,
    y: float,
    anchor: str = "start",
    style: str | None = None,
    *inside: Any,
    upwards: bool = False,
    **more: Any,
) -> Markup:
    """Return text at a point.

    Args:
        words: The text.
        x: Where the text is anchored.
        y: The baseline.
        anchor: Which part of the text is at x: "start", "middle" or "end".
        style: Class of the style sheet.
        *inside: Content besides the text, such as a title.
        upwards: Whether to write from bottom to top.
        **more: Further attributes.
    """
    place: dict[str, Any] = {"x": float(x), "y": float(y)}
    if upwards:
        place = {"transform": f"translate({x:.1f} {y:.1f}) rotate(-90)"}
    return tag("text", *inside, words, **place, **more, text_anchor=anchor, class_=style)
