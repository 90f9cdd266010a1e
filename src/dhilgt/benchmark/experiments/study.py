"""The parameter study: scores against the size of token rows, their parts, and the exponents.

All points are changes of one base, the paper's 32 slots with 15 holders and exponents of -1; other
settings are those of the recipe. `study_cells` returns what to run; from its records, `curves` and
`squares` compute the numbers and `study_tables` makes tables.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import Cell, check
from dhilgt.benchmark.show import paired
from dhilgt.benchmark.show.notes import machines, troubles
from dhilgt.benchmark.show.paired import (
    DROPS,
    GAINS,
    BySeed,
    Difference,
    difference_texts,
    paired_difference,
    seeds_text,
    title,
)
from dhilgt.benchmark.show.tables import (
    NOT_RUN,
    NOTHING,
    SCORES,
    Row,
    Table,
    TableEntry,
    in_known_order,
    score_text,
)

SIZES = (2, 4, 8, 16, 24, 32, 48, 64)
HOLDERS = (0, 3, 7, 11, 15, 19, 23, 27, 31)
EXPONENTS = (-4, -3, -2, -1, 0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Point:
    """Settings of the token rows.

    Attributes:
        size: Slots of a row, s in the paper.
        num_in: Of these for holders, s_in; those left are for hubs.
        out_exponent: r_out.
        in_exponent: r_in.

    Example:
        >>> Point(size=8, num_in=3).name, Point(size=8, num_in=3).num_out
        ('s=8 s_in=3 r_out=-1 r_in=-1', 4)
    """

    size: int = 32
    num_in: int = 15
    out_exponent: int = -1
    in_exponent: int = -1

    @property
    def num_out(self) -> int:
        """Slots for hubs."""
        return self.size - 1 - self.num_in

    @property
    def name(self) -> str:
        """For the recipe."""
        exponents = f"r_out={self.out_exponent} r_in={self.in_exponent}"
        return f"s={self.size} s_in={self.num_in} {exponents}"

    @property
    def settings(self) -> dict[str, Any]:
        """As `dhilgt.Settings` has them; all are named, so that equal points are equal cells."""
        return {
            "size": self.size,
            "num_out": self.num_out,
            "num_in": self.num_in,
            "out_exponent": float(self.out_exponent),
            "in_exponent": float(self.in_exponent),
        }


BASE = Point()
PARAMETERS: dict[str, dict[int, Point]] = {
    "s": {size: Point(size, size - 1 - size // 2) for size in SIZES},
    "s_in": {number: replace(BASE, num_in=number) for number in HOLDERS},
    "r_in": {exponent: replace(BASE, in_exponent=exponent) for exponent in EXPONENTS},
    "r_out": {exponent: replace(BASE, out_exponent=exponent) for exponent in EXPONENTS},
}
"""The points of each parameter, by its value."""

SQUARE = {
    (out, inside): Point(out_exponent=out, in_exponent=inside)
    for out in EXPONENTS
    for inside in EXPONENTS
}
"""The points of both exponents together, by r_out and r_in."""


def study_cells(base: Iterable[Cell], *, grid: bool = False) -> list[Cell]:
    """Return a cell for each point in place of each cell; a point of two parameters is one cell.

    Args:
        base: Cells of DHIL-GT, from `grid.cells`.
        grid: Take all pairs of exponents too.

    Raises:
        ConfigError: If the recipe does not go together with a point.

    Example:
        >>> cells = study_cells([Cell("dhilgt", "cora", 0)])
        >>> len(cells), cells[0].recipe
        (32, 'paper, s=2 s_in=0 r_out=-1 r_in=-1')
    """
    points = [point for values in PARAMETERS.values() for point in values.values()]
    points += SQUARE.values() if grid else ()
    cells = [
        cell.varied(point.name, point.settings) for cell in base for point in dict.fromkeys(points)
    ]
    for cell in cells:
        check(cell)
    return cells


# ---- numbers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What was measured of one point on one dataset.

    Attributes:
        scores: On the test nodes, as fractions, in the order of the seeds.
        filled: Slots of a row that hold a node, on average; None where that was not recorded.
        difference: To the base over the same splits; None for the base itself, or without it.
    """

    scores: tuple[float, ...]
    filled: float | None
    difference: Difference | None

    @property
    def mean(self) -> float:
        """Of the scores."""
        return statistics.fmean(self.scores)

    @property
    def sd(self) -> float:
        """Sample standard deviation of the scores; 0 of a single one."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0


@dataclass(frozen=True)
class Curve:
    """Scores on a dataset against a parameter.

    Attributes:
        parameter: A name of `PARAMETERS`.
        data: The dataset.
        recipe: Of all other settings.
        metric: The score.
        points: What was measured, by value of the parameter in ascending order.
    """

    parameter: str
    data: str
    recipe: str
    metric: str
    points: dict[int, Measured]


@dataclass(frozen=True)
class Square:
    """Scores on a dataset against both exponents: means by r_out and r_in."""

    data: str
    recipe: str
    metric: str
    means: dict[tuple[int, int], float]


def curves(records: Iterable[Record]) -> list[Curve]:
    """Return the curves by parameter, dataset and recipe.

    Args:
        records: Of results files; cells of other experiments are left out.

    Raises:
        ArtifactError: If records contradict each other.
    """
    groups = _groups(records)
    drawn = []
    for parameter, points in PARAMETERS.items():
        for (data, recipe), by_point in groups.items():
            measured = {
                value: _measured(by_point[point], by_point.get(BASE, {}), point == BASE)
                for value, point in points.items()
                if paired.scores(by_point.get(point, {}))
            }
            if measured:
                drawn.append(Curve(parameter, data, recipe, _metric(by_point), measured))
    return drawn


def squares(records: Iterable[Record]) -> list[Square]:
    """Return means over both exponents where more was run than one exponent at a time.

    Args:
        records: Of results files; cells of other experiments are left out.
    """
    measured = []
    for (data, recipe), by_point in _groups(records).items():
        means = {
            place: statistics.fmean(scores.values())
            for place, point in SQUARE.items()
            if (scores := paired.scores(by_point.get(point, {})))
        }
        if any(-1 not in place for place in means):
            measured.append(Square(data, recipe, _metric(by_point), means))
    return measured


_Groups = dict[tuple[str, str], dict[Point, BySeed]]


def _groups(records: Iterable[Record]) -> _Groups:
    """Return records by dataset and recipe, then by point."""
    known = {point.name: point for values in PARAMETERS.values() for point in values.values()}
    known |= {point.name: point for point in SQUARE.values()}
    groups: _Groups = {}
    for record in filter(paired.is_ours, records):
        recipe, _, name = record.cell.recipe.rpartition(", ")
        if name in known:
            points = groups.setdefault((record.cell.data, recipe), {})
            paired.add(points.setdefault(known[name], {}), record)
    order = in_known_order(data for data, _ in groups)
    return {key: groups[key] for key in sorted(groups, key=lambda key: order.index(key[0]))}


def _measured(by_seed: BySeed, base: BySeed, is_base: bool) -> Measured:
    filled = [record.rows["filled"] for record in by_seed.values() if record.rows]
    return Measured(
        tuple(paired.scores(by_seed).values()),
        statistics.fmean(filled) if filled else None,
        None if is_base else paired_difference(base, by_seed),
    )


def _metric(by_point: dict[Point, BySeed]) -> str:
    return next(iter(next(iter(by_point.values())).values())).metrics[0]


# ---- tables ------------------------------------------------------------------------------------


def study_tables(records: Iterable[Record]) -> list[Table]:
    """Return a table per parameter, of both exponents where these were run, and of all findings.

    Args:
        records: Of results files; the notes stand under the last table.
    """
    known = list(records)
    measured = curves(known)
    tables = []
    for parameter in PARAMETERS:
        own = [curve for curve in measured if curve.parameter == parameter]
        if own:
            tables.append(_table(parameter, own))
    tables += [_square_table(square) for square in squares(known)]
    if tables:
        tables.append(_findings(measured))
        tables[-1] = replace(tables[-1], notes=tuple(_notes(measured, known)))
    return tables


def _table(parameter: str, own: Sequence[Curve]) -> Table:
    titles = tuple(title(curve.data, curve.recipe) for curve in own)
    columns = tuple(
        (SCORES.get(curve.metric, curve.metric), "to base", "95 % interval", "filled")
        for curve in own
    )
    rows = []
    for value, point in PARAMETERS[parameter].items():
        label = f"{parameter} = {value}" + (" (base)" if point == BASE else "")
        rows.append(Row(label, tuple(_entries(curve.points.get(value)) for curve in own)))
    return Table(titles, columns, tuple(rows))


def _findings(measured: Sequence[Curve]) -> Table:
    """Return the values of each parameter that differ from the base, by dataset and recipe."""
    titles = list(dict.fromkeys(title(curve.data, curve.recipe) for curve in measured))
    rows = []
    for parameter in PARAMETERS:
        own = {title(c.data, c.recipe): c for c in measured if c.parameter == parameter}
        if own:
            entries = (_found(own[name]) if name in own else _NOTHING_FOUND for name in titles)
            rows.append(Row(parameter, tuple(entries)))
    return Table(tuple(titles), (("better than base", "worse"),) * len(titles), tuple(rows))


_NOTHING_FOUND = (TableEntry(NOTHING), TableEntry(NOTHING))


def _found(curve: Curve) -> tuple[TableEntry, ...]:
    texts: dict[str, list[str]] = {GAINS: [], DROPS: []}
    for value, point in curve.points.items():
        gap = point.difference
        if gap is not None and gap.verdict in texts:
            texts[gap.verdict].append(f"{value}: {100 * gap.mean:+.2f}")
    return tuple(TableEntry("; ".join(found) or NOTHING) for found in texts.values())


def _entries(point: Measured | None) -> tuple[TableEntry, ...]:
    if point is None:
        return tuple(map(TableEntry, (NOT_RUN, NOTHING, NOTHING, NOTHING)))
    mean, interval, _ = difference_texts(point.difference)
    filled = NOTHING if point.filled is None else f"{point.filled:.1f}"
    return tuple(map(TableEntry, (score_text(point.scores), mean, interval, filled)))


def _square_table(square: Square) -> Table:
    rows = tuple(
        Row(f"r_out = {out}", (tuple(_square_entry(square, out, i) for i in EXPONENTS),))
        for out in EXPONENTS
    )
    heads = tuple(f"r_in = {inside}" for inside in EXPONENTS)
    return Table((title(square.data, square.recipe),), (heads,), rows)


def _square_entry(square: Square, out: int, inside: int) -> TableEntry:
    mean = square.means.get((out, inside))
    if mean is None:
        return TableEntry(NOT_RUN)
    return TableEntry(f"{100 * mean:.2f}", "best" if mean == max(square.means.values()) else "")


def _notes(measured: Sequence[Curve], records: Sequence[Record]) -> list[str]:
    points = [point for curve in measured for point in curve.points.values()]
    seeds = seeds_text(len(point.scores) for point in points)
    notes = [
        f"Test scores in per cent, mean ± standard deviation over {seeds}. The difference to "
        f"the base ({BASE.name}) is taken split by split; its mean has the interval of the t "
        "distribution. Filled: slots of a row that hold a node, on average.",
        "The values were compared on test nodes, to show what a setting does: the best of them is "
        "no estimate of what a chosen setting would reach.",
    ]
    tried = sum(p.difference is not None and p.difference.low is not None for p in points)
    if tried:
        notes.append(
            "Last table: values whose interval leaves 0 out, with their differences. Of "
            f"{tried} intervals about {tried / 20:.1f} leave 0 out by chance where nothing changes."
        )
    used = [record for record in records if paired.is_ours(record)]
    return notes + machines(used) + troubles(used)
