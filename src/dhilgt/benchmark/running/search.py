"""The search before a comparison: the same number of settings for every system, on its own splits.

Every setting is trained on the split of the first seed, the best third of them on the splits of the
others too, and the best mean validation score of all splits wins. The rule is the same for all
systems, and no seed of a search is one of the seeds that are evaluated.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt import metrics
from dhilgt.benchmark.record import Record, SearchSummary
from dhilgt.benchmark.running.data import about
from dhilgt.benchmark.running.grid import Cell, check
from dhilgt.benchmark.running.recipe import (
    OURS,
    PAPER,
    PARTS,
    TUNED,
    Changes,
    retuned_recipe,
)
from dhilgt.errors import ConfigError
from dhilgt.settings import yaml_files
from dhilgt.tune.space import Space, space_of_choices

SEEDS = (0, 1, 2)
"""Splits that settings are chosen on."""
_KEPT = 3  # one of so many settings is trained on the further splits
_COMMON = "common"  # space of what is offered to every baseline
_MOST_DRAWS = 1000  # for settings not tried yet; a space as small as that is exhausted before


# ---- the search of one system on one graph -----------------------------------------------------


class Search:
    """The trainings of a search, stage by stage, and what they choose.

    Args:
        cell: A cell with trials; its seed is not used.
        seeds: Of the splits, in the order of the stages.

    Attributes:
        trials: The settings, as cells on the first split.
        trainings: Number of trainings of the whole search.

    Example:
        >>> search = Search(Cell("gcn", "cora", 10, trials=20))
        >>> len(search.trials), search.trainings
        (20, 34)
    """

    def __init__(self, cell: Cell, seeds: Sequence[int] = SEEDS) -> None:
        self.trials = trials_of(cell, seeds[0])
        for trial in self.trials:
            check(trial)
        self._seeds = tuple(seeds)
        self._metric = metrics.metric(about(cell.data).metrics[0])
        self._num_kept = math.ceil(len(self.trials) / _KEPT)
        self.trainings = len(self.trials) + self._num_kept * (len(seeds) - 1)

    def second_stage(self, known: Mapping[str, Record]) -> list[Cell]:
        """Return the trainings on the further splits, once all of the first split have ended."""
        first = {trial.trial: self._score(trial, known) for trial in self.trials}
        good = [trial for trial in self.trials if first[trial.trial] is not None]
        ranked = sorted(good, key=lambda one: self._loss(first[one.trial]))  # stable: first wins
        kept = ranked[: self._num_kept]
        return [replace(one, seed=seed) for seed in self._seeds[1:] for one in kept]

    def summary(self, known: Mapping[str, Record]) -> SearchSummary:
        """Return what was chosen, once all trainings have ended."""
        further = self.second_stage(known)
        kept = {trial.trial for trial in further}
        finalists = [one for one in self.trials if one.trial in kept or len(self._seeds) == 1]
        means: list[tuple[float, Cell]] = []
        for trial in finalists:
            scores = [self._score(replace(trial, seed=seed), known) for seed in self._seeds]
            whole = [score for score in scores if score is not None]
            if len(whole) == len(self._seeds):  # one that failed on a split is passed over
                means.append((statistics.fmean(whole), trial))
        best = min(means, key=lambda one: self._loss(one[0]), default=None)
        ended = [known[one.key] for one in (*self.trials, *further) if one.key in known]
        return SearchSummary(
            trials=len(self.trials),
            trials_ok=sum(self._score(trial, known) is not None for trial in self.trials),
            seed=self._seeds[0],
            chosen=None if best is None else best[1].trial,
            val_score=None if best is None else best[0],
            changes=None if best is None else best[1].changes,
            seconds=sum(record.total_seconds or 0.0 for record in ended),
            seeds=self._seeds,
            trainings=len(ended),
        )

    def _score(self, trial: Cell, known: Mapping[str, Record]) -> float | None:
        record = known.get(trial.key)
        if record is None or not record.ok or record.chosen_by != self._metric.name:
            return None
        return record.val_score

    def _loss(self, score: float | None) -> float:
        assert score is not None, "only of trainings that ended well"
        return -score if self._metric.higher_is_better else score


def trials_of(cell: Cell, seed: int) -> list[Cell]:
    """Return the settings of the search that a cell needs, as cells on one split.

    All cells of its system and data share them: first the settings of its variant, then other
    published ones of the system, then random ones.

    Args:
        cell: A cell with trials.
        seed: Of the split.
    """
    space = read_space(cell.system, variant=cell.variant)
    key = f"{cell.system}:{cell.variant} {cell.data}"
    drawn = draws(space, key, cell.trials, published(cell.system, cell.variant, cell.data))
    return [
        replace(cell, seed=seed, trials=0, trial=at, changes=_limited(one, cell.changes))
        for at, one in enumerate(drawn)
    ]


def _limited(drawn: Changes, recipe: Changes) -> Changes:
    limits = {n: v for n, v in recipe.training.items() if n == "epochs"}
    return Changes(training=limits).over(drawn.over(recipe))  # a limit holds whatever is searched


def published(system: str, variant: str = PAPER, data: str = "") -> list[Changes]:
    """Return other published settings of a system as changes of one of its variants.

    Args:
        system: Its name; DHIL-GT has no variants.
        variant: The one that is changed.
        data: A dataset for which there may be settings, too.

    Example:
        >>> published("sgformer")
        [Changes(model={'attention_layers': 2, 'graph_weight': 0.5}, training={})]
    """
    if system == OURS:
        return []
    from dhilgt.baselines.registry import system as class_of

    cls = class_of(system)

    def plain(name: str, changes: Changes) -> Changes:
        model = cls.settings_type.from_dict({**cls.variants()[name], **changes.model}).to_dict()
        return Changes(model, cls.train_config(name, **changes.training).to_dict())

    def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in new.items() if value != old[name]}

    base = plain(variant, Changes())
    others = [plain(name, Changes()) for name in cls.variants() if name != variant]
    if (retuned := retuned_recipe()).has(system, data):
        others.append(plain(TUNED, retuned.changes(system, data)))
    return [
        Changes(changed(base.model, one.model), changed(base.training, one.training))
        for one in others
    ]


# ---- spaces ------------------------------------------------------------------------------------


def read_space(system: str, folder: Path | None = None, *, variant: str = PAPER) -> Space:
    """Return the search space of a system: lists of values, for the model and for the training.

    A value that stands in a list twice is drawn twice as often. What is offered to every baseline
    is in `common.yaml`; a baseline's own list of a setting takes its place.

    Args:
        system: Its name.
        folder: Where the files lie; None for those of the package.
        variant: A variant may have a space of its own, `SYSTEM.VARIANT.yaml`.

    Raises:
        ConfigError: If there is none, or the file describes no space.
    """
    folder = Path(str(files("dhilgt.benchmark.running"))) / "spaces" if folder is None else folder
    path = folder / f"{system}.{variant}.yaml"
    if not path.is_file():
        path = folder / f"{system}.yaml"
    if not path.is_file():
        raise ConfigError(f"{system} has no search space; write one as {path}")
    values = yaml_files.read_mapping(path, "search space")
    own = space_of_choices(values, path.stem, str(path), PARTS)
    common = folder / f"{_COMMON}.yaml"
    if system == OURS or not common.is_file():
        return own
    shared = yaml_files.read_mapping(common, "search space")
    merged = {part: {**shared.get(part, {}), **values.get(part, {})} for part in PARTS}
    return space_of_choices(merged, path.stem, str(path), PARTS)


def num_settings(space: Space) -> int:
    """Return how many different settings a space of lists has."""
    return math.prod(len(set(one.choices)) for stage in space.stages for one in stage.parameters)


def draws(space: Space, key: str, count: int, first: Sequence[Changes] = ()) -> list[Changes]:
    """Return settings to try: none changed, given ones, then different random ones.

    Args:
        space: What to choose from, a stage for each part of the settings.
        key: What the draws depend on; the same key gives the same ones, in the same order,
            whatever the count.
        count: How many; fewer where the space has no more.
        first: Settings that are tried in any case.

    Example:
        >>> values = {"model": {"heads": [1, 2]}, "training": {"lr": [0.1, 0.01]}}
        >>> space = space_of_choices(values, "gcn", "gcn.yaml", PARTS)
        >>> draws(space, "gcn cora", 3, [Changes({"heads": 8})])[:2]
        [Changes(model={}, training={}), Changes(model={'heads': 8}, training={})]
        >>> draws(space, "gcn cora", 9)[:3] == draws(space, "gcn cora", 3)
        True
    """
    digest = hashlib.sha256(f"dhilgt search 1 {key}".encode()).digest()
    trial = _RandomTrial(
        np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    )
    drawn = [Changes()]
    drawn += [one for one in first if one not in drawn]
    most = num_settings(space) + len(drawn)
    for _ in range(_MOST_DRAWS + 10 * count):
        if len(drawn) >= min(count, most):
            break
        one = Changes(**{stage.name: stage.suggest(trial, {}) for stage in space.stages})
        if one not in drawn:
            drawn.append(one)
    return drawn[:count]


@dataclass(frozen=True)
class _RandomTrial:
    """Chooses at random, in the place of an Optuna trial."""

    rng: np.random.Generator

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]
