"""All stages together: graph, labels, tokens, loader, model, trainer."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import dhilgt

EXAMPLE = Path(__file__).parents[2] / "examples" / "train.py"


@pytest.fixture(scope="module")
def graph():
    return dhilgt.generate(400, 8, num_features=16, feature_noise=0.5, seed=3)


@pytest.fixture(scope="module")
def sampler(graph):
    labels = dhilgt.HubLabels.build(graph, progress=False)
    return dhilgt.TokenSampler(labels, size=8, progress=False)


def parts(graph):
    return np.split(np.random.default_rng(0).permutation(graph.num_nodes), [240, 320])


def loaders(graph, source, **settings):
    return [
        dhilgt.TokenLoader(
            source,
            graph.features,
            graph.labels,
            nodes=nodes,
            batch_size=64,
            shuffle=True,
            **settings,
        )
        for nodes in parts(graph)
    ]


def small_model(graph, **settings):
    torch.manual_seed(0)
    return dhilgt.DHILGT(
        graph.features.shape[1],
        16,
        graph.num_classes,
        num_layers=1,
        heads=2,
        dropout=0.1,
        **settings,
    )


def trained(graph, source, folder=None, epochs=12, **settings):
    train, val, test = loaders(graph, source, **settings)
    config = dhilgt.TrainConfig(epochs=epochs, lr=0.01, warmup_epochs=1)
    trainer = dhilgt.Trainer(small_model(graph), config, folder, device="cpu", progress=False)
    result = trainer.fit(train, val)
    return result, trainer.evaluate(test), trainer


def test_it_learns_what_features_alone_do_not_tell(graph, sampler):
    result, scores, _ = trained(graph, sampler)
    majority = np.bincount(graph.labels).max() / graph.num_nodes
    assert scores["accuracy"] > majority + 0.3
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


def test_stored_and_sampled_tokens_train_the_same(graph, sampler, tmp_path):
    labels = dhilgt.HubLabels.build(graph, progress=False)
    stored = dhilgt.Tokens.build(labels, size=8, path=tmp_path / "tokens", progress=False)
    sampled, _, _ = trained(graph, sampler, epochs=2)
    kept, _, _ = trained(graph, stored, epochs=2)
    assert [line["train_loss"] for line in kept.history] == [
        line["train_loss"] for line in sampled.history
    ]


def test_fresh_tokens_change_every_epoch_and_still_learn(graph, sampler):
    train, _, _ = loaders(graph, sampler, fresh=True)
    train.set_epoch(0)
    first = next(iter(train)).inputs[1]
    train.set_epoch(1)
    assert not torch.equal(first, next(iter(train)).inputs[1])
    _, scores, _ = trained(graph, sampler, fresh=True)
    assert scores["accuracy"] > 0.5


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(graph, sampler, tmp_path):
    whole, _, at_once = trained(graph, sampler, tmp_path / "whole", epochs=6)
    train, val, _ = loaders(graph, sampler)
    config = dhilgt.TrainConfig(epochs=6, lr=0.01, warmup_epochs=1)
    steps = 0

    class Interrupting(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.inner = model

        def no_weight_decay(self):
            return {f"inner.{name}" for name in self.inner.no_weight_decay()}

        def forward(self, *inputs):
            nonlocal steps
            steps += self.training
            if steps == 11:  # in the middle of the third epoch
                os.kill(os.getpid(), signal.SIGTERM)
            return self.inner(*inputs)

    folder = tmp_path / "parts"
    first = dhilgt.Trainer(Interrupting(small_model(graph)), config, folder, "cpu", progress=False)
    with pytest.raises(dhilgt.TrainingInterrupted, match="resume"):
        first.fit(train, val)
    second = dhilgt.Trainer(
        Interrupting(small_model(graph)), config, folder, "cpu", resume=True, progress=False
    )
    train, val, _ = loaders(graph, sampler)
    resumed = second.fit(train, val)
    assert resumed.history == whole.history
    for (name, mine), other in zip(
        second.model.inner.state_dict().items(), at_once.model.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, other), name


def test_probabilities_are_those_of_the_saved_model(graph, sampler, tmp_path):
    _, _, trainer = trained(graph, sampler, epochs=2)
    trainer.model.save_pretrained(tmp_path / "model")
    again = dhilgt.Trainer(
        dhilgt.DHILGT.from_pretrained(tmp_path / "model"), device="cpu", progress=False
    )
    _, _, test = loaders(graph, sampler)
    nodes, shares = trainer.predict(test)
    nodes_again, shares_again = again.predict(test)
    assert np.array_equal(nodes, nodes_again)
    assert np.array_equal(shares, shares_again)
    assert np.allclose(shares.sum(1), 1, atol=1e-5)


@pytest.mark.full
def test_the_example_killed_anywhere_ends_the_same(tmp_path):
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
    subprocess.run([sys.executable, EXAMPLE], cwd=folders[0], check=True)
    scores = folders[1] / "example-run" / "metrics.jsonl"
    for lines in (2, 5):
        process = subprocess.Popen([sys.executable, EXAMPLE], cwd=folders[1])
        deadline = time.monotonic() + 240
        while not scores.exists() or len(scores.read_text().splitlines()) < lines:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.wait()
    subprocess.run([sys.executable, EXAMPLE], cwd=folders[1], check=True)
    kept = [(folder / "example-run" / "metrics.jsonl").read_text() for folder in folders]
    assert [json.loads(line) for line in kept[0].splitlines()]
    assert kept[0] == kept[1]
    best = [(folder / "example-run" / "best.safetensors").read_bytes() for folder in folders]
    assert best[0] == best[1]
