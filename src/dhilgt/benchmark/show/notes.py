"""What a reader of a table must know: how it was measured, its marks, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.running import results

if TYPE_CHECKING:
    from dhilgt.benchmark.show.tables import Block, Row

Line = dict[str, Any]
SHARED, HOST, OWN, CUT = "†", "*", "‡", "¶"
_MARKS = {
    SHARED: "measured in a run of several cells at once: not to be compared as a time",
    HOST: "inference on the host: ours where the graph did not fit the GPU, the published as the "
    "paper states",
    OWN: "measured apart in a short training with the system's own settings, not with those that "
    "the search chose",
    CUT: "the time given to a training (--seconds) ended one or more of these before their last "
    "epoch",
}


def notes_of(
    blocks: Sequence[Block], rows: Sequence[Row], cells: Sequence[Line], published: bool
) -> list[str]:
    """Return the notes of a table, the most important first.

    Args:
        blocks: Its datasets.
        rows: Its rows, for the marks that are in them.
        cells: The lines that it was made from.
        published: Whether the paper's figures are in it.
    """
    found = []
    if counts := sorted({block.seeds for block in blocks if block.seeds}):
        seeds = " or ".join(map(str, counts)) + (" seed" if counts == [1] else " seeds")
        found.append(
            f"Test scores in per cent: mean ± standard deviation over {seeds}, best and second "
            "best marked among rows with all seeds."
        )
    found.append(
        "Seconds for precomputation, an epoch (median) and the inference of the test nodes; GB of "
        "GPU memory at the most."
    )
    found += machines(cells)
    if published and any(row.published for row in rows):
        found.append("As published: one A30 GPU of 24 GB, 32 Xeon cores.")
    text = "".join(e.text for row in rows for entries in row.entries for e in entries)
    found += [f"{mark} {meaning}." for mark, meaning in _MARKS.items() if mark in text]
    if any("host" in e.text for row in rows for entries in row.entries for e in entries):
        found.append("host: trained without a GPU; memory is that of the whole process.")
    for block in blocks:
        if block.standin_for is not None:
            found.append(
                f"{block.data} is a generated stand-in for {block.standin_for}: its scores say "
                "nothing and are left out."
            )
    if published:
        notes = published_figures()["notes"]
        found += dict.fromkeys(
            notes[name] for name in (b.standin_for or b.data for b in blocks) if name in notes
        )
    found += troubles(cells)
    return found


def troubles(cells: Sequence[Line]) -> list[str]:
    """Return a note for every way in which cells ended without figures."""
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for line in cells:
        if line["status"] != results.OK:
            reason = " ".join(line["message"].split())[:160]
            seeds.setdefault((line["system"], line["data"], line["status"], reason), []).append(
                line["seed"]
            )
    found = []
    for (system, data, status, reason), which in seeds.items():
        word = "seed" if len(set(which)) == 1 else "seeds"
        numbers = ", ".join(map(str, sorted(set(which))))
        why = f" ({reason})" if reason else ""
        found.append(f"{system}, {data}, {word} {numbers}: {status}{why}.")
    return found


def machines(cells: Iterable[Line]) -> list[str]:
    """Return the note that says where cells were run, none where that is not known."""
    where = [found for found in dict.fromkeys(map(_machine, cells)) if found]
    return [f"Ours on {'; '.join(where)}."] if where else []


def _machine(line: Line) -> str:
    where = line["environment"]
    if not where:
        return ""
    gpu = where["gpus"][0] if where["gpus"] and where["device"] != "cpu" else "no GPU"
    return f"{gpu}, {where['cpus']} cores of {where['cpu']}, torch {where['torch']}"
