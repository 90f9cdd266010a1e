"""The picture of an explanation: the ego in the middle, the other members on rings by distance."""

from __future__ import annotations

import math
from typing import NamedTuple

from dhilgt.classifier.explanation import (
    Distance,
    Explanation,
    Member,
    connection_rows,
    rows_of,
    shown_distance,
    shown_effect,
)
from dhilgt.report.html import Markup, document, packaged, table, tag
from dhilgt.report.svg import OTHER, PALETTE, circle, label, line, rect
from dhilgt.report.text import shortened

_WIDTH, _HEIGHT = 1000, 680
_X, _Y = 375, 340  # the ego
_FIRST_RING, _LAST_RING = 85, 265  # radius
_LEGEND = 750  # left edge of the legend
_BAR = 230
_NAMED_MEMBERS = 14
_LONGEST_NAME = 16
_CLASSES_SHOWN = 6
_FOR, _AGAINST = PALETTE[0], PALETTE[1]

_Box = tuple[float, float, float, float]  # left, top, right, bottom


class _Dot(NamedTuple):
    """Where a member is drawn; angles run clockwise from the right."""

    x: float
    y: float
    angle: float
    radius: float

    @property
    def box(self) -> _Box:
        r = self.radius
        return self.x - r, self.y - r, self.x + r, self.y + r


def draw(explanation: Explanation, color: str = "class") -> str:
    """Return the picture as SVG text; see `Explanation.picture`.

    Args:
        explanation: What to draw.
        color: "class" or "effect".

    Raises:
        ValueError: If `color` is neither.
    """
    if color not in ("class", "effect"):
        raise ValueError(f'color = {color!r}; pass "class" or "effect"')
    radii = _ring_radii(explanation.members)
    dots = _places(explanation, radii)
    rings, ring_labels = _rings(explanation.members, radii, dots)
    return tag(
        "svg",
        tag("title", f"What the model saw of {explanation.node}"),
        tag("style", packaged("dhilgt.report", "explanation.css")),
        rect(0, 0, _WIDTH, _HEIGHT, "paper"),
        *rings,
        *_edges(explanation, dots),
        *_dots(explanation, dots, color),
        *_names(explanation, dots, ring_labels),
        *_legend(explanation, color),
        xmlns="http://www.w3.org/2000/svg",
        class_="dhilgt-token",
        role="img",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
    )


def page(explanation: Explanation, color: str = "class") -> str:
    """Return an HTML page that needs no other file: the picture and the whole table.

    Args:
        explanation: What to show.
        color: As for `draw`.
    """
    names, rows = rows_of(explanation.members, explanation.directed)
    inputs = []
    if explanation.connected:
        heads, cells = connection_rows(explanation)
        inputs.append(table("Inputs of the node itself", heads, cells, text_columns=len(heads)))
    return document(
        f"{explanation.node}: {explanation.prediction}",
        Markup(draw(explanation, color)),
        table("Members of the token", names, rows, text_columns=len(names)),
        *inputs,
        style=packaged("dhilgt.report", "explanation_page.css"),
    )


# ---- places ------------------------------------------------------------------------------------


def _ring_radii(members: tuple[Member, ...]) -> dict[Distance, float]:
    """Return the radius of each distance that occurs: the nearest first, no path last."""

    def order(distance: Distance) -> tuple[bool, bool, int]:
        return distance is None, distance == "far", distance if isinstance(distance, int) else 0

    distances = sorted({member.distance for member in members[1:]}, key=order)
    step = (_LAST_RING - _FIRST_RING) / max(2, len(distances) - 1)
    return {distance: _FIRST_RING + step * at for at, distance in enumerate(distances)}


