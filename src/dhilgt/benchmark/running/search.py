"""The search before a comparison: the same number of random settings for every system."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import PAPER, PARTS, Changes
from dhilgt.errors import ConfigError
from dhilgt.settings import yaml_files
from dhilgt.tune.space import Space, space_of_choices

_MOST_DRAWS = 1000  # for settings not tried yet; a space as small as that is exhausted before


def trials_of(cell: Cell, seed: int) -> list[Cell]:
    """Return the trials of the search that a cell needs; all cells of its system and data share it.

    Args:
        cell: A cell with trials.
        seed: Of the split that is searched on.
    """
    space = read_space(cell.system, variant=cell.variant)
    drawn = draws(space, f"{cell.system}:{cell.variant} {cell.data}", cell.trials)
    return [
        replace(cell, seed=seed, trials=0, trial=at, changes=_limited(one, cell.changes))
        for at, one in enumerate(drawn)
    ]


def _limited(drawn: Changes, recipe: Changes) -> Changes:
    limits = {n: v for n, v in recipe.training.items() if n in ("epochs", "max_seconds")}
    return Changes(training=limits).over(drawn.over(recipe))  # limits hold whatever is searched


def read_space(system: str, folder: Path | None = None, *, variant: str = PAPER) -> Space:
    """Return the search space of a system: lists of values, for the model and for the training.

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
    return space_of_choices(
        yaml_files.read_mapping(path, "search space"), path.stem, str(path), PARTS
    )


def num_settings(space: Space) -> int:
    """Return how many different settings a space of lists has."""
    return math.prod(len(one.choices) for stage in space.stages for one in stage.parameters)


def draws(space: Space, key: str, count: int) -> list[Changes]:
    """Return settings to try: first none changed, then different random ones.

    Args:
        space: What to choose from, a stage for each part of the settings.
        key: What the draws depend on; the same key gives the same ones, in the same order,
            whatever the count.
        count: How many; fewer where the space has no more.

    Example:
        >>> values = {"model": {"heads": [1, 2]}, "training": {"lr": [0.1, 0.01]}}
        >>> space = space_of_choices(values, "gcn", "gcn.yaml", PARTS)
        >>> draws(space, "gcn cora", 3)[0]
        Changes(model={}, training={})
        >>> draws(space, "gcn cora", 9)[:3] == draws(space, "gcn cora", 3)
        True
    """
    digest = hashlib.sha256(f"dhilgt search 1 {key}".encode()).digest()
    trial = _RandomTrial(
        np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    )
    drawn = [Changes()]
    for _ in range(_MOST_DRAWS + 10 * count):
        if len(drawn) >= min(count, num_settings(space) + 1):
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
