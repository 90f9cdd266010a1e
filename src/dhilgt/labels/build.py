"""Build hub labels: predict their memory, run the native core, word its errors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, MemoryLimitError, advice
from dhilgt.graph.graph import Graph
from dhilgt.labels.orders import ranking
from dhilgt.labels.radius import (
    AUTO,
    RadiusChoice,
    checked_radius,
    first_that_fits,
    may_not_fit,
    radius_choices,
)
from dhilgt.labels.sizes import estimate, native_arrays, native_radius
from dhilgt.utils.checks import choice, num_threads
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar

ALGORITHMS = ("auto", "pll", "planes", "psl")


def _predicted_entries(
    graph: Graph, node_at: NDArray[np.uint32], limit: int, radius: int | None
) -> int | None:
    """Return the predicted number of label entries; None where they fit in any case.

    Raises:
        MemoryLimitError: If the labels clearly do not fit the limit.
    """
    if may_not_fit(graph.num_nodes, limit):
        prediction = estimate(graph, order=node_at, radius=radius)
        if prediction.num_bytes // 2 > limit:  # the prediction is not wrong by that much
            raise MemoryLimitError(
                f"labels would take {prediction}, but the limit is {format_bytes(limit)}; "
                f"{advice('raise {}, ', 'max_memory')}{_shorter(radius)}use a larger machine or a "
                "better order"
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
    radius: Any = None,
    max_entries: Any = None,
) -> tuple[_native.Labels, NDArray[np.uint32], int | None]:
    """Return the native labels, the nodes by rank and the radius.

    The arguments are those of `HubLabels.build`.
    """
    choice("algorithm", algorithm, ALGORITHMS)
    wanted = checked_radius(radius, max_entries)
    if graph.num_nodes == 0:
        raise GraphError("the graph has no nodes; labels need at least one")
    workers = num_threads(threads)
    limit = memory_limit(max_memory)
    node_at = ranking(graph, order, seed)
    if wanted == AUTO:
        choices = radius_choices(graph, node_at, limit, max_entries)
    else:
        predicted = _predicted_entries(graph, node_at, limit, wanted) if preflight else None
        choices = [RadiusChoice(wanted, predicted)]

    return first_that_fits(
        choices,
        lambda one: _run(graph, node_at, one, algorithm, workers, limit, progress),
    )


def _run(
    graph: Graph,
    node_at: NDArray[np.uint32],
    chosen: RadiusChoice,
    algorithm: str,
    workers: int,
    limit: int,
    progress: bool,
) -> tuple[_native.Labels, NDArray[np.uint32], int | None]:
    predicted = chosen.num_entries
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
                max_distance=native_radius(chosen.radius),
            )
        except _native.OutOfBudget as error:
            raise _limit_error(graph, chosen.radius, error) from None
        update(native.num_entries, native.num_entries, note=format_bytes(native.num_bytes))
    return native, node_at, chosen.radius


def _limit_error(graph: Graph, radius: int | None, error: MemoryError) -> MemoryLimitError:
    needed, limit, entries = error.args
    return MemoryLimitError(
        f"labels outgrew the memory limit: {format_bytes(needed)} needed, "
        f"{format_bytes(limit)} allowed, {entries:,} entries found so far on "
        f"{graph.num_nodes:,} nodes; "
        f"{advice('raise {}, ', 'max_memory')}{_shorter(radius)}use a larger machine, or give an "
        "order with shorter labels"
    )


def _shorter(radius: int | None) -> str:
    """Return the advice to keep fewer entries."""
    if radius is None:
        return advice("pass {} for labels of the largest radius that fits, ", "radius", AUTO)
    return advice("lower {}, ", "radius")