def _places(explanation: Explanation, radii: dict[Distance, float]) -> list[_Dot]:
    """Place the rings from the inside out, each member near those it has edges with."""
    members = explanation.members
    largest = max((member.share for member in members), default=0.0) or 1.0
    size = [5 + 13 * math.sqrt(member.share / largest) for member in members]
    dots: dict[int, _Dot] = {0: _Dot(_X, _Y, 0.0, size[0])}
    neighbors: list[set[int]] = [set() for _ in members]
    for first, second in explanation.edges:
        neighbors[first].add(second)
        neighbors[second].add(first)
    for ring, (distance, radius) in enumerate(radii.items()):
        group = [at for at, member in enumerate(members) if at and member.distance == distance]
        group.sort(key=lambda at: (str(members[at].label), at))
        preferred: dict[int, float] = {}
        for at in group:
            angle = _mean_angle([dots[other].angle for other in neighbors[at] & dots.keys() - {0}])
            if angle is not None:
                preferred[at] = angle
        if preferred:
            group.sort(key=lambda at: preferred.get(at, math.pi))
        step = 2 * math.pi / len(group)
        turns = [preferred[at] - step * i for i, at in enumerate(group) if at in preferred]
        turn = _mean_angle(turns)
        start = 0.4 * ring - math.pi / 2 if turn is None else turn
        for i, at in enumerate(group):
            angle = start + step * i
            # On a crowded ring every other dot moves inwards and all become smaller.
            crowded = radius * step < 2 * size[at] + 2
            out = radius - (14 if crowded and i % 2 else 0)
            fitting = min(size[at], max(3.0, radius * step)) if crowded else size[at]
            x, y = _X + out * math.cos(angle), _Y + out * math.sin(angle)
            dots[at] = _Dot(x, y, angle, fitting)
    return [dots[at] for at in range(len(members))]


def _mean_angle(angles: list[float]) -> float | None:
    """Return the mean direction, 0 to 2 pi; None without angles or where they cancel out."""
    x, y = sum(math.cos(angle) for angle in angles), sum(math.sin(angle) for angle in angles)
    return math.atan2(y, x) % (2 * math.pi) if math.hypot(x, y) > 1e-9 else None


# ---- shapes and names --------------------------------------------------------------------------


def _rings(
    members: tuple[Member, ...], radii: dict[Distance, float], dots: list[_Dot]
) -> tuple[list[Markup], list[_Box]]:
    """Return the rings with their labels, which are placed between dots, and the labels' boxes."""
    shapes, boxes = [], []
    for distance, radius in radii.items():
        words = shown_distance(distance)
        words = f"distance {words}" if isinstance(distance, int) else words
        angles = [
            dot.angle
            for member, dot in zip(members[1:], dots[1:], strict=True)
            if member.distance == distance
        ]
        half = math.pi / len(angles)
        angle = max((angle + half for angle in sorted(angles)), key=math.sin)
        # Where dots leave no room, the label goes below the ring.
        crowded = 2 * half * radius < _text_width(words) + 40
        x, y = _X + radius * math.cos(angle), _Y + radius * math.sin(angle) + (26 if crowded else 4)
        boxes.append(_text_box(x - _text_width(words) / 2, y, words))
        shapes += [circle(_X, _Y, radius, "ring"), label(words, x, y, "middle", "name soft")]
    return shapes, boxes


def _edges(explanation: Explanation, dots: list[_Dot]) -> list[Markup]:
    opacity = 0.5 if len(explanation.edges) < 80 else 0.25
    return [
        line(dots[a].x, dots[a].y, dots[b].x, dots[b].y, "edge", stroke_opacity=opacity)
        for a, b in explanation.edges
    ]


def _dots(explanation: Explanation, dots: list[_Dot], color: str) -> list[Markup]:
    classes = _class_colors(explanation)
    strongest = max((abs(one.effect or 0.0) for one in explanation.members), default=0.0) or 1.0
    shapes = []
    # The ego is drawn last, so that nothing covers it.
    for member, dot in reversed(list(zip(explanation.members, dots, strict=True))):
        fill, opacity = OTHER, None
        if color == "class":
            fill = classes.get(member.label, OTHER)
        elif member.effect is not None:
            fill = _FOR if member.effect >= 0 else _AGAINST
            opacity = 0.12 + 0.88 * abs(member.effect) / strongest
        style = "dot ego" if member.kind == "ego" else "dot"
        tip = tag("title", _tooltip(member))
        place = dot.x, dot.y, dot.radius
        shapes.append(circle(*place, "paper"))  # hides the edges behind a transparent dot
        shapes.append(circle(*place, style, tip, fill=fill, fill_opacity=opacity))
    return shapes


def _tooltip(member: Member) -> str:
    words = [str(member.node), member.kind, f"distance {shown_distance(member.distance)}"]
    words += [] if member.label is None else [f"class {member.label}"]
    words.append(f"share {member.share:.3f}")
    words += [] if member.effect is None else [f"effect {shown_effect(member.effect)}"]
    return ", ".join(words)


