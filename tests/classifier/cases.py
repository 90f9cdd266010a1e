"""Small graphs and quick settings for tests of the classifier."""

import json

import numpy as np

import dhilgt
from dhilgt.classifier.store import _sealed

QUICK = {
    "size": 6, "hidden_channels": 8, "num_layers": 1, "heads": 2, "epochs": 4, "lr": 0.01,
    "warmup_epochs": 0, "batch_size": 32, "progress": False, "recipe": "paper",
}  # fmt: skip
NAMES = np.array(["ash", "birch", "cedar"])


def quick(**changes):
    return dhilgt.NodeClassifier(**(QUICK | changes))


def community_graph(num_nodes=90, *, ids=False, **changes):
    """Three groups of nodes, joined mostly within; a node's features hint at its group."""
    rng = np.random.default_rng(3)
    group = np.arange(num_nodes) % 3
    src = np.repeat(np.arange(num_nodes), 3)
    dst = (src + 3 * rng.integers(1, num_nodes // 3, len(src))) % num_nodes
    edges = np.unique(np.sort(np.stack([src, dst]), axis=0), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    x = rng.normal(size=(num_nodes, 4)).astype(np.float32)
    x[np.arange(num_nodes), group] += 2
    options = {"features": x, "labels": NAMES[group]} | changes
    if ids:
        names = np.array([f"node-{at:03d}" for at in range(num_nodes)])
        return dhilgt.Graph.from_edges(*names[edges], nodes=names, **options)
    return dhilgt.Graph.from_edges(*edges, num_nodes=num_nodes, **options)


def sealed_anew(folder, change=lambda facts: None):
    """Change a bundle, and give it the checksums of the files that are there now."""
    path = folder / "bundle.json"
    facts = json.loads(path.read_text())
    del facts["sha256"], facts["files"]
    change(facts)
    path.write_text(json.dumps(_sealed(facts, folder)))
