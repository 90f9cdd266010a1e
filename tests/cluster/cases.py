"""A small cluster on this machine, and trainings that its tests compare."""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
from ray.cluster_utils import Cluster

from tests.classifier.cases import community_graph, quick

STORE_BYTES = 80 << 20
SETTINGS = {"epochs": 3, "batch_size": 16, "dropout": 0.2, "checkpoint_batches": 1}


@contextlib.contextmanager
def small_cluster(nodes=2):
    """A head and further nodes, each with one core."""
    options = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    head = options | {"include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**options)
        yield cluster
    finally:
        cluster.shutdown()


def graph():
    """Classes are numbers that are not places in a list of classes."""
    return community_graph(ids=True, labels=np.array([3, 7, 11])[np.arange(90) % 3])


def train(folder, cluster=None, **changes):
    clf = quick(**(SETTINGS | changes))
    return clf.fit(graph(), run_dir=folder, cluster=cluster, resume=True)


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
