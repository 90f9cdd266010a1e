"""How hubs and nodes are cut into units of work."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dhilgt import _native
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.units import HubShard, RestFound
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import parse_size

_MOST_PARTS = 100_000  # their numbers have five digits
_FIRST_STAGE = 2_048  # hubs; every later stage doubles the number of hubs
_STAGE_UNITS = 32  # at most, of the hubs that are searched from one by one, per side
_FEWEST_ENTRIES = 200_000  # of such a unit, about: with fewer, opening the files costs more
_STAGES_AHEAD = 2  # begun early where workers would have nothing to do: small stages end unevenly
_MOST_ENTRIES = 8_000_000  # about: more units, whatever their number
_ENTRY_BYTES = 8  # of an entry while it is found, at most
# Rough costs in nanoseconds, measured. They decide when hubs are no longer searched from many at a
# time, and never the result.
_TESTS_PER_ENTRY = 4.0  # of the next stage, per entry of the last one
_TEST, _TEST_PER_HUB = 40.0, 1.2  # reading a row of the table, and each hub in it
_TABLE_ENTRY = 40.0  # writing an entry of the table
_SCAN = 0.4  # passing over an arc or a node that no hub has reached
_MISSING = 1 / 16  # of the entries: a table that lacks no more of them serves a further stage
_TABLE_BYTES = 2.6  # of an entry in the table: groups of seven hubs and their distance
_SHARING = 8  # units of a machine that map the same table, about: each has its part of the memory
_PLANE_ENTRY, _PLANE_UNIT = 95.0, 1.5e7  # from many hubs at a time: of an entry, and of a unit
_CACHE_BYTES = 16 << 20  # of planes, about: more of them are read from memory, as other tables are
_REST_ENTRY, _REST_TEST = 150.0, 1.6  # level by level: of an entry, and the latter per label entry
_LEVEL_ARC, _CANDIDATE, _CANDIDATE_TEST = 30.0, 20.0, 0.17  # of a level; the last per label entry
_LEVEL_UNIT = 1e8  # of the work of a level, in nanoseconds: with less, reading the files costs more
_SMALL_LEVEL = 3e7  # every worker may do as much by itself
_MOST_LEVEL_UNITS = 4096
_FEWEST_SETTLED = 1_000_000
_MOST_OWN = 8_000_000  # entries that every worker settles in its own memory: it takes no files
_OWN_BYTES = 32  # of such an entry, at most
_MOST_DEEP_REST = 20_000_000  # entries, where there are many levels with few of them each
_SHALLOW = 4  # levels before this one may be small and be followed by large ones
_REST_SHARD = 2_000_000  # entries, about
_REST_BYTES = 10  # of an entry in mapped files
_REST_NODE_BYTES = 100  # of a node, in the memory of a worker
_LEAST_RATIO = 0.5  # of the entries of a stage to those of the one before it, as a forecast


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
        table_hubs: The searches take the table of so many hubs; 0 for none.
        entries_left: Of the last stage, whose hubs are searched from level by level (see
            `level_units`), a forecast of its entries; 0 for other stages.
    """

    ranges: tuple[HubRange, ...]
    table_hubs: int
    entries_left: int = 0

    @property
    def is_rest(self) -> bool:
        """Whether it is the last stage, of all hubs that are left."""
        return self.entries_left > 0


