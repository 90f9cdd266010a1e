"""`dhilgt tune`, and `dhilgt train` on public datasets and several seeds at once."""

import json
import signal
import subprocess
import time

import pytest
import torch

from dhilgt.settings import yaml_files
from dhilgt.settings.settings import Settings
from tests.cli.cases import SMALL, Files, fails, ok, shell_command

pytest.importorskip("optuna")
torch.set_num_threads(1)
FIX = [
    part
    for name, value in (
        ("size", 6), ("hidden_channels", 8), ("heads", 2), ("epochs", 2), ("warmup_epochs", 0),
    )
    for part in ("--set", f"{name}={value}")
]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def tune(files, *more, output="search"):
    flags = ["--edges", files.edges, "--features", files.features, "--labels", files.labels]
    out = ["-o", files.folder / output, "--seeds", "0-1"]
    return ["tune", *flags, "--split", files.split, *out, *FIX, *more]


@pytest.mark.full
def test_files_become_the_best_settings_and_the_command_that_uses_them(files, tmp_path):
    result = ok(*tune(files, "--trials", 4))
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["stage", "trial", "val", "accuracy", "chosen", "time"]
    assert len([line for line in lines if line.startswith(("tokens", "training"))]) == 4
    best = tmp_path / "search" / "best.yaml"
    assert lines[-1].startswith(f"next: dhilgt train --config {best} -o ")
    values = yaml_files.read_settings(best)
    assert values["data"]["edges"] == str(files.edges)
    assert (values["epochs"], values["size"]) == (2, 6)
    again = json.loads(ok(*tune(files, "--trials", 4), "--json").stdout)
    assert again["trials"] == again["complete"] == 4
    assert Settings.from_dict(again["settings"]) == Settings.from_dict(
        {name: value for name, value in values.items() if name not in ("data", "recipe")}
    )
    run = ok("train", "--config", best, "-o", tmp_path / "run", "--json", "--no-report", "--quiet")
    assert json.loads(run.stdout)["scores"]["val"]["accuracy"] == again["scores"][0]


def test_a_search_goes_on_only_with_the_inputs_it_began_with(files, tmp_path):
    ok(*tune(files, "--trials", 2, "--quiet"))
    y = files.labels.read_text()
    files.labels.write_text(y.replace(f"n03,{files.classes[3]}", f"n03,{files.classes[4]}"))
    assert f"the search in {tmp_path / 'search'} began with other labels; resume" in fails(
        *tune(files, "--trials", 3, "--quiet")
    )
    files.labels.write_text(y)
    ok(*tune(files, "--trials", 3, "--quiet"))


def test_a_fixed_setting_is_not_searched(files):
    found = json.loads(ok(*tune(files, "--trials", 2, "--set", "lr=0.03"), "--json").stdout)
    assert found["settings"]["lr"] == 0.03
    lines = (files.folder / "search" / "trials.jsonl").read_text().splitlines()
    assert "lr" not in json.loads(lines[-1])["chosen"]


def test_what_cannot_be_done_is_refused_before_any_work(files, tmp_path):
    assert "did you mean 'epochs'" in fails(*tune(files, "--set", "epoch=3"))
    assert "NAME=VALUE" in fails(*tune(files, "--set", "epochs"), code=2)
    assert "no space named 'papers'" in fails(*tune(files, "--space", "papers"))
    assert "choose median" in fails(*tune(files, "--pruner", "best"))
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "thesis.doc").write_text("mine")
    assert "is not the folder of a search" in fails(*tune(files))
    assert "did you mean 'cora'" in fails("tune", "--data", "corra", "-o", tmp_path / "s")
    assert "leave it or --data out" in fails(
        "tune", "--data", "cora", "--labels", files.labels, "-o", tmp_path / "s"
    )
    assert not (tmp_path / "s").exists()


@pytest.mark.full
def test_an_interrupted_search_goes_on_with_the_same_command(files):
    command = shell_command(*tune(files, "--trials", 6, "--set", "epochs=3000",
                                  "--set", "patience=none"))  # fmt: skip
    journal = files.folder / "search" / "search.journal"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 100
        while not (journal.exists() and "chosen" in journal.read_text()):
            assert time.monotonic() < limit
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on with the search" in said
    assert "Traceback" not in said


@pytest.mark.full
def test_seeds_at_once_give_the_runs_of_seeds_in_turn(files, tmp_path):
    common = ["--edges", files.edges, "--features", files.features, "--labels", files.labels,
              "--split", files.split, *SMALL, "--no-report", "-q", "--seeds", "0-1"]  # fmt: skip
    ok("train", *common, "-o", tmp_path / "turn", "--deterministic")
    ok("train", *common, "-o", tmp_path / "once", "--deterministic", "--jobs", 2)
    found = [
        [json.loads(line) for line in (tmp_path / name / "runs.jsonl").read_text().splitlines()]
        for name in ("turn", "once")
    ]
    assert [one["seed"] for one in found[1]] == [0, 1]
    for one, other in zip(*found, strict=True):
        assert one["scores"] == other["scores"]
        assert one["config"] == other["config"]
        assert one["split_hash"] == other["split_hash"]
        assert other["environment"]["torch"] == torch.__version__
        assert other["memory"]["host_peak_bytes"] > 0
        assert other["data"]["edges"] == str(files.edges)


def test_a_dataset_by_name_with_its_split_and_metric(tmp_path, monkeypatch, files):
    graph = files.graph.named("tolokers")
    asked = []

    def load(name, root, split, seed, **more):
        asked.append((name, split, seed))
        from dhilgt.datasets import random_split

        return graph.with_data(labels=graph.labels % 2, masks=random_split(graph.labels, seed))

    monkeypatch.setattr("dhilgt.datasets.load", load)
    result = ok("train", "--data", "tolokers", *SMALL, "--seeds", "3,4", "-o", tmp_path / "r",
                "--no-report")  # fmt: skip
    assert asked == [("tolokers", "paper", 3)]  # read once, split by seed
    assert "read tolokers: undirected, 90 nodes" in result.stderr
    assert "test roc_auc" in result.stdout
    lines = [json.loads(one) for one in (tmp_path / "r" / "runs.jsonl").read_text().splitlines()]
    assert [one["data"] for one in lines] == [{"dataset": "tolokers"}] * 2
    assert lines[0]["split_hash"] != lines[1]["split_hash"]
    assert [one["metric"] for one in lines] == ["roc_auc"] * 2
    again = ok("train", "--config", tmp_path / "r" / "seed-3" / "config.yaml", "--json",
               "-o", tmp_path / "again", "--no-report")  # fmt: skip
    assert json.loads(again.stdout)["split_hash"] == lines[0]["split_hash"]
    assert json.loads(again.stdout)["scores"] == lines[0]["scores"]
    assert "no best settings of 'photo'" in fails(
        "train", "--data", "photo", "--recipe", "best", "-o", tmp_path / "x"
    )
