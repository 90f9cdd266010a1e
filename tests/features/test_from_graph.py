"""Hops: means over neighbours, against plain matrices."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt.features.from_graph import HOP_KINDS, num_copies, with_hops


def oracle(graph, features, hops, kind="append", restart=0.0):
    adjacency = graph.to_scipy().toarray().astype(np.float64)
    degrees = adjacency.sum(axis=1, keepdims=True)
    mean = np.divide(adjacency, degrees, out=np.zeros_like(adjacency), where=degrees > 0)
    if kind != "append":
        own = adjacency + np.eye(len(adjacency))
        scale = np.diag(own.sum(axis=1) ** -0.5)
        mean = scale @ own @ scale
    blocks = [features.astype(np.float64)]
    for _ in range(hops):
        blocks.append((1 - restart) * mean @ blocks[-1] + restart * blocks[0])
    return blocks[-1] if kind == "smooth" else np.concatenate(blocks, axis=1)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(HOP_KINDS),
    st.sampled_from([0.0, 0.1, 0.7]),
    st.sampled_from([0.05, 0.5]),
)
def test_dense_and_sparse_are_the_plain_matrix_product(seed, hops, directed, kind, restart, filled):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, 12, (2, rng.integers(0, 30)))
    edges = np.unique(edges[:, edges[0] != edges[1]], axis=1)
    graph = dhilgt.Graph.from_edges(*edges, num_nodes=12, directed=directed)
    features = rng.normal(size=(12, 3)).astype(np.float32) * (rng.random((12, 3)) < filled)
    given = features.copy()
    expected = oracle(graph, features, hops, kind, restart)
    dense = with_hops(graph, features, hops, kind, restart)
    np.testing.assert_allclose(dense, expected, atol=1e-5)
    actual = with_hops(graph, scipy.sparse.csr_matrix(features), hops, kind, restart)
    assert actual.shape[1] == 3 * num_copies(hops, kind)
    assert actual.dtype == np.float32
    full = actual.toarray() if scipy.sparse.issparse(actual) else actual
    np.testing.assert_allclose(full, expected, atol=1e-5)
    np.testing.assert_array_equal(features, given)


def test_sparse_features_stay_sparse_until_an_array_is_smaller():
    """A path: each round fills one more place beside those that are filled."""
    graph = dhilgt.Graph.from_edges(np.arange(19), np.arange(1, 20))
    plain = scipy.sparse.csr_matrix(np.eye(20, dtype=np.float32))
    shapes = [scipy.sparse.issparse(with_hops(graph, plain, n, "smooth", 0.2)) for n in (1, 4, 9)]
    assert shapes == [True, True, False]
    assert scipy.sparse.issparse(with_hops(graph, plain, 9, "append"))


def test_a_node_without_neighbours_gets_zeros():
    graph = dhilgt.Graph.from_edges([0], [1], num_nodes=3)
    actual = with_hops(graph, np.ones((3, 2), np.float32), 2)
    assert actual[2].tolist() == [1, 1, 0, 0, 0, 0]


def test_a_node_without_neighbours_is_not_smoothed():
    graph = dhilgt.Graph.from_edges([0], [1], num_nodes=3)
    actual = with_hops(graph, np.eye(3, dtype=np.float32), 2, "smooth")
    np.testing.assert_allclose(actual, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])


def test_smoothed_features_survive_saving_and_new_graphs(tmp_path):
    graph = dhilgt.generate(120, 4, seed=1, num_features=6)
    clf = dhilgt.NodeClassifier(
        size=4, hops=2, hop_kind="smooth", hop_restart=0.2, hidden_channels=8, heads=1,
        num_layers=1, epochs=2, cache=False, progress=False, recipe="paper",
    ).fit(graph)  # fmt: skip
    assert clf.model_.config.in_channels == 6
    clf.save(tmp_path / "model")
    again = dhilgt.NodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(), clf.predict_proba())


def test_no_hops_gives_the_features_themselves():
    graph = dhilgt.Graph.from_edges([0], [1])
    features = np.ones((2, 2), np.float32)
    assert with_hops(graph, features, 0) is features


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix])
def test_a_model_learns_from_neighbours_through_hops(kind):
    """The class of a node is the feature of its only neighbour; its own features say nothing."""
    rng = np.random.default_rng(0)
    signs = rng.integers(0, 2, 200)
    partners = np.arange(200) ^ 1
    features = kind(np.stack([signs, 1 - signs], axis=1).astype(np.float32))
    graph = dhilgt.Graph.from_edges(
        np.arange(200), partners, features=features, labels=signs[partners]
    )
    clf = dhilgt.NodeClassifier(
        size=1, hops=1, hidden_channels=8, num_layers=1, heads=1, epochs=40, lr=0.03,
        warmup_epochs=0, dropout=0.0, cache=False, progress=False, recipe="paper",
    ).fit(graph)  # fmt: skip
    assert clf.scores_["val"]["accuracy"] == 1.0
    assert clf.model_.config.in_channels == 4
    assert clf.n_features_in_ == 2
