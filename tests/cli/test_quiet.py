"""Every command has --quiet: errors, and what was asked for, are all that it prints."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import typer.main

from dhilgt.cli import demo, shell
from dhilgt.cli.app import app
from tests.cli.cases import SMALL, Files, fails, ok

torch.set_num_threads(1)
RESULTS = Path(__file__).parents[2] / "docs" / "results"
PRINTED, NOTHING = True, False


def leaves(command=None, path=()):
    """The commands that do something, with the words that lead to them."""
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", None)
    if below is None:
        return {" ".join(path): command}
    return {
        name: leaf
        for word, one in below.items()
        for name, leaf in leaves(one, (*path, word)).items()
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A graph as files, with its labels and a run."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("quiet")
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        files = Files(folder)
        ok("label", files.edges, "-o", folder / "labels")
        ok(*files.train(split=files.split))
        yield files


def cases(files, out):
    """The arguments of every command, and whether something was asked for on the screen."""
    run, labels, edges = files.folder / "run", files.folder / "labels", files.edges
    lines = files.write("lines.jsonl", '{"measure": "queries", "seconds": 0.25}\n').parent
    graph = ["--edges", edges, "--features", files.features, "--labels", files.labels]
    study = [RESULTS / "study.jsonl"]
    cells = ["--models", "mlp", "--no-references", "--data", "generated:60", "--epochs", 1,
             "--seeds", 0, "--device", "cpu", "--in-process"]  # fmt: skip
    small = ["--batch", 2, "--slots", 4, "--width", 8, "--fill", 1, "--repeats", 1,
             "--device", "cpu", "--ways", "reference:fp32"]  # fmt: skip
    return {
        "cache": (["list"], PRINTED),
        "demo": (["-o", out / "demo", "--nodes", 500], NOTHING),
        "doctor": ([], NOTHING),
        "evaluate": ([run], PRINTED),
        "explain": ([run, "n07", "-o", out / "n07.svg"], NOTHING),
        "export": ([run, "-o", out / "model.pt2"], NOTHING),
        "generate": (["-o", out / "made", "--nodes", 500], NOTHING),
        "inspect": ([labels], PRINTED),
        "label": ([edges, "-o", out / "labels"], NOTHING),
        "predict": ([run, "-o", out / "p.csv"], NOTHING),
        "query": ([labels, "n00", "n01"], PRINTED),
        "report": ([run, "-o", out / "report.html"], NOTHING),
        "tokens": ([labels, "-o", out / "tokens"], NOTHING),
        "train": ([*graph, *SMALL, "-o", out / "run"], NOTHING),
        "tune": ([*graph, "-o", out / "search", "--trials", 2, "--seeds", 0,
                  "--set", "epochs=1", "--set", "hidden_channels=8", "--set", "heads=2",
                  "--set", "size=4"], NOTHING),
        "datasets list": ([], PRINTED),
        "datasets show": (["cora"], PRINTED),
        "datasets fetch": (["genius-like"], NOTHING),
        "datasets verify": (["--root", lines], NOTHING),
        "plot hierarchy": (["--edges", edges, "-o", out / "plot.html"], NOTHING),
        "bench table": ([*cells, "-o", out / "cells.jsonl"], PRINTED),
        "bench show": ([RESULTS / "default.jsonl"], PRINTED),
        "bench ablation": (["--render-only", RESULTS / "ablation.jsonl"], PRINTED),
        "bench study": (["--render-only", *study], PRINTED),
        "bench default": (["--render-only", RESULTS / "default.jsonl"], PRINTED),
        "bench paper": (["--render-only", RESULTS / "default.jsonl"], PRINTED),
        "bench scaling": (["--render-only", RESULTS / "scaling.jsonl"], PRINTED),
        "bench speed": ([*small, "-o", out / "speed.jsonl"], PRINTED),
    }  # fmt: skip


def test_every_command_has_the_same_option():
    for name, command in leaves().items():
        options = [one for one in command.params if one.name == "quiet"]
        assert [one.opts for one in options] == [["--quiet", "-q"]], name
        assert options[0].help == shell.Quiet.__metadata__[0].help, name


@pytest.mark.parametrize("name", leaves())
def test_a_quiet_command_prints_its_result_or_nothing(name, files, tmp_path, monkeypatch):
    if name == "tune":
        pytest.importorskip("optuna")

    def export(clf, output):  # the real one takes seconds
        output.write_bytes(b"")
        return output

    monkeypatch.setattr("dhilgt.classifier.serving.export_classifier", export)
    monkeypatch.setattr(demo, "BUDGET_SECONDS", 0.1)
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    arguments, printed = cases(files, tmp_path)[name]
    result = ok(*name.split(), *arguments, "-q")
    assert result.stderr == ""
    assert bool(result.stdout) is printed


def test_json_is_printed_all_the_same(files, tmp_path):
    for command in (
        ["generate", "-o", tmp_path / "g", "--nodes", 500],
        ["inspect", files.folder / "run"],
    ):
        assert json.loads(ok(*command, "--json", "-q").stdout)["path"]


def test_errors_are_printed_all_the_same(tmp_path):
    assert "there is no artifact" in fails("inspect", tmp_path / "none", "-q")


def test_warnings_are_notes_that_quiet_leaves_out(files, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(files.folder / "run", run)
    for lost in ("report.html", "report.json", "environment.json"):
        (run / lost).unlink()
    assert ok("report", run, "-q").stderr == ""
    (run / "report.json").unlink()
    assert "note: " in ok("report", run).stderr
