"""The eight files of Planetoid: `ind.NAME.x`, `.tx`, `.allx`, their classes, the graph, an index.

Rows of ``allx`` are the first nodes. Those of ``tx`` belong to the nodes that ``test.index`` lists,
in its order; the numbers it leaves out between its smallest and largest are nodes without features
and class.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets import safe_pickle
from dhilgt.datasets.files import Files, reading
from dhilgt.datasets.optional import import_optional
from dhilgt.datasets.readers.raw_graph import RawGraph, Split
from dhilgt.errors import DatasetError

_NUM_VALIDATION = 500


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the files hold; the official split is the public one of 20 nodes per class."""
    name = files.info.name

    def unpickled(end: str) -> Any:
        return safe_pickle.load_file(files.path(f"raw/ind.{name}.{end}"))

    index_path = files.path(f"raw/ind.{name}.test.index")
    with reading(index_path, "a list of node numbers"):
        test = np.loadtxt(index_path, dtype=np.int64, ndmin=1)
    first, rest = np.asarray(unpickled("ally")), np.asarray(unpickled("ty"))
    count = _num_nodes(test, len(first), len(rest), str(index_path))
    labels = np.full(count, -1, dtype=np.int64)
    labels[: len(first)] = _classes(first)
    labels[test] = _classes(rest)

    x = None
    if features:
        sparse = import_optional("scipy.sparse")
        rows = np.concatenate([np.arange(len(first)), test])
        stacked = sparse.vstack([unpickled("allx"), unpickled("tx")]).tocoo()
        x = sparse.csr_matrix(
            (stacked.data, (rows[stacked.row], stacked.col)), shape=(count, stacked.shape[1])
        )
    graph_path = files.path(f"raw/ind.{name}.graph")
    with reading(graph_path, "lists of neighbours"):
        sources, targets = _edges(safe_pickle.load_file(graph_path), count)
    splits: tuple[Split, ...] = ()
    if official:
        num_train = len(unpickled("y"))
        val = np.arange(num_train, min(num_train + _NUM_VALIDATION, len(first)))
        splits = ({"train": np.arange(num_train), "val": val, "test": np.sort(test)},)
    return RawGraph(count, sources, targets, labels, x, splits)


def _num_nodes(test: NDArray[np.int64], num_first: int, num_rest: int, where: str) -> int:
    if len(test) != num_rest or len(np.unique(test)) != len(test):
        raise DatasetError(
            f"{where} lists {len(np.unique(test)):,} different nodes, but there are {num_rest:,} "
            "rows for them; the files do not belong together, fetch them again"
        )
    if test.size and int(test.min()) < num_first:
        raise DatasetError(
            f"{where} lists node {test.min()}, which is among the first {num_first:,}; the files "
            "do not belong together, fetch them again"
        )
    return int(test.max(initial=num_first - 1)) + 1


def _classes(one_hot: NDArray[Any]) -> NDArray[np.int64]:
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1).astype(np.int64)


def _edges(
    neighbors: Mapping[int, list[int]], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    nodes = np.fromiter(neighbors.keys(), dtype=np.int64, count=len(neighbors))
    sizes = np.fromiter((len(row) for row in neighbors.values()), np.int64, len(neighbors))
    targets = np.fromiter((v for row in neighbors.values() for v in row), np.int64, sizes.sum())
    largest = max(int(nodes.max(initial=-1)), int(targets.max(initial=-1)))
    if largest >= count:
        raise ValueError(f"it names node {largest}, but there are rows for {count:,} nodes")
    return np.repeat(nodes, sizes), targets
