"""Sparse rows of egos on the fused path: values and gradients of the reference, fixed addresses.

Where there is no GPU the kernels run in Triton's interpreter, on the CPU.
"""

import contextlib

import pytest
import torch

pytest.importorskip("triton", reason="the fused kernels need the package triton")

from dhilgt.model.kernels.cuda_graphs import ForwardGraphs, StepGraphs
from dhilgt.model.kernels.held_inputs import HeldInputs
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer
from tests.model.cases import batch_of, gradients, model_of
from tests.model.ego_cases import SETTINGS, ego_rows

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE = 5e-6  # as for the other tests of the kernels
on_gpu = pytest.mark.skipif(DEVICE.type == "cpu", reason="there is no GPU")


def off(actual, exact):
    """The distance of two tensors in units of the size of the exact one."""
    return float((actual.double().cpu() - exact).norm() / exact.norm())


def placed(batch):
    return tuple(None if part is None else part.to(DEVICE) for part in batch)


def pair(**settings):
    """The same model and batch on the reference in float64 and on the fused path."""
    settings = {"num_layers": 1, **SETTINGS, **settings}
    exact = model_of(dtype=torch.float64, attention="reference", **settings)
    ours = model_of(attention="fused", **settings)
    ours.load_state_dict(exact.state_dict())
    x, index, spd = batch_of(rows=3, slots=5, nodes=6, dtype=torch.float64)
    index[2, 3] = index[2, 0]  # directed rows can hold the ego twice
    known = torch.tensor([0, 1, 2, 3, 1, 0]) if exact.config.label_inputs else None
    rows = ego_rows(3, dtype=torch.float64)
    wide = (x, index, spd, known, rows)
    return exact, wide, ours.to(DEVICE), placed((x.float(), index, spd, known, rows.float()))


@pytest.mark.parametrize("label_inputs", [False, True])
def test_logits_and_readout_weights_are_those_of_the_reference(label_inputs):
    exact, wide, ours, short = pair(label_inputs=label_inputs)
    with torch.no_grad():
        actual = ours(*short)
        assert ours.attention_used == "fused"
        assert off(actual, exact(*wide)) < TOLERANCE
        assert off(actual, exact(*wide[:4], ego_rows(3, seed=1).double())) > 100 * TOLERANCE
        assert off(ours.readout_weights(*short), exact.readout_weights(*wide)) < TOLERANCE


@pytest.mark.parametrize(
    "packing", ["on", pytest.param("off", marks=() if DEVICE.type == "cuda" else pytest.mark.full)]
)
def test_gradients_are_those_of_the_reference(packing):
    exact, wide, ours, short = pair()
    ours.packing = packing
    grads, actual = gradients(exact, wide), gradients(ours, short)
    for name in ("ego_input.weight", "ego_input.scale", "input.layers.0.weight", "virtual"):
        assert off(actual[name], grads[name]) < 10 * TOLERANCE, name


def test_egos_without_entries_have_no_gradient():
    _, _, ours, (*batch, _) = pair()
    grads = gradients(ours, (*batch, ego_rows(3, kept=0.0).to(DEVICE)))
    assert not grads["ego_input.weight"].any()
    assert not grads["ego_input.scale"].any()


# ---- recordings ----------------------------------------------------------------------------------


def held_case(egos, seed, kept, known=False):
    x, index, spd = batch_of(egos, 3, 12, seed=7)
    classes = torch.arange(12, dtype=torch.int32) % 5 if known else None
    return placed((x, index, spd, classes, ego_rows(egos, seed, kept=kept)))


@pytest.mark.parametrize("known", [False, True])
def test_held_rows_are_those_of_the_last_batch_at_one_address(known):
    held = HeldInputs(held_case(200, 0, 0.3, known))
    address = held()[4].values().data_ptr()
    for seed, kept in enumerate((0.3, 0.1, 0.3, 0.0, 0.32)):
        batch = held_case(200, seed, kept, known)
        assert held.holds(batch)
        held.put(batch)
        *_, classes, rows = held()
        assert rows.shape == batch[4].shape
        assert torch.equal(_dense(rows), batch[4].to_dense())
        assert (classes is None) == (not known)
        assert rows.values().data_ptr() == address
    assert not held.holds(held_case(200, 0, 0.9, known))


