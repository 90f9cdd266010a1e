"""The paper's tables of scores and speed, rendered from result lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from dhilgt.benchmark.experiments.paper import SYSTEMS, TABLES, TIMES, published_figures, standin_of
from dhilgt.benchmark.running import results
from dhilgt.benchmark.running.grid import PAPER_SPACE
from dhilgt.benchmark.running.recipe import BEST, OURS, PAPER
from dhilgt.benchmark.show.notes import HOST, OWN, SHARED, machines
from dhilgt.benchmark.show.tables import (
    APART,
    NOTHING,
    TITLES,
    Entry,
    Row,
    RowKey,
    Table,
    ran_alone,
    row_key,
    seconds_text,
    sorted_keys,
    tables,
)
from dhilgt.errors import ConfigError

Line = dict[str, Any]
_MEASURED = (
    "load_seconds", "precompute_seconds", "epoch_seconds", "first_epoch_seconds",
    "inference_seconds", "inference_device", "gpu_peak_bytes", "host_peak_bytes",
    "host_before_bytes", "stages", "environment", "beside", "jobs", "own_process",
)  # fmt: skip
_LEFT_OUT = ("stages", "settings", "training", "host_before_bytes", "own_process")
_ENVIRONMENT = (
    "dhilgt", "python", "torch", "cuda", "cpu", "cpus", "gpus", "device", "memory_bytes",
)  # fmt: skip
_LONGEST_MESSAGE = 300
_ABOUT_TIMES = ("Seconds for", SHARED, HOST, OWN)


# ---- lines -------------------------------------------------------------------------------------


def joined(files: Iterable[Iterable[Line]]) -> list[Line]:
    """Return the lines of several files, one per cell, without the trials of searches.

    Of two lines of a cell the later counts, but a result counts more than a failure, and the times
    of a cell that ran alone more than those of one that did not.

    Args:
        files: The lines of each file.
    """
    found: dict[str, Line] = {}
    for lines in files:
        for line in lines:
            if line["trial"] is None:
                found[line["key"]] = _together(found.get(line["key"]), line)
    return list(found.values())


def _together(old: Line | None, new: Line) -> Line:
    if old is None or old["status"] != results.OK:
        return new
    if new["status"] != results.OK:
        return old
    if ran_alone(old) and not ran_alone(new):
        return {**new, **{name: old.get(name) for name in _MEASURED}}
    return new


def slim(line: Line) -> Line:
    """Return a line without what no table needs, to be kept for good.

    All settings are left out: they follow from the version, the variant and `changes`. So are
    scores that mean nothing: of stand-ins, and of trainings that were run for their times.
    """
    found = {name: value for name, value in line.items() if name not in _LEFT_OUT}
    if _for_time(line):
        found |= {"scores": {}, "score_notes": {}, "val_score": None}
    found["message"] = line["message"][:_LONGEST_MESSAGE]
    where = line["environment"]
    if where is not None:
        found["environment"] = {name: where[name] for name in _ENVIRONMENT if name in where}
    return found


# ---- the two tables ----------------------------------------------------------------------------


def paper_tables(
    lines: Iterable[Line],
    which: str,
    *,
    data: Sequence[str] | None = None,
    across: int = 3,
    published: bool = True,
) -> list[Table]:
    """Return a table of the paper, three datasets side by side.

    A dataset without lines has its stand-in in its place where that has some. Lines of the recipe
    "times" and of stand-ins count as times and memory only.

    Args:
        lines: From `joined`.
        which: "main" or "homophilous".
        data: Datasets in place of those of the table.
        across: Datasets side by side.
        published: Put the paper's figures under each system.

    Raises:
        ConfigError: If there is no such table.
    """
    if which not in TABLES:
        raise ConfigError(f"table {which!r}; choose {', '.join(TABLES)}")
    known = list(lines)
    present = {line["data"] for line in known}
    shown = [_shown(name, present) for name in (TABLES[which] if data is None else data)]
    used = [line for line in known if line["data"] in shown]
    short = [line for line in used if _for_time(line)]
    scored = [line for line in used if not _for_time(line)]
    keys = _keys(scored)
    placed = [
        {**line, APART: True, "variant": key[1], "recipe": key[2], "trials": key[3]}
        for line in short
        for key in keys
        if key[0] == line["system"] and key[2] != BEST
    ]
    scored_keys = set(map(row_key, scored))
    searched = any(key[3] for key in keys)
    return tables(
        [*scored, *placed],
        across=across,
        published=published,
        data=shown,
        keys=keys,
        label=lambda key: (
            label(key, searched=searched) if key in scored_keys else TITLES.get(key[0], key[0])
        ),
    )


def score_table(
    lines: Iterable[Line], data: Sequence[str] | None = None, *, published: bool = True
) -> Table:
    """Return the scores alone, all graphs that have some side by side.

    Args:
        lines: From `joined`.
        data: Datasets in place of those of both tables.
        published: Put the paper's figures under each system.
    """
    known = list(lines)
    scored = {line["data"] for line in known if not _for_time(line)}
    asked = [name for names in TABLES.values() for name in names] if data is None else data
    shown = [name for name in asked if name in scored]
    if not shown:
        raise ConfigError("these lines have no scores of a real graph; pass others")
    (whole,) = paper_tables(known, "main", data=shown, across=len(shown), published=published)
    kept = [_scores_of(columns) for columns in whole.columns]
    notes = (note for note in whole.notes if not note.startswith(_ABOUT_TIMES))
    return Table(
        whole.data,
        tuple(
            tuple(columns[at] for at in places)
            for columns, places in zip(whole.columns, kept, strict=True)
        ),
        tuple(
            Row(
                row.label,
                tuple(
                    tuple(entries[at] for at in places)
                    for entries, places in zip(row.entries, kept, strict=True)
                ),
                row.published,
            )
            for row in whole.rows
        ),
        tuple(notes),
    )


def _scores_of(columns: Sequence[str]) -> list[int]:
    """Return the place of the first score; what stands before are times and memory."""
    return [columns.index("Mem.") + 1]


def _shown(name: str, present: set[str]) -> str:
    standin = standin_of(name)
    return standin if standin in present and name not in present else name


def _for_time(line: Line) -> bool:
    return line["recipe"] == TIMES or line["standin_for"] is not None


def _keys(scored: Sequence[Line]) -> list[RowKey]:
    """Return the rows: those that there are lines of, and one of every system that has none."""
    keys = list(dict.fromkeys(map(row_key, scored)))
    present = {key[0] for key in keys}
    keys += [(name, PAPER, PAPER, 0) for name in (*SYSTEMS, OURS) if name not in present]
    return sorted_keys(sorted(keys, key=_rank))


def _rank(key: RowKey) -> tuple[bool, bool, bool, int]:
    """Return what the rows of one system are sorted by: the paper's search, best, not searched."""
    _, _, recipe, trials = key
    return (
        recipe != PAPER and recipe != BEST,
        not trials and recipe == PAPER,
        recipe == BEST,
        trials,
    )


