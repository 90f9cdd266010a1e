"""Statistics of a graph beside its label graph: homophily, modularity, clustering, distances."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.hierarchy.edges import LabelEdges, Pairs, label_edges, raw_pairs
from dhilgt.labels.hub_labels import HubLabels

_STEPS_AT_ONCE = 20_000_000  # two-step paths in memory at a time while triangles are counted
_DIGITS = 6

Classes = NDArray[np.int64]
"""Class of each node, -1 where unknown."""


@dataclass(frozen=True)
class GraphNumbers:
    """Statistics of one graph, its edges taken as undirected.

    Attributes:
        edges: Number of pairs of nodes that are joined.
        average_degree: Mean number of neighbours of a node.
        homophily: Fraction of edges whose ends have the same class, among those with both known.
        chance: The homophily to expect if edges kept the degrees and ignored classes.
        modularity: Of the partition into classes: `homophily - chance`.
        clustering: Average clustering coefficient; 0 for a node with fewer than two neighbours.
    """

    edges: int
    average_degree: float
    homophily: float | None
    chance: float | None
    modularity: float | None
    clustering: float


@dataclass(frozen=True)
class DistanceNumbers:
    """The label edges of one distance.

    Attributes:
        distance: Hops between node and hub.
        edges: Number of edges.
        share: Fraction of all label edges.
        homophily: Fraction of them whose ends have the same class.
    """

    distance: int
    edges: int
    share: float
    homophily: float | None


@dataclass(frozen=True)
class HierarchyNumbers:
    """A graph beside its label graph.

    Attributes:
        name: Name of the graph.
        nodes: Number of nodes of both.
        classes: Number of classes.
        kept: Fraction of the graph's edges that are also edges of the label graph.
        raw: The graph.
        label: The label graph.
        distances: Its edges by distance, shortest first.
        graph_fingerprint: Fingerprint of the graph's structure.
    """

    name: str
    nodes: int
    classes: int
    kept: float
    raw: GraphNumbers
    label: GraphNumbers
    distances: tuple[DistanceNumbers, ...]
    graph_fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, fractions rounded to six decimals."""
        rounded: dict[str, Any] = _rounded(asdict(self))
        return rounded


def hierarchy_numbers(
    graph: Graph, labels: HubLabels | None = None, *, name: str | None = None
) -> HierarchyNumbers:
    """Return the statistics of a graph and of its label graph.

    Args:
        graph: With or without classes.
        labels: Its hub labels; built when None.
        name: Name of the graph; its own name when None.

    Example:
        >>> ring = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], labels=[0, 0, 1, 1])
        >>> numbers = hierarchy_numbers(ring)
        >>> numbers.raw.edges, numbers.label.edges, numbers.kept, numbers.raw.homophily
        (4, 5, 1.0, 0.5)
    """
    labels = HubLabels.build(graph, progress=False) if labels is None else labels
    return numbers_of(graph, raw_pairs(graph), label_edges(labels.label_graph()), name)


def numbers_of(
    graph: Graph, raw: Pairs, label: LabelEdges, name: str | None = None
) -> HierarchyNumbers:
    """Return the same statistics from edges that are known already.

    Args:
        graph: The graph.
        raw: Its edges.
        label: The edges of its label graph.
        name: As for `hierarchy_numbers`.
    """
    unknown = np.full(graph.num_nodes, -1)
    classes = unknown if graph.labels is None else graph.labels
    near = label.pairs[label.distances == 1]
    return HierarchyNumbers(
        name=name or graph.name or "graph",
        nodes=graph.num_nodes,
        classes=graph.num_classes,
        kept=_fraction_within(raw, near, graph.num_nodes),
        raw=_graph_numbers(raw, classes),
        label=_graph_numbers(label.pairs, classes),
        distances=by_distance(label, classes),
        graph_fingerprint=graph.fingerprint,
    )


# ---- classes along edges -----------------------------------------------------------------------


def homophily(pairs: Pairs, classes: Classes) -> float | None:
    """Return the fraction of edges whose ends have the same class; None without edges that count.

    Args:
        pairs: The edges.
        classes: An edge with an unknown class at either end does not count.

    Example:
        >>> homophily(np.array([[0, 1], [1, 2], [2, 3]]), np.array([5, 5, 6, -1]))
        0.5
    """
    ends = _known(pairs, classes)
    return float((ends[:, 0] == ends[:, 1]).mean()) if len(ends) else None


def chance_homophily(pairs: Pairs, classes: Classes) -> float | None:
    """Return the homophily to expect of edges that keep degrees and ignore classes.

    Args:
        pairs: The edges.
        classes: As for `homophily`.
    """
    ends = _known(pairs, classes)
    if not len(ends):
        return None
    fractions = np.bincount(ends.ravel()) / ends.size
    return float((fractions**2).sum())


