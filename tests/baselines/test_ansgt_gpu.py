"""ANS-GT on a GPU: batches gathered there, and steps that are recorded and replayed."""

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from dhilgt import baselines
from tests.baselines.cases import create, small_graph

CUDA = torch.device("cuda")


@pytest.mark.parametrize("changes", [{}, {"exact_nodes": 0, "candidates": 9}])
def test_logits_on_the_gpu_are_those_of_the_host(changes):
    model = create("ansgt", small_graph(), **changes).eval()
    which = torch.arange(240).view(80, 3)
    with torch.inference_mode():
        expected = model(which)
        model.to(CUDA)
        (batch,) = model.inference_batches().iterate()
        assert [part.shape for part in batch.inputs] == [(80, 3)]
        actual = model(*batch.to(CUDA).inputs).cpu()
    assert torch.allclose(actual, expected, atol=1e-3)


def fitted(cuda_graph, **changes):
    model = create("ansgt", small_graph(200), batch_size=16, period=0.3, **changes)
    config = model.train_config(epochs=8, lr=3e-3, cuda_graph=cuda_graph)
    result = baselines.fit(model, range(100), range(100, 150), config, device="cuda")
    return model, result


@pytest.mark.filterwarnings("error:steps are not recorded")
def test_recorded_steps_end_where_single_kernels_do():
    none = {"dropout": 0.0, "attention_dropout": 0.0, "input_dropout": 0.0}
    models = [fitted(way, **none) for way in ("auto", "off")]
    assert [int(model.draws) for model, _ in models] == [3, 3]
    first, second = (
        [line["train_loss"] for line in result.phases["train"].history] for _, result in models
    )
    assert first == pytest.approx(second, rel=1e-2)


@pytest.mark.filterwarnings("error:steps are not recorded")
def test_predictions_after_training_are_those_of_the_host(tmp_path):
    graph = small_graph(200)
    model, result = fitted("auto")
    nodes, actual = result.trainer.predict(model.inference_batches())
    model.save(tmp_path)
    loaded = baselines.load(tmp_path, graph).eval()
    assert len(nodes) == 200
    with torch.inference_mode():
        which = torch.arange(600).view(200, 3)
        expected = torch.softmax(loaded(which), 1).numpy()
    assert np.allclose(actual, expected, atol=1e-2)
