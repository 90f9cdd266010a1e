"""Tables of lines of results: those of the comparison, and plain tables of any other lines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dhilgt.report.html import Markup, joined, table, tag
from dhilgt.report.site.source import MACHINE, Line, Source
from dhilgt.report.text import is_number, shortened

if TYPE_CHECKING:
    from dhilgt.benchmark import Record
    from dhilgt.benchmark.show.tables import Table

_MOST_ROWS = 400
_MOST_COLUMNS = 20
_MOST_LETTERS = 80


def of_tables(
    make: Callable[[list[Line]], Iterable[Table]],
) -> Callable[[Sequence[Source]], Markup]:
    """Return a section's function that shows the tables made of the lines of all files.

    Args:
        make: Function from lines to tables of `dhilgt.benchmark`.
    """

    def show(sources: Sequence[Source]) -> Markup:
        from dhilgt.benchmark.show.render import html_table

        lines = [line for source in sources for line in source.lines]
        return joined(
            tag("div", Markup(html_table(one)), class_="comparison") for one in make(lines)
        )

    return show


def file_by_file(
    make: Callable[[list[Line]], Iterable[Table]],
) -> Callable[[Sequence[Source]], Markup]:
    """Return a section's function that shows each file apart, such as one per machine.

    Args:
        make: Function from the lines of a file to tables of `dhilgt.benchmark`.
    """
    show = of_tables(make)
    return lambda sources: joined(
        part for source in sources for part in (tag("h3", source.name), show([source]))
    )


def plain(sources: Sequence[Source]) -> Markup:
    """Return a table per file and, where lines name what they measure, per measure."""
    parts = []
    for source in sources:
        groups: dict[str, list[Line]] = {}
        for line in source.lines:
            groups.setdefault(str(line.get("measure", "")), []).append(line)
        for measure, lines in groups.items():
            words = f"{source.name}: {measure}" if measure else source.name
            parts.append(_plain_table(words, lines))
    return joined(parts)


def _plain_table(caption: str, lines: Sequence[Line]) -> Markup:
    flat = [_flat(line) for line in lines]
    columns = list(dict.fromkeys(name for line in flat for name in line))
    hidden = max(0, len(columns) - _MOST_COLUMNS)
    columns = columns[:_MOST_COLUMNS]
    if not columns:
        return tag("p", f"{caption}: no values.", class_="note")
    words = [n for n in columns if not all(is_number(line.get(n, 0)) for line in flat)]
    columns = words + [name for name in columns if name not in words]  # words on the left
    rows = [[_text(line.get(name)) for name in columns] for line in flat[:_MOST_ROWS]]
    heads = [name.replace("_", " ") for name in columns]
    more = []
    if len(flat) > _MOST_ROWS:
        more.append(f"the first {_MOST_ROWS} of {len(flat):,} lines")
    if hidden:
        more.append(f"{hidden} more columns are in the file")
    shown = table(caption, heads, rows, text_columns=max(1, len(words)))
    return joined([shown, tag("p", "; ".join(more) + ".", class_="note") if more else None])


def _flat(line: Line) -> dict[str, Any]:
    """Return the single values of a line, including those one level deep."""
    values: dict[str, Any] = {}
    for name, value in line.items():
        if name in (*MACHINE, "measure"):
            continue
        if isinstance(value, dict):
            for inner, deep in value.items():
                if not isinstance(deep, (dict, list)):
                    values[f"{name}.{inner}"] = deep
        elif not isinstance(value, list):
            values[name] = value
    return values


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return shortened(str(value), _MOST_LETTERS)


# ---- tables of single sections -----------------------------------------------------------------


def as_they_come(lines: list[Line]) -> list[Table]:
    """Return all systems with the settings of their papers."""
    return _protocol(lines, "defaults")


def equal_search(lines: list[Line]) -> list[Table]:
    """Return all systems after a search of as many trials."""
    return _protocol(lines, "search")


def _protocol(lines: list[Line], which: str) -> list[Table]:
    from dhilgt.benchmark.experiments.protocol_tables import protocol_tables
    from dhilgt.benchmark.running.grid import SPLITS

    records = _latest(lines)
    return [table for split in SPLITS for table in protocol_tables(records, which, split)]


def times(lines: list[Line]) -> list[Table]:
    """Return time and memory of short trainings, and the speed of DHIL-GT."""
    from dhilgt.benchmark.experiments.paper_tables import joined as joined_lines
    from dhilgt.benchmark.experiments.paper_tables import speed_table, times_tables

    records = joined_lines([_records(lines)])
    shown = times_tables(records)
    return [*shown, speed_table(records)] if shown else []


def comparison(lines: list[Line]) -> list[Table]:
    """Return the tables of `dhilgt bench table`."""
    from dhilgt.benchmark import tables

    return tables(_latest(lines))


def ablation(lines: list[Line]) -> list[Table]:
    """Return the tables of `dhilgt bench ablation`."""
    from dhilgt.benchmark.experiments.ablation import ablation_tables

    return ablation_tables(_latest(lines))


def study(lines: list[Line]) -> list[Table]:
    """Return the tables of `dhilgt bench study`."""
    from dhilgt.benchmark.experiments.study import study_tables

    return study_tables(_latest(lines))


def scaling(lines: list[Line]) -> list[Table]:
    """Return the tables of `dhilgt bench scaling`."""
    from dhilgt.benchmark.experiments.growth import tables

    return tables(_records(lines))


def _records(lines: list[Line]) -> list[Record]:
    from dhilgt.benchmark import Record

    return [Record.from_json(line) for line in lines]


def _latest(lines: list[Line]) -> list[Record]:
    """Return one record per cell, the last."""
    return list({record.key: record for record in _records(lines)}.values())


def scores(sources: Sequence[Source]) -> Markup:
    """Return the mean score of each file of runs; its folder is named after the recipe."""
    rows = []
    for source in sources:
        path = PurePosixPath(source.name)
        metric = str(source.lines[0]["metric"]) if source.lines else ""
        values = [100 * run["scores"]["test"][metric] for run in source.lines]
        if not values:
            continue
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        mean = f"{statistics.fmean(values):.2f}{spread}"
        rows.append([path.stem, path.parent.name, metric, str(len(values)), mean])
    heads = ["dataset", "recipe", "metric", "seeds", "test score, %"]
    return table("Test scores, mean ± standard deviation", heads, rows, text_columns=3)


def is_cell(line: Line) -> bool:
    """Return whether a line is one of `dhilgt bench`."""
    return line.get("format") in (1, 2) and {"key", "system", "data", "status", "trial"} <= set(
        line
    )
