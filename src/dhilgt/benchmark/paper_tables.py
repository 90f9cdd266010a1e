"""From lines of several files to the tables of the paper, and to the lines worth keeping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dhilgt.benchmark import record
from dhilgt.benchmark.grid import PAPER_SPACE
from dhilgt.benchmark.paper import SYSTEMS, TABLES, TIMES, standin_of
from dhilgt.benchmark.recipe import BEST, OURS, PAPER
from dhilgt.benchmark.table_notes import HOST, OWN, SHARED
from dhilgt.benchmark.tables import (
    APART,
    TITLES,
    Row,
    RowKey,
    Table,
    ran_alone,
    row_key,
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
    """Gives the lines of several files, one per cell, without the trials of searches.

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
    if old is None or old["status"] != record.OK:
        return new
    if new["status"] != record.OK:
        return old
    if ran_alone(old) and not ran_alone(new):
        return {**new, **{name: old.get(name) for name in _MEASURED}}
    return new


def slim(line: Line) -> Line:
    """Gives a line without what no table needs, to be kept for good.

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
    """Gives a table of the paper, three datasets side by side.

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
    """Gives the scores alone, all graphs that have some side by side.

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
    """Gives the place of the first score; what stands before are times and memory."""
    return [columns.index("Mem.") + 1]


def _shown(name: str, present: set[str]) -> str:
    standin = standin_of(name)
    return standin if standin in present and name not in present else name


def _for_time(line: Line) -> bool:
    return line["recipe"] == TIMES or line["standin_for"] is not None


def _keys(scored: Sequence[Line]) -> list[RowKey]:
    """Gives the rows: those that there are lines of, and one of every system that has none."""
    keys = list(dict.fromkeys(map(row_key, scored)))
    present = {key[0] for key in keys}
    keys += [(name, PAPER, PAPER, 0) for name in (*SYSTEMS, OURS) if name not in present]
    return sorted_keys(sorted(keys, key=_rank))


def _rank(key: RowKey) -> tuple[bool, bool, bool, int]:
    """Gives what the rows of one system are sorted by: the paper's search, best, not searched."""
    _, _, recipe, trials = key
    return (
        recipe != PAPER and recipe != BEST,
        not trials and recipe == PAPER,
        recipe == BEST,
        trials,
    )


def label(key: RowKey, *, searched: bool) -> str:
    """Gives the name of a row, such that rows of DHIL-GT are never taken for each other.

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
