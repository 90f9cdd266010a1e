"""Figures of the parameter study: curves with bands, and heat maps of both exponents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dhilgt.benchmark.experiments.study import (
    BASE,
    EXPONENTS,
    PARAMETERS,
    Curve,
    Square,
    curves,
    squares,
)
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.show import figures
from dhilgt.benchmark.show.paired import title
from dhilgt.errors import ArtifactError

CLAIMS = {
    "s": "paper: must be large enough,\nflat from there",
    "s_in": "paper: as many in as out\nis good (s = 32)",
    "r_in": "paper: negative slightly\nbetter, small effect",
    "r_out": "paper: negative slightly\nbetter, small effect",
}
"""The findings of the paper on chameleon, as titles of the panels."""

_PANEL_HEIGHT = 2.0
_TICKS = {
    "s": (2, 4, 8, 16, 32, 64),
    "s_in": (0, 7, 15, 23, 31),
    "r_in": (-4, -2, 0, 2, 4),
    "r_out": (-4, -2, 0, 2, 4),
}


def draw_curves(records: Iterable[Record], stem: Path) -> list[Path]:
    """Draw scores against each parameter, mean and standard deviation over seeds.

    A column of panels per parameter, a row per dataset: scores of datasets differ too much for a
    common axis. Recipes are lines of one panel.

    Args:
        records: Of results files.
        stem: Path without a suffix; a PNG and an SVG are written, whose paths are returned.

    Raises:
        ArtifactError: If there is no curve to draw.
        DhilgtError: If matplotlib is not installed, or a file cannot be written.
    """
    drawn = curves(records)
    if not drawn:
        raise ArtifactError("there are no curves to draw; run more cells with --resume")
    data = list(dict.fromkeys(curve.data for curve in drawn))
    recipes = list(dict.fromkeys(curve.recipe for curve in drawn))
    parameters = [name for name in PARAMETERS if any(c.parameter == name for c in drawn)]
    with figures.drawn(stem, 1.0 + _PANEL_HEIGHT * len(data)) as figure:
        panels = figure.subplots(
            len(data), len(parameters), squeeze=False, sharex="col", sharey="row"
        )
        for row, name in enumerate(data):
            for column, parameter in enumerate(parameters):
                own = [c for c in drawn if (c.data, c.parameter) == (name, parameter)]
                _panel(panels[row, column], parameter, own, data, recipes)
            metric = next(curve.metric for curve in drawn if curve.data == name)
            panels[row, 0].set_ylabel(f"{name}\n{metric.replace('_', ' ')}, %")
        for column, parameter in enumerate(parameters):
            panels[0, column].set_title(CLAIMS[parameter], fontsize=7, color=figures.GREY)
            panels[-1, column].set_xlabel(parameter)
        if len(recipes) > 1:
            figures.add_legend(figure, panels.flat, columns=4)
    return figures.paths(stem)


def _panel(
    panel: Any, parameter: str, own: Sequence[Curve], data: Sequence[str], recipes: Sequence[str]
) -> None:
    base = next(value for value, point in PARAMETERS[parameter].items() if point == BASE)
    panel.axvline(base, color=figures.GREY, linewidth=0.8, linestyle=":")
    if parameter == "s":
        panel.set_xscale("log", base=2)
        panel.minorticks_off()
    panel.set_xticks(_TICKS[parameter], [str(tick) for tick in _TICKS[parameter]])
    for curve in own:
        kind = recipes.index(curve.recipe)
        colour = figures.COLOURS[data.index(curve.data) % len(figures.COLOURS)]
        points = curve.points.values()
        means = [100 * point.mean for point in points]
        spread = [100 * point.sd for point in points]
        low = [mean - sd for mean, sd in zip(means, spread, strict=True)]
        high = [mean + sd for mean, sd in zip(means, spread, strict=True)]
        panel.fill_between(list(curve.points), low, high, color=colour, alpha=0.18, linewidth=0)
        panel.plot(
            list(curve.points),
            means,
            color=colour,
            marker=figures.MARKERS[kind % len(figures.MARKERS)],
            markersize=3.5,
            linewidth=1.2,
            linestyle=("-", "--", ":", "-.")[kind % 4],
            label=title(curve.data, curve.recipe),
        )


def draw_squares(records: Iterable[Record], stem: Path) -> list[Path]:
    """Draw a heat map of mean scores over both exponents per dataset and recipe.

    Args:
        records: Of results files.
        stem: Path without a suffix; a PNG and an SVG are written, whose paths are returned.

    Returns:
        The files; none where the records have no more than one exponent at a time.
    """
    drawn = squares(records)
    if not drawn:
        return []
    across = min(2, len(drawn))
    down = -(-len(drawn) // across)
    with figures.drawn(stem, (3.4 if across == 2 else 5.6) * down) as figure:
        panels = figure.subplots(down, across, squeeze=False)
        for panel, square in zip(panels.flat, drawn, strict=False):
            _heat_map(panel, square)
        for panel in panels.flat[len(drawn) :]:
            panel.set_visible(False)
    return figures.paths(stem)


def _heat_map(panel: Any, square: Square) -> None:
    values = [
        [100 * square.means.get((out, inside), math.nan) for inside in EXPONENTS]
        for out in EXPONENTS
    ]
    # Readable with any colour vision; r_out rises from below.
    image = panel.imshow(values, cmap="cividis", origin="lower")
    middle = sum(image.get_clim()) / 2
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            if not math.isnan(value):
                colour = "black" if value > middle else "white"
                panel.text(
                    column, row, f"{value:.1f}", ha="center", va="center", fontsize=6, color=colour
                )
    for axis, name in ((panel.xaxis, "r_in"), (panel.yaxis, "r_out")):
        axis.set_ticks(range(len(EXPONENTS)), [str(exponent) for exponent in EXPONENTS])
        axis.set_label_text(name)
    panel.grid(visible=False)
    panel.set_title(f"{title(square.data, square.recipe)}: {square.metric.replace('_', ' ')}, %")
