"""Ctrl-C in every stage of `dhilgt train`: the message is true, and its command works as typed."""

import os
import shlex
import signal
import sys

import pytest

import dhilgt
from dhilgt import loader
from tests.cli.cases import Files, fails, ok, run

GO_ON, START = "go on with: ", "start again with: "


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def interrupted(monkeypatch, args, *, at=None, of=None, batch=None, times=1):
    """The message of a command that Ctrl-C hits in the function `at` of `of`, or in a batch."""
    args = [str(arg) for arg in args]
    original = loader.TokenLoader.iterate
    left = [batch]

    def iterate(self, start_batch=0):
        for one in original(self, start_batch):
            if self.shuffle and batch is not None:
                left[0] -= 1
                for _ in range(times if left[0] == 0 else 0):
                    os.kill(os.getpid(), signal.SIGINT)
            yield one

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["dhilgt", *args])
        patch.setattr(loader.TokenLoader, "iterate", iterate)
        if of is not None:
            patch.setattr(of, at, stop)
        result = run(*args)
    assert result.exit_code == 130, result.output
    assert "Traceback" not in result.output
    return result.stderr.strip().splitlines()[-1].removeprefix("dhilgt: ")


def advised(message):
    """The command at the end of a message, as a shell would split it."""
    program, *args = shlex.split(message.partition(": ")[2])
    assert program == "dhilgt"
    return args


def same_as_never_stopped(files, folder):
    whole = files.folder / "whole"
    ok(*files.train(output=whole), "--quiet", "--no-report")
    scores = dhilgt.NodeClassifier.load(whole).scores_
    assert dhilgt.NodeClassifier.load(folder).scores_ == scores


@pytest.mark.parametrize(
    ("batch", "words"), [(1, "before the first save in"), (2, "is of 1 epoch; go on with")]
)
def test_a_second_signal_inside_an_epoch(files, monkeypatch, tmp_path, batch, words):
    folder = tmp_path / "my run"
    args = [*files.train(output=folder), "--quiet"]
    message = interrupted(monkeypatch, args, batch=batch, times=2)
    assert message.startswith("stopped at once by a second SIGINT")
    assert words in message
    assert message.endswith(f"go on with: dhilgt train --resume -o '{folder}'")
    assert "holds a run; pass --resume" in fails(*args)
    ok(*advised(message), "--quiet", "--no-report")
    same_as_never_stopped(files, folder)


BEFORE = [("labels", dhilgt.HubLabels, "build"), ("tokens", dhilgt.Tokens, "build")]


@pytest.mark.parametrize(("stage", "of", "at"), BEFORE)
def test_before_the_first_epoch(files, monkeypatch, tmp_path, stage, of, at):
    args = [*files.train(), "--quiet", "--no-cache"]
    message = interrupted(monkeypatch, args, of=of, at=at)
    assert message.startswith("interrupted before the first epoch"), stage
    assert not (tmp_path / "run").exists()
    ok(*advised(message))
    assert len(dhilgt.NodeClassifier.load(tmp_path / "run").predict()) == 90


def test_while_files_are_read(files, monkeypatch, tmp_path):
    args = files.train()
    message = interrupted(monkeypatch, args, of=dhilgt.Graph, at="read")
    assert message == "interrupted; nothing was left half written"
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_before_its_first_new_epoch(files, monkeypatch, tmp_path):
    folder = tmp_path / "run"
    first = interrupted(monkeypatch, [*files.train(), "--quiet", "--no-cache"], batch=2)
    again = interrupted(
        monkeypatch, [*advised(first), "--quiet", "--no-cache"], of=dhilgt.HubLabels, at="build"
    )
    assert again == (
        f"interrupted; the last save in {folder} is of 1 epoch; go on with: "
        f"dhilgt train --resume -o {folder}"
    )
    ok(*advised(again), "--quiet")
    same_as_never_stopped(files, folder)


def test_a_run_that_was_killed_early_keeps_its_settings_when_it_is_interrupted(
    files, monkeypatch, tmp_path
):
    """A killed run may leave only config.yaml, on which `--resume` depends."""
    folder = tmp_path / "run"
    ok(*files.train(), "--quiet", "--no-report")
    settings = (folder / "config.yaml").read_bytes()
    other = tmp_path / "killed"
    other.mkdir()
    (other / "config.yaml").write_bytes(settings)
    args = ["train", "--resume", "-o", other, "--quiet", "--no-cache"]
    message = interrupted(monkeypatch, args, of=dhilgt.HubLabels, at="build")
    assert (other / "config.yaml").read_bytes() == settings
    ok(*advised(message))
    same_as_never_stopped(files, other)


@pytest.mark.parametrize(
    ("of", "at"), [("training.trainer.Trainer", "evaluate"), ("classifier.store", "write")]
)
def test_between_the_last_epoch_and_the_classifier(files, monkeypatch, tmp_path, of, at):
    module, _, name = of.rpartition(".")
    place = getattr(__import__(f"dhilgt.{module}", fromlist=[name]), name)
    message = interrupted(monkeypatch, [*files.train(), "--quiet"], of=place, at=at)
    assert f"the last save in {tmp_path / 'run'} is of 2 epochs; go on with: " in message
    ok(*advised(message), "--quiet")
    same_as_never_stopped(files, tmp_path / "run")


def test_while_the_report_is_written(files, monkeypatch, tmp_path):
    import dhilgt.report

    folder = tmp_path / "run"
    args = [*files.train(), "--quiet"]
    message = interrupted(monkeypatch, args, of=dhilgt.report, at="write_report")
    assert f"the run in {folder} has ended, only its report is missing" in message
    assert len(dhilgt.NodeClassifier.load(folder).predict()) == 90
    ok(*advised(message), "--quiet")
    assert (folder / "report.html").exists()


def test_one_of_several_seeds(files, monkeypatch, tmp_path):
    args = [*files.train(), "--seeds", "0,1", "--quiet", "--no-report"]
    ok(*files.train(output=tmp_path / "run" / "seed-0"), "--quiet", "--no-report")
    message = interrupted(
        monkeypatch, [*args, "--resume", "--no-cache"], of=dhilgt.HubLabels, at="build"
    )
    ok(*advised(message))
    for seed in ("seed-0", "seed-1"):
        assert (tmp_path / "run" / seed / "bundle.json").exists()
