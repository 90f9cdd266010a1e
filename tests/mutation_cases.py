"""One of every kind of file the package writes, ways to damage it, and what a reader makes of it.

A damaged file is refused, with its name, or (in the cache) made again with a warning, or it makes
no difference. A result that differs without a word is what `test_mutations.py` looks for.
"""

import hashlib
import json
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from scipy.sparse import csr_array

from dhilgt import DHILGT, ArtifactError, Graph, HubLabels, NodeClassifier, Tokens
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.serving import export_classifier
from dhilgt.graph.store import load_graph, save_graph
from dhilgt.model.export import WRITERS
from dhilgt.store.exports import read_export
from dhilgt.training.checkpoint import Checkpoint, CheckpointFolder

NODES = 40
REFUSED, REBUILT, SAME = "refused", "made again", "no difference"
REPLACED = "the other build, whole"  # where the files replaced are all that make up an artifact
UNNAMED, SILENT = "refused without a name", "other results without a word"


@dataclass(frozen=True)
class Kind:
    """A kind of artifact: how one is written to a folder, and a digest of all that is read."""

    write: Callable[[Path, int], None]
    read: Callable[[Path], str]


# ---- what is written -----------------------------------------------------------------------------


def graph_of(seed=0, *, directed=False, sparse=False):
    """Draw a graph; the seed decides its features and classes, not its edges."""
    rng = np.random.default_rng(seed)
    ring = np.arange(NODES)
    source, target = np.tile(ring, 2), np.append(ring + 1, ring * 7 + 3) % NODES
    features = rng.normal(size=(NODES, 3)).astype(np.float32)
    names = np.array([f"node-{at:02}" for at in range(NODES)])
    parts = rng.permutation(np.array(["train", "val", "test", "test"])[ring % 4])
    return Graph.from_edges(
        names[source],
        names[target],
        nodes=names,
        directed=directed,
        features=csr_array(np.where(features > 1, features, 0)) if sparse else features,
        labels=rng.permutation(np.array(["ash", "birch"])[ring % 2]),
        masks={part: parts == part for part in ("train", "val", "test")},
    )


def labels_of(seed=0, *, directed=False):
    """Of one graph, in an order by seed."""
    graph = graph_of(directed=directed)
    return HubLabels.build(graph, order="random", seed=seed, progress=False)


def classifier_of(seed):
    settings = {"size": 4, "hidden_channels": 8, "num_layers": 1, "heads": 2, "epochs": 1}
    options = {"feature_scale": "standard", "hop_channels": 2, "label_inputs": True}
    options |= {"batch_size": 16}
    quiet = {"cache": False, "progress": False, "device": "cpu", "threads": 1}
    quiet["recipe"] = "paper"
    return NodeClassifier(**settings, **options, **quiet, seed=seed).fit(graph_of(seed))


def write_checkpoints(folder, seed):
    for epoch in (1, 2):
        tensors = {"w": torch.arange(6.0) * (seed + epoch), "steps": torch.tensor([epoch])}
        values = {"seed": seed, "state": {"epoch": epoch, "batch": 0}, "scores": [0.5, None]}
        CheckpointFolder(folder).save(epoch, 0, Checkpoint(tensors, {"w": -tensors["w"]}, values))


def write_export(folder, seed):
    """Export as a classifier is; the model's file is a few bytes, as tracing one takes seconds."""
    folder.mkdir()
    stub = {".pt2": lambda _, file: file.write_bytes(b"model %d" % seed * 99)}
    clf = classifier_of(seed)
    member = clf.members_[0]
    settings = replace(member.settings, neighbor_inputs=True)
    pipeline = Pipeline(clf.graph_, settings, cache=None, progress=False)
    clf.members_ += (replace(member, settings=settings, pipeline=pipeline),)  # with other inputs
    with mock.patch.dict(WRITERS, stub):
        export_classifier(clf, folder / "model.pt2")


def write_model(folder, seed):
    torch.manual_seed(seed)
    DHILGT(in_channels=3, hidden_channels=8, out_channels=2, heads=2, num_layers=1).save_pretrained(
        folder
    )


# ---- what is read --------------------------------------------------------------------------------


