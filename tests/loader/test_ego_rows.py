"""Every batch carries the sparse rows of its egos, however it is made."""

import numpy as np
import pytest
import scipy.sparse
import torch

from dhilgt import DHILGT, GraphError, MemoryLimitError, TokenLoader, Tokens, TokenSampler
from dhilgt.loader.batch import TokenBatch
from tests.tokens.cases import generated_labels

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
NODES, SIZE, GROUPS, COLUMNS = 400, 6, 3, 9
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU"))]  # fmt: skip


@pytest.fixture(scope="module")
def tokens():
    return Tokens.build(generated_labels(), size=SIZE, copies=2, seed=3, progress=False)


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(NODES, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def dense():
    """The rows of all nodes, [n, groups, columns]; most entries are 0, and all of node 7."""
    rows = np.random.default_rng(1).normal(size=(NODES, GROUPS, COLUMNS)).astype(np.float32)
    rows[rows < 0.8] = 0
    rows[7] = 0
    return rows


@pytest.fixture(scope="module")
def ego(dense):
    return scipy.sparse.csr_array(dense.reshape(NODES * GROUPS, COLUMNS))


def assert_right(batch, dense):
    """The rows of a batch are those of its nodes."""
    rows = batch.inputs[4]
    assert (rows.layout, rows.dtype) == (torch.sparse_csr, torch.float32)
    actual = rows.to_dense().cpu().numpy().reshape(-1, GROUPS, COLUMNS)
    np.testing.assert_array_equal(actual, dense[batch.nodes.cpu().numpy()])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("resident", [False, True, "features"])
@pytest.mark.parametrize("batch_size", [90, NODES])  # several batches, and one that is kept
def test_batches_hold_the_rows_of_their_egos(
    tokens, features, ego, dense, batch_size, resident, prefetch, device
):
    nodes = np.random.default_rng(2).permutation(NODES)[:300]
    loader = TokenLoader(
        tokens, features, nodes=nodes, batch_size=batch_size, shuffle=True, copies=2, ego=ego,
        resident=resident, prefetch=prefetch, device=device,
    )  # fmt: skip
    for epoch in (0, 1, 2):
        loader.set_epoch(epoch)
        batches = list(loader)
        assert sum(map(len, batches)) == 300
        for batch in batches:
            assert batch.inputs[3] is None
            assert_right(batch, dense)
    for pair in loader.iterate_copies():
        for batch in pair:
            assert_right(batch, dense)


@pytest.mark.parametrize("resident", [False, True])
def test_known_classes_and_rows_together(tokens, features, ego, dense, resident):
    known = np.arange(NODES) % 4 - 1
    loader = TokenLoader(tokens, features, batch_size=150, known=known, ego=ego, resident=resident)
    for batch in loader:
        x, index, _, classes, _ = batch.inputs
        assert torch.equal(classes[index[:, 0]], torch.from_numpy(known[batch.nodes] + 1).int())
        assert len(classes) == len(x)
        assert_right(batch, dense)


def test_a_sampler_and_sparse_features(features, ego, dense):
    sampler = TokenSampler(generated_labels(), size=SIZE, progress=False)
    sparse = scipy.sparse.csr_array(np.where(features > 0.5, features, 0))
    for batch in TokenLoader(sampler, sparse, batch_size=150, fresh=True, ego=ego):
        assert batch.inputs[0].layout == torch.sparse_csr
        assert_right(batch, dense)


def test_a_batch_moves_with_its_rows_and_without_what_it_has_not(tokens, features, ego, dense):
    batch = next(iter(TokenLoader(tokens, features, batch_size=20, ego=ego)))
    moved = batch.to("cpu")
    assert moved.inputs[3] is None
    assert moved.labels is None
    assert_right(moved, dense)
    rows = batch.inputs[4]
    parts = (rows.crow_indices(), rows.col_indices(), rows.values())
    held = {tensor.data_ptr() for tensor in batch.tensors()}
    assert all(part.data_ptr() in held for part in parts)
    assert len(TokenBatch(batch.inputs[:3], None, batch.nodes).tensors()) == 4


def test_processes_share_the_rows_of_a_batch(tokens, features, ego):
    """The gradients of two processes' parts, added up, are those of the whole batch."""
    torch.manual_seed(0)
    model = DHILGT(5, 8, 3, num_layers=1, heads=2, ego_channels=COLUMNS, ego_groups=GROUPS)
    model.double().eval()
    mix = torch.randn(NODES, 3, dtype=torch.float64)

    def gradient(**process):
        model.zero_grad()
        settings = {"shuffle": True, "ego": ego, **process}
        for batch in TokenLoader(tokens, features, **settings):
            (model(*batch.inputs) * mix[batch.nodes]).sum().backward()
        return model.ego_input.weight.grad.clone(), model.ego_input.scale.grad.clone()

    whole = gradient(batch_size=100)
    parts = [gradient(batch_size=50, rank=rank, world_size=2) for rank in (0, 1)]
    for expected, one, two in zip(whole, *parts, strict=True):
        torch.testing.assert_close(one + two, expected)


def test_the_rows_count_in_what_stays_on_the_device(tokens, features, ego, monkeypatch):
    plain = TokenLoader(tokens, features, resident=True)._resident_bytes(False)
    monkeypatch.setattr("dhilgt.loader.checks.free_bytes", lambda device: plain + 100)
    TokenLoader(tokens, features, resident="features")
    with pytest.raises(MemoryLimitError, match="features take"):
        TokenLoader(tokens, features, resident="features", ego=ego)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.toarray(), "ego is a ndarray; pass a SciPy sparse matrix"),
        (lambda rows: rows[:-1], "ego has 1199 rows, but the graph has 400 nodes"),
        (lambda rows: rows[:0], "ego has 0 rows, but the graph has 400 nodes"),
        (lambda rows: rows * np.nan, "is not finite"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tokens, features, ego, change, said):
    with pytest.raises(GraphError, match=said):
        TokenLoader(tokens, features, ego=change(ego))
