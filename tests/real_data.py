"""Real graphs, when the environment variable DHILGT_DATA names the folder that holds them."""

import os
from pathlib import Path

import numpy as np
import pytest

from dhilgt import Graph

FOLDER = Path(os.environ.get("DHILGT_DATA", ""))
needs_data = pytest.mark.skipif(
    "DHILGT_DATA" not in os.environ, reason="DHILGT_DATA names no folder of real graphs"
)


def load(name):
    return {"ogbn-arxiv": arxiv, "physics": physics, "tolokers": tolokers, "cornell5": cornell5}[
        name
    ]()


def arxiv():
    return Graph.read(FOLDER / "ogbn_arxiv" / "raw" / "edge.csv.gz")


def physics():
    with np.load(FOLDER / "physics" / "raw" / "ms_academic_phy.npz") as data:
        import scipy.sparse

        parts = (data["adj_data"], data["adj_indices"], data["adj_indptr"])
        return Graph.from_scipy(scipy.sparse.csr_matrix(parts, shape=data["adj_shape"]))


def tolokers():
    with np.load(FOLDER / "tolokers" / "raw" / "tolokers.npz") as data:
        return Graph.from_edges(*data["edges"].T)


def cornell5():
    import scipy.io

    found = scipy.io.loadmat(FOLDER / "extra" / "cornell5" / "raw" / "Cornell5.mat")
    return Graph.from_scipy(found["A"])
