"""The edges of a graph in both directions, whether it is directed or not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.graph.graph import Graph
from dhilgt.utils import checks


def both_directions(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the neighbours of each node along and against the edges, in compressed rows.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], directed=True)
        >>> [part.tolist() for part in both_directions(graph)]
        [[0, 1, 3, 4], [1, 0, 2, 1]]
    """
    if not graph.directed:
        return graph.offsets, graph.targets
    sources, targets = graph.to_edge_index()
    threads = checks.num_threads(None)
    offsets, both, *_ = _native.build_csr(sources, targets, graph.num_nodes, False, threads)
    return offsets, both
