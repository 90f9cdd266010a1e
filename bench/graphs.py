"""The graphs of the benchmarks: real ones where their files are available, else generated ones."""

import os
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, lists and arrays, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        import scipy.sparse

        allowed: dict[tuple[str, str], Any] = {
            ("collections", "defaultdict"): defaultdict,
            ("__builtin__", "list"): list,
            ("scipy.sparse.csr", "csr_matrix"): scipy.sparse.csr_matrix,
            ("numpy.core.multiarray", "_reconstruct"): np.ndarray.__reduce__(np.empty(0))[0],
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a citation graph")
        return allowed[module, name]


def _citations(folder: Path, name: str) -> Graph:
    """Cora or Pubmed with all features and classes, from the files of the Planetoid split."""
    import scipy.sparse

    raw = folder / name / "raw"
    parts = {}
    for part in ("allx", "tx", "ally", "ty", "graph"):
        with (raw / f"ind.{name}.{part}").open("rb") as file:
            parts[part] = _PlainUnpickler(file, encoding="latin1").load()
    tested = np.loadtxt(raw / f"ind.{name}.test.index", dtype=np.int64)
    row_of = np.argsort(np.concatenate([np.arange(parts["allx"].shape[0]), tested]))
    features = scipy.sparse.vstack([parts["allx"], parts["tx"]]).tocsr()[row_of]
    classes = np.concatenate([parts["ally"], parts["ty"]]).argmax(axis=1)[row_of]
    edges = [(u, v) for u, neighbors in parts["graph"].items() for v in neighbors]
    return Graph.from_edges(
        *zip(*edges, strict=True), num_nodes=len(row_of), features=features, labels=classes
    )


_REAL: dict[str, Callable[[Path], Graph]] = {
    "ogbn-arxiv": _arxiv,
    "physics": _physics,
    "cornell5": _cornell5,
    "tolokers": _tolokers,
    "cora": lambda folder: _citations(folder, "cora"),
    "pubmed": lambda folder: _citations(folder, "pubmed"),
}
# Nodes and average degree of the real ones, for a stand-in of the same size.
_SIZES = {
    "ogbn-arxiv": (169_343, 13.67),
    "physics": (34_493, 14.38),
    "cornell5": (18_660, 84.76),
    "tolokers": (11_758, 88.28),
    "cora": (2_708, 3.90),
    "pubmed": (19_717, 4.50),
}
_WITH_CLASSES = {"cora": (256, 7), "pubmed": (256, 3)}  # features and classes of a stand-in


def load(name: str) -> tuple[str, Graph]:
    """Return a graph and the name to print: `<name>-like` for a generated stand-in."""
    folder = data_folder()
    if folder is not None:
        try:
            return name, _REAL[name](folder)
        except FileNotFoundError:
            pass
    nodes, degree = _SIZES[name]
    features, classes = _WITH_CLASSES.get(name, (1, 5))
    return f"{name}-like", generate(nodes, degree, num_features=features, num_classes=classes)
