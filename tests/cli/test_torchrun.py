"""`torchrun ... -m dhilgt train`: several processes train as one, and one speaks for all."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dhilgt.cli import processes
from dhilgt.errors import ProcessError
from dhilgt.training.distributed import Group
from tests.cli.cases import Files, ok

STILL = ("--dropout", "0", "--input-dropout", "0", "--bias-dropout", "0")
EGO_ROWS = ("--neighbor-inputs", "--hub-inputs", "--class-inputs")


def command(*args):
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "dhilgt", *map(str, args),
    ]  # fmt: skip


def environment(folder):
    return os.environ | {"OMP_NUM_THREADS": "1", "DHILGT_CACHE": str(folder / "cache")}


def torchrun(folder, *args):
    return subprocess.run(
        command(*args), cwd=folder, env=environment(folder), check=False, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


def messages(text):
    """What dhilgt said, without torchrun's own account of it."""
    return [line for line in text.splitlines() if line.startswith("dhilgt") and ": " in line]


def exit_codes(text):
    lines = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("  exitcode")]
    return {int(line.split()[0]) for line in lines}


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same training in one process, and in two that take half of each batch."""
    files = Files(tmp_path_factory.mktemp("both"))
    shared = [*files.train(split=files.split, output=None), *STILL, *EGO_ROWS]
    done = torchrun(files.folder, *shared, "--batch-size", 8, "-o", "two")
    assert done.returncode == 0, done.stderr
    ok(*shared, "--batch-size", 16, "-o", files.folder / "one", "--no-report")
    return files, done


def test_scores_are_those_of_one_process_at_the_same_global_batch(both):
    folder = both[0].folder
    for one, two in zip(lines(folder / "one"), lines(folder / "two"), strict=True):
        assert two == pytest.approx(one, abs=1e-5)
    found = [json.loads((folder / run / "bundle.json").read_text()) for run in ("one", "two")]
    assert found[0]["scores"].keys() == {"train", "val", "test"}
    for part, scores in found[0]["scores"].items():
        assert found[1]["scores"][part] == pytest.approx(scores, abs=1e-5)


def test_one_process_speaks_and_writes(both):
    files, done = both
    assert done.stdout.count("(majority class") == 1
    assert "cache    nothing reused" in done.stdout
    assert done.stderr.count("nodes, 270 edges") == 1
    assert {"report.html", "config.yaml", "bundle.json"} <= names_in(files.folder / "two")
    assert json.loads((files.folder / "two/environment.json").read_text())["processes"] == 2
    for kind in ("labels", "tokens"):
        assert len([e for e in (files.folder / "cache" / kind).iterdir() if e.is_dir()]) == 1
    ok("predict", files.folder / "two", "-o", files.folder / "out.csv")
    assert len((files.folder / "out.csv").read_text().splitlines()) == 91


class Peers(Group):
    """This process among three of which others fail as told."""

    def __init__(self, rank, others):
        self.rank, self.size, self.others = rank, 3, others

    def collect_everywhere(self, value):
        return [value if rank == self.rank else rank in self.others for rank in range(3)]


def enter(rank, others, error=None):
    with Peers(rank, others).agreed():
        if error is not None:
            raise error


def test_a_failure_is_told_by_the_first_process_that_has_it_and_ends_all():
    enter(1, ())
    with pytest.raises(ProcessError, match="process 2 failed"):
        enter(0, (2,))
    with pytest.raises(ValueError, match="mine"):
        enter(0, (1, 2), ValueError("mine"))
    with pytest.raises(ProcessError, match="process 0 failed"):
        enter(1, (0,), ValueError("the same"))
    with pytest.raises(KeyboardInterrupt):
        enter(1, (0,), KeyboardInterrupt())


def test_the_command_to_go_on_is_the_one_that_was_started(monkeypatch):
    assert processes.launched("dhilgt train") == "dhilgt train"
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert processes.launched("dhilgt train") == "torchrun --nproc-per-node 4 -m dhilgt train"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert processes.launched("dhilgt train") == "torchrun ... -m dhilgt train"
    monkeypatch.setenv("RANK", "3")
    assert not processes.is_main()
    assert processes.error_prefix() == "dhilgt (process 3)"


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "dhilgt", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("dhilgt ")


@pytest.mark.full
def test_wrong_input_is_told_once_and_leaves_nothing(tmp_path):
    files = Files(tmp_path)
    files.write("y.csv", "id,label\nn01,red\nnobody,blue\n")
    done = torchrun(tmp_path, *files.train())
    assert done.returncode == 1
    (said,) = messages(done.stdout + done.stderr)
    assert said.startswith("dhilgt: ")
    assert "line 3: 'nobody' is not a node" in said
    assert 1 in exit_codes(done.stderr) <= {1, -15}  # torchrun ends those that are slower
    assert not (tmp_path / "run").exists()


@pytest.mark.full
def test_wrong_usage_and_a_folder_in_use(tmp_path):
    files = Files(tmp_path)
    wrong = torchrun(tmp_path, *files.train(), "--nonsense")
    assert wrong.stderr.count("No such option: --nonsense") == 1
    assert exit_codes(wrong.stderr) == {2}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.doc").touch()
    refused = torchrun(tmp_path, *files.train())
    (said,) = messages(refused.stderr)
    assert "is not the folder of a run (it holds 'thesis.doc')" in said
    assert names_in(tmp_path / "run") == {"thesis.doc"}


@pytest.mark.full
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_the_run_goes_on(tmp_path, signum):
    files = Files(tmp_path)
    # As many epochs as cannot end before the signal; the number of them may differ when resumed.
    shared = ["--batch-size", 8, "--decay", "none", "--no-report"]
    arguments = [*files.train(), *shared, "--epochs", 2000, "--patience", 2000]
    process = subprocess.Popen(
        command(*arguments), cwd=tmp_path, env=environment(tmp_path), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    latest = tmp_path / "run" / "checkpoints" / "LATEST"
    while not latest.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signum)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    (message,) = messages(said)
    assert f"stopped by {signum.name} after" in message
    assert "go on with: torchrun --nproc-per-node 2 -m dhilgt train --resume -o" in message
    done = len(lines(tmp_path / "run"))
    more = ["train", "--resume", "-o", "run", "--epochs", done + 2, "--no-report"]
    assert torchrun(tmp_path, *more).returncode == 0
    whole = [*files.train(output="whole"), *shared, "--epochs", done + 2, "--patience", 2000]
    assert torchrun(tmp_path, *whole).returncode == 0
    assert lines(tmp_path / "run") == lines(tmp_path / "whole")
