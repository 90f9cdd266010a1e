"""The radius of labels: how far their hubs may be, and the largest one that fits."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ConfigError, MemoryLimitError, argument, warn
from dhilgt.graph.graph import Graph
from dhilgt.labels.sizes import LabelEstimate, estimate
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import format_bytes

AUTO: Literal["auto"] = "auto"
MOST_RADIUS = 2**31 - 1
_MOST_ENTRIES = 2**62
_NEAR = 3  # radii whose sizes are predicted from short searches
# Labels hold at most this fraction of all pairs, so small graphs need no estimate.
_SMALL_FRACTION = 8

_T = TypeVar("_T")


class RadiusChoice(NamedTuple):
    """A radius to build labels with.

    Attributes:
        radius: The radius; None for full labels.
        num_entries: Their predicted number of entries; None where it was not needed.
        note: Why it is not None, for the user; "" for full labels.
    """

    radius: int | None
    num_entries: int | None = None
    note: str = ""


def checked_radius(radius: Any, max_entries: Any = None) -> int | Literal["auto"] | None:
    """Return the radius that a user asked for; "auto" where a limit on the entries asks for it.

    Args:
        radius: A number of edges, "auto" or None.
        max_entries: The largest number of entries, or None.

    Raises:
        ConfigError: If one is of no use, or both are given.

    Example:
        >>> checked_radius(3), checked_radius(None), checked_radius(None, 10**9)
        (3, None, 'auto')
    """
    entries = whole_number("max_entries", max_entries, 1, _MOST_ENTRIES, optional=True)
    if isinstance(radius, str) and radius == AUTO:
        return AUTO
    try:
        checked = whole_number("radius", radius, 1, MOST_RADIUS, optional=True)
    except ConfigError as error:
        raise ConfigError(f'{error.quotable}, or "auto"') from None
    if entries is None:
        return checked
    if checked is not None:
        raise ConfigError(
            f"{argument('radius', checked)} leaves {argument('max_entries', entries)} nothing to "
            "choose; pass one of the two"
        )
    return AUTO


def radius_choices(
    graph: Graph,
    order: NDArray[np.uint32],
    limit: int,
    max_entries: int | None = None,
    *,
    predicted: LabelEstimate | None = None,
) -> list[RadiusChoice]:
    """Return what to build where the user left the radius open, the best first.

    Full labels come first where they may fit. A radius follows where its predicted peak fits; the
    next one is for a build that needs more than predicted.

    Args:
        graph: The graph.
        order: Nodes from most to least important.
        limit: The memory that the build may take.
        max_entries: The largest number of entries; None for any.
        predicted: The size of the full labels, if it is known already.

    Raises:
        MemoryLimitError: If not even the neighbours fit.

    Example:
        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
        >>> order = np.array([1, 2, 0, 3], np.uint32)
        >>> [one.radius for one in radius_choices(graph, order, 10**9)]
        [None]
        >>> [one.radius for one in radius_choices(graph, order, 10**9, max_entries=7)]
        [1]
    """
    n = graph.num_nodes
    most = n * (n + 1) // 2 * (2 if graph.directed else 1)
    if not may_not_fit(n, limit) and (max_entries is None or most <= max_entries):
        return [RadiusChoice(None)]
    entries = _MOST_ENTRIES if max_entries is None else max_entries
    full = estimate(graph, order=order) if predicted is None else predicted
    choices = []
    if full.num_bytes <= limit and full.num_entries <= entries:
        choices.append(RadiusChoice(None, full.num_entries))
    nearest = estimate(graph, order=order, radius=_NEAR)  # from more nodes
    for radius in range(len(full.by_radius), 0, -1):
        near = nearest.within(radius) if radius <= _NEAR else full.within(radius)
        if near.peak_bytes <= limit and near.num_entries <= entries:
            note = (
                f"full labels would take {full}; the limit is {_limits(limit, max_entries)}. The "
                f"labels keep hubs within a radius of {radius}: about {near.num_entries:,} "
                f"entries, {format_bytes(near.num_bytes)}. Distances up to {radius} are exact, "
                "longer ones are upper bounds or unknown"
            )
            choices.append(RadiusChoice(radius, near.num_entries, note))
    if not choices:
        least = nearest.within(1)
        raise MemoryLimitError(
            f"labels would take {full}; with a radius of 1 about {least.num_entries:,} entries and "
            f"{format_bytes(least.peak_bytes)} at the peak, but the limit is "
            f"{_limits(limit, max_entries)}; raise it or use a larger machine"
        )
    return choices


def may_not_fit(num_nodes: int, limit: int) -> bool:
    """Return whether labels of so many nodes could need more memory than the limit."""
    return 4 * num_nodes**2 > limit // _SMALL_FRACTION


def first_that_fits(choices: Sequence[RadiusChoice], make: Callable[[RadiusChoice], _T]) -> _T:
    """Return what is made with the first choice that does not outgrow the memory.

    Args:
        choices: As `radius_choices` returns them. The note of each is a warning before it is tried.
        make: Makes it, or raises `MemoryLimitError`.
    """
    for at, choice in enumerate(choices):
        if choice.note:
            warn(choice.note)
        try:
            return make(choice)
        except MemoryLimitError:
            if at + 1 == len(choices):
                raise
    raise ValueError("there is no choice")


def _limits(limit: int, max_entries: int | None) -> str:
    if max_entries is None:
        return format_bytes(limit)
    return f"{max_entries:,} entries in {format_bytes(limit)}"
