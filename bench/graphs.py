"""The graphs benchmarks run on: real ones where the files are at hand, else generated ones."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dhilgt import Graph, generate


def data_folder() -> Path | None:
    """The folder with the datasets' raw files, if the environment names one."""
    named = os.environ.get("DHILGT_DATA")
    return Path(named) if named else None


def _arxiv(folder: Path) -> Graph:
    return Graph.read(folder / "ogbn_arxiv/raw/edge.csv.gz", num_nodes=169_343)


def _physics(folder: Path) -> Graph:
    import scipy.sparse

    with np.load(folder / "physics/raw/ms_academic_phy.npz") as file:
        parts = (file["adj_data"], file["adj_indices"], file["adj_indptr"])
        return Graph.from_scipy(scipy.sparse.csr_matrix(parts, shape=file["adj_shape"]))


def _tolokers(folder: Path) -> Graph:
    with np.load(folder / "tolokers/raw/tolokers.npz") as file:
        return Graph.from_edges(*file["edges"].T, num_nodes=len(file["node_labels"]))


def _cornell5(folder: Path) -> Graph:
    import scipy.io

    return Graph.from_scipy(scipy.io.loadmat(folder / "extra/cornell5/raw/Cornell5.mat")["A"])


_REAL: dict[str, Callable[[Path], Graph]] = {
    "ogbn-arxiv": _arxiv,
    "physics": _physics,
    "cornell5": _cornell5,
    "tolokers": _tolokers,
}
# Nodes and average degree of the real ones, for a stand-in of the same size.
_SIZES = {
    "ogbn-arxiv": (169_343, 13.67),
    "physics": (34_493, 14.38),
    "cornell5": (18_660, 84.76),
    "tolokers": (11_758, 88.28),
}


def load(name: str) -> tuple[str, Graph]:
    """Gives a graph and the name to print: `<name>-like` for a generated stand-in."""
    folder = data_folder()
    if folder is not None:
        try:
            return name, _REAL[name](folder)
        except FileNotFoundError:
            pass
    nodes, degree = _SIZES[name]
    return f"{name}-like", generate(nodes, degree, num_features=1)
