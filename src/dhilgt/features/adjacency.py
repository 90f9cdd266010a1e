"""The weights of the edges that messages are passed along."""

from __future__ import annotations

from typing import Any

import numpy as np

from dhilgt.graph.both_directions import both_directions
from dhilgt.graph.graph import Graph


def adjacency(graph: Graph) -> Any:
    """Return the weighted adjacency matrix, a SciPy CSR array of float32, symmetric.

    An edge between nodes of degrees d and e weighs 1 / sqrt((d + 1) (e + 1)), in both directions
    whether the graph is directed or not; there are no loops, as a node's own representation is
    mapped on its own.

    Args:
        graph: The graph.

    Example:
        >>> path = Graph.from_edges([0, 1], [1, 2])
        >>> adjacency(path).toarray().round(2).tolist()[1]
        [0.4099999964237213, 0.0, 0.4099999964237213]
    """
    import scipy.sparse

    offsets, targets = both_directions(graph)
    degrees = np.diff(offsets)
    scale = (1.0 / np.sqrt(degrees + 1.0)).astype(np.float32)
    weights = np.repeat(scale, degrees) * scale[targets]
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.csr_array((weights, targets, offsets), shape=shape)
