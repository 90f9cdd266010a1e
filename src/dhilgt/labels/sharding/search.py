"""Units of a sharded build that find the label entries of a range of hubs."""

import itertools
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from dhilgt import _native
from dhilgt.errors import ConfigError, MemoryLimitError, advice, argument
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.sections import write_sections
from dhilgt.labels.sharding.table import mapped_table
from dhilgt.labels.sharding.units import HubShard, TopTable
from dhilgt.utils.checks import num_threads
from dhilgt.utils.memory import format_bytes, memory_limit

KIND = "hub-shard"
FORMAT = 1
NO_RADIUS = 2**32 - 1
_WIDTHS = (8, 4, 2)  # words of 64 hubs in a row of the planes


def search_hubs(
    files: RankedGraphFiles,
    first: int,
    last: int,
    *,
    side: str,
    label_bounds: Sequence[int],
    folder: "str | PathLike[str]",
    radius: int | None = None,
    top: TopTable | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> HubShard:
    """Find all label entries whose hub ranks from `first` to `last - 1`, and write one file.

    It needs the graph and the order alone: units can run in any order, on any machine, and again.
    The same unit writes the same bytes under the same name, whatever `top`, `max_memory` and
    `threads` are.

    Args:
        files: The graph in rank space.
        first: Rank of the first hub.
        last: Rank after the last one.
        side: "in" for entries of the in-labels, that is for searches along the edges; "out" for
            those against them.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where to write, and where the table is.
        radius: The largest distance of an entry; None for any.
        top: Labels of the best hubs, for ranges that begin after them. With a table, the hubs are
            searched from one by one; without, many at once.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use.

    Raises:
        MemoryLimitError: If the unit does not fit `max_memory`.
        ArtifactError: If the table is damaged or the file cannot be written.
    """
    start = time.perf_counter()
    bounds = checked_range(files, first, last, side, label_bounds, radius)
    limit, workers = memory_limit(max_memory), num_threads(threads)
    along, against = files.forward, files.backward
    push, pull = (along, against) if side == "in" else (against, along)
    try:
        rows, ends, slices, arcs, tests, peak = _native.search_hubs(
            *push,
            *pull,
            first,
            last,
            NO_RADIUS if radius is None else radius,
            0 if top is not None else _plane_words(files.num_nodes, last - first, workers, limit),
            None if top is None else mapped_table(files, top, folder, side),
            bounds,
            workers,
            limit,
            None,
        )
    except _native.OutOfBudget as error:
        raise limit_error(first, last, error) from None
    parts = {
        f"part_{part:05d}": slices[begin:end]
        for part, (begin, end) in enumerate(itertools.pairwise(ends.tolist()))
    }
    shard = write_shard(files, first, last, side, bounds, radius, Path(folder), rows, parts)
    seconds = time.perf_counter() - start
    return shard._replace(seconds=seconds, arcs=arcs, tests=tests, peak_bytes=peak)


def write_shard(
    files: RankedGraphFiles,
    first: int,
    last: int,
    side: str,
    bounds: list[int],
    radius: int | None,
    folder: Path,
    rows: tuple[Any, ...],
    slices: dict[str, Any],
) -> HubShard:
    """Write the file of a shard, from what a native search returns.

    Args:
        files: The graph in rank space.
        first: Rank of the first hub.
        last: Rank after the last one.
        side: The side.
        bounds: Ranks where the parts of the labels begin, and the number of nodes.
        radius: Of the search.
        folder: Where to.
        rows: The packed inverted labels, their number of entries, and the longest distance.
        slices: The same entries by node, for each part of the labels; none where the labels are
            not merged from them.
    """
    offsets, records, entries, longest = rows
    sections = {"holder_offsets": offsets, "holder_records": records, **slices}
    params = {
        "kind": KIND,
        "format": FORMAT,
        "fingerprint": files.fingerprint,
        "side": side,
        "first": first,
        "last": last,
        "radius": radius,
        "label_bounds": bounds,
        "num_entries": entries,
        "max_distance": longest,
    }
    name = f"hubs-{side}-{first:010d}-{last:010d}"
    written = write_sections(folder, name, params, sections)
    return HubShard(
        first=first,
        last=last,
        side=side,
        name=written.name,
        sha256=written.sha256,
        num_entries=entries,
        num_bytes=written.num_bytes,
        max_distance=longest,
    )


def checked_range(
    files: RankedGraphFiles,
    first: int,
    last: int,
    side: str,
    label_bounds: Sequence[int],
    radius: int | None,
) -> list[int]:
    """Return the bounds of the parts, or raise if they, the hubs or the radius make no sense."""
    if side not in files.sides:
        raise ConfigError(f"{argument('side', side)}: the graph has the sides {files.sides}")
    if not 0 <= first < last <= files.num_nodes:
        raise ConfigError(f"hubs [{first}, {last}) are not ranks below {files.num_nodes}")
    if radius is not None and not 1 <= radius < NO_RADIUS:
        raise ConfigError(f"{argument('radius', radius)} is not a distance of 1 or more")
    bounds = list(label_bounds)
    ends = [bounds[0], bounds[-1]] if len(bounds) > 1 else []
    if ends != [0, files.num_nodes] or bounds != sorted(bounds):
        raise ConfigError(
            f"{argument('label_bounds', bounds)} do not ascend from 0 to {files.num_nodes}"
        )
    return bounds


def _plane_words(num_nodes: int, num_hubs: int, threads: int, limit: int) -> int:
    """Return the width of the planes that fit half the memory; 0 if none do: hub by hub."""
    for words in _WIDTHS:
        is_needed = words == _WIDTHS[-1] or num_hubs > 64 * words // 2
        blocks = -(-num_hubs // (64 * words))
        if is_needed and _native.plane_bytes(num_nodes, words) * min(threads, blocks) <= limit // 2:
            return words
    return 0


def limit_error(first: int, last: int, error: MemoryError) -> MemoryLimitError:
    """Return the error of a search for some hubs that outgrew its memory."""
    needed, limit, entries = error.args
    return MemoryLimitError(
        f"the label entries of the hubs {first} to {last - 1} outgrew the memory limit: "
        f"{format_bytes(needed)} needed, {format_bytes(limit)} allowed, {entries:,} entries found "
        f"so far; {advice('raise {}, or ', 'max_memory')}give the labels a radius"
    )
