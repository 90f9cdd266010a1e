"""The default against what people would use instead: DHIL-GT with nothing set, every baseline.

`default_cells` returns what to run. From its records, `graph_results` computes the numbers and
`default_tables` makes tables of them.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import OWN, Cell, cells
from dhilgt.benchmark.running.recipe import (
    AUTO,
    OURS,
    PAPER,
    TUNED,
    Recipe,
    retuned_recipe,
)
from dhilgt.benchmark.show import paired
from dhilgt.benchmark.show.notes import SHARED, machines, troubles
from dhilgt.benchmark.show.paired import BySeed, Difference, difference_texts, seeds_text
from dhilgt.benchmark.show.tables import (
    NOTHING,
    SCORES,
    TITLES,
    Row,
    RowKey,
    Table,
    TableEntry,
    label_of,
    row_key,
    score_text,
    seconds_text,
    sorted_keys,
)
from dhilgt.errors import ArtifactError

GRAPHS = (
    "chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed", "physics", "photo", "actor",
    "reed98", "amherst41", "cornell5",
)  # fmt: skip
SEEDS = "10-19"
"""Splits that no setting was chosen on."""

FURTHER = (
    ("gcn", "tuned"),
    ("sage", "tuned"),
    ("difformer", "heterophily"),
    ("polynormer", "relu"),
    ("sgformer", "pyg"),
)
"""Settings that authors or later work publish beside a paper's own, for graphs like these."""

DEFAULT = RowKey(OURS, PAPER, AUTO, 0)
MLP = RowKey("mlp", PAPER, PAPER, 0)
NEAR = 0.005
"""Half a point."""
_ACROSS = 4


# ---- cells -------------------------------------------------------------------------------------


def default_systems() -> list[tuple[str, str]]:
    """Return DHIL-GT, every baseline by its paper, and the further variants.

    Example:
        >>> ("gcn", "tuned") in default_systems(), default_systems()[0]
        (True, ('dhilgt', 'paper'))
    """
    from dhilgt import baselines

    own = [(OURS, PAPER), *((name, PAPER) for name in baselines.names())]
    return sorted([*own, *FURTHER], key=lambda one: (one[0] != OURS, one[0]))


def default_cells(
    systems: Sequence[tuple[str, str]] | None = None,
    data: Sequence[str] = GRAPHS,
    seeds: Sequence[int] = range(10, 20),
    *,
    epochs: int | None = None,
    split: str = OWN,
) -> list[Cell]:
    """Return the cells: each system as it comes, and no training is cut short.

    The tuned variants are also run with the settings that were published for a dataset, under the
    recipe "retuned".

    Args:
        systems: Systems with their variants; None for `default_systems`.
        data: Datasets.
        seeds: Of splits and trainings.
        epochs: The most epochs of every system, for trials; None for its own stopping rule.
        split: Kind of split, "own" or "official".

    Example:
        >>> cells = default_cells([("dhilgt", "paper"), ("gcn", "tuned")], ["cora"], [10])
        >>> [(cell.system, cell.recipe) for cell in cells]
        [('dhilgt', 'auto'), ('gcn', 'paper'), ('gcn', 'retuned')]
    """
    chosen = default_systems() if systems is None else systems
    retuned = retuned_recipe()
    grid = []
    for seed in seeds:  # seed by seed: an incomplete run then has few seeds of all systems
        for name in data:
            grid += cells(chosen, [name], [seed], Recipe(AUTO), epochs=epochs, split=split)
            again = [one for one in chosen if one[1] == TUNED and retuned.has(one[0], name)]
            grid += cells(again, [name], [seed], retuned, epochs=epochs, split=split)
    return grid


