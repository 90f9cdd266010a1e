"""A small search for tests."""

import numpy as np

import dhilgt
from dhilgt.settings.settings import Settings
from dhilgt.tune.objective import GraphSource
from dhilgt.tune.space import space_of
from dhilgt.tune.study import Search

BASE = {
    "size": 6, "hidden_channels": 8, "num_layers": 1, "heads": 2, "epochs": 2, "lr": 0.01,
    "warmup_epochs": 0, "batch_size": 32,
}  # fmt: skip
SPACE = {
    "stages": [
        {
            "name": "tokens",
            "parameters": {"num_out": {"kind": "int", "low": 0, "high": "size - 1"}},
        },
        {"name": "training", "parameters": {"lr": {"kind": "log", "low": 0.001, "high": 0.1}}},
    ]
}
ONE_STAGE = {"stages": [SPACE["stages"][1]]}


def graph(poison=False):
    """A graph with a split; poisoned, its test labels are others."""
    made = dhilgt.generate(80, 6, seed=3, num_features=4, num_classes=3, homophily=0.9)
    part = np.arange(80) % 5
    masks = {"train": part < 3, "val": part == 3, "test": part == 4}
    labels = np.where(masks["test"], (made.labels + 1) % 3, made.labels) if poison else made.labels
    return made.with_data(labels=labels, masks=masks)


def search(folder, *, data=None, space=SPACE, base=None, **changes):
    options = {"trials": 4, "seeds": (0, 1), "cache": False} | changes
    return Search(
        source=GraphSource(graph() if data is None else data),
        base=Settings(**(BASE | (base or {}))),
        space=space_of(space, "test", "test"),
        folder=folder,
        **options,
    )


def chosen(found):
    return [(one["stage"], one["chosen"], one["score"]) for one in found.trials]
