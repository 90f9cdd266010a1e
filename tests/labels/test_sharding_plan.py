"""The plan of a sharded build: when hubs are searched from one by one, and with which table."""

import pytest

from dhilgt.labels.sharding import HubShard
from dhilgt.labels.sharding.plan import ShardPlan

NODES = 1 << 20


def plan(table_bytes=None):
    return ShardPlan(NODES, 10 * NODES, ("in",), (0, NODES), 512, 512, table_bytes)


def shard(first, last, entries, *, tests=0, arcs=0):
    return HubShard(first, last, "in", "name", "hash", entries, 0, 4, 0.0, arcs, tests, 0)


def test_searches_from_many_hubs_go_on_while_they_are_cheap():
    stage = plan().next_stage([shard(0, 2048, 10**8, arcs=10**6)])
    assert stage.table_hubs == 0
    assert (stage.ranges[0].first, stage.ranges[-1].last) == (2048, 4096)


def test_few_entries_for_many_arcs_end_them():
    found = [shard(0, 2048, 10**6, arcs=10**10)]
    stage = plan().next_stage(found)
    assert stage.table_hubs == 2048


@pytest.mark.parametrize(
    ("later", "hubs"),
    [(10**4, 2048), (10**5, 4096)],  # of 10**6 entries a table may lack one in sixteen
)
def test_a_table_that_lacks_few_entries_serves_the_next_stage(later, hubs):
    found = [shard(0, 2048, 10**6), shard(2048, 4096, later, tests=1)]
    assert plan().next_stage(found).table_hubs == hubs


def test_a_table_is_no_larger_than_the_memory_of_a_unit():
    found = [shard(512 * i, 512 * (i + 1), 10**6, tests=1) for i in range(8)]
    assert plan().next_stage(found).table_hubs == 4096
    assert plan(table_bytes=3 * 2_600_000).next_stage(found).table_hubs == 1536


def test_after_the_last_hub_there_is_no_stage():
    assert plan().next_stage([shard(0, NODES, 1)]) is None
