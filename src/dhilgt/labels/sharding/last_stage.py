"""The last stage of a sharded build: all hubs that are left, level by level."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dhilgt.labels.sharding.plan import ShardPlan, Stage
from dhilgt.labels.sharding.units import HubShard, LevelPart, RestFound, SettledPart


class FoundRest(NamedTuple):
    """The last stage, done.

    Attributes:
        shards: The inverted labels of its hubs.
        found: What is in files of its levels: enough to find the labels again (`open_rest`).
    """

    shards: list[HubShard]
    found: RestFound


def search_last_stage(
    plan: ShardPlan,
    stage: Stage,
    shards: Sequence[HubShard],
    *,
    find: Callable[[RestFound, int], Sequence[LevelPart]],
    settle: Callable[[RestFound], Sequence[SettledPart]],
    write: Callable[[RestFound, Sequence[tuple[int, int]]], list[HubShard]],
) -> FoundRest:
    """Find the entries of the last stage; where its units run is up to the functions.

    Args:
        plan: The plan.
        stage: The stage.
        shards: The shards of all stages before it.
        find: Finds the next level in a number of parts (`search_level`).
        settle: Settles the entries of all ranges of nodes (`settle_levels`).
        write: Finds the levels that are left and writes the inverted labels of ranges of hubs
            (`search_rest`).
    """
    found = RestFound()
    while units := plan.level_units(stage, shards, found):
        found = found.with_level(find(found, units))
        if plan.is_worth_settling(found):
            found = found.with_settled(settle(found))
    return FoundRest(write(found, plan.rest_ranges(stage, found)), found)
