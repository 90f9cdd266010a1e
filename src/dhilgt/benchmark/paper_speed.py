"""The speed of DHIL-GT beside the figures that its authors published."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from dhilgt.benchmark import record
from dhilgt.benchmark.paper import TABLES, TIMES, standin_of
from dhilgt.benchmark.published import published_figures
from dhilgt.benchmark.recipe import OURS, PAPER
from dhilgt.benchmark.table_notes import SHARED, machines
from dhilgt.benchmark.tables import (
    NOTHING,
    Entry,
    Row,
    Table,
    ran_alone,
    seconds_text,
)

Line = dict[str, Any]
UNREAD = "§"
_NAMES = ("precompute", "epoch", "inference")
_HEADS = ("Precomputation", "Epoch", "Inference of the test nodes")
_COLUMNS = ("ours, s", "published, s", "ratio")


def speed_table(lines: Iterable[Line]) -> Table:
    """Gives seconds of DHIL-GT with the paper's settings on every dataset beside the published.

    The precomputation is everything from files to tokens: reading and cleaning the graph, labels,
    tokens. The ratio is published by ours: above 1 where ours is faster. A stand-in is in the place
    of a real graph that has no lines; it is generated, not read.

    Args:
        lines: From `paper_tables.joined`.
    """
    ours = [
        line
        for line in lines
        if line["system"] == OURS and line["status"] == record.OK and line["trial"] is None
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
    """Gives the lines with the paper's settings: best those timed alone, never a best recipe."""
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
    """Gives the seconds of reading and cleaning; None where nothing was read, or not timed."""
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
