"""The pruning table: labels of all nodes restricted to the best hubs.

The rows are groups of eight numbers, a distance and seven hubs (native/core/labels/groups.h), which
searches test against. Workers map the file; on one machine they share its pages.
"""

import contextlib
import itertools
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.sections import Sections, write_sections
from dhilgt.labels.sharding.slices import OpenShard, opened_shards, slices_of
from dhilgt.labels.sharding.units import HubShard, TopTable
from dhilgt.store.files import explained
from dhilgt.utils.memory import memory_limit

KIND = "top-table"
FORMAT = 1


def write_top_table(
    files: RankedGraphFiles,
    shards: Sequence[HubShard],
    folder: "str | PathLike[str]",
    *,
    max_memory: int | str | None = None,
) -> TopTable:
    """Write the labels of the best hubs, from their shards, for the searches of later hubs.

    The result of a search does not depend on the table, only its work does.

    Args:
        files: The graph in rank space.
        shards: Shards of the ranks from 0 on, of all sides; none for an empty table.
        folder: Where they are, and where to write.
        max_memory: Limit on its memory; None for what is free.

    Raises:
        ArtifactError: If a shard is missing or damaged.
    """
    num_hubs = max((one.last for one in shards), default=0)
    longest = max((one.max_distance for one in shards), default=0)
    # Words of two bytes while they hold the hubs and the distances, else of four.
    wide = num_hubs > _native.MOST_SHORT_HUBS or longest > _native.MOST_SHORT_DISTANCE
    params = {
        "kind": KIND,
        "format": FORMAT,
        "fingerprint": files.fingerprint,
        "sides": list(files.sides),
        "num_hubs": num_hubs,
        "max_distance": longest,
    }
    peak = 0
    with explained("write", Path(folder) / "top"), contextlib.ExitStack() as stack:
        sections: dict[str, NDArray[Any]] = {}
        for side in files.sides:
            spill = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            opened = opened_shards(folder, shards, side, 0, num_hubs)
            starts = np.zeros(files.num_nodes + 1, np.uint64)
            part_peak = _spill_words(opened, starts, spill, wide, memory_limit(max_memory))
            words = np.uint32 if wide else np.uint16
            sections[f"{side}_starts"] = starts
            sections[f"{side}_words"] = _mapped_file(spill, np.dtype(words))
            peak = max(peak, part_peak + len(sections) // 2 * starts.nbytes)
        written = write_sections(Path(folder), f"top-{num_hubs:010d}", params, sections)
    return TopTable(
        num_hubs, longest, written.name, written.sha256, written.num_bytes, peak_bytes=peak
    )


def _spill_words(
    opened: Sequence[OpenShard],
    starts: NDArray[np.uint64],
    spill: IO[bytes],
    wide: bool,
    limit: int,
) -> int:
    """Write the rows of all parts to a file, one after the other; return the largest memory.

    No more than one part is in memory.

    Args:
        opened: The shards of the hubs.
        starts: Receives where each row begins, in groups.
        spill: The file.
        wide: Whether words have four bytes.
        limit: On the memory.
    """
    peak = 0
    bounds = opened[0].label_bounds if opened else []
    for part, (first, last) in enumerate(itertools.pairwise(bounds)):
        part_starts, words, used = _native.top_rows(
            slices_of(opened, part), first, last, bounds[-1], wide, limit, None
        )
        starts[first + 1 : last + 1] = part_starts[1:] + starts[first]
        spill.write(words.data)
        peak = max(peak, used)
    spill.flush()
    return peak


def _mapped_file(file: IO[bytes], dtype: np.dtype[Any]) -> NDArray[Any]:
    count = file.tell() // dtype.itemsize
    return np.asarray(np.memmap(file, dtype, "r", shape=(count,))) if count else np.empty(0, dtype)


def mapped_table(
    files: RankedGraphFiles, top: TopTable, folder: "str | PathLike[str]", side: str
) -> tuple[Any, ...]:
    """Return a table as the native searches of one side take it.

    Args:
        files: The graph in rank space.
        top: The table.
        folder: Where it is.
        side: "in" for searches along the edges, "out" for those against them.
    """
    arrays = _mapped(Path(folder) / top.name, top.sha256, files.fingerprint)
    # Searching along the edges from h, a top hub t lies between if h reaches t and t reaches v.
    near, far = (files.sides[-1], "in") if side == "in" else ("in", "out")
    return (top.num_hubs, top.max_distance, *arrays[near], *arrays[far])


@lru_cache(maxsize=1)  # all units of a stage use the same table: a process checks it once
def _mapped(path: Path, sha256: str, fingerprint: str) -> dict[str, tuple[NDArray[Any], ...]]:
    sections = Sections(path, sha256)
    if sections.params.get("fingerprint") != fingerprint:
        raise ArtifactError(f"{path} was made from another graph or order; make it again")
    return {
        side: (sections.array(f"{side}_starts"), sections.array(f"{side}_words"))
        for side in sections.params["sides"]
    }
