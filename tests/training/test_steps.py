"""The trainer runs a model by its step runner, and knows nothing of its kernels."""

import contextlib

import pytest
import torch

from dhilgt.loader.batch import TokenBatch
from dhilgt.model.steps import TokenStepRunner
from dhilgt.training.scoring import run_model
from dhilgt.training.steps import EagerSteps, choose_steps
from dhilgt.training.trainer import Trainer
from tests.model.cases import batch_of, model_of
from tests.training.cases import Accuracy, Loader, same, settings, toy_model, weights

CPU = torch.device("cpu")


class OwnRunner:
    """Takes whole steps, as a recorded model does, and counts what it is asked for."""

    def __init__(self, call, context):
        self.call, self.context = call, context
        self.whole, self.forward, self.released = 0, 0, 0

    def logits(self, batch):
        self.forward += 1
        with self.context():
            return self.call(*batch.inputs)

    def whole_step(self, batch, optimizer, clip_norm):
        self.whole += 1
        with self.context():
            logits = self.call(*batch.inputs)
        loss = torch.nn.functional.cross_entropy(logits, batch.labels)
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.call.parameters(), clip_norm)
        optimizer.step()
        return loss.detach()

    def release(self):
        self.released += 1


class OffersARunner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.runners, self.records = toy_model(), [], []

    def forward(self, x):
        return self.inner(x)

    def step_runner(self, call, context, record):
        self.records.append(record)
        self.runners.append(OwnRunner(call, context))
        return self.runners[-1]


def fit(model, **changes):
    trainer = Trainer(model, settings(**changes), device="cpu", metric=Accuracy(), progress=False)
    return trainer.fit(Loader(range(40), shuffle=True), Loader(range(40, 60)))


@pytest.mark.parametrize("changes", [{}, {"clip_norm": 0.1}, {"cuda_graph": "off"}], ids=str)
def test_a_model_with_a_runner_is_run_by_it_and_learns_the_same(changes):
    plain, offering = toy_model(), OffersARunner()
    expected, result = fit(plain, epochs=3, **changes), fit(offering, epochs=3, **changes)
    assert same(weights(offering.inner), weights(plain))
    assert result.history == expected.history
    scoring, training = offering.runners
    # The first of three epochs looks at the labels: its five steps are not taken whole.
    assert (training.forward, training.whole) == (5, 10)
    assert (scoring.forward, scoring.whole) == (3 * 3, 0)
    assert offering.records == [changes.get("cuda_graph") != "off"] * 2


def test_any_other_model_is_called_batch_by_batch():
    runner = choose_steps(toy_model(), CPU, "fp32")
    assert isinstance(runner, EagerSteps)
    batch = next(Loader(range(8)).iterate())
    assert runner.whole_step(batch, None, None) is None
    assert runner.logits(batch).shape == (8, 3)


def test_precision_reaches_the_forward_pass():
    model, batch = toy_model(), next(Loader(range(8)).iterate())
    assert choose_steps(model, CPU, "bf16").logits(batch).dtype == torch.bfloat16
    assert choose_steps(model, CPU, "fp32").logits(batch).dtype == torch.float32


class Spy(torch.nn.Module):
    """Notes the room it is called with."""

    def __init__(self, model):
        super().__init__()
        self.model, self.rooms = model, []

    def forward(self, *inputs, room):
        self.rooms.append(room)
        return self.model(*inputs, room=room)


def test_the_model_is_told_how_many_slots_of_a_batch_are_filled():
    model, inputs = model_of(num_virtual=2), batch_of(4, 6, padding=0.5)
    spy = Spy(model)
    runner = model.step_runner(spy, contextlib.nullcontext, record=True)
    assert isinstance(runner, TokenStepRunner)
    nodes = torch.arange(4)
    for filled, rows in ((None, None), (9, 9 + 2 * 4), (24, None)):
        batch = TokenBatch(inputs, nodes % 3, nodes, filled)
        torch.testing.assert_close(runner.logits(batch), model(*inputs))
        room = spy.rooms.pop()
        assert (room is None) == (filled is None)
        assert room is None or room.rows == rows
        # Without a GPU nothing is recorded.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert runner.whole_step(batch, optimizer, None) is None


def test_inference_of_a_loader_takes_the_runner_it_is_given():
    model, loader = toy_model().eval(), Loader(range(20))
    own = OwnRunner(model, contextlib.nullcontext)
    outputs = run_model(model, loader, CPU, runner=own)
    assert own.forward == len(loader)
    assert (outputs.logits == run_model(model, loader, CPU).logits).all()


def test_a_paused_training_frees_what_it_recorded_and_goes_on_as_if_it_had_not():
    whole, paused = OffersARunner(), OffersARunner()
    paused.load_state_dict(whole.state_dict())
    fit(whole, epochs=4)
    trainer = Trainer(paused, settings(epochs=4), device="cpu", metric=Accuracy(), progress=False)
    loaders = Loader(range(40), shuffle=True), Loader(range(40, 60))
    trainer.release()  # before anything was recorded
    for until in (1, 2, 4):
        trainer.advance(*loaders, until=until)
        trainer.release()
    trainer.end(*loaders)
    assert same(weights(paused), weights(whole))
    assert [runner.released for runner in paused.runners] == [4, 3]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="steps are recorded on a GPU")
def test_recorded_graphs_are_freed_and_recorded_again():
    import numpy as np

    import dhilgt
    from dhilgt.classifier.classifier import new_model
    from dhilgt.classifier.pipeline import Pipeline
    from dhilgt.settings.settings import Settings

    graph = dhilgt.generate(400, 6, seed=1, num_features=16)
    chosen = Settings(size=8, hidden_channels=32, num_layers=2, device="cuda", epochs=6)
    pipeline = Pipeline(graph, chosen, cache=None, progress=False)
    device = torch.device("cuda")
    loaders = [
        pipeline.loader(nodes, graph.labels, device=device, batch_size=256, training=training)
        for nodes, training in ((np.arange(240), True), (np.arange(240, 400), False))
    ]
    found = []
    for releases in (False, True):
        model = new_model(pipeline, 5, 0).to(device)
        trainer = Trainer(model, chosen.train_config(), device="cuda", progress=False)
        for until in (3, 6):
            trainer.advance(*loaders, until=until)
            held = torch.cuda.memory_allocated()
            if releases:
                trainer.release()
                assert torch.cuda.memory_allocated() < held
        trainer.end(*loaders)
        found.append(weights(model))
    assert same(*found)
