"""Settings of a system: a frozen dataclass whose fields say what values they take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from dhilgt.errors import ConfigError
from dhilgt.utils.checks import name_hint


@dataclass(frozen=True)
class Settings:
    """Base of the settings of all systems: checked when made, plain values in and out.

    Example:
        >>> @dataclass(frozen=True)
        ... class Mine(Settings):
        ...     layers: int = count(2)
        ...     dropout: float = rate(0.5)
        >>> Mine(layers=3).to_dict()
        {'layers': 3, 'dropout': 0.5}
        >>> Mine.from_dict({"layer": 1})
        Traceback (most recent call last):
        dhilgt.errors.ConfigError: 'layer' is not a setting of this system; did you mean 'layers'?
    """

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            check = item.metadata.get("check")
            if check is not None:
                object.__setattr__(self, item.name, check(item.name, value))

    def check_heads(self) -> None:
        """Refuses a width that heads cannot share equally, for systems that have both.

        Raises:
            ConfigError: It names both.
        """
        width, heads = self.to_dict()["hidden_channels"], self.to_dict()["heads"]
        if width % heads:
            raise ConfigError(
                f"hidden_channels = {width} is not a multiple of heads = {heads}; change one of "
                "them"
            )

    def to_dict(self) -> dict[str, Any]:
        """Gives plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Gives the settings that `values` describe; what they leave out has its default.

        Raises:
            ConfigError: If a key is not a setting (the nearest one is named), or a value is wrong.
        """
        known = [item.name for item in fields(cls)]
        for key in values:
            if key not in known:
                hint = name_hint(key, known)
                raise ConfigError(f"{key!r} is not a setting of this system; {hint}")
        return cls(**dict(values))


def count(
    default: int | None, low: int = 1, high: int = 2**31 - 1, *, optional: bool = False
) -> Any:
    """Gives a field for a whole number, None too if `optional`."""

    def check(name: str, value: Any) -> int | None:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= value <= high:
            end = ", or None" if optional else ""
            raise ConfigError(f"{name} = {value!r}; pass a whole number from {low} to {high}{end}")
        return int(value)

    return field(default=default, metadata={"check": check})


def number(default: float, low: float = 0.0, high: float = math.inf) -> Any:
    """Gives a field for a number from `low` to `high`."""

    def check(name: str, value: Any) -> float:
        good = not isinstance(value, (bool, str)) and hasattr(value, "__float__")
        if not good or not low <= float(value) <= high:
            raise ConfigError(f"{name} = {value!r}; pass a number from {low:g} to {high:g}")
        return float(value)

    return field(default=default, metadata={"check": check})


def rate(default: float) -> Any:
    """Gives a field for a share that is dropped: 0 to below 1."""

    def check(name: str, value: Any) -> float:
        good = not isinstance(value, (bool, str)) and hasattr(value, "__float__")
        if not good or not 0 <= float(value) < 1:
            raise ConfigError(f"{name} = {value!r}; pass a number from 0 to below 1")
        return float(value)

    return field(default=default, metadata={"check": check})


def choice(default: str, *others: str) -> Any:
    """Gives a field for one of some words; the first one is the default."""
    words = (default, *others)

    def check(name: str, value: Any) -> str:
        if value not in words:
            raise ConfigError(f"{name} = {value!r}; choose {' or '.join(map(repr, words))}")
        return str(value)

    return field(default=default, metadata={"check": check})


def switch(default: bool) -> Any:
    """Gives a field for True or False."""

    def check(name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} = {value!r}; pass True or False")
        return value

    return field(default=default, metadata={"check": check})


def counts(default: tuple[int, ...], low: int = 1) -> Any:
    """Gives a field for a list of whole numbers."""

    def check(name: str, value: Any) -> tuple[int, ...]:
        good = isinstance(value, (list, tuple)) and len(value) > 0
        if not good or any(isinstance(n, bool) or not hasattr(n, "__index__") for n in value):
            raise ConfigError(f"{name} = {value!r}; pass a list of whole numbers")
        if min(value) < low:
            raise ConfigError(f"{name} = {value!r}; pass whole numbers of at least {low}")
        return tuple(int(n) for n in value)

    return field(default=default, metadata={"check": check})
