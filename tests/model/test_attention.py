"""Attention: its paths agree, padding neither sees nor is seen."""

import pytest
import torch

from dhilgt.model import attention
from dhilgt.model.attention import attend, bias_table, pair_codes
from dhilgt.model.codes import FIRST_VIRTUAL, MASKED, NO_BIAS, NUM_DISTANCES
from dhilgt.model.config import ATTENTIONS
from dhilgt.model.dropout import dropout
from tests.model.cases import batch_of

torch.set_num_threads(1)
HEADS, WIDTH = 3, 4


def problem(dtype, virtual=2, seed=0, rows=5, slots=6, all_padding=False):
    _, index, spd = batch_of(rows, slots, seed=seed)
    real = index != -1
    if all_padding:
        real[1] = False
    draw = torch.Generator().manual_seed(seed)
    table = torch.randn(NUM_DISTANCES, HEADS, generator=draw, dtype=dtype, requires_grad=True)
    own = torch.randn(
        2 * virtual + virtual**2, HEADS, generator=draw, dtype=dtype, requires_grad=True
    )
    shape = (rows, HEADS, slots + virtual, WIDTH)
    qkv = [torch.randn(shape, generator=draw, dtype=dtype, requires_grad=True) for _ in range(3)]
    return qkv, pair_codes(spd, real, virtual), table, own


def run(path, qkv, pairs, table, own):
    leaves = [*qkv, table, own]
    for leaf in leaves:
        leaf.grad = None
    out = attend(*qkv, pairs, bias_table(HEADS, table, table, own), path=path)
    mix = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape)
    (out * mix).sum().backward()
    return out.detach(), [leaf.grad.clone() for leaf in leaves if leaf.grad is not None]