# ---- numbers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphResult:
    """The records of one graph.

    Attributes:
        data: Its name.
        metric: The score that ranks systems.
        rows: Records by row and seed.
    """

    data: str
    metric: str
    rows: Mapping[RowKey, BySeed] = field(default_factory=dict)

    def scores(self, key: RowKey) -> dict[int, float]:
        """Return the test scores of a row by seed, without cells that did not end well."""
        return paired.scores(self.rows.get(key, {}))

    @property
    def seeds(self) -> set[int]:
        """The splits that count: those that the default has scores of, else any row."""
        own = set(self.scores(DEFAULT))
        return own or {seed for key in self.rows for seed in self.scores(key)}

    def complete(self, key: RowKey) -> bool:
        """Return whether a row has a score of every split that counts."""
        own = set(self.scores(key))
        return bool(own) and self.seeds <= own

    @property
    def best(self) -> RowKey | None:
        """The baseline of the highest mean score over the splits; None without a complete one."""
        means = {
            key: statistics.fmean(self.scores(key)[seed] for seed in self.seeds)
            for key in self.rows
            if key.system != OURS and self.complete(key)
        }
        return max(means, key=lambda key: means[key], default=None)

    def ahead(self, of: RowKey | None) -> Difference | None:
        """Return the default's score minus that of a row, split by split; None without both."""
        if of is None:
            return None
        return paired.paired_difference(self.rows.get(of, {}), self.rows.get(DEFAULT, {}))

    def splits_at_or_above(self, of: RowKey) -> str:
        """Return on how many splits the default is at or above a row, as "7 of 10"."""
        ours, other = self.scores(DEFAULT), self.scores(of)
        both = ours.keys() & other.keys()
        return f"{sum(ours[seed] >= other[seed] for seed in both)} of {len(both)}"

    def seconds(self, key: RowKey) -> str:
        """Return the mean seconds of a run, marked where others ran beside it."""
        done = [record for record in self.rows.get(key, {}).values() if record.ok]
        known = [one.total_seconds for one in done if one.total_seconds is not None]
        if not known:
            return NOTHING
        alone = all(one.costs.ran_alone for one in done)
        return seconds_text(statistics.fmean(known)) + ("" if alone else SHARED)


def graph_results(records: Iterable[Record]) -> list[GraphResult]:
    """Return the results by graph, those of `GRAPHS` first and in their order.

    Args:
        records: Of results files, joined; searched cells, stand-ins and official splits are left
            out.

    Raises:
        ArtifactError: If records contradict each other: two of one cell with different settings,
            or two of one seed with different splits.
    """
    rows: dict[str, dict[RowKey, BySeed]] = {}
    metrics: dict[str, str] = {}
    splits: dict[tuple[str, str, int], str] = {}
    for record in records:
        cell = record.cell
        searched = cell.trial is not None or bool(cell.trials)
        if not searched and record.standin_for is None and cell.split == OWN:
            check_split(record, splits)
            metrics[record.cell.data] = record.metrics[0]
            by_seed = rows.setdefault(record.cell.data, {}).setdefault(row_key(record), {})
            paired.add(by_seed, record)
    order = {name: at for at, name in enumerate(GRAPHS)}
    return [
        GraphResult(data, metrics[data], rows[data])
        for data in sorted(rows, key=lambda name: (order.get(name, len(order)), name))
    ]


def check_split(record: Record, splits: dict[tuple[str, str, int], str]) -> None:
    """Raise an error if a record has another split than those before it of its graph and seed.

    Args:
        record: The record.
        splits: Hashes so far, by dataset, kind of split and seed; that of the record is added.

    Raises:
        ArtifactError: It names the cell.
    """
    cell, split = record.cell, record.split_hash
    place = (cell.data, cell.split, cell.seed)
    if split is not None and splits.setdefault(place, split) != split:
        raise ArtifactError(
            f"{cell.data}, seed {cell.seed}: {cell.name} has another split than the lines before "
            "it, so that no difference can be taken; run them again with one version"
        )


# ---- tables ------------------------------------------------------------------------------------


def default_tables(records: Iterable[Record]) -> list[Table]:
    """Return the default beside MLP and the best baseline, all systems, and what was chosen.

    Args:
        records: Of results files.
    """
    known = list(records)
    results = graph_results(known)
    if not results:
        return []
    tables = [_summary(results), *_all_systems(results)]
    if choices := _choices(results):
        tables.append(choices)
    last = tables[-1]
    tables[-1] = replace(last, notes=(*last.notes, *machines(known), *troubles(known)))
    return tables


def _summary(results: Sequence[GraphResult]) -> Table:
    rows = []
    for one in results:
        best = one.best
        to_best, to_mlp = (difference_texts(one.ahead(key))[:2] for key in (best, MLP))
        name = NOTHING if best is None else f"{label_of(best)} {_score(one, best)}"
        splits = NOTHING if best is None else one.splits_at_or_above(best)
        parts = (
            (_score(one, DEFAULT), _score(one, MLP), name),
            (*to_best, splits),
            to_mlp,
            (one.seconds(DEFAULT), NOTHING if best is None else one.seconds(best)),
        )
        label = f"{one.data}, {SCORES.get(one.metric, one.metric)}"
        rows.append(Row(label, tuple(tuple(map(TableEntry, part)) for part in parts)))
    return Table(
        ("Test score", "Default − best baseline", "Default − MLP", "Seconds a run"),
        (
            ("default", "MLP", "best baseline"),
            ("mean", "95 % interval", "splits at or above"),
            ("mean", "95 % interval"),
            ("default", "best baseline"),
        ),
        tuple(rows),
        tuple(_notes(results)),
    )


