"""The plan of a sharded build: when hubs are searched from one by one, and with which table."""

import itertools
import json

import pytest

from dhilgt.labels.sharding import HubShard, LevelPart, RestFound, SettledPart
from dhilgt.labels.sharding.plan import HubRange, ShardPlan

NODES = 1 << 20


def plan(memory=None):
    return ShardPlan(NODES, 10 * NODES, ("in",), (0, NODES), 512, 512, memory)


def shard(first, last, entries, *, tests=0, arcs=0):
    return HubShard(first, last, "in", "name", "hash", entries, 0, 4, 0.0, arcs, tests, 0)


def test_searches_from_many_hubs_go_on_while_they_are_cheap():
    stage = plan().next_stage([shard(0, 2048, 10**8, arcs=10**6)])
    assert stage.table_hubs == 0
    assert (stage.ranges[0].first, stage.ranges[-1].last) == (2048, 4096)


def test_few_entries_for_many_arcs_end_them():
    stage = plan(50 * NODES).next_stage([shard(0, 2048, 10**8, arcs=10**12)])
    assert (stage.table_hubs, stage.is_rest) == (2048, False)
    assert (stage.ranges[0].first, stage.ranges[-1].last) == (2048, 4096)


def test_the_rest_is_found_level_by_level_if_that_is_faster():
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])
    assert stage.is_rest
    assert (stage.ranges, stage.table_hubs) == ((HubRange(2048, NODES, "in"),), 2048)
    assert stage.entries_left == pytest.approx(9 * 10**6, rel=0.01)  # of nine doublings


def test_a_small_rest_has_no_levels_of_its_own():
    found = [shard(0, 2048, 10**5)]
    stage = plan().next_stage([shard(0, 2048, 10**5, arcs=10**12)])
    assert plan().level_units(stage, found, RestFound()) == 0
    assert plan().rest_ranges(stage, RestFound()) == ((2048, NODES),)


def test_levels_are_divided_by_their_work_until_they_are_small():
    found = [shard(0, 2048, 100 * NODES)]  # so that a candidate takes 37 ns
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])

    def units(*candidates):
        entries = (0,) * len(candidates)
        return plan().level_units(stage, found, RestFound((), (), entries, candidates))

    assert units() > 1
    assert units(10**5) == 1  # small, but larger ones may follow
    assert units(10**6, 10**5) == 0
    assert units(10**5, 2 * 10**7) == 8
    assert units(10**5, 2 * 10**7, 10**12) == 4096
    assert units(10**5, 2 * 10**7, 10**12, 10**5) == 0
    assert units(0, 0, 0, 10**5) == 0  # levels do not grow for ever


def test_entries_are_settled_when_half_as_many_are_new():
    parts = (SettledPart(1, 0, "name", "hash", 0, 0),)

    def settles(settled, *entries, memory=10**6):
        found = RestFound((), settled, entries, entries)
        return plan()._replace(memory=memory).is_worth_settling(found)

    assert not settles((), 900_000)
    assert settles((), 900_000, 100_000)
    assert not settles(parts, 10**7, 4 * 10**6)
    assert settles(parts, 10**7, 4 * 10**6, 10**6)
    # Few of them take no files: a quarter of a worker's memory holds them, at 32 bytes each.
    assert not settles((), 8 * 10**6, memory=None)
    assert settles((), 8 * 10**6 + 1, memory=None)
    assert not settles((), 4 * 10**6, memory=512 * 10**6)
    assert settles((), 4 * 10**6 + 1, memory=512 * 10**6)


def test_what_is_found_keeps_the_files_that_are_needed():
    def level(distance):
        return [LevelPart(distance, p, f"level-{distance}-{p}", "", 0, 5, 7, 0) for p in (0, 1)]

    found = RestFound().with_level(level(1)).with_level(level(2))
    assert (found.distance, found.settled_distance) == (2, 0)
    assert (found.entries, found.candidates) == ((10, 10), (14, 14))
    settled = found.with_settled([SettledPart(2, 0, "settled", "", 0, 0)])
    assert settled.with_level(level(3)).file_names == (
        "settled", "level-2-0", "level-2-1", "level-3-0", "level-3-1",
    )  # fmt: skip
    assert settled.settled_distance == 2
    assert RestFound.from_json(json.loads(json.dumps(settled.to_json()))) == settled