def test_unused_entries_are_spread_over_the_rows():
    held = HeldInputs(held_case(200, 0, 0.3))
    batch = held_case(200, 1, 0.05)
    held.put(batch)
    counts = held()[4].crow_indices().diff() - batch[4].crow_indices().diff()
    assert counts.min() >= 0
    assert counts.max() - counts.min() <= 1
    assert held()[4].crow_indices()[-1] == len(held()[4].values())


def _dense(rows):
    """The matrix of a CSR tensor that may store a place twice."""
    out = torch.zeros(rows.shape, device=rows.device)
    counts = rows.crow_indices().diff()
    at = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
    return out.index_put((at, rows.col_indices()), rows.values(), accumulate=True)


def step_cases():
    for seed, (nodes, kept) in enumerate([(90, 0.3), (60, 0.1), (110, 0.3), (300, 0.9), (75, 0.5)]):
        yield placed((*batch_of(40, 12, nodes, seed=nodes), None, ego_rows(40, seed, kept=kept)))


@on_gpu
@pytest.mark.parametrize("num_layers", [0, 2])
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_a_recorded_step_with_rows_is_the_step_itself(clip_norm, num_layers):
    labels = torch.arange(40, device=DEVICE) % 3
    weights = []
    for recorded in (False, True):
        # What PyTorch's dropout drops of features depends on the size of their table.
        settings = {"input_dropout": 0.0, "num_layers": num_layers, **SETTINGS}
        model = model_of(train=True, **settings).to(DEVICE)
        optimizer = build_optimizer(model, TrainConfig(lr=1e-2))
        graphs = StepGraphs(model, optimizer, clip_norm, contextlib.nullcontext)
        torch.manual_seed(4)
        for number, batch in enumerate(step_cases()):
            if recorded and number:
                assert graphs.step(batch, labels) is not None
                continue
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(*batch), labels).backward()
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    # Adam makes steps of full size out of gradients that are noise.
    assert off(weights[1], weights[0].double().cpu()) < 2e-3


@on_gpu
@pytest.mark.parametrize("num_layers", [0, 2])
def test_recorded_logits_with_rows_are_the_models_own(num_layers):
    model = model_of(num_layers=num_layers, **SETTINGS).to(DEVICE)
    forward = ForwardGraphs(model, contextlib.nullcontext)
    for number, batch in enumerate(step_cases()):
        with torch.inference_mode():
            expected = model(*batch)
        torch.testing.assert_close(forward(*batch), expected, rtol=1e-5, atol=1e-5)
        assert bool(forward._held) == (number > 0)


@on_gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 5e-5), ("bf16", 6e-2)])
@pytest.mark.parametrize("packing", ["off", "on"])
def test_values_and_gradients_at_real_sizes(precision, tolerance, packing):
    settings = {"hidden_channels": 128, "heads": 8, "num_virtual": 4, **SETTINGS}
    exact = model_of(dtype=torch.float64, attention="reference", **settings).to(DEVICE)
    ours = model_of(attention="fused", **settings)
    ours.load_state_dict(exact.state_dict())
    ours = ours.to(DEVICE)
    ours.packing = packing
    x, index, spd = placed(batch_of(64, 32, 300, dtype=torch.float64, high=90))
    rows = ego_rows(64, dtype=torch.float64).to(DEVICE)
    mix = torch.randn(64, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    mix = mix.to(DEVICE)
    expected = exact(x, index, spd, None, rows)
    (expected * mix).sum().backward()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
        actual = ours(x.float(), index, spd, None, rows.float())
    (actual.double() * mix).sum().backward()
    assert ours.attention_used == "fused"
    assert off(actual.detach(), expected.detach().cpu()) < tolerance
    for name in ("weight", "scale"):
        grad, ours_grad = (getattr(m.ego_input, name).grad for m in (exact, ours))
        assert off(ours_grad, grad.cpu()) < tolerance, name


@on_gpu
def test_repeats_bit_for_bit():
    model = model_of(hidden_channels=128, heads=8, train=True, **SETTINGS).to(DEVICE)
    x, index, spd = batch_of(256, 16, 300, high=90)
    index[:, 0] = torch.arange(256)  # a node is the ego of one row only
    batch = placed((x, index, spd, None, ego_rows(256)))
    actual = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        actual.append({name: grad.cpu() for name, grad in gradients(model, batch).items()})
    assert all(torch.equal(actual[0][name], actual[1][name]) for name in actual[0])
    assert not torch.equal(actual[0]["ego_input.weight"], actual[2]["ego_input.weight"])
