"""Statistics of a graph: size, classes, components, homophily."""

from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.optional import import_optional
from dhilgt.graph.both_directions import both_directions
from dhilgt.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a graph.

    Attributes:
        nodes: Number of nodes.
        edges: Entries of the adjacency matrix, every edge in both directions.
        features: Numbers per node; None without features.
        classes: Number of classes.
        components: Connected components, directions ignored.
        largest_component: Nodes of the largest one.
        isolated: Nodes without an edge.
        unlabelled: Nodes without a class.
        homophily: Fraction of edges between labelled nodes whose ends have the same class; None
            where there is no such edge.
    """

    nodes: int
    edges: int
    features: int | None
    classes: int
    components: int
    largest_component: int
    isolated: int
    unlabelled: int
    homophily: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return asdict(self)


def statistics(
    graph: "Graph | str", root: "str | PathLike[str] | None" = None, **options: Any
) -> Statistics:
    """Return statistics of a graph.

    Args:
        graph: A graph, or the name of a dataset.
        root: With a name: see `load`.
        **options: With a name: further arguments of `load`.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], num_nodes=4, labels=[0, 0, 1, -1])
        >>> counts = statistics(graph)
        >>> counts.edges, counts.components, counts.isolated, counts.homophily
        (4, 2, 1, 0.5)
    """
    if isinstance(graph, str):
        from dhilgt.datasets.loading import load

        graph = load(graph, root, split=None, **options)
    offsets, targets = both_directions(graph)
    degrees = np.diff(offsets)
    sizes = _component_sizes(offsets, targets)
    labels = graph.labels
    return Statistics(
        nodes=graph.num_nodes,
        edges=len(targets),
        features=None if graph.features is None else int(graph.features.shape[1]),
        classes=graph.num_classes,
        components=len(sizes),
        largest_component=int(sizes.max(initial=0)),
        isolated=int((degrees == 0).sum()),
        unlabelled=graph.num_nodes if labels is None else int((labels < 0).sum()),
        homophily=None if labels is None else _homophily(degrees, targets, labels),
    )


def _component_sizes(offsets: NDArray[np.int64], targets: NDArray[np.int32]) -> NDArray[np.int64]:
    count = len(offsets) - 1
    ones = np.ones(len(targets), dtype=np.int8)
    sparse, csgraph = import_optional("scipy.sparse"), import_optional("scipy.sparse.csgraph")
    matrix = sparse.csr_array((ones, targets, offsets), shape=(count, count))
    _, component = csgraph.connected_components(matrix, directed=False)
    return np.bincount(component)


def _homophily(
    degrees: NDArray[np.int64], targets: NDArray[np.int32], labels: NDArray[np.int64]
) -> float | None:
    first, second = np.repeat(labels, degrees), labels[targets]
    known = (first >= 0) & (second >= 0)
    if not known.any():
        return None
    return float((first[known] == second[known]).mean())
