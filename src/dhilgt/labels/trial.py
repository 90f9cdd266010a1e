"""How long a build of labels would take: begin one, stop it after a moment, and extrapolate."""

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.orders import node_order
from dhilgt.labels.sizes import native_arrays, native_radius
from dhilgt.utils.checks import num_threads

_PATIENCE = 4  # times the limit, for a graph whose first entries take longer
# Time of a whole build by bit planes, in units of -log(fraction of entries still missing): the
# last few entries take as long as most of the others. From 4 to 7 on the benchmark graphs.
_PLANES_WHOLE = 5.5
_MOST_FOUND = 0.95  # the predicted number of entries is not exact: a higher fraction says little


@dataclass(frozen=True)
class BuildTrial:
    """What was seen of a build.

    Attributes:
        seconds: Predicted time of the whole; None if nothing was found before it was stopped.
        deep: Whether it went hub by hub, as it does where distances are long.
        labels: The labels, where the build ended before it was to be stopped.
    """

    seconds: float | None
    deep: bool
    labels: HubLabels | None


class _EnoughError(Exception):
    """Ends a build from its report of progress."""


def try_build(
    graph: Graph,
    num_entries: int,
    *,
    order: NDArray[np.uint32] | None = None,
    threads: int | None = None,
    limit_seconds: float = 1.0,
    radius: int | None = None,
) -> BuildTrial:
    """Begin to build labels, and predict how long it would take.

    Hub by hub a new entry is tested against the labels found so far: the time grows with the square
    of the entries. By bit planes most entries are found early.

    Args:
        graph: The graph to be labelled.
        num_entries: Its number of entries, as `estimate` predicts it.
        order: Nodes from most to least important; by degree when None.
        threads: Number of threads; None for all.
        limit_seconds: When to stop; a build that is done earlier is timed whole.
        radius: Of the labels; None for full ones.

    Example:
        >>> trial = try_build(Graph.from_edges([0, 1, 2], [1, 2, 3]), 8)
        >>> trial.seconds < 1, trial.labels.num_entries
        (True, 8)
    """
    ranked = node_order(graph, "degree") if order is None else order
    begin = time.perf_counter()
    hub_by_hub: float | None = None  # when it began to count hubs
    found, elapsed = 0, 0.0

    def report(_done: int, total: int, entries: int, _used_bytes: int) -> None:
        nonlocal hub_by_hub, found, elapsed
        elapsed = time.perf_counter() - begin
        if total and hub_by_hub is None:
            hub_by_hub = elapsed  # entries are counted from 0 again
        found = entries
        waited = elapsed - (hub_by_hub or 0.0)
        if waited > limit_seconds and (found or waited > _PATIENCE * limit_seconds):
            raise _EnoughError

    try:
        native, node_at, _ = _native.build_labels(
            *native_arrays(graph),
            ranked,
            "auto",
            _native.PLAN_HUBS,
            num_threads(threads),
            2**62,
            report,
            max_distance=native_radius(radius),
        )
    except _EnoughError:
        pass
    else:
        sizes = native.num_entries, native.max_distance
        labels = HubLabels(native, node_at, graph.ids, graph.fingerprint, sizes, radius=radius)
        return BuildTrial(time.perf_counter() - begin, hub_by_hub is not None, labels)
    seconds = None
    fraction = min(found / max(num_entries, 1), _MOST_FOUND)
    if hub_by_hub is not None and found:
        seconds = hub_by_hub + (elapsed - hub_by_hub) / fraction**2
    elif found:
        seconds = max(elapsed, elapsed * _PLANES_WHOLE / -math.log(1 - fraction))
    return BuildTrial(seconds, hub_by_hub is not None, None)
