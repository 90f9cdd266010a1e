"""A small problem to train on, following the contract of loaders, for tests and subprocesses.

Run as a script it trains in a folder, so that it can be killed:
`python -m tests.training.cases FOLDER '{"epochs": 10}'`
"""

import atexit
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dhilgt.training import trainer as trainer_module
from dhilgt.training.config import TrainConfig
from dhilgt.training.trainer import Trainer

CLASSES, WIDTH = 3, 6
# The epochs of the toy problem are short; a run that is killed has to meet many saves.
trainer_module._SECONDS_BETWEEN_SAVES = 0.0


class Batch:
    def __init__(self, nodes, x, labels):
        self.nodes, self.inputs, self.labels = nodes, (x,), labels

    def __len__(self):
        return len(self.nodes)

    def to(self, device, non_blocking=False):
        labels = None if self.labels is None else self.labels.to(device)
        return Batch(self.nodes.to(device), self.inputs[0].to(device), labels)


class Loader:
    """The nodes of the toy problem; each of `size` processes has every `size`-th of them."""

    def __init__(self, nodes, batch_size=8, shuffle=False, seed=0, rank=0, size=1, delay=0.0):
        self.all, self.batch_size, self.shuffle = (
            np.asarray(nodes, dtype=np.int64),
            batch_size,
            shuffle,
        )
        self.seed, self.rank, self.size, self.epoch, self.delay = seed, rank, size, 0, delay
        self.num_nodes = len(self.all)
        self.x, self.labels = toy_data()

    def set_epoch(self, epoch):
        self.epoch = epoch

    def own(self):
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.num_nodes)
        else:
            order = np.arange(self.num_nodes)
        return self.all[order[self.rank :: self.size]]

    def __len__(self):
        return -(-len(range(self.rank, self.num_nodes, self.size)) // self.batch_size)

    def iterate(self, start_batch=0):
        nodes = self.own()
        for start in range(start_batch * self.batch_size, len(nodes), self.batch_size):
            if self.delay:
                time.sleep(self.delay)
            some = torch.from_numpy(nodes[start : start + self.batch_size])
            labels = None if self.labels is None else self.labels[some]
            yield Batch(some, self.x[some], labels)


class Accuracy:
    name = "accuracy"
    higher_is_better = True

    def __call__(self, labels, logits):
        return float((logits.argmax(1) == labels).mean())


class Undefined(Accuracy):
    name = "undefined"

    def __call__(self, labels, logits):
        return float("nan")


class Scripted(Accuracy):
    """Returns the values of a list, one per call."""

    def __init__(self, values):
        self.values = iter(values)

    def __call__(self, labels, logits):
        return next(self.values)


def toy_data(nodes=60):
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(nodes) % CLASSES
    centers = 1.5 * torch.randn(CLASSES, WIDTH, generator=generator)
    return centers[labels] + torch.randn(nodes, WIDTH, generator=generator), labels


def toy_model(dropout=0.2, seed=3):
    torch.manual_seed(seed)
    layers = nn.Linear(WIDTH, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(dropout)
    return nn.Sequential(*layers, nn.Linear(16, CLASSES))


def settings(**changes):
    return TrainConfig(**({"epochs": 10, "lr": 0.02, "warmup_epochs": 1} | changes))


def loaders(delay=0.0, **changes):
    train = Loader(range(40), shuffle=True, delay=delay, **changes)
    return train, Loader(range(40, 60), **changes)


def trainer(run_dir=None, *, model=None, metric=None, resume=False, dropout=0.2, **changes):
    return Trainer(
        model or toy_model(dropout), settings(**changes), run_dir, "cpu", resume,
        metric=metric or Accuracy(), progress=False,
    )  # fmt: skip


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def main():
    """Train once or, for a list of settings, several times, each in a folder of its own."""
    if "RANK" in os.environ:
        # Registered before the processes connect, so that it runs after they have disconnected.
        atexit.register(note_threads, sys.argv[1])
    actual = json.loads(sys.argv[2])
    for changes in actual if isinstance(actual, list) else [actual]:
        run(os.path.join(sys.argv[1], changes.pop("folder", "")), changes)  # noqa: PTH118


def note_threads(folder):
    """Write the names of the threads of communication that are left at the end of the process."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return
    names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
    left = [name for name in names if "gloo" in name]
    (Path(folder) / f"threads-{os.environ['RANK']}.json").write_text(json.dumps(left))


def run(folder, changes):
    torch.set_num_threads(1)
    delay = changes.pop("delay", 0.0)
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    options = {"batch_size": changes.pop("batch_size", 8), "rank": rank, "size": size}
    dropout = changes.pop("dropout", 0.2)
    nodes = changes.pop("nodes", 40)
    worker = trainer(folder, resume=True, dropout=dropout, **changes)
    train = Loader(range(nodes), shuffle=True, delay=delay, **options)
    val = Loader(range(40, 60), **options)
    worker.fit(train, val)
    actual, shares = worker.predict(val)
    assert actual.tolist() == list(range(40, 60))
    assert shares.shape == (20, CLASSES)


if __name__ == "__main__":
    main()
