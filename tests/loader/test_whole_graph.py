"""Batches of models with message passing: all nodes and edges, the same objects in every batch."""

import numpy as np
import pytest
import scipy.sparse
import torch

from dhilgt import GraphError, TokenLoader, Tokens
from dhilgt.features.adjacency import adjacency
from dhilgt.tokens.single import SingleRows
from tests.tokens.cases import generated, labels_of

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
NODES, SIZE = 400, 6
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU"))]  # fmt: skip


@pytest.fixture(scope="module")
def labels():
    return labels_of(generated(False))


@pytest.fixture(scope="module")
def tokens(labels):
    return Tokens.build(labels, size=SIZE, copies=2, seed=3, progress=False)


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(NODES, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def weights():
    return adjacency(generated(False))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("resident", [False, True, "features"])
@pytest.mark.parametrize("sparse", [False, True])
def test_batches_hold_all_nodes_and_name_slots_by_them(
    tokens, features, weights, sparse, resident, prefetch, device
):
    nodes = np.random.default_rng(2).permutation(NODES)[:300]
    loader = TokenLoader(
        tokens, scipy.sparse.csr_array(features) if sparse else features, nodes=nodes,
        batch_size=90, shuffle=True, copies=2, adjacency=weights, resident=resident,
        prefetch=prefetch, device=device,
    )  # fmt: skip
    batches = list(loader)
    assert [len(batch) for batch in batches] == [90, 90, 90, 30]
    first, edges = batches[0].inputs[0], batches[0].inputs[5]
    for batch in batches:
        x, index, spd, known, ego, found = batch.inputs
        assert x is first  # recorded steps read it where it is
        assert found is edges
        assert known is ego is None
        ids, distances = tokens.rows(batch.nodes.cpu().numpy(), 0)
        assert np.array_equal(index.cpu().numpy(), ids)
        assert np.array_equal(spd.cpu().numpy(), distances)
    whole = first.to_dense() if sparse else first
    np.testing.assert_array_equal(whole.cpu().numpy(), features)
    np.testing.assert_array_equal(edges.to_dense().cpu().numpy(), weights.toarray())


def test_loaders_of_one_graph_share_what_is_on_the_device(features, weights):
    from dhilgt.loader.feature_rows import open_features

    opened = open_features(features, NODES), open_features(weights, NODES)
    first, second = (
        TokenLoader(SingleRows(generated(False)), opened[0], adjacency=opened[1], nodes=nodes)
        for nodes in ([0, 5], [7])
    )
    one, other = next(iter(first)).inputs, next(iter(second)).inputs
    assert one[0] is other[0]
    assert one[5] is other[5]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.eye(NODES), "pass a SciPy sparse matrix"),
        (scipy.sparse.eye_array(5, format="csr"), r"shape \(5, 5\), but the graph has 400 nodes"),
        (scipy.sparse.csr_array(([1.0], ([0], [1])), shape=(NODES, NODES)), "not symmetric"),
    ],
)
def test_wrong_weights_are_refused(tokens, features, values, message):
    with pytest.raises(GraphError, match=message):
        TokenLoader(tokens, features, adjacency=values)


def test_classes_in_token_rows_are_refused(tokens, features, weights):
    with pytest.raises(ValueError, match="leave out one of them"):
        TokenLoader(tokens, features, adjacency=weights, known=np.zeros(NODES, np.int64))
