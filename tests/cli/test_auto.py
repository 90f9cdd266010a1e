"""`dhilgt train` with its default: several models are tried, and every command knows of it."""

import json
import shutil
import signal
import subprocess
import time

import pytest
import torch
import yaml

import dhilgt
from dhilgt.settings import read_settings
from tests.cli.cases import Files, fails, ok, shell_command

torch.set_num_threads(1)
TINY = ("--hidden-channels", 8, "--heads", 2, "--epochs", 2, "--lr", 0.02)


def arguments(files, output):
    return ["train", "--edges", files.edges, "--features", files.features, "--labels",
            files.labels, "--split", files.split, "-o", output, *TINY]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of a graph, the folder of a run on them, and what the run printed."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("auto")
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        files = Files(folder)
        said = ok(*arguments(files, folder / "run")).stdout
        yield files, folder / "run", said


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made[1], tmp_path / "run")
    return tmp_path / "run"


def test_the_screen_says_what_was_chosen_and_what_the_graph_is_worth(made):
    _, folder, said = made
    record = json.loads((folder / "search.json").read_text())
    assert "plain MLP  majority class" in said.splitlines()[0]
    assert f"{record['references']['mlp']['test']:.4f}" in said
    assert record["sentence"].split(". ")[0] in " ".join(said.split())
    assert f"tried    {len(record['candidates'])} candidates" in said
    assert "on the test nodes is" in said


def test_the_files_of_a_run_ask_for_the_search_and_for_its_winner(made):
    _, folder, _ = made
    asked = yaml.safe_load((folder / "config.yaml").read_text())
    assert asked["recipe"] == "auto"
    assert asked["model"] == {"hidden_channels": 8, "heads": 2}
    assert asked["training"] == {"epochs": 2, "lr": 0.02}
    chosen = read_settings(folder / "chosen.yaml")
    assert chosen.pop("recipe") == "paper"
    del chosen["data"]
    assert chosen == dhilgt.NodeClassifier.load(folder).settings_.to_dict()


def test_the_winner_is_trained_again_without_a_search(run, tmp_path):
    facts = json.loads(
        ok("train", "--config", run / "chosen.yaml", "-o", tmp_path / "one", "--json").stdout
    )
    assert (facts["recipe"], facts["search"]) == ("paper", None)
    assert not (tmp_path / "one" / "search.json").exists()
    searched = dhilgt.NodeClassifier.load(run)
    assert facts["config"] == searched.settings_.to_dict()
    # The comparison of both runs says how their settings came about.
    names = " + ".join(dict.fromkeys(one["name"] for one in searched.search_.chosen))
    found = json.loads(ok("inspect", tmp_path / "one", run, "--json").stdout)
    assert found["choice"] == {
        "recipe": ["paper", "auto"],
        "chosen": [None, names],
        "tried": [None, len(searched.search_.candidates)],
    }
    shown = ok("inspect", tmp_path / "one", run).stdout
    assert "settings: the same" in shown
    assert f"chosen  none   {names[:16]}" in shown  # long lists are folded
    assert "choice" not in ok("inspect", run, run).stdout


def test_a_run_that_has_ended_is_only_read(run):
    seal = run / "bundle.json"
    before = seal.stat()
    facts = json.loads(ok("train", "--resume", "-o", run, "--json").stdout)
    assert facts["recipe"] == "auto"
    assert facts["search"]["chosen"]
    assert (seal.stat().st_ino, seal.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_search_goes_on_only_with_what_it_began_with(made, run):
    assert "--lr 0.5, but the search in this folder began with --lr 0.02" in fails(
        "train", "--resume", "-o", run, "--lr", 0.5
    )
    assert "recipe" in fails("train", "--resume", "-o", run, "--recipe", "paper")


def test_a_lost_report_is_made_again_with_what_was_tried(run):
    (run / "report.html").unlink()
    (run / "report.json").unlink()
    ok("report", run)
    page = (run / "report.html").read_text()
    assert "What was tried" in page
    assert "Plain MLP, features alone" in page


def test_inspect_and_explain_know_of_the_search(run):
    sentence = json.loads((run / "search.json").read_text())["sentence"]
    shown = ok("inspect", run, "--verify").stdout
    assert "features alone" in shown
    assert "recipe    auto" in shown
    assert ok("explain", run, "n07").stdout.endswith(f"the model: {sentence}\n")
    assert json.loads(ok("explain", run, "n07", "--json").stdout)["chosen"] == sentence


def test_a_dry_run_predicts_the_search_candidate_by_candidate(made, tmp_path):
    files, folder, _ = made
    record = json.loads((folder / "search.json").read_text())
    names = [one["name"] for one in record["candidates"]]
    plan = json.loads(ok(*arguments(files, tmp_path / "x"), "--dry-run", "--json").stdout)
    assert [one["name"] for one in plan["candidates"]] == names
    assert (plan["rungs"], plan["seeds"]) == (record["rungs"], record["seeds"])
    assert [one["name"] for one in plan["stages"]] == ["labels", "tokens", "search", "prediction"]
    shown = ok(*arguments(files, tmp_path / "x"), "--dry-run", "--budget", 7).stdout
    assert f"{len(names)} candidates with {record['seeds']} seeds each" in shown
    assert [line for line in shown.splitlines() if line.startswith("features alone")]
    assert not (tmp_path / "x").exists()


@pytest.mark.full
def test_a_search_that_was_interrupted_goes_on_and_ends_as_a_whole_one(made, tmp_path):
    files, whole, _ = made
    folder = tmp_path / "cut"
    arguments_ = [*arguments(files, folder), "--no-report"]
    process = subprocess.Popen(
        shell_command(*arguments_), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (folder / "search.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert said.strip().endswith(f"go on with: dhilgt train --resume -o {folder}")
    assert "cut off in its search" in ok("inspect", folder).stdout
    ok("train", "--resume", "-o", folder, "--no-report", "--quiet")
    then, now = (dhilgt.NodeClassifier.load(one) for one in (whole, folder))
    assert now.scores_["test"] == pytest.approx(then.scores_["test"])
    assert now.search_.chosen == then.search_.chosen
