"""Graphs and settings for the tests of baselines: small, so that every system takes seconds.

A new system joins by registering itself; if its defaults are large it gets a line in `SMALL`.
"""

import numpy as np
import torch

import dhilgt
from dhilgt import baselines
from dhilgt.training.trainer import Trainer

SMALL = {
    "difformer": {"hidden_channels": 16, "num_layers": 2},
    "hsgt": {
        "hidden_channels": 16,
        "heads": 2,
        "num_layers": 1,
        "cluster_sizes": (4, 4),
        "fanouts": (3,),
        "upper_fanout": 2,
    },
    "ansgt": {
        "hidden_channels": 16,
        "ffn_channels": 16,
        "heads": 2,
        "num_layers": 2,
        "period": 2,
        "sampled_nodes": 5,
        "super_nodes": 1,
        "sequences": 3,
        "hops": 3,
    },
    "gcn": {"hidden_channels": 32},
    "goat": {
        "hidden_channels": 16,
        "heads": 2,
        "sizes": (4, 3),
        "num_centroids": 6,
        "walk_length": 10,
        "global_channels": 8,
        "position_channels": 4,
        "walk_context": 4,
        "walk_epochs": 1,
    },
    "graphgps": {"hidden_channels": 16, "heads": 2, "num_layers": 2},
    "graphormer": {"hidden_channels": 16, "heads": 2, "sampler": "khop", "size": 8},
    "grpe": {"hidden_channels": 16, "heads": 2, "sampler": "ppr", "size": 8},
    "linkx": {"hidden_channels": 16},
    "mlp": {"hidden_channels": 32},
    "nagphormer": {"hidden_channels": 32, "heads": 4, "hops": 2, "encoding_channels": 3},
    "nodeformer": {"hidden_channels": 8, "heads": 2, "directions": 10, "gumbel_samples": 3},
    "polyformer": {"hidden_channels": 16, "heads": 2, "order": 3, "ffn_channels": 16},
    "polynormer": {"hidden_channels": 16, "heads": 2, "local_layers": 2},
    "sage": {"hidden_channels": 32},
    "sgformer": {"hidden_channels": 16},
}
# What must be 0 for a system to learn its training nodes by heart.
DROPOUTS = (
    "dropout",
    "attention_dropout",
    "graph_dropout",
    "input_dropout",
    "ff_dropout",
    "global_dropout",
)


def small_graph(num_nodes=80, classes=3, seed=3, **options):
    return dhilgt.generate(num_nodes, 4, num_classes=classes, num_features=12, seed=seed, **options)


def lonely_graph():
    """A graph in which some nodes have no edge, and some no label."""
    graph = small_graph()
    labels = graph.labels.copy()
    labels[::4] = -1
    source, target = graph.to_edge_index()
    kept = (source % 5 != 0) & (target % 5 != 0)
    return dhilgt.Graph.from_edges(
        source[kept], target[kept], num_nodes=80, features=graph.features, labels=labels
    )


def create(name, graph, *, learns_by_heart=False, **changes):
    settings = SMALL.get(name, {}) | changes
    if learns_by_heart:
        known = baselines.describe(name)["settings"]
        settings |= {key: 0.0 for key in known if key in DROPOUTS}
    return baselines.create(name, graph, **settings)


def has_setting(name, setting):
    return setting in baselines.describe(name)["settings"]


def trainer(model, run_dir=None, *, resume=False, **changes):
    plain = {"warmup_epochs": 0, "decay": "none", "weight_decay": 0.0, "patience": None}
    settings = plain | {"epochs": 4, "lr": 0.01} | changes
    return Trainer(model, settings, run_dir, "cpu", resume, progress=False)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def split(graph, seed=0):
    known = np.flatnonzero(graph.labels >= 0)
    order = np.random.default_rng(seed).permutation(known)
    return order[: len(order) // 2], order[len(order) // 2 :]


class Killed(Exception):
    """Stands for the end of the process."""


class KilledAt:
    """A loader that ends the run at a batch of an epoch."""

    def __init__(self, loader, epoch, batch=0):
        self.loader, self.at, self.batch, self.epoch = loader, epoch, batch, 0
        self.seed, self.num_nodes = loader.seed, loader.num_nodes

    def __len__(self):
        return len(self.loader)

    def set_epoch(self, epoch):
        self.epoch = epoch
        self.loader.set_epoch(epoch)

    def iterate(self, start_batch=0):
        for number, batch in enumerate(self.loader.iterate(start_batch), start_batch):
            if (self.epoch, number) == (self.at, self.batch):
                raise Killed
            yield batch
