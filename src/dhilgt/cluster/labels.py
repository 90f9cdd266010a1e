"""Hub labels on a cluster: searches by ranges of hubs, then merges by ranges of nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from dhilgt.cluster.folder import JobFolder
from dhilgt.cluster.jobs import Job
from dhilgt.cluster.session import connected
from dhilgt.cluster.units import Outcome, Unit, WrittenFile
from dhilgt.errors import GraphError, warn
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.orders import DRAWN, GIVEN, order_name, ranking
from dhilgt.labels.radius import AUTO, checked_radius, radius_choices
from dhilgt.labels.sharding import (
    HubRange,
    HubShard,
    LabelPart,
    LevelPart,
    RankedGraphFiles,
    RestFound,
    SettledPart,
    ShardPlan,
    Stage,
    TablePart,
    TopTable,
    finish,
    forget_rest,
    merge_holders,
    merge_range,
    merge_with_rest,
    plan_shards,
    read_found,
    search_hubs,
    search_last_stage,
    search_level,
    search_rest,
    settle_levels,
    write_found,
    write_ranked_graph,
    write_table_part,
)
from dhilgt.store.manifest import MANIFEST
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import UNLIMITED, parse_size

_GRAPH = "graph"
_LEAST_PARTS = 8
_NODES_PER_PART = 1 << 20
_MOST_THREADS = 4096


def build_labels(
    graph: Graph,
    path: str | PathLike[str],
    *,
    cluster: str,
    order: Any = None,
    seed: int = 0,
    radius: int | str | None = None,
    max_entries: int | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool = True,
    overwrite: bool = False,
) -> HubLabels:
    """Build the labels of a graph on a cluster and return them, in parts and mapped.

    The files depend on the graph, the order and the radius alone, not on the number of machines or
    on what happened to them. No process holds more than the labels of a range of hubs or of nodes.
    A call that was stopped goes on when it is made again.

    Args:
        graph: The graph.
        path: The folder to create. ``<path>.partial`` holds the files of the units meanwhile; it
            should be on a disk that all machines see under this name.
        cluster: "auto", or the address of a cluster.
        order: As for `HubLabels.build`.
        seed: Seed of the orders "closeness" and "random".
        radius: The largest distance of an entry; None for any. "auto" is any, too, unless
            `max_entries` is given: no machine has to hold all labels.
        max_entries: Take the largest radius whose predicted number of entries is not above this.
        threads: Threads of each unit of work; None for one.
        max_memory: Limit on the memory of each unit, beyond the mapped graph. Ray runs no more
            units on a machine than fit.
        progress: Show a progress bar when standard error is a terminal.
        overwrite: Replace older labels.

    Raises:
        DhilgtError: If Ray is not installed, or a unit fails; it names the unit and the node.
        ArtifactError: If the path cannot be written, or another process builds it.
        KeyboardInterrupt: On Ctrl-C; what is finished is kept.
    """
    if graph.num_nodes == 0:
        raise GraphError("the graph has no nodes; labels need at least one")
    workers = whole_number("threads", 1 if threads is None else threads, 1, _MOST_THREADS)
    limit = None if max_memory is None else parse_size(max_memory)
    farthest = _radius(graph, order, seed, radius, max_entries)
    about = _about(graph, order, seed, farthest)
    with (
        connected(cluster) as ray,
        JobFolder(path, about=about, overwrite=overwrite) as folder,
        Job(ray, folder, num_cpus=workers, memory=limit, progress=progress) as job,
    ):
        written = job.here(Unit("the graph", partial(_write_graph, graph, order, seed)))
        files = RankedGraphFiles.open(folder.folder / _GRAPH)
        plan = plan_shards(files, num_ranges=num_parts(graph.num_nodes), max_memory=limit)
        options = {"radius": farthest, "max_memory": limit, "threads": workers}
        names = tuple(file.name for file in written.files)
        build = _Build(job, plan, names, folder.folder, options)
        parts = build.merge(*build.search())
        finish(path, files, parts, folder=folder.folder, radius=farthest, overwrite=overwrite)
        folder.remove()
    return HubLabels.load(path)


def num_parts(num_nodes: int) -> int:
    """Return into how many parts the labels of a graph are cut.

    It depends on the graph alone, as the files of the labels do.

    Example:
        >>> num_parts(20_000), num_parts(100_000_000)
        (8, 96)
    """
    return max(_LEAST_PARTS, -(-num_nodes // _NODES_PER_PART))


def _radius(
    graph: Graph, order: Any, seed: int, radius: int | str | None, max_entries: int | None
) -> int | None:
    """Return the radius that is asked for, or the one that a limit on the entries leaves."""
    wanted = checked_radius(radius, max_entries)
    if wanted != AUTO:
        return wanted
    best = radius_choices(graph, ranking(graph, order, seed), UNLIMITED, max_entries)[0]
    if best.note:
        warn(best.note)
    return best.radius


def _about(graph: Graph, order: Any, seed: int, radius: int | None) -> dict[str, Any]:
    """Return what determines the files of the job."""
    name = order_name(order)
    about: dict[str, Any] = {"kind": "labels", "graph": graph.fingerprint, "order": name}
    if name == GIVEN:
        about["nodes by rank"] = hashlib.sha256(ranking(graph, order).tobytes()).hexdigest()
    if name in DRAWN:
        about["seed"] = seed
    return about | {"radius": radius}


class _Rest(NamedTuple):
    """What the labels are merged from after the last stage.

    Attributes:
        table: Labels of all hubs before it.
        found_file: Names what it found; see `read_found`.
    """

    table: TopTable
    found_file: str


class _Build:
    """The stages of a build."""

    def __init__(
        self,
        job: Job,
        plan: ShardPlan,
        graph_files: tuple[str, ...],
        folder: Path,
        options: dict[str, Any],
    ) -> None:
        self._job = job
        self._folder = folder
        self._plan = plan
        self._graph_files = graph_files
        self._options = options

    def search(self) -> tuple[list[HubShard], _Rest | None]:
        """Return the shards of all hubs, and what labels of the last stage are merged from.

        The hubs are searched stage by stage: each may need a table of the best ones.
        """
        shards: list[HubShard] = []
        rest: _Rest | None = None
        while (stage := self._plan.next_stage(shards)) is not None:
            best = [one for one in shards if one.last <= stage.table_hubs]
            table = self._write_table(best) if best else None
            if stage.is_rest:
                assert table is not None
                found, rest = self._search_rest(stage, table, shards)
                shards += found
                continue
            outcomes = self._job.run(
                self._units(stage.ranges, table),
                title=f"labels: hubs to {stage.ranges[-1].last}",
                unit="hubs",
                ahead=self._units(self._plan.units_ahead(stage, shards), None),
            )
            shards += _shards_of(outcomes)
        return shards, rest

    def _search_rest(
        self, stage: Stage, table: TopTable, shards: Sequence[HubShard]
    ) -> tuple[list[HubShard], _Rest]:
        """Find the entries of all hubs that are left, level by level."""
        first = stage.table_hubs
        last_hub = self._plan.num_nodes
        title = f"labels: hubs to {last_hub}"
        common = {
            "label_bounds": self._plan.label_bounds,
            "max_memory": self._options["max_memory"],
            "top": table.to_json(),
        }

        def units_after(found: RestFound) -> Callable[..., Unit]:
            file = write_found(found, self._folder)
            inputs = (*self._inputs(table), *found.file_names, file)

            def unit(name: str, function: Any, weight: int = 1, **own: Any) -> Unit:
                arguments = {**common, **own, "found": file}
                return Unit(f"{name}, from hub {first} on", function, arguments, inputs, weight)

            return unit

        def find(found: RestFound, units: int) -> list[LevelPart]:
            unit = units_after(found)
            level = f"distance {found.distance + 1}"
            options = {**self._options, "num_parts": units}
            outcomes = self._job.run(
                [
                    unit(f"part {part} of {units}, {level}", find_level, part=part, **options)
                    for part in range(units)
                ],
                title=f"{title}, {level}",
                unit="parts",
            )
            return [LevelPart(**done.facts) for done in outcomes]

        def settle(found: RestFound) -> list[SettledPart]:
            unit = units_after(found)
            level = f"distance {found.distance}"
            outcomes = self._job.run(
                [
                    unit(f"part {part} of all to {level}", settle_entries, part=part)
                    for part in range(self._plan.num_parts)
                ],
                title=f"{title}, to {level}",
                unit="parts",
            )
            return [SettledPart(**done.facts) for done in outcomes]

        def write(found: RestFound, ranges: Sequence[tuple[int, int]]) -> list[HubShard]:
            unit = units_after(found)
            units = [
                unit(
                    f"hubs {begin} to {end - 1}",
                    write_others,
                    end - begin,
                    first=begin,
                    last=end,
                    **self._options,
                )
                for begin, end in ranges
            ]
            return _shards_of(self._job.run(units, title=title, unit="hubs"))

        shards, found = search_last_stage(
            self._plan, stage, shards, find=find, settle=settle, write=write
        )
        return shards, _Rest(table, write_found(found, self._folder))

    def _write_table(self, shards: list[HubShard]) -> TopTable:
        last = max(one.last for one in shards)
        arguments = {**_values(shards), "max_memory": self._options["max_memory"]}
        units = [
            Unit(
                f"part {part} of the table of the first {last} hubs",
                write_table,
                {**arguments, "part": part},
                None,
            )
            for part in range(self._plan.num_parts)
        ]
        outcomes = self._job.run(units, title="labels: table", unit="parts")
        return TopTable.from_json([dict(one.facts) for one in outcomes])

    def _inputs(self, table: TopTable | None) -> tuple[str, ...]:
        parts = () if table is None else table.parts
        return (*self._graph_files, *(one.name for one in parts))

    def _units(self, ranges: Sequence[HubRange], table: TopTable | None) -> list[Unit]:
        return [
            Unit(
                f"the search from hubs {one.first} to {one.last - 1} ({one.side})",
                search_range,
                {
                    **one._asdict(),
                    **self._options,
                    "label_bounds": self._plan.label_bounds,
                    "top": None if table is None else table.to_json(),
                },
                self._inputs(table),
                one.last - one.first,
            )
            for one in ranges
        ]

    def merge(self, shards: list[HubShard], rest: _Rest | None) -> list[LabelPart]:
        """Return the parts of the labels and of the inverted labels."""
        plan = self._plan
        bounds = plan.holder_bounds(shards)
        function: Callable[..., Outcome] = merge_labels
        source = {**_values(shards), "max_memory": self._options["max_memory"]}
        if rest is not None:
            function = merge_found
            source = {
                **self._options,
                "label_bounds": plan.label_bounds,
                "top": rest.table.to_json(),
                "found": rest.found_file,
            }
        units = [
            Unit(
                f"the labels of part {part} ({side})",
                function,
                {**source, "part": part, "side": side},
                None,
            )
            for side in plan.sides
            for part in range(plan.num_parts)
        ]
        units += [
            Unit(
                f"the holders of part {part} ({side})",
                merge_inverted,
                {
                    **_values(
                        [one for one in shards if bounds[part] <= one.first < bounds[part + 1]]
                    ),
                    "part": part,
                    "side": side,
                    "holder_bounds": bounds,
                },
                None,
            )
            for side in plan.sides
            for part in range(len(bounds) - 1)
        ]
        outcomes = self._job.run(units, title="labels: merging", unit="parts")
        return [LabelPart.from_json(dict(one.facts)) for one in outcomes]


def _values(shards: Sequence[HubShard]) -> dict[str, Any]:
    return {"shards": [one._asdict() for one in shards]}


# ---- units -------------------------------------------------------------------------------------


def _write_graph(graph: Graph, order: Any, seed: int, folder: Path) -> Outcome:
    place = folder / _GRAPH
    write_ranked_graph(graph, order, place, seed=seed, overwrite=True)
    names = sorted(f"{_GRAPH}/{path.name}" for path in place.iterdir())
    return Outcome(tuple(WrittenFile.of(folder, name) for name in names))


def search_range(
    folder: Path,
    *,
    first: int,
    last: int,
    side: str,
    top: list[dict[str, Any]] | None,
    **options: Any,
) -> Outcome:
    """Find the entries of a range of hubs; `dhilgt.labels.sharding.search_hubs` as a unit."""
    table = None if top is None else TopTable.from_json(top)
    graph = _opened_graph(folder / _GRAPH)
    shard = search_hubs(graph, first, last, side=side, folder=folder, top=table, **options)
    return _found([shard])


def find_level(folder: Path, *, top: list[dict[str, Any]], found: str, **options: Any) -> Outcome:
    """Find a part of the next level; `dhilgt.labels.sharding.search_level` as a unit."""
    part = search_level(*_search_state(folder, top, found), folder=folder, **options)
    return Outcome((_file_of(part),), part._asdict())


def settle_entries(
    folder: Path, *, top: list[dict[str, Any]], found: str, **options: Any
) -> Outcome:
    """Settle the entries of a range; `dhilgt.labels.sharding.settle_levels` as a unit."""
    part = settle_levels(*_search_state(folder, top, found), folder=folder, **options)
    return Outcome((_file_of(part),), part._asdict())


def write_others(folder: Path, *, top: list[dict[str, Any]], found: str, **options: Any) -> Outcome:
    """Write the inverted labels of other hubs; `dhilgt.labels.sharding.search_rest` as a unit."""
    return _found(search_rest(*_search_state(folder, top, found), folder=folder, **options))


def _search_state(
    folder: Path, top: list[dict[str, Any]], found: str
) -> tuple[RankedGraphFiles, TopTable, RestFound]:
    return _opened_graph(folder / _GRAPH), TopTable.from_json(top), read_found(folder, found)


def _file_of(part: HubShard | LevelPart | SettledPart | TablePart) -> WrittenFile:
    return WrittenFile(part.name, part.num_bytes, part.sha256, has_sections=True)


def _found(shards: list[HubShard]) -> Outcome:
    files = tuple(_file_of(one) for one in shards)
    peak = max(one.peak_bytes for one in shards)
    return Outcome(files, {**_values(shards), "peak_bytes": peak})


def write_table(
    folder: Path, *, shards: list[dict[str, Any]], part: int, **options: Any
) -> Outcome:
    """Write a part of the table; `dhilgt.labels.sharding.write_table_part` as a unit."""
    graph = _opened_graph(folder / _GRAPH)
    table = write_table_part(graph, _shards(shards), part, folder=folder, **options)
    return Outcome((_file_of(table),), table._asdict())


def merge_labels(
    folder: Path, *, shards: list[dict[str, Any]], part: int, **options: Any
) -> Outcome:
    """Make a part of the labels; `dhilgt.labels.sharding.merge_range` as a unit."""
    forget_rest()
    return _outcome(folder, merge_range(folder, _shards(shards), part, **options))


def merge_found(folder: Path, *, top: list[dict[str, Any]], found: str, **options: Any) -> Outcome:
    """Make a part of the labels; `dhilgt.labels.sharding.merge_with_rest` as a unit."""
    state = _search_state(folder, top, found)
    return _outcome(folder, merge_with_rest(*state, folder=folder, **options))


def merge_inverted(
    folder: Path, *, shards: list[dict[str, Any]], part: int, **options: Any
) -> Outcome:
    """Make a part of the inverted labels; `dhilgt.labels.sharding.merge_holders` as a unit."""
    forget_rest()
    return _outcome(folder, merge_holders(folder, _shards(shards), part, **options))


def _shards(values: list[dict[str, Any]]) -> list[HubShard]:
    return [HubShard(**one) for one in values]


def _shards_of(outcomes: Sequence[Outcome]) -> list[HubShard]:
    return [one for done in outcomes for one in _shards(done.facts["shards"])]


def _outcome(folder: Path, part: LabelPart) -> Outcome:
    files = (
        WrittenFile(one.file, (folder / one.file).stat().st_size, one.sha256) for one in part.files
    )
    return Outcome(tuple(files), part.to_json())


def _opened_graph(folder: Path) -> RankedGraphFiles:
    """Return the mapped graph; a worker opens it once for all its units."""
    found = (folder / MANIFEST).stat()
    return _open_graph(folder, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _open_graph(folder: Path, _inode: int, _time: int) -> RankedGraphFiles:
    return RankedGraphFiles.open(folder)
