"""Trainings that the tests of a cluster compare."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.classifier.cases import community_graph, quick

ROOT = Path(__file__).parents[2]
SETTINGS = {"epochs": 3, "batch_size": 16, "dropout": 0.2, "checkpoint_batches": 1}


def graph():
    """Classes are numbers that are not places in a list of classes."""
    return community_graph(ids=True, labels=np.array([3, 7, 11])[np.arange(90) % 3])


def train(folder, cluster=None, **changes):
    clf = quick(**(SETTINGS | changes))
    return clf.fit(graph(), run_dir=folder, cluster=cluster, resume=True)


def torchrun(folder, **changes):
    """Trains in two processes, which is what two workers of a cluster must equal."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "tests.cluster.cases", str(folder), json.dumps(changes),
    ]  # fmt: skip
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=200)


def model_bytes(folder):
    """The files that must not depend on where a model was trained."""
    folder = Path(folder)
    found = sorted(folder.rglob("*.safetensors"))
    names = {path.relative_to(folder): path for path in found if "checkpoints" not in path.parts}
    files = {name: path.read_bytes() for name, path in names.items()}
    assert files
    history = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    scores = json.loads((folder / "bundle.json").read_text())["scores"]
    return files, [(line["train_loss"], line["val_loss"]) for line in history], scores


if __name__ == "__main__":  # under torchrun
    train(sys.argv[1], **json.loads(sys.argv[2]))
