"""The paper's figures of time and memory, made from records."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dhilgt.benchmark.experiments.paper import (
    GRAPHS,
    TIMES,
    published_figures,
    standin_of,
)
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.notes import SHARED, machines
from dhilgt.benchmark.show.tables import (
    NOTHING,
    STAGES,
    TITLES,
    Row,
    Table,
    TableEntry,
    row_key,
    seconds_text,
    sorted_keys,
    tables,
)

# ---- records -----------------------------------------------------------------------------------


def joined(files: Iterable[Iterable[Record]]) -> list[Record]:
    """Return the records of several files, one per cell, without the trials of searches.

    Of two records of a cell the later counts, but a result counts more than a failure, and the
    times of a cell that ran alone more than those of one that did not.

    Args:
        files: The records of each file.
    """
    by_key: dict[str, Record] = {}
    for records in files:
        for record in records:
            if record.cell.trial is None:
                by_key[record.key] = _merged(by_key.get(record.key), record)
    return list(by_key.values())


def _merged(old: Record | None, new: Record) -> Record:
    if old is None or not old.ok:
        return new
    if not new.ok:
        return old
    if old.costs.ran_alone and not new.costs.ran_alone:
        return replace(new, costs=old.costs)
    return new


# ---- times -------------------------------------------------------------------------------------


def times_tables(
    records: Iterable[Record],
    data: Sequence[str] = GRAPHS,
    *,
    across: int = 3,
    published: bool = True,
) -> list[Table]:
    """Return time and memory of short trainings, some datasets side by side; [] without any.

    A dataset without records has its stand-in in its place where that has some.

    Args:
        records: From `joined`; those of the recipe "times" are shown.
        data: Datasets in their order.
        across: Datasets side by side.
        published: Put the paper's figures under each system.
    """
    timed = [replace(one, timed_apart=True) for one in records if one.cell.recipe == TIMES]
    present = {record.cell.data for record in timed}
    shown = [name for name in (_shown(name, present) for name in data) if name in present]
    if not shown:
        return []
    used = [record for record in timed if record.cell.data in shown]
    keys = dict.fromkeys(map(row_key, used))
    whole = tables(
        used,
        across=across,
        published=published,
        data=shown,
        keys=sorted_keys(keys),
        label=lambda key: TITLES.get(key.system, key.system),
    )
    return [_without_scores(table) for table in whole]


def _without_scores(table: Table) -> Table:
    width = table.columns[0].index("Mem.") + 1  # scores stand behind times and memory
    rows = (
        replace(row, entries=tuple(entries[:width] for entries in row.entries))
        for row in table.rows
    )
    return Table(
        table.data, tuple(heads[:width] for heads in table.columns), tuple(rows), table.notes
    )


def _shown(name: str, present: set[str]) -> str:
    standin = standin_of(name)
    return standin if standin in present and name not in present else name


# ---- speed -------------------------------------------------------------------------------------

UNREAD = "§"
_HEADS = ("Precomputation", "Epoch", "Inference of the test nodes")
_COLUMNS = ("ours, s", "published, s", "ratio")


def speed_table(records: Iterable[Record]) -> Table:
    """Return seconds of DHIL-GT with the paper's settings on every dataset beside the published.

    The precomputation is everything from files to tokens: reading and cleaning the graph, labels,
    tokens. The ratio is published by ours: above 1 where ours is faster. A stand-in is in the place
    of a real graph that has no records; it is generated, not read.

    Args:
        records: From `joined`.
    """
    ours: dict[str | None, list[Record]] = {}
    for record in records:
        if record.cell.system == OURS and record.ok and record.cell.trial is None:
            ours.setdefault(record.cell.data, []).append(record)
    rows, used = [], []
    for name in GRAPHS:
        standin = standin_of(name)
        real = _chosen(ours.get(name, []))
        chosen = real or _chosen(ours.get(standin, []))
        used += chosen
        title = f"{standin} (stand-in)" if chosen and not real else name
        rows.append(Row(title, tuple(_entries(chosen, name, stage) for stage in STAGES)))
    return Table(_HEADS, (_COLUMNS,) * len(_HEADS), tuple(rows), tuple(_notes(used, rows)))


def _chosen(records: Sequence[Record]) -> list[Record]:
    """Return the records with the paper's settings, preferably timed alone."""
    kinds = (
        [one for one in records if one.cell.recipe == PAPER and not one.cell.trials],
        [one for one in records if one.cell.recipe == TIMES],
    )
    for kind in kinds:
        if alone := [record for record in kind if record.costs.ran_alone]:
            return alone
    return next((kind for kind in kinds if kind), [])


def _entries(chosen: Sequence[Record], name: str, stage: str) -> tuple[TableEntry, ...]:
    published = published_figures()["figures"][name][OURS][stage]
    theirs = TableEntry(f"{published:g}")
    known = (_seconds(record, stage) for record in chosen)
    values = [seconds for seconds in known if seconds is not None]
    if not values:
        return TableEntry(NOTHING), theirs, TableEntry(NOTHING)
    mean = statistics.fmean(values)
    marks = "" if all(record.costs.ran_alone for record in chosen) else SHARED
    if stage == "precompute" and any(_read_seconds(record) is None for record in chosen):
        marks += UNREAD
    ratio = "" if mean <= 0 else f"{_digits(published / mean)}×{marks}"
    return TableEntry(seconds_text(mean) + marks), theirs, TableEntry(ratio)


def _seconds(record: Record, stage: str) -> float | None:
    seconds = record.costs.seconds(stage)
    if seconds is None or stage != "precompute":
        return seconds
    return seconds + (_read_seconds(record) or 0.0)


def _read_seconds(record: Record) -> float | None:
    """Return the seconds of reading and cleaning; None where nothing was read, or not timed."""
    return None if record.standin_for is not None else record.costs.load_seconds


def _digits(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 99.5 else f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"


def _notes(used: Sequence[Record], rows: Sequence[Row]) -> list[str]:
    notes = [
        "DHIL-GT with the paper's settings. Precomputation is all from the files to the tokens: "
        "reading and cleaning the graph, labels, tokens. Ratio: published by ours, above 1 where "
        "ours is faster; it is one of two programs on two machines, not of programs alone."
    ]
    notes += machines(used)
    notes.append("Published: one A30 GPU of 24 GB, 32 Xeon cores.")
    text = "".join(e.text for row in rows for entries in row.entries for e in entries)
    if SHARED in text:
        notes.append(f"{SHARED} measured in a run of several cells at once: blurred.")
    if UNREAD in text:
        notes.append(
            f"{UNREAD} without reading: a stand-in is generated, or the line does not say how long "
            "it took."
        )
    if standins := sorted({one.cell.data for one in used if one.standin_for is not None}):
        notes.append(
            f"{', '.join(standins)}: generated graphs of the size of the real ones, which are not "
            "here; the published figure is of the real one."
        )
    return notes
