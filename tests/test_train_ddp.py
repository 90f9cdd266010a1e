"""Two processes under torchrun train as one does at the same global batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.train_cases import Loader, trainer

torch.set_num_threads(1)
ROOT = Path(__file__).parent.parent


def torchrun(folder, processes=2, check=True, **changes):
    return subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone",
            f"--nproc-per-node={processes}", "-m", "tests.train_cases", str(folder),
            json.dumps(changes),
        ],
        cwd=ROOT, check=check, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def one_process(folder, nodes, batch_size, **changes):
    train = Loader(range(nodes), batch_size=batch_size, shuffle=True)
    val = Loader(range(40, 60), batch_size=batch_size)
    trainer(folder, dropout=0.0, **changes).fit(train, val)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(folder):
    return safetensors.torch.load_file(folder / "best.safetensors")


def assert_same(first, second, tolerance=1e-5):
    left, right = lines(first), lines(second)
    assert [line["epoch"] for line in left] == [line["epoch"] for line in right]
    for a, b in zip(left, right, strict=True):
        for key in ("train_loss", "val_loss", "val_score", "lr"):
            assert a[key] == pytest.approx(b[key], abs=tolerance)
    for name, tensor in weights(first).items():
        torch.testing.assert_close(tensor, weights(second)[name], atol=tolerance, rtol=0)


# 40: even shares. 37: a last batch of 3 and 2. 33: one process has a batch more than the other.
@pytest.mark.parametrize("nodes", [40, 37, 33])
def test_same_as_one_process(tmp_path, nodes):
    one_process(tmp_path / "one", nodes, 8, epochs=4, clip_norm=1.0)
    torchrun(tmp_path / "two", nodes=nodes, batch_size=4, dropout=0.0, epochs=4, clip_norm=1.0)
    assert_same(tmp_path / "one", tmp_path / "two")


def test_resumes_and_refuses_another_number_of_processes(tmp_path):
    options = {"nodes": 33, "batch_size": 4, "epochs": 4, "decay": "none", "checkpoint_batches": 2}
    torchrun(tmp_path / "whole", **options)
    torchrun(tmp_path / "run", **(options | {"epochs": 2}))
    torchrun(tmp_path / "run", **options)
    assert_same(tmp_path / "whole", tmp_path / "run", tolerance=0)
    checkpoints = tmp_path / "run" / "checkpoints"
    inside = next(p.name for p in checkpoints.iterdir() if p.name.endswith("-000004"))
    (checkpoints / "LATEST").write_text(inside)
    with pytest.raises(ValueError, match="by 2 processes and cannot go on with 1"):
        trainer(tmp_path / "run", epochs=4, decay="none", resume=True, checkpoint_batches=2).fit(
            Loader(range(33), batch_size=4, shuffle=True), Loader(range(40, 60))
        )
    torchrun(tmp_path / "run", **options)
    assert_same(tmp_path / "whole", tmp_path / "run", tolerance=0)


def test_world_size_without_torchrun(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="start with torchrun"):
        trainer()
