"""The paper's tables of scores and speed, made from records."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dhilgt.benchmark.experiments.paper import SYSTEMS, TABLES, TIMES, published_figures, standin_of
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import PAPER_SPACE
from dhilgt.benchmark.running.recipe import BEST, OURS, PAPER
from dhilgt.benchmark.show.notes import HOST, OWN, SHARED, machines
from dhilgt.benchmark.show.tables import (
    NOTHING,
    STAGES,
    TITLES,
    Row,
    RowKey,
    Table,
    TableEntry,
    row_key,
    seconds_text,
    sorted_keys,
    tables,
)
from dhilgt.errors import ConfigError

_LEFT_OUT = ("stages", "settings", "training", "host_before_bytes", "own_process")
_ENVIRONMENT = (
    "dhilgt", "python", "torch", "cuda", "cpu", "cpus", "gpus", "device", "memory_bytes",
)  # fmt: skip
_LONGEST_MESSAGE = 300
_ABOUT_TIMES = ("Seconds for", SHARED, HOST, OWN)


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


def slim(record: Record) -> dict[str, Any]:
    """Return the JSON of a record without what no table needs, to be kept for good.

    All settings are left out: they follow from the version, the variant and `changes`. So are
    scores that mean nothing: of stand-ins, and of trainings that were run for their times.
    """
    environment = record.costs.environment
    if environment is not None:
        environment = {name: environment[name] for name in _ENVIRONMENT if name in environment}
    kept = replace(
        record,
        message=record.message[:_LONGEST_MESSAGE],
        costs=replace(record.costs, environment=environment),
    )
    if _for_time(record):
        kept = replace(kept, scores={}, score_notes={}, val_score=None)
    return {name: value for name, value in kept.to_json().items() if name not in _LEFT_OUT}


# ---- the two tables ----------------------------------------------------------------------------


def paper_tables(
    records: Iterable[Record],
    which: str,
    *,
    data: Sequence[str] | None = None,
    across: int = 3,
    published: bool = True,
) -> list[Table]:
    """Return a table of the paper, three datasets side by side.

    A dataset without records has its stand-in in its place where that has some. Records of the
    recipe "times" and of stand-ins count as times and memory only.

    Args:
        records: From `joined`.
        which: "main" or "homophilous".
        data: Datasets in place of those of the table.
        across: Datasets side by side.
        published: Put the paper's figures under each system.

    Raises:
        ConfigError: If there is no such table.
    """
    if which not in TABLES:
        raise ConfigError(f"table {which!r}; choose {', '.join(TABLES)}")
    known = list(records)
    present = {record.cell.data for record in known}
    shown = [_shown(name, present) for name in (TABLES[which] if data is None else data)]
    used = [record for record in known if record.cell.data in shown]
    short = [record for record in used if _for_time(record)]
    scored = [record for record in used if not _for_time(record)]
    keys = _keys(scored)
    placed = [
        _placed(record, key)
        for record in short
        for key in keys
        if key.system == record.cell.system and key.recipe != BEST
    ]
    scored_keys = set(map(row_key, scored))
    searched = any(key.trials for key in keys)
    return tables(
        [*scored, *placed],
        across=across,
        published=published,
        data=shown,
        keys=keys,
        label=lambda key: (
            label(key, searched=searched)
            if key in scored_keys
            else TITLES.get(key.system, key.system)
        ),
    )


def _placed(record: Record, key: RowKey) -> Record:
    """Return a record of a short training as one of a row, for its times."""
    cell = replace(record.cell, variant=key.variant, recipe=key.recipe, trials=key.trials)
    return replace(record, cell=cell, timed_apart=True)


def score_table(
    records: Iterable[Record], data: Sequence[str] | None = None, *, published: bool = True
) -> Table:
    """Return the scores alone, all graphs that have some side by side.

    Args:
        records: From `joined`.
        data: Datasets in place of those of both tables.
        published: Put the paper's figures under each system.
    """
    known = list(records)
    scored = {record.cell.data for record in known if not _for_time(record)}
    listed = [name for names in TABLES.values() for name in names] if data is None else data
    shown = [name for name in listed if name in scored]
    if not shown:
        raise ConfigError("these lines have no scores of a real graph; pass others")
    (whole,) = paper_tables(known, "main", data=shown, across=len(shown), published=published)
    at = whole.columns[0].index("Mem.") + 1  # the first score stands behind times and memory
    rows = (
        replace(row, entries=tuple((entries[at],) for entries in row.entries)) for row in whole.rows
    )
    notes = (note for note in whole.notes if not note.startswith(_ABOUT_TIMES))
    columns = tuple((heads[at],) for heads in whole.columns)
    return Table(whole.data, columns, tuple(rows), tuple(notes))


def _shown(name: str, present: set[str]) -> str:
    standin = standin_of(name)
    return standin if standin in present and name not in present else name


def _for_time(record: Record) -> bool:
    return record.cell.recipe == TIMES or record.standin_for is not None


def _keys(scored: Sequence[Record]) -> list[RowKey]:
    """Return the rows: those that there are records of, and one of every system that has none."""
    keys = list(dict.fromkeys(map(row_key, scored)))
    present = {key.system for key in keys}
    keys += [RowKey(name, PAPER, PAPER, 0) for name in (*SYSTEMS, OURS) if name not in present]
    return sorted_keys(sorted(keys, key=_rank))


def _rank(key: RowKey) -> tuple[bool, bool, bool, int]:
    """Return what the rows of one system are sorted by: the paper's search, best, not searched."""
    recipe, trials = key.recipe, key.trials
    return recipe not in (PAPER, BEST), not trials and recipe == PAPER, recipe == BEST, trials


def label(key: RowKey, *, searched: bool) -> str:
    """Return the name of a row; all rows of DHIL-GT have different names.

    Args:
        key: The row.
        searched: Whether the table has rows with a search.

    Example:
        >>> label(RowKey("dhilgt", "paper-space", "paper", 20), searched=True)
        'DHIL-GT (20 trials)'
        >>> label(RowKey("dhilgt", "paper", "best", 0), searched=True)
        'DHIL-GT, best recipe'
        >>> label(RowKey("gcn", "paper", "paper", 0), searched=True)
        'GCN, not searched'
    """
    system, variant, recipe, trials = key
    words = TITLES.get(system, system)
    if recipe == BEST:
        words += ", best recipe"
    elif recipe != PAPER:
        words += f", recipe {recipe}"
    elif system == OURS and trials and variant == PAPER:
        words += ", wider search"
    elif system == OURS and not trials:
        words += ", paper's settings"
    if variant not in (PAPER, PAPER_SPACE):
        words += f", variant {variant}"
    if trials:
        return f"{words} ({trials} trials)"
    return f"{words}, not searched" if searched and recipe == PAPER else words


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
    for name in (name for names in TABLES.values() for name in names):
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
