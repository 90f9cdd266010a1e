"""Build hub labels: predict their memory, run the native core, word its errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, MemoryLimitError, advice
from dhilgt.graph.graph import Graph
from dhilgt.labels.orders import node_order, ranking
from dhilgt.utils.checks import choice, num_threads
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar

ALGORITHMS = ("auto", "pll", "planes", "psl")

# A probe is one search over the graph; with this many arcs in all, probing costs little.
_ARCS_TO_PROBE = 20_000_000
_FEWEST_PROBES, _MOST_PROBES = 4, 64
# Finished labels: four bytes for a hub, eight for each distance in a label, and the node itself.
_HUB_BYTES, _DISTANCE_BYTES, _NODE_BYTES = 4.05, 8, 24
_DISTANCES_OF_DEPTH = 0.6  # distances in a label, as a fraction of the depth of the graph
_MOST_LEVELS = 1000  # of a search for the depth; beyond it is extrapolated
_PEAK_OVER_FINAL = 1.5  # the largest ratio measured on the benchmark graphs


@dataclass(frozen=True)
class LabelEstimate:
    """Predicted size of the labels of a graph.

    Attributes:
        num_entries: Label entries of all nodes.
        num_bytes: Memory of the finished labels.
        peak_bytes: Largest memory during the build, beyond the graph.
        num_probes: Nodes whose exact label size the prediction is based on.
        relative_error: Standard error of the mean, relative to it; 0 if every node was probed.
    """

    num_entries: int
    num_bytes: int
    peak_bytes: int
    num_probes: int
    relative_error: float

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
) -> LabelEstimate:
    """Predict the size of a graph's labels from the exact label sizes of a few random nodes.

    Args:
        graph: The graph to be labelled.
        order: Nodes from most to least important; by degree when None.
        num_probes: Nodes to probe, one search each; chosen by the size of the graph when None.
        seed: Seed of the draw of these nodes.

    Example:
        >>> estimate(Graph.from_edges([0, 1, 2], [1, 2, 3])).num_entries
        8
    """
    n = graph.num_nodes
    if num_probes is None:
        affordable = _ARCS_TO_PROBE // (n + graph.num_edges + 1)
        num_probes = min(max(affordable, _FEWEST_PROBES), _MOST_PROBES)
    num_probes = min(num_probes, n)
    node_at = node_order(graph, "degree") if order is None else order
    nodes = np.random.default_rng(seed).choice(n, num_probes, replace=False).astype(np.uint32)
    probed = _native.probe_label_sizes(*native_arrays(graph), node_at, nodes, None)
    sizes = probed.astype(np.float64)
    mean = float(sizes.mean())
    error = 0.0
    if 1 < num_probes < n:
        error = float(sizes.std(ddof=1)) / max(mean, 1e-9) / num_probes**0.5
    distances = min(mean, _DISTANCES_OF_DEPTH * _depth(graph))
    num_bytes = int(n * (mean * _HUB_BYTES + distances * _DISTANCE_BYTES + _NODE_BYTES))
    return LabelEstimate(
        num_entries=round(n * mean),
        num_bytes=num_bytes,
        peak_bytes=int(num_bytes * _PEAK_OVER_FINAL),
        num_probes=num_probes,
        relative_error=error,
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


def _predicted_entries(graph: Graph, node_at: NDArray[np.uint32], limit: int) -> int | None:
    """Return the predicted number of label entries; None where they fit in any case.

    Raises:
        MemoryLimitError: If the labels clearly do not fit the limit.
    """
    if 4 * graph.num_nodes**2 > limit // 8:
        prediction = estimate(graph, order=node_at)
        if prediction.num_bytes // 2 > limit:  # the prediction is not wrong by that much
            raise MemoryLimitError(
                f"labels would take {prediction}, but the limit is {format_bytes(limit)}; "
                f"{advice('raise {}, ', 'max_memory')}use a larger machine or a better order"
                f"{advice(', or pass {} to try all the same', 'preflight', False)}"
            )
        return prediction.num_entries
    return None


def build_native(
    graph: Graph,
    *,
    threads: int | None,
    order: Any,
    seed: int,
    progress: bool,
    algorithm: str,
    max_memory: int | str | None,
    preflight: bool,
) -> tuple[_native.Labels, NDArray[np.uint32]]:
    """Return the native labels and the nodes by rank; the arguments are of `HubLabels.build`."""
    choice("algorithm", algorithm, ALGORITHMS)
    if graph.num_nodes == 0:
        raise GraphError("the graph has no nodes; labels need at least one")
    workers = num_threads(threads)
    limit = memory_limit(max_memory)
    node_at = ranking(graph, order, seed)
    predicted = _predicted_entries(graph, node_at, limit) if preflight else None
    with progress_bar("labels", unit="entries", enabled=progress) as update:

        def report(_done: int, _total: int, entries: int, used_bytes: int) -> None:
            total = None if predicted is None else max(predicted, entries)
            update(entries, total, note=format_bytes(used_bytes))

        try:
            native, node_at, _ = _native.build_labels(
                *native_arrays(graph),
                node_at,
                algorithm,
                _native.PLAN_HUBS,
                workers,
                limit,
                report,
            )
        except _native.OutOfBudget as error:
            raise _limit_error(graph, error) from None
        update(native.num_entries, native.num_entries, note=format_bytes(native.num_bytes))
    return native, node_at


def _limit_error(graph: Graph, error: MemoryError) -> MemoryLimitError:
    needed, limit, entries = error.args
    return MemoryLimitError(
        f"labels outgrew the memory limit: {format_bytes(needed)} needed, "
        f"{format_bytes(limit)} allowed, {entries:,} entries found so far on "
        f"{graph.num_nodes:,} nodes; "
        f"{advice('raise {}, ', 'max_memory')}use a larger machine, or give an order with shorter "
        "labels"
    )
