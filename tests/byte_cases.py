"""What must not change while the code does: bytes of labels and tokens, scores for a seed.

`python -m tests.byte_cases` prints what this version makes of all of it; what version 0.1.0 made is
kept in `fixtures/same_bytes.json`, and `test_same_bytes.py` compares. Its orders broke ties by id,
so that is what is asked for here. Labels whose ties are broken by a hash are a later promise:
`python -m tests.byte_cases hashed` prints them, `fixtures/hashed_ties.json` keeps them. The
training "directed" is newer: with `readout="ego"` the last layer now draws dropout for the egos
alone. So are the baselines that 0.1.0 did not have: graphgps, graphormer, grpe, nodeformer and
polyformer.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import dhilgt
from dhilgt.labels.orders import former_order
from tests.module_cli import command

KEPT = Path(__file__).parent / "fixtures" / "same_bytes.json"
HASHED = Path(__file__).parent / "fixtures" / "hashed_ties.json"
REAL = ("cora", "citeseer")


def has_data():
    return "DHILGT_DATA" in os.environ


def digest(data):
    return hashlib.sha256(data).hexdigest()


# ---- graphs --------------------------------------------------------------------------------------


def _grid():
    at = np.arange(30 * 40).reshape(30, 40)
    right, down = (at[:, :-1], at[:, 1:]), (at[:-1], at[1:])
    src, dst = (np.concatenate([a.ravel(), b.ravel()]) for a, b in zip(right, down, strict=True))
    return dhilgt.Graph.from_edges(src, dst)


def _star():
    return dhilgt.Graph.from_edges(np.zeros(499, int), np.arange(1, 500))


def _path():
    return dhilgt.Graph.from_edges(np.arange(399), np.arange(1, 400))


def _in_parts():
    """Three parts, and nodes without edges."""
    one = dhilgt.generate(300, 4, seed=4, num_features=0).to_edge_index()
    two = dhilgt.generate(200, 3, seed=5, num_features=0).to_edge_index() + 300
    src, dst = np.concatenate([one, two, [[500], [501]]], axis=1)
    return dhilgt.Graph.from_edges(src, dst, num_nodes=510)


def _words():
    graph = dhilgt.generate(200, 5, seed=6, num_features=0)
    names = np.array([f"node {at:03}" for at in range(200)])
    return dhilgt.Graph.from_edges(*names[graph.to_edge_index()], nodes=names)


GRAPHS = {
    "generated": lambda: dhilgt.generate(2000, 8, seed=1, num_features=0),
    "directed": lambda: dhilgt.generate(1500, 5, seed=2, num_features=0, directed=True),
    "grid": _grid,
    "star": _star,
    "path": _path,
    "in parts": _in_parts,
    "words": _words,
    "cora": lambda: dhilgt.datasets.load("cora"),
    "citeseer": lambda: dhilgt.datasets.load("citeseer"),
}
ORDERS = ("neighbor-degree", "core", "closeness", "random")
ROWS = {
    "tokens": {"size": 16},
    "tokens of 4 bits": {
        "size": 12, "bits": 4, "copies": 2, "seed": 7, "spill": True, "fill": "neighbors",
        "out_exponent": 1.0, "in_exponent": -2.5,
    },
}  # fmt: skip


# ---- bytes ---------------------------------------------------------------------------------------


def graph_bytes(name):
    """Return a digest of each file of the labels and tokens of a graph."""
    graph = GRAPHS[name]()
    files = {"graph": graph.fingerprint}
    if name in REAL:
        files["features"] = digest(np.ascontiguousarray(_dense(graph.features)).tobytes())
        files["classes"] = digest(graph.labels.tobytes())
        files |= {f"{part} nodes": digest(mask.tobytes()) for part, mask in graph.masks.items()}
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        labels = dhilgt.HubLabels.build(graph, order="degree-id", progress=False)
        labels.save(at / "labels")
        files |= _files(at / "labels")
        for kind, options in ROWS.items():
            dhilgt.Tokens.build(labels, path=at / kind, progress=False, **options)
            files |= _files(at / kind)
        if name == "words":
            for order in ORDERS:
                name = former_order(order)
                ranked = dhilgt.HubLabels.build(graph, order=name, seed=3, progress=False)
                ranked.save(at / f"labels by {order}")
                files |= _files(at / f"labels by {order}")
            before = graph_without(graph, 20)
            old = dhilgt.HubLabels.build(before, order="degree-id", progress=False)
            dhilgt.quick_labels(old, before, graph).save(at / "grown labels")
            files |= _files(at / "grown labels")
    return files


def hashed_bytes(name):
    """Return a digest of each file of labels whose ties are broken by a hash."""
    graph = GRAPHS[name]()
    orders = ("degree", *(ORDERS if name == "words" else ()))
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for order in orders:
            at = Path(folder) / f"labels by {order}"
            dhilgt.HubLabels.build(graph, order=order, seed=3, progress=False).save(at)
            files |= _files(at)
    return files


def graph_without(graph, count):
    """Return the graph without its last nodes."""
    kept = graph.num_nodes - count
    src, dst = graph.to_edge_index()
    inside = (src < kept) & (dst < kept)
    names = graph.nodes
    return dhilgt.Graph.from_edges(names[src[inside]], names[dst[inside]], nodes=names[:kept])


def _dense(features):
    return features.toarray() if hasattr(features, "toarray") else np.asarray(features)


def _files(folder):
    found = {
        f"{folder.name}/{path.name}": digest(path.read_bytes())
        for path in sorted(folder.glob("*.npy"))
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["library"], manifest["sha256"]  # they change with the version
    manifest["params"].pop("order", None)  # labels of 0.1.0 do not name theirs
    found[f"{folder.name}/manifest.json"] = digest(json.dumps(manifest, sort_keys=True).encode())
    return found


def generated_files():
    """Return digests of what `dhilgt generate` writes."""
    with tempfile.TemporaryDirectory() as folder:
        command("generate", "-o", folder, "--nodes", 300, "--seed", 9)
        return {path.name: digest(path.read_bytes()) for path in sorted(Path(folder).iterdir())}


# ---- scores --------------------------------------------------------------------------------------

QUICK = {
    "size": 12, "hidden_channels": 16, "num_layers": 2, "heads": 4, "epochs": 3, "lr": 5e-3,
    "warmup_epochs": 1, "batch_size": 128, "deterministic": True, "device": "cpu", "threads": 1,
    "seed": 0, "cache": False, "progress": False, "order": "degree-id",
}  # fmt: skip
TRAININGS = {
    "plain": {},
    "options": {
        "feature_scale": "rank", "hops": 2, "label_inputs": True, "copies": 2,
        "weight_average": 0.5, "output_layers": 2, "clip_norm": 1.0, "batch_size": 64,
    },
    "directed": {
        "fresh": True, "spill": True, "fill": "neighbors", "order": "closeness-id",
        "readout": "ego", "feature_scale": "standard", "hops": 1, "hop_kind": "stack",
        "hop_restart": 0.1,
        "optimizer": "adam", "decay": "none", "attention_dropout": 0.1, "bias_slope": 0.5,
    },
    "cora": {"epochs": 4},
}  # fmt: skip
CHANGED = {  # where the paper's settings take seconds, or were others when digits were recorded
    "ansgt": {
        "hidden_channels": 16, "ffn_channels": 16, "num_layers": 2, "sequences": 2, "period": 100,
    },
    "difformer": {"row_norm": True},
    "goat": {"hidden_channels": 16},
    "grpe": {"sampler": "khop", "size": 8, "batch_size": 20},  # of the whole graph is Graphormer
    "nagphormer": {"hidden_channels": 32},
}  # fmt: skip


def trained():
    """Return scores and predicted classes of short trainings; call it in a process of its own."""
    import torch

    torch.set_num_threads(1)
    graphs = {
        "plain": dhilgt.generate(500, 8, seed=1, num_features=8, num_classes=4),
        "options": dhilgt.generate(300, 6, seed=2, num_features=6, num_classes=3),
        "directed": dhilgt.generate(300, 4, seed=3, num_features=6, num_classes=3, directed=True),
    }
    if has_data():
        graphs["cora"] = dhilgt.datasets.load("cora")
    found = {}
    for name, graph in graphs.items():
        clf = dhilgt.NodeClassifier(**QUICK | TRAININGS[name], recipe="paper").fit(graph)
        found[name] = _outcome(clf.scores_, clf.predict())
    found |= {f"baseline {name}": _baseline(name) for name in dhilgt.baselines.names()}
    return {"platform": _platform(torch), "trainings": found}


def _baseline(name):
    graph = dhilgt.generate(200, 6, seed=4, num_features=6, num_classes=3, homophily=0.9)
    model = dhilgt.baselines.create(name, graph, seed=0, **CHANGED.get(name, {}))
    parts = {"train": range(100), "val": range(100, 150), "test": range(150, 200)}
    # The whole schedule, as when the digits were recorded: two epochs have little of it otherwise.
    recipe = model.train_config()
    schedule = {
        part: getattr(recipe, part) for part in ("warmup_epochs", "warmup_steps", "decay_steps")
    }
    config = model.train_config(epochs=2, deterministic=True, **schedule)
    result = dhilgt.baselines.fit(
        model, parts["train"], parts["val"], config, device="cpu", progress=False
    )
    scores = {
        part: result.trainer.evaluate(model.inference_batches(nodes))
        for part, nodes in parts.items()
    }
    nodes, logits = result.trainer.predict(model.inference_batches())
    return _outcome(scores, logits[np.argsort(nodes)].argmax(axis=1))


def _outcome(scores, predicted):
    return {
        "scores": {
            f"{part} {name}": round(float(value), 6)
            for part, one in scores.items()
            for name, value in one.items()
        },
        "classes": "".join(map(str, predicted.tolist())),
    }


def _platform(torch):
    """Return what rounding depends on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return {
        "torch": torch.__version__.partition("+")[0],
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "processor": ", ".join(sorted(names)),
    }


def trained_apart():
    """Return what `trained` returns in a process with one thread."""
    line = [sys.executable, "-m", "tests.byte_cases", "trained"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[1]
    ended = subprocess.run(
        line, cwd=root, env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(ended.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["trained"]:
        facts = trained()
    elif sys.argv[1:] == ["hashed"]:
        facts = {name: hashed_bytes(name) for name in GRAPHS}
    else:
        facts = {
            "version": dhilgt.__version__,
            "settings": dhilgt.Settings().to_dict(),
            "generated files": generated_files(),
            "bytes": {name: graph_bytes(name) for name in GRAPHS},
            **trained_apart(),
        }
    print(json.dumps(facts, indent=1))
