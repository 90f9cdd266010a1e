"""What a reader of a table must know: how it was measured, its marks, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.record import FORMAT, Record

if TYPE_CHECKING:
    from dhilgt.benchmark.show.tables import DatasetColumns, Row

SHARED, HOST, OWN = "†", "*", "‡"
CUT_SHORT = "cut short"
_MARKS = {
    SHARED: "measured in a run of several cells at once: not to be compared as a time",
    HOST: "inference on the host: ours where the graph did not fit the GPU, the published as the "
    "paper states",
    OWN: "measured apart in a short training with the system's own settings, not with those that "
    "the search chose",
}


def notes_of(
    columns: Sequence[DatasetColumns],
    rows: Sequence[Row],
    records: Sequence[Record],
    published: bool,
) -> list[str]:
    """Return the notes of a table, the most important first.

    Args:
        columns: Its datasets.
        rows: Its rows, for the marks that are in them.
        records: What it was made from.
        published: Whether the paper's figures are in it.
    """
    notes = []
    if counts := sorted({one.seeds for one in columns if one.seeds}):
        seeds = " or ".join(map(str, counts)) + (" seed" if counts == [1] else " seeds")
        notes.append(
            f"Test scores in per cent: mean ± standard deviation over {seeds}, best and second "
            "best marked among rows with all seeds."
        )
    notes.append(
        "Seconds for precomputation, an epoch (median) and the inference of the test nodes; GB of "
        "GPU memory at the most."
    )
    notes += machines(records)
    if published and any(row.published for row in rows):
        notes.append("As published: one A30 GPU of 24 GB, 32 Xeon cores.")
    text = "".join(e.text for row in rows for entries in row.entries for e in entries)
    notes += [f"{mark} {meaning}." for mark, meaning in _MARKS.items() if mark in text]
    if any("host" in e.text for row in rows for entries in row.entries for e in entries):
        notes.append("host: trained without a GPU; memory is that of the whole process.")
    if CUT_SHORT in text:
        notes.append(
            f"{CUT_SHORT}: a limit of time ended one or more of the trainings before their own "
            "rule, so there is no score to compare."
        )
    for one in columns:
        if one.standin_for is not None:
            notes.append(
                f"{one.data} is a generated stand-in for {one.standin_for}: its scores say "
                "nothing and are left out."
            )
    if published:
        known = published_figures()["notes"]
        notes += dict.fromkeys(
            known[name] for name in (c.standin_for or c.data for c in columns) if name in known
        )
    return notes + troubles(records)


def troubles(records: Sequence[Record]) -> list[str]:
    """Return a note for each kind of failure: the cells that have it, and why."""
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for record in records:
        if not record.ok:
            reason = " ".join(record.message.split())[:160]
            kind = (record.cell.system, record.cell.data, record.status, reason)
            seeds.setdefault(kind, []).append(record.cell.seed)
    notes = []
    for (system, data, status, reason), failed in seeds.items():
        word = "seed" if len(set(failed)) == 1 else "seeds"
        numbers = ", ".join(map(str, sorted(set(failed))))
        why = f" ({reason})" if reason else ""
        notes.append(f"{system}, {data}, {word} {numbers}: {status}{why}.")
    return notes


def machines(records: Iterable[Record]) -> list[str]:
    """Return the notes on where lines come from: machines, and lines that have no hash."""
    known = list(records)
    names = [name for name in dict.fromkeys(map(_machine, known)) if name]
    old = sum(record.format < FORMAT for record in known)
    return [
        *([f"Ours on {'; '.join(names)}."] if names else []),
        *(
            [f"{old} of {len(known)} lines are of an earlier format, without a hash."]
            if old
            else []
        ),
    ]


def _machine(record: Record) -> str:
    known = record.costs.environment
    if not known:
        return ""
    gpu = known["gpus"][0] if known["gpus"] and known["device"] != "cpu" else "no GPU"
    return f"{gpu}, {known['cpus']} cores of {known['cpu']}, torch {known['torch']}"
