"""Files with one row per node: features, classes, parts of a split.

The rows may be in any order: `node_match` matches their ids with the graph.
"""

import array
import itertools
import zipfile
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.readers import files, pipes
from dhilgt.readers.columns import (
    as_number,
    id_column,
    is_id_name,
    is_number,
    is_whole,
    plain,
    value_column,
    value_or_none,
)
from dhilgt.readers.node_match import NodeTable
from dhilgt.readers.parquet import is_parquet, parquet_column, parquet_features
from dhilgt.readers.text_table import Row, TextTable
from dhilgt.utils.checks import name_hint

CLASS_NAMES = {"label", "labels", "class", "classes", "y", "target", "category"}
PART_NAMES = {"part", "split", "set", "subset", "fold", "mask"}
_PARTS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "dev": "val", "test": "test", "testing": "test",
}  # fmt: skip


# ---- reading -----------------------------------------------------------------------------------


def read_feature_table(path: "str | PathLike[str]") -> NodeTable:
    """Return the ids and float32 features of a text or Parquet file with a column of ids."""
    file = files.check_file(path)
    if is_parquet(file):
        return parquet_features(file)
    table = TextTable(file)
    rows = iter(table)
    head, header = _first_rows(table, rows, _is_feature_header)
    width = len(head[0][1]) if head else len(header or ())
    at = id_column(file, header)
    if width < 2:
        raise GraphError(f"{file} has one column; features need a column of ids and numbers beside")
    names = tuple(header) if header else tuple(str(column) for column in range(width))
    numbers = _NumberReader(table, names)
    ids: list[str] = []
    lines: list[int] = []
    values = array.array("f")
    for line, fields in itertools.chain(head, rows):
        ids.append(_checked_id(file, line, fields.pop(at)))
        lines.append(line)
        values.extend(numbers.read(line, fields, at))
    if not ids:
        raise GraphError(f"{file} has a header and no rows; give one row per node")
    matrix = np.frombuffer(values, np.float32).reshape(len(ids), width - 1)
    return NodeTable(file, ids, matrix, lines, names[:at] + names[at + 1 :])


def read_column(path: "str | PathLike[str]", names: set[str], content: str) -> NodeTable:
    """Return the ids of a file and the cells (text, or values of Parquet) of one more column.

    A file with a single column has no ids: `ids` is then empty, and `values` are in its order.

    Args:
        path: Text or Parquet.
        names: Known names of the column, in lower case.
        content: Content of the column, for messages.
    """
    file = files.check_file(path)
    if is_parquet(file):
        return parquet_column(file, names, content)
    table = TextTable(file)
    rows = iter(table)

    def is_header(first: list[str], second: list[str] | None) -> bool:
        plain_names = [plain(field) for field in first]
        if any(name in names for name in plain_names[len(first) > 1 :]):
            return True
        if len(first) == 1:
            return False
        return is_id_name(plain_names[0]) or (
            second is not None and is_whole(second[0]) and not is_whole(first[0])
        )

    head, header = _first_rows(table, rows, is_header)
    everything = [*head, *rows]
    if not everything:
        raise GraphError(f"{file} has a header and no rows; give an id and a {content} per line")
    width = len(everything[0][1])
    lines = [line for line, _ in everything]
    if width == 1:
        return NodeTable(file, [], [fields[0] for _, fields in everything], lines)
    plain_names = [plain(name) for name in header or ()]
    if width == 2 and not any(map(is_id_name, plain_names)):
        at = int(bool(plain_names) and plain_names[0] in names)  # the other of two columns
    else:
        at = id_column(file, header)
    value = value_column(file, header, width, at, names, content)
    ids = [_checked_id(file, line, fields[at]) for line, fields in everything]
    return NodeTable(file, ids, [fields[value] for _, fields in everything], lines)


