"""Build hub labels: estimate memory, run the native core, explain its errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, MemoryLimitError, argument
from dhilgt.graph.graph import Graph
from dhilgt.labels.orders import ranking
from dhilgt.utils.checks import num_threads
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar

# A probe is one search over the graph; this many arcs in all keep probing far below the build.
_ARCS_TO_PROBE = 20_000_000
_PROBES = (4, 64)  # fewest and most
_BYTES_PER_ENTRY = 4.3  # finished labels: a hub is four bytes, the rest is per node and distance
_PEAK_OVER_FINAL = 1.5  # while building, the largest ratio seen on the benchmark graphs


@dataclass(frozen=True)
class LabelEstimate:
    """Predicted size of the labels of a graph.

    Attributes:
        num_entries: Label entries of all nodes.
        num_bytes: Memory of the finished labels.
        peak_bytes: Memory at the height of the build, beyond the graph.
        num_probes: Nodes whose exact label size the prediction rests on.
        relative_error: One standard error of the mean, relative; 0 if every node was probed.
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
    """Predicts the size of a graph's labels from the exact label sizes of a few random nodes.

    Args:
        graph: The graph to be labelled.
        order: Nodes from most to least important; by degree when None.
        num_probes: Nodes to probe, each costing one search; chosen by the graph's size when None.
        seed: Which nodes are drawn.

    Example:
        >>> estimate(Graph.from_edges([0, 1, 2], [1, 2, 3])).num_entries
        8
    """
    n = graph.num_nodes
    if num_probes is None:
        affordable = _ARCS_TO_PROBE // (n + graph.num_edges + 1)
        num_probes = min(max(affordable, _PROBES[0]), _PROBES[1])
    num_probes = min(num_probes, n)
    nodes = np.random.default_rng(seed).choice(n, num_probes, replace=False).astype(np.uint32)
    sizes = _native.probe_label_sizes(*native_arrays(graph), order, nodes, None).astype(np.float64)
    mean = float(sizes.mean())
    error = 0.0
    if 1 < num_probes < n:
        error = float(sizes.std(ddof=1)) / max(mean, 1e-9) / num_probes**0.5
    num_bytes = int(n * mean * _BYTES_PER_ENTRY) + 24 * n
    return LabelEstimate(
        num_entries=round(n * mean),
        num_bytes=num_bytes,
        peak_bytes=int(num_bytes * _PEAK_OVER_FINAL),
        num_probes=num_probes,
        relative_error=error,
    )


def native_arrays(
    graph: Graph,
) -> tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int64] | None, NDArray[np.int32] | None
]:
    """Gives a graph's arrays in the form the native core takes: incoming ones only if directed."""
    if graph.directed:
        return graph.offsets, graph.targets, graph.in_offsets, graph.in_targets
    return graph.offsets, graph.targets, None, None


ALGORITHMS = ("auto", "pll", "planes", "psl")


def build_native(
    graph: Graph,
    threads: int | None,
    order: Any,
    seed: int,
    progress: bool,
    algorithm: str,
    max_memory: int | str | None,
    preflight: bool,
) -> tuple[_native.Labels, NDArray[np.uint32]]:
    """Gives labels of the native core and the nodes by rank; arguments of `HubLabels.build`."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm = {algorithm!r}; choose one of {', '.join(ALGORITHMS)}")
    if graph.num_nodes == 0:
        raise GraphError("the graph has no nodes; labels need at least one")
    workers = num_threads(threads)
    limit = memory_limit(max_memory)
    node_at = ranking(graph, order, seed)
    predicted = None
    if preflight and 4 * graph.num_nodes**2 > limit // 8:  # smaller ones fit whatever they hold
        prediction = estimate(graph, order=node_at)
        predicted = prediction.num_entries
        if prediction.num_bytes // 2 > limit:  # the prediction may be off, though not that far
            raise MemoryLimitError(
                f"labels would take {prediction}, but the limit is {format_bytes(limit)}; "
                f"raise {argument('max_memory')}, use a larger machine or a better order, "
                f"or pass {argument('preflight', False)} to try all the same"
            )
    with progress_bar("labels", unit="entries", enabled=progress) as update:
        try:
            native, node_at, _ = _native.build_labels(
                *native_arrays(graph),
                node_at,
                algorithm,
                _native.PLAN_HUBS,
                workers,
                limit,
                _reporter(update, predicted),
            )
        except _native.OutOfBudget as error:
            raise _outgrown(graph, error) from None
    return native, node_at


def _reporter(update: Any, predicted: int | None) -> Callable[[int, int, int, int], None]:
    def report(_done: int, _total: int, entries: int, used_bytes: int) -> None:
        total = None if predicted is None else max(predicted, entries)
        update(entries, total, note=format_bytes(used_bytes))

    return report


def _outgrown(graph: Graph, error: MemoryError) -> MemoryLimitError:
    wanted, limit, entries = error.args
    return MemoryLimitError(
        f"labels outgrew the memory limit: {format_bytes(wanted)} needed, "
        f"{format_bytes(limit)} allowed, {entries:,} entries found so far on "
        f"{graph.num_nodes:,} nodes; "
        f"raise {argument('max_memory')}, use a larger machine, or give an order with shorter "
        "labels"
    )
