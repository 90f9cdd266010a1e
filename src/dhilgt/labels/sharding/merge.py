"""Units that make the parts of the artifact from the shards of hubs."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ArtifactError, MemoryLimitError, advice
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.rest import open_rest
from dhilgt.labels.sharding.search import checked_range
from dhilgt.labels.sharding.sections import write_once
from dhilgt.labels.sharding.slices import opened_shards, slices_of
from dhilgt.labels.sharding.units import HubShard, LabelPart, PartFile, RestFound, TopTable
from dhilgt.store.files import SUFFIX, explained, npy_chunks, plain_array, stored_bytes
from dhilgt.utils.memory import format_bytes, memory_limit


def merge_range(
    folder: "str | PathLike[str]",
    shards: Sequence[HubShard],
    part: int,
    *,
    side: str,
    max_memory: int | str | None = None,
) -> LabelPart:
    """Write the packed labels of one range of ranks, from the shards of all hubs.

    It reads only the slices of the shards that belong to the range, all at once and each from its
    beginning to its end; the rows of the range are all that is in memory.

    Args:
        folder: Where the shards are, and where to write.
        shards: The shards of all hubs; those of another side are passed over.
        part: Number of the range among the `label_bounds` of the shards.
        side: "in" or "out".
        max_memory: Limit on the memory beyond the mapped files; None for what is free.

    Raises:
        ArtifactError: If a shard is missing or damaged, or ranks are left out.
        MemoryLimitError: If the part does not fit `max_memory`.
    """
    num_nodes = max((one.last for one in shards), default=0)
    if num_nodes == 0:
        raise ArtifactError(f"there are no shards of side {side!r} to merge")
    opened = opened_shards(folder, shards, side, 0, num_nodes)
    bounds = opened[0].label_bounds
    if bounds[-1] != num_nodes:
        raise ArtifactError(f"hub {num_nodes} of side {side!r} is in no shard; run it again")
    first, last = bounds[part : part + 2]
    try:
        rows, peak = _native.merge_slices(
            slices_of(opened, part), first, last, num_nodes, memory_limit(max_memory), None
        )
    except _native.OutOfBudget as error:
        needed, limit, _ = error.args
        raise MemoryLimitError(
            f"the labels of the ranks {first} to {last - 1} outgrew the memory limit: "
            f"{format_bytes(needed)} needed, {format_bytes(limit)} allowed; "
            f"{advice('raise {}, or ', 'max_memory')}cut the labels into more parts"
        ) from None
    return _label_part(folder, side, part, (first, last), rows, peak)


def merge_with_rest(
    graph: RankedGraphFiles,
    top: TopTable,
    found: RestFound,
    part: int,
    *,
    side: str,
    label_bounds: Sequence[int],
    folder: "str | PathLike[str]",
    radius: int | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> LabelPart:
    """Write the packed labels of one range of ranks, from the table and what was found after it.

    Args:
        graph: The graph in rank space.
        top: Labels of all hubs before those of the last stage.
        found: What is found in the last stage; levels that are not in it are found again.
        part: Number of the range among `label_bounds`.
        side: "in" or "out".
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where the files are, and where to write.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use.

    Raises:
        ArtifactError: If a file is missing or damaged.
        MemoryLimitError: If the search and the part do not fit `max_memory`.
    """
    bounds = checked_range(graph, top.num_hubs, graph.num_nodes, side, label_bounds, radius)
    first, last = bounds[part : part + 2]
    limits = (bounds, Path(folder), radius, max_memory, threads)
    with open_rest(graph, top, found, *limits, whole=True) as native:
        rows = native.labels(graph.sides.index(side), first, last)
    return _label_part(folder, side, part, (first, last), rows, native.peak_bytes)


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
    opened = opened_shards(folder, shards, side, first, last)
    rows = [
        (one.sections.array("holder_offsets"), one.sections.array("holder_records"))
        for one in opened
    ]
    offsets = np.empty(last - first + 1, np.uint64)
    records = np.empty(sum(len(bytes_) for _, bytes_ in rows), np.uint8)
    at = 0
    for one, (starts, bytes_) in zip(opened, rows, strict=True):
        offsets[one.first - first : one.last - first] = starts[:-1] + np.uint64(at)
        records[at : at + len(bytes_)] = bytes_
        at += len(bytes_)
    offsets[-1] = at
    files = _write_rows(Path(folder), f"{side}_holder", part, PackedLabelRows(offsets, records))
    return LabelPart(
        kind="holders",
        side=side,
        part=part,
        first=first,
        last=last,
        num_entries=sum(one.sections.params["num_entries"] for one in opened),
        max_distance=max(one.sections.params["max_distance"] for one in opened),
        files=files,
        peak_bytes=offsets.nbytes + records.nbytes,
    )


def _label_part(
    folder: "str | PathLike[str]",
    side: str,
    part: int,
    ranks: tuple[int, int],
    rows: tuple[Any, ...],
    peak_bytes: int,
) -> LabelPart:
    offsets, records, entries, longest = rows
    files = _write_rows(Path(folder), side, part, PackedLabelRows(offsets, records))
    return LabelPart("labels", side, part, *ranks, entries, longest, files, peak_bytes)


def _write_rows(
    folder: Path, prefix: str, part: int, rows: PackedLabelRows
) -> tuple[PartFile, ...]:
    return (
        _write_array(folder, f"{prefix}_offsets_{part:05d}", rows.offsets),
        _write_array(folder, f"{prefix}_records_{part:05d}", rows.records),
    )


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> PartFile:
    plain = plain_array(name, array)
    with explained("write", folder / name, plain.nbytes):
        sha256 = write_once(folder, name, npy_chunks(plain), lambda found: _file_name(name, found))
    blocks = stored_bytes(plain).blocks()
    return PartFile(name, _file_name(name, sha256), plain.dtype.str, plain.size, sha256, blocks)


def _file_name(name: str, sha256: str) -> str:
    return f"{name}-{sha256[:32]}{SUFFIX}"
