"""Settings that come with the package, and the header that says what was measured."""

import pytest
import yaml

from dhilgt import datasets
from dhilgt.errors import ConfigError
from dhilgt.settings import yaml_files
from dhilgt.settings.recipes import header, measured_rows, recipe, recipe_file, render
from dhilgt.settings.settings import Settings

PAPER = [name for name in datasets.names() if datasets.info(name).in_paper]


def test_the_papers_recipe_is_what_the_defaults_are_on_features_as_they_are():
    expected = Settings(feature_scale="none", order="degree-id")
    assert Settings.from_dict(recipe("paper")) == expected


@pytest.mark.parametrize("name", PAPER)
def test_each_dataset_of_the_paper_has_its_file(name):
    file = recipe_file("paper", name)
    assert file.read_text().startswith(f"# {name} by the paper's recipe")
    assert yaml_files.read_settings(file)["data"] == {"dataset": name}
    found = recipe("paper", name)
    assert "data" not in found
    metric = datasets.info(name).metric
    assert Settings.from_dict(found) == Settings(
        metric=metric, feature_scale="none", order="degree-id"
    )


def test_datasets_without_a_file_and_stand_ins_have_their_metric():
    assert recipe("paper", "photo")["metric"] == "accuracy"
    assert recipe("paper", "questions")["metric"] == datasets.info("questions").metric


def test_recipes_that_are_not_there_are_refused(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="choose paper or best"):
        recipe("second", "cora")
    with pytest.raises(ConfigError, match="name the dataset with --data"):
        recipe("best")
    monkeypatch.setattr("dhilgt.settings.recipes.recipe_file", lambda name, dataset: None)
    with pytest.raises(ConfigError, match=r"no best settings of 'cora'.*dhilgt tune"):
        recipe("best", "cora")


def run(seed, score):
    return {
        "seed": seed, "metric": "accuracy", "seconds": 2.0 + seed,
        "scores": {"val": {"accuracy": 0.9}, "test": {"accuracy": score}},
        "memory": {"host_peak_bytes": 3 << 30, "device_peak_bytes": seed << 20},
        "environment": {"dhilgt": "1.0", "torch": "2.0", "gpus": ["Big GPU"], "device": "cuda:0"},
    }  # fmt: skip


def test_measurements_become_the_header_of_a_recipe_that_reads_back(tmp_path):
    settings = Settings.from_dict(recipe("paper", "cora") | {"hops": 2, "lr": 3e-4, "seed": 7})
    text = render(
        "cora", settings, [run(0, 0.5), run(1, 0.7)], about="Found.", command="do it",
        searched=[("search", "9 trials")],
    )  # fmt: skip
    lines = [line for line in text.splitlines() if line.startswith("#")]
    assert lines == [
        "# Found.", "#   search: 9 trials", "#   command: do it",
        "#   val accuracy: 0.9000 ± 0.0000, seeds 0, 1",
        "#   test accuracy: 0.6000 ± 0.1414, seeds 0, 1", "#   time: 2.5 s a run",
        "#   memory: 3.22 GB of the host, 1.05 MB of the GPU",
        "#   versions: dhilgt 1.0, torch 2.0", "#   hardware: Big GPU",
    ]  # fmt: skip
    assert yaml.safe_load(text) == {
        "data": {"dataset": "cora"}, "features": {"hops": 2}, "training": {"lr": 0.0003},
    }  # fmt: skip
    file = tmp_path / "cora.yaml"
    file.write_text(text)
    values = recipe("paper", "cora") | yaml_files.read_settings(file)
    values.pop("data")
    assert Settings.from_dict(values | {"seed": 7}) == settings


def test_a_header_leaves_out_what_is_not_known_and_wraps_what_is_long():
    assert header("Nothing was measured.", [("time", "")]) == "# Nothing was measured.\n"
    assert max(map(len, header("word " * 60, [("name", "value " * 60)]).splitlines())) <= 100
    assert measured_rows([]) == []