def label(key: RowKey, *, searched: bool) -> str:
    """Return the name of a row, such that rows of DHIL-GT are never taken for each other.

    Args:
        key: The row.
        searched: Whether the table has rows with a search.

    Example:
        >>> label(("dhilgt", "paper-space", "paper", 20), searched=True)
        'DHIL-GT (20 trials)'
        >>> label(("dhilgt", "paper", "best", 0), searched=True)
        'DHIL-GT, best recipe'
        >>> label(("gcn", "paper", "paper", 0), searched=True)
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
_NAMES = ("precompute", "epoch", "inference")
_HEADS = ("Precomputation", "Epoch", "Inference of the test nodes")
_COLUMNS = ("ours, s", "published, s", "ratio")


def speed_table(lines: Iterable[Line]) -> Table:
    """Return seconds of DHIL-GT with the paper's settings on every dataset beside the published.

    The precomputation is everything from files to tokens: reading and cleaning the graph, labels,
    tokens. The ratio is published by ours: above 1 where ours is faster. A stand-in is in the place
    of a real graph that has no lines; it is generated, not read.

    Args:
        lines: From `paper_tables.joined`.
    """
    ours = [
        line
        for line in lines
        if line["system"] == OURS and line["status"] == results.OK and line["trial"] is None
    ]
    rows, used = [], []
    for name in (name for names in TABLES.values() for name in names):
        chosen = _chosen([c for c in ours if c["data"] == name])
        standin = standin_of(name)
        if not chosen and standin is not None:
            chosen = _chosen([c for c in ours if c["data"] == standin])
        used += chosen
        title = f"{standin} (stand-in)" if chosen and chosen[0]["data"] == standin else name
        rows.append(Row(title, tuple(_entries(chosen, name, at) for at in _NAMES)))
    return Table(_HEADS, (_COLUMNS,) * len(_HEADS), tuple(rows), tuple(_notes(used, rows)))


def _chosen(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with the paper's settings: best those timed alone, never a best recipe."""
    kinds = (
        [line for line in lines if line["recipe"] == PAPER and not line["trials"]],
        [line for line in lines if line["recipe"] == TIMES],
    )
    for kind in kinds:
        if alone := [line for line in kind if ran_alone(line)]:
            return alone
    return next((kind for kind in kinds if kind), [])


