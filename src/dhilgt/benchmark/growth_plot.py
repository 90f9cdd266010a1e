"""Curves of growth: a row per quantity, nodes on the left, edges on the right."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dhilgt.benchmark.claims import QUANTITIES
from dhilgt.benchmark.growth import TITLES, RowKey, Series, series_of
from dhilgt.benchmark.recipe import OURS
from dhilgt.benchmark.tables import Line, label_of, sorted_keys
from dhilgt.errors import ConfigError, DhilgtError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMS = ("png", "svg", "pdf")
# Okabe and Ito's colours can be told apart by everybody; markers and dashes tell the rest.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_MARKERS, _DASHES = "os^Dv", ("-", "--")
_OURS = {"color": "black", "marker": "o", "linestyle": "-", "linewidth": 2.2}
_GB = 1e9
_APART = 0.055  # of a panel's height: lines of text closer than this lie on each other


def draw(lines: Sequence[Line], form: str) -> bytes:
    """Gives the figure of results of `dhilgt bench scaling`.

    Args:
        lines: Of a results file.
        form: "png", "svg" or "pdf".

    Raises:
        ArtifactError: If no line is of a generated graph.
        ConfigError: If there is no such form.
        DhilgtError: If matplotlib is not installed.
    """
    check(form)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    both = series_of(lines)
    keys = sorted_keys(sorted({key for series in both for key in series.lines}))
    shown = [
        name for name in QUANTITIES if any(s.points(key, name) for s in both for key in s.lines)
    ]
    # The same lines give the same bytes: names inside an SVG come from this, not from a clock.
    with rc_context({"svg.hashsalt": "dhilgt", "font.size": 8}):
        figure = Figure(figsize=(11, 0.6 + 3.2 * len(shown)), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(max(1, len(shown)), 2, squeeze=False, sharey="row")
        drawn = [
            (axes, _panel(axes, series, keys, quantity))
            for row, quantity in zip(panels, shown, strict=False)
            for axes, series in zip(row, both, strict=True)
        ]
        for axes, ends in drawn:  # after all panels of a row have set its limits
            _label_ends(axes, ends)
        out = io.BytesIO()
        dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(out, format=form, dpi=110, metadata=dateless)
    return out.getvalue()


def check(form: str) -> None:
    """Refuses a figure that cannot be drawn, before anything is measured.

    Raises:
        ConfigError: If there is no such form.
        DhilgtError: If matplotlib is not installed.
    """
    if form not in FORMS:
        raise ConfigError(f"a figure as {form!r} cannot be drawn; choose {', '.join(FORMS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DhilgtError(
            "figures need matplotlib; install it with: pip install 'dhilgt[plot]'"
        ) from error


@dataclass(frozen=True)
class _End:
    """Where a curve ends; early if not at the largest size."""

    name: str
    colour: str
    size: int
    value: float
    early: bool


def _panel(axes: Axes, series: Series, keys: Sequence[RowKey], quantity: str) -> list[_End]:
    scale = _GB if quantity in ("host", "gpu") else 1.0
    ends = []
    for at, key in enumerate(keys):
        points = series.points(key, quantity)
        if not points:
            continue
        style = _style(at, key)
        values = [value / scale for _, value in points]
        axes.plot([size for size, _ in points], values, markersize=3.5, **style)
        size = points[-1][0]
        early = size < series.sizes[-1]
        ends.append(_End(label_of(key), str(style["color"]), size, values[-1], early))
    axes.set(xscale="log", yscale="log", title=TITLES[quantity])
    fixed = f"m = {series.fixed} n" if series.over == "nodes" else f"n = {series.fixed:,}"
    axes.set_xlabel(f"{series.over}, {fixed}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return ends


def _style(at: int, key: RowKey) -> dict[str, Any]:
    if key[0] == OURS:
        return _OURS
    return {
        "color": _COLOURS[at % len(_COLOURS)],
        "marker": _MARKERS[at % len(_MARKERS)],
        "linestyle": _DASHES[at // len(_COLOURS) % len(_DASHES)],
        "linewidth": 1.1,
    }


def _label_ends(axes: Axes, ends: Sequence[_End]) -> None:
    """Names each curve where it ends; at the right, as near to that as the others let it."""
    for end in ends:
        if end.early:
            axes.annotate(
                f"× {end.name}",
                (end.size, end.value),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=end.colour,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
            )
    to_panel = axes.transAxes.inverted()
    reached = [end for end in ends if not end.early]
    heights = [
        float(to_panel.transform(axes.transData.transform((end.size, end.value)))[1])
        for end in reached
    ]
    for end, height in zip(reached, spread(heights, _APART), strict=True):
        axes.text(1.02, height, end.name, color=end.colour, transform=axes.transAxes, va="center")


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """Moves heights as little as needed for any two to be apart, and into 0 to 1 if they fit.

    Args:
        heights: Where things want to be.
        apart: The least distance.

    Example:
        >>> spread([0.5, 0.1, 0.5], 0.2)
        [0.4, 0.1, 0.6]
        >>> spread([1.0, 1.0], 0.2)
        [0.8, 1.0]
    """
    # Things that touch are one block, which stands with its middle where theirs would be.
    blocks: list[list[int]] = []
    for at in sorted(range(len(heights)), key=lambda at: heights[at]):
        members = [at]
        while blocks and (
            _middle(members, heights, apart) - _middle(blocks[-1], heights, apart)
            < apart * (len(members) + len(blocks[-1])) / 2
        ):
            members = blocks.pop() + members
        blocks.append(members)
    found = [0.0] * len(heights)
    for members in blocks:
        middle = _middle(members, heights, apart)
        for step, at in enumerate(members):
            found[at] = round(middle + apart * (step - (len(members) - 1) / 2), 6)
    return found


def _middle(members: Sequence[int], heights: Sequence[float], apart: float) -> float:
    wanted = sum(heights[at] for at in members) / len(members)
    half = apart * (len(members) - 1) / 2
    return max(half, min(wanted, 1 - half))
