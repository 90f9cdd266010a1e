"""Recipes: what a comparison changes in the settings of its systems."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.features.scale import NONE
from dhilgt.settings import recipes, yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.utils.checks import name_hint

OURS = "dhilgt"
PAPER, BEST = "paper", "best"
AUTO = "auto"
"""DHIL-GT as `NodeClassifier()` trains it; see `experiments.default`."""
TUNED = "tuned"
"""The variant of GCN and GraphSAGE whose settings by dataset are those of `retuned_recipe`."""
AS_IN_PAPER = {"feature_scale": NONE, "order": "degree-id"}
"""Settings of DHIL-GT that differ from the defaults in comparisons.

Every system is given the same features, and recorded results were made with this order.
"""
PARTS = ("model", "training")
"""The settings of a system, and of its training."""


@dataclass(frozen=True)
class Changes:
    """What differs from a system's own settings.

    Attributes:
        model: Settings of the system; of `dhilgt.Settings` for DHIL-GT.
        training: Settings of the trainer.

    Example:
        >>> Changes({"heads": 4}).over(Changes({"heads": 2}, {"epochs": 3}))
        Changes(model={'heads': 4}, training={'epochs': 3})
    """

    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)

    def over(self, other: Changes) -> Changes:
        """Return both together; on conflict these are used."""
        return Changes({**other.model, **self.model}, {**other.training, **self.training})


@dataclass(frozen=True)
class Recipe:
    """Changes by system and dataset.

    Attributes:
        name: Recorded with every result: "paper", "best", "auto", or the name of the file.
        values: The content of the file, checked; empty without one.

    Example:
        >>> recipe = Recipe("mine", {"all": {"training": {"epochs": 9}},
        ...                          "gcn": {"data": {"cora": {"model": {"dropout": 0.2}}}}})
        >>> recipe.changes("gcn", "cora")
        Changes(model={'dropout': 0.2}, training={'epochs': 9})
        >>> recipe.changes("mlp", "cora")
        Changes(model={}, training={'epochs': 9})
    """

    name: str = PAPER
    values: Mapping[str, Any] = field(default_factory=dict)

    def name_for(self, system: str) -> str:
        """Return the name to record; "best" and "auto" are of DHIL-GT alone."""
        return PAPER if self.name in (BEST, AUTO) and system != OURS else self.name

    def has(self, system: str, data: str) -> bool:
        """Return whether there are settings of a system for a dataset."""
        return data in self.values.get(system, {}).get("data", {})

    def changes(self, system: str, data: str) -> Changes:
        """Return the changes for a system on a dataset; a more specific section overrides others.

        Raises:
            ConfigError: If this is the recipe "best" and none is known for the dataset.
        """
        if self.name_for(system) == BEST:
            return _best(data)
        changes = Changes()
        for name in ("all", system):
            section = self.values.get(name, {})
            changes = _changes(section).over(changes)
            changes = _changes(section.get("data", {}).get(data, {})).over(changes)
        return changes


def _best(data: str) -> Changes:
    """Return the best settings of DHIL-GT that come with the package."""
    values = dict(recipes.recipe(BEST, data))
    for name in ("metric", "seed"):  # follow from the cell
        values.pop(name, None)
    for name, value in AS_IN_PAPER.items():  # as in every comparison, so no change
        if values.get(name) == value:
            del values[name]
    training = {one.name for one in Settings.group("training")} & set(values) - {"batch_size"}
    return Changes(
        {name: value for name, value in values.items() if name not in training},
        {name: value for name, value in values.items() if name in training},
    )


def _changes(section: Mapping[str, Any]) -> Changes:
    return Changes(dict(section.get("model", {})), dict(section.get("training", {})))


def read(name: str, systems: Collection[str]) -> Recipe:
    """Return a recipe: "paper", "best", or that of a YAML file.

    Args:
        name: "paper" (every system as its own paper has it), "best" (DHIL-GT with the best settings
            that come with the package, the others by their papers), or a path.
        systems: The systems there are.

    Raises:
        ConfigError: If the file cannot be read or names something unknown.
    """
    if name in (PAPER, BEST):
        return Recipe(name)
    path = Path(name)
    if not path.exists():
        raise ConfigError(
            f"recipe {name!r} is neither 'paper' nor 'best' nor a file; check the path"
        )
    if path.stem in (PAPER, BEST, AUTO):
        raise ConfigError(f"{path} has the name of a recipe of the package; choose another name")
    values = yaml_files.read_mapping(path, "recipe")
    known = ("all", *systems)
    checked: dict[str, Any] = {}
    for system, section in values.items():
        _check_name(system, known, f"{path}: {system!r} is not a system")
        checked[system] = _section(section, f"{path}, {system}", ("data", *PARTS))
    return Recipe(path.stem, checked)


@cache
def retuned_recipe() -> Recipe:
    """Return the settings of GCN and GraphSAGE that a later study published, by dataset.

    Example:
        >>> retuned_recipe().changes("gcn", "cora").model["hidden_channels"]
        512
    """
    path = Path(str(files("dhilgt.benchmark.running"))) / "retuned.yaml"
    return read(str(path), ("gcn", "sage"))


def _section(values: Any, place: str, parts: tuple[str, ...]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for part, inner in yaml_files.section(values, place).items():
        _check_name(part, parts, f"{place}: {part!r} is not known here")
        inner = yaml_files.section(inner, f"{place}.{part}")
        if part == "data":
            inner = {
                data: _section(its, f"{place}.data.{data}", PARTS) for data, its in inner.items()
            }
        elif part == "training" and (taken := {"seed", "metric"} & set(inner)):
            raise ConfigError(
                f"{place}: {min(taken)} follows from the cell; remove it from the recipe"
            )
        elif part == "training" and "max_seconds" in inner:
            raise ConfigError(
                f"{place}: trainings of a comparison end by epochs and not by the clock; remove "
                "max_seconds, or give cells a --budget"
            )
        checked[part] = inner
    return checked


def _check_name(name: Any, known: Collection[str], problem: str) -> None:
    if name not in known:
        raise ConfigError(f"{problem}; {name_hint(name, known)}")
