"""The pruning table: labels of all nodes restricted to the best hubs.

The rows are groups of eight numbers, a distance and seven hubs (native/core/labels/groups.h), which
searches test against. Workers map the file; on one machine they share its pages.
"""

from collections.abc import Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.sections import Sections, write_sections
from dhilgt.labels.sharding.slices import opened_shards, slices_of
from dhilgt.labels.sharding.units import HubShard, TopTable
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
    sections: dict[str, NDArray[Any]] = {}
    peak = 0
    for side in files.sides:
        if num_hubs == 0:
            sections[f"{side}_starts"] = np.zeros(files.num_nodes + 1, np.uint64)
            sections[f"{side}_words"] = np.empty(0, np.uint16)
            continue
        opened = opened_shards(folder, shards, side, 0, num_hubs)
        bounds = opened[0].label_bounds
        parts = [slices_of(opened, part) for part in range(len(bounds) - 1)]
        limit = memory_limit(max_memory)
        starts, words, side_peak = _native.top_table(parts, bounds, wide, limit, None)
        sections |= {f"{side}_starts": starts, f"{side}_words": words}
        peak = max(peak, side_peak)
    params = {
        "kind": KIND,
        "format": FORMAT,
        "fingerprint": files.fingerprint,
        "sides": list(files.sides),
        "num_hubs": num_hubs,
        "max_distance": longest,
    }
    written = write_sections(Path(folder), f"top-{num_hubs:010d}", params, sections)
    return TopTable(
        num_hubs, longest, written.name, written.sha256, written.num_bytes, peak_bytes=peak
    )


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
