"""The columns of a table of features: names and kinds, kept with a graph and its models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, warn
from dhilgt.graph.encoded_column import (
    KINDS,
    LEFT_OUT,
    NUMERIC,
    EncodedColumn,
    Place,
    missing_cells,
    numbers_of,
    refuse_infinite,
)
from dhilgt.graph.table import Column
from dhilgt.utils.checks import name_hint, nearest

_BUFFER_CELLS = 1 << 24
_BUFFER_COLUMNS = 256
_SHOWN = 5  # names in a message
_NEAR = 1_000  # names to look for similar ones among
_NOTHING: Mapping[str, str] = MappingProxyType({})
_EMBED = (
    "embed text, for example with sentence-transformers, and give the vectors as columns or as a "
    ".npy file; or declare it a category"
)
_TITLES = {"number": "numbers", "boolean": "true or false", "date": "dates"}


@dataclass(frozen=True)
class FeatureColumns:
    """How the columns of a table become channels of float32 features.

    It is fitted on the table of training and encodes any other table with the same columns, in
    whatever order. Numbers stay as they are, booleans are 0 and 1, dates are days since 1970; a
    missing cell of these has the mean of training. A category has a channel per value, at most 100
    and one for the rest; a missing cell, and a value that training did not have, is 0 in all of
    them (in the channel for the rest, where there is one). Text is left out.

    Attributes:
        columns: What is known of each column, in the order of the table.
        num_rows: Rows of the table it was fitted on.
        id_column: Name of the column of ids beside them, if the table has names.

    Example:
        >>> import numpy as np
        >>> age = Column("age", np.array([30.0, 0.0, 50.0]), np.array([False, True, False]))
        >>> plan = Column("plan", np.array(["free", "paid", "free"], object), np.zeros(3, bool))
        >>> columns = FeatureColumns.fit([age, plan])
        >>> columns.names
        ('age', 'plan=free', 'plan=paid')
        >>> columns.encode([plan, age], "users.csv").tolist()
        [[30.0, 1.0, 0.0], [40.0, 0.0, 1.0], [50.0, 1.0, 0.0]]
    """

    columns: tuple[EncodedColumn, ...]
    num_rows: int
    id_column: str | None = None

    @classmethod
    def fit(
        cls,
        columns: Sequence[Column],
        kinds: Mapping[str, str] = _NOTHING,
        source: str = "the table",
        *,
        place: Place | None = None,
    ) -> "FeatureColumns":
        """Return how to encode a table, from that of training.

        Words are a category where they repeat: at most 20 different ones, or at most 1,000 with
        five rows for each; none longer than 100 characters. Other words are text.

        Args:
            columns: The columns of features.
            kinds: Kinds by name, for columns that are not to be judged by their values: "number",
                "boolean", "date", "category" or "text", which leaves a column out.
            source: Name of the table, for messages.
            place: Text for a row in messages; by default the source and the row's number.

        Raises:
            GraphError: If a cell does not have the kind asked for, or no column is left.
        """
        by_name = _by_name(columns, source)
        for name, kind in kinds.items():
            if name not in by_name:
                hint = name_hint(name, list(by_name)[:_NEAR], f"it has {_listed(by_name)}")
                raise GraphError(f"{source} has no column {name!r}; {hint}")
            if kind not in KINDS:
                raise GraphError(
                    f"column {name!r} is to be {kind!r}; pass one of {', '.join(KINDS)}"
                )
        where = place or _rows_of(source)
        fitted = tuple(EncodedColumn.fit(one, kinds.get(one.name), where) for one in columns)
        if not any(column.num_channels for column in fitted):
            raise GraphError(
                f"{source} has no column to learn from: {_listed(by_name)} "
                f"{'holds' if len(fitted) == 1 else 'hold'} text or nothing; {_EMBED}"
            )
        return cls(fitted, len(columns[0].values))

    def encode(
        self, columns: Sequence[Column], source: str, *, place: Place | None = None
    ) -> NDArray[np.float32]:
        """Return the features of a table, (rows, channels); its columns are matched by name.

        Columns that training did not have, values without a channel and filled cells are warned
        of.

        Args:
            columns: The columns of the table, in any order.
            source: Name of the table, for messages.
            place: As for `fit`.

        Raises:
            GraphError: If a column is missing, or a cell is of another kind than in training.
        """
        by_name = _by_name(columns, source)
        self._refuse_missing(by_name, source)
        extra = [name for name in by_name if name not in self._by_name]
        if extra:
            warn(f"{source}: columns that training did not have are not used: {_listed(extra)}")
        where = place or _rows_of(source)
        count = len(columns[0].values) if columns else 0
        writer = _ChannelWriter(count, self.num_channels)
        filled: dict[str, int] = {}
        unknown: dict[str, int] = {}
        for column in self.columns:
            if not column.num_channels:
                continue
            given = by_name[column.name]
            gaps = missing_cells(given)
            filled[column.name] = int(gaps.sum())
            if column.kind == "category":
                codes, unknown[column.name] = column.codes(given, gaps)
                writer.add_codes(codes, column.num_channels)
                continue
            numbers = numbers_of(given, column.kind, gaps, where)
            if filled[column.name]:
                numbers = np.where(gaps, column.fill, numbers)
            if not writer.add(numbers):
                refuse_infinite(given, numbers, gaps, where)
        then = {column.name: column.missing for column in self.columns if column.num_channels}
        if count != self.num_rows or filled != then:  # those of training are in `table_rows`
            _warn_of_cells(filled, source, "empty cells, filled as in training")
        _warn_of_cells(unknown, source, "values that training did not have, taken as none")
        return writer.finished()

    def channels_in(self, other: "FeatureColumns", source: str) -> NDArray[np.int64]:
        """Return where features that were encoded by other columns hold the channels of these.

        Args:
            other: The columns of another graph.
            source: Name of that graph's features, for messages.

        Returns:
            A place in the channels of ``other`` for each channel; -1 for one that is all zeros.

        Raises:
            GraphError: If a column is missing, or was encoded in another way.
        """
        if other.columns == self.columns:
            return np.arange(self.num_channels)
        self._refuse_missing(dict.fromkeys(other._by_name), source)
        places: list[int] = []
        for column in self.columns:
            if column.num_channels:
                theirs, start = other._by_name[column.name]
                places += _places(column, theirs, start, source)
        return np.array(places, np.int64)

    def extra_in(self, other: "FeatureColumns") -> list[str]:
        """Return the columns that another table has, was encoded with, and these have not."""
        return [
            one.name for one in other.columns if one.num_channels and one.name not in self._by_name
        ]

    def _refuse_missing(self, found: Mapping[str, Any], source: str) -> None:
        needed = [column.name for column in self.columns if column.num_channels]
        missing = [name for name in needed if name not in found]
        if not missing:
            return
        extra = [name for name in found if name not in self._by_name][:_NEAR]
        shown = []
        for name in missing[:_SHOWN]:
            near = nearest(name, extra)
            shown.append(f"{name!r} (is it {near!r}?)" if near else repr(name))
        more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
        raise GraphError(
            f"{source} lacks {len(missing):,} of the {len(needed):,} columns of training: "
            f"{', '.join(shown)}{more}; add them, or rename the columns that hold them"
        )

    # ---- names ---------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the channels, such as "age" and "country=DE"."""
        return tuple(name for column in self.columns for name in column.channels)

    @cached_property
    def num_channels(self) -> int:
        """Number of channels."""
        return sum(column.num_channels for column in self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of each column, by name."""
        return {column.name: column.kind for column in self.columns}

    @cached_property
    def _by_name(self) -> dict[str, tuple[EncodedColumn, int]]:
        """Each column with the place of its first channel."""
        found, start = {}, 0
        for column in self.columns:
            found[column.name] = column, start
            start += column.num_channels
        return found

    def table_rows(self, source: str = "features") -> list[str]:
        """Return a short table of the columns by kind, a line for each.

        Args:
            source: Name of the table, for the first line.
        """
        if all(one.kind == "number" and not one.missing for one in self.columns):
            return [f"{source}: {_noun(len(self.columns), 'column')}, numbers without a gap"]
        rows = []
        for kind, title in _TITLES.items():
            names = [one.name for one in self.columns if one.kind == kind]
            if names:
                rows.append((title, len(names), _plain_list(names)))
        categories = [
            f"{one.name} ({_num_values(one)} {'values' if _num_values(one) != '1' else 'value'})"
            for one in self.columns
            if one.kind == "category"
        ]
        if categories:
            rows.append(("categories", len(categories), _plain_list(categories)))
        gaps = {one.name: one.missing for one in self.columns if one.num_channels and one.missing}
        if gaps:
            means = sum(one.missing > 0 and one.kind in NUMERIC for one in self.columns)
            how = (
                "filled with the mean"
                if means == len(gaps)
                else "filled with means; zeros for categories"
            )
            if not means:
                how = "zeros in every channel of a category"
            rows.append(("empty cells", sum(gaps.values()), f"{_counted(gaps)} ({how})"))
        left_out = [f"{one.name} ({one.kind})" for one in self.columns if one.kind in LEFT_OUT]
        if left_out:
            rows.append(("left out", len(left_out), _plain_list(left_out)))
        width = max(len(f"{count:,}") for _, count, _ in rows)
        lines = [
            f"{source}: {_noun(len(self.columns), 'column')}, "
            f"{_noun(self.num_channels, 'feature')} a node"
        ]
        lines += [f"  {title:<13} {count:>{width},}  {names}" for title, count, names in rows]
        if any(column.kind == "text" for column in self.columns):
            lines.append(f"  {_EMBED}")
        return lines

    # ---- as plain values -----------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "rows": self.num_rows,
            "id_column": self.id_column,
            "columns": [one.to_dict() for one in self.columns],
        }

    @classmethod
    def from_dict(cls, values: Any) -> "FeatureColumns":
        """Return the columns of untrusted plain values.

        Raises:
            GraphError: If they are not such as `to_dict` returns.
        """
        if not isinstance(values, Mapping) or set(values) != {
            "rows",
            "id_column",
            "columns",
        }:
            raise GraphError("the columns of features are not described as they were written")
        rows, ids, listed = values["rows"], values["id_column"], values["columns"]
        if (
            type(rows) is not int
            or rows < 1
            or not isinstance(listed, list)
            or (ids is not None and not isinstance(ids, str))
        ):
            raise GraphError("the columns of features are not described as they were written")
        columns = cls(tuple(map(EncodedColumn.from_dict, listed)), rows, ids)
        if len(columns._by_name) != len(listed) or not columns.num_channels:
            raise GraphError("two columns of features have one name, or there are none")
        return columns


class _ChannelWriter:
    """Channels side by side in one matrix; runs of numbers are gathered and copied as a block."""

    def __init__(self, rows: int, channels: int) -> None:
        self._matrix = np.empty((rows, channels), np.float32)
        depth = max(1, min(_BUFFER_COLUMNS, channels, _BUFFER_CELLS // max(1, rows)))
        self._buffer = np.empty((depth, rows), np.float32)
        self._written = self._waiting = 0

    def add(self, numbers: NDArray[Any]) -> bool:
        """Append a channel of numbers; return whether all are finite as float32."""
        if self._waiting == len(self._buffer):
            self._flush()
        row = self._buffer[self._waiting]
        with np.errstate(over="ignore"):
            row[:] = numbers
        self._waiting += 1
        return bool(np.isfinite(row).all())

    def add_codes(self, codes: NDArray[np.int64], channels: int) -> None:
        """Append channels that are 1 where a row has their code; -1 is none of them."""
        self._flush()
        block = self._matrix[:, self._written : self._written + channels]
        block[:] = 0
        rows = np.flatnonzero(codes >= 0)
        block[rows, codes[rows]] = 1
        self._written += channels

    def finished(self) -> NDArray[np.float32]:
        """Return the matrix."""
        self._flush()
        return self._matrix

    def _flush(self) -> None:
        end = self._written + self._waiting
        self._matrix[:, self._written : end] = self._buffer[: self._waiting].T
        self._written, self._waiting = end, 0


def _places(column: EncodedColumn, theirs: EncodedColumn, start: int, source: str) -> list[int]:
    """Return the places of a column's channels among those of a table encoded by itself."""
    exact = theirs.kind == column.kind
    if column.kind in NUMERIC:
        exact = exact and (not theirs.missing or theirs.fill == column.fill)
        places = [start]
    else:
        # Without a channel for the rest, each channel is 1 for its value whatever the others are.
        same = (theirs.values, theirs.other) == (column.values, column.other)
        exact = exact and (same or not (theirs.other or column.other))
        at = {value: start + place for place, value in enumerate(theirs.values)}
        places = [at.get(value, -1) for value in column.values]
        places += [start + len(theirs.values)] if column.other else []
    if not exact:
        raise GraphError(
            f"{source}: column {column.name!r} was encoded as {_shown_kind(theirs)}, in training "
            f"as {_shown_kind(column)}; read the graph with "
            "Graph.read(..., feature_columns=clf.feature_columns_), which encodes it as then"
        )
    return places


def _shown_kind(column: EncodedColumn) -> str:
    if column.kind == "category":
        return f"a category of {_num_values(column)} values"
    if column.kind in NUMERIC and column.missing:
        return f"a {column.kind} whose {column.missing:,} empty cells are {column.fill:g}"
    return f"a {column.kind}" if column.kind in NUMERIC else column.kind


def _num_values(column: EncodedColumn) -> str:
    return f"{len(column.values)}{'+' if column.other else ''}"


def _by_name(columns: Sequence[Column], source: str) -> dict[str, Column]:
    by_name = {column.name: column for column in columns}
    if len(by_name) != len(columns):
        names = [column.name for column in columns]
        repeated = next(name for at, name in enumerate(names) if name in names[:at])
        raise GraphError(f"{source} has two columns {repeated!r}; give each its own name")
    return by_name


def _rows_of(source: str) -> Place:
    return lambda row: f"{source}, row {row}"


def _warn_of_cells(counts: Mapping[str, int], source: str, what: str) -> None:
    found = {name: count for name, count in counts.items() if count}
    if found:
        warn(f"{source}: {what}: {_counted(found)}")


def _counted(counts: Mapping[str, int]) -> str:
    largest = sorted(counts, key=lambda name: -counts[name])
    return _plain_list([f"{name} {counts[name]:,}" for name in largest])


def _listed(names: Iterable[str]) -> str:
    return _plain_list([repr(name) for name in names])


def _plain_list(names: Sequence[str]) -> str:
    shown = ", ".join(name if len(name) <= 60 else f"{name[:57]}..." for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def _noun(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
