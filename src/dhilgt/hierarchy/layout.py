"""Edges of a graph and of its label graph, and where their nodes are drawn.

Springs along the edges, small components around the largest. The layout algorithm is igraph's, a
package under the GPL that only pictures need.
"""

import contextlib
import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import LabelGraph

Pairs = NDArray[np.int64]
"""Two node indices per row, [m, 2]: each pair of nodes once, no node with itself."""


class LabelEdges(NamedTuple):
    """The edges of a label graph.

    Attributes:
        pairs: Node and hub, [m, 2].
        distances: Hops between the two, [m].
    """

    pairs: Pairs
    distances: NDArray[np.int32]


def raw_pairs(graph: Graph) -> Pairs:
    """Gives the pairs of nodes that an edge joins, whatever its direction.

    Example:
        >>> raw_pairs(Graph.from_edges([0, 1], [1, 2])).tolist()
        [[0, 1], [1, 2]]
    """
    pairs = graph.to_edge_index().T
    if graph.directed:
        return np.unique(np.sort(pairs, axis=1), axis=0)
    return np.ascontiguousarray(pairs[pairs[:, 0] < pairs[:, 1]])


def label_edges(rows: LabelGraph) -> LabelEdges:
    """Gives the edges from nodes to their hubs; of two nodes one at most is a hub of the other.

    Args:
        rows: As `HubLabels.label_graph` gives them.
    """
    num_nodes = len(rows.out_offsets) - 1
    sources = np.repeat(np.arange(num_nodes), np.diff(rows.out_offsets))
    return LabelEdges(np.stack([sources, rows.out_hubs], axis=1), rows.out_distances)


def thinned(pairs: Pairs, most: int, seed: int) -> NDArray[np.int64]:
    """Gives the places of the edges to draw: all, or a uniform sample of `most` in their order.

    Args:
        pairs: The edges there are.
        most: How many can be drawn.
        seed: Key of the sample.
    """
    if len(pairs) <= most:
        return np.arange(len(pairs))
    return np.sort(np.random.default_rng(seed).choice(len(pairs), most, replace=False))


Places = NDArray[np.float64]
"""A point per node, [n, 2], around the origin."""

_ALL_PAIRS = 4_000  # up to so many nodes every node pushes every other, beyond only those near it
_ITERATIONS = 300
_GAP = 0.016
_SMALLER = 0.6  # the other components, to leave the largest more room than its share of nodes


def positions(
    pairs: Pairs, num_nodes: int, *, weights: NDArray[np.float64] | None = None, seed: int = 0
) -> Places:
    """Gives a point per node, the largest component within the unit disc; one seed, one result.

    Each component is laid out by itself after Fruchterman and Reingold. Distances from its middle
    are then drawn on a logarithmic scale, which keeps a few far nodes from pressing the others
    together. The other components stand in rings around the largest.

    Args:
        pairs: The edges.
        num_nodes: Number of nodes.
        weights: How strongly each edge pulls; all the same when None.
        seed: Key of the first positions.

    Raises:
        GraphError: If igraph is not installed.
    """
    igraph = _igraph()
    where = np.zeros((num_nodes, 2))
    if not num_nodes:
        return where
    whole = igraph.Graph(n=num_nodes, edges=pairs)
    component = np.asarray(whole.connected_components().membership)
    sizes = np.bincount(component)
    ranking = np.lexsort((np.arange(len(sizes)), -sizes))  # components, largest first
    nodes = np.argsort(component, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.argsort(component[pairs[:, 0]], kind="stable")
    edge_starts = np.searchsorted(component[pairs[edges, 0]], np.arange(len(sizes) + 1))
    local = np.empty(num_nodes, np.int64)
    radii = np.maximum(_SMALLER * np.sqrt(sizes[ranking] / sizes.max()), 0.006)
    radii[0] = 1.0
    for at, radius, middle in zip(ranking, radii, _rings(radii), strict=True):
        own = nodes[starts[at] : starts[at + 1]]
        if len(own) > 1:
            picked = edges[edge_starts[at] : edge_starts[at + 1]]
            local[own] = np.arange(len(own))
            pulls = None if weights is None else weights[picked].tolist()
            with _seeded(igraph, seed):
                where[own] = radius * _springs(igraph, len(own), local[pairs[picked]], pulls)
        where[own] += middle
    return where


def _igraph() -> Any:
    try:
        import igraph
    except ImportError as error:
        raise GraphError(
            f"pictures need igraph ({error}); install it with pip install 'dhilgt[plot]'"
        ) from error
    return igraph


@contextlib.contextmanager
def _seeded(igraph: Any, seed: int) -> Iterator[None]:
    igraph.set_random_number_generator(random.Random(seed))
    try:
        yield
    finally:
        igraph.set_random_number_generator(random)  # as it is when igraph is imported


def _springs(igraph: Any, count: int, pairs: Pairs, weights: list[float] | None) -> Places:
    """Gives the points of one component, within the unit disc."""
    graph = igraph.Graph(n=count, edges=pairs)
    found = graph.layout_fruchterman_reingold(
        weights=weights, niter=_ITERATIONS, grid=count > _ALL_PAIRS
    )
    points = np.asarray(found.coords, np.float64)
    points -= np.median(points, axis=0)
    far = np.hypot(*points.T)
    scale = float(np.median(far)) or 1.0
    bent = np.log1p(far / scale)
    factor = np.divide(bent, far, out=np.zeros_like(far), where=far > 0)
    return np.asarray(points * factor[:, None] / (bent.max() or 1.0))


def _rings(radii: NDArray[np.float64]) -> Places:
    """Gives the middles of discs, largest first: one in the centre, the others in rings around."""
    middles = np.zeros((len(radii), 2))
    inner = float(radii[0]) + 2 * _GAP
    angle, thick = 0.0, 0.0
    for at, radius in enumerate(radii[1:].tolist(), start=1):
        thick = thick or radius  # the first of a ring is its largest
        width = 2 * math.asin(min(1.0, (radius + _GAP / 2) / (inner + thick)))
        if angle > 0 and angle + width > 2 * math.pi:
            inner += 2 * thick + _GAP
            angle, thick = 0.0, radius
            width = 2 * math.asin(min(1.0, (radius + _GAP / 2) / (inner + thick)))
        turn = angle + width / 2
        middles[at] = (inner + thick) * math.cos(turn), (inner + thick) * math.sin(turn)
        angle += width
    return middles
