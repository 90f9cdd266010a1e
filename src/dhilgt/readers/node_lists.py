"""Files about nodes in any format: lists of ids, features, classes."""

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, argument, warn
from dhilgt.readers import files, node_tables, pipes
from dhilgt.readers.column_names import ID_NAMES, plain
from dhilgt.readers.edge_layout import is_marked, is_remark
from dhilgt.readers.node_tables import ColumnOptions
from dhilgt.readers.separators import LINES_TO_SNIFF, find_separator, split_fields


def _rows(
    path: "str | PathLike[str]", comment: str | None
) -> tuple[Path, list[list[str]], tuple[str, ...]]:
    """Return the fields of every line that is neither blank nor a comment, and notes."""
    file = files.check_file(path)
    with files.opened(file, False) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise GraphError(f"{file}, line {line} is not UTF-8; save the file as UTF-8") from error
    lines = [line for line in text.splitlines() if line.strip()]
    kept = _without_comments(file, lines, comment)
    skipped = len(lines) - len(kept)
    count = "1 line" if skipped == 1 else f"{skipped:,} lines"
    notes = (f"{file}: skipped {count} of comments",) if skipped else ()
    first = kept[:LINES_TO_SNIFF]
    separator = find_separator(first, one_column=True) if first else ""
    if separator == " " or not all(separator in line for line in first):
        separator = ""  # an id may hold blanks, and one id of several a comma
    return file, [split_fields(line, separator) for line in kept], notes


def _without_comments(file: Path, lines: list[str], comment: str | None) -> list[str]:
    """Return lines without comments: those before the first id, or with the sign asked for."""
    if comment == "":
        return lines
    if comment is not None:
        return [line for line in lines if line.lstrip()[0] != comment]
    start = next((at for at, line in enumerate(lines) if not is_marked(line)), len(lines))
    leading, rest = lines[:start], lines[start:]
    tight = [line for line in leading if not is_remark(line)]
    for line in rest:
        if is_remark(line):
            raise GraphError(
                f"{file}: {line!r} looks like a comment; pass "
                f"{argument('comment', line.lstrip()[0])} to skip such lines, or "
                f"{argument('comment', '')} to read them as ids"
            )
    if tight and (not rest or any(map(is_marked, rest))):  # ids with signs, like #cats
        return lines[lines.index(tight[0]) :]
    if tight and not (len(tight) == 1 and plain(tight[0].lstrip(" \t#%")) in ID_NAMES):
        raise GraphError(
            f"{file}: {tight[0]!r} may be a comment or an id; pass "
            f"{argument('comment', tight[0].lstrip()[0])} to skip such lines, or "
            f"{argument('comment', '')} to read them as ids"
        )
    return rest


def _as_ids(texts: list[str]) -> Any:
    try:
        return np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=object)


def read_nodes(path: "str | PathLike[str]", comment: str | None = None) -> Any:
    """Return the ids of a file: one per line, its first column, or a .npy array.

    Skipped comments are counted in a warning.
    """
    ids, notes = nodes_and_notes(path, comment)
    for note in notes:
        warn(note)
    return ids


def nodes_and_notes(
    path: "str | PathLike[str]", comment: str | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Return the ids of a file, see `read_nodes`, and what was decided about it."""
    if is_npy(path):
        return _load(path), ()
    file, rows, notes = _rows(path, comment)
    texts = [row[0] for row in rows]
    if texts and texts[0].lower() in ("id", "node", "node_id", "nodes", "name"):
        texts = texts[1:]
    if not texts:
        raise GraphError(f"{file} lists no nodes; one id per line is expected")
    return _as_ids(texts), notes


def is_npy(path: "str | PathLike[str]") -> bool:
    """Return whether a file is an array that `numpy.save` wrote, by its name or its content."""
    if str(path).endswith(".npy"):
        return True
    with pipes.on_disk(files.check_file(path)).open("rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


def read_labels(path: "str | PathLike[str]", options: ColumnOptions = node_tables.DEFAULT) -> Any:
    """Return an array (.npy), or the table of a text or Parquet file."""
    if is_npy(path):
        return _load(path)
    return node_tables.open_table(path, "labels", options)


def read_features(path: "str | PathLike[str]", options: ColumnOptions = node_tables.DEFAULT) -> Any:
    """Return the matrix of a .npy file, or of a .npz file with one array or a SciPy matrix.

    For a text or Parquet file, return its table.
    """
    file = files.check_file(path)
    if is_npy(file):
        return _load(file)
    if file.suffix != ".npz" and not is_zip(file):
        return node_tables.open_table(file, "features", options)
    archive = _load(file)
    names = list(archive.files)
    if "indptr" in names or {"row", "col", "shape"} <= set(names):
        return node_tables.read_sparse(file)
    if len(names) != 1:
        raise GraphError(f"{file} holds {', '.join(names)}; save one array, or load it yourself")
    return archive[names[0]]


def is_zip(file: Path) -> bool:
    """Return whether a file is an archive, as `numpy.savez` writes them."""
    with pipes.on_disk(file).open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04"


def _load(path: "str | PathLike[str]") -> Any:
    file = files.check_file(path)
    try:
        return np.load(pipes.on_disk(file), allow_pickle=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise GraphError(
            f"{file} cannot be read ({error}); save a plain array with numpy.save (objects are "
            "not read, they could run code)"
        ) from error
