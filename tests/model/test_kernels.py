"""The fused kernels: values and all gradients of the reference, dropout, repeatability.

Where there is no GPU the kernels run in Triton's interpreter, on the CPU.
"""

import pytest
import torch

pytest.importorskip("triton", reason="the fused kernels need the package triton")

from dhilgt.model.attention import attend, bias_table, pair_codes
from dhilgt.model.codes import MASKED, NO_BIAS
from dhilgt.model.kernels import attention, row_ops
from dhilgt.model.kernels.attention import Draw
from dhilgt.model.kernels.gather import sum_by_node
from dhilgt.model.kernels.held_inputs import HeldInputs
from dhilgt.model.layers import sparse_linear
from tests.model.attention_op import fused_attention
from tests.model.cases import batch_of, gradients, model_of

torch.set_num_threads(1)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Sums of some forty float32 terms; the largest error seen is a tenth of it.
TOLERANCE = 5e-6


def draw(seed=0, stream=1, rate=0.0):
    return Draw(torch.tensor([seed], dtype=torch.int64, device=DEVICE), stream, rate)


def off(actual, exact):
    """The distance of two tensors in units of the size of the exact one."""
    return float((actual.double().cpu() - exact.cpu()).norm() / exact.norm().clamp_min(1e-30))


def problem(rows, slots, virtual, heads, width, high, seed=0, all_padding=False):
    """Distances with far and unreachable pairs, and what attention learns from, in float64."""
    _, index, spd = batch_of(rows, slots, seed=seed, high=high)
    spd[spd == 3] = 254
    real = index != -1
    if all_padding:
        real[1] = False
    chosen = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=chosen, dtype=torch.float64).to(DEVICE)

    t, pairs = slots + virtual, 2 * virtual + virtual**2
    leaves = [normal(rows, t, 3 * heads * width), normal(256, heads)]
    leaves += [normal(pairs, heads)] if virtual else []
    return leaves, spd.to(DEVICE), real.to(DEVICE), normal(rows, t, heads * width)