def _notes(results: Sequence[GraphResult]) -> list[str]:
    measured = [one for one in results if one.scores(DEFAULT)]
    notes = [*_counts(measured)]
    if measured:
        notes.append(
            "Test scores in per cent, mean ± standard deviation over "
            f"{seeds_text(len(one.scores(DEFAULT)) for one in measured)}; differences are taken "
            "split by split, their mean with the interval of the t distribution. The best baseline "
            "is chosen by its test score, which favours it."
        )
    for one in results:
        for key in sorted_keys(one.rows):
            if one.scores(key) and not one.complete(key) and key.system != OURS:
                mean, interval, _ = difference_texts(one.ahead(key))
                notes.append(
                    f"{label_of(key)} has {len(one.scores(key))} of {len(one.seeds)} splits of "
                    f"{one.data} and is not ranked there; the default minus it: {mean} "
                    f"({interval})."
                )
    notes += _not_run(results)
    if any(SHARED in one.seconds(key) for one in results for key in one.rows):
        notes.append(f"{SHARED} several trainings ran at once: not to be compared as a time.")
    return notes


def _not_run(results: Sequence[GraphResult]) -> list[str]:
    """Return the systems without a line on some graphs, those of the same graphs in one note."""
    systems: dict[tuple[str, ...], list[str]] = {}
    for system, title in TITLES.items():
        present = [one.data for one in results if any(key.system == system for key in one.rows)]
        missing = tuple(one.data for one in results if one.data not in present)
        if missing:
            systems.setdefault(missing, []).append(title)
    return [
        f"Not run on {', '.join(missing) if len(missing) < len(results) else 'these graphs'}: "
        f"{', '.join(titles)}."
        for missing, titles in systems.items()
    ]


def _counts(measured: Sequence[GraphResult]) -> list[str]:
    """Return how often the default is at or above the best baseline and the MLP."""
    notes = []
    for what, gaps in (
        ("the best baseline", [one.ahead(one.best) for one in measured]),
        ("the MLP", [one.ahead(MLP) for one in measured]),
    ):
        means = [gap.mean for gap in gaps if gap is not None]
        if means:
            above = sum(mean >= 0 for mean in means)
            near = sum(-NEAR <= mean < 0 for mean in means)
            notes.append(
                f"By the mean of the splits the default is at or above {what} on {above} of "
                f"{len(means)} graphs, less than half a point below on {near}, further below on "
                f"{len(means) - above - near}."
            )
    return notes


def _all_systems(results: Sequence[GraphResult]) -> list[Table]:
    keys = sorted_keys(dict.fromkeys(key for one in results for key in one.rows))
    tables = []
    for at in range(0, len(results), _ACROSS):
        shown = results[at : at + _ACROSS]
        rows = tuple(Row(_label(key), tuple(_entries(one, key) for one in shown)) for key in keys)
        columns = tuple((SCORES.get(one.metric, one.metric), "s") for one in shown)
        tables.append(Table(tuple(one.data for one in shown), columns, rows))
    return tables


def _entries(one: GraphResult, key: RowKey) -> tuple[TableEntry, TableEntry]:
    return TableEntry(_score(one, key), _marks(one).get(key, "")), TableEntry(one.seconds(key))


def _marks(one: GraphResult) -> dict[RowKey, str]:
    """Return the marks of the best and the second best of the complete rows."""
    means = {
        key: statistics.fmean(one.scores(key).values()) for key in filter(one.complete, one.rows)
    }
    ranked = sorted(means, key=lambda key: -means[key])
    return dict(zip(ranked, ("best", "second"), strict=False)) if len(ranked) > 1 else {}


def _score(one: GraphResult, key: RowKey) -> str:
    scores = list(one.scores(key).values())
    if not scores:
        return ", ".join(sorted({r.status for r in one.rows.get(key, {}).values()})) or NOTHING
    text = score_text(scores)
    return text if one.complete(key) else f"{text} ({len(scores)} of {len(one.seeds)})"


def _label(key: RowKey) -> str:
    return "DHIL-GT, default" if key == DEFAULT else label_of(key)


def _choices(results: Sequence[GraphResult]) -> Table | None:
    """Return the candidates that the default chose, with the number of splits; None if unknown."""
    rows = []
    for one in results:
        names: Counter[str] = Counter()
        for record in one.rows.get(DEFAULT, {}).values():
            if record.chosen is not None:
                names.update({member["name"] for member in record.chosen.get("chosen", ())})
        if names:
            ranked = sorted(names.items(), key=lambda item: (-item[1], item[0]))
            text = ", ".join(f"{name} ({count})" for name, count in ranked)
            rows.append(Row(one.data, ((TableEntry(text),),)))
    if not rows:
        return None
    note = "On how many splits each candidate was chosen, alone or in an average of several."
    return Table(("The default",), (("chose",),), tuple(rows), (note,))
