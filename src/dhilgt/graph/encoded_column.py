"""One column of a table as channels of the features: what training learns of it, and its use."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.table import Column

Place: TypeAlias = Callable[[int], str]  # the file and line of a row, for a message

NUMERIC = ("number", "boolean", "date")  # one channel each
KINDS = (*NUMERIC, "category", "text")  # that a user may ask for
LEFT_OUT = ("text", "empty")
MAX_VALUES = 100  # of a category, with a channel each
# Words are a category where they repeat. Others are text, which has to be embedded.
_FEW_VALUES = 20
_ROWS_PER_VALUE = 5
_MANY_VALUES = 1_000
_LONG_WORD = 100
_SECONDS_PER_DAY = 86_400
_NOUNS = {"number": "a number", "boolean": "true or false", "date": "a date"}


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """What is known of a column: enough to encode it in another table.

    Attributes:
        name: Its name.
        kind: "number", "boolean" (0 or 1), "date" (days since 1970), "category" (a channel per
            value), or left out: "text", and "empty" where every cell is missing.
        fill: Mean of the numbers, for missing cells.
        values: Values of a category with a channel of their own, ascending.
        other: Whether a further channel is shared by the values that are not among them.
        missing: Number of missing cells in the table it was fitted on.
    """

    name: str
    kind: str
    fill: float = 0.0
    values: tuple[str, ...] = ()
    other: bool = False
    missing: int = 0

    @property
    def num_channels(self) -> int:
        """Number of channels it takes; 0 if it is left out."""
        return 1 if self.kind in NUMERIC else len(self.values) + self.other

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of its channels."""
        if self.kind in NUMERIC:
            return (self.name,)
        named = tuple(f"{self.name}={value}" for value in self.values)
        return (*named, f"{self.name} (other)") if self.other else named

    @classmethod
    def fit(cls, column: Column, kind: str | None, place: Place) -> "EncodedColumn":
        """Return what a column of the training table teaches.

        Args:
            column: The column.
            kind: One of `KINDS`; None decides by the values.
            place: Text for a row in messages.

        Raises:
            GraphError: If a cell does not have the kind asked for.
        """
        gaps = missing_cells(column)
        count = int(gaps.sum())
        if count == len(gaps):
            return cls(column.name, "empty", missing=count)
        if kind is None:
            kind = column.kind if column.kind != "text" else _kind_of_words(column, gaps)
        if kind == "text":
            return cls(column.name, kind, missing=count)
        if kind == "category":
            counts = _counts(column, gaps)
            frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MAX_VALUES]
            other = len(counts) > MAX_VALUES
            return cls(column.name, kind, 0.0, tuple(sorted(frequent)), other, count)
        numbers = numbers_of(column, kind, gaps, place)
        present = numbers[~gaps] if count else numbers
        with np.errstate(over="ignore", invalid="ignore"):
            fill = float(present.mean(dtype=np.float64))
        if not np.isfinite(fill):
            refuse_infinite(column, numbers, gaps, place)
        return cls(column.name, kind, fill, missing=count)

    def codes(self, column: Column, gaps: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
        """Return the channel of each row's value, and how many values have none.

        Args:
            column: The column of a category in any table.
            gaps: Its missing cells; their channel is -1, as that of a value without one.
        """
        channel = {word: at for at, word in enumerate(self.values)}
        unknown = len(self.values) if self.other else -1
        words = _words(column)
        codes = np.fromiter((channel.get(word, unknown) for word in words), np.int64, len(words))
        codes[gaps] = -1
        return codes, int((codes[~gaps] < 0).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; those of the defaults are left out."""
        values: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.kind in NUMERIC:
            values["fill"] = self.fill
        if self.values:
            values["values"] = list(self.values)
        if self.other:
            values["other"] = True
        if self.missing:
            values["missing"] = self.missing
        return values

    @classmethod
    def from_dict(cls, values: Any) -> "EncodedColumn":
        """Return the column of untrusted values.

        Raises:
            GraphError: If they are not such as `to_dict` returns.
        """
        if not isinstance(values, Mapping):
            raise GraphError("a column is not described by names and values")
        known = {"fill": 0.0, "values": [], "other": False, "missing": 0} | dict(values)
        name, kind, words = known.get("name"), known.get("kind"), known["values"]
        sound = (
            len(known) == 6
            and isinstance(name, str)
            and kind in (*KINDS, "empty")
            and type(known["fill"]) in (int, float)
            and abs(known["fill"]) <= 1e300
            and isinstance(words, list)
            and len(words) <= MAX_VALUES
            and all(isinstance(word, str) for word in words)
            and all(a < b for a, b in itertools.pairwise(words))
            and isinstance(known["other"], bool)
            and type(known["missing"]) is int
            and known["missing"] >= 0
            and (kind == "category") == bool(words)
            and (kind == "category" or not known["other"])
        )
        if not sound:
            raise GraphError(f"column {str(name)[:80]!r} is not described as it was written")
        fill, other, missing = float(known["fill"]), known["other"], known["missing"]
        return cls(str(name), str(kind), fill, tuple(words), other, missing)


def missing_cells(column: Column) -> NDArray[np.bool_]:
    """Return which cells of a column are missing, those that are not a number or date included."""
    kind = column.values.dtype.kind
    if kind not in "fM":
        return column.missing
    gaps: NDArray[np.bool_] = np.isnan(column.values)  # of dates too
    return column.missing | gaps


def numbers_of(
    column: Column, kind: str, gaps: NDArray[np.bool_], place: Place
) -> NDArray[np.floating[Any]]:
    """Return a column as floats of any width; those of missing cells have no meaning.

    Args:
        column: The column.
        kind: "number", "boolean" or "date".
        gaps: Its missing cells.
        place: Text for a row in messages.

    Raises:
        GraphError: At the first cell that is of another kind.
    """
    values = column.values
    if gaps.all():
        return np.zeros(len(gaps))
    if column.kind == "text":
        return _parsed(column, kind, gaps, place)
    if (column.kind == "date") != (kind == "date"):
        _refuse(column, int(np.argmin(gaps)), kind, place)
    if kind == "date":
        seconds = values.astype("datetime64[s]").astype(np.int64)
        return np.asarray(seconds / _SECONDS_PER_DAY, np.float64)
    if kind == "boolean" and column.kind == "number":
        wrong = np.flatnonzero(~gaps & (values != 0) & (values != 1))
        if wrong.size:
            _refuse(column, int(wrong[0]), kind, place)
    return np.asarray(values, None if values.dtype.kind == "f" else np.float64)


def refuse_infinite(
    column: Column,
    numbers: NDArray[np.floating[Any]],
    gaps: NDArray[np.bool_],
    place: Place,
) -> None:
    """Raise if a number of a column is infinite as float32."""
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero(~gaps & ~np.isfinite(numbers.astype(np.float32)))
    if wrong.size:
        at = int(wrong[0])
        raise GraphError(
            f"{place(at)}, column {column.name!r} = {_shown(column.values[at])} is not finite; "
            "leave the cell empty, or fill it with a number"
        )


def _kind_of_words(column: Column, gaps: NDArray[np.bool_]) -> str:
    counts = _counts(column, gaps)
    rows, distinct = counts.total(), len(counts)
    if max(map(len, counts)) > _LONG_WORD:
        return "text"
    few = distinct <= _FEW_VALUES and distinct < rows
    repeated = distinct <= _MANY_VALUES and distinct * _ROWS_PER_VALUE <= rows
    return "category" if few or repeated else "text"


def _counts(column: Column, gaps: NDArray[np.bool_]) -> Counter[str]:
    return Counter(word for word, gap in zip(_words(column), gaps.tolist(), strict=True) if not gap)


def _words(column: Column) -> list[str]:
    """Return the cells as text; a whole number is the same text as integer and as float."""
    cells = column.values.tolist()
    if column.kind == "text":
        return [cell if isinstance(cell, str) else "" for cell in cells]
    if column.kind == "boolean":
        return ["true" if cell else "false" for cell in cells]
    if column.kind == "date":
        texts = np.datetime_as_string(column.values.astype("datetime64[s]")).tolist()
        return [text.removesuffix("T00:00:00") for text in texts]
    return [repr(cell).removesuffix(".0") for cell in cells]


def _parsed(
    column: Column, kind: str, gaps: NDArray[np.bool_], place: Place
) -> NDArray[np.float64]:
    """Return text as numbers: a column asked to be of that kind, or that was in training."""
    numbers = np.zeros(len(gaps))
    for row in np.flatnonzero(~gaps).tolist():
        try:
            numbers[row] = _PARSERS[kind](str(column.values[row]).strip())
        except (ValueError, OverflowError):
            _refuse(column, row, kind, place)
    return numbers


def _number(text: str) -> float:
    number = float(text)
    if "_" in text or number != number:
        raise ValueError(text)
    return number


def _date(text: str) -> float:
    date = np.datetime64(text, "s")
    if np.isnat(date) or len(text) < len("2024-01-01"):  # a year alone is read as a number
        raise ValueError(text)
    return float(date.astype(np.int64)) / _SECONDS_PER_DAY


def _truth(text: str) -> float:
    words = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


_PARSERS: dict[str, Callable[[str], float]] = {"number": _number, "date": _date, "boolean": _truth}


def _refuse(column: Column, row: int, kind: str, place: Place) -> NoReturn:
    raise GraphError(
        f"{place(row)}, column {column.name!r} = {_shown(column.values[row])} is not "
        f"{_NOUNS[kind]}, as the column's values are; correct the cell, or leave it empty"
    )


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
