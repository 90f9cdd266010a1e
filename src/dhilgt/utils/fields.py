"""Settings classes: frozen dataclasses whose fields state default, meaning and accepted values."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

from dhilgt.errors import ConfigError
from dhilgt.utils import checks

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_LARGEST_LIMIT_SHOWN = 1024


@dataclass(frozen=True)
class CheckedSettings:
    """Base of settings classes: every field is checked on construction.

    The docstring of a subclass ends with the help of its fields.

    Example:
        >>> @dataclass(frozen=True)
        ... class Mine(CheckedSettings):
        ...     layers: int = count(2, help="Linear layers.")
        ...     dropout: float = rate(0.5)
        >>> Mine(layers=3).to_dict()
        {'layers': 3, 'dropout': 0.5}
        >>> Mine.from_dict({"layer": 1})
        Traceback (most recent call last):
        dhilgt.errors.ConfigError: 'layer' is not a setting; did you mean 'layers'?
    """

    _noun: ClassVar[str] = "a setting"

    def __init_subclass__(cls) -> None:
        helps = {
            name: value.metadata["help"]
            for name, value in vars(cls).items()
            if isinstance(value, Field) and value.metadata.get("help")
        }
        if helps and cls.__doc__:
            listed = "".join(f"\n    {name}: {text}" for name, text in helps.items())
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\nAttributes:{listed}\n"

    def __post_init__(self) -> None:
        for one in fields(self):
            check = one.metadata.get("check")
            if check is not None:
                self._set(one.name, check(one.name, getattr(self, one.name)))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by name, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings in ``values``; those left out have their defaults.

        Raises:
            ConfigError: If a key is not a setting (the message names the nearest one), one without
                a default is missing, or a value is wrong.
        """
        known = {one.name: one for one in fields(cls)}
        for key in values:
            if key not in known:
                hint = checks.name_hint(key, known)
                raise ConfigError(f"{key!r} is not {cls._noun}; {hint}")
        for name, one in known.items():
            if one.default is MISSING and name not in values:
                raise ConfigError(f"setting {name} is missing; it has no default")
        return cls(**dict(values))


def declared(
    default: Any,
    check: Callable[[str, Any], Any],
    *,
    help: str = "",
    values: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """Return a field.

    Args:
        default: The default.
        check: Takes name and value; returns the value to keep or raises `ConfigError`.
        help: One sentence on what the setting does.
        values: The accepted values in words, for the documentation.
        choices: The accepted words, where there are only some.
    """
    about = {"check": check, "help": help, "values": values, "choices": choices}
    return field(default=default, metadata=about)


def count(
    default: int | str | None,
    low: int = 1,
    high: int = 2**31 - 1,
    *,
    optional: bool = False,
    word: str | None = None,
    help: str = "",
) -> Any:
    """Return a field for a whole number.

    Args:
        default: The default; None allows None, and a word needs `word`.
        low: Smallest value.
        high: Largest value.
        optional: Whether None is allowed although it is not the default.
        word: A word that is allowed in place of a number.
        help: See `declared`.
    """
    optional = optional or default is None

    def check(name: str, value: Any) -> Any:
        if word is not None and value == word:
            return word
        try:
            return checks.whole_number(name, value, low, high, optional=optional)
        except ConfigError as error:
            raise error if word is None else ConfigError(f'{error}, or "{word}"') from None

    values = _range(low, high, f'`"{word}"`' if word else "None" if optional else None)
    return declared(default, check, help=help, values=values)


def number(
    default: float | None,
    low: float = 0.0,
    high: float = math.inf,
    *,
    above: bool = False,
    optional: bool = False,
    help: str = "",
) -> Any:
    """Return a field for a number; see `count`. With ``above``, ``low`` itself is refused."""
    optional = optional or default is None

    def check(name: str, value: Any) -> float | None:
        return checks.number(name, value, low, high, above=above, optional=optional)

    values = _range(low, high, "None" if optional else None, above=above)
    return declared(default, check, help=help, values=values)


def rate(default: float, *, above: bool = False, help: str = "") -> Any:
    """Return a field for a fraction from 0 to below 1; ``above`` excludes 0."""

    def check(name: str, value: Any) -> float:
        return checks.fraction(name, value, above=above)

    values = "between 0 and 1" if above else "from 0 to below 1"
    return declared(default, check, help=help, values=values)


def choice(default: str | None, *others: str, help: str = "") -> Any:
    """Return a field for one of some words, and None where that is the default."""
    words = others if default is None else (default, *others)

    def check(name: str, value: Any) -> str | None:
        return checks.choice(name, value, words, optional=default is None)

    listed = [f'`"{word}"`' for word in words] + ["None"] * (default is None)
    return declared(default, check, help=help, values=", ".join(listed), choices=words)


def switch(default: bool, *, help: str = "") -> Any:
    """Return a field for True or False."""
    return declared(default, checks.true_or_false, help=help, values="True, False")


def text(default: str, *, help: str = "", values: str = "") -> Any:
    """Return a field for a text that is not empty."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{name} = {value!r}; pass a name")
        return value

    return declared(default, check, help=help, values=values)


def counts(default: tuple[int, ...], low: int = 1) -> Any:
    """Return a field for a list of whole numbers."""

    def check(name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, (list, tuple)) or not value:
            raise ConfigError(f"{name} = {value!r}; pass a list of whole numbers")
        return tuple(checks.whole_number(name, one, low, 2**31 - 1) for one in value)

    return declared(default, check)


def _range(low: float, high: float, other: str | None, *, above: bool = False) -> str:
    """Return a range in words; a limit that nobody reaches is left out."""
    start = f"{'above' if above else 'from'} {low:g}"
    end = f"{', up' if above else ''} to {high:g}" if high <= _LARGEST_LIMIT_SHOWN else ""
    return start + end + (f", or {other}" if other else "")


def takes(
    arguments: Callable[_Arguments, Any], *, by_name: bool = False
) -> Callable[[Callable[..., _Result]], Callable[Concatenate[Any, _Arguments], _Result]]:
    """Return a decorator that gives a method the signature of a class or function.

    Type checkers, editors and `inspect.signature` then show the arguments.

    Args:
        arguments: What has the signature.
        by_name: Whether the method takes keyword arguments only.
    """

    def decorate(method: Any) -> Any:
        signature = inspect.signature(arguments)
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        for one in signature.parameters.values():
            kind = inspect.Parameter.KEYWORD_ONLY if by_name else one.kind
            parameters.append(one.replace(kind=kind))
        method.__signature__ = signature.replace(parameters=parameters, return_annotation=None)
        return method

    return decorate
