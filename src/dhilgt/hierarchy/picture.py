"""A graph beside its label graph, drawn by Matplotlib: PNG and SVG."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.hierarchy.numbers import GraphNumbers
from dhilgt.hierarchy.scene import RANK_STOPS, Panel, Scene, edge_groups
from dhilgt.report.text import shortened

_INK, _SOFT, _EDGE = "#1d232a", "#66707a", "#98a1aa"
_SIZE = (13.0, 7.4)  # inches
_DPI = 110
_RASTERIZED = 3_000  # dots or edges of an SVG that are drawn as shapes; more become an image
_LONGEST_NAME = 24


def draw(scene: Scene, form: str) -> bytes:
    """Return a picture; the same scene gives the same bytes with the same Matplotlib.

    Args:
        scene: What to draw.
        form: "png" or "svg".

    Raises:
        GraphError: If Matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise GraphError(
            f"pictures need matplotlib ({error}); install it with pip install 'dhilgt[plot]'"
        ) from error
    with rc_context({"svg.hashsalt": "dhilgt", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=_SIZE, dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        _headings(figure, scene)
        for left, panel, numbers in (
            (0.01, scene.raw, scene.numbers.raw),
            (0.505, scene.label, scene.numbers.label),
        ):
            axes = figure.add_axes((left, 0.115, 0.485, 0.755))
            _panel(axes, scene, panel)
            words: dict[str, Any] = {"transform": axes.transAxes, "color": _SOFT, "fontsize": 9.5}
            title = {**words, "color": _INK, "fontsize": 13, "fontweight": "bold"}
            axes.text(0.0, 1.052, panel.kind, **title)
            axes.text(0.0, 1.012, _summary(numbers), **words)
            axes.text(0.985, 1.052, panel.note, ha="right", **words)
        _legend(figure, scene)
        content = io.BytesIO()
        if form == "svg":
            figure.savefig(content, format="svg", metadata={"Date": None})
            return content.getvalue()
        figure.savefig(content, format="png")
    return _fewer_colors(content)


def _panel(axes: Any, scene: Scene, panel: Panel) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    count = scene.graph.num_nodes
    groups = edge_groups(panel.drawn, scene.legend)
    if scene.options.color == "rank":
        groups = np.full(len(groups), -1)
    palette = to_rgba_array([*scene.legend.colors, _EDGE])
    random = np.random.default_rng(scene.options.seed)
    order = random.permutation(len(groups))  # so that no class covers the others
    order = order[np.argsort(groups[order] >= 0, kind="stable")]  # coloured above grey
    axes.add_collection(
        LineCollection(
            panel.places[panel.drawn[order]].tolist(),
            colors=palette[groups[order]],
            linewidths=0.45,
            alpha=float(np.clip(1_500 / max(len(panel.drawn), 1), 0.09, 0.6)),
            rasterized=len(panel.drawn) > _RASTERIZED,
            zorder=1,
        )
    )
    top = max(int(panel.weight.max(initial=1)), 1)
    base = float(np.clip(9_000 / max(count, 1), 1.6, 18))
    sizes = base * (0.7 + 5 * (panel.weight / top) ** 0.75)
    order = random.permutation(count)
    order = order[np.argsort(sizes[order] > 3 * base, kind="stable")]  # the few large dots on top
    axes.scatter(
        *panel.places[order].T,
        s=sizes[order],
        c=_node_colors(scene)[order],
        linewidths=0.25 if count <= _RASTERIZED else 0.1,
        edgecolors="white",
        rasterized=count > _RASTERIZED,
        zorder=2,
    )
    low, high = panel.places.min(axis=0), panel.places.max(axis=0)
    x, y = (low + high) / 2
    aspect = _SIZE[0] * 0.485 / (_SIZE[1] * 0.755)
    reach = 0.515 * max(float(high[1] - low[1]), float(high[0] - low[0]) / aspect, 0.1)
    axes.set(xlim=(x - reach * aspect, x + reach * aspect), ylim=(y - reach, y + reach))
    axes.set_axis_off()


def _node_colors(scene: Scene) -> NDArray[np.float64]:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba_array

    if scene.options.color == "class":
        return np.asarray(to_rgba_array(scene.legend.colors)[scene.legend.group])
    shade = np.log1p(scene.labels.ranks) / np.log1p(max(scene.graph.num_nodes - 1, 1))
    return np.asarray(LinearSegmentedColormap.from_list("rank", RANK_STOPS)(shade))


def _headings(figure: Any, scene: Scene) -> None:
    count = f"{scene.graph.num_nodes:,} nodes"
    figure.text(0.01, 0.962, scene.title, fontsize=17, fontweight="bold", color=_INK)
    kept = f"the label graph keeps {100 * scene.numbers.kept:.0f} % of the edges"
    figure.text(0.99, 0.965, f"{count}; {kept}", ha="right", fontsize=10, color=_SOFT)
    layout = "its own layout" if scene.options.layout == "own" else "the raw graph's layout"
    colors = ""
    if scene.options.color == "class" and scene.legend.known:
        colors = " Edges in colour join nodes of one class."
    figure.text(
        0.01,
        0.018,
        f"Larger dots: more neighbours (left), more nodes that have it as a hub (right).{colors} "
        f"Label graph: an edge from each node to its hubs, {layout}.",
        fontsize=8.5,
        color=_SOFT,
    )


def _summary(numbers: GraphNumbers) -> str:
    words = [f"{numbers.edges:,} edges", f"{numbers.average_degree:.1f} per node"]
    if numbers.homophily is not None and numbers.modularity is not None:
        words.append(f"homophily {numbers.homophily:.2f}")
        words.append(f"modularity {numbers.modularity:.2f}")
    return ", ".join([*words, f"clustering {numbers.clustering:.2f}"]).replace(" -", " −")


def _legend(figure: Any, scene: Scene) -> None:
    from matplotlib.lines import Line2D

    if scene.options.color == "rank":
        count = scene.graph.num_nodes
        first, *middle, last = RANK_STOPS
        entries = [(first, "most important"), *((color, "") for color in middle)]
        entries.append((last, f"least important of {count:,} (log of rank)"))
    else:
        legend = scene.legend
        entries = [
            (color, f"{shortened(name, _LONGEST_NAME)} ({size:,})")
            for name, color, size in zip(legend.names, legend.colors, legend.counts, strict=True)
        ]
    handles = [
        Line2D([], [], marker="o", linestyle="", color=color, label=name, markersize=7)
        for color, name in entries
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.003, 0.042),
        ncols=5 if len(handles) > 7 else max(len(handles), 1),
        frameon=False,
        fontsize=9.5,
        handletextpad=0.1,
        columnspacing=1.4,
        labelcolor=_INK,
    )


def _fewer_colors(png: io.BytesIO) -> bytes:
    """Return the same picture in 256 colours, about a third of the size."""
    from PIL import Image  # Matplotlib brings it

    content = io.BytesIO()
    with Image.open(png) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            content, format="PNG", optimize=True
        )
    return content.getvalue()
