"""The layout of OGB: .csv.gz files under ``raw`` and ``split``, or ``raw/data.npz``.

Of ogbn-mag only the papers and the citations between them are read. In place of the CSV files of
edges, features and classes there may be ``raw/data.npz`` (``edge_index`` [2, edges], ``node_feat``)
and ``raw/node-label.npz`` (``node_label``), as OGB stores its largest graphs.
"""

from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.array_files import open_npz
from dhilgt.datasets.readers.csv_tables import read_edges, read_numbers
from dhilgt.datasets.readers.raw_graph import RawGraph, Split
from dhilgt.errors import DatasetError


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the files hold."""
    labels, sources, targets, x = _from_npz(files, features) or _from_csv(files, features)
    labels = np.where(np.isnan(labels), -1, labels).astype(np.int64).reshape(-1)
    if x is not None and len(x) != len(labels):
        raise DatasetError(
            f"{files.home} has features of {len(x):,} nodes and classes of {len(labels):,}; the "
            "files do not belong together, fetch them again"
        )
    return RawGraph(len(labels), sources, targets, labels, x, (_split(files),) if official else ())


def _from_csv(files: Files, features: bool) -> tuple[Any, Any, Any, Any]:
    labels = read_numbers(_path(files, "node-label.csv.gz"), float, "a list of classes")
    sources, targets = read_edges(_path(files, "edge.csv.gz"))
    x = None
    if features:
        x = read_numbers(_path(files, "node-feat.csv.gz"), np.float32, "a table of features")
    return labels, sources, targets, x


def _from_npz(files: Files, features: bool) -> tuple[Any, Any, Any, Any] | None:
    data, classes = files.find("raw/data.npz"), files.find("raw/node-label.npz")
    if data is None or classes is None:
        return None
    with open_npz(classes) as arrays:
        labels = arrays["node_label"].astype(float)
    with open_npz(data) as arrays:
        edges = arrays["edge_index"]
        x = arrays["node_feat"].astype(np.float32) if features else None
    return labels, edges[0], edges[1], x


def _split(files: Files) -> Split:
    names = {"train": "train.csv.gz", "val": "valid.csv.gz", "test": "test.csv.gz"}
    return {
        part: read_numbers(_path(files, name), np.int64, "a list of nodes").reshape(-1)
        for part, name in names.items()
    }


def _path(files: Files, name: str) -> Path:
    """Return a file by its name, whose folder differs between the graphs."""
    return files.path(next(file.path for file in files.info.files if file.name == name))
