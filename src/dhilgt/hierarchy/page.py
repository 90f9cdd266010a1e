"""An interactive page of a graph beside its label graph: one HTML file that needs no other."""

import base64
import hashlib
import json
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.hierarchy.scene import RANK_STOPS, Panel, Scene
from dhilgt.report.html import Markup, document, packaged, tag
from dhilgt.tokens.sampler import TokenSampler

MOST_NODES, MOST_ENTRIES = 100_000, 10_000_000
_ROWS_AT_ONCE = 4_096
_KINDS = {"f4": "<f4", "i4": "<i4", "u4": "<u4", "u2": "<u2", "u1": "u1"}
_KEYS = "Keys on a picture: arrows move, + and - zoom, 0 shows all, n and p go by rank, Esc leaves."


def check_size(num_nodes: int, num_entries: int) -> None:
    """Raise an error if a graph is too large for a page, which holds every hub of every node.

    Args:
        num_nodes: Number of nodes.
        num_entries: Number of edges of the label graph.

    Raises:
        GraphError: If it is.
    """
    for count, most, what in (
        (num_nodes, MOST_NODES, "nodes"),
        (num_entries, MOST_ENTRIES, "label edges"),
    ):
        if count > most:
            raise GraphError(
                f"a page holds {most:,} {what} at most, this graph has {count:,}; write a .png or "
                ".svg, which hold any number, or draw a part of the graph"
            )


def page(scene: Scene) -> str:
    """Return the page: both graphs to zoom and pan, hubs, holders and token of the selected node.

    Args:
        scene: What to show. Tokens are drawn with the sampler's default settings.

    Raises:
        GraphError: If the graph is too large.
    """
    check_size(scene.graph.num_nodes, len(scene.label_edges.pairs))
    style, script = (packaged("dhilgt.hierarchy", name) for name in ("viewer.css", "viewer.js"))
    # Only these two texts are applied or run, whatever the data hold.
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    numbers = scene.numbers
    counts = (
        f"{numbers.nodes:,} nodes; the label graph keeps {100 * numbers.kept:.0f} % of the edges"
    )
    return document(
        f"{scene.title} · dhilgt label graph",
        tag("header", tag("h1", scene.title), tag("p", counts, class_="soft")),
        _tools(),
        tag(
            "main",
            _frame("raw", scene.raw),
            _frame("label", scene.label),
            tag("aside", id="details", aria_live="polite", aria_label="The selected node"),
        ),
        tag("div", id="legend", class_="legend"),
        tag("script", Markup(_data(scene)), type="application/json", id="data"),
        tag("script", script),
        style=style,
        head=[tag("meta", http_equiv="Content-Security-Policy", content=policy)],
    )


def _hash(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _frame(kind: str, panel: Panel) -> Markup:
    canvas = tag("canvas", id=kind, tabindex=0, role="img", aria_label=f"{panel.kind}. {_KEYS}")
    return tag(
        "section",
        tag("h2", panel.kind),
        tag("p", panel.note, class_="soft"),
        tag("div", canvas, class_="frame"),
    )


def _tools() -> Markup:
    def menu(id_: str, name: str, *options: tuple[str, str]) -> Markup:
        entries = [tag("option", shown, value=value) for value, shown in options]
        return tag("label", name, tag("select", *entries, id=id_))

    def button(id_: str, shown: str, name: str) -> Markup:
        return tag("button", shown, id=id_, type="button", title=name, aria_label=name)

    return tag(
        "form",
        tag("label", "Node", tag("input", id="query", autocomplete="off", placeholder="id")),
        tag("button", "Find", type="submit"),
        menu("colors", "Colour", ("class", "class"), ("rank", "rank")),
        menu(
            "positions",
            "Positions",
            ("own", "own of each graph"),
            ("raw", "raw graph's"),
            ("label", "label graph's"),
        ),
        menu("highlight", "Show", ("all", "hubs and holders"), ("token", "token")),
        button("closer", "+", "Zoom in"),
        button("farther", "−", "Zoom out"),
        button("reset", "Show all", "Show all"),
        tag("span", id="answer", role="status"),
        tag("span", _KEYS, class_="soft"),
        id="find",
    )


# ---- data --------------------------------------------------------------------------------------


def _data(scene: Scene) -> str:
    """Return the data as JSON that cannot end the element around it."""
    graph, legend = scene.graph, scene.legend
    packed, directory = _packed(_arrays(scene))
    about = {
        "ids": None if graph.node_ids is None else [str(one) for one in graph.nodes.tolist()],
        "class_names": graph.class_names,
        "names": legend.names,
        "colors": legend.colors,
        "counts": legend.counts,
        "known": legend.known,
        "rank_stops": RANK_STOPS,
        "token_size": scene.sampler.spec.size,
        "directory": directory,
        "packed": packed,
    }
    return json.dumps(about, separators=(",", ":")).replace("<", "\\u003c")


def _arrays(scene: Scene) -> dict[str, tuple[str, NDArray[Any]]]:
    graph, rows = scene.graph, scene.rows
    classes = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    token_ids, token_distances, token_parts = _tokens(scene.sampler)
    return {
        "raw_places": ("f4", scene.raw.places),
        "label_places": ("f4", scene.label.places),
        "raw_weight": ("u4", scene.raw.weight),
        "label_weight": ("u4", scene.label.weight),
        "raw_drawn": ("u4", scene.raw.drawn),
        "label_drawn": ("u4", scene.label.drawn),
        "classes": ("i4", classes),
        "group": ("u4", scene.legend.group),
        "rank": ("u4", scene.labels.ranks),
        "raw_offsets": ("u4", graph.offsets),
        "raw_targets": ("u4", graph.targets),
        "hub_offsets": ("u4", rows.out_offsets),
        "hubs": ("u4", rows.out_hubs),
        "hub_distances": ("u1", np.minimum(rows.out_distances, 254)),
        "token_ids": ("i4", token_ids),
        "token_distances": ("u1", token_distances),
        "token_parts": ("u2", token_parts),
    }


def _tokens(
    sampler: TokenSampler,
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint16]]:
    """Return the token of every node: ids, distances from the ego, numbers of hubs and holders."""
    ids, distances, parts = [], [], []
    for start in range(0, sampler.num_nodes, _ROWS_AT_ONCE):
        nodes = np.arange(start, min(start + _ROWS_AT_ONCE, sampler.num_nodes))
        packed = sampler.packed_rows(nodes)
        ids.append(packed.ids)
        parts.append(packed.parts)
        slots = np.arange(1, packed.ids.shape[1])
        from_ego = packed.spd[:, slots * (slots - 1) // 2]  # [b, size - 1]
        distances.append(np.pad(from_ego, ((0, 0), (1, 0))))
    return np.concatenate(ids), np.concatenate(distances), np.concatenate(parts)


def _packed(
    arrays: dict[str, tuple[str, NDArray[Any]]],
) -> tuple[str, dict[str, tuple[str, int, int]]]:
    """Return arrays as one compressed text, and where each begins: kind, byte, length."""
    parts, directory, at = [], {}, 0
    for name, (kind, array) in arrays.items():
        content = np.ascontiguousarray(array, dtype=_KINDS[kind]).tobytes()
        directory[name] = (kind, at, array.size)
        padding = -len(content) % 4  # a number must begin at a multiple of its size
        parts.append(content + bytes(padding))
        at += len(content) + padding
    return base64.b64encode(zlib.compress(b"".join(parts), 9)).decode(), directory
