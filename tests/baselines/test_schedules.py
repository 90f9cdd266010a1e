"""Warm-up, decay and phases of every system are complete in a run of any length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhilgt import baselines
from dhilgt.baselines.registry import system
from tests.baselines.cases import create, small_graph

SCHEDULES = [(name, variant) for name in baselines.names() for variant in system(name).variants()]


def warm_up(config, steps):
    """Return the optimizer steps of the warm-up, for some steps in an epoch."""
    in_steps = config.warmup_steps
    return config.warmup_epochs * steps if in_steps is None else in_steps


@pytest.mark.parametrize(("name", "variant"), SCHEDULES)
@given(epochs=st.integers(1, 5000), steps=st.integers(1, 300))
def test_the_warm_up_is_a_small_part_of_a_run_of_any_length(name, variant, epochs, steps):
    own, config = (
        system(name).train_config(variant, **given) for given in ({}, {"epochs": epochs})
    )
    fraction = warm_up(own, 1) / own.epochs
    assert fraction <= 0.2
    assert warm_up(config, steps) <= 0.2 * epochs * steps + 0.5
    if epochs < own.epochs:
        assert warm_up(config, 1) == pytest.approx(fraction * epochs, abs=0.5)
    else:
        assert warm_up(config, 1) == warm_up(own, 1)


def test_the_decay_of_nagphormer_is_a_part_of_the_run_too():
    configs = [system("nagphormer").train_config(epochs=epochs) for epochs in (1, 20, 200, 9000)]
    assert [(config.warmup_steps, config.decay_steps) for config in configs] == [
        (0, 1),
        (4, 10),
        (40, 100),
        (400, 1000),
    ]


def test_a_given_warm_up_is_not_scaled():
    config = system("nagphormer").train_config(epochs=20, warmup_steps=7)
    assert (config.warmup_steps, config.decay_steps) == (7, 10)
    assert system("hsgt").train_config(epochs=5, warmup_epochs=3.0).warmup_epochs == 3


def test_patience_leaves_nagphormer_its_warm_up():
    model = create("nagphormer", small_graph(), batch_size=None)
    config = model.train_config(epochs=40, warmup_steps=12, patience=1, lr=1e-9)  # never better
    result = baselines.fit(model, range(40), range(40, 80), config, device="cpu", progress=False)
    assert result.epochs >= 13
