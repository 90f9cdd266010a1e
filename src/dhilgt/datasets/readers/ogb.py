"""The layout of OGB: .csv.gz files under ``raw`` and ``split``, or ``raw/data.npz``.

Of ogbn-mag only the papers and the citations between them are read. In place of the CSV files of
edges, features and classes there may be ``raw/data.npz`` (``edge_index`` [2, edges], ``node_feat``)
and ``raw/node-label.npz`` (``node_label``), as OGB stores its largest graphs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers import npz, tables
from dhilgt.datasets.readers.raw import Raw, Split
from dhilgt.errors import DatasetError


def read(files: Files, *, features: bool, official: bool) -> Raw:
    """Gives what the files hold."""
    labels, sources, targets, x = _arrays(files, features) or _texts(files, features)
    labels = np.where(np.isnan(labels), -1, labels).astype(np.int64).reshape(-1)
    if x is not None and len(x) != len(labels):
        raise DatasetError(
            f"{files.home} has features of {len(x):,} nodes and classes of {len(labels):,}; the "
            "files do not belong together, fetch them again"
        )
    return Raw(len(labels), sources, targets, labels, x, (_split(files),) if official else ())


def _texts(files: Files, features: bool) -> tuple[Any, Any, Any, Any]:
    by_end = {file.name: file.path for file in files.info.files}
    labels = tables.numbers(files.path(by_end["node-label.csv.gz"]), float, "a list of classes")
    sources, targets = tables.edges(files.path(by_end["edge.csv.gz"]))
    x = None
    if features:
        path = files.path(by_end["node-feat.csv.gz"])
        x = tables.numbers(path, np.float32, "a table of features")
    return labels, sources, targets, x


def _arrays(files: Files, features: bool) -> tuple[Any, Any, Any, Any] | None:
    packed, classes = files.find("raw/data.npz"), files.find("raw/node-label.npz")
    if packed is None or classes is None:
        return None
    with npz.opened(classes) as arrays:
        labels = arrays["node_label"].astype(float)
    with npz.opened(packed) as arrays:
        edges = arrays["edge_index"]
        x = arrays["node_feat"].astype(np.float32) if features else None
    return labels, edges[0], edges[1], x


def _split(files: Files) -> Split:
    found: dict[str, NDArray[Any]] = {}
    for part, name in (("train", "train"), ("val", "valid"), ("test", "test")):
        path = next(f.path for f in files.info.files if f.name == f"{name}.csv.gz")
        found[part] = tables.numbers(files.path(path), np.int64, "a list of nodes").reshape(-1)
    return found
