"""From lines of results to tables in the layout of the paper, ours beside the published figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dhilgt import metrics
from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.running import results
from dhilgt.benchmark.running.data import about
from dhilgt.benchmark.running.grid import REFERENCES
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.notes import CUT, HOST, OWN, SHARED, notes_of
from dhilgt.datasets.registry import names as dataset_names

Line = dict[str, Any]
RowKey = tuple[str, str, str, int]  # system, variant, recipe, trials

TITLES = {
    "difformer": "DIFFormer",
    "polynormer": "Polynormer",
    "nagphormer": "NAGphormer",
    "ansgt": "ANS-GT",
    "goat": "GOAT",
    "hsgt": "HSGT",
    "sgformer": "SGFormer",
    "gcn": "GCN",
    "sage": "GraphSAGE",
    "linkx": "LINKX",
    "mlp": "MLP",
    OURS: "DHIL-GT",
}
SCORES = {"accuracy": "Acc", "roc_auc": "ROC AUC", "macro_f1": "F1", "log_loss": "Log loss"}
WORDS = {results.OOM: "OOM", results.OVER: "over budget", results.FAILED: "failed"}
_FIGURES = ("precompute", "epoch", "inference")
_GB = 1e9
NOT_RUN, NOTHING = "not run", "–"
APART = "timed_apart"
"""In a line: it is of a short training that was run for its time and memory, never for a score."""


@dataclass(frozen=True)
class Entry:
    """The text of one place in a table; mark is "", "best" or "second"."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """A line of a table: entries by dataset, and whether the figures are published ones."""

    label: str
    entries: tuple[tuple[Entry, ...], ...]
    published: bool = False


@dataclass(frozen=True)
class Table:
    """Some datasets side by side.

    Attributes:
        data: Names of the datasets.
        columns: Heads of the columns of each dataset.
        rows: Systems.
        notes: What a reader must know.
    """

    data: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())


def tables(
    lines: Iterable[Line],
    *,
    across: int = 3,
    published: bool = True,
    data: Sequence[str] | None = None,
    keys: Sequence[RowKey] | None = None,
    label: Callable[[RowKey], str] | None = None,
) -> list[Table]:
    """Return the tables of results.

    Args:
        lines: Of a results file; trials of searches are passed over.
        across: Datasets side by side.
        published: Put a row of the paper's figures under each system that it has.
        data: Datasets in their order; None for those that have lines, as the paper orders them.
        keys: Rows in their order; None for those that have lines, and the references.
        label: Gives the name of a row; None for one that says how it was made.
    """
    cells = [line for line in lines if line["trial"] is None]
    if data is None:
        known = {name: at for at, name in enumerate(dataset_names())}
        data = list(dict.fromkeys(line["data"] for line in cells))
        data.sort(key=lambda name: known.get(name, len(known)))
    keys = _row_keys(cells) if keys is None else keys
    step = max(1, across)
    return [
        _table(data[at : at + step], cells, keys, label or label_of, published)
        for at in range(0, len(data), step)
    ]


def row_key(line: Line) -> RowKey:
    """Return the row that a line belongs to."""
    return line["system"], line["variant"], line["recipe"], int(line["trials"])


def sorted_keys(keys: Iterable[RowKey]) -> list[RowKey]:
    """Return rows in the order of the paper, ours last; those of one system stay as they were."""
    order = {name: at for at, name in enumerate(TITLES)}
    new = order["gcn"] - 0.5  # a system that is not listed stands before the references
    return sorted(keys, key=lambda key: (order.get(key[0], new), key[0]))


def _row_keys(cells: Sequence[Line]) -> list[RowKey]:
    keys = list(dict.fromkeys(map(row_key, cells)))
    present = {key[0] for key in keys}
    keys += [(name, PAPER, PAPER, 0) for name in REFERENCES if name not in present]
    return sorted_keys(keys)


def _table(
    data: Sequence[str],
    cells: Sequence[Line],
    keys: Sequence[RowKey],
    label: Callable[[RowKey], str],
    published: bool,
) -> Table:
    blocks = [Block(name, [c for c in cells if c["data"] == name], keys) for name in data]
    rows = []
    for key in keys:
        rows.append(Row(label(key), tuple(block.ours(key) for block in blocks)))
        first = next(k for k in keys if k[0] == key[0]) == key
        known = [block.published(key[0]) for block in blocks]
        if published and first and any(known):
            empty = [tuple(Entry("") for _ in block.columns) for block in blocks]
            entries = tuple(k or e for k, e in zip(known, empty, strict=True))
            rows.append(Row(f"{TITLES.get(key[0], key[0])}, as published", entries, True))
    notes = notes_of(blocks, rows, [c for c in cells if c["data"] in data], published)
    return Table(
        tuple(block.title for block in blocks),
        tuple(block.columns for block in blocks),
        tuple(rows),
        tuple(notes),
    )


def label_of(key: RowKey) -> str:
    """Return the name of a row: the system, and what is not as its paper has it."""
    system, variant, recipe, trials = key
    more = [variant] if variant != PAPER else []
    if recipe != PAPER:
        more.append(f"recipe {recipe}")
    if trials:
        more.append(f"{trials} trials")
    title = TITLES.get(system, system)
    return f"{title} ({', '.join(more)})" if more else title


class Block:
    """The columns of one dataset."""

    def __init__(self, data: str, cells: Sequence[Line], keys: Sequence[RowKey]) -> None:
        self.data = data
        self.standin_for: str | None
        self.metrics: list[str]
        if cells:
            self.standin_for, self.metrics = cells[0]["standin_for"], cells[0]["metrics"]
        else:
            known = about(data)
            self.standin_for, self.metrics = known.standin_for, list(known.metrics)
        self.title = data if self.standin_for is None else f"{data} (stand-in)"
        self.columns = (
            "Pre.",
            "Epoch",
            "Infer",
            "Mem.",
            *(SCORES.get(m, m) for m in self.metrics),
        )
        self._cells = {key: [c for c in cells if row_key(c) == key] for key in keys}
        # As many as the fullest row has been tried with.
        self.seeds = max(
            (len({c["seed"] for c in lines if not c.get(APART)}) for lines in self._cells.values()),
            default=0,
        )
        self._marks = {metric: self._ranked(metric) for metric in self.metrics}

    # ---- our figures ---------------------------------------------------------------------------

    def ours(self, key: RowKey) -> tuple[Entry, ...]:
        """Return the entries of a system."""
        lines = self._cells[key]
        good = [line for line in lines if line["status"] == results.OK]
        if not good:
            return self._without_figures(lines)
        timed = timed_lines(good)
        times = (self._time(timed, name) for name in _FIGURES)
        scores = (self._score(key, lines, metric) for metric in self.metrics)
        return (*times, _memory(timed), *scores)

    def _without_figures(self, lines: Sequence[Line]) -> tuple[Entry, ...]:
        own = [line for line in lines if not line.get(APART)]
        if lines and not own:  # what was run for its time alone says nothing about a score
            return (*self._as_far_as_it_came(lines), *(Entry(NOTHING) for _ in self.metrics))
        word = self._trouble(own) if own else NOT_RUN
        return (*(Entry(NOTHING),) * 4, *(Entry(word) for _ in self.metrics))

    def _as_far_as_it_came(self, lines: Sequence[Line]) -> tuple[Entry, ...]:
        """Return what was measured before the end, and in the next place what ended it."""
        times = [self._time(lines, name) for name in _FIGURES]
        reached = next((at for at, one in enumerate(times) if one.text == NOTHING), len(times))
        if reached < len(times):
            times[reached] = Entry(self._trouble(lines))
        trained = reached > _FIGURES.index("epoch")
        return (*times, _memory(lines) if trained else Entry(NOTHING))

    def _trouble(self, lines: Sequence[Line]) -> str:
        found = dict.fromkeys(WORDS[line["status"]] for line in lines if line["status"] in WORDS)
        return ", ".join(found)

    def _time(self, timed: Sequence[Line], name: str) -> Entry:
        values = [c[f"{name}_seconds"] for c in timed if c[f"{name}_seconds"] is not None]
        if not values:
            return Entry(NOTHING)
        text = seconds_text(statistics.fmean(values))
        if name == "inference" and any(map(_inferred_on_host, timed)):
            text += HOST
        return Entry(text + marks_of(timed))

    def _score(self, key: RowKey, lines: Sequence[Line], metric: str) -> Entry:
        own = [line for line in lines if not line.get(APART)]
        if self.standin_for is not None or not own:
            return Entry(NOTHING)
        good = [line for line in own if line["status"] == results.OK]
        if not good:
            return Entry(self._trouble(own))
        values = _values(good, metric)
        if not values:
            return Entry("undefined")
        text = score_text(values)
        if len(values) < self.seeds:
            text += f" ({len(values)} of {self.seeds})"
        if any(line.get("out_of_time") for line in good):
            text += CUT
        return Entry(text, self._marks[metric].get(key, ""))

    def _ranked(self, metric: str) -> dict[RowKey, str]:
        """Return the marks of the best and second best among rows that have all seeds."""
        if self.standin_for is not None:
            return {}
        means: dict[RowKey, float] = {}
        for key, lines in self._cells.items():
            good = [c for c in lines if c["status"] == results.OK and not c.get(APART)]
            values = _values(good, metric)
            if values and len(values) == self.seeds:
                means[key] = round(100 * statistics.fmean(values), 2)  # as it is shown
        if len(means) < 2:
            return {}  # alone is not best
        up = metrics.metric(metric).higher_is_better
        places = sorted(set(means.values()), reverse=up)[:2]
        marks = dict(zip(places, ("best", "second"), strict=False))
        return {key: marks[mean] for key, mean in means.items() if mean in marks}

    # ---- published figures ---------------------------------------------------------------------

    def published(self, system: str) -> tuple[Entry, ...] | None:
        """Return the entries of the paper for a system, None where it has none."""
        figures = published_figures()["figures"].get(self.standin_for or self.data, {})
        row = figures.get(system)
        if row is None:
            return None
        rest = (Entry(""),) * (len(self.metrics) - 1)
        if "status" in row:
            return (*(Entry(NOTHING),) * 4, Entry(WORDS[row["status"]]), *rest)
        host = HOST if system in published_figures()["on_the_host"] else ""
        times = [NOTHING if row[name] is None else f"{row[name]:g}" for name in _FIGURES]
        times[2] += host if times[2] != NOTHING else ""
        score = f"{row['score']:.2f} ± {row['sd']:.2f}"
        return (*map(Entry, times), Entry(f"{row['memory']:g}"), Entry(score), *rest)


def timed_lines(good: Sequence[Line]) -> list[Line]:
    """Return the lines whose times count: of cells that ran alone, else of those timed apart."""
    own = [line for line in good if not line.get(APART)]
    alone = [line for line in own if ran_alone(line)]
    apart = [line for line in good if line.get(APART)]
    # Times that others blurred are the last choice, and one time is not averaged with another kind.
    return alone or [c for c in apart if ran_alone(c)] or own or apart


def ran_alone(line: Line) -> bool:
    """Return whether a cell had the machine for itself: no other beside it, all of its cores."""
    return not line["beside"] and line["jobs"] == 1


def marks_of(timed: Sequence[Line]) -> str:
    """Return the marks of a time: not with the settings of the search, not alone."""
    apart = any(c.get(APART) and c["trials"] for c in timed)
    return (OWN if apart else "") + ("" if all(map(ran_alone, timed)) else SHARED)


def _values(good: Sequence[Line], metric: str) -> list[float]:
    found = (line["scores"].get("test", {}).get(metric) for line in good)
    return [value for value in found if value is not None]


def _inferred_on_host(line: Line) -> bool:
    trained_on = (line["environment"] or {}).get("device", "cpu")
    return bool(line["inference_device"] == "cpu" and trained_on != "cpu")


def _memory(good: Sequence[Line]) -> Entry:
    gpu = max(line["gpu_peak_bytes"] or 0 for line in good)
    if gpu:
        return Entry(f"{gpu / _GB:.2f}")
    host = max(line["host_peak_bytes"] or 0 for line in good)
    return Entry(f"{host / _GB:.2f} host" if host else NOTHING)


# ---- numbers as text ---------------------------------------------------------------------------


def seconds_text(value: float) -> str:
    """Return seconds with two or three digits that count.

    Example:
        >>> [seconds_text(value) for value in (0.00001, 0.00512, 0.234, 4.56, 31.04, 237.4)]
        ['<0.0001', '0.0051', '0.23', '4.56', '31.0', '237']
    """
    if value < 0.00005:
        return "<0.0001"
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    if value >= 0.1:
        return f"{value:.2f}"
    return f"{value:.4f}"


def score_text(values: Sequence[float]) -> str:
    """Return mean and sample standard deviation in per cent.

    Example:
        >>> score_text([0.85, 0.87]), score_text([0.5])
        ('86.00 ± 1.41', '50.00')
    """
    mean = f"{100 * statistics.fmean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * statistics.stdev(values):.2f}"
