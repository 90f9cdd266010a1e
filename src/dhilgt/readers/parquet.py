"""Parquet files and Arrow tables with one row per node."""

from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.graph.node_ids import as_objects
from dhilgt.graph.table import Column
from dhilgt.readers import pipes
from dhilgt.readers.tables import Table, TypedCells, object_values, typed_values

_INDEX = "__index_level_0__"  # what pandas calls an index without a name


def is_parquet(file: Path) -> bool:
    """Return whether a file is Parquet."""
    with pipes.on_disk(file).open("rb") as stream:
        return stream.read(4) == b"PAR1"


def read_parquet(file: Path) -> Table:
    """Return the table of a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise GraphError(f"{file} is Parquet, which needs pyarrow; install dhilgt[io]") from error
    try:
        table = pyarrow.parquet.read_table(pipes.on_disk(file))
    except (pyarrow.ArrowException, OSError) as error:
        raise GraphError(f"{file} is damaged Parquet ({error}); make it again") from error
    if table.num_rows == 0:
        raise GraphError(f"{file} has no rows; give one per node")
    return arrow_table(table, str(file))


def arrow_table(table: Any, source: str, *, in_order: bool = False) -> Table:
    """Return an Arrow table as a table about nodes.

    Args:
        table: A `pyarrow.Table` or `pyarrow.RecordBatch`.
        source: What messages call it.
        in_order: Whether rows without ids are those of the nodes in order.
    """
    names = tuple("id" if name == _INDEX else str(name) for name in table.schema.names)
    columns = tuple(
        TypedCells(_column(name, table.column(at), source)) for at, name in enumerate(names)
    )
    return Table(source, names, columns, in_order=in_order).distinct_names()


def _column(name: str, array: Any, source: str) -> Column:
    import pyarrow
    import pyarrow.types as types

    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
        words = ["" if value is None else str(value) for value in array.to_pylist()]
        return Column(name, as_objects(words), np.array([not word for word in words]))
    missing = np.asarray(_numpy(array.is_null()), np.bool_)
    kind = array.type
    if types.is_floating(kind):
        values = np.asarray(_numpy(array), np.float64)
        return Column(name, values, missing | np.isnan(values))
    if types.is_integer(kind) or types.is_boolean(kind):
        filled = array.fill_null(False if types.is_boolean(kind) else 0)
        return Column(name, typed_values(_numpy(filled), missing), missing)
    if types.is_timestamp(kind) or types.is_date(kind):
        seconds = array.cast(pyarrow.timestamp("s"), safe=False)
        return Column(name, _numpy(seconds.fill_null(0)).astype("datetime64[s]"), missing)
    if types.is_null(kind):
        return Column(name, np.zeros(len(array)), np.ones(len(array), np.bool_))
    if types.is_nested(kind):
        raise GraphError(
            f"{source}, column {name!r} holds {kind}; give each of its numbers a column of its own"
        )
    texts = array.to_pylist()
    empty = missing | np.array([value == "" for value in texts], np.bool_)
    return Column(name, object_values(texts, empty), empty)


def _numpy(array: Any) -> Any:
    import pyarrow

    if isinstance(array, pyarrow.Array):
        return array.to_numpy(zero_copy_only=False)
    return array.to_numpy()
