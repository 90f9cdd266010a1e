"""The result of a reader, before it becomes a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.optional import import_optional

Split = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class RawGraph:
    """A dataset as it is in its files.

    Attributes:
        num_nodes: Number of nodes.
        sources: First ends of the edges, as indices; self-loops, repeats and both directions may
            occur.
        targets: Second ends of the edges.
        labels: Class of each node, -1 where unknown.
        features: A NumPy array or SciPy sparse matrix with a row per node; None if not requested.
        splits: The official splits: indices or masks by the names train, val and test.
    """

    num_nodes: int
    sources: NDArray[Any]
    targets: NDArray[Any]
    labels: NDArray[np.int64]
    features: Any = None
    splits: Sequence[Split] = ()


def one_hot_rows(columns: NDArray[np.int64], width: int) -> Any:
    """Return sparse features with a 1 in each of the listed columns of a row, [nodes, width]."""
    ones = np.ones(columns.size, dtype=np.float32)
    offsets = np.arange(0, columns.size + 1, columns.shape[1])
    return import_optional("scipy.sparse").csr_matrix(
        (ones, columns.reshape(-1), offsets), shape=(len(columns), width)
    )
