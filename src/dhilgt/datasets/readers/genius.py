"""genius: one MATLAB file with ``edge_index``, ``node_feat`` and ``label``."""

import numpy as np

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.array_files import open_matlab
from dhilgt.datasets.readers.linkx_splits import linkx_splits
from dhilgt.datasets.readers.raw_graph import RawGraph


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the files hold."""
    path = files.path(files.info.files[0].path)
    with open_matlab(path, "edge_index", "node_feat", "label") as values:
        edges = np.asarray(values["edge_index"]).astype(np.int64)
        labels = np.asarray(values["label"]).reshape(-1).astype(np.int64)
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise ValueError(f"edge_index has shape {edges.shape} instead of (2, number)")
        x = np.asarray(values["node_feat"], dtype=np.float32) if features else None
    splits = linkx_splits(files) if official else ()
    return RawGraph(len(labels), edges[0], edges[1], labels, x, splits)
