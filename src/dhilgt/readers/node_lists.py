"""Small files about nodes: lists of ids, features, labels."""

import gzip
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.readers import edge_text, files, node_tables


def _rows(path: "str | PathLike[str]") -> tuple[Path, list[list[str]]]:
    """Gives the fields of every line of data; comments and blank lines are passed over."""
    file = files.check_file(path)
    raw = file.read_bytes()
    try:
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise GraphError(f"{file}, line {line} is not UTF-8; save the file as UTF-8") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise GraphError(f"{file} is damaged gzip ({error}); fetch or make it again") from error
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#%"]
    separator = next(
        (s for s in (",", "\t", ";") if lines and all(s in line for line in lines[:20])), None
    )
    if separator is None:
        return file, [[line.strip()] for line in lines]
    return file, [edge_text.split(line, separator) for line in lines]


def _as_ids(texts: list[str]) -> Any:
    try:
        return np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=object)


def read_nodes(path: "str | PathLike[str]") -> Any:
    """Gives the ids of a file with one per line (or its first column), or of a .npy file."""
    if str(path).endswith(".npy"):
        return _load(path)
    file, rows = _rows(path)
    texts = [row[0] for row in rows]
    if texts and texts[0].lower() in ("id", "node", "node_id", "nodes", "name"):
        texts = texts[1:]
    if not texts:
        raise GraphError(f"{file} lists no nodes; one id per line is expected")
    return _as_ids(texts)


def read_labels(path: "str | PathLike[str]") -> Any:
    """Gives an array (.npy, or one class per line), or a `NodeTable` of ids and classes."""
    if str(path).endswith(".npy"):
        return _load(path)
    table = node_tables.read_labels(path)
    return table if len(table.ids) else np.array(table.values, dtype=object)


def read_features(path: "str | PathLike[str]") -> Any:
    """Gives the matrix of a .npy file or of a .npz with one array or a SciPy matrix.

    Of a text or Parquet file, a `NodeTable` of ids and features.
    """
    file = files.check_file(path)
    if file.suffix == ".npy":
        return _load(file)
    if file.suffix != ".npz":
        return node_tables.read_feature_table(file)
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