def split(qkv, heads):
    rows, t, triple = qkv.shape
    return qkv.view(rows, t, 3, heads, triple // 3 // heads).permute(2, 0, 3, 1, 4)


def joined(out):
    rows, heads, t, width = out.shape
    return out.transpose(1, 2).reshape(rows, t, heads * width)


def table_of(leaves, heads):
    return bias_table(heads, leaves[1], leaves[1], leaves[2] if len(leaves) > 2 else None)


def solve(run, leaves, mix):
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    out = run(leaves)
    return out.detach(), torch.autograd.grad((out * mix.to(out.dtype)).sum(), leaves)


def exact_attention(leaves, spd, real, virtual, heads, mix):
    pairs = pair_codes(spd, real, virtual)

    def run(leaves):
        qkv, table = split(leaves[0], heads), table_of(leaves, heads)
        return joined(attend(*qkv, pairs, table, path="reference"))

    return solve(run, leaves, mix)


def our_attention(leaves, spd, real, virtual, heads, mix, dtype=torch.float32):
    codes = attention.make_codes(spd, real, virtual, draw())

    def run(leaves):
        qkv = leaves[0].to(dtype)
        return fused_attention(qkv, codes, table_of(leaves, heads), draw())

    return solve(run, [leaf.float() for leaf in leaves], mix)


# rows, slots, virtual nodes, heads, width of a head, one more than the largest distance
SHAPES = [
    (2, 1, 0, 1, 16, 5),
    (2, 1, 2, 2, 4, 5),
    (3, 6, 2, 3, 4, 12),
    (2, 9, 0, 1, 8, 120),
    (3, 5, 1, 2, 5, 40),
    (2, 33, 4, 2, 16, 9),
]


@pytest.mark.parametrize(
    ("shape", "all_padding"), [*((shape, False) for shape in SHAPES), (SHAPES[2], True)], ids=str
)
def test_attention_and_its_gradients_are_those_of_the_reference(shape, all_padding):
    leaves, spd, real, mix = problem(*shape, all_padding=all_padding)
    virtual, heads = shape[2:4]
    exact, grads = exact_attention(leaves, spd, real, virtual, heads, mix)
    actual, ours = our_attention(leaves, spd, real, virtual, heads, mix)
    assert off(actual, exact) < TOLERANCE
    for one, two in zip(ours, grads, strict=True):
        assert one.isfinite().all()
        if two.norm() > 1e-9:  # a single key has the same weight whatever its bias
            assert off(one, two) < TOLERANCE
        else:
            assert one.norm() < 1e-5
    assert (actual[:, : shape[1]][~real] == 0).all()


def test_attention_in_bfloat16_is_off_by_its_rounding():
    shape = (3, 12, 2, 2, 16, 9)
    leaves, spd, real, mix = problem(*shape)
    exact, grads = exact_attention(leaves, spd, real, 2, 2, mix)
    actual, ours = our_attention(leaves, spd, real, 2, 2, mix, torch.bfloat16)
    assert actual.dtype == torch.bfloat16
    assert 1e-4 < off(actual, exact) < 1e-2
    assert all(off(one, two) < 2e-2 for one, two in zip(ours, grads, strict=True))


@pytest.mark.parametrize("virtual", [0, 2])
def test_codes_are_those_of_the_reference(virtual):
    _, index, spd = batch_of(4, 7, high=250)
    pairs = pair_codes(spd, index != -1, virtual)
    expected = pairs.codes.masked_fill(~pairs.real[:, :, None], MASKED)
    actual = attention.make_codes(spd.to(DEVICE), (index != -1).to(DEVICE), virtual, draw())
    order = attention.code_order(virtual, torch.device("cpu"))
    ours = actual.values.cpu().long()
    assert torch.equal(order[ours], expected)
    assert torch.equal(order.sort().values, torch.arange(258 + 2 * virtual + virtual**2))
    biased = ours.masked_fill((expected == MASKED) | (expected == NO_BIAS), 0)
    assert torch.equal(actual.farthest.cpu().long(), biased.amax((1, 2)))


# ---- dropout -----------------------------------------------------------------------------------


def dropped_pairs(seed, rate, rows=24, slots=12):
    spd = torch.full((rows, slots, slots), 3, dtype=torch.uint8, device=DEVICE)
    real = torch.ones(rows, slots, dtype=torch.bool, device=DEVICE)
    return (attention.make_codes(spd, real, 0, draw(seed, 0, rate)).values == 256).cpu()


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_pairs_lose_their_bias_at_the_wanted_rate_and_independently(rate):
    gone = dropped_pairs(1, rate).double()
    spread = (rate * (1 - rate) / gone.numel()) ** 0.5
    assert abs(gone.mean() - rate) < 4 * spread
    centred = gone - rate
    # Neighbours in a row, in a column, in the batch, mirrored pairs, and another seed.
    others = [
        (centred[:, :, :-1], centred[:, :, 1:]),
        (centred[:, :-1], centred[:, 1:]),
        (centred[:-1], centred[1:]),
        (centred, centred.transpose(1, 2) * (1 - torch.eye(12))),
        (centred, dropped_pairs(2, rate).double() - rate),
        (centred, dropped_pairs(1 + 2**40, rate).double() - rate),
    ]
    for one, two in others:
        assert abs((one * two).mean()) < 5 * rate * (1 - rate) / one.numel() ** 0.5


def test_a_dropped_pair_has_no_bias_and_gives_no_gradient_to_it():
    leaves, spd, real, mix = problem(3, 6, 2, 3, 4, 12)
    codes = attention.make_codes(spd, real, 2, draw(5, 0, 0.3))
    exact_pairs = pair_codes(spd, real, 2)
    gone = (codes.values == 256 + 2 * 2 + 2**2).to(exact_pairs.codes.device)
    assert gone.any()
    chosen = exact_pairs.codes.masked_fill(gone, NO_BIAS)
    exact, grads = solve(
        lambda leaves: joined(
            attend(
                *split(leaves[0], 3),
                exact_pairs._replace(codes=chosen),
                table_of(leaves, 3),
                path="reference",
            )
        ),
        leaves,
        mix,
    )
    actual, ours = solve(
        lambda leaves: fused_attention(leaves[0], codes, table_of(leaves, 3), draw()),
        [leaf.float() for leaf in leaves],
        mix,
    )
    assert off(actual, exact) < TOLERANCE
    assert all(off(one, two) < TOLERANCE for one, two in zip(ours, grads, strict=True))


def kept_weights(codes, some):
    """Which attention weights stay: with equal scores and values of one they are the output."""
    rows, slots, _ = codes.values.shape
    qkv = torch.zeros(rows, slots, 3 * slots, device=DEVICE)
    qkv[..., 2 * slots :] = torch.eye(slots)
    out = fused_attention(qkv, codes, torch.zeros(258, 1, device=DEVICE), some)
    kept = (out != 0).double()
    torch.testing.assert_close(out.double(), kept / slots / (1 - some.probability))
    return kept


def test_attention_weights_are_dropped_at_the_wanted_rate_in_both_directions():
    rows, slots, rate = 12, 8, 0.25
    leaves, spd, _, mix = problem(rows, slots, 0, 1, slots, 12)
    real = torch.ones(rows, slots, dtype=torch.bool, device=DEVICE)
    codes, some = attention.make_codes(spd, real, 0, draw()), draw(9, 1, rate)
    kept = kept_weights(codes, some)
    assert abs(kept.mean() - (1 - rate)) < 4 * (rate * (1 - rate) / kept.numel()) ** 0.5

    def exact(leaves):
        query, key, value = leaves[0].chunk(3, -1)
        bias = leaves[1][:, 0][attention.code_order(0, DEVICE)[codes.values.long()]]
        weights = torch.softmax(query @ key.transpose(1, 2) * slots**-0.5 + bias, -1)
        return (weights * kept / (1 - rate)) @ value

    expected, grads = solve(exact, leaves, mix)
    actual, ours = solve(
        lambda leaves: fused_attention(leaves[0], codes, table_of(leaves, 1), some),
        [leaf.float() for leaf in leaves],
        mix,
    )
    assert off(actual, expected) < TOLERANCE
    assert all(off(one, two) < TOLERANCE for one, two in zip(ours, grads, strict=True))


def test_residual_dropout_is_the_same_in_both_directions():
    rows, width, rate = 64, 20, 0.4
    stream = torch.zeros(rows, width, device=DEVICE)
    branch = torch.ones(rows, width, device=DEVICE)
    weight, bias = torch.ones(width, device=DEVICE), torch.zeros(width, device=DEVICE)
    some = draw(3, 7, rate)
    out, _ = row_ops.add_norm(stream, branch, weight, bias, 1e-5, some)
    kept = out != 0
    torch.testing.assert_close(out, kept / (1 - rate))
    assert abs(kept.double().mean() - (1 - rate)) < 4 * (rate * (1 - rate) / out.numel()) ** 0.5
    carried = torch.randn(rows, width, device=DEVICE)
    none = torch.zeros(rows, width, device=DEVICE)
    back = row_ops.add_norm_backward(
        out, none, carried.clone(), weight, bias, 1e-5, some, recompute=False
    )
    torch.testing.assert_close(back.branch, carried * kept / (1 - rate))
    torch.testing.assert_close(back.sums[:, 2].sum(0), (carried * kept / (1 - rate)).sum(0))
    torch.testing.assert_close(back.stream, carried)


def assert_independent(first, second, rate):
    """Two masks agree as often as masks that have nothing to do with each other."""
    chance = rate**2 + (1 - rate) ** 2
    agree = (first == second).double()
    assert abs(agree.mean() - chance) < 4 * (chance * (1 - chance) / agree.numel()) ** 0.5


def test_dropout_of_blocks_steps_and_places_is_independent():
    rows, width, rate = 96, 32, 0.4
    stream, branch = torch.zeros(rows, width, device=DEVICE), torch.ones(rows, width, device=DEVICE)
    ones, none = torch.ones(width, device=DEVICE), torch.zeros(width, device=DEVICE)

    def kept(seed, block):
        some = draw(seed, block, rate)
        return row_ops.add_norm(stream, branch, ones, none, 1e-5, some)[0] != 0

    mask = kept(3, 7)
    for other in (kept(3, 8), kept(3, 10), kept(4, 7)):  # a block, a layer, a step further
        assert_independent(mask, other, rate)
    for first, second in ((mask[1:], mask[:-1]), (mask[:, 1:], mask[:, :-1])):
        assert_independent(first, second, rate)


def test_dropped_weights_of_rows_queries_and_steps_are_independent():
    rows, slots, rate = 24, 8, 0.25
    spd = torch.ones(rows, slots, slots, dtype=torch.uint8, device=DEVICE)
    real = torch.ones(rows, slots, dtype=torch.bool, device=DEVICE)
    codes = attention.make_codes(spd, real, 0, draw())
    kept = kept_weights(codes, draw(9, 1, rate))
    for other in (kept_weights(codes, draw(9, 4, rate)), kept_weights(codes, draw(10, 1, rate))):
        assert_independent(kept, other, rate)
    for first, second in (
        (kept[1:], kept[:-1]),
        (kept[:, 1:], kept[:, :-1]),
        (kept[..., 1:], kept[..., :-1]),
    ):
        assert_independent(first, second, rate)


# ---- the rows' own kernels ---------------------------------------------------------------------


def test_residual_norm_and_its_gradients():
    generator = torch.Generator().manual_seed(0)
    stream, branch, mix, through = (
        torch.randn(37, 24, generator=generator, dtype=torch.float64).to(DEVICE) for _ in range(4)
    )
    weight, bias = (torch.rand(24, dtype=torch.float64).to(DEVICE) for _ in range(2))
    leaves = [leaf.requires_grad_() for leaf in (stream, branch, weight, bias)]
    total = stream + branch
    normed = torch.nn.functional.layer_norm(total, (24,), weight, bias)
    grads = torch.autograd.grad((normed * mix + total * through).sum(), leaves)
    short = [leaf.detach().float() for leaf in leaves]
    out, actual = row_ops.add_norm(*short, 1e-5, draw())
    assert off(out, total.detach()) < TOLERANCE
    assert off(actual, normed.detach()) < TOLERANCE
    back = row_ops.add_norm_backward(
        out, mix.float(), through.float(), *short[2:], 1e-5, draw(), recompute=True
    )
    weight_grad, bias_grad, branch_sum = back.sums.sum(0)
    ours = (back.stream, back.branch, weight_grad, bias_grad)
    assert all(off(one, two) < TOLERANCE for one, two in zip(ours, grads, strict=True))
    assert torch.equal(back.normed, actual)
    assert off(branch_sum, grads[1].sum(0)) < TOLERANCE


def test_gelu_and_its_gradient():
    u = torch.linspace(-6, 6, 33 * 20, dtype=torch.float64).view(33, 20).to(DEVICE)
    exact = torch.nn.functional.gelu(u.requires_grad_())
    grad = torch.autograd.grad(exact.sum(), u)[0]
    ones = torch.ones(33, 20, device=DEVICE)
    again = u.detach().float()
    total = row_ops.gelu_backward(again, ones).sum(0)
    assert off(row_ops.gelu(u.detach().float()), exact.detach()) < TOLERANCE
    assert off(again, exact.detach()) < TOLERANCE
    assert off(ones, grad) < TOLERANCE
    assert off(total, grad.sum(0)) < TOLERANCE


@pytest.mark.parametrize(("width", "inner"), [(16, 16), (20, 40)])
def test_a_layer_behind_its_attention_is_one_kernel(width, inner):
    torch.manual_seed(0)
    rows, rate = 70, 0.3

    def normal(*shape):
        return torch.randn(shape, device=DEVICE)

    mixed, h = normal(rows, width), normal(rows, width)
    weights = [(normal(n, k) * k**-0.5, normal(n)) for n, k in ((width, width), (inner, width))]
    weights.append((normal(width, inner) * inner**-0.5, normal(width)))
    norms = [(normal(width), normal(width)) for _ in range(2)]
    draws = (draw(3, 5, rate), draw(3, 6, rate))
    actual = row_ops.run_block(
        mixed, h, weights[0], norms[0], weights[1], weights[2], norms[1], 1e-5, draws, keep=True
    )
    # The same, kernel by kernel.
    added = torch.addmm(weights[0][1], mixed, weights[0][0].t())
    middle, normed = row_ops.add_norm(h, added, *norms[0], 1e-5, draws[0])
    u = torch.addmm(weights[1][1], normed, weights[1][0].t())
    added = torch.addmm(weights[2][1], row_ops.gelu(u), weights[2][0].t())
    out, normed = row_ops.add_norm(middle, added, *norms[1], 1e-5, draws[1])
    for one, two in zip(actual, (middle, u, out, normed), strict=True):
        assert off(one, two.double()) < TOLERANCE
    again = row_ops.run_block(
        mixed, h, weights[0], norms[0], weights[1], weights[2], norms[1], 1e-5, draws, keep=False
    )
    assert torch.equal(again.h, actual.h)
    assert torch.equal(again.normed, actual.normed)


@pytest.mark.parametrize("slots", [1, 7, 40])
@pytest.mark.parametrize("nodes", [1, 3, 200])
def test_gradients_of_a_node_are_summed_over_all_its_slots(slots, nodes):
    # With few nodes each fills many blocks, with many some lie in one.
    generator = torch.Generator().manual_seed(slots)
    index = torch.randint(-1, nodes, (30, slots), generator=generator)
    index[:, 0] = 0  # a hub
    grad = torch.randn(30, slots + 2, 12, generator=generator, dtype=torch.float64)
    expected = torch.zeros(nodes + 1, 12, dtype=torch.float64)
    expected.index_add_(0, (index + 1).reshape(-1), grad[:, :slots].reshape(-1, 12))
    actual = sum_by_node(grad.float().to(DEVICE), index.to(DEVICE), nodes)
    assert off(actual, expected[1:]) < TOLERANCE
    again = sum_by_node(grad.float().to(DEVICE), index.to(DEVICE), nodes)
    assert torch.equal(actual, again)


# ---- the model ---------------------------------------------------------------------------------


def twins(dtype=torch.float32, train=False, **settings):
    """The same model on the reference in float64 and on the fused path."""
    exact = model_of(dtype=torch.float64, attention="reference", **settings)
    ours = model_of(attention="fused", train=train, **settings)
    ours.load_state_dict(exact.state_dict())
    return exact, ours.to(DEVICE, dtype)


def batches(**settings):
    x, index, spd = batch_of(dtype=torch.float64, **settings)
    return (x, index, spd), tuple(part.to(DEVICE) for part in (x.float(), index, spd))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_virtual": 0, "readout": "ego", "num_layers": 1},
        {"spd_bias": False, "num_layers": 1},
        {"hidden_channels": 24, "heads": 3, "ffn_channels": 10, "num_layers": 1},
    ],
    ids=str,
)
def test_a_model_and_all_its_gradients(settings):
    exact, ours = twins(**settings)
    wide, short = batches(rows=3, slots=5)
    grads, actual = gradients(exact, wide), gradients(ours, short)
    assert ours.attention_used == "fused"
    assert off(ours(*short).detach(), exact(*wide).detach()) < TOLERANCE
    assert actual.keys() == grads.keys()
    for name, grad in grads.items():
        # A constant on all scores of a query changes nothing: the keys' bias has only noise.
        where = slice(None)
        if name.endswith("qkv.bias"):
            third = len(grad) // 3
            where = torch.cat([torch.arange(third), torch.arange(2 * third, 3 * third)])
        assert off(actual[name].cpu()[where], grad[where]) < 10 * TOLERANCE, name


