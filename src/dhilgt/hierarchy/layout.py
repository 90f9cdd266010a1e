"""Where the nodes of a graph are drawn: attracted by edges, small components around the largest.

The layout algorithm is igraph's, a package under the GPL that only pictures need.
"""

import contextlib
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.hierarchy.edges import Pairs

Places = NDArray[np.float64]
"""A point per node, [n, 2], around the origin."""

_ALL_PAIRS = 4_000  # with more nodes, a node repels only those near it
_ITERATIONS = 300
_GAP = 0.016
_SMALLER = 0.6  # scales the other components down, to leave more room for the largest


def positions(
    pairs: Pairs, num_nodes: int, *, weights: NDArray[np.float64] | None = None, seed: int = 0
) -> Places:
    """Return a point per node, the largest component within the unit disc.

    Each component is laid out by itself after Fruchterman and Reingold. Distances from its centre
    are then drawn on a logarithmic scale, so that a few distant nodes do not squeeze the others
    together. The other components are placed in rings around the largest.

    Args:
        pairs: The edges.
        num_nodes: Number of nodes.
        weights: How strongly each edge attracts its ends; all the same when None.
        seed: Seed of the initial positions; the same seed gives the same result.

    Raises:
        GraphError: If igraph is not installed.
    """
    igraph = _igraph()
    places = np.zeros((num_nodes, 2))
    if not num_nodes:
        return places
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
    for at, radius, centre in zip(ranking, radii, _rings(radii), strict=True):
        own = nodes[starts[at] : starts[at + 1]]
        if len(own) > 1:
            own_edges = edges[edge_starts[at] : edge_starts[at + 1]]
            local[own] = np.arange(len(own))
            own_weights = None if weights is None else weights[own_edges].tolist()
            with _seeded(igraph, seed):
                unit = _unit_layout(igraph, len(own), local[pairs[own_edges]], own_weights)
            places[own] = radius * unit
        places[own] += centre
    return places


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
        igraph.set_random_number_generator(random)  # the default of igraph


def _unit_layout(igraph: Any, count: int, pairs: Pairs, weights: list[float] | None) -> Places:
    """Return the points of one component, within the unit disc."""
    graph = igraph.Graph(n=count, edges=pairs)
    layout = graph.layout_fruchterman_reingold(
        weights=weights, niter=_ITERATIONS, grid=count > _ALL_PAIRS
    )
    points = np.asarray(layout.coords, np.float64)
    points -= np.median(points, axis=0)
    radius = np.hypot(*points.T)
    scale = float(np.median(radius)) or 1.0
    log_radius = np.log1p(radius / scale)
    factor = np.divide(log_radius, radius, out=np.zeros_like(radius), where=radius > 0)
    return np.asarray(points * factor[:, None] / (log_radius.max() or 1.0))


def _rings(radii: NDArray[np.float64]) -> Places:
    """Return the centres of discs, largest first: one at the origin, the others in rings."""
    centres = np.zeros((len(radii), 2))
    inner = float(radii[0]) + 2 * _GAP
    angle, thick = 0.0, 0.0
    for at, radius in enumerate(radii[1:].tolist(), start=1):
        thick = thick or radius  # the first disc of a ring is its largest
        width = 2 * math.asin(min(1.0, (radius + _GAP / 2) / (inner + thick)))
        if angle > 0 and angle + width > 2 * math.pi:
            inner += 2 * thick + _GAP
            angle, thick = 0.0, radius
            width = 2 * math.asin(min(1.0, (radius + _GAP / 2) / (inner + thick)))
        middle, reach = angle + width / 2, inner + thick
        centres[at] = reach * math.cos(middle), reach * math.sin(middle)
        angle += width
    return centres
