"""Labels of real graphs: sizes known from other implementations, rows against plain search."""

import numpy as np
import pytest

from tests.labels.cases import build, label
from tests.oracle import label_by_search
from tests.real_data import load, needs_data


@needs_data
@pytest.mark.parametrize(
    ("name", "num_nodes", "by_id", "by_hash", "max_distance"),
    [
        ("tolokers", 11_758, 114.24, 114.25, 6),
        ("physics", 34_493, 400.05, 399.61, 12),
        ("cornell5", 18_660, 535.11, 535.06, 5),
        pytest.param("ogbn-arxiv", 169_343, 253.00, 252.96, 18, marks=pytest.mark.full),
    ],
)
def test_real_graphs(name, num_nodes, by_id, by_hash, max_distance):
    """Entries per node are known where equal degrees are ranked by id; a hash changes few."""
    graph = load(name)
    known = build(graph, order="degree-id")
    assert known.num_entries / num_nodes == pytest.approx(by_id, abs=0.01)
    labels = build(graph)
    assert graph.num_nodes == labels.num_nodes == num_nodes
    assert labels.num_entries / num_nodes == pytest.approx(by_hash, abs=0.01)
    assert labels.max_distance == max_distance
    rank = np.argsort(labels.order)
    everyone = graph.nodes
    for at in np.random.default_rng(1).integers(num_nodes, size=12):
        hubs, distances = label_by_search(graph.offsets, graph.targets, rank, at)
        node = everyone[at]
        actual = label(labels, node)
        indices = graph.index_of(list(actual)).tolist()
        assert dict(zip(indices, actual.values(), strict=True)) == hubs
        assert np.array_equal(labels.distances(np.full(num_nodes, node), everyone), distances)
