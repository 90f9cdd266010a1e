"""Search spaces: for every system a file of values to try, and the settings drawn from it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.benchmark import plain_yaml
from dhilgt.benchmark.recipe import PAPER, Changes
from dhilgt.errors import ConfigError

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
    folder = Path(str(files("dhilgt.benchmark"))) / "spaces" if folder is None else folder
    path = folder / f"{system}.{variant}.yaml"
    if not path.is_file():
        path = folder / f"{system}.yaml"
    if not path.is_file():
        raise ConfigError(f"{system} has no search space; write one as {path}")
    found: dict[str, dict[str, list[Any]]] = {}
    for part, values in plain_yaml.read(path, "search space").items():
        if part not in ("model", "training"):
            raise ConfigError(f"{path}: {part!r}; write 'model' or 'training'")
        found[part] = {}
        for name, options in plain_yaml.section(values, f"{path}, {part}").items():
            if not isinstance(options, list) or not options:
                raise ConfigError(f"{path}: {name} is {options!r}; write a list of values to try")
            found[part][name] = [plain_yaml.number(option) for option in options]
    return Space(found)
