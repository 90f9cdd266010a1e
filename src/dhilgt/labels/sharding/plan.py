"""How hubs and nodes are cut into units of work."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.units import HubShard

MOST_TOP_HUBS = 65_024  # their numbers fit two bytes; a multiple of the hubs of a block
_FIRST_STAGE = 2_048  # hubs; the first units are the heaviest


class HubRange(NamedTuple):
    """The hubs [first, last) in one direction, one unit of work."""

    first: int
    last: int
    side: str


class ShardPlan(NamedTuple):
    """The units of work of a sharded build; it depends on the graph alone.

    The stages are run one after the other, the units of each in any order, until `is_enough`. The
    rest of the hubs follows in any order, with the table of the first ones.

    Attributes:
        num_nodes: Nodes of the graph.
        num_arcs: Its arcs in one direction.
        sides: Its label sets.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
    """

    num_nodes: int
    num_arcs: int
    sides: tuple[str, ...]
    label_bounds: tuple[int, ...]

    @property
    def num_parts(self) -> int:
        """Number of parts of the labels of each side."""
        return len(self.label_bounds) - 1

    @property
    def stages(self) -> tuple[tuple[HubRange, ...], ...]:
        """Units of the best hubs, stage by stage."""
        stages, first, size = [], 0, _FIRST_STAGE
        while first < min(self.num_nodes, MOST_TOP_HUBS):
            last = min(first + size, self.num_nodes, MOST_TOP_HUBS)
            stages.append(self._ranges(first, last, 512))
            first, size = last, 2 * size
        return tuple(stages)

    def is_enough(self, shards: Sequence[HubShard]) -> bool:
        """Return whether the hubs after these shards are found faster one by one."""
        return False

    def rest(self, shards: Sequence[HubShard]) -> tuple[HubRange, ...]:
        """Return the units of the hubs after these shards."""
        first = max((one.last for one in shards), default=0)
        return self._ranges(first, self.num_nodes, max(512, (self.num_nodes - first) // 64))

    def holder_bounds(self, shards: Sequence[HubShard]) -> tuple[int, ...]:
        """Return the ranks where the parts of the inverted labels begin, from all shards.

        The parts have about the same size.
        """
        sizes: dict[int, int] = {}
        for one in shards:
            sizes[one.last] = sizes.get(one.last, 0) + one.num_bytes
        ends = sorted(sizes)
        total = list(itertools.accumulate(sizes[end] for end in ends))
        cuts = np.searchsorted(
            total, [total[-1] * i / self.num_parts for i in range(1, self.num_parts)]
        )
        return (0, *sorted({ends[cut] for cut in cuts.tolist()} - {self.num_nodes}), self.num_nodes)

    def _ranges(self, first: int, last: int, size: int) -> tuple[HubRange, ...]:
        return tuple(
            HubRange(begin, min(begin + size, last), side)
            for begin in range(first, last, size)
            for side in self.sides
        )


def plan_shards(files: RankedGraphFiles, *, num_ranges: int) -> ShardPlan:
    """Return the units of work.

    Args:
        files: The graph in rank space.
        num_ranges: Parts into which the labels are cut, by ranges of ranks; no more than nodes.
    """
    count = min(num_ranges, files.num_nodes)
    bounds = tuple(files.num_nodes * i // count for i in range(count + 1))
    return ShardPlan(files.num_nodes, files.num_arcs, files.sides, bounds)
