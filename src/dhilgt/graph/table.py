"""A typed column of a table about nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Column:
    """A named column of a table, with one value per row.

    Attributes:
        name: Its name, as the table has it.
        values: Numbers (integers or floats), booleans, datetime64[s], or an object array of str.
            The value of a missing cell has no meaning.
        missing: Whether each cell is empty.

    Example:
        >>> column = Column("age", np.array([31.0, 0.0]), np.array([False, True]))
        >>> column.kind, column.num_missing
        ('number', 1)
    """

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def kind(self) -> str:
        """What the values are: "number", "boolean", "date" or "text"."""
        kinds = {"b": "boolean", "M": "date", "O": "text", "U": "text"}
        return kinds.get(self.values.dtype.kind, "number")

    @property
    def num_missing(self) -> int:
        """Number of empty cells."""
        return int(self.missing.sum())


def is_frame(value: Any) -> bool:
    """Return whether a value is a frame of pandas or Polars, or an Arrow table.

    None of the three is imported.

    Example:
        >>> is_frame([[1, 2]])
        False
    """
    library = frame_library(value)
    if library == "pyarrow":
        return hasattr(value, "schema") and hasattr(value, "column")
    return library is not None and hasattr(value, "columns")


def has_index_of_ids(value: Any) -> bool:
    """Return whether a pandas object has an index that is not 0 to n - 1: ids of its rows."""
    index = getattr(value, "index", None) if frame_library(value) == "pandas" else None
    if index is None or not hasattr(index, "to_numpy"):
        return False
    values = index.to_numpy()
    return values.dtype.kind not in "iu" or not np.array_equal(values, np.arange(len(values)))


def holds_frames(*values: Any) -> bool:
    """Return whether a value, or one in a dict, is a frame or a series with ids."""
    return any(
        any(holds_frames(one) for one in value.values())
        if isinstance(value, Mapping)
        else is_frame(value) or has_index_of_ids(value)
        for value in values
    )


def frame_library(value: Any) -> str | None:
    """Return "pandas", "polars" or "pyarrow" for what comes from one of them."""
    name = type(value).__module__.partition(".")[0]
    return name if name in ("pandas", "polars", "pyarrow") else None
