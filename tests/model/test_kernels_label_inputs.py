"""Known classes on the fused path: values and gradients of the reference, fixed addresses.

Where there is no GPU the kernels run in Triton's interpreter, on the CPU.
"""

import contextlib

import pytest
import torch

pytest.importorskip("triton", reason="the fused kernels need the package triton")

from dhilgt.model.kernels.cuda_graphs import StepGraphs
from dhilgt.model.kernels.held_inputs import HeldInputs
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer
from tests.model.cases import batch_of, gradients, model_of

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE = 5e-6  # as for the other tests of the kernels
KNOWN = torch.tensor([0, 1, 2, 3, 1, 0])


def off(actual, exact):
    """The distance of two tensors in units of the size of the exact one."""
    return float((actual.double().cpu() - exact).norm() / exact.norm())


@pytest.fixture
def pair():
    """The same model and batch on the reference in float64 and on the fused path."""
    exact = model_of(dtype=torch.float64, attention="reference", label_inputs=True)
    ours = model_of(attention="fused", label_inputs=True)
    ours.load_state_dict(exact.state_dict())
    x, index, spd = batch_of(rows=3, slots=5, nodes=6, dtype=torch.float64)
    short = [part.to(DEVICE) for part in (x.float(), index, spd, KNOWN)]
    return exact, [x, index, spd, KNOWN], ours.to(DEVICE), short


def test_logits_and_readout_weights_are_those_of_the_reference(pair):
    exact, wide, ours, short = pair
    with torch.no_grad():
        actual = ours(*short)
        assert ours.attention_used == "fused"
        assert off(actual, exact(*wide)) < TOLERANCE
        assert off(actual, exact(*wide[:3], 0 * KNOWN)) > 100 * TOLERANCE
        assert off(ours.readout_weights(*short), exact.readout_weights(*wide)) < TOLERANCE


def test_gradients_are_those_of_the_reference(pair):
    exact, wide, ours, short = pair
    grads, actual = gradients(exact, wide), gradients(ours, short)
    for name in ("label_input.weight", "input.layers.0.weight", "virtual"):
        assert off(actual[name], grads[name]) < 10 * TOLERANCE, name


def test_training_repeats_and_draws_anew(pair):
    *_, ours, short = pair
    ours.train()
    actual = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        actual.append(gradients(ours, short)["label_input.weight"])
    assert torch.equal(actual[0], actual[1])
    assert not torch.equal(actual[0], actual[2])


@pytest.mark.parametrize("sparse", [False, True])
def test_held_classes_are_those_of_the_last_batch_at_one_address(sparse):
    index = torch.arange(60, device=DEVICE).view(20, 3) % 12
    spd = torch.zeros(20, 3, 3, dtype=torch.uint8, device=DEVICE)

    def inputs(nodes):
        x = torch.ones(nodes, 4, device=DEVICE)
        known = torch.arange(nodes, dtype=torch.int32, device=DEVICE) % 5
        return x.to_sparse_csr() if sparse else x, index, spd, known

    held = HeldInputs(inputs(30))
    address = held()[3].data_ptr()
    for nodes in (30, 12, 32):
        held.put(inputs(nodes))
        x, *_, known = held()
        assert len(known) == len(x)
        assert torch.equal(known[:nodes], inputs(nodes)[3])
        assert known.data_ptr() == address


@pytest.mark.skipif(DEVICE.type == "cpu", reason="there is no GPU")
def test_a_recorded_step_that_sees_classes_is_the_step_itself():
    weights = []
    for recorded in (False, True):
        # What PyTorch's dropout drops of features depends on the size of their table.
        model = model_of(label_inputs=True, label_dropout=0.0, input_dropout=0.0)
        model = model.to(DEVICE).train()
        optimizer = build_optimizer(model, TrainConfig(lr=1e-2))
        graphs = StepGraphs(model, optimizer, None, contextlib.nullcontext)
        torch.manual_seed(4)
        for number, nodes in enumerate((90, 60, 110, 300, 75)):
            x, index, spd = (part.to(DEVICE) for part in batch_of(40, 12, nodes, seed=nodes))
            known = torch.arange(nodes, dtype=torch.int32, device=DEVICE) % 4
            labels = torch.arange(40, device=DEVICE) % 3
            if recorded and number:
                assert graphs.step((x, index, spd, known), labels) is not None
                continue
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(x, index, spd, known), labels).backward()
            optimizer.step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    # Adam makes steps of full size out of gradients that are noise.
    assert off(weights[1], weights[0].double().cpu()) < 2e-3
