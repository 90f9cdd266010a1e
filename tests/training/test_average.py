"""A running mean of the weights: what it is of, and that training itself does not notice it."""

import contextlib

import pytest
import torch

from dhilgt.errors import ConfigError
from dhilgt.training.average import WeightAverage
from dhilgt.training.checkpoint import CheckpointFolder
from dhilgt.training.config import TrainConfig
from tests.training.cases import Scripted, loaders, same, trainer, weights


def means(snapshots, keep):
    """The slow obvious version: the mean after each epoch."""
    actual = []
    for count, now in enumerate(snapshots):
        share = min(keep, count / (count + 1))
        before = actual[-1] if actual else now
        actual.append({name: share * before[name] + (1 - share) * now[name] for name in now})
    return actual


def close(first, second):
    return first.keys() == second.keys() and all(
        torch.allclose(first[name], second[name], atol=1e-6) for name in first
    )


@pytest.fixture
def plain():
    """Weights after each epoch of a training without a mean."""
    actual = []
    one = trainer(epochs=6)
    one._after_epoch = lambda line: actual.append(weights(one.model))
    one.fit(*loaders())
    return actual


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_the_weights_kept_are_the_mean_of_the_epochs_before(plain, keep):
    scores = [0.1, 0.2, 0.9, 0.3, 0.3, 0.3]
    one = trainer(epochs=6, weight_average=keep, metric=Scripted(scores))
    assert one.fit(*loaders()).best_epoch == 3
    assert close(weights(one.model), means(plain, keep)[2])
    assert not close(weights(one.model), plain[2])


def test_training_goes_on_from_its_own_weights(plain):
    seen = []
    one = trainer(epochs=6, weight_average=0.9)
    one._after_epoch = lambda line: seen.append(weights(one.model))
    one.fit(*loaders())
    assert all(same(mine, theirs) for mine, theirs in zip(seen, plain, strict=True))


def test_without_validation_the_last_mean_is_kept(plain):
    one = trainer(epochs=6, weight_average=0.5)
    one.fit(loaders()[0])
    assert close(weights(one.model), means(plain, 0.5)[-1])


def test_epochs_that_are_not_scored_count_too(plain):
    one = trainer(epochs=6, eval_every=3, weight_average=0.9)
    assert one.fit(*loaders()).best_epoch in (3, 6)
    expected = means(plain, 0.9)
    assert any(close(weights(one.model), expected[epoch - 1]) for epoch in (3, 6))


def test_an_error_inside_leaves_the_model_its_own_weights():
    model = torch.nn.Linear(2, 2)
    average = WeightAverage(model, 0.5)
    with average.with_epoch():
        average.commit()
    torch.nn.init.ones_(model.weight)
    with contextlib.suppress(RuntimeError), average.with_epoch():
        assert not torch.equal(model.weight, torch.ones(2, 2))
        raise RuntimeError
    assert torch.equal(model.weight, torch.ones(2, 2))
    assert average.epochs == 1


@pytest.mark.parametrize("share", [1, -0.1, 2, "0.5"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ConfigError, match="weight_average"):
        TrainConfig(weight_average=share)


def test_a_run_from_before_the_setting_is_not_averaged_from_its_middle_on(tmp_path):
    trainer(tmp_path, epochs=2, decay="none").fit(*loaders())
    folder = CheckpointFolder(tmp_path / "checkpoints")
    saved = folder.load()
    del saved.values["config"]["weight_average"]
    folder.save(2, 0, saved)
    with pytest.raises(ConfigError, match=r"weight_average = 0.8, but the run .* = 0.0"):
        trainer(tmp_path, epochs=4, decay="none", resume=True, weight_average=0.8).fit(*loaders())
    assert trainer(tmp_path, epochs=4, decay="none", resume=True).fit(*loaders()).epochs == 4
