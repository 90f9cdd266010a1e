"""Labels in parts on disk: rows of labels and of inverted labels, cut into ranges of ranks."""

import itertools
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ArtifactError
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.labels.store import StoredLabels, stored_labels
from dhilgt.store.artifact import Artifact

KIND = "sharded-labels"
FORMAT = 1


@dataclass(frozen=True)
class PackedParts:
    """Packed rows of all ranks, in parts.

    Attributes:
        bounds: Ranks where the parts begin, and the number of nodes.
        sides: For each side, the rows of each part.
    """

    bounds: list[int]
    sides: list[list[PackedLabelRows]]

    @property
    def num_bytes(self) -> int:
        """Bytes of the records of all sides."""
        return sum(len(rows.records) for side in self.sides for rows in side)

    def native(self) -> _native.Labels:
        """Return the rows as native labels, mapped."""
        arrays = tuple(array for side in self.sides for rows in side for array in rows)
        return _native.labels_from_parts(len(self.sides) == 2, self.bounds, arrays)

    def rows_of(self, ranks: NDArray[np.integer[Any]], side: int) -> PackedLabelRows:
        """Return the packed rows of some ranks, in their order.

        Args:
            ranks: Ranks; they may repeat.
            side: 0 for "in", 1 for "out"; on undirected graphs both are the same.
        """
        chosen = np.asarray(ranks)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < self.bounds[-1]:
            raise IndexError(f"ranks must be from 0 to {self.bounds[-1] - 1}")
        return PackedLabelRows(*self._mapped.packed_records(chosen.astype(np.uint32), side))

    @cached_property
    def _mapped(self) -> _native.Labels:
        return self.native()

    def joined(self) -> list[PackedLabelRows]:
        """Return the rows of each side in one piece."""
        return [_joined(side) for side in self.sides]


@dataclass(frozen=True)
class ShardedLabels:
    """The content of the folder.

    Attributes:
        stored: Order, ids and numbers; it holds no rows.
        labels: The labels.
        holders: The inverted labels.
        radius: The largest distance of an entry; None for any.
        path: The folder.
    """

    stored: StoredLabels
    labels: PackedParts
    holders: PackedParts
    radius: int | None
    path: Path


def load(path: "str | PathLike[str]", *, verify: bool) -> ShardedLabels:
    """Open labels in parts; all rows stay mapped, and of large files a sample is checked."""
    artifact = Artifact.open(path, kind=KIND, max_format=FORMAT)
    if verify:
        artifact.verify()
    stored = stored_labels(artifact, [], verified=verify)
    radius = artifact.params.get("radius")
    if radius is not None and (isinstance(radius, bool) or not isinstance(radius, int)):
        raise ArtifactError(f"{artifact.path}: radius = {radius!r} is not a number; build again")
    return ShardedLabels(
        stored, label_parts(artifact), holder_parts(artifact), radius, artifact.path.absolute()
    )


def label_parts(artifact: Artifact, *, check: bool = True) -> PackedParts:
    """Return the labels of an artifact, mapped.

    Args:
        artifact: The artifact.
        check: False leaves the bytes unchecked.
    """
    return _parts(artifact, "label_bounds", "", check)


def holder_parts(artifact: Artifact, *, check: bool = True) -> PackedParts:
    """Return the inverted labels of an artifact, mapped.

    Args:
        artifact: The artifact.
        check: False leaves the bytes unchecked.
    """
    return _parts(artifact, "holder_bounds", "_holder", check)


def _parts(artifact: Artifact, key: str, middle: str, check: bool) -> PackedParts:
    names = ("in", "out") if artifact.params.get("directed") is True else ("in",)
    bounds = _bounds(artifact, key)
    sides = []
    for name in names:
        rows = []
        for part, (first, last) in enumerate(itertools.pairwise(bounds)):
            offsets = artifact.array(f"{name}{middle}_offsets_{part:05d}", check=check)
            records = artifact.array(f"{name}{middle}_records_{part:05d}", check=check)
            fits = offsets.dtype == np.uint64 and offsets.shape == (last - first + 1,)
            if not fits or records.dtype != np.uint8 or records.ndim != 1:
                raise ArtifactError(
                    f"{artifact.path}: {name}{middle}_offsets_{part:05d} does not fit its "
                    f"{last - first} ranks; build again"
                )
            rows.append(PackedLabelRows(np.asarray(offsets), np.asarray(records)))
        sides.append(rows)
    return PackedParts(bounds, sides)


def _bounds(artifact: Artifact, key: str) -> list[int]:
    bounds = artifact.params.get(key)
    if isinstance(bounds, list) and len(bounds) > 1 and all(type(one) is int for one in bounds):
        ends = [bounds[0], bounds[-1]]
        if ends == [0, artifact.params.get("num_nodes")] and bounds == sorted(bounds):
            return bounds
    raise ArtifactError(f"{artifact.path}: {key} do not fit the nodes; build again")


def _joined(parts: list[PackedLabelRows]) -> PackedLabelRows:
    sizes = np.cumsum([0, *(len(rows.records) for rows in parts)]).astype(np.uint64)
    starts = [rows.offsets[:-1] + before for rows, before in zip(parts, sizes[:-1], strict=True)]
    offsets = np.concatenate([*starts, sizes[-1:]])
    return PackedLabelRows(offsets, np.concatenate([rows.records for rows in parts]))