class ShardPlan(NamedTuple):
    """The units of work of a sharded build. They depend on the graph, not on the workers.

    Attributes:
        num_nodes: Nodes of the graph.
        num_arcs: Its arcs in one direction.
        sides: Its label sets.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        hubs_at_once: Hubs of a unit that searches from all of them at the same time.
        first_hubs: Hubs of the first such unit, which most nodes hold; the next ones have twice as
            many each, up to `hubs_at_once`.
        memory: Limit on the memory of a unit; None for none.
    """

    num_nodes: int
    num_arcs: int
    sides: tuple[str, ...]
    label_bounds: tuple[int, ...]
    hubs_at_once: int
    first_hubs: int
    memory: int | None = None

    @property
    def num_parts(self) -> int:
        """Number of parts of the labels of each side."""
        return len(self.label_bounds) - 1

    def next_stage(self, shards: Sequence[HubShard]) -> Stage | None:
        """Return the units that follow the finished ones; None after the last hub.

        The first stages search from many hubs at a time, whose searches touch most of the graph.
        Once that is faster, one last stage finds all others level by level. Where the memory of a
        worker does not allow that, there are stages between that search hub by hub, with a table of
        hubs before the stage: each doubles the number of hubs, so no table is far behind the hubs
        that it serves. A table that lacks few entries serves the next stage, too.

        Args:
            shards: The shards of all stages so far, in any order.
        """
        first = max((one.last for one in shards), default=0)
        if first >= self.num_nodes:
            return None
        last = min(self.num_nodes, max(_FIRST_STAGE, 2 * first))
        start = 0 if first <= _FIRST_STAGE else first // 2
        before = [one for one in shards if one.first >= start]  # the last stage
        forecast = _Forecast(self, shards, before) if first else None
        if forecast is None or forecast.planes_are_cheapest:
            cuts = [first] if first else self._first_cuts(last)
            early = itertools.chain.from_iterable(
                self._ranges(begin, end, end - begin) for begin, end in itertools.pairwise(cuts)
            )
            return Stage((*early, *self._ranges(cuts[-1], last, self.hubs_at_once)), 0)
        if forecast.rest_fits:
            ranges = self._ranges(first, self.num_nodes, self.num_nodes)
            return Stage(ranges, first, max(1, round(forecast.entries_left)))
        # A stage has at most as many entries as the one before it, as a rule far fewer.
        entries = sum(one.num_entries for one in before) / len(self.sides)
        units = min(_STAGE_UNITS, max(1, round(entries / _FEWEST_ENTRIES)))
        units = max(units, round(entries / _MOST_ENTRIES))
        size = -(-(last - first) // units)
        return Stage(self._ranges(first, last, size), self._table_hubs(shards, first))

    def level_units(self, stage: Stage, shards: Sequence[HubShard], found: RestFound) -> int:
        """Return how many units share the next level of the last stage.

        0 if the levels that are left are so small that whoever needs them finds them again: all of
        a small stage, or the end of a large one.

        Args:
            stage: The stage.
            shards: The shards of all stages before it.
            found: What is found of it so far.
        """
        label = self._mean_label(shards)
        if not found.distance:
            all_levels = stage.entries_left * _rest_cost(self.num_nodes, label)
            return 0 if all_levels < 4 * _LEVEL_UNIT else _parted(self.num_arcs * _LEVEL_ARC)
        before, last = (0, *found.candidates)[-2:]
        work = last * (_CANDIDATE + _CANDIDATE_TEST * label)
        declines = last <= before or found.distance >= _SHALLOW
        return 0 if work < _SMALL_LEVEL and declines else _parted(work)

    def is_worth_settling(self, found: RestFound) -> bool:
        """Return whether the levels since the last settling have enough entries for the next.

        Few entries are settled by every worker in its own memory. Otherwise settling writes all
        entries anew: with half as many new ones, three times as often as they are found at the
        most.

        Args:
            found: What is found of the last stage so far.
        """
        entries = sum(found.entries)
        if entries <= own_entries(self.memory):
            return False
        settled = sum(found.entries[: found.settled_distance])
        return entries - settled >= max(_FEWEST_SETTLED, settled // 2)

    def rest_ranges(self, stage: Stage, found: RestFound) -> tuple[tuple[int, int], ...]:
        """Return the ranges of hubs whose shards are written by a unit each, in the last stage.

        Args:
            stage: The stage.
            found: What is found of it before.
        """
        cuts = [stage.table_hubs]
        if found.distance:
            while cuts[-1] < self.num_nodes:  # each twice as many hubs, with about as many entries
                cuts.append(min(self.num_nodes, 2 * cuts[-1]))
        else:
            cuts.append(self.num_nodes)
        pieces = max(1, round(sum(found.entries) / (len(cuts) - 1) / _REST_SHARD))
        bounds = {
            begin + (end - begin) * piece // pieces
            for begin, end in itertools.pairwise(cuts)
            for piece in range(pieces + 1)
        }
        return tuple(itertools.pairwise(sorted(bounds)))

    def _mean_label(self, shards: Sequence[HubShard]) -> float:
        entries = sum(one.num_entries for one in shards)
        return entries / (len(self.sides) * self.num_nodes)

    def units_ahead(self, stage: Stage, shards: Sequence[HubShard]) -> tuple[HubRange, ...]:
        """Return the units that probably follow a stage without a table, to begin them early.

        Those of the next stage, which do follow it if `next_stage` gives a stage without a table
        again, and of the one after that, if what is found lets it be expected.

        Args:
            stage: The stage that is under way.
            shards: The shards of the stages before it.
        """
        ranges: tuple[HubRange, ...] = ()
        known = list(shards)
        for ahead in range(_STAGES_AHEAD):
            begin, first = stage.ranges[0].first, stage.ranges[-1].last
            if stage.table_hubs or first >= self.num_nodes:
                break
            last_stage = [one for one in known if one.last > begin // 2]
            if ahead and not last_stage:
                break
            known += [  # as many entries for twice as many hubs
                one._replace(first=begin, last=first, arcs=2 * one.arcs) for one in last_stage
            ]
            if last_stage and self.next_stage(known).table_hubs:  # type: ignore[union-attr]
                break
            stage = Stage(self._ranges(first, min(self.num_nodes, 2 * first), self.hubs_at_once), 0)
            ranges += stage.ranges
        return ranges

    def holder_bounds(self, shards: Sequence[HubShard]) -> tuple[int, ...]:
        """Return the ranks where the parts of the inverted labels begin, from all shards.

        The parts have about the same size, and begin where a shard does.

        Args:
            shards: The shards of all hubs.
        """
        sizes: dict[int, int] = {}
        for one in shards:
            sizes[one.last] = sizes.get(one.last, 0) + one.num_entries + one.last - one.first
        ends = sorted(sizes)
        total = list(itertools.accumulate(sizes[end] for end in ends))
        wanted = [total[-1] * part / self.num_parts for part in range(1, self.num_parts)]
        cuts = {ends[at] for at in np.searchsorted(total, wanted).tolist()}
        return (0, *sorted(cuts - {self.num_nodes}), self.num_nodes)

    def _table_hubs(self, shards: Sequence[HubShard], first: int) -> int:
        """Return how many hubs the table of the stage that begins with hub `first` has."""
        entries: dict[int, int] = {}  # by the last hub of a shard
        for one in shards:
            entries[one.last] = entries.get(one.last, 0) + one.num_entries
        ends = sorted(entries)
        below = dict(zip(ends, itertools.accumulate(entries[end] for end in ends), strict=True))
        if self.memory is not None:
            most = _SHARING * self.memory / _TABLE_BYTES
            ends = [end for end in ends if below[end] <= most] or ends[:1]
        stages = [end for end in ends if end == ends[-1] or _ends_a_stage(end)]
        allowed = _MISSING * below[ends[-1]]
        return next(end for end in stages if below[ends[-1]] - below[end] <= allowed)

    def _first_cuts(self, last: int) -> list[int]:
        cuts, size = [0], self.first_hubs
        while size < self.hubs_at_once and cuts[-1] + size < last:
            cuts.append(cuts[-1] + size)
            size *= 2
        return cuts

    def _ranges(self, first: int, last: int, size: int) -> tuple[HubRange, ...]:
        return tuple(
            HubRange(begin, min(begin + size, last), side)
            for begin in range(first, last, size)
            for side in self.sides
        )


def own_entries(memory: int | None) -> int:
    """Return how many entries of the last stage each worker may settle in its own memory.

    Args:
        memory: Limit on the memory of a unit; None for none.
    """
    return _MOST_OWN if memory is None else min(_MOST_OWN, memory // 4 // _OWN_BYTES)


def plan_shards(
    files: RankedGraphFiles, *, num_ranges: int, max_memory: int | str | None = None
) -> ShardPlan:
    """Return the plan of a build.

    Args:
        files: The graph in rank space.
        num_ranges: Parts into which the labels are cut, by ranges of ranks; no more than nodes.
        max_memory: Limit on the memory of a unit; None for units that search from 512 hubs at a
            time, which take 323 bytes per node and more. With less, a unit takes fewer hubs, and
            the table that it maps, as do other units of its machine, is at most eight times as
            large.
    """
    count = min(whole_number("num_ranges", num_ranges, 1, _MOST_PARTS), files.num_nodes)
    bounds = tuple(files.num_nodes * part // count for part in range(count + 1))
    words = 8
    first_hubs = 64 * words
    limit: int | None = None
    if max_memory is not None:
        limit = parse_size(max_memory)
        while words > 2 and _native.plane_bytes(files.num_nodes, words) > limit // 2:
            words //= 2  # the entries take memory too
        left = max(0, limit - _native.plane_bytes(files.num_nodes, words))
        first_hubs = left // (_ENTRY_BYTES * files.num_nodes)  # that all nodes may hold
        first_hubs = min(max(first_hubs, 8), 64 * words)
    return ShardPlan(
        files.num_nodes, files.num_arcs, files.sides, bounds, 64 * words, first_hubs, limit
    )


def _parted(work: float) -> int:
    return min(_MOST_LEVEL_UNITS, math.ceil(work / _LEVEL_UNIT))


def _ends_a_stage(rank: int) -> bool:
    stages, rest = divmod(rank, _FIRST_STAGE)
    return rest == 0 and stages.bit_count() == 1


class _Forecast:
    """What the next stage, of twice as many hubs as the last one, and all the rest will cost.

    Args:
        plan: The plan.
        shards: All shards so far.
        before: Those of the last stage.
    """

    def __init__(
        self, plan: ShardPlan, shards: Sequence[HubShard], before: Sequence[HubShard]
    ) -> None:
        self._plan = plan
        self._before = before
        self._entries = sum(one.num_entries for one in shards)
        self._label = plan._mean_label(shards)
        self._last = sum(one.num_entries for one in before)
        first = max(one.last for one in shards)
        self._nodes_left = plan.num_nodes - first
        earlier = sum(one.num_entries for one in shards if first // 4 <= one.first < first // 2)
        # The first stage has most of the entries: it says nothing about those that follow.
        self._ratio = 1.0
        if first > 2 * _FIRST_STAGE and earlier:
            self._ratio = min(1.0, max(_LEAST_RATIO, self._last / earlier))
        self._stages_left = math.log2(plan.num_nodes / first)
        # On long paths few nodes take part in each level of a search.
        longest = max(one.max_distance for one in before)
        self._is_deep = longest > _native.MOST_PLANE_LEVELS

    @property
    def planes_are_cheapest(self) -> bool:
        """Whether the next stage is found fastest from many hubs at a time."""
        if any(one.tests for one in self._before):
            return False  # it was not before
        if self._is_deep:
            return False
        other = self._one_by_one
        if self.rest_fits:
            other = min(other, self._next * _rest_cost(self._plan.num_nodes, self._label))
        return self._planes < other

    @property
    def _next(self) -> float:
        """Entries of the next stage."""
        return self._last * self._ratio

    @property
    def entries_left(self) -> float:
        """All entries that are not found yet."""
        whole, part = divmod(self._stages_left, 1)
        stages = sum(self._ratio ** (1 + stage) for stage in range(int(whole)))
        return self._last * (stages + part * math.pow(self._ratio, 1 + whole))

    @property
    def rest_fits(self) -> bool:
        """Whether workers have the memory to find all that is left level by level."""
        plan = self._plan
        if self._is_deep and self.entries_left > _MOST_DEEP_REST:
            return False
        if plan.memory is None:
            return True
        own = _REST_NODE_BYTES * len(plan.sides) * self._nodes_left
        mapped = self._entries * _TABLE_BYTES + self.entries_left * _REST_BYTES
        return own <= plan.memory and mapped <= _SHARING * plan.memory

    @property
    def _planes(self) -> float:
        plan = self._plan
        scans = sum(one.max_distance for one in self._before) * (plan.num_arcs + plan.num_nodes)
        arcs = sum(one.arcs for one in self._before)
        units = sum(one.last - one.first for one in self._before) / plan.hubs_at_once
        searches = arcs * _arc_cost(plan.num_nodes) + scans * _SCAN + units * _PLANE_UNIT
        return 2 * searches + self._next * _PLANE_ENTRY

    @property
    def _one_by_one(self) -> float:
        tests = _TESTS_PER_ENTRY * self._last
        return tests * (_TEST + _TEST_PER_HUB * self._label) + _TABLE_ENTRY * self._entries


def _arc_cost(num_nodes: int) -> float:
    """Return the cost of an arc of a search from 512 hubs; their planes may not fit the cache."""
    plane_bytes = 64 * num_nodes
    return 2.5 if plane_bytes < 1 << 20 else 5.0 if plane_bytes < _CACHE_BYTES else 14.0


def _rest_cost(num_nodes: int, label: float) -> float:
    """Return the cost of an entry that is found level by level, of labels with so many entries."""
    cost = _REST_ENTRY + _REST_TEST * label
    return cost if 64 * num_nodes < _CACHE_BYTES else 2 * cost
