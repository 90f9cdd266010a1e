"""Prediction on a cluster: ranges of nodes, each by a worker that has loaded the classifier.

A range is a whole number of the batches that one machine would take, so that every node is in the
same batch as there, and has the same probabilities. What a worker has done is a file: a command
that was killed goes on with what is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.classifier.origin import input_digests
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.cluster.failures import last_line, packed, unpacked
from dhilgt.cluster.group import in_memory, is_on_disk
from dhilgt.cluster.machines import Workers, check_alone, check_seen_by_all, choose_workers
from dhilgt.cluster.parts import make_parts, shared_cache
from dhilgt.cluster.session import check_cluster, connected
from dhilgt.errors import ConfigError, DhilgtError, setting
from dhilgt.graph.store import load_graph, save_graph
from dhilgt.store import files
from dhilgt.store.files import (
    canonical_json,
    explained,
    hash_file,
    npy_chunks,
    plain_array,
    sync_folder,
    write_file,
)
from dhilgt.store.target import BuildLock
from dhilgt.training.run_folder import BUNDLE, PREDICTIONS
from dhilgt.utils.progress import progress_bar

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_RANGES_PER_WORKER = 4  # so that none waits long for the last one
_MOST_ROWS = 1 << 16
_MOST_TRIES = 4
_NODES = "nodes.npy"
_GRAPH = "graph"
_CACHE = "cache"


@dataclass(frozen=True)
class Job:
    """What a worker needs to know; everything large is a file.

    Attributes:
        kind: Class of the classifier.
        folder: Where it was saved.
        place: Where the nodes, another graph and the results are.
        device: The setting.
        cache_folder: Of labels and tokens.
        other: Whether the nodes are of another graph.
        quick: As for `NodeClassifier.predict`.
        in_memory: Whether features are read into memory, as they are in the driver.
    """

    kind: type[NodeClassifier]
    folder: Path
    place: Path
    device: str
    cache_folder: Path
    other: bool
    quick: bool
    in_memory: bool


def member_probabilities(
    clf: NodeClassifier,
    nodes: NDArray[np.int64],
    pipelines: Sequence[Pipeline],
    quick: bool,
    cluster: str,
) -> list[NDArray[np.float32]]:
    """Return the probabilities by each member of a classifier, as one machine would.

    Args:
        clf: A fitted classifier that was saved.
        nodes: Distinct node indices, ascending.
        pipelines: Of the nodes' graph, one for each member.
        quick: As for `NodeClassifier.predict`.
        cluster: "auto" or an address.

    Raises:
        ConfigError: If the classifier was not saved, or no cluster is there.
        ArtifactError: If a machine does not see its folder, or another command predicts the same.
    """
    check_cluster(cluster)
    check_alone(cluster)
    folder = _saved_folder(clf, cluster)
    graph = pipelines[0].graph
    other = graph is not clf.members_[0].pipeline.graph
    place = (
        folder / f"{PREDICTIONS}.parts-{_key(clf, folder, graph if other else None, nodes, quick)}"
    )
    with _claimed(place), connected(cluster) as ray:
        workers = choose_workers(ray, clf.settings_.device)
        check_seen_by_all(ray, place)
        cache = shared_cache(ray, cluster, graph, clf.cache, place / _CACHE, clf.progress)
        if not quick:  # with it, labels are not those of a graph alone, which a cache could keep
            listed = [member.settings for member in clf.members_]
            clock = clf._pipeline.clock
            make_parts(graph, listed, cache, progress=clf.progress, clock=clock)
        with explained("write in", place):
            write_file(place / _NODES, npy_chunks(plain_array("nodes", nodes)))
        if other:
            save_graph(graph, place / _GRAPH, overwrite=True)
        job = Job(
            kind=type(clf),
            folder=folder,
            place=place,
            device=clf.settings_.device,
            cache_folder=cache.root,
            other=other,
            quick=quick,
            in_memory=not workers.gpus and not is_on_disk(graph.features),
        )
        sizes = [
            pipeline.scoring_batch_size(member.batch_size, len(nodes))
            for member, pipeline in zip(clf.members_, pipelines, strict=True)
        ]
        ranges = list(_ranges(len(nodes), sizes, workers.count))
        _predict(ray, job, workers, ranges, clf.progress)
        return _collected(place, ranges, len(nodes), len(clf.classes_))


def _saved_folder(clf: NodeClassifier, cluster: str) -> Path:
    """Return the folder that workers load the classifier from."""
    if clf._saved_in is None:
        raise ConfigError(
            f"{setting('cluster', cluster)}: workers load the classifier from a folder, and it is "
            "in none; call save first, with a folder that all machines of the cluster see"
        )
    folder, seal = clf._saved_in
    bundle = folder / BUNDLE
    if not bundle.exists() or hash_file(bundle) != seal:
        raise ConfigError(
            f"{setting('cluster', cluster)}: {folder} no longer holds this classifier; save it to "
            "a folder of its own"
        )
    return folder


def _key(
    clf: NodeClassifier, folder: Path, other: Any, nodes: NDArray[np.int64], quick: bool
) -> str:
    """Return what distinguishes a prediction from others of the same classifier."""
    facts = {
        "bundle": hash_file(folder / BUNDLE),
        "graph": None if other is None else input_digests(other, clf.classes_),
        "nodes": hashlib.sha256(nodes.tobytes()).hexdigest(),
        "quick": quick,
        "device": clf.settings_.device,
    }
    return hashlib.sha256(canonical_json(facts)).hexdigest()[:16]


@contextlib.contextmanager
def _claimed(place: Path) -> Iterator[None]:
    """Keep a second command out; the folder is removed at the end, and stays after a failure."""
    with explained("write in", place.parent):
        lock = BuildLock(place)
    try:
        with explained("write in", place.parent):
            place.mkdir(exist_ok=True)
        yield
        shutil.rmtree(place, ignore_errors=True)
    finally:
        lock.release()


# ---- ranges ------------------------------------------------------------------------------------

Range = tuple[int, ...]
"""A member, and the places in the list of nodes where the range begins and ends."""

_COLUMNS = ("member", "first", "last")


def _ranges(count: int, batch_sizes: Sequence[int], workers: int) -> Iterator[Range]:
    """Yield the ranges of each member: whole batches, a few ranges for each worker.

    Example:
        >>> list(_ranges(10, [2, 4], 1))
        [(0, 0, 4), (0, 4, 8), (0, 8, 10), (1, 0, 4), (1, 4, 8), (1, 8, 10)]
    """
    for member, batch in enumerate(batch_sizes):
        even = -(-count // (workers * _RANGES_PER_WORKER))
        rows = -(-min(even, _MOST_ROWS) // batch) * batch
        for first in range(0, count, rows):
            yield member, first, min(first + rows, count)


def _stem(one: Range) -> str:
    return "-".join(map(str, one))


def _done(place: Path, ranges: Sequence[Range]) -> dict[Range, Path]:
    """Return the files of ranges that are there and as they were written."""
    found = {}
    for one in ranges:
        for path in place.glob(f"{_stem(one)}-*.npy"):
            if hash_file(path).startswith(path.stem.rpartition("-")[2]):
                found[one] = path
    return found


def _predict(ray: Any, job: Job, workers: Workers, ranges: Sequence[Range], progress: Any) -> None:
    """Let workers predict the ranges that are not done."""
    import ray.data as data

    done = _done(job.place, ranges)
    missing = [one for one in ranges if one not in done]
    if not missing:
        return
    for path in job.place.glob("try-*"):  # of an earlier command
        path.unlink()
    try:
        with _quiet(data), progress_bar("prediction", unit="ranges", enabled=progress) as update:
            rows = _answers(data, job, workers, missing)
            for at, row in enumerate(rows, start=1):
                if row["error"]:
                    raise unpacked(row["error"], row["message"])
                update(len(done) + at, len(ranges))
    except ray.exceptions.RayError as error:
        raise DhilgtError(
            f"the prediction on the cluster failed ({last_line(error)}); the same call goes on "
            "with the ranges of nodes that are done"
        ) from error


def _answers(data: Any, job: Job, workers: Workers, missing: Sequence[Range]) -> Iterator[Any]:
    """Yield what the workers say of each range, in any order."""
    count = min(workers.count, len(missing))
    dataset = data.from_items(
        [dict(zip(_COLUMNS, one, strict=True)) for one in missing],
        override_num_blocks=len(missing),
    ).map_batches(
        Predictor,
        fn_constructor_args=(job,),
        batch_size=1,
        # A machine that is lost takes its worker with it: the others go on.
        compute=data.ActorPoolStrategy(min_size=1, max_size=count, initial_size=count),
        num_cpus=workers.cpus,
        num_gpus=workers.gpus or None,
    )
    yield from dataset.iter_rows()


@contextlib.contextmanager
def _quiet(data: Any) -> Iterator[None]:
    """Keep the bars and notes of Ray Data off the screen."""
    context, logger = data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])


def _collected(
    place: Path, ranges: Sequence[Range], count: int, classes: int
) -> list[NDArray[np.float32]]:
    done = _done(place, ranges)
    members = [np.empty((count, classes), np.float32) for _ in {one[0] for one in ranges}]
    for one in ranges:
        member, first, last = one
        if one not in done:
            raise DhilgtError(f"the file of {_stem(one)} is missing in {place}; predict again")
        members[member][first:last] = np.load(done[one], allow_pickle=False)
    return members


# ---- in a worker -------------------------------------------------------------------------------


class Predictor:
    """A worker: loads the classifier once, then predicts ranges.

    Args:
        job: What it needs to know.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._members: list[Any] = []

    def _load(self) -> None:
        job = self._job
        clf = job.kind.load(job.folder, device=job.device)
        clf.set_params(progress=False)
        clf._use_cache(job.cache_folder)
        if job.other:
            other = load_graph(job.place / _GRAPH)
            pipelines = clf._pipelines_of(in_memory(other) if job.in_memory else other, job.quick)
        else:
            if job.in_memory:
                own = in_memory(clf.graph_)
                for member in clf.members_:
                    member.pipeline.graph = own
            pipelines = clf._own_pipelines()
        self._members = list(zip(clf.members_, pipelines, strict=True))
        self._nodes = np.load(job.place / _NODES, mmap_mode="r", allow_pickle=False)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Predict a range, and write the probabilities to a file.

        Args:
            batch: Columns of one row.
        """
        member, first, last = one = tuple(int(batch[name][0]) for name in _COLUMNS)
        try:
            self._note_try(one)
            if not self._members:
                self._load()
            model, pipeline = self._members[member]
            found = model.probabilities(np.array(self._nodes[first:last]), pipeline)
            self._write(one, found)
        except DhilgtError as error:
            name, message = packed(error)
            return {"error": [name], "message": [message]}
        return {"error": [""], "message": [""]}

    def _note_try(self, one: Range) -> None:
        """Note that this process begins a range, and give up on one that has ended others.

        Ray starts a worker that died again, without an end.
        """
        stem, host = f"try-{_stem(one)}", socket.gethostname()
        tries = len(list(self._job.place.glob(f"{stem}-*")))
        if tries >= _MOST_TRIES:
            raise DhilgtError(
                f"{tries} workers died one after the other while they predicted nodes {one[1]} to "
                f"{one[2]}, the last before node {host}; the memory of a machine may be too small"
            )
        with explained("write in", self._job.place):
            (self._job.place / f"{stem}-{os.getpid()}-{uuid.uuid4().hex}").touch()

    def _write(self, one: Range, found: NDArray[np.float32]) -> None:
        """Write a range under a name made from its content: a retry writes the same again."""
        place = self._job.place
        draft = place / f"draft-{uuid.uuid4().hex}.npy"
        with explained("write", draft):
            digest = write_file(draft, npy_chunks(plain_array("probabilities", found)))
            files.ops.rename(draft, place / f"{_stem(one)}-{digest[:16]}.npy")
            sync_folder(place)
