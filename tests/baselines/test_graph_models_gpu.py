"""Models over a whole graph on a GPU: their steps are recorded and replayed."""

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from dhilgt import baselines
from dhilgt.baselines.base import GraphBaseline
from dhilgt.baselines.registry import system
from dhilgt.training.config import TrainConfig
from dhilgt.training.trainer import Trainer
from tests.baselines.cases import DROPOUTS, create, small_graph

SYSTEMS = [name for name in baselines.names() if issubclass(system(name), GraphBaseline)]
NORM = {"gcn": "batch", "sage": "batch", "graphgps": "batch"}


def history_of(name, way, *, drawn):
    """Losses and validation scores of a training that records its steps, or does not."""
    model = create(name, small_graph(200), **({} if name not in NORM else {"norm": NORM[name]}))
    if not drawn:
        fields = {part for part in DROPOUTS if hasattr(model.settings, part)}
        noise = {"gumbel_samples": 0} if name == "nodeformer" else {}
        model = create(
            name,
            small_graph(200),
            **{**model.settings.to_dict(), **dict.fromkeys(fields, 0.0)} | noise,
        )
    config = model.train_config(epochs=12, lr=3e-3, cuda_graph=way, patience=None)
    result = baselines.fit(model, range(100), range(100, 150), config, device="cuda")
    history = [line for phase in result.phases.values() for line in phase.history]
    return [line["train_loss"] for line in history], [line["val_score"] for line in history]


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.filterwarnings("error:steps are not recorded")
def test_recorded_steps_end_where_single_kernels_do(name):
    """Running statistics of batch normalisation too: recording itself must not move them."""
    recorded, plain = (history_of(name, way, drawn=False) for way in ("auto", "off"))
    assert recorded[0] == pytest.approx(plain[0], rel=1e-3)
    assert recorded[1] == pytest.approx(plain[1], abs=0.03)


@pytest.mark.parametrize("name", SYSTEMS)
def test_recorded_steps_draw_new_noise_each_time(name):
    losses = history_of(name, "auto", drawn=True)[0]
    assert len(set(losses)) == len(losses)


def test_blocks_of_a_graph_are_not_recorded():
    model = create("gcn", small_graph(200), batch_size=64).train()
    assert model.fixed_tables() is None
    assert model.eval().fixed_tables() is not None


def test_scores_of_the_best_weights_are_those_of_their_epoch():
    """Polynormer's may be of its first phase, whose steps are others than those of the second."""
    nodes, model = range(100, 150), create("polynormer", small_graph(200))
    config = model.train_config(epochs=12, lr=3e-3, patience=None)
    trainer = baselines.fit(model, range(100), nodes, config, device="cuda").trainer
    plain = Trainer(model, TrainConfig(cuda_graph="off"), device="cuda")
    loader = model.inference_batches(nodes)
    for phase in ("global", "local"):
        model.begin_phase(phase)
        recorded = [trainer.predict(loader)[1] for _ in range(3)][-1]
        assert recorded == pytest.approx(plain.predict(loader)[1], abs=1e-4)
