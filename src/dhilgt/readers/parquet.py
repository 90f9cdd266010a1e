"""Parquet files with one row per node."""

from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.readers import pipes
from dhilgt.readers.columns import id_column, value_column
from dhilgt.readers.node_match import NodeTable


def is_parquet(file: Path) -> bool:
    """Return whether a file is Parquet."""
    with pipes.on_disk(file).open("rb") as stream:
        return stream.read(4) == b"PAR1"


def _parquet(file: Path) -> tuple[Any, int]:
    """Return the table of a file and the position of its ids."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise GraphError(f"{file} is Parquet, which needs pyarrow; install dhilgt[io]") from error
    try:
        table = pyarrow.parquet.read_table(pipes.on_disk(file))
    except (pyarrow.ArrowException, OSError) as error:
        raise GraphError(f"{file} is damaged Parquet ({error}); make it again") from error
    names = ["id" if name == "__index_level_0__" else name for name in table.column_names]
    table = table.rename_columns(names)
    at = id_column(file, names)
    ids = table.column(at)
    if ids.null_count:
        row = int(ids.is_null().to_numpy().argmax())
        raise GraphError(f"{file}, row {row} has no id; every row needs one")
    if table.num_rows == 0:
        raise GraphError(f"{file} has no rows; give one per node")
    return table, at


def parquet_features(file: Path) -> NodeTable:
    """Return ids and float32 features."""
    table, at = _parquet(file)
    names = [name for position, name in enumerate(table.column_names) if position != at]
    if not names:
        raise GraphError(f"{file} has one column; features need a column of ids and numbers beside")
    features = np.empty((table.num_rows, len(names)), np.float32)
    for position, name in enumerate(names):
        column = table.column(name)
        place = f"column {name!r}"
        if column.null_count:
            row = int(column.is_null().to_numpy().argmax())
            raise GraphError(f"{file}, row {row}, {place} is empty; fill it with a number")
        values = column.to_numpy()
        if values.dtype.kind not in "biuf":
            raise GraphError(
                f"{file}, row 0, {place} = {values[0]!r} is not a number ({column.type}); encode "
                "it, or take the column out"
            )
        with np.errstate(over="ignore"):
            features[:, position] = values
        for row in np.flatnonzero(~np.isfinite(features[:, position]))[:1].tolist():
            raise GraphError(
                f"{file}, row {row}, {place} = {values[row]} is not finite; fill such cells with a "
                "number"
            )
    return NodeTable(file, table.column(at).to_pylist(), features, None, tuple(names))


def parquet_column(file: Path, names: set[str], content: str) -> NodeTable:
    """Return ids and the cells of one more column; see `node_tables.read_column`."""
    table, at = _parquet(file)
    value = value_column(file, table.column_names, table.num_columns, at, names, content)
    return NodeTable(file, table.column(at).to_pylist(), table.column(value).to_pylist())