def test_autocast_computes_in_bfloat16():
    exact, ours = twins()
    wide, short = batches(rows=3, slots=5)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        actual = ours(*short)
    assert ours.attention_used == "fused"
    assert 1e-4 < off(actual.detach().float(), exact(*wide).detach()) < 3e-2


def test_runs_repeat_bit_for_bit_and_recomputing_changes_nothing():
    _, ours = twins(train=True, attention_dropout=0.2, heads=2)
    _, short = batches(rows=2, slots=4)
    actual = []
    for recompute in (False, False, True):
        ours.recompute = recompute
        torch.manual_seed(3)
        actual.append(gradients(ours, short))
    for name, grad in actual[0].items():
        assert torch.equal(grad, actual[1][name]), name
        assert torch.equal(grad, actual[2][name]), name
    other = gradients(ours, short)
    assert any(not torch.equal(actual[0][name], other[name]) for name in other)


def test_a_second_backward_pass_is_refused():
    _, ours = twins(num_layers=1)
    _, short = batches(rows=2, slots=4)
    out = ours(*short).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward pass through the fused kernels"):
        out.backward()


def test_held_sparse_features_are_those_of_the_last_batch():
    torch.manual_seed(0)
    rows = [torch.randn(n, 9).relu().sub(0.8).relu().to(DEVICE) for n in (40, 12, 44, 30)]
    index = torch.arange(60, device=DEVICE).view(20, 3) % 12
    spd = torch.zeros(20, 3, 3, dtype=torch.uint8, device=DEVICE)
    held = HeldInputs((rows[0].to_sparse_csr(), index, spd))
    weight, bias = torch.randn(4, 9, device=DEVICE), torch.randn(4, device=DEVICE)
    address = held.x.values().data_ptr()
    for dense in rows:
        x = dense.to_sparse_csr()
        assert held.holds((x, index, spd))
        held.put((x, index + 1, spd + 7))
        actual = sparse_linear(held.x, held.x.values(), weight, bias)[: len(x)]
        torch.testing.assert_close(actual, dense @ weight.t() + bias)
        assert torch.equal(held()[1], index + 1)
        assert torch.equal(held()[2], spd + 7)
        assert held.x.values().data_ptr() == address
    many = torch.ones(200, 9, device=DEVICE).to_sparse_csr()
    assert not held.holds((many, index, spd))


def test_readout_weights_are_those_of_the_reference():
    exact, ours = twins(num_layers=1)
    wide, short = batches(rows=3, slots=5)
    with torch.no_grad():
        assert off(ours.readout_weights(*short), exact.readout_weights(*wide)) < TOLERANCE


def test_what_padding_holds_is_not_looked_at():
    _, ours = twins(num_layers=1)
    _, (x, index, spd) = batches(rows=3, slots=5)
    other = spd.clone()
    hidden = (index == -1)[:, None, :] | (index == -1)[:, :, None]
    assert hidden.any()
    other[hidden] = 7
    with torch.no_grad():
        assert torch.equal(ours(x, index, spd), ours(x, index, other))