def _entries(chosen: Sequence[Line], name: str, figure: str) -> tuple[Entry, ...]:
    published = published_figures()["figures"][name][OURS][figure]
    theirs = Entry(f"{published:g}")
    values = [value for value in (_seconds(line, figure) for line in chosen) if value is not None]
    if not values:
        return Entry(NOTHING), theirs, Entry(NOTHING)
    mean = statistics.fmean(values)
    marks = "" if all(map(ran_alone, chosen)) else SHARED
    if figure == "precompute" and any(_read_seconds(line) is None for line in chosen):
        marks += UNREAD
    ratio = "" if mean <= 0 else f"{_digits(published / mean)}×{marks}"
    return Entry(seconds_text(mean) + marks), theirs, Entry(ratio)


def _seconds(line: Line, figure: str) -> float | None:
    seconds: float | None = line[f"{figure}_seconds"]
    if seconds is None or figure != "precompute":
        return seconds
    return seconds + (_read_seconds(line) or 0.0)


def _read_seconds(line: Line) -> float | None:
    """Return the seconds of reading and cleaning; None where nothing was read, or not timed."""
    return None if line["standin_for"] is not None else line.get("load_seconds")


def _digits(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 99.5 else f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"


def _notes(used: Sequence[Line], rows: Sequence[Row]) -> list[str]:
    found = [
        "DHIL-GT with the paper's settings. Precomputation is all from the files to the tokens: "
        "reading and cleaning the graph, labels, tokens. Ratio: published by ours, above 1 where "
        "ours is faster; it is one of two programs on two machines, not of programs alone."
    ]
    found += machines(used)
    found.append("Published: one A30 GPU of 24 GB, 32 Xeon cores.")
    text = "".join(e.text for row in rows for entries in row.entries for e in entries)
    if SHARED in text:
        found.append(f"{SHARED} measured in a run of several cells at once: blurred.")
    if UNREAD in text:
        found.append(
            f"{UNREAD} without reading: a stand-in is generated, or the line does not say how long "
            "it took."
        )
    if standins := sorted({line["data"] for line in used if line["standin_for"] is not None}):
        found.append(
            f"{', '.join(standins)}: generated graphs of the size of the real ones, which are not "
            "here; the published figure is of the real one."
        )
    return found
