"""Edges of a graph and of its label graph, as pairs of nodes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import LabelGraph

Pairs = NDArray[np.int64]
"""Two node indices per row, [m, 2]: each pair of nodes once, no self-loops."""


class LabelEdges(NamedTuple):
    """The edges of a label graph.

    Attributes:
        pairs: Node and hub, [m, 2].
        distances: Hops between the two, [m].
    """

    pairs: Pairs
    distances: NDArray[np.int32]


def raw_pairs(graph: Graph) -> Pairs:
    """Return the pairs of nodes that an edge joins, whatever its direction.

    Example:
        >>> raw_pairs(Graph.from_edges([0, 1], [1, 2])).tolist()
        [[0, 1], [1, 2]]
    """
    pairs = graph.to_edge_index().T
    if graph.directed:
        return np.unique(np.sort(pairs, axis=1), axis=0)
    return np.ascontiguousarray(pairs[pairs[:, 0] < pairs[:, 1]])


def label_edges(rows: LabelGraph) -> LabelEdges:
    """Return the edges from nodes to their hubs; of two nodes at most one is a hub of the other.

    Args:
        rows: From `HubLabels.label_graph`.
    """
    num_nodes = len(rows.out_offsets) - 1
    sources = np.repeat(np.arange(num_nodes), np.diff(rows.out_offsets))
    return LabelEdges(np.stack([sources, rows.out_hubs], axis=1), rows.out_distances)


def sampled_edges(pairs: Pairs, most: int, seed: int) -> Pairs:
    """Return the edges to draw: all, or a uniform sample of `most` in their order.

    Args:
        pairs: All edges.
        most: Largest number of edges to draw.
        seed: Seed of the sample.
    """
    if len(pairs) <= most:
        return pairs
    return pairs[np.sort(np.random.default_rng(seed).choice(len(pairs), most, replace=False))]
