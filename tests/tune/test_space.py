"""What a search may choose from, as files say it."""

from pathlib import Path

import pytest

from dhilgt.errors import ConfigError
from dhilgt.settings.settings import Settings
from dhilgt.tune.space import BUILT_IN, Parameter, read_space, space_of

optuna = pytest.importorskip("optuna")


def refused(values):
    with pytest.raises(ConfigError) as error:
        space_of(values, "mine", "mine.yaml")
    return str(error.value)


def one(name, **facts):
    return {"stages": [{"name": "a", "parameters": {name: facts}}]}


BENCH_SPACES = sorted((Path(__file__).parents[2] / "docs" / "make" / "spaces").glob("*.yaml"))


@pytest.mark.parametrize("path", BENCH_SPACES, ids=lambda path: path.stem)
def test_spaces_of_the_best_recipes_give_settings_that_hold(path):
    base = Settings(optimizer="adam", num_layers=1).to_dict()
    for stage in read_space(path).stages:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
        chosen = [Settings.from_dict(stage.choose(study.ask(), base)) for _ in range(20)]
        assert len({one.lr for one in chosen}) == 20
        assert {one.optimizer for one in chosen} == {"adam"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_spaces_give_settings_that_hold(name):
    base = Settings().to_dict()
    for stage in read_space(name).stages:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
        study.enqueue_trial(stage.first(base))
        for at in range(20):
            values = stage.choose(study.ask(), base)
            settings = Settings.from_dict(values)
            assert settings.num_in is None
            if at == 0:
                own = Settings.from_dict(base | {"num_out": 16})
                assert Settings.from_dict(values | {"num_out": 16}) == own


def test_the_paper_searches_slots_and_exponents_then_training():
    tokens, training = read_space("paper").stages
    assert [(p.name, p.low) for p in tokens.parameters] == [
        ("num_out", 0), ("out_exponent", -4), ("in_exponent", -4),
    ]  # fmt: skip
    assert tokens.parameters[0].top({"size": 12}) == 11
    assert {p.name for p in training.parameters} == {"lr", "num_layers", "weight_decay"}


def test_the_other_space_adds_what_lies_beyond_the_paper():
    names = {p.name for stage in read_space("extended").stages for p in stage.parameters}
    assert names >= {
        "spill", "hops", "dropout", "input_dropout", "bias_dropout", "hidden_channels", "copies",
        "fresh", "num_virtual", "size", "num_out", "out_exponent", "in_exponent", "lr",
        "num_layers", "weight_decay", "bias_slope", "output_dropout", "weight_average",
    }  # fmt: skip


def test_a_file_is_read_and_numbers_may_be_written_as_people_do(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("stages:\n- parameters:\n    lr: {kind: log, low: 1e-4, high: 1e-2}\n")
    space = read_space(str(file))
    assert space.stages[0].parameters == (Parameter("lr", "log", (), 1e-4, 1e-2),)
    assert space_of(space.to_dict(), "mine", "again") == space_of(space.to_dict(), "mine", "x")


def test_errors_name_the_place_and_the_nearest_word(tmp_path):
    assert "did you mean 'stages'?" in refused({"stage": []})
    assert "mine.yaml, stage 1: unknown key 'parameter'; did you mean 'parameters'?" in refused(
        {"stages": [{"parameter": {}}]}
    )
    assert "'num_layer' is not a setting; did you mean 'num_layers'?" in refused(
        one("num_layer", kind="int", low=1, high=2)
    )
    assert "kind = 'logs'; did you mean 'log'?" in refused(one("lr", kind="logs"))
    assert "unknown key 'lows'; did you mean 'low'?" in refused(one("lr", kind="log", lows=1))
    assert "'seed' is not searched" in refused(one("seed", kind="int", low=0, high=9))
    assert "'metric' is not searched" in refused(one("metric", kind="categorical", choices=["a"]))
    assert "choices = None" in refused(one("spill", kind="categorical"))
    assert "mine.yaml, stage 1, readout: readout = 'last'" in refused(
        one("readout", kind="categorical", choices=["ego", "last"])
    )
    assert "is below low" in refused(one("lr", kind="float", low=0.2, high=0.1))
    assert "begins above 0" in refused(one("weight_decay", kind="log", low=0, high=0.1))
    assert "whole numbers" in refused(one("out_exponent", kind="int", low=0.5, high=2))
    assert "did you mean 'size'" in refused(one("num_out", kind="int", low=0, high="sizes - 1"))
    with pytest.raises(ConfigError, match="no space named 'papr'; did you mean 'paper'"):
        read_space("papr")
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read"):
        read_space(str(tmp_path / "none.yaml"))


def test_fixed_settings_leave_the_space_and_empty_stages_go():
    space = read_space("paper").without({"num_out", "out_exponent", "in_exponent", "lr"})
    assert [[p.name for p in stage.parameters] for stage in space.stages] == [
        ["num_layers", "weight_decay"]
    ]
    with pytest.raises(ConfigError, match="nothing is left to search"):
        space.without({"num_layers", "weight_decay"})


def test_the_first_trial_is_the_base_where_it_can_be_chosen():
    stage = read_space("paper").stages[0]
    assert stage.first(Settings().to_dict()) == {
        "num_out": 16, "out_exponent": -1, "in_exponent": -1,
    }  # fmt: skip
    assert stage.first(Settings(out_exponent=-1.5).to_dict()) is None
