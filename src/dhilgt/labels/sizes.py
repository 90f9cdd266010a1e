"""Predict the size of labels, for every radius, from the labels of a few nodes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.graph.graph import Graph
from dhilgt.labels.orders import node_order
from dhilgt.utils.memory import format_bytes

# A probe is one search over the graph; with this many arcs in all, probing costs little.
_ARCS_TO_PROBE = 20_000_000
_FEWEST_PROBES, _MOST_PROBES = 4, 64
# Finished labels: four bytes for a hub, eight for each distance in a label, and the node itself.
_HUB_BYTES, _DISTANCE_BYTES, _NODE_BYTES = 4.05, 8, 24
_DISTANCES_OF_DEPTH = 0.6  # distances in a label, as a fraction of the depth of the graph
_MOST_LEVELS = 1000  # of a search for the depth; beyond it is extrapolated
_PEAK_OVER_FINAL = 1.5  # the largest ratio measured on the benchmark graphs
_PEAK_OVER_NEAR = 3.1  # likewise with a radius, beyond the graph by rank: many short lists of hubs
_ARC_BYTES, _RANK_BYTES = 4, 8  # of the graph by rank
# Searches up to this distance are short, so that there are more of them; around hubs they still
# reach most of a graph, so that there are fewer of a very large one.
_NEAR, _NEAR_ARCS, _FEWEST_NEAR = 3, 2_000_000_000, 8
_NO_RADIUS = 0xFFFFFFFF  # the native core's value for full labels


@dataclass(frozen=True)
class LabelEstimate:
    """Predicted size of the labels of a graph.

    Attributes:
        num_entries: Label entries of all nodes.
        num_bytes: Memory of the finished labels.
        peak_bytes: Largest memory during the build, beyond the graph.
        num_probes: Nodes whose exact label size the prediction is based on.
        relative_error: Standard error of the mean, relative to it; 0 if every node was probed.
        by_radius: The same for each radius that leaves entries out, from 1 on.
        radius: The radius that all this is about; None for full labels.
    """

    num_entries: int
    num_bytes: int
    peak_bytes: int
    num_probes: int
    relative_error: float
    by_radius: "tuple[LabelEstimate, ...]" = ()
    radius: int | None = None

    def within(self, radius: int | None) -> "LabelEstimate":
        """Return the predicted size for a radius; that of all entries where it leaves none out.

        Args:
            radius: The largest distance to keep, 1 or more; None for all.
        """
        if radius is None:
            return self
        return self.by_radius[radius - 1] if radius <= len(self.by_radius) else self

    def __str__(self) -> str:
        return (
            f"about {self.num_entries:,} entries (± {100 * self.relative_error:.0f} %), "
            f"{format_bytes(self.num_bytes)} finished, {format_bytes(self.peak_bytes)} at the peak"
        )


def estimate(
    graph: Graph,
    *,
    order: NDArray[np.uint32] | None = None,
    num_probes: int | None = None,
    seed: int = 0,
    radius: int | None = None,
) -> LabelEstimate:
    """Predict the size of a graph's labels from the exact label sizes of a few random nodes.

    One search from each of these nodes gives the sizes for all radii.

    Args:
        graph: The graph to be labelled.
        order: Nodes from most to least important; by degree when None.
        num_probes: Nodes to probe, one search each; chosen by the size of the graph when None.
        seed: Seed of the draw of these nodes.
        radius: End the searches at this distance, for labels with this radius; None for full ones.

    Example:
        >>> predicted = estimate(Graph.from_edges([0, 1, 2], [1, 2, 3]))
        >>> predicted.num_entries, [one.num_entries for one in predicted.by_radius]
        (8, [7])
    """
    n = graph.num_nodes
    if num_probes is None:
        is_near = radius is not None and radius <= _NEAR
        arcs, fewest = (_NEAR_ARCS, _FEWEST_NEAR) if is_near else (_ARCS_TO_PROBE, _FEWEST_PROBES)
        affordable = arcs // (n + graph.num_edges + 1)
        num_probes = min(max(affordable, fewest), _MOST_PROBES)
    num_probes = min(num_probes, n)
    node_at = node_order(graph, "degree") if order is None else order
    nodes = np.random.default_rng(seed).choice(n, num_probes, replace=False).astype(np.uint32)
    counts = _native.probe_label_sizes(
        *native_arrays(graph), node_at, nodes, None, native_radius(radius)
    ).reshape(num_probes, -1)  # by distance; the last possible column holds all that is farther
    counts = counts[:, : np.flatnonzero(counts.any(axis=0))[-1] + 1]
    # Entries up to each distance, and distances that occur; the last column is of whole labels.
    sizes = np.cumsum(counts, axis=1, dtype=np.float64)
    sides = 2 if graph.directed else 1
    distances = sides * np.cumsum(counts > 0, axis=1).mean(axis=0) - 1
    depth = _DISTANCES_OF_DEPTH * _depth(graph) if radius is None else distances[-1]
    whole = _size(graph, sizes[:, -1], depth, radius)
    nearer = []
    for within in range(1, sizes.shape[1] - 1):
        near = _size(graph, sizes[:, within], min(distances[within], depth), within)
        nearer.append(replace(near, peak_bytes=min(near.peak_bytes, whole.peak_bytes)))
    return replace(whole, by_radius=tuple(nearer))


def _size(
    graph: Graph, sizes: NDArray[np.float64], distances: float, radius: int | None
) -> LabelEstimate:
    """Return the size of all labels from those of some nodes and the distances in a label."""
    num_nodes, mean = graph.num_nodes, float(sizes.mean())
    error = 0.0
    if 1 < len(sizes) < num_nodes:
        error = float(sizes.std(ddof=1)) / max(mean, 1e-9) / len(sizes) ** 0.5
    distances = min(mean, distances)
    num_bytes = int(num_nodes * (mean * _HUB_BYTES + distances * _DISTANCE_BYTES + _NODE_BYTES))
    peak = num_bytes * _PEAK_OVER_FINAL
    if radius is not None:
        ranked = _ARC_BYTES * graph.num_edges + _RANK_BYTES * num_nodes
        peak = num_bytes * _PEAK_OVER_NEAR + (2 if graph.directed else 1) * ranked
    return LabelEstimate(
        num_entries=round(num_nodes * mean),
        num_bytes=num_bytes,
        peak_bytes=int(peak),
        num_probes=len(sizes),
        relative_error=error,
        radius=radius,
    )


def _depth(graph: Graph) -> float:
    """Return the largest distance from the node of highest degree, roughly if it is large."""
    n = graph.num_nodes
    seen = np.zeros(n, np.bool_)
    frontier = np.array([graph.degrees.argmax()])
    seen[frontier] = True
    for level in range(_MOST_LEVELS):
        starts, counts = graph.offsets[frontier], graph.degrees[frontier]
        ends = np.cumsum(counts)
        arcs = np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)
        frontier = np.unique(graph.targets[arcs])
        frontier = frontier[~seen[frontier]]
        if not frontier.size:
            return level
        seen[frontier] = True
    return _MOST_LEVELS * n / int(seen.sum())


def native_arrays(
    graph: Graph,
) -> tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int64] | None, NDArray[np.int32] | None
]:
    """Return a graph's arrays as the native core takes them: incoming arcs only if directed."""
    if graph.directed:
        return graph.offsets, graph.targets, graph.in_offsets, graph.in_targets
    return graph.offsets, graph.targets, None, None


def native_radius(radius: int | None) -> int:
    """Return a radius as the native core takes it.

    Example:
        >>> native_radius(3), native_radius(None)
        (3, 4294967295)
    """
    return _NO_RADIUS if radius is None else radius
