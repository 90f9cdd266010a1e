"""Units that make the parts of the artifact from the shards of hubs."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.labels.packed import PackedLabelRows, joined, pack_rows
from dhilgt.labels.sharding.sections import Sections
from dhilgt.labels.sharding.units import HubShard, LabelPart, PartFile
from dhilgt.store.files import SUFFIX, explained, npy_chunks, plain_array, stored_bytes, write_file


def merge_range(
    folder: "str | PathLike[str]",
    shards: Sequence[HubShard],
    part: int,
    *,
    side: str,
) -> LabelPart:
    """Write the packed labels of one range of ranks, from the shards of all hubs.

    Args:
        folder: Where the shards are, and where to write.
        shards: The shards of all hubs; those of another side are passed over.
        part: Number of the range among the `label_bounds` of the shards.
        side: "in" or "out".

    Raises:
        ArtifactError: If a shard is missing or damaged, or ranks are left out.
    """
    chosen, opened = _opened(Path(folder), shards, side)
    bounds = opened[0].params["label_bounds"]
    first, last = bounds[part : part + 2]
    if chosen[-1].last != bounds[-1]:
        raise ArtifactError(f"no shard holds the hubs from rank {chosen[-1].last} on")
    columns = [one.array(f"part_{part:05d}").reshape(3, -1) for one in opened]
    nodes, hubs, distances = np.concatenate(columns, axis=1).astype(np.int64)
    by_node = np.lexsort((hubs, distances, nodes))
    rows = pack_rows(
        np.bincount(nodes - first, minlength=last - first), hubs[by_node], distances[by_node]
    )
    longest = int(distances.max(initial=0))
    files = _write_rows(Path(folder), side, part, rows)
    return LabelPart("labels", side, part, first, last, len(nodes), longest, files, 0)


def merge_holders(
    folder: "str | PathLike[str]",
    shards: Sequence[HubShard],
    part: int,
    *,
    side: str,
    holder_bounds: Sequence[int],
) -> LabelPart:
    """Write the packed inverted labels of one range of hubs, from the shards that lie in it.

    Args:
        folder: Where the shards are, and where to write.
        shards: The shards of all hubs; those of another side are passed over.
        part: Number of the range among `holder_bounds`.
        side: "in" or "out".
        holder_bounds: Ranks where the parts begin, and the number of nodes; each is where a shard
            begins.

    Raises:
        ArtifactError: If a shard is missing or damaged, or ranks are left out.
    """
    first, last = holder_bounds[part : part + 2]
    inside = [one for one in shards if first <= one.first and one.last <= last]
    if first == last:
        rows = PackedLabelRows(np.zeros(1, np.uint64), np.empty(0, np.uint8))
        files = _write_rows(Path(folder), f"{side}_holder", part, rows)
        return LabelPart("holders", side, part, first, last, 0, 0, files, 0)
    chosen, opened = _opened(Path(folder), inside, side, start=first)
    if chosen[-1].last != last:
        raise ArtifactError(f"no shard holds the hubs from rank {chosen[-1].last} to {last}")
    rows = PackedLabelRows(np.zeros(1, np.uint64), np.empty(0, np.uint8))
    for one in opened:
        rows = joined(
            rows, PackedLabelRows(one.array("holder_offsets"), one.array("holder_records"))
        )
    files = _write_rows(Path(folder), f"{side}_holder", part, rows)
    entries = sum(one.num_entries for one in chosen)
    longest = max(one.max_distance for one in chosen)
    return LabelPart("holders", side, part, first, last, entries, longest, files, 0)


def _opened(
    folder: Path, shards: Sequence[HubShard], side: str, start: int = 0
) -> tuple[list[HubShard], list[Sections]]:
    """Return the shards of a side by rank, which must follow each other, and their files."""
    chosen = sorted(one for one in shards if one.side == side)
    at = start
    for one in chosen:
        if one.first != at:
            raise ArtifactError(f"no shard holds the hubs from rank {at} to {one.first}")
        at = one.last
    if not chosen:
        raise ArtifactError(f"there is no shard of the side {side!r}")
    opened = [Sections(folder / one.name, one.sha256) for one in chosen]
    common = [
        (one.params["fingerprint"], one.params["label_bounds"], one.params["radius"])
        for one in opened
    ]
    for one, values in zip(opened, common, strict=True):
        if values != common[0]:
            raise ArtifactError(
                f"{one.path} was made with another graph, order, radius or other parts than "
                f"{opened[0].path}"
            )
    return chosen, opened


def _write_rows(
    folder: Path, prefix: str, part: int, rows: PackedLabelRows
) -> tuple[PartFile, ...]:
    return (
        _write_array(folder, f"{prefix}_offsets_{part:05d}", rows.offsets),
        _write_array(folder, f"{prefix}_records_{part:05d}", rows.records),
    )


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> PartFile:
    plain = plain_array(name, array)
    stored = stored_bytes(plain)
    sha256 = stored.sha256()
    path = folder / f"{name}-{sha256[:32]}{SUFFIX}"
    with explained("write", path, plain.nbytes):
        write_file(path, npy_chunks(plain))
    return PartFile(name, path.name, plain.dtype.str, plain.size, sha256, stored.blocks())
