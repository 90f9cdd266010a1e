"""What a reader gives, before it becomes a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Split = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Raw:
    """A dataset as its files have it.

    Attributes:
        num_nodes: Number of nodes.
        sources: Ends of the edges, as indices; loops, repeats and both directions may be there.
        targets: The other ends.
        labels: Class of each node, -1 where unknown.
        features: A NumPy array or SciPy sparse matrix with a row per node; None if not asked for.
        splits: The official splits: indices or masks by the names train, val and test.
    """

    num_nodes: int
    sources: NDArray[Any]
    targets: NDArray[Any]
    labels: NDArray[np.int64]
    features: Any = None
    splits: Sequence[Split] = field(default=())
