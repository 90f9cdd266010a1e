"""What a command line asks for: the recipe, the settings that hold, the file that repeats it."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
import yaml

from dhilgt.cli.request import Request, requested
from dhilgt.errors import ConfigError
from dhilgt.settings import Settings, recipe
from dhilgt.settings.yaml_files import read_settings, settings_text
from tests.cli.cases import Files, fails, ok
from tests.report.cases import record

torch.set_num_threads(1)


def asked(config=None, flags=None, sources=None, **options):
    return requested(config, flags or {}, sources or {}, **options)[0]


@pytest.fixture
def write(tmp_path):
    def written(text):
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        return file

    return written


# ---- what is asked for -------------------------------------------------------------------------


def test_without_a_word_a_few_models_are_tried():
    assert asked() == Request("auto", {}, None)


def test_only_what_was_given_holds(write):
    config = write("epochs: 20\nmodel:\n  heads: 4\n")
    assert asked(config, {"lr": 0.01}).given == {"epochs": 20, "heads": 4, "lr": 0.01}
    assert asked(config, {"epochs": 5}).given == {"epochs": 5, "heads": 4}


def test_what_was_given_is_checked_alone_as_the_candidates_differ(write):
    assert asked(flags={"num_out": 40}).given == {"num_out": 40}  # too many for 32 slots
    with pytest.raises(ConfigError, match="size = 0"):
        asked(flags={"size": 0})
    with pytest.raises(ValueError, match=r"metric .guess. is not known"):
        asked(flags={"metric": "guess"})


def test_the_metric_of_a_public_dataset_holds():
    assert asked(sources={"dataset": "tolokers"}) == Request("auto", {"metric": "roc_auc"})


def test_the_paper_s_recipe_has_all_settings():
    assert asked(recipe="paper") == Request("paper", Settings(order="degree-id").to_dict())
    assert asked(recipe="paper", flags={"order": "degree"}).settings == Settings()
    of_cora = Settings.from_dict(recipe("paper", "cora"))
    assert asked(recipe="paper", sources={"dataset": "cora"}).settings == of_cora


def test_the_best_settings_of_a_dataset_are_fixed_ones():
    best = asked(recipe="best", sources={"dataset": "chameleon"})
    assert best.recipe == "paper"
    assert best.settings == Settings.from_dict(recipe("best", "chameleon"))


def test_a_file_names_its_recipe_and_an_option_overrides_it(write):
    config = write("recipe: paper\nlr: 0.5\n")
    assert asked(config) == Request("paper", Settings(order="degree-id", lr=0.5).to_dict())
    assert asked(config, recipe="auto") == Request("auto", {"lr": 0.5})


def test_a_file_of_an_earlier_run_has_all_settings_and_is_repeated_as_it_was(write):
    old = Settings(lr=0.5).to_dict()
    del old["hub_inputs"], old["neighbor_inputs"]  # it was written before these existed
    assert asked(write(settings_text(old))) == Request("paper", Settings(lr=0.5).to_dict())


def test_a_budget_is_for_a_search(write):
    assert asked(budget=60.0).budget == 60
    assert asked(write("budget: 30\n")).budget == 30
    assert asked(write("budget: 30\n"), budget=9.0).budget == 9
    assert asked(write("recipe: auto\nbudget: none\n")).budget is None
    assert asked(write("budget: 30\n"), recipe="paper").budget is None
    assert "--max-seconds" in fails(
        "train", "--recipe", "paper", "--budget", 5, "-o", "x", code=2
    ).replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("recipe: worst\n", "line 1: there is no recipe 'worst'; choose 'auto' or"),
        ("lr: 0.1\nbudget: soon\n", "line 2: budget is 'soon'; write seconds"),
        ("budget: -3\n", "budget is -3"),
        ("recipes: auto\n", "did you mean 'recipe'"),
    ],
)
def test_slips_in_a_file_are_named_with_their_line(write, text, words):
    with pytest.raises(ConfigError) as caught:
        asked(write(text))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "request_",
    [
        Request("auto", {}, None),
        Request("auto", {"lr": 0.25, "patience": None, "seed": 4}, 60.0),
        Request("paper", Settings(lr=0.25).to_dict()),
    ],
)
def test_the_file_of_a_request_asks_for_the_same(write, request_):
    config = write(request_.text({"edges": "e.csv"}))
    assert asked(config) == request_
    assert read_settings(config)["data"] == {"edges": "e.csv"}


def test_a_run_fits_if_recipe_and_given_settings_do():
    def trained(search, **settings):
        settings = Settings(**settings)
        found = SimpleNamespace(to_dict=record) if search else None
        return SimpleNamespace(search_=found, settings_=settings)

    assert Request("auto", {"lr": 0.5}).fits(trained(True, lr=0.5, hops=2))
    assert not Request("auto", {"lr": 0.5}).fits(trained(True, lr=0.1))
    assert not Request("auto", {"lr": 0.5}).fits(trained(False, lr=0.5))
    assert Request("paper", Settings(hops=2).to_dict()).fits(trained(False, hops=2))
    assert not Request("paper", Settings().to_dict()).fits(trained(False, hops=2))


# ---- a run's folder ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("recipe")
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        ok(*(files := Files(folder)).train(split=files.split))
    return folder / "run"


@pytest.fixture
def searched(trained, tmp_path):
    """The folder of a run, with the record of a search in it."""
    shutil.copytree(trained, tmp_path / "searched")
    (tmp_path / "searched" / "search.json").write_text(json.dumps(record()))
    values = yaml.safe_load((trained / "config.yaml").read_text())
    text = Request("auto", {"lr": 0.02}).text(values["data"])
    (tmp_path / "searched" / "config.yaml").write_text(text)
    return tmp_path / "searched"


def test_inspect_shows_what_was_tried(searched):
    shown = " ".join(ok("inspect", searched).stdout.split())
    for words in (
        "recipe auto: several kinds of models tried, the best kept",
        "chosen Chosen: neighbours, accuracy 0.900",
        "tried 4 candidates, 2 seeds each, 32 s in all",
        "plain MLP majority class",
        "candidate 30 epochs 90 epochs 270 epochs time outcome",
        "token row 0.5000 ± 0.1414 - - 2 s dropped after 30 epochs",
        "failed: out of memory",
    ):
        assert words in shown
    facts = json.loads(ok("inspect", searched, "--json").stdout)
    assert (facts["recipe"], facts["search"]) == ("auto", record())


def test_a_run_with_fixed_settings_has_nothing_that_was_tried(trained):
    shown = ok("inspect", trained).stdout
    assert "paper: fixed settings" in shown
    assert "candidate" not in shown


def test_a_search_that_was_cut_off_goes_on_with_its_recipe(searched):
    for name in ("bundle.json", "result.json", "metrics.jsonl"):
        (searched / name).unlink()
    shutil.rmtree(searched / "checkpoints")
    (searched / "search.json").write_text(json.dumps(record(chosen=[], num_epochs=120)))
    shown = ok("inspect", searched).stdout
    assert "cut off in its search, after 120 epochs in all" in shown
    assert f"next: dhilgt train --resume -o {searched}" in shown


def test_a_damaged_record_is_a_problem_of_the_run(searched):
    (searched / "search.json").write_text("{}")
    facts = json.loads(ok("inspect", searched, "--json").stdout)
    assert facts["state"] == "damaged"
    assert "search.json is not the record of a search" in facts["problems"][0]
