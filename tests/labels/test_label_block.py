"""Blocks of hubs, made alone, hold together what the labels hold."""

import numpy as np
import pytest

import dhilgt
from dhilgt import _native
from dhilgt.labels.orders import node_order


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("side", ["in", "out"])
def test_blocks_in_any_order_are_the_labels(directed, side):
    graph = dhilgt.generate(700, 6, seed=5, num_features=1, directed=directed)
    labels = dhilgt.HubLabels.build(graph, progress=False)
    actual = set()
    for first in (512, 0, 300, 100):  # from anywhere, of any size
        last = {512: 700, 0: 100, 300: 512, 100: 300}[first]
        block = dhilgt.label_block(graph, first, last, side=side)
        actual |= set(zip(*(part.tolist() for part in block), strict=True))
    expected = {
        (node, hub, distance)
        for node in range(graph.num_nodes)
        for hub, distance in zip(*map(np.ndarray.tolist, labels.hubs(node, side=side)), strict=True)
        if hub != node
    }
    assert actual == expected


def test_the_order_is_that_of_the_labels():
    graph = dhilgt.generate(300, 6, seed=2, num_features=1, directed=True)
    labels = dhilgt.HubLabels.build(graph, progress=False)
    assert np.array_equal(node_order(graph, "degree"), labels.order)


def test_an_order_by_id_is_kept():
    graph = dhilgt.Graph.from_edges(["a", "b"], ["b", "c"])
    block = dhilgt.label_block(graph, 0, 1, order=["c", "b", "a"])
    assert block.hubs.tolist() == [2, 2]
    assert dict(zip(block.nodes.tolist(), block.distances.tolist(), strict=True)) == {1: 1, 0: 2}


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (2, 1), (0, _native.PLANE_HUBS + 1), (699, 701)]
)
def test_ranges_that_are_no_block_are_refused(first, last):
    graph = dhilgt.generate(700, 6, seed=5, num_features=1)
    with pytest.raises(ValueError, match=f"{first}, {last}"):
        dhilgt.label_block(graph, first, last)
