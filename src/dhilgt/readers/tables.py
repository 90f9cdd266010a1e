"""Tables about nodes as they were read: named columns whose cells are text or typed values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.node_ids import as_objects, plain_value
from dhilgt.graph.table import Column
from dhilgt.readers import arrow_text, cells


class Cells(ABC):
    """The cells of one column."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of cells."""

    @abstractmethod
    def values(self, rows: Sequence[int] | None = None) -> list[Any]:
        """Return cells as they were written, those of ascending rows or all: text or values."""

    @abstractmethod
    def column(self, name: str, kind: str | None, place: Callable[[int], str]) -> Column:
        """Return the typed column.

        Args:
            name: Its name.
            kind: Kind it must have, one of `cells.KINDS`; None to infer it.
            place: Returns file and line of a row, for messages.
        """


class TextCells(Cells):
    """Cells of a text file: a list of str, or Arrow strings after a few of a list."""

    def __init__(
        self, texts: Sequence[str], arrow: Any = None, decimal_comma: bool = False
    ) -> None:
        self._texts, self._arrow, self._comma = texts, arrow, decimal_comma

    def __len__(self) -> int:
        return len(self._texts) + (0 if self._arrow is None else len(self._arrow))

    def after(self, first: str) -> "TextCells":
        """Return the cells behind one more."""
        return TextCells([first, *self._texts], self._arrow, self._comma)

    def values(self, rows: Sequence[int] | None = None) -> list[Any]:
        """See `Cells`."""
        if rows is not None:
            count = len(self._texts)
            later = [row - count for row in rows if row >= count]
            below = self._arrow.take(later).to_pylist() if later else []
            return [*(self._texts[row] for row in rows if row < count), *below]
        return [*self._texts, *([] if self._arrow is None else self._arrow.to_pylist())]

    def column(self, name: str, kind: str | None, place: Callable[[int], str]) -> Column:
        """See `Cells`."""
        if self._arrow is not None and kind in (None, "number"):
            column = arrow_text.number_column(name, self._all_arrow())
            if column is not None:
                return column
        return cells.typed(name, self.values(), place, kind=kind, decimal_comma=self._comma)

    def _all_arrow(self) -> Any:
        if not self._texts:
            return self._arrow
        pyarrow = arrow_text.pyarrow_or_none()
        first = pyarrow.array(self._texts, pyarrow.string())
        return pyarrow.chunked_array([first, *self._arrow.chunks])


class TypedCells(Cells):
    """Cells of Parquet or a frame, whose types are known."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column.values)

    def values(self, rows: Sequence[int] | None = None) -> list[Any]:
        """See `Cells`."""
        chosen = slice(None) if rows is None else np.asarray(rows, np.int64)
        values, missing = self._column.values[chosen], self._column.missing[chosen]
        texts = np.datetime_as_string(values) if values.dtype.kind == "M" else values
        return [
            None if gap else plain_value(value)
            for value, gap in zip(texts.tolist(), missing.tolist(), strict=True)
        ]

    def column(self, name: str, kind: str | None, place: Callable[[int], str]) -> Column:
        """See `Cells`."""
        column = Column(name, self._column.values, self._column.missing)
        if kind in (None, column.kind) or (kind == "category" and column.kind == "text"):
            return column
        if kind in ("category", "text"):  # 7.0 is 7 in a column with gaps
            texts = [_text(value) for value in self.values()]
            return Column(name, as_objects(texts), column.missing)
        if kind == "number" and column.kind == "boolean":
            return Column(name, column.values.astype(np.int64), column.missing)
        texts = [_text(value) for value in self.values()]
        return cells.typed(name, texts, place, kind=kind)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


@dataclass(frozen=True, eq=False)
class Table:
    """A table with one row per node, before its ids are found.

    Attributes:
        source: What messages call it: a path, or the name of an argument.
        names: Names of the columns; their positions if the table has none.
        columns: The columns.
        lines: Line of each row in a text file; None where rows count from 0.
        named: Whether the names are the table's own.
        indexed: Whether the first column is the index of a frame.
        in_order: Whether rows without ids are those of the nodes in order, as of an array.
        notes: Decisions made while it was read.
    """

    source: str
    names: tuple[str, ...]
    columns: tuple[Cells, ...]
    lines: Sequence[int] | None = None
    named: bool = True
    indexed: bool = False
    in_order: bool = False
    notes: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def place(self, row: int) -> str:
        """Return the table and the line of a row, for a message."""
        line = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.source}, {line}"

    def listed(self) -> str:
        """Return the names of the first columns, for a message."""
        shown = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return f"the columns {shown}" if self.named else f"{len(self.names)} columns"

    def column(self, at: int, kind: str | None = None) -> Column:
        """Return the typed column at a position."""
        return self.columns[at].column(self.names[at], kind, self.place)

    def distinct_names(self) -> "Table":
        """Return the table; raise if two columns have one name."""
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise GraphError(f"{self.source} has two columns {name!r}; give each its own name")
            seen.add(name)
        return self


def typed_values(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an array as `Column` holds it: int64, float64, bool, datetime64[s] or objects."""
    kind = values.dtype.kind
    if kind == "b":
        return values.astype(np.bool_, copy=False)
    if kind == "i" or (kind == "u" and values.max(initial=0) <= np.iinfo(np.int64).max):
        return values.astype(np.int64, copy=False)
    if kind in "uf":
        return values.astype(np.float64, copy=False)
    if kind == "M":
        return values.astype("datetime64[s]")
    return object_values(values.tolist(), missing)


def object_values(values: list[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return Python values, all of one kind, as `Column` holds them; text where they are mixed."""
    import datetime
    import decimal
    import numbers

    known = [value for value, gap in zip(values, missing.tolist(), strict=True) if not gap]
    if all(isinstance(value, str) for value in known):
        return as_objects(["" if gap else v for v, gap in zip(values, missing, strict=True)])
    if all(isinstance(value, (bool, np.bool_)) for value in known):
        return np.array([bool(v) and not gap for v, gap in zip(values, missing, strict=True)])
    filled = [0 if gap else v for v, gap in zip(values, missing, strict=True)]
    if all(isinstance(v, numbers.Integral) for v in known):
        try:
            return np.array([int(v) for v in filled], np.int64)
        except OverflowError:
            return np.array([float(v) for v in filled], np.float64)
    if all(isinstance(v, (numbers.Real, decimal.Decimal)) for v in known):
        return np.array([float(v) for v in filled], np.float64)
    if all(isinstance(v, datetime.date) for v in known):  # a datetime is a date too
        return np.array([_utc_second(v) for v in filled], "datetime64[s]")
    return as_objects(["" if gap else str(v) for v, gap in zip(values, missing, strict=True)])


def _utc_second(value: Any) -> Any:
    import datetime

    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value if value != 0 else 0, "s")
