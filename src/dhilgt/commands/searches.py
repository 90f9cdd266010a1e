"""Plain breadth-first search: something to check labels against that shares no code with them."""

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph import Graph


def distances_from(graph: Graph, source: int) -> NDArray[np.int32]:
    """Gives the distance from one node to every node, by index; -1 where there is no path.

    Example:
        >>> distances_from(Graph.from_edges([0, 1], [1, 2]), 0).tolist()
        [0, 1, 2]
    """
    found = np.full(graph.num_nodes, -1, dtype=np.int32)
    found[source] = 0
    level = np.array([source])
    distance = 0
    while level.size:
        distance += 1
        starts, ends = graph.offsets[level], graph.offsets[level + 1]
        lengths = ends - starts
        place = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        reached = graph.targets[place + np.arange(len(place))]
        level = np.unique(reached[found[reached] < 0])
        found[level] = distance
    return found