def read_labels(path: "str | PathLike[str]") -> NodeTable:
    """Return ids and classes: integers, or strings if any is not one; None for no class."""
    table = read_column(path, CLASS_NAMES, "class")
    cells = [value_or_none(value) for value in table.values]
    known = [(row, cell) for row, cell in enumerate(cells) if cell is not None]
    if not known:
        raise GraphError(f"{table.file} holds no class, all its cells are empty; fill some")
    if not all(is_number(str(cell)) for _, cell in known):
        return replace(table, values=[None if cell is None else str(cell) for cell in cells])
    for row, cell in known:
        if not as_number(str(cell)).is_integer():
            raise GraphError(
                f"{table.place(row)}: {cell} is not a class; give whole numbers or words (numbers "
                "to be predicted, regression, are not supported)"
            )
    numbers = [None if cell is None else int(as_number(str(cell))) for cell in cells]
    return replace(table, values=[None if number == -1 else number for number in numbers])


def read_split(path: "str | PathLike[str]") -> NodeTable:
    """Return ids and parts ("train", "val", "test" or None) of a file."""
    table = read_column(path, PART_NAMES, "part")
    if not len(table.ids):
        raise GraphError(f"{table.file} has one column; a split needs an id and a part per line")
    parts: list[str | None] = []
    for row, value in enumerate(table.values):
        cell = value_or_none(value)
        word = None if cell is None else str(cell).lower()
        if word is not None and word not in _PARTS:
            hint = name_hint(word, _PARTS, "write train, val or test")
            raise GraphError(f"{table.place(row)}: {cell!r} is not a part; {hint}")
        parts.append(None if word is None else _PARTS[word])
    return replace(table, values=parts)


# ---- rows of text ------------------------------------------------------------------------------


class _NumberReader:
    """Conversion of fields to numbers; decimal commas are allowed unless commas separate fields."""

    def __init__(self, table: TextTable, names: tuple[str, ...]) -> None:
        self._file, self._names = table.file, names
        self._comma = table.separator not in (",", "")

    def read(self, line: int, fields: list[str], id_column: int) -> list[float]:
        try:
            numbers = list(map(float, fields))
        except ValueError:
            numbers = [self._number(line, at, f, id_column) for at, f in enumerate(fields)]
        # Larger numbers become infinite as float32; `not <=` is true of NaN too.
        if not all(-3.4028235e38 <= number <= 3.4028235e38 for number in numbers):
            at = next(i for i, v in enumerate(numbers) if not abs(v) <= 3.4028235e38)
            raise GraphError(
                f"{self._place(line, at, id_column)} = {fields[at]} is not finite; fill such "
                "cells with a number"
            )
        return numbers

    def _number(self, line: int, at: int, text: str, id_column: int) -> float:
        try:
            return float(text)
        except ValueError:
            if self._comma and text.count(",") == 1 and "." not in text and is_number(text):
                return as_number(text)
        fault = "is empty" if not text else f"= {text!r} is not a number"
        raise GraphError(
            f"{self._place(line, at, id_column)} {fault}; features are numbers, so fill it, encode "
            "it, or take the column out"
        )

    def _place(self, line: int, at: int, id_column: int) -> str:
        name = self._names[at + (at >= id_column)]
        return f"{self._file}, line {line}, column {name!r}"


def _first_rows(table: TextTable, rows: Any, is_header: Any) -> tuple[list[Row], list[str] | None]:
    """Return the rows of data among the first two, and the header if there is one."""
    first = next(rows)
    second = next(rows, None)
    rest = [] if second is None else [second]
    if is_header(first[1], None if second is None else second[1]):
        names = first[1]
        if len(set(names)) != len(names):
            repeated = next(name for at, name in enumerate(names) if name in names[:at])
            raise GraphError(f"{table.file} has two columns {repeated!r}; give each its own name")
        return rest, names
    return [first, *rest], None


def _is_feature_header(first: list[str], second: list[str] | None) -> bool:
    if is_id_name(plain(first[0])) or not first[0]:
        return True
    if any(is_number(field) for field in first):
        return False  # one word beside numbers is a damaged cell, not a header
    return second is None or any(is_number(field) for field in second)


def _checked_id(file: Path, line: int, text: str) -> str:
    if not text:
        raise GraphError(f"{file}, line {line} has no id; every row needs one")
    return text


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
