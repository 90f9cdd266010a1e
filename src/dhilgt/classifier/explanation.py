"""Explanation of one prediction: the members of the node's token and the effect of each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.errors import ConfigError
from dhilgt.store.files import explained, write_file

if TYPE_CHECKING:
    pass

EGO, HUB, HOLDER, NEIGHBOR = ("ego", "hub", "holder", "neighbor")
ENDINGS = (".svg", ".html", ".json")

Distance = int | str | None
"""Hops; "far" for more than the tokens keep, None where there is no path."""


@dataclass(frozen=True)
class Member:
    """A node that the model saw.

    Attributes:
        node: Its id.
        kind: Why it is there: "ego", "hub", "holder", or "neighbor" for a slot that was filled.
        distance: From the ego to it.
        distance_back: From it to the ego; the same unless the graph is directed.
        label: Its class, where known.
        share: Its weight in the readout; the weights of all members sum to 1.
        effect: How much the probability of the predicted class falls without it; None for the ego,
            without which there is nothing to predict.
        copies: How many of the tokens it is in.
    """

    node: Any
    kind: str
    distance: Distance
    distance_back: Distance
    label: Any
    share: float
    effect: float | None
    copies: int = 1


@dataclass(frozen=True)
class Connection:
    """A neighbour, a hub or a class in the node's own rows of inputs.

    Attributes:
        name: Id of the neighbour or hub, or the class.
        label: The class of that node, where known; None for a class.
        rows: The rows it is in, such as "hubs at distance 2".
        values: Its entry in each of these rows.
        effect: How much the probability of the predicted class falls without it.
    """

    name: Any
    label: Any
    rows: tuple[str, ...]
    values: tuple[float, ...]
    effect: float


@dataclass(frozen=True)
class Explanation:
    """What the model saw of a node, and what it predicted from it.

    Attributes:
        node: Id of the node, the ego.
        prediction: The predicted class.
        label: Its class, where known.
        probabilities: Probability by class.
        alone: Probability of the predicted class from the ego alone, all other slots empty.
        members: The ego, then the others by the size of their effect, the largest first.
        edges: Pairs of places in `members` that an edge joins.
        copies: How many tokens were averaged.
        directed: Whether edges have a direction.
        connected: Whether neighbours, hubs or classes are inputs of the node.
        neighbors: Those of its neighbours that have the most effect, the largest first.
        hubs: Likewise, of its hubs.
        classes: Likewise, of the classes of training nodes near it.

    Example:
        >>> ego = Member("ann", "ego", 0, 0, "red", 0.75, None)
        >>> bob = Member("bob", "hub", 1, 1, None, 0.25, 0.125)
        >>> explanation = Explanation(
        ...     "ann", "red", "red", {"red": 0.9, "blue": 0.1}, 0.8, (ego, bob), ((0, 1),)
        ... )
        >>> print(explanation.table())
        node        ann
        predicted   red (0.900), its known class
        classes     red 0.900, blue 0.100
        ego alone   0.800
        <BLANKLINE>
        member  kind  distance  class  share  effect
        ann     ego          0  red    0.750
        bob     hub          1         0.250  +0.1250
    """

    node: Any
    prediction: Any
    label: Any
    probabilities: dict[Any, float]
    alone: float
    members: tuple[Member, ...]
    edges: tuple[tuple[int, int], ...]
    copies: int = 1
    directed: bool = False
    connected: bool = False
    neighbors: tuple[Connection, ...] = ()
    hubs: tuple[Connection, ...] = ()
    classes: tuple[Connection, ...] = ()

    def ranked(self) -> list[tuple[Any, float]]:
        """Return classes and probabilities, the likeliest first."""
        return sorted(self.probabilities.items(), key=lambda pair: -pair[1])

    def table(self, top: int | None = None) -> str:
        """Return the explanation as text.

        Args:
            top: How many members besides the ego to list, those of largest effect, and as many of
                its neighbours, hubs and classes; None for all.
        """
        head = [
            ("node", str(self.node)),
            ("predicted", f"{self.prediction} ({self.ranked()[0][1]:.3f}){self._truth()}"),
            ("classes", _listed(self.ranked())),
            ("ego alone", f"{self.alone:.3f}"),
        ]
        if self.copies > 1:
            head.append(("averaged", f"over {self.copies} tokens"))
        lines = [f"{name:<10}  {value}" for name, value in head]
        shown = self.members if top is None else self.members[: top + 1]
        lines += ["", *_columns(shown, self.directed)]
        if len(shown) < len(self.members):
            lines.append(f"... and {len(self.members) - len(shown)} more with less effect")
        if self.connected:
            names, rows = connection_rows(self)
            lines += ["", *(_lines(names, rows[:top]) if rows else ["no neighbours or hubs known"])]
        return "\n".join(lines)

    def _truth(self) -> str:
        if self.label is None:
            return ", its class is not known"
        return ", its known class" if self.label == self.prediction else f", known: {self.label}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON: likeliest class first, members in order."""
        return {
            "node": self.node,
            "prediction": self.prediction,
            "class": self.label,
            "probabilities": [
                {"class": name, "probability": value} for name, value in self.ranked()
            ],
            "alone": self.alone,
            "copies": self.copies,
            "members": [_named_class(asdict(member)) for member in self.members],
            "edges": [list(pair) for pair in self.edges],
        } | self._connections()

    def _connections(self) -> dict[str, Any]:
        if not self.connected:
            return {}
        parts = {"neighbors": self.neighbors, "hubs": self.hubs, "classes": self.classes}
        return {
            name: [_named_class(asdict(one)) for one in connections]
            for name, connections in parts.items()
        }

    def picture(self, color: str = "class") -> str:
        """Return an SVG picture: the ego in the middle, the others on rings by distance.

        The larger a dot, the larger its weight in the readout; lines are edges.

        Args:
            color: What dots are coloured by: "class" or "effect".
        """
        from dhilgt.report.explanation import draw

        return draw(self, color)

    def _repr_svg_(self) -> str:
        """Return the picture, for notebooks."""
        return self.picture()

    def save(self, path: str | PathLike[str], color: str = "class") -> None:
        """Write a picture (.svg), a page with picture and table (.html), or values (.json).

        Args:
            path: The file; its ending decides. Put in place whole.
            color: As for `picture`.

        Raises:
            ConfigError: If the ending is another.
            ArtifactError: If the file cannot be written.
        """
        from dhilgt.report.explanation import draw, page

        file = Path(path)
        ending = check_ending(file)
        if ending == ".svg":
            text = draw(self, color)
        elif ending == ".html":
            text = page(self, color)
        else:
            text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        with explained("write", file):
            write_file(file, iter([memoryview(text.encode() + b"\n")]))


