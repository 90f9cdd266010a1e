"""A typed column of a table about nodes."""

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
