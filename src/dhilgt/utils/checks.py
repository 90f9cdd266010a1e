"""Checks of single values from a user: whole numbers, numbers, fractions, choices, names."""

import difflib
import math
from collections.abc import Iterable
from typing import Any, Literal, overload

from dhilgt.errors import ConfigError, setting


@overload
def whole_number(
    name: str, value: Any, low: int, high: int, *, optional: Literal[False] = False
) -> int: ...
@overload
def whole_number(name: str, value: Any, low: int, high: int, *, optional: bool) -> int | None: ...
def whole_number(
    name: str, value: Any, low: int, high: int, *, optional: bool = False
) -> int | None:
    """Return a setting as an int, from any integer type, NumPy's too.

    Args:
        name: Of the setting, for the message.
        value: What the user passed. A bool is refused.
        low: The smallest value allowed.
        high: The largest value allowed.
        optional: Whether None is allowed.

    Raises:
        ConfigError: If it is no integer or out of range.

    Example:
        >>> whole_number("size", 32, 1, 255)
        32
    """
    if value is None and optional:
        return None
    if _is_bool(value) or not hasattr(value, "__index__") or not low <= value <= high:
        end = ", or None" if optional else ""
        raise ConfigError(f"{setting(name, value)}; pass a whole number from {low} to {high}{end}")
    return int(value)


@overload
def number(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    above: bool = False,
    optional: Literal[False] = False,
) -> float: ...
@overload
def number(
    name: str, value: Any, low: float, high: float, *, above: bool = False, optional: bool
) -> float | None: ...
def number(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    above: bool = False,
    optional: bool = False,
) -> float | None:
    """Return a setting as a float, from any numeric type.

    Args:
        name: Of the setting, for the message.
        value: What the user passed. A bool, text and NaN are refused.
        low: The smallest value allowed.
        high: The largest value allowed.
        above: Whether `low` itself is refused.
        optional: Whether None is allowed.

    Raises:
        ConfigError: If it is no number or out of range.

    Example:
        >>> number("lr", 1, 0, 10, above=True)
        1.0
    """
    if value is None and optional:
        return None
    # Text has no float protocol, so "0.1" is refused while a NumPy number passes.
    real = float(value) if hasattr(value, "__float__") and not _is_bool(value) else math.nan
    if not low <= real <= high or (above and real == low):
        start = f"above {low:g}" if above else f"from {low:g}"
        end = ", or None" if optional else ""
        raise ConfigError(f"{setting(name, value)}; pass a number {start} up to {high:g}{end}")
    return real


def fraction(name: str, value: Any) -> float:
    """Return a setting between 0 and 1, 1 itself excluded, such as a dropout rate.

    Args:
        name: Of the setting, for the message.
        value: What the user passed.

    Raises:
        ConfigError: If it is no number or out of range.
    """
    real = float(value) if hasattr(value, "__float__") and not _is_bool(value) else math.nan
    if not 0 <= real < 1:
        raise ConfigError(f"{setting(name, value)}; pass a number from 0 to below 1")
    return real


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return a setting that is one of some words.

    Args:
        name: Of the setting, for the message.
        value: What the user passed.
        choices: The words allowed.

    Raises:
        ConfigError: If it is none of them.
    """
    words = tuple(choices)
    if value not in words:
        listed = ", ".join(f'"{word}"' for word in words)
        raise ConfigError(f"{setting(name, value)}; pass one of {listed}")
    return str(value)


def nearest(word: Any, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name most like a misspelt one, None where none is alike.

    Args:
        word: What the user wrote.
        known: The names there are.
        cutoff: How alike they must be, from 0 to 1.

    Example:
        >>> nearest("learning_rat", ["epochs", "learning_rate"])
        'learning_rate'
    """
    close = difflib.get_close_matches(str(word), [str(name) for name in known], n=1, cutoff=cutoff)
    return close[0] if close else None


def name_hint(
    word: Any, known: Iterable[str], otherwise: str | None = None, *, cutoff: float = 0.6
) -> str:
    """Return the end of a message about an unknown name: the nearest one, or all there are.

    Args:
        word: What the user wrote.
        known: The names there are.
        otherwise: What to say where no name is alike; None lists them all.
        cutoff: How alike the nearest name must be, from 0 to 1.

    Example:
        >>> name_hint("gnc", ["gcn", "sage"]), name_hint("transformer", ["gcn", "sage"])
        ("did you mean 'gcn'?", 'known: gcn, sage')
    """
    names = [str(name) for name in known]
    close = nearest(word, names, cutoff=cutoff)
    if close is not None:
        return f"did you mean {close!r}?"
    return f"known: {', '.join(names)}" if otherwise is None else otherwise


def _is_bool(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # NumPy's has either name