def _names(explanation: Explanation, dots: list[_Dot], taken: list[_Box]) -> list[Markup]:
    """Return the names of the ego and of the members with the most effect, where there is room."""
    names = []
    taken = [*taken, *(dot.box for dot in dots)]
    for member, dot in list(zip(explanation.members, dots, strict=True))[: _NAMED_MEMBERS + 1]:
        name = shortened(str(member.node), _LONGEST_NAME)
        words = f"{name} {shown_effect(member.effect)}".strip()
        width, away = _text_width(words), dot.radius + 4
        # Fonts differ in width, so the text is anchored at the side that is next to its dot.
        right = dot.x + away, dot.y + 4, "start", dot.x + away
        left = dot.x - away - width, dot.y + 4, "end", dot.x - away
        below = dot.x - width / 2, dot.y + away + 9, "middle", dot.x
        above = dot.x - width / 2, dot.y - away, "middle", dot.x
        sides = (right, left) if math.cos(dot.angle) >= 0 else (left, right)
        for start, y, anchor, x in (*sides, below, above):
            box = _text_box(start, y, words)
            inside = box[0] >= 4 and box[2] <= _LEGEND - 8
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                weight = "600" if member.kind == "ego" else None
                names.append(label(words, x, y, anchor, "name", font_weight=weight))
                break
    return names


def _text_width(words: str) -> float:
    return 7.0 * len(words)


def _text_box(left: float, baseline: float, words: str) -> _Box:
    return left, baseline - 10, left + _text_width(words), baseline + 3


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# ---- the legend --------------------------------------------------------------------------------


def _legend(explanation: Explanation, color: str) -> list[Markup]:
    y = 44.0
    known = "not known" if explanation.label is None else shortened(str(explanation.label), 20)
    shapes = [
        label(shortened(str(explanation.node), 24), _LEGEND, y, style="big"),
        label(f"predicted: {shortened(str(explanation.prediction), 20)}", _LEGEND, y + 22),
        label(f"known class: {known}", _LEGEND, y + 44),
        label("probabilities", _LEGEND, y + 78, style="soft"),
    ]
    y += 78
    colors = _class_colors(explanation) if color == "class" else {}
    for name, value in explanation.ranked()[:_CLASSES_SHOWN]:
        y += 22
        shapes += [
            label(shortened(str(name), 18), _LEGEND, y),
            label(f"{value:.3f}", _WIDTH - 20, y, "end"),
            rect(_LEGEND, y + 5, _BAR, 4, "track", rx=2),
            rect(_LEGEND, y + 5, _BAR * value, 4, None, rx=2, fill=colors.get(name, OTHER)),
        ]
        y += 6
    shapes.append(
        label(f"from the ego alone: {explanation.alone:.3f}", _LEGEND, y + 22, style="soft")
    )
    y += 56
    shapes.append(label(f"dots by {color}", _LEGEND, y, style="soft"))
    for fill, words in _keys(explanation, color):
        y += 22
        shapes.append(circle(_LEGEND + 6, y - 4, 6, None, fill=fill))
        shapes.append(label(words, _LEGEND + 20, y))
    y += 34
    for words in (
        "dot size: share in the readout",
        "rings: distance; lines: edges",
        "numbers: by how much the prediction is",
        "less probable without that member",
    ):
        shapes.append(label(words, _LEGEND, y, style="soft"))
        y += 18
    return shapes


def _keys(explanation: Explanation, color: str) -> list[tuple[str, str]]:
    """Return the colours of the dots and what they mean."""
    if color == "effect":
        return [(_FOR, "supports the prediction"), (_AGAINST, "opposes the prediction")]
    colors = _class_colors(explanation)
    keys = [(fill, shortened(str(name), 24)) for name, fill in colors.items()]
    rest = any(member.label not in colors for member in explanation.members)
    return [*keys, *([(OTHER, "other or not known")] if rest else [])]


def _class_colors(explanation: Explanation) -> dict[object, str]:
    """Return the colours of the most frequent classes; the others are grey."""
    counts: dict[object, int] = {explanation.prediction: len(explanation.members)}
    for member in explanation.members:
        if member.label is not None:
            counts[member.label] = counts.get(member.label, 0) + 1
    order = sorted(counts, key=lambda name: (-counts[name], str(name)))
    return dict(zip(order, PALETTE, strict=False))
