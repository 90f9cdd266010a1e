"""Cells of text: which are missing, and whether a column holds numbers, booleans, dates or words.

These rules are the only ones: `arrow_text` is a faster way to the same values.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument
from dhilgt.graph.node_ids import as_objects
from dhilgt.graph.table import Column

KINDS = ("number", "category", "boolean", "date", "text")
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>", "#N/A", "-", "?")
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_CODE = re.compile(r"[+-]?0[0-9]+", re.ASCII)  # a zero in front: 01234 is a code
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[.,' ][0-9]{3})+(?:[.,][0-9]+)?", re.ASCII)
_DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII,
)
_BOOLEANS = ({"true": True, "false": False}, {"yes": True, "no": False})


def is_missing(cell: Any) -> bool:
    """Return whether a cell is empty: no value, NaN, or one of the words of `MISSING`.

    Example:
        >>> [is_missing(cell) for cell in ("NA", "", None, float("nan"), "none", 0)]
        [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        return cell in MISSING
    return cell is None or bool(cell != cell)


def is_number(text: str) -> bool:
    """Return whether a cell is a number, with a decimal point or comma; 1_000 and nan are none.

    Example:
        >>> [is_number(text) for text in ("-1.5e3", "+1", "007", "inf", "0,5", "1_000", "nan", "")]
        [True, True, True, True, True, False, False, False]
    """
    return bool(_NUMBER.fullmatch(text) or _DECIMAL_COMMA.fullmatch(text))


def is_whole(text: str) -> bool:
    """Return whether a cell is a whole number, written as such or like 7.0."""
    digits = text.removeprefix("-").removesuffix(".0")
    return digits.isascii() and digits.isdigit()


def typed(
    name: str,
    texts: Sequence[str],
    place: Callable[[int], str],
    *,
    kind: str | None = None,
    decimal_comma: bool = False,
) -> Column:
    """Return the column of some cells: integers, floats, booleans, dates (UTC) or text.

    Numbers with a zero in front are codes, so text. A column of numbers with a few words among
    them is refused: a word may be a slip.

    Args:
        name: Name of the column.
        texts: The cells.
        place: Returns file and line of a row, for messages.
        kind: The kind the column must have; None to infer it.
        decimal_comma: Whether 0,5 is a number.

    Example:
        >>> column = typed("age", ["31", "NA", "7"], str)
        >>> column.kind, column.values.tolist(), column.num_missing
        ('number', [31, 0, 7], 1)
    """
    missing = np.fromiter((text in MISSING for text in texts), np.bool_, len(texts))
    known = set(texts) - MISSING
    if kind in ("category", "text"):
        return Column(name, as_objects(list(texts)), missing)
    if kind in (None, "boolean"):
        for words in _BOOLEANS:
            if known and all(text.lower() in words for text in known):
                flags = [words.get(text.lower(), False) for text in texts]
                return Column(name, np.array(flags, np.bool_), missing)
    if kind in (None, "number"):
        numbers = _numbers(name, texts, known, place, kind is not None, decimal_comma)
        if numbers is not None:
            return Column(name, numbers, missing)
    if kind in (None, "date"):
        days = _dates(texts, known)
        if days is not None:
            return Column(name, days, missing)
    if kind is not None:
        _refuse_other_kind(name, texts, place, kind, decimal_comma)
    return Column(name, as_objects(list(texts)), missing)


# ---- numbers -----------------------------------------------------------------------------------


def _numbers(
    name: str,
    texts: Sequence[str],
    known: set[str],
    place: Callable[[int], str],
    forced: bool,
    decimal_comma: bool,
) -> NDArray[Any] | None:
    """Return the numbers of a column, zeros for missing cells; None if it holds something else."""
    commas = {text for text in known if "," in text and _DECIMAL_COMMA.fullmatch(text)}
    plain = {text for text in known - commas if _NUMBER.fullmatch(text)}
    others = known - commas - plain
    grouped = {text for text in others if _GROUPED.fullmatch(text)}
    if others == grouped and (commas or grouped):
        unclear = grouped or (
            commas if not decimal_comma or _may_be_thousands(commas, plain) else set()
        )
        if unclear:
            _refuse_commas(name, texts, place, unclear)
    if not others:
        if not forced and any(_CODE.fullmatch(text) for text in plain):
            return None
        return _parsed([text.replace(",", ".") for text in texts] if commas else texts)
    count = sum(text in plain for text in texts)
    if not forced and 2 * count > sum(text not in MISSING for text in texts):
        row = next(row for row, text in enumerate(texts) if text in others)
        raise GraphError(
            f"{place(row)}, column {name!r} = {_shown(texts[row])} is not a number, as most of "
            f"this column are; correct it, or pass "
            f"{argument('feature_columns', f'*,{name}:category')}"
        )
    return None


def _may_be_thousands(commas: set[str], plain: set[str]) -> bool:
    """Return whether each comma may group digits: 1,500 is 1.5 or 1500, and 0,500 only 0.5."""
    return all(_GROUPED.fullmatch(text) and text.lstrip("+-")[0] != "0" for text in commas) and all(
        _INTEGER.fullmatch(text) for text in plain
    )


def _refuse_commas(
    name: str, texts: Sequence[str], place: Callable[[int], str], unclear: set[str]
) -> NoReturn:
    row = next(row for row, text in enumerate(texts) if text in unclear)
    raise GraphError(
        f"{place(row)}, column {name!r} = {_shown(texts[row])} is a number in one country and "
        "another number elsewhere; write numbers with a decimal point and without separators "
        f"of thousands, or pass {argument('feature_columns', f'*,{name}:category')}"
    )


def _parsed(texts: Sequence[str]) -> NDArray[Any]:
    cells = ["0" if text in MISSING else text for text in texts]
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        try:
            return np.array([int(cell) for cell in cells], np.int64)
        except (OverflowError, ValueError):  # beyond 64 bits, or thousands of digits
            pass
    return np.array([float(cell) for cell in cells], np.float64)


# ---- dates -------------------------------------------------------------------------------------


def _dates(texts: Sequence[str], known: set[str]) -> NDArray[Any] | None:
    seconds: dict[str, Any] = {}
    for text in known:
        match = _DATE.fullmatch(text)
        if match is None:
            return None
        day, time, zone = match.groups()
        try:
            moment = np.datetime64(day if time is None else f"{day}T{time}", "s")
        except ValueError:  # the 30th of February
            return None
        if zone not in (None, "Z"):
            minutes = 60 * int(zone[1:3]) + int(zone[-2:])
            moment = moment - np.timedelta64(minutes if zone[0] == "+" else -minutes, "m")
        seconds[text] = moment
    if not known:
        return None
    none = np.datetime64(0, "s")
    return np.array([seconds.get(text, none) for text in texts], "datetime64[s]")


# ---- errors ------------------------------------------------------------------------------------


def _refuse_other_kind(
    name: str, texts: Sequence[str], place: Callable[[int], str], kind: str, decimal_comma: bool
) -> NoReturn:
    """Raise for the first cell that is not of the kind asked for."""

    def fits(text: str) -> bool:
        if kind == "number":
            return is_number(text) and (decimal_comma or "," not in text)
        return typed(name, [text], place).kind == kind

    row = next((r for r, t in enumerate(texts) if t not in MISSING and not fits(t)), 0)
    raise GraphError(
        f"{place(row)}, column {name!r} = {_shown(texts[row])} is not a {kind}; correct it, or ask "
        f"for another kind with {argument('feature_columns', ...)}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
