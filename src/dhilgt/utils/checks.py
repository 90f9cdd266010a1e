"""Checks of values from a user: numbers, fractions, choices, names, threads, arrays."""

import difflib
import math
import operator
import os
from collections.abc import Iterable
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ConfigError, GraphError, argument, setting, wording
from dhilgt.utils.synonyms import setting_meant

_OR_NONE = wording(", or None", ", or none")


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
        name: Name of the setting, for the message.
        value: The value from the user. A bool is refused.
        low: The smallest value allowed.
        high: The largest value allowed.
        optional: Whether None is allowed.

    Raises:
        ConfigError: If the value is not an integer or out of range.

    Example:
        >>> whole_number("size", 32, 1, 255)
        32
    """
    if value is None and optional:
        return None
    whole = _as_int(value)
    if whole is None or not low <= whole <= high:
        end = _OR_NONE if optional else ""
        raise ConfigError(f"{setting(name, value)}; pass a whole number from {low} to {high}{end}")
    return whole


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
        name: Name of the setting, for the message.
        value: The value from the user. A bool, text and NaN are refused.
        low: The smallest value allowed.
        high: The largest value allowed.
        above: Whether `low` itself is refused.
        optional: Whether None is allowed.

    Raises:
        ConfigError: If the value is not a number or out of range.

    Example:
        >>> number("lr", 1, 0, 10, above=True)
        1.0
    """
    if value is None and optional:
        return None
    real = _as_float(value)
    if not low <= real <= high or (above and real == low):
        start = f"above {low:g}" if above else f"from {low:g}"
        end = _OR_NONE if optional else ""
        raise ConfigError(f"{setting(name, value)}; pass a number {start} up to {high:g}{end}")
    return real


def fraction(name: str, value: Any, *, above: bool = False) -> float:
    """Return a setting from 0 to below 1, such as a dropout rate, as a float.

    Args:
        name: Name of the setting, for the message.
        value: The value from the user.
        above: Whether 0 is refused.

    Raises:
        ConfigError: If the value is not a number or out of range.
    """
    real = _as_float(value)
    if not 0 <= real < 1 or (above and real == 0):
        start = "above 0" if above else "from 0"
        raise ConfigError(f"{setting(name, value)}; pass a number {start} to below 1")
    return real


@overload
def choice(
    name: str, value: Any, choices: Iterable[str], *, optional: Literal[False] = False
) -> str: ...
@overload
def choice(name: str, value: Any, choices: Iterable[str], *, optional: bool) -> str | None: ...
def choice(name: str, value: Any, choices: Iterable[str], *, optional: bool = False) -> str | None:
    """Return a setting that must be one of a few words.

    Args:
        name: Name of the setting, for the message.
        value: The value from the user.
        choices: The words allowed.
        optional: Whether None is allowed.

    Raises:
        ConfigError: If the value is none of them.
    """
    if value is None and optional:
        return None
    words = tuple(choices)
    if value not in words:
        listed = ", ".join(f'"{word}"' for word in words) + (_OR_NONE if optional else "")
        raise ConfigError(f"{setting(name, value)}; pass one of {listed}")
    return str(value)


def true_or_false(name: str, value: Any) -> bool:
    """Return a setting that must be True or False, NumPy's included, as a bool.

    Args:
        name: Name of the setting, for the message.
        value: The value from the user.

    Raises:
        ConfigError: If the value is anything else.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{setting(name, value)}; pass True or False")
    return bool(value)


def nearest(word: Any, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name closest to a misspelt one, or None if none is close.

    What other packages call a setting counts as closest to it.

    Args:
        word: The name from the user.
        known: The known names.
        cutoff: The least similarity, from 0 to 1.

    Example:
        >>> nearest("batch_sise", ["epochs", "batch_size"]), nearest("hidden", ["hidden_channels"])
        ('batch_size', 'hidden_channels')
    """
    known = [str(name) for name in known]
    meant = setting_meant(str(word))
    if meant in known:
        return meant
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=cutoff)
    return close[0] if close else None


def name_hint(
    word: Any, known: Iterable[str], otherwise: str | None = None, *, cutoff: float = 0.6
) -> str:
    """Return the end of a message about an unknown name: the closest known name, or all of them.

    Args:
        word: The name from the user.
        known: The known names.
        otherwise: The text to return if no name is close; None lists all names.
        cutoff: The least similarity of the closest name, from 0 to 1.

    Example:
        >>> name_hint("gnc", ["gcn", "sage"]), name_hint("transformer", ["gcn", "sage"])
        ("did you mean 'gcn'?", 'known: gcn, sage')
    """
    names = [str(name) for name in known]
    close = nearest(word, names, cutoff=cutoff)
    if close is not None:
        return f"did you mean {close!r}?"
    return f"known: {', '.join(names)}" if otherwise is None else otherwise


def num_threads(threads: int | None) -> int:
    """Return the number of threads to use; None means all cores this process may run on.

    Raises:
        GraphError: If it is not a positive integer.
    """
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise GraphError(
            f"{argument('threads', threads)}; pass a number of at least 1, or None for all"
        )
    return int(threads)


def as_array(values: Any) -> NDArray[Any]:
    """Return anything array-like, torch tensors included, as a NumPy array.

    Raises:
        GraphError: If its rows differ in length.
    """
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu().numpy()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    elif isinstance(values, (list, tuple)) and any(isinstance(v, (str, bytes)) for v in values):
        # NumPy would turn numbers beside a string into strings, and cut trailing NULs.
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    try:
        return np.asarray(values)
    except ValueError as error:
        raise GraphError(f"rows of unequal length are not an array ({error})") from error


def _as_int(value: Any) -> int | None:
    try:
        return None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        return None


def _as_float(value: Any) -> float:
    """Return NaN, which is in no range, for what is not a number; text such as "0.1" is not."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__float__"):
        return math.nan
    try:
        return float(value)
    except (TypeError, OverflowError):
        return math.nan
