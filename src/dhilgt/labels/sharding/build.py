"""A sharded build in one process: the units one after the other."""

import time
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from dhilgt.errors import ArtifactError
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.sharding.finish import finish, remove_work
from dhilgt.labels.sharding.last_stage import FoundRest, search_last_stage
from dhilgt.labels.sharding.merge import merge_holders, merge_range, merge_with_rest
from dhilgt.labels.sharding.plan import ShardPlan, Stage, plan_shards
from dhilgt.labels.sharding.ranked import RankedGraphFiles, write_ranked_graph
from dhilgt.labels.sharding.rest import (
    forget_rest,
    search_level,
    search_rest,
    settle_levels,
)
from dhilgt.labels.sharding.search import search_hubs
from dhilgt.labels.sharding.table import write_top_table
from dhilgt.labels.sharding.units import HubShard, LabelPart, RestFound, TopTable
from dhilgt.store.files import explained
from dhilgt.store.manifest import partial_path
from dhilgt.store.target import BuildLock, exists_message


def build_sharded(
    graph: Graph,
    path: "str | PathLike[str]",
    *,
    order: Any = None,
    seed: int = 0,
    radius: int | None = None,
    num_ranges: int = 8,
    max_memory: int | str | None = None,
    threads: int = 1,
    overwrite: bool = False,
) -> HubLabels:
    """Build the labels of a graph in parts and return them, mapped.

    No more than the labels of one part or of one range of hubs is in memory at a time. The labels
    are the same as those of `HubLabels.build`.

    Args:
        graph: The graph.
        path: The folder to create; ``<path>.partial`` holds the files of the units meanwhile.
        order: As for `HubLabels.build`.
        seed: Seed of the orders "closeness" and "random".
        radius: The largest distance of an entry; None for any.
        num_ranges: Parts of the labels.
        max_memory: Limit on the memory of each unit, beyond the mapped files.
        threads: Threads of each unit.
        overwrite: Replace older labels.

    Raises:
        ArtifactError: Before any work, if there is something at the path or another process builds
            it; or if a file cannot be written.
        MemoryLimitError: If a unit does not fit `max_memory`.

    Example:
        >>> import tempfile
        >>> graph = Graph.from_edges(["ann", "bob", "cid"], ["bob", "cid", "dan"])
        >>> build_sharded(graph, tempfile.mkdtemp() + "/labels", num_ranges=2)
        HubLabels(nodes=4, entries=8, 2.0 per node, longest distance 2, in 2 parts)
    """
    target = Path(path).resolve()
    if target.exists() and not overwrite:
        raise ArtifactError(exists_message(target))
    folder = partial_path(target)
    with explained("write in", folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = BuildLock(folder)
    try:
        _build(
            graph,
            target,
            folder,
            order=order,
            seed=seed,
            radius=radius,
            num_ranges=num_ranges,
            max_memory=max_memory,
            threads=threads,
            overwrite=overwrite,
        )
    finally:
        lock.release()
    return HubLabels.load(path)


def _build(
    graph: Graph,
    path: Path,
    folder: Path,
    *,
    order: Any,
    seed: int,
    radius: int | None,
    num_ranges: int,
    max_memory: int | str | None,
    threads: int,
    overwrite: bool,
) -> None:
    """Run all units; the arguments are those of `build_sharded`, and the folder of their files."""
    files = write_ranked_graph(graph, order, folder / "graph", seed=seed, overwrite=True)
    plan = plan_shards(files, num_ranges=num_ranges, max_memory=max_memory)

    options: dict[str, Any] = {"radius": radius, "max_memory": max_memory, "threads": threads}
    stages = list(search_stages(files, plan, folder, **options))
    parts = merge_stages(files, plan, folder, stages, **options)
    finish(path, files, parts, folder=folder, radius=radius, overwrite=overwrite)
    remove_work(folder)


class FoundStage(NamedTuple):
    """A stage of a build that is done.

    Attributes:
        shards: What it found.
        table: The table that it used, if any.
        table_seconds: What writing that took; 0 if it had been written before.
        rest: What it found level by level, if it is the last one of that kind.
    """

    shards: list[HubShard]
    table: TopTable | None
    table_seconds: float
    rest: RestFound | None = None


def search_stages(
    files: RankedGraphFiles,
    plan: ShardPlan,
    folder: Path,
    *,
    radius: int | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> Iterator[FoundStage]:
    """Find the entries of all hubs, unit by unit, and yield each stage.

    Args:
        files: The graph in rank space.
        plan: The plan.
        folder: Where to write.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory of each unit, beyond the mapped files.
        threads: Threads of each unit.
    """
    options = _unit_options(plan, folder, radius, max_memory, threads)
    shards: list[HubShard] = []
    top: TopTable | None = None
    while (stage := plan.next_stage(shards)) is not None:
        begin = time.perf_counter()
        if stage.table_hubs != (0 if top is None else top.num_hubs):
            best = [one for one in shards if one.last <= stage.table_hubs]
            top = write_top_table(files, best, folder, max_memory=max_memory)
        table_seconds = time.perf_counter() - begin
        rest: RestFound | None = None
        if stage.is_rest:
            assert top is not None
            found, rest = _search_rest(files, plan, stage, top, shards, options)
        else:
            found = [
                search_hubs(files, one.first, one.last, side=one.side, top=top, **options)
                for one in stage.ranges
            ]
        shards += found
        yield FoundStage(found, top, table_seconds, rest)


def merge_stages(
    files: RankedGraphFiles,
    plan: ShardPlan,
    folder: Path,
    stages: Sequence[FoundStage],
    *,
    radius: int | None = None,
    max_memory: int | str | None = None,
    threads: int = 1,
) -> list[LabelPart]:
    """Write the parts of the labels and of the inverted labels, one after the other.

    Args:
        files: The graph in rank space.
        plan: The plan.
        folder: Where the files of the stages are, and where to write.
        stages: All of them.
        radius: The largest distance of an entry; None for any.
        max_memory: Limit on the memory of each unit, beyond the mapped files.
        threads: Threads of each unit.
    """
    shards = [one for stage in stages for one in stage.shards]
    options = _unit_options(plan, folder, radius, max_memory, threads)
    last = stages[-1]
    parts = []
    for side in plan.sides:
        for part in range(plan.num_parts):
            if last.rest is None:
                merged = merge_range(folder, shards, part, side=side, max_memory=max_memory)
            else:
                assert last.table is not None
                merged = merge_with_rest(files, last.table, last.rest, part, side=side, **options)
            parts.append(merged)
    forget_rest()
    holder_bounds = plan.holder_bounds(shards)
    return parts + [
        merge_holders(folder, shards, part, side=side, holder_bounds=holder_bounds)
        for side in plan.sides
        for part in range(len(holder_bounds) - 1)
    ]


def _unit_options(
    plan: ShardPlan, folder: Path, radius: int | None, max_memory: int | str | None, threads: int
) -> dict[str, Any]:
    """Return the arguments that units of searches and of merges share."""
    return {
        "label_bounds": plan.label_bounds,
        "folder": folder,
        "radius": radius,
        "max_memory": max_memory,
        "threads": threads,
    }


def _search_rest(
    files: RankedGraphFiles,
    plan: ShardPlan,
    stage: Stage,
    top: TopTable,
    shards: list[HubShard],
    options: dict[str, Any],
) -> FoundRest:
    """Find the entries of the last stage, and note what it took with the first shard."""
    begin = time.perf_counter()
    common = {key: options[key] for key in ("label_bounds", "folder", "max_memory")}
    shards, found = search_last_stage(
        plan,
        stage,
        shards,
        find=lambda found, units: [
            search_level(files, top, found, part, units, **options) for part in range(units)
        ],
        settle=lambda found: [
            settle_levels(files, top, found, part, **common) for part in range(plan.num_parts)
        ],
        write=lambda found, ranges: [
            shard
            for first, last in ranges
            for shard in search_rest(files, top, found, first, last, **options)
        ],
    )
    seconds = time.perf_counter() - begin
    return FoundRest([shards[0]._replace(seconds=seconds), *shards[1:]], found)