def check_ending(path: Path) -> str:
    """Return the ending of a file; raise if an explanation cannot be saved with it."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(
            f"{path} ends with {ending or 'nothing'}; name it {', '.join(ENDINGS[:-1])} or "
            f"{ENDINGS[-1]}"
        )
    return ending


def shown_distance(distance: Distance) -> str:
    """Return a distance in words."""
    return "no path" if distance is None else str(distance)


def shown_effect(effect: float | None) -> str:
    """Return an effect with its sign; empty for the ego."""
    # Rounded first: a tiny number would come out as -0.0000.
    return "" if effect is None else f"{round(effect, 4) + 0.0:+.4f}"


def rows_of(members: tuple[Member, ...], directed: bool) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of a table of members."""
    names = ["member", "kind", "distance", *(["back"] if directed else []), "class", "share"]
    rows = [
        [
            str(member.node),
            member.kind,
            shown_distance(member.distance),
            *([shown_distance(member.distance_back)] if directed else []),
            "" if member.label is None else str(member.label),
            f"{member.share:.3f}",
            shown_effect(member.effect),
        ]
        for member in members
    ]
    return [*names, "effect"], rows


def connection_rows(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the cells of a table of connections, by effect."""
    ones = [*explanation.neighbors, *explanation.hubs, *explanation.classes]
    rows = [
        [
            str(one.name),
            ", ".join(one.rows),
            "" if one.label is None else str(one.label),
            shown_effect(one.effect),
        ]
        for one in sorted(ones, key=lambda one: -abs(one.effect))
    ]
    return ["input", "row", "class", "effect"], rows


def _columns(members: tuple[Member, ...], directed: bool) -> list[str]:
    return _lines(*rows_of(members, directed))


def _lines(names: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
    numbers = {"distance", "back", "share"}
    lines = []
    for row in [names, *rows]:
        cells = [
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(names, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _listed(ranked: list[tuple[Any, float]], most: int = 5) -> str:
    text = ", ".join(f"{name} {value:.3f}" for name, value in ranked[:most])
    return text + (f", {len(ranked) - most} more" if len(ranked) > most else "")


def _named_class(values: dict[str, Any]) -> dict[str, Any]:
    return {"class" if name == "label" else name: value for name, value in values.items()}
