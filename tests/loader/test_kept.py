"""A loader whose nodes are one batch makes it once; rows may come from the host."""

import numpy as np
import pytest
import scipy.sparse
import torch

from dhilgt import TokenLoader, Tokens, TokenSampler
from dhilgt.errors import MemoryLimitError
from tests.tokens.cases import generated_labels

NODES, SIZE = 400, 12


@pytest.fixture(scope="module")
def tokens():
    return Tokens.build(generated_labels(), size=SIZE, copies=2, seed=3, progress=False)


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(NODES, 5)).astype(np.float32)


def loaders(tokens, features, **settings):
    """The same loader with everything on the host, and with other things kept."""
    classes = np.arange(NODES) % 3
    for resident in (False, True, "features"):
        yield TokenLoader(tokens, features, classes, resident=resident, seed=5, **settings)


def tensors(batch):
    x, index, spd = batch.inputs
    dense = x.to_dense() if x.layout != torch.strided else x
    return dense, index, spd, batch.labels, batch.nodes


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [NODES, 90])
@pytest.mark.parametrize("sparse", [False, True])
def test_batches_do_not_depend_on_what_is_kept(tokens, features, shuffle, batch_size, sparse):
    values = scipy.sparse.csr_array(np.where(features > 0.8, features, 0)) if sparse else features
    nodes = np.arange(0, NODES, 2)
    settings = {"shuffle": shuffle, "batch_size": batch_size, "copies": 2, "nodes": nodes}
    plain, *others = loaders(tokens, values, **settings)
    plain._is_kept = lambda: False
    others.append(TokenLoader(tokens, values, np.arange(NODES) % 3, seed=5, **settings))
    for epoch in (0, 1, 2, 0):
        for loader in (plain, *others):
            loader.set_epoch(epoch)
        expected = list(plain)
        for loader in others:
            actual = list(loader)
            assert len(actual) == len(expected) == -(-200 // batch_size)
            for one, two in zip(actual, expected, strict=True):
                assert all(map(torch.equal, tensors(one), tensors(two)))


@pytest.mark.parametrize("resident", [True, False])
def test_one_batch_is_made_once(tokens, features, monkeypatch, resident):
    loader = TokenLoader(tokens, features, resident=resident, batch_size=NODES, shuffle=True)
    first = next(iter(loader))
    monkeypatch.setattr(loader, "_maker", None)  # whoever calls it now fails
    again = next(iter(loader))
    assert all(map(torch.equal, first.tensors(), again.tensors()))
    loader.set_epoch(1)
    other = next(iter(loader))
    assert not torch.equal(first.nodes, other.nodes)
    assert torch.equal(first.nodes.sort().values, other.nodes.sort().values)


def test_a_batch_that_was_first_scored_can_be_learned_from(tokens, features):
    loader = TokenLoader(tokens, features, batch_size=NODES)
    with torch.inference_mode():
        next(iter(loader))
    weight = torch.ones(features.shape[1], requires_grad=True)
    (next(iter(loader)).inputs[0] @ weight).sum().backward()
    assert weight.grad is not None


def test_fresh_rows_are_not_kept(tokens, features):
    sampler = TokenSampler(generated_labels(), size=SIZE, progress=False)
    loader = TokenLoader(sampler, features, batch_size=NODES, fresh=True)
    first = next(iter(loader))
    loader.set_epoch(1)
    assert not torch.equal(first.inputs[1], next(iter(loader)).inputs[1])


def test_features_that_do_not_fit_are_refused(tokens, features, monkeypatch):
    monkeypatch.setattr("dhilgt.loader.checks.free_bytes", lambda device: 20_000)
    kept = TokenLoader(tokens, features, resident="features")
    assert kept.resident == "features"
    with pytest.raises(MemoryLimitError, match=r"features and rows take .*pass resident=False"):
        TokenLoader(tokens, features, resident=True)
    monkeypatch.setattr("dhilgt.loader.checks.free_bytes", lambda device: 100)
    with pytest.raises(MemoryLimitError, match="features take"):
        TokenLoader(tokens, features, resident="features")
