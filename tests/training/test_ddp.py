"""Two processes under torchrun train as one does at the same global batch."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from dhilgt.errors import TrainingInterrupted
from tests.training.cases import Loader, trainer

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]


def command(folder, runs, processes=2):
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={processes}", "-m", "tests.training.cases", str(folder),
        json.dumps(runs),
    ]  # fmt: skip


def torchrun(folder, *runs):
    """Trains once for each of the settings, one after the other in the same two processes."""
    done = subprocess.run(
        command(folder, runs), cwd=ROOT, check=False, capture_output=True, text=True, timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(folder):
    return safetensors.torch.load_file(folder / "best.safetensors")


def assert_same(first, second, tolerance):
    left, right = lines(first), lines(second)
    assert [line["epoch"] for line in left] == [line["epoch"] for line in right]
    for a, b in zip(left, right, strict=True):
        for key in ("train_loss", "val_loss", "val_score", "lr"):
            assert a[key] == pytest.approx(b[key], abs=tolerance)
    for name, tensor in weights(first).items():
        torch.testing.assert_close(tensor, weights(second)[name], atol=tolerance, rtol=0)


COMMON = {"batch_size": 4, "epochs": 4}
CUT = COMMON | {"nodes": 33, "decay": "none", "checkpoint_batches": 2, "folder": "cut"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All runs of two processes that are not disturbed, in one start of torchrun."""
    folder = tmp_path_factory.mktemp("two")
    sized = [
        COMMON | {"folder": f"{nodes}", "nodes": nodes, "dropout": 0.0, "clip_norm": 1.0}
        for nodes in (40, 37, 33, 2)
    ]
    torchrun(folder, *sized, CUT | {"folder": "whole"}, CUT | {"epochs": 2}, CUT)
    return folder


# 40: even shares. 37: a last batch of 3 and 2. 33: one process has a batch more. 2: a node each.
@pytest.mark.filterwarnings("ignore::dhilgt.TrainingWarning")
@pytest.mark.parametrize("nodes", [40, 37, 33, 2])
def test_same_as_one_process(tmp_path, runs, nodes):
    train = Loader(range(nodes), batch_size=8, shuffle=True)
    val = Loader(range(40, 60), batch_size=8)
    trainer(tmp_path / "one", dropout=0.0, epochs=4, clip_norm=1.0).fit(train, val)
    assert_same(tmp_path / "one", runs / str(nodes), 1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are read from /proc")
def test_no_thread_of_communication_outlives_the_group(runs):
    # One that does can abort the process while the interpreter ends.
    assert [json.loads((runs / f"threads-{rank}.json").read_text()) for rank in (0, 1)] == [[], []]


def test_resumes_and_refuses_another_number_of_processes(runs):
    assert_same(runs / "whole", runs / "cut", tolerance=0)
    checkpoints = runs / "cut" / "checkpoints"
    inside = next(p.name for p in checkpoints.iterdir() if p.name.endswith("-000004"))
    (checkpoints / "LATEST").write_text(inside)
    alone = trainer(runs / "cut", epochs=4, decay="none", resume=True)
    train = Loader(range(33), batch_size=4, shuffle=True)
    with pytest.raises(ValueError, match="by 2 processes and cannot go on with 1"):
        alone.fit(train, Loader(range(40, 60)))
    torchrun(runs, CUT)
    assert_same(runs / "whole", runs / "cut", tolerance=0)


@pytest.mark.full
def test_sigterm_stops_all_at_one_step(tmp_path):
    options = {"nodes": 33, "batch_size": 4, "epochs": 3}
    process = subprocess.Popen(
        command(tmp_path, [options | {"folder": "run", "delay": 0.1}]), cwd=ROOT, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    latest = tmp_path / "run" / "checkpoints" / "LATEST"
    while not latest.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert "TrainingInterrupted: stopped by SIGTERM after" in said
    assert latest.read_text() < "00003"
    torchrun(tmp_path, options | {"folder": "run"}, options | {"folder": "whole"})
    assert_same(tmp_path / "whole", tmp_path / "run", tolerance=0)


def test_signal_that_reached_another_process_is_named(tmp_path, monkeypatch):
    asked = trainer(tmp_path / "run")
    # The other process got SIGINT, which this one learns of at the end of the batch.
    monkeypatch.setattr(asked.group, "add_up", lambda numbers: [numbers[0], 1])
    monkeypatch.setattr(asked.group, "largest", lambda number: max(number, signal.SIGINT))
    with pytest.raises(TrainingInterrupted, match="stopped by SIGINT after") as caught:
        asked.fit(Loader(range(40), batch_size=8))
    assert caught.value.signum == signal.SIGINT


def test_process_without_a_batch(monkeypatch):
    alone = trainer()
    monkeypatch.setattr(alone.group, "add_up", lambda numbers: [1])
    with pytest.raises(RuntimeError, match="40 training nodes do not give each"):
        alone.fit(Loader(range(40)))


def test_world_size_without_torchrun(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="start with torchrun"):
        trainer()
