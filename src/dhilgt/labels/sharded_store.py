"""Labels in parts on disk: rows of labels and of inverted labels, cut into ranges of ranks."""

import itertools
from dataclasses import dataclass
from os import PathLike
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
        parts = self.sides[side % len(self.sides)]
        ranks = np.asarray(ranks, np.int64)
        if ranks.size and not 0 <= ranks.min() <= ranks.max() < self.bounds[-1]:
            raise IndexError(f"ranks must be from 0 to {self.bounds[-1] - 1}")
        part_of = np.searchsorted(self.bounds, ranks, side="right") - 1
        begins = np.empty(len(ranks), np.int64)
        sizes = np.empty(len(ranks), np.int64)
        for part in np.unique(part_of).tolist():
            here = part_of == part
            rows = parts[part].offsets
            at = ranks[here] - self.bounds[part]
            begins[here] = rows[at].astype(np.int64)
            sizes[here] = rows[at + 1].astype(np.int64) - begins[here]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        records = np.empty(offsets[-1], np.uint8)
        for part in np.unique(part_of).tolist():
            here = part_of == part
            lengths = sizes[here]
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            target = np.repeat(offsets[:-1][here], lengths) + within
            records[target] = parts[part].records[np.repeat(begins[here], lengths) + within]
        return PackedLabelRows(offsets.astype(np.uint64), records)

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
    """

    stored: StoredLabels
    labels: PackedParts
    holders: PackedParts
    radius: int | None


def load(path: "str | PathLike[str]", *, verify: bool) -> ShardedLabels:
    """Open labels in parts; all rows stay mapped, and of large files a sample is checked."""
    artifact = Artifact.open(path, kind=KIND, max_format=FORMAT)
    if verify:
        artifact.verify()
    names = ("in", "out") if artifact.params.get("directed") is True else ("in",)
    stored = stored_labels(artifact, [], verified=verify)
    radius = artifact.params.get("radius")
    if radius is not None and (isinstance(radius, bool) or not isinstance(radius, int)):
        raise ArtifactError(f"{artifact.path}: radius = {radius!r} is not a number; build again")
    return ShardedLabels(
        stored,
        _parts(artifact, names, "label_bounds", ""),
        _parts(artifact, names, "holder_bounds", "_holder"),
        radius,
    )


def _parts(artifact: Artifact, names: tuple[str, ...], key: str, middle: str) -> PackedParts:
    bounds = _bounds(artifact, key)
    sides = []
    for name in names:
        rows = []
        for part, (first, last) in enumerate(itertools.pairwise(bounds)):
            offsets = artifact.array(f"{name}{middle}_offsets_{part:05d}")
            records = artifact.array(f"{name}{middle}_records_{part:05d}")
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