def digest(*values):
    found = hashlib.sha256()
    for value in values:
        if hasattr(value, "tocsr"):
            value = value.toarray()
        if isinstance(value, np.ndarray) and value.dtype != object:
            found.update(str((value.dtype, value.shape)).encode() + value.tobytes())
        elif isinstance(value, torch.Tensor):
            found.update(digest(value.numpy()).encode())
        elif isinstance(value, dict):
            found.update(
                digest(*(part for pair in sorted(value.items()) for part in pair)).encode()
            )
        else:
            found.update(repr(value).encode())
    return found.hexdigest()


def graph_digest(graph):
    ids, masks = graph.nodes.tolist(), dict(graph.masks)
    return digest(
        graph.offsets, graph.targets, ids, graph.features, graph.labels, graph.class_names, masks,
        graph.directed, graph.cleaning,
    )  # fmt: skip


def labels_digest(labels):
    ids = labels.ids.all
    pairs = np.repeat(ids, NODES), np.tile(ids, NODES)
    distances, hubs = labels.witnesses(*pairs)
    return digest(
        ids.tolist(), distances, hubs.tolist(), labels.order, labels.fingerprint, repr(labels)
    )


def tokens_digest(tokens):
    rows = [tokens.packed_rows(tokens.nodes, copy) for copy in range(tokens.copies)]
    return digest(
        tokens.nodes, *(array for one in rows for array in one), tokens.plan, tokens.copies
    )


def run_digest(folder):
    clf = NodeClassifier.load(folder).set_params(progress=False)
    return digest(
        clf.stages_, clf.classes_, clf.scores_, clf.result_, clf.settings_, clf.batch_size_,
        clf.split_, clf.predict_proba(), graph_digest(clf.graph_),
    )  # fmt: skip


def model_digest(folder):
    model = DHILGT.from_pretrained(folder)
    return digest(model.config, dict(model.state_dict()))


def checkpoint_digest(folder):
    found = CheckpointFolder(folder).load()
    return digest(None if found is None else (found.values, digest(found.training, found.best)))


def export_digest(folder):
    export = read_export(folder / "model.pt2")
    parts = [
        (one.facts, one.known, one.scale, one.projection, one.ego)
        for one in (export, *export.members)
    ]
    model = (folder / "model.pt2").read_bytes()
    return digest(*(part for several in parts for part in several), model)


def cached_labels(folder):
    return Cache(folder).labels(graph_of(), "random", seed=0, progress=False)


def cached_tokens(folder, seed=0):
    return Cache(folder).tokens(labels_of(), {"size": 6, "seed": seed}, progress=False)


def cached_graph(folder):
    return Cache(folder).graph("drawn", graph_of, progress=False)


KINDS = {
    "graph": Kind(
        lambda at, seed: save_graph(graph_of(seed), at), lambda at: graph_digest(load_graph(at))
    ),
    "directed sparse graph": Kind(
        lambda at, seed: save_graph(graph_of(seed, directed=True, sparse=True), at),
        lambda at: graph_digest(load_graph(at)),
    ),
    "labels": Kind(
        lambda at, seed: labels_of(seed).save(at), lambda at: labels_digest(HubLabels.load(at))
    ),
    "directed labels": Kind(
        lambda at, seed: labels_of(seed, directed=True).save(at),
        lambda at: labels_digest(HubLabels.load(at)),
    ),
    "tokens": Kind(
        lambda at, seed: Tokens.build(
            labels_of(), size=6, copies=2, seed=seed, path=at, progress=False
        ),
        lambda at: tokens_digest(Tokens.load(at)),
    ),
    "tokens of some nodes": Kind(
        lambda at, seed: Tokens.build(
            labels_of(), size=6, bits=4, nodes=range(seed, 20 + seed), path=at, progress=False
        ),
        lambda at: tokens_digest(Tokens.load(at)),
    ),
    "model": Kind(write_model, model_digest),
    "run": Kind(lambda at, seed: classifier_of(seed).save(at), run_digest),
    "checkpoints": Kind(write_checkpoints, checkpoint_digest),
    "export": Kind(write_export, export_digest),
    "cached labels": Kind(
        lambda at, seed: Cache(at).labels(graph_of(), "random", seed=seed, progress=False),
        lambda at: labels_digest(cached_labels(at)),
    ),
    "cached tokens": Kind(cached_tokens, lambda at: tokens_digest(cached_tokens(at))),
    "cached graph": Kind(
        lambda at, seed: Cache(at).graph("drawn", lambda: graph_of(seed), progress=False),
        lambda at: graph_digest(cached_graph(at)),
    ),
}


