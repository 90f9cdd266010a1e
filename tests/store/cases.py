"""Artifacts to write, at once and shard by shard."""

import multiprocessing

import numpy as np

from dhilgt.store.artifact import ArtifactWriter
from dhilgt.store.manifest import find_artifact, read_manifest
from dhilgt.store.shards import ShardWriter

SHARDS = [f"rows-{i:03}" for i in range(4)]
PLAN = {
    "kind": "tokens",
    "format_version": 1,
    "params": {"size": 8, "seed": 3},
    "fingerprint": "f1",
}
fork = multiprocessing.get_context("fork")


def write(path, scale=1, **options):
    with ArtifactWriter(path, kind="labels", format_version=1, **options) as writer:
        writer.write_array("hubs", np.arange(50) * scale)
        writer.write_array("dist", np.arange(30, dtype=np.uint8) * scale)


def build(path, *, shards=SHARDS, plan=PLAN, **options):
    """A long build as its callers write it."""
    with ShardWriter(path, **plan, shard_names=shards, **options) as writer:
        writer.write_array("shared", np.arange(7))
        for name in shards:
            if name not in writer.done:
                writer.write_shard(name, shard(name))
        writer.commit()


def shard(name):
    return np.arange(500, dtype=np.int32).reshape(-1, 5) * int(name[-3:])


def kind_of(path):
    """The kind of an artifact, from its manifest alone."""
    return read_manifest(find_artifact(path)).kind


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def whole_build(folder):
    """What an uninterrupted build makes: the contents of its files."""
    build(folder / "tokens")
    assert names(folder) == ["tokens"]
    assert names(folder / "tokens") == sorted(
        ["manifest.json", "shared.npy", *(f"{name}.npy" for name in SHARDS)]
    )
    return contents(folder / "tokens")