# float64 leaves rounding alone; float32 sums of some forty terms differ by a few units of 1e-7.
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=["f64", "f32"]
)
@pytest.mark.parametrize("virtual", [0, 2])
@pytest.mark.parametrize("all_padding", [False, True])
def test_paths_agree_in_values_and_gradients(dtype, tolerance, virtual, all_padding):
    case = problem(dtype, virtual, all_padding=all_padding)
    out, grads = run("reference", *case)
    other, other_slopes = run("sdpa", *case)
    torch.testing.assert_close(other, out, rtol=tolerance, atol=tolerance)
    assert len(grads) == len(other_slopes)
    for one, two in zip(grads, other_slopes, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(two, one, rtol=tolerance, atol=tolerance)


def test_both_ways_to_gather_the_bias_agree(monkeypatch):
    _, pairs, table, own = problem(torch.float64)
    whole = bias_table(HEADS, table, table, own)
    actual = attention.gathered_bias(pairs, whole, torch.float64)
    assert torch.equal(actual, whole[pairs.codes].permute(0, 3, 1, 2))
    embedded = torch.nn.functional.embedding(pairs.codes, whole).permute(0, 3, 1, 2)
    assert torch.equal(actual, embedded)


@pytest.mark.parametrize("path", ["reference", "sdpa"])
def test_padding_gives_zeros_and_takes_no_gradient(path):
    (query, key, value), pairs, table, own = problem(torch.float64, 0, all_padding=True)
    out, _ = run(path, (query, key, value), pairs, table, own)
    hidden = ~pairs.real
    assert hidden[1].all()
    assert hidden[[0, 2, 3, 4]].any()
    assert (out.transpose(1, 2)[hidden] == 0).all()
    for part in (query, key, value):
        assert (part.grad.transpose(1, 2)[hidden] == 0).all()
    assert (out.transpose(1, 2)[~hidden] != 0).any()


@pytest.mark.parametrize("path", ["reference", "sdpa"])
def test_by_hand(path):
    # One row, three slots, the last is padding: with equal scores the bias alone decides.
    spd = torch.tensor([[[0, 1, 7], [1, 0, 7], [7, 7, 0]]], dtype=torch.uint8)
    pairs = pair_codes(spd, torch.tensor([[True, True, False]]))
    table = torch.zeros(NUM_DISTANCES, 1, dtype=torch.float64)
    table[1] = torch.log(torch.tensor(3.0))
    table[7] = 50
    value = torch.tensor([[[[1.0], [5.0], [99.0]]]], dtype=torch.float64)
    zero = torch.zeros_like(value)
    out = attend(zero, zero, value, pairs, bias_table(1, table, table, None), path=path)
    torch.testing.assert_close(
        out.flatten(), torch.tensor([(1 + 3 * 5) / 4, (3 * 1 + 5) / 4, 0], dtype=torch.float64)
    )


def test_codes():
    spd = torch.tensor([[[0, 254, 9], [254, 0, 9], [9, 9, 0]]], dtype=torch.uint8)
    codes, real = pair_codes(spd, torch.tensor([[True, True, False]]), 2)
    first, none, mask = FIRST_VIRTUAL, NO_BIAS, MASKED
    assert codes.tolist() == [
        [
            [0, 254, mask, first, first + 1],
            [254, 0, mask, first, first + 1],
            [none] * 5,
            [first + 2, first + 2, mask, first + 4, first + 5],
            [first + 3, first + 3, mask, first + 6, first + 7],
        ]
    ]
    assert real.tolist() == [[True, True, False, True, True]]


def test_dropped_pairs_lose_their_bias_and_padding_stays_masked():
    torch.manual_seed(0)
    spd = torch.full((50, 20, 20), 3, dtype=torch.uint8)
    real = torch.ones(50, 20, dtype=torch.bool)
    real[:, -1] = False
    codes, _ = pair_codes(spd, real, 0, 0.25)
    assert (codes[:, :-1, -1] == MASKED).all()
    inner = codes[:, :-1, :-1]
    assert set(inner.unique().tolist()) == {3, NO_BIAS}
    assert abs((inner == NO_BIAS).double().mean() - 0.25) < 0.02


@pytest.mark.parametrize("path", ["reference", "sdpa"])
def test_dropout_on_weights_keeps_the_mean(path):
    torch.manual_seed(0)
    qkv, pairs, table, own = problem(torch.float64)
    whole = bias_table(HEADS, table, table, own)
    exact = attend(*qkv, pairs, whole, path=path)
    draws = [attend(*qkv, pairs, whole, dropout_p=0.3, path=path).detach() for _ in range(2000)]
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(torch.stack(draws).mean(0), exact.detach(), rtol=0, atol=0.1)


def test_names_of_paths_are_the_settings():
    assert set(ATTENTIONS) == {"auto", "fused", *attention.PATHS}
    assert attention.plain_path(torch.device("cpu")) in attention.PATHS
    assert attention.plain_path(torch.device("cuda")) == "sdpa"


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (999, 1001)])
def test_dropout(p, shape):
    torch.manual_seed(1)
    h = torch.ones(shape, dtype=torch.float64, requires_grad=True)
    out = dropout(h, p)
    assert out.shape == shape
    kept = out != 0
    torch.testing.assert_close(
        out[kept], torch.full_like(out[kept], 1 / (1 - p)), rtol=1e-4, atol=0
    )
    out.sum().backward()
    assert torch.equal(h.grad, out)
    if h.numel() > 100:
        assert abs(kept.double().mean() - (1 - p)) < 0.002
        assert abs(out.mean() - 1) < 0.01
        # neighbours share a draw of 64 bits and must still be independent
        for step in (1, 2, 3, 4):
            both = (kept[:, step:] & kept[:, :-step]).double().mean()
            assert abs(both - (1 - p) ** 2) < 0.002
    assert dropout(h, p, training=False) is h


def test_dropout_repeats_by_seed_and_survives_rates_near_one():
    h = torch.ones(1000)
    torch.manual_seed(4)
    one = dropout(h, 0.3)
    torch.manual_seed(4)
    assert torch.equal(dropout(h, 0.3), one)
    assert dropout(h, 1 - 1e-9).isfinite().all()
    assert dropout(torch.ones(0, 3), 0.5).shape == (0, 3)
