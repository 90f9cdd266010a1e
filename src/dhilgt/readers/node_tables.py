"""Tables with one row per node: features, classes, parts of a split.

The rows may be in any order: `node_match` matches their ids with the graph.
"""

import zipfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError, argument, warn
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.node_ids import NodeIds
from dhilgt.graph.table import Column
from dhilgt.readers import files, frames, pipes
from dhilgt.readers.cells import KINDS, MISSING, is_missing, is_number
from dhilgt.readers.column_names import CLASS_NAMES, PART_NAMES, is_unnamed, plain
from dhilgt.readers.columns import Selection, select, value_column
from dhilgt.readers.node_match import NodeTable
from dhilgt.readers.parquet import is_parquet, read_parquet
from dhilgt.readers.table_headers import settled
from dhilgt.readers.tables import Table
from dhilgt.readers.text_table import TextTable, read_text
from dhilgt.utils.checks import name_hint

_PARTS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "dev": "val", "test": "test", "testing": "test",
}  # fmt: skip
_ROW_SAMPLE = 3


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says about the columns of tables; None stands for a guess.

    Attributes:
        id_column: Name or position of the ids, in every table that has such a column.
        label_column: Name or position of the classes.
        split_column: Name or position of the parts of the split.
        feature_columns: Names, patterns and exceptions, see `columns.select`; or the columns of a
            model, which encode a table as in training.
        header: Whether the first line is a header, where the lines themselves leave it open.
        comment: What begins a line to skip; see `read_text`.
    """

    id_column: str | int | None = None
    label_column: str | int | None = None
    split_column: str | int | None = None
    feature_columns: Any = None
    header: bool | None = None
    comment: str | None = None


DEFAULT = ColumnOptions()


def open_table(source: Any, name: str, options: ColumnOptions = DEFAULT) -> Table | TextTable:
    """Return the table of a text or Parquet file or of a frame; its ids are not yet looked for.

    Args:
        source: Path or frame.
        name: Argument it was passed as, which is what messages call a frame.
        options: How to read it.
    """
    if not isinstance(source, (str, PathLike)):
        return frames.to_table(source, name)
    file = files.check_file(source)
    return read_parquet(file) if is_parquet(file) else read_text(file, comment=options.comment)


# ---- classes and parts -------------------------------------------------------------------------


def labels_of(
    table: Table | TextTable, ids: NodeIds | None, options: ColumnOptions = DEFAULT
) -> NodeTable:
    """Return ids and classes: integers, or strings if any is not one; None for no class.

    Args:
        table: The table. With a single column it has no ids, and `values` are in its order.
        ids: Ids of the graph; None if there is none to compare with.
        options: What the user says.
    """
    found = _one_value(
        table, ids, options, options.label_column, CLASS_NAMES, "label_column", "class"
    )
    cells = [None if is_missing(value) else value for value in found.values]
    known = [(row, cell) for row, cell in enumerate(cells) if cell is not None]
    if not known:
        raise GraphError(f"{found.source} holds no class, all its cells are empty; fill some")
    words = Counter(value for value in found.values if value in MISSING and value)
    if words:
        listed = ", ".join(f"{word!r} {count:,}" for word, count in words.items())
        note = f"{found.source}: rows whose class is a word for a missing value: {listed}"
        found = replace(found, notes=(*found.notes, f"{note} (unlabelled)"))
    texts = {str(cell) for _, cell in known}
    if not all(is_number(text) for text in texts):
        return replace(found, values=[None if cell is None else str(cell) for cell in cells])
    for row, cell in known:
        if not _as_number(cell).is_integer():
            raise GraphError(
                f"{found.place(row)}: {cell} is not a class; give whole numbers or words (numbers "
                "to be predicted, regression, are not supported)"
            )
    numbers = [None if cell is None else int(_as_number(cell)) for cell in cells]
    return replace(found, values=[None if number == -1 else number for number in numbers])


def _as_number(cell: Any) -> float:
    return float(str(cell).replace(",", ".", 1))


def split_of(
    table: Table | TextTable, ids: NodeIds | None, options: ColumnOptions = DEFAULT
) -> NodeTable:
    """Return ids and parts ("train", "val", "test" or None) of a table."""
    found = _one_value(
        table, ids, options, options.split_column, PART_NAMES, "split_column", "part"
    )
    if found.ids is None:
        raise GraphError(f"{found.source} has one column; a split needs an id and a part per line")
    parts: list[str | None] = []
    for row, value in enumerate(found.values):
        word = None if is_missing(value) else str(value).lower()
        if word is not None and word not in _PARTS:
            hint = name_hint(word, _PARTS, "write train, val or test")
            raise GraphError(f"{found.place(row)}: {value!r} is not a part; {hint}")
        parts.append(None if word is None else _PARTS[word])
    return replace(found, values=parts)


def _one_value(
    table: Table | TextTable,
    ids: NodeIds | None,
    options: ColumnOptions,
    requested: str | int | None,
    names: Collection[str],
    option: str,
    content: str,
) -> NodeTable:
    """Return the ids of a table and the cells of one more column."""
    if isinstance(table, TextTable) and table.width == 1:
        one = table.with_header(plain(table.first[1][0]) in names)
        return NodeTable(one.source, None, one.columns[0].values(), one.lines, one.names, one.notes)
    known, chosen = settled(
        table, ids, header=options.header, id_name=_id_name(table, options), names=names
    )
    at: int | None = None
    if requested is None and option == "split_column":
        at = _column_of_parts(known, chosen.at, names)
    if at is None:
        at = value_column(known, chosen.at, requested, names, option, content)
    notes = [*known.notes, *([chosen.note] if chosen.note else [])]
    if known.named and requested is None and plain(known.names[at]) not in names:
        plural = {"class": "classes", "part": "parts"}[content]
        notes.append(f"{known.source}: {plural} are in column {known.names[at]!r}")
    return NodeTable(
        known.source,
        None if chosen.at is None else checked_ids(known, chosen.at),
        known.columns[at].values(),
        known.lines,
        (known.names[at],) if known.named else (),
        tuple(notes),
    )


def _column_of_parts(table: Table, id_at: int | None, names: Collection[str]) -> int | None:
    """Return the only column whose cells are all parts, where no name says which it is."""
    others = [at for at in range(len(table.names)) if at != id_at]
    if len(others) == 1 or any(table.named and plain(table.names[at]) in names for at in others):
        return None
    fitting = []
    for at in others:
        some = table.columns[at].values(range(min(_ROW_SAMPLE, table.num_rows)))
        if all(is_missing(value) or str(value).lower() in _PARTS for value in some):
            words = {str(v).lower() for v in table.columns[at].values() if not is_missing(v)}
            if words and words <= _PARTS.keys():
                fitting.append(at)
    return fitting[0] if len(fitting) == 1 else None


def _id_name(table: Table | TextTable, options: ColumnOptions) -> str | int | None:
    """Return the column of ids that the user named, or that training had; None to look for it."""
    if options.id_column is not None:
        return options.id_column if has_column(table, options.id_column) else None
    columns = options.feature_columns
    if not isinstance(columns, FeatureColumns):
        return None
    names = table.names if isinstance(table, Table) else table.first[1]
    if columns.id_column in names:
        return columns.id_column
    others = [name for name in names if name not in columns.kinds]
    return others[0] if len(others) == 1 and len(names) > 1 else None


def has_column(table: Table | TextTable, requested: str | int | None) -> bool:
    """Return whether a table has a column of a name, or at a position."""
    names = table.names if isinstance(table, Table) else table.first[1]
    text = str(requested)
    return text in names or (text.isascii() and text.isdigit() and int(text) < len(names))


def checked_ids(table: Table, at: int) -> Sequence[Any]:
    """Return the ids of all rows; raise for a row without one."""
    ids = table.columns[at].values()
    for row, value in enumerate(ids):
        if value is None or value == "":
            raise GraphError(f"{table.place(row)} has no id; every row needs one")
    return ids


# ---- features ----------------------------------------------------------------------------------


def features_of(
    table: Table | TextTable,
    ids: NodeIds | None,
    options: ColumnOptions = DEFAULT,
    *,
    taken: Mapping[str, str] | None = None,
    classes: Collection[str] = (),
) -> tuple[NodeTable, FeatureColumns]:
    """Return ids and float32 features of a table, and how they were encoded.

    Args:
        table: The table.
        ids: Ids of the graph; None if there is none to compare with.
        options: What the user says.
        taken: Columns of this table that are something else, such as the class, by name.
        classes: Names of the column of classes in another table.
    """
    known, chosen = settled(
        table, ids, header=options.header, id_name=_id_name(table, options), names=CLASS_NAMES
    )
    if len(known.names) < 1 + (chosen.at is not None):
        raise GraphError(
            f"{known.source} has one column; features need a column of ids and numbers beside"
        )
    notes = [*known.notes, *([chosen.note] if chosen.note else [])]
    left_out = dict(taken or {}) if known.named else {}
    left_out |= dict.fromkeys(_row_numbers(known, chosen.at), "row numbers")
    names = [name for at, name in enumerate(known.names) if at != chosen.at]
    selection = _selection(names, options, left_out, known.source)
    for name in (name for name in names if name in left_out):
        notes.append(f"{known.source}: column {name!r} ({left_out[name]}) is not a feature")
    if known.named:
        _warn_of_leaks(known, selection, {*CLASS_NAMES, *map(plain, classes)})
    places = {name: at for at, name in enumerate(known.names)}
    columns = [known.column(places[name], selection.kinds.get(name)) for name in selection.names]
    result = NodeTable(
        known.source,
        None if chosen.at is None else checked_ids(known, chosen.at),
        None,
        known.lines,
        selection.names,
        tuple(notes),
    )
    matrix, encoding = encoded(result, columns, selection.kinds, options.feature_columns)
    if encoding is not options.feature_columns:
        if known.named and chosen.at is not None:
            encoding = replace(encoding, id_column=known.names[chosen.at])
        notes += encoding.table_rows(known.source)
    return replace(result, values=matrix, notes=tuple(notes)), encoding


def encoded(
    table: NodeTable, columns: Sequence[Column], kinds: Mapping[str, str], requested: Any
) -> tuple[NDArray[np.float32], FeatureColumns]:
    """Return the float32 features of typed columns, and how they were encoded.

    Args:
        table: The table they are from, for messages.
        columns: The columns.
        kinds: Kinds that the user asked for, by name.
        requested: The columns of a model, to encode as in training; anything else is ignored.
    """
    if isinstance(requested, FeatureColumns):
        return requested.encode(columns, table.source, place=table.place), requested
    fitted = FeatureColumns.fit(columns, kinds, table.source, place=table.place)
    return fitted.encode(columns, table.source, place=table.place), fitted


def _selection(
    names: list[str], options: ColumnOptions, left_out: Mapping[str, str], source: str
) -> Selection:
    requested = options.feature_columns
    if isinstance(requested, FeatureColumns):
        kinds = {name: kind for name, kind in requested.kinds.items() if kind in KINDS}
        return Selection(
            tuple(name for name in names if name not in left_out or name in kinds),
            {name: kind for name, kind in kinds.items() if name in names},
            frozenset(names),
        )
    selection = select(names, requested, source)
    for name in selection.names:
        if name in left_out and name in selection.explicit and left_out[name] != "row numbers":
            raise GraphError(
                f"{argument('feature_columns')} names {name!r}, which is {left_out[name]} of "
                f"{source}; leave it out"
            )
    kept = tuple(
        name for name in selection.names if name not in left_out or name in selection.explicit
    )
    if not kept:
        raise GraphError(f"{source} has no column of features beside {', '.join(left_out)}")
    return replace(selection, names=kept)


def _row_numbers(table: Table, id_at: int | None) -> list[str]:
    """Return the columns that a program added: row numbers without a name of their own."""
    found = []
    for at, name in enumerate(table.names):
        if at == id_at or not table.named or not is_unnamed(name):
            continue
        cells = [str(value) for value in table.columns[at].values()]
        if cells in ([str(row + start) for row in range(len(cells))] for start in (0, 1)):
            found.append(name)
    return found


def _warn_of_leaks(table: Table, selection: Selection, classes: Collection[str]) -> None:
    leaks = [
        name
        for name in selection.names
        if plain(name) in classes and name not in selection.explicit
    ]
    for name in leaks:
        warn(
            f"{table.source}: column {name!r} has the name of a class and would be learned from; "
            f"leave it out with {argument('feature_columns', f'!{name}')} if it is one"
        )


def read_sparse(file: Path) -> Any:
    """Return the matrix that `scipy.sparse.save_npz` wrote, checked; objects are not loaded."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise GraphError(f"{file} needs SciPy; install dhilgt[io]") from error
    try:
        matrix = scipy.sparse.load_npz(pipes.on_disk(file)).tocsr()
        matrix.check_format(full_check=True)
    except (ValueError, KeyError, OSError, NotImplementedError, zipfile.BadZipFile) as error:
        raise GraphError(
            f"{file} is not a sound sparse matrix ({error}); save it with scipy.sparse.save_npz"
        ) from error
    return matrix
