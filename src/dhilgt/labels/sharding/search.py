"""One unit of a sharded build: all label entries of a range of hubs."""

import itertools
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from dhilgt import _native
from dhilgt.errors import ConfigError, argument
from dhilgt.labels.packed import pack_rows
from dhilgt.labels.sharding.ranked import READ_AHEAD, RankedGraphFiles
from dhilgt.labels.sharding.sections import write_sections
from dhilgt.labels.sharding.units import HubShard, TopTable
from dhilgt.utils.memory import memory_limit

KIND = "hub-shard"
FORMAT = 1


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
    The same unit writes the same bytes under the same name.

    Args:
        files: The graph in rank space.
        first: Rank of the first hub.
        last: Rank after the last one.
        side: "in" for entries of the in-labels, that is for searches along the edges; "out" for
            those against them.
        label_bounds: Ranks where the parts of the labels begin, and the number of nodes.
        folder: Where to write, and where the table is.
        radius: The largest distance of an entry; None for any.
        top: Labels of the best hubs, for ranges that begin after them: makes searches shorter.
        max_memory: Limit on the memory beyond the mapped files; None for what is free.
        threads: Threads to use.

    Raises:
        MemoryLimitError: If the unit does not fit `max_memory`.
    """
    start = time.perf_counter()
    _check(files, first, last, side, label_bounds)
    forward, backward = files.forward, files.backward
    arrays = [
        a
        for offsets, targets in (forward, backward)
        for a in (offsets.view(np.int64), targets[:-READ_AHEAD].view(np.int32))
    ]
    if not files.directed:
        arrays[2:] = [None, None]
    identity = np.arange(files.num_nodes, dtype=np.uint32)
    found = [
        _native.plane_block(
            *arrays,
            identity,
            int(side == "out"),
            begin,
            min(last, begin + 512),
            memory_limit(max_memory),
            None,
        )
        for begin in range(first, last, 512)
    ]
    nodes, hubs, distances = (np.concatenate(column) for column in zip(*found, strict=True))
    near = distances <= (2**32 - 1 if radius is None else radius)
    nodes, hubs, distances = nodes[near], hubs[near], distances[near]
    by_hub = np.lexsort((nodes, distances, hubs))
    holders = pack_rows(
        np.bincount(hubs - first, minlength=last - first),
        nodes[by_hub].astype(np.int64),
        distances[by_hub].astype(np.int64),
    )
    sections = {"holder_offsets": holders.offsets, "holder_records": holders.records}
    by_node = np.lexsort((hubs, distances, nodes))
    cuts = np.searchsorted(nodes[by_node], label_bounds)
    for part, (begin, end) in enumerate(itertools.pairwise(cuts.tolist())):
        taken = by_node[begin:end]
        sections[f"part_{part:05d}"] = np.stack(
            [nodes[taken], hubs[taken], distances[taken]]
        ).reshape(-1)
    longest = int(distances.max(initial=0))
    written = write_sections(
        Path(folder),
        f"hubs-{side}-{first:010d}-{last:010d}",
        {
            "kind": KIND,
            "format": FORMAT,
            "fingerprint": files.fingerprint,
            "side": side,
            "first": first,
            "last": last,
            "radius": radius,
            "label_bounds": list(label_bounds),
            "num_entries": len(nodes),
            "max_distance": longest,
        },
        sections,
    )
    return HubShard(
        first,
        last,
        side,
        written.name,
        written.sha256,
        len(nodes),
        written.num_bytes,
        longest,
        time.perf_counter() - start,
        0,
        0,
        0,
    )


def _check(
    files: RankedGraphFiles, first: int, last: int, side: str, label_bounds: Sequence[int]
) -> None:
    if side not in files.sides:
        raise ConfigError(f"{argument('side', side)}: the graph has the sides {files.sides}")
    if not 0 <= first < last <= files.num_nodes:
        raise ConfigError(f"hubs [{first}, {last}) are not ranks below {files.num_nodes}")
    bounds = list(label_bounds)
    if (
        len(bounds) < 2
        or bounds[0] != 0
        or bounds[-1] != files.num_nodes
        or bounds != sorted(bounds)
    ):
        raise ConfigError(
            f"{argument('label_bounds', bounds)} do not ascend from 0 to {files.num_nodes}"
        )
