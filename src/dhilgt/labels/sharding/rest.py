"""Units that find the label entries of all hubs from a rank on, level by level.

A level has the entries of one distance. Many units share a large level, each for a part of the
nodes; the next one begins with the files of all of them. Small levels at the end are not worth
files: every unit that writes the shards of some hubs finds them all by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from dhilgt import _native
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.search import NO_RADIUS, checked_range, limit_error, write_shard
from dhilgt.labels.sharding.sections import Sections, write_sections
from dhilgt.labels.sharding.table import mapped_table
from dhilgt.labels.sharding.units import HubShard, LevelPart, TopTable
from dhilgt.store.files import explained
from dhilgt.utils.checks import num_threads
from dhilgt.utils.memory import memory_limit

KIND = "level"
FORMAT = 1
_THREAD_BYTES = 1 << 14  # of a thread, beside its table
_ARRAYS = ("nodes", "counts", "hubs")


def search_level(
    files: RankedGraphFiles,
    top: TopTable,
    levels: Sequence[LevelPart],
    part: int,
    num_parts: int,
    *,
    label_bounds: Sequence[int],
    folder: "str | PathLike[str]",
    radius: int | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> LevelPart:
    """Find the entries that a part of the nodes has in the next level, and write one file.

    Args:
        files: The graph in rank space.
        top: Labels of all hubs before those that are left.
        levels: The files of all levels so far.
        part: Number of the part of the nodes, from 0 on.
        num_parts: Number of parts of this level.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where to write, and where the other files are.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use, fewer where their memory would be a large part of the limit.

    Raises:
        MemoryLimitError: If the entries so far do not fit `max_memory`.
        ArtifactError: If a file is damaged or cannot be written.
    """
    bounds = checked_range(files, top.num_hubs, files.num_nodes, "in", label_bounds, radius)
    limits = (bounds, Path(folder), radius, max_memory, threads)
    distance = 1 + max((one.distance for one in levels), default=0)
    with _search(files, top, levels, *limits, whole=False) as native:
        sides = native.find(part, num_parts)
    sections = {
        f"{side}_{name}": array
        for side, arrays in zip(files.sides, sides, strict=True)
        for name, array in zip(_ARRAYS, arrays[:3], strict=True)
    }
    params = {
        "kind": KIND,
        "format": FORMAT,
        "fingerprint": files.fingerprint,
        "sides": list(files.sides),
        "first": top.num_hubs,
        "distance": distance,
        "part": part,
    }
    name = f"level-{distance:05d}-{part:05d}"
    with explained("write", Path(folder) / name):
        written = write_sections(Path(folder), name, params, sections)
    entries = sum(len(hubs) for *_, hubs, _ in sides)
    candidates = sum(count for *_, count in sides)
    return LevelPart(distance, part, *written, entries, candidates, native.peak_bytes)


def search_rest(
    files: RankedGraphFiles,
    top: TopTable,
    levels: Sequence[LevelPart] = (),
    first: int | None = None,
    last: int | None = None,
    *,
    label_bounds: Sequence[int],
    folder: "str | PathLike[str]",
    radius: int | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> list[HubShard]:
    """Find the entries of all hubs after those of a table; write those of some, one file per side.

    With the labels found so far this is a fraction of the work of `search_hubs`, but its memory
    grows with the entries. The files are those that `search_hubs` would write.

    Args:
        files: The graph in rank space.
        top: Labels of all hubs before the rest.
        levels: The files of the levels that have been found.
        first: Rank of the first hub to write; None for the first after the table.
        last: Rank after the last one; None for all.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where to write, and where the other files are.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use, fewer where their memory would be a large part of the limit.

    Raises:
        MemoryLimitError: If the entries do not fit `max_memory`.
        ArtifactError: If a file is damaged or cannot be written.
    """
    first = top.num_hubs if first is None else first
    last = files.num_nodes if last is None else last
    bounds = checked_range(files, first, last, "in", label_bounds, radius)
    limits = (bounds, Path(folder), radius, max_memory, threads)
    with _search(files, top, levels, *limits, whole=True) as native:
        sides = native.shards(first, last)
    shards = [
        write_shard(files, first, last, side, bounds, radius, Path(folder), found)
        for side, found in zip(files.sides, sides, strict=True)
    ]
    return [one._replace(peak_bytes=native.peak_bytes) for one in shards]


def forget_rest() -> None:
    """Free the memory that this process keeps from unit to unit."""
    _kept.clear()


# ---- what a process keeps ----------------------------------------------------------------------


class _Kept(NamedTuple):
    native: _native.RestOfHubs
    taken: tuple[str, ...]  # files of the levels
    is_whole: bool


_kept: dict[tuple[Any, ...], _Kept] = {}
"""The last search of this process, by what determines it: units that follow go on from there."""


@contextmanager
def _search(
    files: RankedGraphFiles,
    top: TopTable,
    levels: Sequence[LevelPart],
    bounds: list[int],
    folder: Path,
    radius: int | None,
    max_memory: int | str | None,
    threads: int,
    *,
    whole: bool,
) -> Iterator[_native.RestOfHubs]:
    """Yield the search after some levels, or, if `whole`, after all that follow them, too."""
    tables = tuple(one.name for one in top.parts)
    key = (folder, files.fingerprint, tables, radius, max_memory, threads, *bounds)
    wanted = tuple(one.name for one in levels)
    found = _kept.pop(key, None)
    forget_rest()
    try:
        if found is None or not _leads_to(found, wanted, whole=whole):
            native = _started(files, top, bounds, folder, radius, max_memory, threads)
            found = _Kept(native, (), is_whole=False)
        for level in _by_distance(levels[len(found.taken) :]):
            found.native.add(_entries(files, level, folder))
        if whole and not found.is_whole:
            found.native.finish()
        yield found.native
    except _native.OutOfBudget as error:
        raise limit_error(top.num_hubs, files.num_nodes, error) from None
    _kept[key] = _Kept(found.native, wanted, whole)


def _leads_to(kept: _Kept, wanted: tuple[str, ...], *, whole: bool) -> bool:
    if kept.is_whole:
        return whole and kept.taken == wanted
    return kept.taken == wanted[: len(kept.taken)]


def _started(
    files: RankedGraphFiles,
    top: TopTable,
    bounds: list[int],
    folder: Path,
    radius: int | None,
    max_memory: int | str | None,
    threads: int,
) -> _native.RestOfHubs:
    limit = memory_limit(max_memory)
    # Each thread has a table over all nodes: together they may take a quarter of the memory.
    thread_bytes = files.num_nodes + _THREAD_BYTES
    return _native.rest_of_hubs(
        *files.forward,
        *files.backward,
        files.directed,
        top.num_hubs,
        NO_RADIUS if radius is None else radius,
        mapped_table(files, top, folder, "in"),
        bounds,
        max(1, min(num_threads(threads), limit // 4 // thread_bytes)),
        limit,
    )


def _entries(
    files: RankedGraphFiles, level: Iterable[LevelPart], folder: Path
) -> list[list[tuple[Any, Any, Any]]]:
    """Return the mapped entries of a level, by side and part."""
    sides: list[list[tuple[Any, Any, Any]]] = [[] for _ in files.sides]
    for one in sorted(level, key=lambda part: part.part):
        sections = Sections(folder / one.name, one.sha256)
        if sections.params.get("fingerprint") != files.fingerprint:
            raise ArtifactError(
                f"{sections.path} was made from another graph or order; make it again"
            )
        for side, name in zip(sides, files.sides, strict=True):
            nodes, counts, hubs = (sections.array(f"{name}_{array}") for array in _ARRAYS)
            side.append((nodes, counts, hubs))
    return sides


def _by_distance(levels: Iterable[LevelPart]) -> list[list[LevelPart]]:
    found: dict[int, list[LevelPart]] = {}
    for one in levels:
        found.setdefault(one.distance, []).append(one)
    return [found[distance] for distance in sorted(found)]
