"""Units that find the label entries of all hubs from a rank on, level by level.

A level has the entries of one distance. Many units share a large level, each for a part of the
nodes; the next one begins with the files of all of them. Now and then the entries so far are
settled: written node by node, in which form they are tested fastest. All of these files are mapped,
so that the processes of a machine share their memory. Small levels at the end are not worth files:
every unit that writes rows of them finds them by itself.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from dhilgt import _native
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.checked import check_once
from dhilgt.labels.sharding.plan import own_entries
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.search import NO_RADIUS, checked_range, limit_error, write_shard
from dhilgt.labels.sharding.sections import SectionFile, Sections, write_once, write_sections
from dhilgt.labels.sharding.table import mapped_table
from dhilgt.labels.sharding.units import HubShard, LevelPart, RestFound, SettledPart, TopTable
from dhilgt.store.files import canonical_json, explained, strict_json
from dhilgt.utils.checks import num_threads
from dhilgt.utils.memory import memory_limit

LEVEL, SETTLED = "level", "settled-entries"
FORMAT = 1
_THREAD_BYTES = 1 << 14  # of a thread, beside its table
_ARRAYS = ("nodes", "counts", "hubs")


def search_level(
    files: RankedGraphFiles,
    top: TopTable,
    found: RestFound,
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
        found: What is found so far.
        part: Number of the part of the nodes, from 0 on.
        num_parts: Number of parts of this level.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where to write, and where the other files are.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use, fewer where their memory would be a large part of the limit.

    Raises:
        MemoryLimitError: If the search does not fit `max_memory`.
        ArtifactError: If a file is damaged or cannot be written.
    """
    bounds = checked_range(files, top.num_hubs, files.num_nodes, "in", label_bounds, radius)
    limits = (bounds, Path(folder), radius, max_memory, threads)
    with open_rest(files, top, found, *limits, whole=False) as native:
        sides = native.find(part, num_parts)
    distance = found.distance + 1
    sections = {
        f"{side}_{name}": array
        for side, arrays in zip(files.sides, sides, strict=True)
        for name, array in zip(_ARRAYS, arrays[:3], strict=True)
    }
    about = {"kind": LEVEL, "first": top.num_hubs, "distance": distance, "part": part}
    written = _write(files, Path(folder), f"level-{distance:05d}-{part:05d}", about, sections)
    entries = sum(len(hubs) for *_, hubs, _ in sides)
    candidates = sum(count for *_, count in sides)
    return LevelPart(distance, part, *written, entries, candidates, native.peak_bytes)


def settle_levels(
    files: RankedGraphFiles,
    top: TopTable,
    found: RestFound,
    part: int,
    *,
    label_bounds: Sequence[int],
    folder: "str | PathLike[str]",
    max_memory: int | str | None = None,
) -> SettledPart:
    """Write all entries of one range of nodes up to the last level, node by node.

    Args:
        files: The graph in rank space.
        top: Labels of all hubs before those that are left.
        found: What is found so far.
        part: Number of the range of nodes.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where to write, and where the other files are.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.

    Raises:
        MemoryLimitError: If the range does not fit `max_memory`.
        ArtifactError: If a file is damaged or cannot be written.
    """
    folder, first = Path(folder), top.num_hubs
    begin, end = (max(first, bound) for bound in label_bounds[part : part + 2])
    levels = [
        (distance, _level_arrays(files, parts, folder))
        for distance, parts in _by_distance(found.levels)
        if distance > found.settled_distance
    ]
    if found.settled:
        check_once([_opened(files, found.settled[part], folder)])
    sections: dict[str, Any] = {}
    peak = 0
    for number, side in enumerate(files.sides):
        before = _settled_arrays(files, found, folder, part, side) if found.settled else None
        try:
            starts, words, used = _native.settled_rows(
                before,
                [(distance, sides[number]) for distance, sides in levels],
                first,
                begin,
                end,
                files.num_nodes,
                memory_limit(max_memory),
            )
        except _native.OutOfBudget as error:
            raise limit_error(first, files.num_nodes, error) from None
        sections |= {f"{side}_starts": starts, f"{side}_words": words}
        peak = max(peak, used)
    about = {"kind": SETTLED, "first": first, "distance": found.distance, "part": part}
    written = _write(files, folder, f"settled-{found.distance:05d}-{part:05d}", about, sections)
    return SettledPart(found.distance, part, *written, peak)


