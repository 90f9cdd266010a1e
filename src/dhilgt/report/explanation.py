"""An explanation as a picture: the ego in the middle, rings by distance."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

from dhilgt.classifier.explanation import (
    Distance,
    Explanation,
    Member,
    rows_of,
    shown_distance,
    shown_effect,
)

_WIDTH, _HEIGHT = 1000, 680
_X, _Y = 375, 340  # the ego
_NEAR, _REACH = 85, 265  # radius of the first ring and of the last
_LEGEND = 750  # left edge of the words
_BAR = 230
_LABELS = 14
_LONGEST_NAME = 16
_CLASSES_SHOWN = 6
# Told apart also by most people who see fewer colours, on light and on dark ground.
PALETTE = (
    "#3b82c4", "#e08a1e", "#2f9e6e", "#c94f7c", "#8a6fd1", "#b0a11f", "#4fb3bf", "#a9674a",
)  # fmt: skip
OTHER = "#8b929a"
_FOR, _AGAINST = PALETTE[0], PALETTE[1]

_STYLE = """
.dhilgt-token { --paper: #ffffff; --ink: #1d232a; --soft: #66707a; --ring: #d9dee3;
  background: var(--paper); font: 13px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  .dhilgt-token { --paper: #14181d; --ink: #e8ebee; --soft: #9aa4ae; --ring: #333b44; } }
.dhilgt-token .paper { fill: var(--paper); }
.dhilgt-token .ring { fill: none; stroke: var(--ring); }
.dhilgt-token .edge { stroke: var(--soft); }
.dhilgt-token .dot { stroke: var(--paper); stroke-width: 1.5; }
.dhilgt-token .ego { stroke: var(--ink); stroke-width: 3; }
.dhilgt-token .track { fill: var(--ring); }
.dhilgt-token text { fill: var(--ink); }
.dhilgt-token .name { paint-order: stroke; stroke: var(--paper); stroke-width: 4px;
  stroke-linejoin: round; font-size: 12px; }
.dhilgt-token .soft { fill: var(--soft); font-size: 12px; }
.dhilgt-token .big { font-size: 17px; font-weight: 600; }
"""


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
    """Gives the picture as SVG text; see `Explanation.picture`.

    Args:
        explanation: What to draw.
        color: "class" or "effect".

    Raises:
        ValueError: If `color` is neither.
    """
    if color not in ("class", "effect"):
        raise ValueError(f'color = {color!r}; pass "class" or "effect"')
    rings = _rings(explanation.members)
    dots = _places(explanation, rings)
    marks, taken = _ring_marks(explanation.members, rings, dots)
    title = f"What the model saw of {explanation.node}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dhilgt-token" role="img" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
        *marks,
        *_lines(explanation, dots),
        *_marks(explanation, dots, color),
        *_names(explanation, dots, taken),
        *_legend(explanation, color),
        "</svg>",
    ]
    return "\n".join(parts)


def page(explanation: Explanation, color: str = "class") -> str:
    """Gives an HTML page that needs nothing else: the picture and the whole table.

    Args:
        explanation: What to show.
        color: As for `draw`.
    """
    names, rows = rows_of(explanation.members, explanation.directed)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(str(explanation.node))}: {escape(str(explanation.prediction))}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px system-ui, sans-serif; margin: 1rem auto; max-width: 60rem; padding: 0 1rem;
  background: light-dark(#ffffff, #14181d); color: light-dark(#1d232a, #e8ebee); }}
svg {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 0.25rem 0.9rem 0.25rem 0; text-align: left;
  border-bottom: 1px solid #8b929a55; }}
td {{ font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
{draw(explanation, color)}
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</body>
</html>"""


# ---- where things go ---------------------------------------------------------------------------


def _rings(members: tuple[Member, ...]) -> dict[Distance, float]:
    """Gives the radius of each distance that occurs: near ones first, no path last."""

    def far_out(distance: Distance) -> tuple[bool, bool, int]:
        return distance is None, distance == "far", distance if isinstance(distance, int) else 0

    found = sorted({member.distance for member in members[1:]}, key=far_out)
    step = (_REACH - _NEAR) / max(2, len(found) - 1)
    return {distance: _NEAR + step * at for at, distance in enumerate(found)}


def _places(explanation: Explanation, rings: dict[Distance, float]) -> list[_Dot]:
    """Places rings from the inside out; members stand near those they share edges with."""
    members = explanation.members
    largest = max((member.share for member in members), default=0.0) or 1.0
    size = [5 + 13 * math.sqrt(member.share / largest) for member in members]
    dots: dict[int, _Dot] = {0: _Dot(_X, _Y, 0.0, size[0])}
    beside: list[set[int]] = [set() for _ in members]
    for first, second in explanation.edges:
        beside[first].add(second)
        beside[second].add(first)
    for ring, (distance, radius) in enumerate(rings.items()):
        group = [at for at, member in enumerate(members) if at and member.distance == distance]
        group.sort(key=lambda at: (str(members[at].label), at))
        wish: dict[int, float] = {}
        for at in group:
            angle = _mean_angle([dots[other].angle for other in beside[at] & dots.keys() - {0}])
            if angle is not None:
                wish[at] = angle
        if wish:
            group.sort(key=lambda at: wish.get(at, math.pi))
        step = 2 * math.pi / len(group)
        turn = _mean_angle([wish[at] - step * i for i, at in enumerate(group) if at in wish])
        start = 0.4 * ring - math.pi / 2 if turn is None else turn
        for i, at in enumerate(group):
            angle = start + step * i
            # Where a ring is crowded, every other dot steps in and all become smaller.
            crowded = radius * step < 2 * size[at] + 2
            out = radius - (14 if crowded and i % 2 else 0)
            fitting = min(size[at], max(3.0, radius * step)) if crowded else size[at]
            x, y = _X + out * math.cos(angle), _Y + out * math.sin(angle)
            dots[at] = _Dot(x, y, angle, fitting)
    return [dots[at] for at in range(len(members))]


def _mean_angle(angles: list[float]) -> float | None:
    """Gives the middle of angles, 0 to 2 pi; None without any or where they cancel out."""
    x, y = sum(math.cos(angle) for angle in angles), sum(math.sin(angle) for angle in angles)
    return math.atan2(y, x) % (2 * math.pi) if math.hypot(x, y) > 1e-9 else None


# ---- what is drawn -----------------------------------------------------------------------------


def _ring_marks(
    members: tuple[Member, ...], rings: dict[Distance, float], dots: list[_Dot]
) -> tuple[list[str], list[_Box]]:
    """Draws the rings, their names standing between dots as far down as there is room."""
    lines, taken = [], []
    for distance, radius in rings.items():
        words = shown_distance(distance)
        words = f"distance {words}" if isinstance(distance, int) else words
        angles = sorted(
            dot.angle
            for member, dot in zip(members[1:], dots[1:], strict=True)
            if member.distance == distance
        )
        half = math.pi / len(angles)
        angle = max((angle + half for angle in angles), key=math.sin)
        # Where dots leave no room, below the ring.
        crowded = 2 * half * radius < _text_width(words) + 40
        x, y = _X + radius * math.cos(angle), _Y + radius * math.sin(angle) + (26 if crowded else 4)
        taken.append(_text_box(x - _text_width(words) / 2, y, words))
        lines.append(f'<circle class="ring" cx="{_X}" cy="{_Y}" r="{radius:.1f}"/>')
        lines.append(
            f'<text class="name soft" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{words}</text>'
        )
    return lines, taken


def _lines(explanation: Explanation, dots: list[_Dot]) -> list[str]:
    opacity = 0.5 if len(explanation.edges) < 80 else 0.25
    return [
        f'<line class="edge" stroke-opacity="{opacity}" x1="{dots[a].x:.1f}" y1="{dots[a].y:.1f}" '
        f'x2="{dots[b].x:.1f}" y2="{dots[b].y:.1f}"/>'
        for a, b in explanation.edges
    ]


def _marks(explanation: Explanation, dots: list[_Dot], color: str) -> list[str]:
    fill = _class_colors(explanation) if color == "class" else None
    strongest = max((abs(one.effect or 0.0) for one in explanation.members), default=0.0) or 1.0
    lines = []
    # The ego last, so that nothing covers it.
    for member, dot in reversed(list(zip(explanation.members, dots, strict=True))):
        ego = member.kind == "ego"
        if fill is not None:
            paint = f'fill="{fill.get(member.label, OTHER)}"'
        elif member.effect is None:
            paint = f'fill="{OTHER}"'
        else:
            hue = _FOR if member.effect >= 0 else _AGAINST
            paint = (
                f'fill="{hue}" fill-opacity="{0.12 + 0.88 * abs(member.effect) / strongest:.2f}"'
            )
        place = f'cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="{dot.radius:.1f}"'
        kind = "dot ego" if ego else "dot"
        lines.append(f'<circle class="paper" {place}/>')  # edges do not shine through
        lines.append(f'<circle class="{kind}" {place} {paint}>')
        lines.append(f"<title>{escape(_tooltip(member))}</title></circle>")
    return lines


def _tooltip(member: Member) -> str:
    words = [str(member.node), member.kind, f"distance {shown_distance(member.distance)}"]
    words += [] if member.label is None else [f"class {member.label}"]
    words.append(f"share {member.share:.3f}")
    words += [] if member.effect is None else [f"effect {shown_effect(member.effect)}"]
    return ", ".join(words)


def _names(explanation: Explanation, dots: list[_Dot], taken: list[_Box]) -> list[str]:
    """Names the ego and the most telling others, where there is room for it."""
    lines = []
    taken = [*taken, *(dot.box for dot in dots)]
    for member, dot in list(zip(explanation.members, dots, strict=True))[: _LABELS + 1]:
        words = " ".join([_short(member.node), shown_effect(member.effect)]).strip()
        wide, away = _text_width(words), dot.radius + 4
        right, left = (dot.x + away, dot.y + 4), (dot.x - away - wide, dot.y + 4)
        below, above = (dot.x - wide / 2, dot.y + away + 9), (dot.x - wide / 2, dot.y - away)
        sides = (right, left) if math.cos(dot.angle) >= 0 else (left, right)
        for x, y in (*sides, below, above):
            box = _text_box(x, y, words)
            inside = box[0] >= 4 and box[2] <= _LEGEND - 8
            if not inside or any(_overlap(box, other) for other in taken):
                continue
            taken.append(box)
            weight = ' font-weight="600"' if member.kind == "ego" else ""
            # Fonts differ: the text keeps to its dot on whichever side it stands.
            anchor, at = "start", x
            if (x, y) != right:
                anchor, at = ("end", x + wide) if (x, y) == left else ("middle", dot.x)
            lines.append(
                f'<text class="name" x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>'
                f"{escape(words)}</text>"
            )
            break
    return lines


def _text_width(words: str) -> float:
    return 7.0 * len(words)


def _text_box(left: float, baseline: float, words: str) -> _Box:
    return left, baseline - 10, left + _text_width(words), baseline + 3


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _short(name: object, longest: int = _LONGEST_NAME) -> str:
    text = str(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _class_colors(explanation: Explanation) -> dict[object, str]:
    """Gives colours to the classes that occur most; others share a grey."""
    counts: dict[object, int] = {explanation.prediction: len(explanation.members)}
    for member in explanation.members:
        if member.label is not None:
            counts[member.label] = counts.get(member.label, 0) + 1
    order = sorted(counts, key=lambda name: (-counts[name], str(name)))
    return dict(zip(order, PALETTE, strict=False))


def _legend(explanation: Explanation, color: str) -> list[str]:
    y = 44.0
    lines = [_words(y, _short(explanation.node, 24), "big")]
    known = "not known" if explanation.label is None else _short(explanation.label, 20)
    for words in (f"predicted: {_short(explanation.prediction, 20)}", f"known class: {known}"):
        y += 22
        lines.append(_words(y, words))
    y += 34
    lines.append(_words(y, "probabilities", "soft"))
    colors = _class_colors(explanation) if color == "class" else {}
    for name, value in explanation.ranked()[:_CLASSES_SHOWN]:
        y += 22
        lines += [
            _words(y, f"{_short(name, 18)}"),
            f'<text x="{_WIDTH - 20}" y="{y}" text-anchor="end">{value:.3f}</text>',
            f'<rect class="track" x="{_LEGEND}" y="{y + 5}" width="{_BAR}" height="4" rx="2"/>',
            f'<rect fill="{colors.get(name, OTHER)}" x="{_LEGEND}" y="{y + 5}" '
            f'width="{_BAR * value:.1f}" height="4" rx="2"/>',
        ]
        y += 6
    y += 22
    lines.append(_words(y, f"from the ego alone: {explanation.alone:.3f}", "soft"))
    y += 34
    lines.append(_words(y, f"dots by {color}", "soft"))
    for hue, words in _keys(explanation, color):
        y += 22
        lines.append(f'<circle cx="{_LEGEND + 6}" cy="{y - 4}" r="6" fill="{hue}"/>')
        lines.append(_words(y, words, x=_LEGEND + 20))
    y += 34
    for words in (
        "dot size: share in the readout",
        "rings: distance; lines: edges",
        "numbers: by how much the prediction is",
        "less probable without that member",
    ):
        lines.append(_words(y, words, "soft"))
        y += 18
    return lines


def _keys(explanation: Explanation, color: str) -> list[tuple[str, str]]:
    if color == "effect":
        return [(_FOR, "speaks for the prediction"), (_AGAINST, "speaks against it")]
    colors = _class_colors(explanation)
    keys = [(hue, _short(name, 24)) for name, hue in colors.items()]
    rest = any(member.label not in colors for member in explanation.members)
    return [*keys, *([(OTHER, "other or not known")] if rest else [])]


def _words(y: float, text: str, kind: str = "", x: float = _LEGEND) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'
