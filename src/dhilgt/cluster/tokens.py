"""Token rows on a cluster: a unit of work for each shard of the token set."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.cluster.folder import JobFolder
from dhilgt.cluster.jobs import Job
from dhilgt.cluster.nodes import cores_each
from dhilgt.cluster.session import connected
from dhilgt.cluster.units import Outcome, Unit, WrittenFile
from dhilgt.errors import ArtifactError, ConfigError, setting
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.mapped_rows import MappedRows
from dhilgt.labels.sharding import forget_rest
from dhilgt.store import checksums, files
from dhilgt.store.artifact import Artifact, ArtifactWriter
from dhilgt.store.files import (
    SUFFIX,
    FileEntry,
    explained,
    npy_chunks,
    plain_array,
    stored_bytes,
    sync_folder,
    write_file,
)
from dhilgt.store.manifest import MANIFEST
from dhilgt.tokens.ranges import RangeSampler, Traffic
from dhilgt.tokens.spec import TokenSpec
from dhilgt.tokens.store import KIND, ShardPlace, TokenLayout
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import parse_size

_NODES = "nodes"
_MOST_THREADS = 4096


def build_tokens(
    labels: HubLabels,
    layout: TokenLayout,
    nodes: NDArray[np.int64] | None,
    path: str | PathLike[str],
    *,
    cluster: str,
    threads: int | None = None,
    max_memory: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Traffic:
    """Draw token rows on a cluster; the artifact has the bytes of `Tokens.build` on one machine.

    Args:
        labels: Labels in parts, in a folder that the machines share.
        layout: Of the token set.
        nodes: The nodes that have rows; None for every node.
        path: The folder to create, shared too. ``<path>.partial`` holds the finished shards
            meanwhile.
        cluster: "auto", or the address of a cluster.
        threads: Threads of each unit of work; None for one, or more where there are more cores
            than units.
        max_memory: Limit on the memory of each unit. Ray runs no more units on a machine than fit.
        resume: Accept tokens that are there already, if they are the same.
        overwrite: Replace older tokens.
        progress: Show a progress bar when standard error is a terminal.

    Returns:
        What was read of the labels.

    Raises:
        ConfigError: If the labels are not in parts.
        DhilgtError: If Ray is not installed, or a unit fails; it names the unit and the node.
        ArtifactError: If the path cannot be written, another process builds it, or the labels are
            damaged.
        KeyboardInterrupt: On Ctrl-C; what is finished is kept.
    """
    if labels.path is None:
        raise ConfigError(
            f"{setting('cluster', cluster)} needs labels in parts, these are whole: no machine of "
            "a cluster shall hold all of them; build labels with the same setting, or draw "
            "without it"
        )
    workers = whole_number("threads", threads, 1, _MOST_THREADS, optional=True)
    limit = None if max_memory is None else parse_size(max_memory)
    if resume and not overwrite and _is_there(path, layout):
        return Traffic()
    about = {"kind": KIND, "graph": layout.graph_fingerprint, "params": layout.params()}
    shards = list(layout.shards())
    with (
        connected(cluster) as ray,
        JobFolder(path, about=about, overwrite=overwrite) as folder,
        Job(
            ray,
            folder,
            num_cpus=workers or cores_each(ray, len(shards), limit),
            memory=limit,
            progress=progress,
        ) as job,
    ):
        place = str(labels.path)
        if not labels.is_checked and (checks := _checks(labels.path)):
            job.run(checks, title="labels: checking", unit="bytes")
        options = {"labels": place, "layout": layout, "threads": job.num_cpus, "max_memory": limit}
        listed: list[Outcome] = []
        if nodes is not None:
            listed = [job.here(Unit("the nodes", partial(_write_nodes, nodes)))]
            options["nodes"] = listed[0].files[0].name
        units = [
            Unit(
                f"the rows {one.start} to {one.stop - 1}",
                draw_shard,
                {**options, "number": one.number},
                None,
                one.stop - one.start,
            )
            for one in shards
        ]
        drawn = job.run(units, title="tokens", unit="rows")
        _finish(path, layout, [*listed, *drawn], folder.folder, overwrite=overwrite)
        folder.remove()
    return sum((Traffic(*one.facts["traffic"]) for one in drawn), Traffic())


def _is_there(path: str | PathLike[str], layout: TokenLayout) -> bool:
    """Return whether these very tokens are complete."""
    if not (Path(path) / MANIFEST).exists():
        return False
    found = Artifact.open(path)
    same = (KIND, layout.params(), layout.graph_fingerprint)
    return (found.kind, found.params, found.fingerprint) == same


def _checks(labels: Path) -> list[Unit]:
    """Return a unit for each file of which only a sample was checked when it was opened."""
    found = Artifact.open(labels)
    return [
        Unit(
            f"the check of {name}",
            check_file,
            {"labels": str(labels), "name": name},
            None,
            entry.nbytes,
        )
        for name, entry in found.files.items()
        if entry.nbytes > checksums.WHOLE_BYTES
    ]


def _finish(
    path: str | PathLike[str],
    layout: TokenLayout,
    outcomes: Iterable[Outcome],
    folder: Path,
    *,
    overwrite: bool,
) -> None:
    """Make the files of the units the artifact; they are linked, not copied."""
    with ArtifactWriter(
        path,
        kind=KIND,
        format_version=layout.format_version,
        params=layout.params(),
        fingerprint=layout.graph_fingerprint,
        overwrite=overwrite,
    ) as writer:
        for outcome in outcomes:
            for written, entry in zip(outcome.files, outcome.facts["entries"], strict=True):
                value = dict(entry)
                found = FileEntry.from_json(value.pop("file"), value)
                writer.take_file(found, folder / written.name)


# ---- units -------------------------------------------------------------------------------------


def draw_shard(
    folder: Path,
    *,
    labels: str,
    layout: TokenLayout,
    number: int,
    threads: int,
    max_memory: int | None,
    nodes: str | None = None,
) -> Outcome:
    """Draw the rows of one shard and write its arrays.

    Args:
        folder: Of the job.
        labels: The folder of labels in parts.
        layout: Of the token set.
        number: Of the shard.
        threads: Threads to use.
        max_memory: Limit on the memory of a batch.
        nodes: File of the nodes that have rows; None for every node.
    """
    forget_rest()  # a worker that has built the labels may still hold their search
    egos = None if nodes is None else np.load(folder / nodes, mmap_mode="r", allow_pickle=False)
    sampler = _opened_sampler(labels, layout.spec, threads, max_memory)
    before = sampler.traffic
    shard = _place(layout, number).draw(sampler, egos, layout, lambda *_: None)
    return _written(folder, shard.arrays(), {"traffic": list(sampler.traffic - before)})


def check_file(folder: Path, *, labels: str, name: str) -> Outcome:
    """Compare every byte of a file of the labels with its checksum.

    Args:
        folder: Of the job.
        labels: The folder of the labels.
        name: Name of the array.
    """
    found = Artifact.open(labels)
    found.check_array(name, found.array(name, check=False), whole=True)
    return Outcome()


def _write_nodes(nodes: NDArray[np.int64], folder: Path) -> Outcome:
    return _written(folder, {_NODES: nodes}, {})


def _place(layout: TokenLayout, number: int) -> ShardPlace:
    start = number * layout.shard_rows
    return ShardPlace(number, start, min(layout.num_rows, start + layout.shard_rows))


def _written(folder: Path, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> Outcome:
    written, entries = [], []
    for name, array in arrays.items():
        plain = plain_array(name, array)
        # A name of its own: a worker that was given up for dead may still write the same shard.
        temporary = folder / f"{uuid.uuid4().hex}{SUFFIX}"
        with explained("write", temporary, plain.nbytes):
            sha256 = write_file(temporary, npy_chunks(plain))
            path = folder / f"{name}-{sha256[:32]}{SUFFIX}"
            files.ops.rename(temporary, path)
            sync_folder(folder)
        entry = FileEntry(name, plain.dtype.str, plain.shape, sha256, stored_bytes(plain).blocks())
        written.append(WrittenFile(path.name, entry.nbytes, sha256))
        entries.append({"file": entry.file, **entry.to_json()})
    return Outcome(tuple(written), {**facts, "entries": entries})


def _opened_sampler(
    labels: str, spec: TokenSpec, threads: int, max_memory: int | None
) -> RangeSampler:
    """Return a sampler over the mapped labels; a worker opens it once for all its units."""
    try:
        found = (Path(labels) / MANIFEST).stat()
    except OSError as error:
        raise ArtifactError(
            f"cannot open the labels {labels} there: {error.strerror}; keep them in a folder that "
            "all machines share"
        ) from error
    return _open_sampler(labels, found.st_ino, found.st_mtime_ns, spec, threads, max_memory)


@lru_cache(maxsize=1)
def _open_sampler(
    labels: str, _inode: int, _time: int, spec: TokenSpec, threads: int, max_memory: int | None
) -> RangeSampler:
    rows = MappedRows.open(labels)
    return RangeSampler(rows, threads=threads, max_memory=max_memory, **spec.to_dict())
