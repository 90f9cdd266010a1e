"""Message passing on a GPU: the values of the CPU, recorded steps, the same bits for a seed."""

import contextlib

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import dhilgt
from dhilgt.features.adjacency import adjacency
from dhilgt.loader.loader import TokenLoader
from dhilgt.model.kernels.cuda_graphs import ForwardGraphs, StepGraphs
from dhilgt.tokens.single import SingleRows
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer
from tests.model.cases import gradients, model_of

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
CUDA = torch.device("cuda")
SETTINGS = {
    "in_channels": 16, "hidden_channels": 64, "heads": 8, "out_channels": 4, "num_layers": 0,
    "message_layers": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    return dhilgt.generate(3000, 10, seed=2, num_features=16, num_classes=4)


def batches(graph, device, sparse=False, batch_size=500):
    import scipy.sparse

    features = scipy.sparse.csr_array(np.maximum(graph.features, 0)) if sparse else graph.features
    loader = TokenLoader(
        SingleRows(graph), features, graph.labels, batch_size=batch_size, device=device,
        adjacency=adjacency(graph),
    )  # fmt: skip
    return list(loader)


@pytest.mark.parametrize("sparse", [False, True])
def test_values_and_gradients_are_those_of_the_cpu(graph, sparse):
    model = model_of(**SETTINGS)
    found = {}
    for device in ("cpu", "cuda"):
        inputs = batches(graph, device, sparse)[1].inputs
        found[device] = gradients(model.to(device), inputs)
    for name, expected in found["cpu"].items():
        apart = (found["cuda"][name].cpu() - expected).norm() / expected.norm().clamp_min(1e-6)
        assert apart < 1e-3, name


@pytest.mark.parametrize("sparse", [False, True])
def test_a_recorded_step_is_the_step_itself(graph, sparse):
    weights = []
    for recorded in (False, True):
        model = model_of(**SETTINGS, train=True, input_dropout=0.0, dropout=0.0).to(CUDA)
        optimizer = build_optimizer(model, TrainConfig(lr=1e-3))
        graphs = StepGraphs(model, optimizer, None, contextlib.nullcontext)
        for number, batch in enumerate(batches(graph, CUDA, sparse)):
            if recorded and number:
                assert graphs.step(batch.inputs, batch.labels) is not None
                continue
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(*batch.inputs), batch.labels).backward()
            optimizer.step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert (weights[1] - weights[0]).norm() / weights[0].norm() < 2e-3


def test_recorded_logits_are_the_models_own_before_and_after_statistics_are_held(graph):
    model = model_of(**SETTINGS).to(CUDA)
    forward = ForwardGraphs(model, contextlib.nullcontext)
    for number, batch in enumerate(batches(graph, CUDA)[:4]):
        if number == 3:
            x, *_, edges = batch.inputs
            model.hold_statistics(x * 2, edges)
        with torch.inference_mode():
            expected = model(*batch.inputs)
        torch.testing.assert_close(forward(*batch.inputs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cuda_graph", ["auto", "off"])
def test_a_seed_gives_the_same_bits(graph, cuda_graph):
    def probabilities():
        clf = dhilgt.NodeClassifier(
            recipe="paper", device="cuda", num_layers=0, message_layers=3, class_inputs=True,
            epochs=6, lr=0.01, cuda_graph=cuda_graph, cache=False, progress=False,
        )  # fmt: skip
        return clf.fit(graph).predict_proba()

    assert np.array_equal(probabilities(), probabilities())
