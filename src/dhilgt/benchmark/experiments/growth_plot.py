"""Curves of growth: a row per quantity, nodes on the left, edges on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.benchmark.experiments.growth import TITLES, Series, series_of
from dhilgt.benchmark.experiments.scaling import QUANTITIES
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.recipe import OURS
from dhilgt.benchmark.show import figures
from dhilgt.benchmark.show.tables import GB, RowKey, label_of, sorted_keys

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--")  # there are more systems than colours
_OURS = {"color": "black", "marker": "o", "linestyle": "-", "linewidth": 2.0}
_ROW_HEIGHT = 2.6
_TEXT = 6.5
_APART = 0.055  # of a panel's height: lines of text closer than this overlap


def draw_growth(records: Sequence[Record], stem: Path) -> None:
    """Draw the curves of results of `dhilgt bench scaling`, as PNG and as SVG.

    Args:
        records: Of a results file.
        stem: Path without a suffix.

    Raises:
        ArtifactError: If no record is of a generated graph.
        DhilgtError: If matplotlib is not installed, or a file cannot be written.
    """
    both = series_of(records)
    keys = sorted_keys(sorted({key for series in both for key in series.records}))
    shown = [
        name for name in QUANTITIES if any(s.points(key, name) for s in both for key in s.records)
    ]
    with figures.drawn(stem, 0.3 + _ROW_HEIGHT * len(shown)) as figure:
        if not shown:
            return
        panels = figure.subplots(len(shown), 2, squeeze=False, sharey="row")
        drawn = [
            (axes, _panel(axes, series, keys, quantity))
            for row, quantity in zip(panels, shown, strict=True)
            for axes, series in zip(row, both, strict=True)
        ]
        for axes, ends in drawn:  # after all panels of a row have set its limits
            _label_ends(axes, ends)


@dataclass(frozen=True)
class _End:
    """Where a curve ends; early if not at the largest size."""

    name: str
    colour: str
    size: int
    value: float
    early: bool


def _panel(axes: Axes, series: Series, keys: Sequence[RowKey], quantity: str) -> list[_End]:
    from matplotlib.ticker import NullLocator

    scale = GB if quantity in ("host", "gpu") else 1.0
    ends = []
    for at, key in enumerate(keys):
        points = series.points(key, quantity)
        if not points:
            continue
        style = _style(at, key)
        values = [value / scale for _, value in points]
        axes.plot([size for size, _ in points], values, markersize=3, **style)
        size = points[-1][0]
        early = size < series.sizes[-1]
        ends.append(_End(label_of(key), str(style["color"]), size, values[-1], early))
    axes.set(xscale="log", yscale="log", title=TITLES[quantity])
    fixed = f"m = {series.fixed} n" if series.over == "nodes" else f"n = {series.fixed:,}"
    axes.set_xlabel(f"{series.over}, {fixed}")
    axes.set_xticks(series.sizes, labels=[short(size) for size in series.sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelsize=_TEXT, which="both")
    return ends


def short(size: int) -> str:
    """Return a size in few letters.

    Example:
        >>> [short(size) for size in (200, 2_000, 1_500_000, 40_000_000)]
        ['200', '2k', '1.5M', '40M']
    """
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return str(size)


def _style(at: int, key: RowKey) -> dict[str, Any]:
    if key.system == OURS:
        return _OURS
    return {
        "color": figures.COLOURS[at % len(figures.COLOURS)],
        "marker": figures.MARKERS[(at + at // len(figures.COLOURS)) % len(figures.MARKERS)],
        "linestyle": _DASHES[at // len(figures.COLOURS) % len(_DASHES)],
        "linewidth": 1.0,
    }


def _label_ends(axes: Axes, ends: Sequence[_End]) -> None:
    """Name each curve where it ends; at the right, as near to that as the others let it."""
    for end in ends:
        if end.early:
            axes.annotate(
                f"× {end.name}",
                (end.size, end.value),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=end.colour,
                fontsize=_TEXT,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
            )
    to_panel = axes.transAxes.inverted()
    reached = [end for end in ends if not end.early]
    heights = [
        float(to_panel.transform(axes.transData.transform((end.size, end.value)))[1])
        for end in reached
    ]
    for end, height in zip(reached, spread(heights, _APART), strict=True):
        axes.text(
            1.02,
            height,
            end.name,
            color=end.colour,
            fontsize=_TEXT,
            transform=axes.transAxes,
            va="center",
        )


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """Move heights as little as needed for any two to be apart, and into 0 to 1 if they fit.

    Args:
        heights: Preferred positions.
        apart: The least distance.

    Example:
        >>> spread([0.5, 0.1, 0.5], 0.2)
        [0.4, 0.1, 0.6]
        >>> spread([1.0, 1.0], 0.2)
        [0.8, 1.0]
    """
    # Labels that touch form a block, centred on the mean of their preferred positions.
    blocks: list[list[int]] = []
    for at in sorted(range(len(heights)), key=lambda at: heights[at]):
        members = [at]
        while blocks and (
            _middle(members, heights, apart) - _middle(blocks[-1], heights, apart)
            < apart * (len(members) + len(blocks[-1])) / 2
        ):
            members = blocks.pop() + members
        blocks.append(members)
    placed = [0.0] * len(heights)
    for members in blocks:
        middle = _middle(members, heights, apart)
        for step, at in enumerate(members):
            placed[at] = round(middle + apart * (step - (len(members) - 1) / 2), 6)
    return placed


def _middle(members: Sequence[int], heights: Sequence[float], apart: float) -> float:
    mean = sum(heights[at] for at in members) / len(members)
    half = apart * (len(members) - 1) / 2
    return max(half, min(mean, 1 - half))
