"""Graphormer and GRPE on a GPU: rows gathered there, and steps that are recorded and replayed."""

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from dhilgt import baselines
from tests.baselines.cases import create, lonely_graph, small_graph
from tests.baselines.test_row_models import both, trained

CUDA = torch.device("cuda")


@both
@pytest.mark.parametrize("sampler", ["full", "khop"])
def test_logits_and_gradients_on_the_gpu_are_those_of_the_host(name, sampler):
    model = trained(name, lonely_graph(), sampler=sampler).eval()
    found = []
    for device in ("cpu", CUDA):
        model.to(device).zero_grad()
        inputs = [part.to(device) for part in model._inputs(np.arange(80), (0, 0, 0))]
        logits = model.logits(*inputs)
        logits.square().sum().backward()
        gradients = [weight.grad.cpu() for weight in model.parameters()]
        found.append([logits.detach().cpu(), *gradients])
    for host, device in zip(*found, strict=True):
        assert torch.allclose(host, device, rtol=1e-2, atol=1e-2 * float(host.abs().max()))
    assert model.is_recordable() == (sampler != "full")


@both
@pytest.mark.filterwarnings("error:steps are not recorded")
def test_recorded_steps_end_where_single_kernels_do(name):
    losses = []
    for way in ("auto", "off"):
        none = {"dropout": 0.0, "attention_dropout": 0.0}
        model = create(name, small_graph(200), batch_size=16, **none)
        config = model.train_config(epochs=8, lr=3e-3, cuda_graph=way)
        result = baselines.fit(model, range(100), range(100, 150), config, device="cuda")
        losses.append([line["train_loss"] for line in result.phases["train"].history])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
