"""Building hub labels: the memory foretold, the native core at work, its end explained."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, MemoryLimitError
from dhilgt.estimate import estimate, native_arrays
from dhilgt.graph import Graph
from dhilgt.memory import format_bytes, memory_limit
from dhilgt.orders import ranking
from dhilgt.progress import progress_bar
from dhilgt.validate import num_threads

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
                "raise max_memory, use a larger machine or a better order, "
                "or pass preflight=False to try all the same"
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
        "raise max_memory, use a larger machine, or give an order with shorter labels"
    )
