"""Tokens of public graphs: the neighbourhood sizes on record, and exact distances."""

import numpy as np
import pytest
import scipy.sparse.csgraph

from dhilgt import HubLabels, Tokens
from tests import raw_graphs
from tests.tokens.cases import expected_square, labels_of

pytestmark = pytest.mark.filterwarnings("ignore::dhilgt.GraphWarning")


def test_citeseer_has_neighbourhoods_of_the_recorded_size():
    graph = raw_graphs.citeseer()
    labels = HubLabels.build(graph, order="degree-id", progress=False)
    assert graph.num_nodes == 3327
    hubs_only = (labels.num_entries - graph.num_nodes) / graph.num_nodes
    assert round(hubs_only, 1) == 14.6
    isolated = int((np.diff(graph.offsets) == 0).sum())
    assert isolated == 48
    connected = graph.num_nodes - isolated
    # 51,972 entries on 3,279 nodes: 15.85, a hair below.
    assert (labels.num_entries - isolated) / connected == pytest.approx(15.85, abs=1e-3)


def test_chameleon_has_neighbourhoods_of_the_recorded_size():
    graph = raw_graphs.chameleon()
    labels = labels_of(graph)
    assert graph.num_nodes == 890
    assert round((labels.num_entries - 890) / 890, 1) == 28.2


@pytest.mark.parametrize("name", ["citeseer", "chameleon"])
def test_distances_of_public_graphs_are_those_of_a_search(name):
    graph = getattr(raw_graphs, name)()
    tokens = Tokens.build(labels_of(graph), progress=False)
    actual = scipy.sparse.csgraph.shortest_path(graph.to_scipy(), unweighted=True)
    codes = np.where(np.isinf(actual), 255, np.minimum(actual, 254)).astype(np.uint8)
    rows = tokens.rows(np.arange(graph.num_nodes))
    np.testing.assert_array_equal(rows.spd, expected_square(rows.ids, codes))
