"""Settings of the systems of a comparison, fixed or drawn from a search space."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import ConfigError
from dhilgt.settings import recipes, yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.utils.checks import name_hint

OURS = "dhilgt"
PAPER, BEST = "paper", "best"
_PARTS = ("model", "training")


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
        """Gives both together; these count more."""
        return Changes({**other.model, **self.model}, {**other.training, **self.training})


@dataclass(frozen=True)
class Recipe:
    """Changes by system and dataset.

    Attributes:
        name: To record beside every figure: "paper", "best", or the name of the file.
        values: What the file says, checked; empty without one.

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
        """Gives the name to record: the best settings are known of DHIL-GT alone."""
        return PAPER if self.name == BEST and system != OURS else self.name

    def changes(self, system: str, data: str) -> Changes:
        """Gives the changes for a system on a dataset: the nearer a line, the more it counts.

        Raises:
            ConfigError: If this is the recipe "best" and none is known for the dataset.
        """
        if self.name_for(system) == BEST:
            return _best(data)
        found = Changes()
        for name in ("all", system):
            section = self.values.get(name, {})
            found = _part(section).over(found)
            found = _part(section.get("data", {}).get(data, {})).over(found)
        return found


def _best(data: str) -> Changes:
    """Gives the best settings of DHIL-GT that come with the package."""
    values = dict(recipes.recipe(BEST, data))
    for name in ("metric", "seed"):  # follow from the cell
        values.pop(name, None)
    training = {one.name for one in Settings.group("training")} & set(values) - {"batch_size"}
    return Changes(
        {name: value for name, value in values.items() if name not in training},
        {name: value for name, value in values.items() if name in training},
    )


def _part(section: Mapping[str, Any]) -> Changes:
    return Changes(dict(section.get("model", {})), dict(section.get("training", {})))


def read(name: str, systems: Collection[str]) -> Recipe:
    """Gives a recipe: "paper", "best", or that of a YAML file.

    Args:
        name: "paper" (every system as its own paper has it), "best" (DHIL-GT with the best settings
            that come with the package, the others by their papers), or a path.
        systems: The systems there are, to refuse slips.

    Raises:
        ConfigError: If the file cannot be read or says something unknown.
    """
    if name in (PAPER, BEST):
        return Recipe(name)
    path = Path(name)
    if not path.exists():
        raise ConfigError(
            f"recipe {name!r} is neither 'paper' nor 'best' nor a file; check the path"
        )
    if path.stem in (PAPER, BEST):
        raise ConfigError(f"{path} has the name of a recipe of the package; choose another name")
    values = yaml_files.read_mapping(path, "recipe")
    known = ("all", *systems)
    found: dict[str, Any] = {}
    for system, section in values.items():
        _check_name(system, known, f"{path}: {system!r} is not a system")
        found[system] = _section(section, f"{path}, {system}", ("data", *_PARTS))
    return Recipe(path.stem, found)


def _section(values: Any, place: str, parts: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, inner in yaml_files.section(values, place).items():
        _check_name(part, parts, f"{place}: {part!r} is not known here")
        inner = yaml_files.section(inner, f"{place}.{part}")
        if part == "data":
            inner = {
                data: _section(its, f"{place}.data.{data}", _PARTS) for data, its in inner.items()
            }
        elif part == "training" and (taken := {"seed", "metric"} & set(inner)):
            raise ConfigError(
                f"{place}: {min(taken)} follows from the cell; remove it from the recipe"
            )
        found[part] = inner
    return found


def _check_name(name: Any, known: Collection[str], problem: str) -> None:
    if name not in known:
        hint = name_hint(name, known)
        raise ConfigError(f"{problem}; {hint}")


_MOST_DRAWS = 1000  # for settings not tried yet; a space as small as that is used up before


class Space:
    """The values to try, by part and setting.

    Example:
        >>> space = Space({"model": {"heads": [1, 2]}, "training": {"lr": [0.1, 0.01]}})
        >>> space.size, space.draws("gcn cora", 3)[0]
        (4, Changes(model={}, training={}))
        >>> space.draws("gcn cora", 9)[:3] == space.draws("gcn cora", 3)
        True
    """

    def __init__(self, values: dict[str, dict[str, list[Any]]]) -> None:
        self._choices = [
            (part, name, options)
            for part in ("model", "training")
            for name, options in values.get(part, {}).items()
        ]

    @property
    def size(self) -> int:
        """How many different settings there are."""
        return int(np.prod([len(options) for _, _, options in self._choices], dtype=object))

    def draws(self, key: str, count: int) -> list[Changes]:
        """Gives settings to try: first none changed, then different random ones.

        Args:
            key: What the draws depend on; the same key gives the same ones, in the same order,
                whatever the count.
            count: How many; fewer where the space has no more.
        """
        digest = hashlib.sha256(f"dhilgt search 1 {key}".encode()).digest()
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
        found = [Changes()]
        for _ in range(_MOST_DRAWS + 10 * count):
            if len(found) >= min(count, self.size + 1):
                break
            picked = [int(rng.integers(len(options))) for _, _, options in self._choices]
            one = self._changes(picked)
            if one not in found:
                found.append(one)
        return found[:count]

    def all(self) -> Iterator[Changes]:
        """Gives every setting of the space."""
        for picked in itertools.product(*(range(len(options)) for *_, options in self._choices)):
            yield self._changes(list(picked))

    def _changes(self, picked: list[int]) -> Changes:
        found = Changes()
        for at, (part, name, options) in zip(picked, self._choices, strict=True):
            getattr(found, part)[name] = options[at]
        return found


def space_of(system: str, folder: Path | None = None, *, variant: str = PAPER) -> Space:
    """Gives the space of a system.

    Args:
        system: Its name.
        folder: Where the files lie; None for those of the package.
        variant: A variant may have a space of its own, `SYSTEM.VARIANT.yaml`.

    Raises:
        ConfigError: If there is none, or it is not one.
    """
    folder = Path(str(files("dhilgt.benchmark.running"))) / "spaces" if folder is None else folder
    path = folder / f"{system}.{variant}.yaml"
    if not path.is_file():
        path = folder / f"{system}.yaml"
    if not path.is_file():
        raise ConfigError(f"{system} has no search space; write one as {path}")
    found: dict[str, dict[str, list[Any]]] = {}
    for part, values in yaml_files.read_mapping(path, "search space").items():
        if part not in ("model", "training"):
            raise ConfigError(f"{path}: {part!r}; write 'model' or 'training'")
        found[part] = {}
        for name, options in yaml_files.section(values, f"{path}, {part}").items():
            if not isinstance(options, list) or not options:
                raise ConfigError(f"{path}: {name} is {options!r}; write a list of values to try")
            found[part][name] = [yaml_files.number(option) for option in options]
    return Space(found)
