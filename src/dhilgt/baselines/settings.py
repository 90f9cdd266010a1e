"""Settings of a system: a frozen dataclass whose fields declare the values they accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from dhilgt.errors import ConfigError
from dhilgt.utils import checks

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """Base class of the settings of all systems; values are checked on creation.

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
            if "check" in item.metadata:
                value = item.metadata["check"](item.name, getattr(self, item.name))
                object.__setattr__(self, item.name, value)

    def check_heads(self) -> None:
        """Raise ConfigError if `hidden_channels` is not a multiple of `heads`."""
        width, heads = self.to_dict()["hidden_channels"], self.to_dict()["heads"]
        if width % heads:
            raise ConfigError(
                f"hidden_channels = {width} is not a multiple of heads = {heads}; change one of "
                "them"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return settings with these values, and defaults for the others.

        Raises:
            ConfigError: If a key is not a setting, or a value is invalid.
        """
        known = [item.name for item in fields(cls)]
        for key in values:
            if key not in known:
                hint = checks.name_hint(key, known)
                raise ConfigError(f"{key!r} is not a setting of this system; {hint}")
        return cls(**dict(values))


def count(default: int | None, low: int = 1, high: int = _MOST, *, optional: bool = False) -> Any:
    """Return a field for a whole number, or None if `optional`."""
    return _checked(
        default, lambda name, value: checks.whole_number(name, value, low, high, optional=optional)
    )


def counts(default: tuple[int, ...], low: int = 1) -> Any:
    """Return a field for a list of whole numbers."""

    def check(name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, (list, tuple)) or not value:
            raise ConfigError(f"{name} = {value!r}; pass a list of whole numbers")
        return tuple(checks.whole_number(name, item, low, _MOST) for item in value)

    return _checked(default, check)


def number(default: float, low: float, high: float) -> Any:
    """Return a field for a number from `low` to `high`."""
    return _checked(default, lambda name, value: checks.number(name, value, low, high))


def rate(default: float) -> Any:
    """Return a field for a dropout probability, from 0 to below 1."""
    return _checked(default, checks.fraction)


def choice(default: str, *others: str) -> Any:
    """Return a field for one of some words, of which the first is the default."""
    return _checked(default, lambda name, value: checks.choice(name, value, (default, *others)))


def switch(default: bool) -> Any:
    """Return a field for True or False."""

    def check(name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} = {value!r}; pass True or False")
        return value

    return _checked(default, check)


def _checked(default: Any, check: Callable[[str, Any], Any]) -> Any:
    return field(default=default, metadata={"check": check})
