"""Figures of results: distinguishable colours, and equal files for equal results."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.errors import DhilgtError
from dhilgt.store.files import explained, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Distinguishable with most kinds of colour blindness, and in grey by the markers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00")
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY = "#666666"
WIDTH = 7.0  # inches: 700 pixels where a page shows 100 to the inch
_DPI = 200
_STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "dhilgt",
    "svg.fonttype": "path",
}


@contextlib.contextmanager
def drawn(stem: Path, height: float) -> Iterator[Figure]:
    """Yield an empty figure to draw on; when the block ends it is written as PNG and as SVG.

    The files depend neither on the date nor on the user's settings of matplotlib.

    Args:
        stem: Path without a suffix.
        height: In inches; the width is that of all figures.

    Raises:
        DhilgtError: If matplotlib is not installed, or a file cannot be written.
    """
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DhilgtError(
            'figures need matplotlib; install it with: pip install "dhilgt[plot]"'
        ) from error
    with style.context(["default", _STYLE]):
        # A figure of its own and not one of pyplot: no window system is looked for.
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure
        for path, about in zip(paths(stem), ({"Software": None}, {"Date": None}), strict=True):
            data = io.BytesIO()
            figure.savefig(data, format=path.suffix[1:], dpi=_DPI, metadata=about)
            with explained("write", path):
                write_file(path, iter([data.getbuffer()]))


def add_legend(figure: Figure, panels: Iterable[Any], columns: int | None = None) -> None:
    """Add one legend for all panels, each label once, in some columns or in one row."""
    handles = {
        label: handle
        for panel in panels
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns or len(handles)
    )


def paths(stem: Path) -> list[Path]:
    """Return the files of a figure.

    Example:
        >>> [path.name for path in paths(Path("ablation"))]
        ['ablation.png', 'ablation.svg']
    """
    return [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
