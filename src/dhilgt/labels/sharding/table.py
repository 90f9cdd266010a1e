"""The pruning table: labels of all nodes restricted to the best hubs.

The rows are groups of eight numbers, a distance and seven hubs (native/core/labels/groups.h), which
searches test against; a file holds those of one range of nodes. Workers map all files; on one
machine they share their pages.
"""

from collections.abc import Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from dhilgt import _native
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.checked import check_once
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.sections import Sections, write_sections
from dhilgt.labels.sharding.slices import opened_shards, slices_of
from dhilgt.labels.sharding.units import HubShard, TablePart, TopTable
from dhilgt.store.files import explained
from dhilgt.utils.memory import memory_limit

KIND = "top-table"
FORMAT = 2

_Rows = list[tuple[Any, Any]]  # of each part: where the rows begin, in groups, and the groups


def write_table_part(
    files: RankedGraphFiles,
    shards: Sequence[HubShard],
    part: int,
    *,
    folder: "str | PathLike[str]",
    max_memory: int | str | None = None,
) -> TablePart:
    """Write the labels of one range of nodes restricted to the best hubs, from their shards.

    The result of a search does not depend on the table, only its work does.

    Args:
        files: The graph in rank space.
        shards: Shards of the ranks from 0 on, of all sides.
        part: Number of the range among the `label_bounds` of the shards.
        folder: Where they are, and where to write.
        max_memory: Limit on its memory; None for what is free.

    Raises:
        ArtifactError: If a shard is missing or damaged.
    """
    num_hubs = max(one.last for one in shards)
    longest = max(one.max_distance for one in shards)
    # Words of two bytes while they hold the hubs and the distances, else of four.
    wide = num_hubs > _native.MOST_SHORT_HUBS or longest > _native.MOST_SHORT_DISTANCE
    sections: dict[str, Any] = {}
    peak = 0
    for side in files.sides:
        opened = opened_shards(folder, shards, side, 0, num_hubs)
        bounds = opened[0].label_bounds
        starts, words, used = _native.top_rows(
            slices_of(opened, part),
            bounds[part],
            bounds[part + 1],
            bounds[-1],
            wide,
            memory_limit(max_memory),
            None,
        )
        sections |= {f"{side}_starts": starts, f"{side}_words": words}
        peak += used
    params = {
        "kind": KIND,
        "format": FORMAT,
        "fingerprint": files.fingerprint,
        "sides": list(files.sides),
        "num_hubs": num_hubs,
        "max_distance": longest,
        "part": part,
    }
    name = f"top-{num_hubs:010d}-{part:05d}"
    with explained("write", Path(folder) / name):
        written = write_sections(Path(folder), name, params, sections)
    return TablePart(num_hubs, part, longest, *written, peak_bytes=peak)


def write_top_table(
    files: RankedGraphFiles,
    shards: Sequence[HubShard],
    folder: "str | PathLike[str]",
    *,
    max_memory: int | str | None = None,
) -> TopTable:
    """Write the labels of the best hubs, one range of nodes after the other.

    Args:
        files: The graph in rank space.
        shards: Shards of the ranks from 0 on, of all sides; none for an empty table.
        folder: Where they are, and where to write.
        max_memory: Limit on its memory; None for what is free.

    Raises:
        ArtifactError: If a shard is missing or damaged.
    """
    if not shards:
        return TopTable()
    (first, *_) = opened_shards(folder, shards[:1], shards[0].side, shards[0].first, shards[0].last)
    return TopTable(
        tuple(
            write_table_part(files, shards, part, folder=folder, max_memory=max_memory)
            for part in range(len(first.label_bounds) - 1)
        )
    )


def mapped_table(
    files: RankedGraphFiles, top: TopTable, folder: "str | PathLike[str]", side: str
) -> tuple[Any, ...] | None:
    """Return a table as the native searches of one side take it; None for one without hubs.

    Args:
        files: The graph in rank space.
        top: The table.
        folder: Where it is.
        side: "in" for searches along the edges, "out" for those against them.
    """
    if not top.parts:
        return None
    rows = _mapped(Path(folder), top, files.fingerprint)
    # Searching along the edges from h, a top hub t lies between if h reaches t and t reaches v.
    near, far = (files.sides[-1], "in") if side == "in" else ("in", "out")
    longest = top.parts[0].max_distance
    return (top.num_hubs, longest, None if near == far else rows[near], rows[far])


@lru_cache(maxsize=1)  # all units of a stage use the same table: a process opens it once
def _mapped(folder: Path, top: TopTable, fingerprint: str) -> dict[str, _Rows]:
    rows: dict[str, _Rows] = {}
    parts = [Sections(folder / part.name, part.sha256) for part in top.parts]
    check_once(parts)
    for sections in parts:
        if sections.params.get("fingerprint") != fingerprint:
            raise ArtifactError(
                f"{sections.path} was made from another graph or order; make it again"
            )
        for side in sections.params["sides"]:
            starts, words = (
                sections.array(f"{side}_{name}", check=False) for name in ("starts", "words")
            )
            rows.setdefault(side, []).append((starts, words))
    return rows
