"""The weights that messages are passed with, against a dense oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dhilgt
from dhilgt.features.adjacency import adjacency
from dhilgt.graph.both_directions import both_directions

pytestmark = pytest.mark.filterwarnings("ignore::dhilgt.errors.GraphWarning")


def joined(edges, num_nodes):
    """The oracle: 1 where two different nodes are joined, in either direction."""
    dense = np.zeros((num_nodes, num_nodes))
    for source, target in edges:
        if source != target:
            dense[source, target] = dense[target, source] = 1
    return dense


edge_lists = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30)


@given(edge_lists, st.booleans())
def test_an_edge_weighs_less_the_more_edges_its_ends_have(edges, directed):
    graph = dhilgt.Graph.from_edges(
        [one for one, _ in edges], [two for _, two in edges], num_nodes=9, directed=directed
    )
    dense = joined(edges, 9)
    scale = 1 / np.sqrt(dense.sum(1) + 1)
    found = adjacency(graph)
    assert (found.dtype, found.shape) == (np.float32, (9, 9))
    np.testing.assert_allclose(found.toarray(), dense * scale[:, None] * scale, rtol=1e-6)
    assert not (found != found.T).nnz  # to the last bit: gradients use the same weights
    offsets, targets = both_directions(graph)
    rows = np.repeat(np.arange(9), np.diff(offsets))
    assert sorted(zip(rows.tolist(), targets.tolist(), strict=True)) == list(
        zip(*(part.tolist() for part in np.nonzero(dense)), strict=True)
    )
