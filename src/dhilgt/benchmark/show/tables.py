"""From records to tables in the layout of the paper, ours beside the published figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dhilgt import metrics
from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.record import FAILED, OOM, OVER, Record
from dhilgt.benchmark.running.data import about
from dhilgt.benchmark.running.grid import REFERENCES
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.notes import CUT_SHORT, HOST, OWN, SHARED, notes_of
from dhilgt.datasets.registry import names as dataset_names

TITLES = {
    "difformer": "DIFFormer",
    "polyformer": "PolyFormer",
    "polynormer": "Polynormer",
    "nagphormer": "NAGphormer",
    "nodeformer": "NodeFormer",
    "ansgt": "ANS-GT",
    "goat": "GOAT",
    "graphgps": "GraphGPS",
    "graphormer": "Graphormer",
    "grpe": "GRPE",
    "hsgt": "HSGT",
    "sgformer": "SGFormer",
    "gcn": "GCN",
    "sage": "GraphSAGE",
    "linkx": "LINKX",
    "mlp": "MLP",
    OURS: "DHIL-GT",
}
SCORES = {"accuracy": "Acc", "roc_auc": "ROC AUC", "macro_f1": "F1", "log_loss": "Log loss"}
WORDS = {OOM: "OOM", OVER: "over budget", FAILED: "failed"}
STAGES = ("precompute", "epoch", "inference")
GB = 1e9
NOT_RUN, NOTHING = "not run", "–"


class RowKey(NamedTuple):
    """What the records of one row have in common."""

    system: str
    variant: str
    recipe: str
    trials: int


@dataclass(frozen=True)
class TableEntry:
    """The text of one place in a table; mark is "", "best" or "second"."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """A line of a table: entries by dataset, and whether the figures are published ones."""

    label: str
    entries: tuple[tuple[TableEntry, ...], ...]
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
    records: Iterable[Record],
    *,
    across: int = 3,
    published: bool = True,
    data: Sequence[str] | None = None,
    keys: Sequence[RowKey] | None = None,
    label: Callable[[RowKey], str] | None = None,
) -> list[Table]:
    """Return the tables of results.

    Args:
        records: Of a results file; trials of searches are ignored.
        across: Datasets side by side.
        published: Put a row of the paper's figures under each system that it has.
        data: Datasets in their order; None for those that have records, as the paper orders them.
        keys: Rows in their order; None for those that have records, and the references.
        label: Returns the name of a row; None for one that says how it was made.
    """
    cells = [record for record in records if record.cell.trial is None]
    if data is None:
        data = in_known_order(record.cell.data for record in cells)
    keys = _row_keys(cells) if keys is None else keys
    step = max(1, across)
    return [
        _table(data[at : at + step], cells, keys, label or label_of, published)
        for at in range(0, len(data), step)
    ]


def in_known_order(data: Iterable[str]) -> list[str]:
    """Return each dataset once, in the order of the paper, others behind.

    Example:
        >>> in_known_order(["generated:40", "cora", "chameleon", "cora"])
        ['chameleon', 'cora', 'generated:40']
    """
    known = {name: at for at, name in enumerate(dataset_names())}
    return sorted(dict.fromkeys(data), key=lambda name: known.get(name, len(known)))


def row_key(record: Record) -> RowKey:
    """Return the row that a record belongs to."""
    cell = record.cell
    return RowKey(cell.system, cell.variant, cell.recipe, int(cell.trials))


def sorted_keys(keys: Iterable[RowKey]) -> list[RowKey]:
    """Return rows in the order of the paper, ours last; those of one system stay as they were."""
    order = {name: at for at, name in enumerate(TITLES)}
    new = order["gcn"] - 0.5  # a system that is not listed stands before the references
    return sorted(keys, key=lambda key: (order.get(key.system, new), key.system))


def _row_keys(cells: Sequence[Record]) -> list[RowKey]:
    keys = list(dict.fromkeys(map(row_key, cells)))
    present = {key.system for key in keys}
    keys += [RowKey(name, PAPER, PAPER, 0) for name in REFERENCES if name not in present]
    return sorted_keys(keys)


def _table(
    data: Sequence[str],
    cells: Sequence[Record],
    keys: Sequence[RowKey],
    label: Callable[[RowKey], str],
    published: bool,
) -> Table:
    columns = [
        DatasetColumns(name, [record for record in cells if record.cell.data == name], keys)
        for name in data
    ]
    rows = []
    for key in keys:
        rows.append(Row(label(key), tuple(one.measured(key) for one in columns)))
        first = next(k for k in keys if k.system == key.system) == key
        known = [one.published(key.system) for one in columns]
        if published and first and any(known):
            empty = [tuple(TableEntry("") for _ in one.heads) for one in columns]
            entries = tuple(k or e for k, e in zip(known, empty, strict=True))
            rows.append(Row(f"{TITLES.get(key.system, key.system)}, as published", entries, True))
    used = [record for record in cells if record.cell.data in data]
    return Table(
        tuple(one.title for one in columns),
        tuple(one.heads for one in columns),
        tuple(rows),
        tuple(notes_of(columns, rows, used, published)),
    )


def label_of(key: RowKey) -> str:
    """Return the name of a row: the system, and what differs from its paper."""
    system, variant, recipe, trials = key
    more = [variant] if variant != PAPER else []
    if recipe != PAPER:
        more.append(f"recipe {recipe}")
    if trials:
        more.append(f"{trials} trials")
    title = TITLES.get(system, system)
    return f"{title} ({', '.join(more)})" if more else title


class DatasetColumns:
    """The columns of one dataset.

    Attributes:
        data: The dataset.
        standin_for: The graph that it stands in for.
        title: Over the columns.
        heads: Of the columns.
        seeds: As many as the fullest row has been tried with.
    """

    def __init__(self, data: str, cells: Sequence[Record], keys: Sequence[RowKey]) -> None:
        self.data = data
        known = cells[0] if cells else about(data)
        self.standin_for, self._metrics = known.standin_for, known.metrics
        self.title = data if self.standin_for is None else f"{data} (stand-in)"
        heads = (SCORES.get(metric, metric) for metric in self._metrics)
        self.heads = ("Pre.", "Epoch", "Infer", "Mem.", *heads)
        self._cells = {key: [one for one in cells if row_key(one) == key] for key in keys}
        self.seeds = max(
            (len({one.cell.seed for one in _own(row)}) for row in self._cells.values()), default=0
        )
        self._marks = {metric: self._ranked(metric) for metric in self._metrics}

    # ---- our figures ---------------------------------------------------------------------------

    def measured(self, key: RowKey) -> tuple[TableEntry, ...]:
        """Return the entries of a row."""
        records = self._cells[key]
        good = [record for record in records if record.ok]
        if not good:
            return self._without_figures(records)
        timed = timed_records(good)
        times = (self._time(timed, stage) for stage in STAGES)
        scores = (self._score(key, records, metric) for metric in self._metrics)
        return (*times, _memory(timed), *scores)

    def _without_figures(self, records: Sequence[Record]) -> tuple[TableEntry, ...]:
        own = _own(records)
        if records and not own:  # what was run for its time says nothing about a score
            none = (TableEntry(NOTHING) for _ in self._metrics)
            return (*self._until_the_end(records), *none)
        word = _trouble(own) if own else NOT_RUN
        return (*(TableEntry(NOTHING),) * 4, *(TableEntry(word) for _ in self._metrics))

    def _until_the_end(self, records: Sequence[Record]) -> tuple[TableEntry, ...]:
        """Return what was measured before a failure, and in the next place the failure."""
        times = [self._time(records, stage) for stage in STAGES]
        reached = next((at for at, one in enumerate(times) if one.text == NOTHING), len(times))
        if reached < len(times):
            times[reached] = TableEntry(_trouble(records))
        trained = reached > STAGES.index("epoch")
        return (*times, _memory(records) if trained else TableEntry(NOTHING))

    def _time(self, timed: Sequence[Record], stage: str) -> TableEntry:
        seconds = [record.costs.seconds(stage) for record in timed]
        known = [value for value in seconds if value is not None]
        if not known:
            return TableEntry(NOTHING)
        text = seconds_text(statistics.fmean(known))
        if stage == "inference" and any(map(_inferred_on_host, timed)):
            text += HOST
        return TableEntry(text + _time_marks(timed))

    def _score(self, key: RowKey, records: Sequence[Record], metric: str) -> TableEntry:
        own = _own(records)
        if self.standin_for is not None or not own:
            return TableEntry(NOTHING)
        good = [record for record in own if record.ok]
        if not good:
            return TableEntry(_trouble(own))
        if not all(record.whole for record in good):
            return TableEntry(CUT_SHORT)
        values = _scores(good, metric)
        if not values:
            return TableEntry("undefined")
        text = score_text(values)
        if len(values) < self.seeds:
            text += f" ({len(values)} of {self.seeds})"
        return TableEntry(text, self._marks[metric].get(key, ""))

    def _ranked(self, metric: str) -> dict[RowKey, str]:
        """Return the marks of the best and second best among rows that have all seeds."""
        if self.standin_for is not None:
            return {}
        means: dict[RowKey, float] = {}
        for key, records in self._cells.items():
            good = [record for record in _own(records) if record.ok]
            values = _scores(good, metric)
            whole = all(record.whole for record in good)
            if values and whole and len(values) == self.seeds:
                means[key] = round(100 * statistics.fmean(values), 2)  # as it is shown
        if len(means) < 2:
            return {}  # one row alone is not ranked
        up = metrics.metric(metric).higher_is_better
        places = sorted(set(means.values()), reverse=up)[:2]
        marks = dict(zip(places, ("best", "second"), strict=False))
        return {key: marks[mean] for key, mean in means.items() if mean in marks}

    # ---- published figures ---------------------------------------------------------------------

    def published(self, system: str) -> tuple[TableEntry, ...] | None:
        """Return the entries of the paper for a system, None where it has none."""
        figures = published_figures()["figures"].get(self.standin_for or self.data, {})
        row = figures.get(system)
        if row is None:
            return None
        rest = (TableEntry(""),) * (len(self._metrics) - 1)
        if "status" in row:
            return (*(TableEntry(NOTHING),) * 4, TableEntry(WORDS[row["status"]]), *rest)
        host = HOST if system in published_figures()["on_the_host"] else ""
        times = [NOTHING if row[stage] is None else f"{row[stage]:g}" for stage in STAGES]
        times[2] += host if times[2] != NOTHING else ""
        score = f"{row['score']:.2f} ± {row['sd']:.2f}"
        return (*map(TableEntry, times), TableEntry(f"{row['memory']:g}"), TableEntry(score), *rest)


def _own(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if not record.timed_apart]


def _trouble(records: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(WORDS[one.status] for one in records if one.status in WORDS))


def timed_records(good: Sequence[Record]) -> list[Record]:
    """Return the records whose times count: of cells that ran alone, else of those timed apart."""
    own = _own(good)
    alone = [record for record in own if record.costs.ran_alone]
    apart = [record for record in good if record.timed_apart]
    # Times disturbed by other cells are the last choice, and the kinds are never averaged.
    return alone or [record for record in apart if record.costs.ran_alone] or own or apart


def _time_marks(timed: Sequence[Record]) -> str:
    """Return the marks of a time: not with the settings of the search, not alone."""
    apart = any(record.timed_apart and record.cell.trials for record in timed)
    alone = all(record.costs.ran_alone for record in timed)
    return (OWN if apart else "") + ("" if alone else SHARED)


def _scores(good: Sequence[Record], metric: str) -> list[float]:
    scores = (record.test_score(metric) for record in good)
    return [score for score in scores if score is not None]


def _inferred_on_host(record: Record) -> bool:
    trained_on = (record.costs.environment or {}).get("device", "cpu")
    return bool(record.costs.inference_device == "cpu" and trained_on != "cpu")


def _memory(good: Sequence[Record]) -> TableEntry:
    gpu = max(record.costs.gpu_peak_bytes or 0 for record in good)
    if gpu:
        return TableEntry(f"{gpu / GB:.2f}")
    host = max(record.costs.host_peak_bytes or 0 for record in good)
    return TableEntry(f"{host / GB:.2f} host" if host else NOTHING)


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
