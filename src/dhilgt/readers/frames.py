"""Frames of pandas, Polars and Arrow as tables; none of the three is imported here."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.node_ids import as_objects
from dhilgt.graph.table import Column, frame_library, has_index_of_ids, is_frame
from dhilgt.readers.parquet import arrow_table
from dhilgt.readers.tables import Table, TypedCells, object_values, typed_values

# The type that holds all values of a kind, and the value of an empty cell.
_WIDE: dict[str, tuple[Any, Any]] = {
    "b": (np.bool_, False),
    "i": (np.int64, 0),
    "u": (np.uint64, 0),
    "f": (np.float64, np.nan),
}


def is_series(value: Any) -> bool:
    """Return whether a value is a single column of one of these libraries."""
    library = frame_library(value)
    if library == "pyarrow":
        return hasattr(value, "null_count") and not is_frame(value)
    return bool(library) and hasattr(value, "to_numpy") and not is_frame(value)


def to_table(frame: Any, source: str) -> Table:
    """Return the table of a frame, or of a pandas Series with its index.

    Args:
        frame: The frame.
        source: What messages call it: the argument it was passed as.
    """
    library = frame_library(frame)
    if hasattr(frame, "collect") and library == "polars":
        frame = frame.collect()
    if len(frame) == 0:
        raise GraphError(f"{source} has no rows; give one per node")
    if library == "pyarrow":
        return arrow_table(frame, source, in_order=True)
    if library == "polars":
        names = tuple(frame.columns)
        columns = tuple(TypedCells(_polars_column(name, frame[name], source)) for name in names)
        return Table(source, names, columns, in_order=True)
    return _pandas_table(frame, source)


def _pandas_table(frame: Any, source: str) -> Table:
    if not hasattr(frame, "columns"):
        frame = frame.to_frame(frame.name if frame.name is not None else source)
    if getattr(frame.columns, "nlevels", 1) > 1 or getattr(frame.index, "nlevels", 1) > 1:
        raise GraphError(f"{source} has names or an index of several levels; give it one")
    indexed = has_index_of_ids(frame)
    names = tuple(str(name) for name in frame.columns)
    columns = [_pandas_column(name, frame.iloc[:, at]) for at, name in enumerate(names)]
    if indexed:
        name = "index" if frame.index.name is None else str(frame.index.name)
        names = (name, *names)
        columns.insert(0, _pandas_column(name, frame.index.to_series()))
    table = Table(
        source, names, tuple(map(TypedCells, columns)), indexed=indexed, in_order=not indexed
    )
    return table.distinct_names()


def _pandas_column(name: str, series: Any) -> Column:
    missing = np.asarray(series.isna().to_numpy(), np.bool_)
    kind = str(getattr(series.dtype, "kind", "O"))
    if hasattr(series, "cat"):  # a category, whatever its values are
        texts = ["" if gap else str(v) for v, gap in zip(series.tolist(), missing, strict=True)]
        return Column(name, as_objects(texts), missing)
    if kind == "M":
        if getattr(series.dtype, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return Column(name, series.to_numpy().astype("datetime64[s]"), missing)
    if kind in "biuf":
        wide, empty = _WIDE[kind]
        values = series.to_numpy(dtype=wide, **({"na_value": empty} if missing.any() else {}))
        return Column(name, typed_values(values, missing), missing)
    return _objects(name, series.tolist(), missing)


def _polars_column(name: str, series: Any, source: str) -> Column:
    missing = np.asarray(series.is_null().to_numpy(), np.bool_)
    dtype = series.dtype
    if dtype.is_nested():
        raise GraphError(
            f"{source}, column {name!r} holds {dtype}; give each of its numbers a column of its own"
        )
    if str(dtype) in ("Date",) or str(dtype).startswith("Datetime"):
        return Column(name, series.to_numpy().astype("datetime64[s]"), missing)
    if dtype.is_float():
        values = np.asarray(series.fill_null(0).to_numpy(), np.float64)
        return Column(name, values, missing | np.isnan(values))
    if dtype.is_integer() or str(dtype) == "Boolean":
        filled = series.fill_null(False) if str(dtype) == "Boolean" else series.fill_null(0)
        return Column(name, typed_values(np.asarray(filled.to_numpy()), missing), missing)
    return _objects(name, series.to_list(), missing)


def _objects(name: str, values: list[Any], missing: NDArray[np.bool_]) -> Column:
    empty = missing | np.array([isinstance(v, str) and v == "" for v in values], np.bool_)
    return Column(name, object_values(values, empty), empty)


def edge_columns(frame: Any) -> tuple[tuple[str, ...], list[NDArray[Any]]]:
    """Return the names and columns of a frame of edges; the index of a frame is no column.

    An empty cell is None, so that it can be refused with its row.
    """
    if hasattr(frame, "collect") and frame_library(frame) == "polars":
        frame = frame.collect()
    if frame_library(frame) == "pandas":
        frame = frame.reset_index(drop=True)
    table = to_table(frame, "the frame of edges")
    arrays: list[NDArray[Any]] = []
    for at in range(len(table.names)):
        column = table.column(at)
        values = column.values
        if column.num_missing:
            values = as_objects(table.columns[at].values())
        arrays.append(values)
    return table.names, arrays


def as_ids(value: Any) -> Any:
    """Return the ids of a frame of one column, or of a single column."""
    if not is_frame(value):
        return (
            value.to_numpy() if frame_library(value) != "pyarrow" else np.array(value.to_pylist())
        )
    names, columns = edge_columns(value)
    if len(names) != 1:
        raise GraphError(f"nodes has {len(names)} columns; pass the one that holds the ids")
    return columns[0]
