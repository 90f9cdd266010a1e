"""Files about nodes in any format: lists of ids, features, classes."""

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.readers import files, node_tables
from dhilgt.readers.node_tables import ColumnOptions
from dhilgt.readers.separators import LINES_TO_SNIFF, find_separator, split_fields


def _rows(path: "str | PathLike[str]") -> tuple[Path, list[list[str]]]:
    """Return the fields of every line that is neither blank nor a comment."""
    file = files.check_file(path)
    with files.opened(file, False) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise GraphError(f"{file}, line {line} is not UTF-8; save the file as UTF-8") from error
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#%"]
    first = lines[:LINES_TO_SNIFF]
    separator = find_separator(first, one_column=True) if first else ""
    if separator == " " or not all(separator in line for line in first):
        separator = ""  # an id may hold blanks, and one id of several a comma
    return file, [split_fields(line, separator) for line in lines]


def _as_ids(texts: list[str]) -> Any:
    try:
        return np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=object)


def read_nodes(path: "str | PathLike[str]") -> Any:
    """Return the ids of a file: one per line, its first column, or a .npy array."""
    if str(path).endswith(".npy"):
        return _load(path)
    file, rows = _rows(path)
    texts = [row[0] for row in rows]
    if texts and texts[0].lower() in ("id", "node", "node_id", "nodes", "name"):
        texts = texts[1:]
    if not texts:
        raise GraphError(f"{file} lists no nodes; one id per line is expected")
    return _as_ids(texts)


def read_labels(path: "str | PathLike[str]", options: ColumnOptions = node_tables.DEFAULT) -> Any:
    """Return an array (.npy), or the table of a text or Parquet file."""
    if str(path).endswith(".npy"):
        return _load(path)
    return node_tables.open_table(path, "labels", options)


def read_features(path: "str | PathLike[str]", options: ColumnOptions = node_tables.DEFAULT) -> Any:
    """Return the matrix of a .npy file, or of a .npz file with one array or a SciPy matrix.

    For a text or Parquet file, return its table.
    """
    file = files.check_file(path)
    if file.suffix == ".npy":
        return _load(file)
    if file.suffix != ".npz":
        return node_tables.open_table(file, "features", options)
    archive = _load(file)
    names = list(archive.files)
    if "indptr" in names or {"row", "col", "shape"} <= set(names):
        return node_tables.read_sparse(file)
    if len(names) != 1:
        raise GraphError(f"{file} holds {', '.join(names)}; save one array, or load it yourself")
    return archive[names[0]]


def _load(path: "str | PathLike[str]") -> Any:
    file = files.check_file(path)
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise GraphError(
            f"{file} cannot be read ({error}); save a plain array with numpy.save (objects are "
            "not read, they could run code)"
        ) from error
