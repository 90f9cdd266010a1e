"""Settings: defaults, round trip, and every kind of slip refused with the value named."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from dhilgt.errors import ConfigError, MemoryLimitError
from dhilgt.training.batch_size import find_batch_size
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer, rate_factor
from dhilgt.utils.devices import choose_device


def test_defaults_are_the_recipe_of_the_paper():
    config = TrainConfig()
    assert (config.epochs, config.lr, config.weight_decay, config.patience) == (500, 1e-4, 0.01, 50)


def test_goes_through_json_and_back():
    config = TrainConfig(epochs=3, clip_norm=1, patience=None, precision="bf16", seed=np.int64(4))
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert type(config.seed) is int
    assert type(config.clip_norm) is float


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, ["epochs", "0", "from 1"]),
        ({"epochs": 2.5}, ["epochs", "2.5"]),
        ({"epochs": True}, ["epochs", "True"]),
        ({"epochs": "10"}, ["epochs", "'10'"]),
        ({"lr": 0}, ["lr", "above 0"]),
        ({"lr": float("nan")}, ["lr", "nan"]),
        ({"lr": "fast"}, ["lr", "'fast'"]),
        ({"lr": None}, ["lr", "None"]),
        ({"weight_decay": -1}, ["weight_decay", "-1"]),
        ({"warmup_epochs": float("inf")}, ["warmup_epochs", "inf"]),
        ({"clip_norm": 0.0}, ["clip_norm", "or None"]),
        ({"patience": 0}, ["patience", "or None"]),
        ({"decay": "cubic"}, ["decay", "'cubic'", '"linear", "cosine", "none"']),
        ({"precision": "fp16"}, ["precision", "'fp16'"]),
        ({"deterministic": 1}, ["deterministic", "True or False"]),
        ({"metric": ""}, ["metric"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"checkpoint_every": 0}, ["checkpoint_every"]),
        ({"max_batches": 0}, ["max_batches"]),
        ({"max_seconds": 0}, ["max_seconds"]),
    ],
)
def test_refuses(changes, words):
    with pytest.raises(ConfigError) as caught:
        TrainConfig.from_dict(changes)
    assert all(word in str(caught.value) for word in words)


def test_unknown_key_names_the_nearest():
    with pytest.raises(ConfigError, match=r"'epoch' is not.*did you mean 'epochs'"):
        TrainConfig.from_dict({"epoch": 3})
    with pytest.raises(ConfigError, match="known: epochs, lr"):
        TrainConfig.from_dict({"zzzzzz": 3})


# ---- learning rate and optimizer ---------------------------------------------------------------


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_rate_climbs_and_falls(decay):
    factors = [rate_factor(step, 100, 10, decay) for step in range(100)]
    assert factors[0] == 0.1
    assert max(factors) == factors[9] == factors[10] == 1.0
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert 0 < factors[-1] < 0.02
    assert [rate_factor(step, 9, 0, "none") for step in range(9)] == [1.0] * 9
    assert all(0 <= rate_factor(step, 4, 10, decay) <= 1 for step in range(12))


def test_a_cosine_falls_slowly_at_both_ends_and_is_half_in_the_middle():
    factors = [rate_factor(step, 110, 10, "cosine") for step in range(10, 111)]
    expected = [(1 + math.cos(math.pi * step / 100)) / 2 for step in range(101)]
    assert factors == pytest.approx(expected)


def test_no_decay_on_offsets_scales_and_tables():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(3, 3), nn.LayerNorm(3)
            self.table = nn.Embedding(5, 2)
            self.bias_table = nn.Parameter(torch.zeros(5, 2))

        def no_weight_decay(self):
            return {"bias_table"}

    model = Model()
    decayed, plain = build_optimizer(model, TrainConfig()).param_groups
    assert [id(p) for p in decayed["params"]] == [id(model.linear.weight)]
    assert len(plain["params"]) == 5
    assert plain["weight_decay"] == 0.0


# ---- device and batch size ---------------------------------------------------------------------


def test_device_that_is_not_here():
    for name in ("cuda:99", "gpu", "xpu"):
        with pytest.raises(ConfigError, match="is not available; use cpu"):
            choose_device(name)
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda")


@pytest.fixture
def _without_collecting(monkeypatch):
    """Skip the collection of garbage between tries: these steps leave none, and it takes long."""
    monkeypatch.setattr("dhilgt.training.batch_size.free_gpu", lambda: None)


@pytest.mark.usefixtures("_without_collecting")
@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
@pytest.mark.parametrize("room", [1, 7, 63, 64, 100, 999, 4096])
def test_batch_size_fits_with_a_margin(room, error):
    tried = []

    def step(size):
        tried.append(size)
        if size > room:
            raise error("no room")

    actual = find_batch_size(step, start=64, limit=100_000)
    assert actual <= max(1, room * 0.9) or room == 1
    assert actual >= room * 0.75 - 2
    assert len(tried) < 25


@pytest.mark.usefixtures("_without_collecting")
def test_batch_size_at_its_ends():
    assert find_batch_size(lambda size: None, start=64, limit=1000) == 1000
    assert find_batch_size(lambda size: None, start=64, limit=10) == 10

    def never(size):
        raise MemoryError

    with pytest.raises(MemoryLimitError, match="batch of 1"):
        find_batch_size(never)
    with pytest.raises(ConfigError, match="start = 0"):
        find_batch_size(never, start=0)

    def broken(size):
        raise RuntimeError("another trouble")

    with pytest.raises(RuntimeError, match="another trouble"):
        find_batch_size(broken)
