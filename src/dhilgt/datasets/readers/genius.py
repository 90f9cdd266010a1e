"""genius: one MATLAB file with ``edge_index``, ``node_feat`` and ``label``."""

import numpy as np

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers import linkx, matlab
from dhilgt.datasets.readers.raw import Raw


def read(files: Files, *, features: bool, official: bool) -> Raw:
    """Gives what the files hold."""
    wanted = ("edge_index", "node_feat", "label")
    with matlab.opened(files.path(files.info.files[0].path), wanted) as found:
        edges = np.asarray(found["edge_index"]).astype(np.int64)
        labels = np.asarray(found["label"]).reshape(-1).astype(np.int64)
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise ValueError(f"edge_index has shape {edges.shape} instead of (2, number)")
        x = np.asarray(found["node_feat"], dtype=np.float32) if features else None
    return Raw(len(labels), edges[0], edges[1], labels, x, linkx.splits(files) if official else ())