def search_rest(
    files: RankedGraphFiles,
    top: TopTable,
    found: RestFound | None = None,
    first: int | None = None,
    last: int | None = None,
    *,
    label_bounds: Sequence[int],
    folder: "str | PathLike[str]",
    radius: int | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> list[HubShard]:
    """Find all levels that are left; write the inverted labels of some hubs, one file per side.

    The labels themselves are written by `merge_with_rest`, without a file between.

    Args:
        files: The graph in rank space.
        top: Labels of all hubs before the rest.
        found: What is found so far; None for nothing.
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
    with open_rest(files, top, found or RestFound(), *limits, whole=True) as native:
        sides = native.holders(first, last)
    shards = [
        write_shard(files, first, last, side, bounds, radius, Path(folder), rows, {})
        for side, rows in zip(files.sides, sides, strict=True)
    ]
    return [one._replace(peak_bytes=native.peak_bytes) for one in shards]


def write_found(found: RestFound, folder: "str | PathLike[str]") -> str:
    """Write what is found so far to a file, and return its name, which holds its hash.

    It names a file for each part of a level: too much to send it with each of as many units.

    Args:
        found: What is found.
        folder: Where to.
    """
    text = canonical_json(found.to_json())
    name = f"found-{hashlib.sha256(text).hexdigest()}"
    with explained("write", Path(folder) / name):
        write_once(Path(folder), name, iter([memoryview(text)]), lambda _: name)
    return name


@lru_cache(maxsize=1)  # all units of a level read the same
def read_found(folder: Path, name: str) -> RestFound:
    """Return what `write_found` wrote.

    Args:
        folder: Where it is.
        name: Name of the file.

    Raises:
        ArtifactError: If the file is missing or damaged.
    """
    path = folder / name
    with explained("read", path):
        text = path.read_bytes()
    if name != f"found-{hashlib.sha256(text).hexdigest()}":
        raise ArtifactError(f"{path} is damaged; remove it and run the build again")
    return RestFound.from_json(strict_json(text))


def forget_rest() -> None:
    """Free the memory that this process keeps from unit to unit."""
    _kept.clear()


# ---- what a process keeps ----------------------------------------------------------------------


class _Kept(NamedTuple):
    native: _native.RestOfHubs
    found: RestFound
    is_whole: bool


_kept: dict[tuple[Any, ...], _Kept] = {}
"""The last search of this process, by what determines it: units that follow go on from there."""


@contextmanager
def open_rest(
    files: RankedGraphFiles,
    top: TopTable,
    found: RestFound,
    bounds: list[int],
    folder: Path,
    radius: int | None,
    max_memory: int | str | None,
    threads: int,
    *,
    whole: bool,
) -> Iterator[_native.RestOfHubs]:
    """Yield the search after some levels, or after all that follow them, too.

    Args:
        files: The graph in rank space.
        top: Labels of all hubs before those that are left.
        found: What is found so far.
        bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where the files are.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use.
        whole: Find all levels that are left.

    Raises:
        MemoryLimitError: If the search, or what is asked of it, does not fit `max_memory`.
        ArtifactError: If a file is damaged.
    """
    tables = tuple(one.name for one in top.parts)
    key = (folder, files.fingerprint, tables, radius, max_memory, threads, *bounds)
    kept = _kept.pop(key, None)
    forget_rest()
    try:
        if kept is None or not _leads_to(kept, found, whole=whole):
            native = _started(files, top, bounds, folder, radius, max_memory, threads)
            kept = _Kept(native, RestFound(), is_whole=False)
        known = kept.found.distance
        if found.settled != kept.found.settled:
            known = found.settled_distance
            kept.native.settle(known, *_settled(files, found, folder))
        for distance, level in _by_distance(found.levels):
            if distance > known:
                kept.native.add(_level_arrays(files, level, folder))
        if whole and not kept.is_whole:
            kept.native.finish()
        yield kept.native
    except _native.OutOfBudget as error:
        raise limit_error(top.num_hubs, files.num_nodes, error) from None
    _kept[key] = _Kept(kept.native, found, whole)


def _leads_to(kept: _Kept, found: RestFound, *, whole: bool) -> bool:
    if kept.is_whole:
        return whole and kept.found == found
    if found.settled != kept.found.settled:
        return bool(found.settled)  # it takes them in the place of its own
    return found.levels[: len(kept.found.levels)] == kept.found.levels


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
        own_entries(None if max_memory is None else limit),
        limit,
    )


# ---- files -------------------------------------------------------------------------------------


def _write(
    files: RankedGraphFiles,
    folder: Path,
    prefix: str,
    about: dict[str, Any],
    sections: dict[str, Any],
) -> SectionFile:
    params = {
        **about,
        "format": FORMAT,
        "fingerprint": files.fingerprint,
        "sides": list(files.sides),
    }
    with explained("write", folder / prefix):
        return write_sections(folder, prefix, params, sections)


def _opened(files: RankedGraphFiles, part: LevelPart | SettledPart, folder: Path) -> Sections:
    sections = Sections(folder / part.name, part.sha256)
    if sections.params.get("fingerprint") != files.fingerprint:
        raise ArtifactError(f"{sections.path} was made from another graph or order; make it again")
    return sections


def _level_arrays(
    files: RankedGraphFiles, level: Iterable[LevelPart], folder: Path
) -> list[list[tuple[Any, Any, Any]]]:
    """Return the mapped entries of a level, by side and part."""
    sides: list[list[tuple[Any, Any, Any]]] = [[] for _ in files.sides]
    for one in sorted(level, key=lambda part: part.part):
        sections = _opened(files, one, folder)
        for side, name in zip(sides, files.sides, strict=True):
            nodes, counts, hubs = (sections.array(f"{name}_{array}") for array in _ARRAYS)
            side.append((nodes, counts, hubs))
    return sides


def _settled_arrays(
    files: RankedGraphFiles, found: RestFound, folder: Path, part: int, side: str
) -> tuple[Any, Any]:
    """Return the mapped entries of a range of nodes, whose file was compared with its hash."""
    sections = _opened(files, found.settled[part], folder)
    starts, words = (sections.array(f"{side}_{name}", check=False) for name in ("starts", "words"))
    return starts, words


def _settled(
    files: RankedGraphFiles, found: RestFound, folder: Path
) -> tuple[list[list[tuple[Any, Any]]], list[list[tuple[Any, Any, Any]]]]:
    """Return the settled entries, by side and range of nodes, and the last level among them."""
    check_once(_opened(files, part, folder) for part in found.settled)
    settled = [
        [_settled_arrays(files, found, folder, part, side) for part in range(len(found.settled))]
        for side in files.sides
    ]
    last = [one for one in found.levels if one.distance == found.settled_distance]
    return settled, _level_arrays(files, last, folder)


def _by_distance(levels: Iterable[LevelPart]) -> list[tuple[int, list[LevelPart]]]:
    found: dict[int, list[LevelPart]] = {}
    for one in levels:
        found.setdefault(one.distance, []).append(one)
    return sorted(found.items())
