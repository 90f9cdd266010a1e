"""Artifacts on disk: atomic files, manifest, lock, shards."""

from dhilgt.store.artifact import Artifact, ArtifactWriter
from dhilgt.store.files import write_file
from dhilgt.store.shards import ShardWriter

__all__ = ["Artifact", "ArtifactWriter", "ShardWriter", "write_file"]
