"""How hubs and nodes are cut into units of work."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dhilgt import _native
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.units import HubShard
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import parse_size

_MOST_PARTS = 100_000  # their numbers have five digits
_FIRST_STAGE = 2_048  # hubs; every later stage doubles the number of hubs
_STAGE_UNITS = 32  # of the hubs that are searched from one by one, per side
_FEWEST_HUBS = 256  # of such a unit: with fewer, reading the table costs more than the search
_MOST_ENTRIES = 8_000_000  # of such a unit, about
# Rough costs in nanoseconds, measured. They decide when hubs are no longer searched from many at a
# time, and never the result.
_TESTS_PER_ENTRY = 3.0  # of the next stage, per entry of the last one
_TEST, _TEST_PER_HUB = 10.0, 0.2  # reading a row of the table, and each hub in it


class HubRange(NamedTuple):
    """The hubs [first, last) in one direction: one unit of work.

    Attributes:
        first: Rank of the first hub.
        last: Rank after the last one.
        side: "in" or "out".
    """

    first: int
    last: int
    side: str


class Stage(NamedTuple):
    """Units that can run at the same time, in any order.

    Attributes:
        ranges: The units.
        with_table: Whether the searches take the table of all hubs before them.
    """

    ranges: tuple[HubRange, ...]
    with_table: bool


class ShardPlan(NamedTuple):
    """The units of work of a sharded build. They depend on the graph, not on the workers.

    Attributes:
        num_nodes: Nodes of the graph.
        sides: Its label sets.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        hubs_at_once: Hubs of a unit that searches from all of them at the same time.
    """

    num_nodes: int
    sides: tuple[str, ...]
    label_bounds: tuple[int, ...]
    hubs_at_once: int

    @property
    def num_parts(self) -> int:
        """Number of parts of the labels of each side."""
        return len(self.label_bounds) - 1

    def next_stage(self, shards: Sequence[HubShard]) -> Stage | None:
        """Return the units that follow the finished ones; None after the last hub.

        The first stages search from many hubs at a time, whose searches touch most of the graph.
        The others search hub by hub, with the table of all hubs before the stage: each doubles the
        number of hubs, so no table is far behind the hubs that it serves, and in each all units
        run at once.

        Args:
            shards: The shards of all stages so far, in any order.
        """
        first = max((one.last for one in shards), default=0)
        if first >= self.num_nodes:
            return None
        last = min(self.num_nodes, max(_FIRST_STAGE, 2 * first))
        start = 0 if first <= _FIRST_STAGE else first // 2
        before = [one for one in shards if one.first >= start]  # the last stage
        if first == 0 or not _one_by_one_is_cheaper(
            self.num_nodes, len(self.sides), shards, before
        ):
            return Stage(self._ranges(first, last, self.hubs_at_once), False)
        per_hub = sum(one.num_entries for one in before) / sum(
            one.last - one.first for one in before
        )
        size = max(_FEWEST_HUBS, -(-(last - first) // _STAGE_UNITS))
        size = min(size, max(1, int(_MOST_ENTRIES / max(per_hub, 1))))
        return Stage(self._ranges(first, last, size), True)

    def stage_after(self, stage: Stage) -> tuple[HubRange, ...]:
        """Return the units that probably follow a stage without a table, to begin them early.

        They do follow it if `next_stage` gives a stage without a table again.

        Args:
            stage: The stage that is under way.
        """
        first = max(one.last for one in stage.ranges)
        if stage.with_table or first >= self.num_nodes:
            return ()
        return self._ranges(first, min(self.num_nodes, 2 * first), self.hubs_at_once)

    def holder_bounds(self, shards: Sequence[HubShard]) -> tuple[int, ...]:
        """Return the ranks where the parts of the inverted labels begin, from all shards.

        The parts have about the same size, and begin where a shard does.

        Args:
            shards: The shards of all hubs.
        """
        sizes: dict[int, int] = {}
        for one in shards:
            sizes[one.last] = sizes.get(one.last, 0) + one.num_bytes
        ends = sorted(sizes)
        total = list(itertools.accumulate(sizes[end] for end in ends))
        wanted = [total[-1] * part / self.num_parts for part in range(1, self.num_parts)]
        cuts = {ends[at] for at in np.searchsorted(total, wanted).tolist()}
        return (0, *sorted(cuts - {self.num_nodes}), self.num_nodes)

    def _ranges(self, first: int, last: int, size: int) -> tuple[HubRange, ...]:
        return tuple(
            HubRange(begin, min(begin + size, last), side)
            for begin in range(first, last, size)
            for side in self.sides
        )


def plan_shards(
    files: RankedGraphFiles, *, num_ranges: int, max_memory: int | str | None = None
) -> ShardPlan:
    """Return the plan of a build.

    Args:
        files: The graph in rank space.
        num_ranges: Parts into which the labels are cut, by ranges of ranks; no more than nodes.
        max_memory: Limit on the memory of a unit; None for units that search from 512 hubs at a
            time, which take 323 bytes per node and more. With less, a unit takes fewer hubs.
    """
    count = min(whole_number("num_ranges", num_ranges, 1, _MOST_PARTS), files.num_nodes)
    bounds = tuple(files.num_nodes * part // count for part in range(count + 1))
    words = 8
    if max_memory is not None:
        limit = parse_size(max_memory) // 2  # the entries take memory too
        while words > 2 and _native.plane_bytes(files.num_nodes, words) > limit:
            words //= 2
    return ShardPlan(files.num_nodes, files.sides, bounds, 64 * words)


def _one_by_one_is_cheaper(
    num_nodes: int, num_sides: int, shards: Sequence[HubShard], before: Sequence[HubShard]
) -> bool:
    """Return whether the hubs after the shards are found faster hub by hub.

    Args:
        num_nodes: Nodes of the graph.
        num_sides: Its label sets.
        shards: All shards so far.
        before: Those of the last stage.
    """
    if any(one.tests for one in before):
        return True  # it was already
    if max(one.max_distance for one in before) > _native.MOST_PLANE_LEVELS:
        return True  # on long paths few nodes take part in each level of a search
    label = sum(one.num_entries for one in shards) / (num_sides * num_nodes)
    tests = _TESTS_PER_ENTRY * sum(one.num_entries for one in before)
    arcs = sum(one.arcs for one in before)
    return tests * (_TEST + _TEST_PER_HUB * label) <= arcs * _arc_cost(num_nodes)


def _arc_cost(num_nodes: int) -> float:
    """Return the cost of an arc of a search from 512 hubs, as in native/core/labels/build.cpp."""
    plane_bytes = 64 * num_nodes
    return 2.5 if plane_bytes < 1 << 20 else 5.0 if plane_bytes < 8 << 20 else 14.0
