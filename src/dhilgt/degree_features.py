"""Features for graphs that have none: what the number of neighbours says."""

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph import Graph

_BUCKETS = 32  # one per power of two; the same width for every graph


def degree_features(graph: Graph) -> NDArray[np.float32]:
    """Gives features made of degrees: its logarithm, and which power of two it reaches.

    A directed graph has them for leaving edges, then for arriving ones. The width depends on
    nothing else, so that a model fits the graph when it has grown.

    Args:
        graph: The graph.

    Example:
        >>> x = degree_features(Graph.from_edges([0, 0, 0], [1, 2, 3]))
        >>> x.shape, x[0, 1:5].tolist(), x[1, 1:5].tolist()
        ((4, 33), [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0])
    """
    ways = [graph.degrees]
    if graph.directed:
        ways.append(np.diff(graph.in_offsets))
    blocks = []
    for degrees in ways:
        bucket = np.minimum(np.log2(degrees + 1).astype(np.int64), _BUCKETS - 1)
        one_hot = bucket[:, None] == np.arange(_BUCKETS)
        blocks += [np.log1p(degrees)[:, None], one_hot]
    return np.concatenate(blocks, axis=1, dtype=np.float32)