PARTS = ("run", "cached labels", "cached tokens", "cached graph")


# ---- damage --------------------------------------------------------------------------------------


def flip_a_bit(rng, file, _):
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def zero_a_block(rng, file, _):
    data = bytearray(file.read_bytes())
    start = rng.randrange(len(data))
    length = min(len(data) - start, rng.choice([1, 16, 512]))
    data[start : start + length] = bytes(length)
    file.write_bytes(data)


def truncate(rng, file, _):
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data))])


def extend(rng, file, _):
    file.write_bytes(file.read_bytes() + rng.choice([b"\0", b"\n", b" ", b"{}", b"\xff" * 64]))


def delete(_, file, __):
    file.unlink()


def swap_two_files(rng, file, _):
    others = [one for one in files_of(file.parent) if one != file and one.suffix == file.suffix]
    if others:
        other = rng.choice(others)
        ours, theirs = file.read_bytes(), other.read_bytes()
        file.write_bytes(theirs)
        other.write_bytes(ours)


def take_from_another_build(rng, file, other):
    if other is not None:
        file.write_bytes(other.read_bytes())


def take_the_folder_of_another_build(rng, file, other):
    """Replace all files beside it, as a copy of a part of another artifact does."""
    if other is not None:
        for one in files_of(other.parent):
            shutil.copy(one, file.parent / one.name)


def change_a_value(rng, file, _):
    """Change one value of a JSON file, written as before; of other files, a byte."""
    try:
        values = json.loads(file.read_bytes())
    except ValueError:
        data = bytearray(file.read_bytes())
        data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(data)
        return
    places = list(_places(values))
    if places:
        holder, key = rng.choice(places)
        if rng.random() < 0.2 and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = _other(rng, holder[key])
        file.write_text(json.dumps(values, indent=rng.choice([1, 2]), sort_keys=True) + "\n")


def _places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def _other(rng, value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, -value, value * 2 + 1])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], ""])
    return rng.choice([None, 0, []])


DAMAGES = [
    flip_a_bit, zero_a_block, truncate, extend, delete, swap_two_files, take_from_another_build,
    take_the_folder_of_another_build, change_a_value,
]  # fmt: skip


def files_of(folder):
    """All files below a folder, in a fixed order; stamps and locks of the cache left out."""
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return sorted(path for path in found if not path.name.startswith("."))


# ---- outcomes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one damage."""

    verdict: str
    damage: str
    file: str
    detail: str = ""


class Bench:
    """Two builds of one kind of artifact; each damage is done to a fresh copy of the first."""

    def __init__(self, name, folder):
        self.name, self.kind, self.folder = name, KINDS[name], Path(folder)
        self.whole, self.other = self.folder / "whole", self.folder / "other"
        for place, seed in ((self.whole, 0), (self.other, 1)):
            self.kind.write(place, seed)
        self.expected = self.kind.read(self.whole)
        # A cache, or a run, is more than the files that make up one artifact.
        self.replaced = None if name in PARTS else self.kind.read(self.other)

    def outcome(self, number):
        """Damage a copy, as the number determines, and read it."""
        rng = random.Random(f"{self.name} {number}")
        damage = DAMAGES[number % len(DAMAGES)]
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.whole, copy)
        file = rng.choice(files_of(copy))
        where = file.relative_to(copy)
        damage(rng, file, self._counterpart(where))
        verdict, detail = self._read(copy)
        return Outcome(verdict, damage.__name__, str(where), detail)

    def _counterpart(self, where):
        """Return the file of the other build; of a cache, the one in its entry."""
        if (self.other / where).exists():
            return self.other / where
        return next((one for one in files_of(self.other) if one.name == where.name), None)

    def _read(self, copy):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = self.kind.read(copy)
            except ArtifactError as error:
                named = any(file.name in str(error) for file in files_of(self.whole))
                return REFUSED if named else UNNAMED, str(error)
        told = "; ".join(str(one.message) for one in said if " " in str(one.message))
        if found == self.expected:
            return (REBUILT if "made again" in told else SAME), told
        return (REPLACED if found == self.replaced else SILENT), told