def modularity(pairs: Pairs, classes: Classes) -> float | None:
    """Return Newman's modularity of the partition into classes; None without edges that count.

    It is above 0 where edges join nodes of one class more often than by chance.

    Args:
        pairs: The edges.
        classes: As for `homophily`.
    """
    observed, chance = homophily(pairs, classes), chance_homophily(pairs, classes)
    return None if observed is None or chance is None else observed - chance


def by_distance(label: LabelEdges, classes: Classes) -> tuple[DistanceNumbers, ...]:
    """Return the statistics of the label edges of each distance, shortest first.

    Args:
        label: The edges.
        classes: As for `homophily`.
    """
    counts = np.bincount(label.distances)
    return tuple(
        DistanceNumbers(
            distance=int(distance),
            edges=int(counts[distance]),
            share=float(counts[distance] / len(label.pairs)),
            homophily=homophily(label.pairs[label.distances == distance], classes),
        )
        for distance in np.flatnonzero(counts)
    )


def _known(pairs: Pairs, classes: Classes) -> NDArray[np.int64]:
    ends = classes[pairs]  # [m, 2]
    return ends[(ends >= 0).all(axis=1)]


# ---- triangles ---------------------------------------------------------------------------------


def triangles(pairs: Pairs, num_nodes: int) -> NDArray[np.int64]:
    """Return the number of triangles that each node is a corner of.

    Edges are directed from the smaller to the larger degree: a node then has at most sqrt(2 m)
    outgoing edges, and there are O(m ** 1.5) two-step paths.

    Args:
        pairs: The edges.
        num_nodes: Number of nodes.
    """
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise GraphError(
            f"this needs scipy ({error}); install it with pip install 'dhilgt[plot]'"
        ) from error
    counts = np.zeros(num_nodes, np.int64)
    if not len(pairs):
        return counts
    degrees = np.bincount(pairs.ravel(), minlength=num_nodes)
    place = np.empty(num_nodes, np.int64)
    place[np.lexsort((np.arange(num_nodes), degrees))] = np.arange(num_nodes)
    ends = np.sort(place[pairs], axis=1)
    shape = (num_nodes, num_nodes)
    out = csr_array((np.ones(len(ends), np.int64), (ends[:, 0], ends[:, 1])), shape=shape)
    into = out.T.tocsr()
    for first, from_low in ((out, True), (into, False)):
        for rows in _blocks(first, out):
            # Paths low -> middle -> high closed by low -> high count for low and high; paths
            # middle -> low -> high closed by middle -> high count for the middle.
            closed = (first[rows] @ out).multiply(out[rows])
            counts[rows] += closed.sum(axis=1)
            if from_low:
                counts += closed.sum(axis=0)
    return counts[place]


def average_clustering(pairs: Pairs, num_nodes: int) -> float:
    """Return the mean over nodes of the fraction of pairs of neighbours that are joined.

    Args:
        pairs: The edges.
        num_nodes: Number of nodes; those with fewer than two neighbours count as 0. Without nodes
            the result is 0.

    Example:
        >>> average_clustering(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), 4)
        0.5833333333333334
    """
    if not num_nodes:
        return 0.0
    degrees = np.bincount(pairs.ravel(), minlength=num_nodes)
    possible = degrees * (degrees - 1) // 2
    return float((triangles(pairs, num_nodes) / np.maximum(possible, 1)).mean())


def _blocks(first: Any, second: Any) -> list[slice]:
    """Return blocks of rows such that the product of a block holds a bounded number of paths."""
    steps = np.concatenate([[0], np.cumsum(np.diff(second.indptr)[first.indices])])
    reached = steps[first.indptr] // _STEPS_AT_ONCE  # by row
    cuts = np.unique(
        np.concatenate([[0], np.flatnonzero(np.diff(reached)) + 1, [len(reached) - 1]])
    )
    return [slice(start, stop) for start, stop in pairwise(cuts.tolist())]


def _fraction_within(pairs: Pairs, others: Pairs, num_nodes: int) -> float:
    def keys(edges: Pairs) -> NDArray[np.int64]:
        ends = np.sort(edges, axis=1)
        return ends[:, 0] * num_nodes + ends[:, 1]

    return float(np.isin(keys(pairs), keys(others)).mean()) if len(pairs) else 1.0


def _graph_numbers(pairs: Pairs, classes: Classes) -> GraphNumbers:
    num_nodes = len(classes)
    return GraphNumbers(
        edges=len(pairs),
        average_degree=2 * len(pairs) / max(num_nodes, 1),
        homophily=homophily(pairs, classes),
        chance=chance_homophily(pairs, classes),
        modularity=modularity(pairs, classes),
        clustering=average_clustering(pairs, num_nodes),
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
