"""The results of the protocol, graph by graph: who is complete, who is first, what differs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dhilgt.benchmark.experiments.default import DEFAULT, GRAPHS, check_split
from dhilgt.benchmark.experiments.protocol import DEFAULTS, SEARCH, SEEDS
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import OFFICIAL
from dhilgt.benchmark.running.recipe import AUTO, OURS, PAPER
from dhilgt.benchmark.show import paired
from dhilgt.benchmark.show.paired import BySeed, Difference
from dhilgt.benchmark.show.tables import NOT_RUN, WORDS, RowKey, row_key
from dhilgt.errors import ArtifactError

LEVEL = 0.05
"""Corrected p values below it are differences."""
RETUNED = "retuned"


@dataclass(frozen=True)
class Comparison:
    """Our row compared with another one over the splits of a graph.

    Attributes:
        gap: Our score minus the other one, split by split.
        p_value: Of the t test, corrected for the number of rows of the graph.
    """

    gap: Difference
    p_value: float

    @property
    def is_seen(self) -> bool:
        """Whether the difference is larger than chance explains."""
        return self.p_value < LEVEL


@dataclass(frozen=True)
class Column:
    """The records of one graph under one kind of split.

    Attributes:
        data: The dataset.
        split: "own" or "official".
        metric: The score that ranks systems.
        ours: The row that others are compared with.
        rows: Records by row and seed.
    """

    data: str
    split: str
    metric: str
    ours: RowKey
    rows: Mapping[RowKey, BySeed] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The dataset, with the kind of split where it is the official one."""
        return f"{self.data}, official splits" if self.split == OFFICIAL else self.data

    @cached_property
    def seeds(self) -> set[int]:
        """All splits that any row was run on: a row without one of them is incomplete."""
        return {seed for by_seed in self.rows.values() for seed in by_seed}

    @property
    def missing(self) -> int:
        """How many splits of the protocol no row has been run on."""
        return max(0, len(SEEDS) - len(self.seeds))

    def scores(self, key: RowKey) -> dict[int, float]:
        """Return the test scores of a row by seed, of trainings that came to their own end."""
        whole = {seed: one for seed, one in self.rows.get(key, {}).items() if not one.out_of_time}
        return paired.scores(whole)

    def is_complete(self, key: RowKey) -> bool:
        """Return whether a row has a score on every split."""
        return bool(self.seeds) and self.seeds <= set(self.scores(key))

    def reason(self, key: RowKey) -> str:
        """Return why a row has no figure, in a few words; "" for a complete one."""
        if self.is_complete(key):
            return ""
        by_seed = self.rows.get(key, {})
        words: dict[str, int] = {}
        for record in by_seed.values():
            if not record.ok:
                word = WORDS.get(record.status, record.status)
                words[word] = words.get(word, 0) + 1
            elif record.out_of_time:
                words["cut by time"] = words.get("cut by time", 0) + 1
        if missing := len(self.seeds - set(by_seed)):
            words[NOT_RUN] = missing
        undefined = len(self.seeds) - len(self.scores(key)) - sum(words.values())
        if undefined > 0:
            words["undefined"] = undefined
        of = len(self.seeds)
        parts = [word if n == of else f"{word} on {n} of {of}" for word, n in words.items()]
        return ", ".join(parts)

    @cached_property
    def means(self) -> dict[RowKey, float]:
        """Mean scores of complete rows, the highest first."""
        known = {
            key: statistics.fmean(self.scores(key).values())
            for key in self.rows
            if self.is_complete(key)
        }
        return dict(sorted(known.items(), key=lambda one: -one[1]))

    def place(self, key: RowKey) -> int | None:
        """Return the rank of a complete row, from 1; equal means share one. None for others."""
        if key not in self.means:
            return None
        return 1 + sum(mean > self.means[key] for mean in self.means.values())

    @property
    def best_other(self) -> RowKey | None:
        """The complete row of the highest mean among other systems; None without one."""
        return next((key for key in self.means if key.system != OURS), None)

    @cached_property
    def comparisons(self) -> dict[RowKey, Comparison]:
        """Our row against every other complete row, p values corrected by Holm's method."""
        if self.ours not in self.means:
            return {}
        ours = self.rows[self.ours]
        gaps = {
            key: paired.paired_difference(self.rows[key], ours)
            for key in self.means
            if key != self.ours
        }
        found = {key: gap for key, gap in gaps.items() if gap is not None}
        values = {key: paired.p_value(gap) for key, gap in found.items()}
        corrected = paired.holm({key: one for key, one in values.items() if one is not None})
        return {key: Comparison(found[key], corrected[key]) for key in corrected}


def columns_of(records: Iterable[Record], table: str) -> list[Column]:
    """Return the results of a table by graph and kind of split.

    Args:
        records: Of results files; of two of a cell the later counts.
        table: "defaults" or "search".

    Raises:
        ArtifactError: If records contradict each other: two of one cell with different settings,
            two of one seed with different splits, or searches with different numbers of trials.
    """
    rows: dict[tuple[str, str], dict[RowKey, BySeed]] = {}
    metrics: dict[str, str] = {}
    splits: dict[tuple[str, str, int], str] = {}
    for record in records:
        if not _belongs(record, table):
            continue
        check_split(record, splits)
        cell = record.cell
        metrics[cell.data] = record.metrics[0]
        by_row = rows.setdefault((cell.data, cell.split), {})
        paired.add(by_row.setdefault(row_key(record), {}), record)
    for (data, _), by_row in rows.items():
        if len(counts := {key.trials for key in by_row}) > 1:
            raise ArtifactError(
                f"{data}: searches of {' and '.join(map(str, sorted(counts)))} trials are not "
                "equal; show files that were made with the same --trials"
            )
    order = {name: at for at, name in enumerate(GRAPHS)}
    places = sorted(rows, key=lambda one: (one[1] == OFFICIAL, order.get(one[0], 99), one[0]))
    return [
        Column(data, split, metrics[data], _ours(rows[data, split]), rows[data, split])
        for data, split in places
    ]


def _belongs(record: Record, table: str) -> bool:
    cell = record.cell
    if cell.trial is not None or record.standin_for is not None:
        return False
    if table == SEARCH:
        return bool(cell.trials)
    assert table == DEFAULTS
    recipes = (AUTO, PAPER) if cell.system == OURS else (PAPER, RETUNED)
    return not cell.trials and cell.recipe in recipes


def _ours(rows: Mapping[RowKey, BySeed]) -> RowKey:
    """Return the row of ours: the searched one, else the default."""
    return next((key for key in rows if key.system == OURS and key.trials), DEFAULT)
