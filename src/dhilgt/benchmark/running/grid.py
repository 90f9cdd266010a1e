"""The cells of a comparison: system, dataset and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dhilgt.benchmark.running.recipe import OURS, PAPER, Changes, Recipe
from dhilgt.errors import ConfigError
from dhilgt.store.files import canonical_json

REFERENCES = ("gcn", "sage", "linkx", "mlp")
"""Systems that every table has, as a reference for the others."""

OWN, OFFICIAL = SPLITS = ("own", "official")
"""Kinds of split: random ones of the package, 60/20/20, or those that come with the data."""


@dataclass(frozen=True)
class Cell:
    """One training to be done.

    Attributes:
        system: "dhilgt", or the name of a baseline.
        data: Name of the dataset.
        seed: Of the split, of the first weights and of the training.
        variant: Named settings of the system to begin with.
        recipe: Name of the recipe.
        changes: What the recipe changes in the settings.
        trials: Settings that a search tries before; 0 for none.
        trial: Number of the trial of a search that this is; None for a cell of the table.
        split: Kind of split: "own" (the seed draws it) or "official" (the seed modulo their number
            is its place among those that come with the data).

    Example:
        >>> Cell("gcn", "cora", 0).name, Cell("gcn", "cora", 1, "tuned", trial=4).name
        ('gcn cora seed 0', 'gcn:tuned cora seed 1 trial 4')
        >>> Cell("gcn", "squirrel", 13, split="official").name
        'gcn squirrel official seed 13'
    """

    system: str
    data: str
    seed: int
    variant: str = PAPER
    recipe: str = PAPER
    changes: Changes = field(default_factory=Changes)
    trials: int = 0
    trial: int | None = None
    split: str = OWN

    @property
    def name(self) -> str:
        """Short, for messages."""
        system = self.system if self.variant == PAPER else f"{self.system}:{self.variant}"
        number = "" if self.trial is None else f" trial {self.trial}"
        kind = "" if self.split == OWN else f" {self.split}"
        return f"{system} {self.data}{kind} seed {self.seed}{number}"

    @property
    def key(self) -> str:
        """16 hexadecimal digits that are equal for equal work."""
        values = asdict(self)
        if self.split == OWN:  # as before there were kinds of split: old lines keep their keys
            del values["split"]
        return hashlib.sha256(b"dhilgt cell 1" + canonical_json(values)).hexdigest()[:16]

    def varied(self, name: str, model: dict[str, Any]) -> Cell:
        """Return a cell with some settings of the model changed, named in its recipe."""
        changes = Changes(model).over(self.changes)
        return replace(self, recipe=f"{self.recipe}, {name}", changes=changes)


def models(text: str, *, references: bool = True) -> list[tuple[str, str]]:
    """Return the systems meant by "all" or a list like "dhilgt,gcn:tuned", each with its variant.

    Args:
        text: The list.
        references: Whether GCN, GraphSAGE, LINKX and MLP join where they are not named.

    Raises:
        ConfigError: If a system or variant is not known.

    Example:
        >>> models("dhilgt,gcn:tuned", references=False)
        [('dhilgt', 'paper'), ('gcn', 'tuned')]
    """
    from dhilgt import baselines

    systems: list[tuple[str, str]] = []
    for part in (part.strip() for part in text.split(",")):
        if part == "all":
            systems += [(OURS, PAPER), *((name, PAPER) for name in baselines.names())]
            continue
        system, _, variant = part.partition(":")
        variant = variant or PAPER
        known = [PAPER] if system == OURS else list(baselines.describe(system)["variants"])
        if variant not in known:
            raise ConfigError(f"{system} has no variant {variant!r}; choose {', '.join(known)}")
        systems.append((system, variant))
    if references:
        named = {system for system, _ in systems}
        systems += [(name, PAPER) for name in REFERENCES if name not in named]
    return list(dict.fromkeys(systems))


def cells(
    systems: Sequence[tuple[str, str]],
    data: Sequence[str],
    seeds: Sequence[int],
    recipe: Recipe | None = None,
    *,
    epochs: int | None = None,
    trials: int = 0,
    split: str = OWN,
) -> list[Cell]:
    """Return all cells, seed by seed: an incomplete run then has few seeds of all systems.

    Args:
        systems: Systems with their variants.
        data: Datasets.
        seeds: Seeds.
        recipe: How systems are trained; None for each as its own paper has it.
        epochs: The most epochs of every system; None for those of the recipe.
        trials: Settings to try in a search before.
        split: Kind of split, "own" or "official".

    Raises:
        ConfigError: If a setting of the recipe does not exist or has a wrong value.
    """
    recipe = Recipe() if recipe is None else recipe
    limit = Changes(training={} if epochs is None else {"epochs": epochs})
    grid = []
    for seed in seeds:
        for name in data:
            for system, variant in systems:
                changes = limit.over(recipe.changes(system, name))
                used = recipe.name_for(system)
                cell = Cell(system, name, seed, variant, used, changes, trials, split=split)
                check(cell)
                grid.append(cell)
    return grid


def check(cell: Cell) -> None:
    """Refuse settings that do not exist or have a wrong value, before any work.

    Raises:
        ConfigError: It names the cell.
    """
    from dhilgt.benchmark.running.contenders import resolved

    try:
        resolved(cell, "accuracy")
    except ConfigError as error:
        raise ConfigError(f"{cell.name}: {error}") from error