def test_hubs_of_the_rest_are_cut_by_their_entries():
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])

    def ranges(entries, of=None):
        return (of or plan()).rest_ranges(stage, RestFound((), (), (entries,), (0,)))

    cut = ranges(36 * 10**6)
    assert cut[:4] == ((2048, 3072), (3072, 4096), (4096, 6144), (6144, 8192))
    assert len(cut) == 18
    assert cut[-1][1] == NODES
    assert all(one[1] == other[0] for one, other in itertools.pairwise(cut))
    few = ShardPlan(2050, 0, ("in",), (0, 2050), 512, 512)
    assert ranges(10**8, few) == ((2048, 2049), (2049, 2050))


@pytest.mark.parametrize("memory", ["entries", "nodes"])
def test_the_rest_is_found_so_only_within_the_memory_of_a_unit(memory):
    found = [shard(0, 2048, 10**6, arcs=10**12)]
    limit = {"entries": 200_000, "nodes": 50 * NODES}[memory]
    assert not plan(limit).next_stage(found).is_rest
    assert plan(400 * NODES).next_stage(found).is_rest


def test_what_is_left_is_forecast_from_the_last_two_stages():
    def is_rest(*entries):
        hubs = [0, 2048, 4096, 8192]
        ranges = itertools.pairwise(hubs)
        stages = [shard(*one, n, tests=1) for one, n in zip(ranges, entries, strict=True)]
        return plan(memory=110 * NODES).next_stage(stages).is_rest

    assert is_rest(10**8, 10**7, 5 * 10**6)  # halves: about as much is left as the last stage had
    assert not is_rest(10**8, 10**7, 10**8)  # stays the same: seven times as much


def test_on_long_paths_a_large_rest_is_not_found_level_by_level():
    def is_rest(entries, longest):
        deep = shard(0, 2048, entries, arcs=10**12)._replace(max_distance=longest)
        return plan().next_stage([deep]).is_rest

    assert is_rest(10**8, 64)
    assert is_rest(10**6, 65)
    assert not is_rest(10**8, 65)


def test_two_stages_are_begun_early_unless_the_rest_is_expected():
    cheap = [shard(0, 2048, 10**8, arcs=10**6)]
    ahead = plan().units_ahead(plan().next_stage(cheap), cheap)
    assert [one.first for one in ahead] == list(range(4096, 16384, 512))
    ending = [shard(0, 2048, 10**8), shard(2048, 4096, 10**6, arcs=8 * 10**6)]
    stage = plan().next_stage(ending)
    assert stage.table_hubs == 0
    assert plan().units_ahead(stage, ending) == ()


def test_one_stage_is_begun_early_while_nothing_is_found():
    assert [one.first for one in plan().units_ahead(plan().next_stage([]), [])] == [
        2048, 2560, 3072, 3584,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("later", "hubs"),
    [(10**7, 2048), (10**8, 4096)],  # of 10**9 entries a table may lack one in sixteen
)
def test_a_table_that_lacks_few_entries_serves_the_next_stage(later, hubs):
    found = [shard(0, 2048, 10**9), shard(2048, 4096, later, tests=1)]
    # The memory of workers is too small to find the rest level by level.
    stage = plan(memory=370_000_000).next_stage(found)
    assert (stage.table_hubs, stage.is_rest) == (hubs, False)


def test_a_table_is_no_larger_than_the_memory_of_eight_units():
    found = [shard(512 * i, 512 * (i + 1), 10**8, tests=1) for i in range(8)]
    assert plan(memory=3 * 260_000_000 // 8).next_stage(found).table_hubs == 1536


def test_after_the_last_hub_there_is_no_stage():
    assert plan().next_stage([shard(0, NODES, 1)]) is None
