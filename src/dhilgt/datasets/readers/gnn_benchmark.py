"""The .npz files of gnn-benchmark: adjacency and features as the parts of CSR matrices."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import Files
from dhilgt.datasets.optional import import_optional
from dhilgt.datasets.readers.array_files import open_npz
from dhilgt.datasets.readers.raw_graph import RawGraph


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the file holds; there is no official split."""
    with open_npz(files.path(files.info.files[0].path)) as arrays:
        labels = arrays["labels"].astype(np.int64)
        edges = _matrix(arrays, "adj").tocoo()
        if edges.shape != (len(labels), len(labels)):
            raise ValueError(f"a graph of shape {edges.shape} with {len(labels)} classes")
        x = _matrix(arrays, "attr") if features else None
    return RawGraph(len(labels), edges.row, edges.col, labels, x)


def _matrix(arrays: Mapping[str, NDArray[Any]], key: str) -> Any:
    parts = tuple(arrays[f"{key}_{part}"] for part in ("data", "indices", "indptr"))
    shape = tuple(int(size) for size in arrays[f"{key}_shape"])
    matrix = import_optional("scipy.sparse").csr_matrix(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix
