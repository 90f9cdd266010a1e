"""The plan of a sharded build: when hubs are searched from one by one, and with which table."""

import itertools

import pytest

from dhilgt.labels.sharding import HubShard, LevelPart
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
    stage = plan().next_stage([shard(0, 2048, 10**8, arcs=10**12)])
    assert (stage.table_hubs, stage.is_rest) == (2048, False)
    assert (stage.ranges[0].first, stage.ranges[-1].last) == (2048, 4096)


def level(distance, candidates, *, entries=0, part=0):
    return LevelPart(distance, part, "name", "hash", 0, "", entries, candidates, 0)


def test_the_rest_is_found_level_by_level_if_little_is_left():
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])
    assert stage.is_rest
    assert (stage.ranges, stage.table_hubs) == ((HubRange(2048, NODES, "in"),), 2048)
    assert stage.entries_left == pytest.approx(9 * 10**6, rel=0.01)  # of nine doublings


def test_a_small_rest_has_no_levels_of_its_own():
    found = [shard(0, 2048, 10**6)]
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])
    assert plan().level_units(stage, found, []) == 0
    assert plan().rest_ranges(stage, []) == ((2048, NODES),)


def test_levels_are_divided_by_their_work_until_they_are_small():
    found = [shard(0, 2048, 100 * NODES)]  # so that a test takes 37 ns
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])
    levels = [level(1, 10**6)]
    assert plan().level_units(stage, found, []) > 1
    assert plan().level_units(stage, found, levels) == 1  # small, but larger ones may follow
    levels += [level(2, 10**7), level(2, 10**7, part=1)]
    assert plan().level_units(stage, found, levels) == 8  # 20 + 17 ns each
    levels += [level(3, 10**12)]
    assert plan().level_units(stage, found, levels) == 64
    levels += [level(4, 10**5)]
    assert plan().level_units(stage, found, levels) == 0
    assert plan().level_units(stage, found, [*levels[:1], level(2, 10**5)]) == 0


def test_hubs_of_the_rest_are_cut_by_their_entries():
    stage = plan().next_stage([shard(0, 2048, 10**6, arcs=10**12)])
    ranges = plan().rest_ranges(stage, [level(1, 0, entries=36 * 10**6)])
    assert ranges[:4] == ((2048, 3072), (3072, 4096), (4096, 6144), (6144, 8192))
    assert len(ranges) == 18
    assert ranges[-1][1] == NODES
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))
    few = ShardPlan(2050, 0, ("in",), (0, 2050), 512, 512)
    assert few.rest_ranges(stage, [level(1, 0, entries=10**8)]) == ((2048, 2049), (2049, 2050))


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
        return plan().next_stage(stages).is_rest

    assert is_rest(10**8, 10**7, 5 * 10**6)  # halves: about as much is left as the last stage had
    assert not is_rest(10**8, 10**7, 10**7)  # stays the same: seven times as much


def test_the_next_stage_is_begun_early_unless_the_rest_is_expected():
    cheap = [shard(0, 2048, 10**8, arcs=10**6)]
    stage = plan().next_stage(cheap)
    assert plan().stage_after(stage, cheap)[0].first == 4096
    ending = [shard(0, 2048, 10**8), shard(2048, 4096, 10**6, arcs=2 * 10**6)]
    stage = plan().next_stage(ending)
    assert stage.table_hubs == 0
    assert plan().stage_after(stage, ending) == ()


@pytest.mark.parametrize(
    ("later", "hubs"),
    [(10**7, 2048), (10**8, 4096)],  # of 10**9 entries a table may lack one in sixteen
)
def test_a_table_that_lacks_few_entries_serves_the_next_stage(later, hubs):
    found = [shard(0, 2048, 10**9), shard(2048, 4096, later, tests=1)]
    assert plan().next_stage(found).table_hubs == hubs


def test_a_table_is_no_larger_than_the_memory_of_eight_units():
    found = [shard(512 * i, 512 * (i + 1), 10**8, tests=1) for i in range(8)]
    assert plan().next_stage(found).table_hubs == 4096
    assert plan(memory=3 * 260_000_000 // 8).next_stage(found).table_hubs == 1536


def test_after_the_last_hub_there_is_no_stage():
    assert plan().next_stage([shard(0, NODES, 1)]) is None
