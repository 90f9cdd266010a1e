"""Label entries of a few hubs alone: the unit of work when many machines build the labels."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import side_number
from dhilgt.labels.orders import ranking
from dhilgt.labels.radius import MOST_RADIUS
from dhilgt.labels.sizes import native_arrays, native_radius
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import memory_limit


class LabelBlock(NamedTuple):
    """Label entries by ascending distance, self entries left out.

    Attributes:
        nodes: Node index of each entry.
        hubs: Index of the hub.
        distances: Their distance.
    """

    nodes: NDArray[np.int64]
    hubs: NDArray[np.int64]
    distances: NDArray[np.int32]


def label_block(
    graph: Graph,
    first: int,
    last: int,
    *,
    order: Any = None,
    side: str = "out",
    radius: int | None = None,
    max_memory: int | str | None = None,
) -> LabelBlock:
    """Return all label entries whose hub ranks from `first` to `last - 1`.

    A block needs only the graph and the order: blocks built on different machines, in any order,
    together hold the entries of `HubLabels`.

    Args:
        graph: The graph.
        first: Rank of the first hub, 0 being the most important node.
        last: Rank after the last hub; at most 512 hubs.
        order: As for `HubLabels.build`; by degree when None.
        side: On a directed graph, "out" for hubs that nodes reach, "in" for hubs that reach them.
        radius: Leave out entries with a longer distance; None for all entries.
        max_memory: Limit on the memory of the search; None for what is free.

    Example:
        >>> block = label_block(Graph.from_edges([0, 1, 2], [1, 2, 3]), 0, 1)
        >>> block.nodes.tolist(), block.distances.tolist()
        ([2, 0, 3], [1, 1, 2])
    """
    ranked = ranking(graph, order)
    nodes, hubs, distances = _native.plane_block(
        *native_arrays(graph),
        ranked,
        side_number(side),
        first,
        last,
        memory_limit(max_memory),
        None,
        native_radius(whole_number("radius", radius, 1, MOST_RADIUS, optional=True)),
    )
    indices = ranked.astype(np.int64)
    return LabelBlock(indices[nodes], indices[hubs], distances.astype(np.int32))
