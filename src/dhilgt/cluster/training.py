"""Training on a cluster: Ray Train starts the processes that torchrun starts on one machine.

Each worker calls what `NodeClassifier.fit` calls, in the run's folder and with its checkpoints. A
group of workers that was started again goes on from the last of them.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dhilgt.classifier.auto.record import read_record
from dhilgt.classifier.auto.start import begin, taking_part
from dhilgt.classifier.inputs import FitInputs
from dhilgt.classifier.origin import check_origin, check_recipe, origin
from dhilgt.classifier.parameters import AUTO
from dhilgt.cluster.group import Task, Training, is_on_disk, start, wait_for_lock
from dhilgt.cluster.machines import Workers, check_alone, check_seen_by_all, choose_workers
from dhilgt.cluster.parts import make_parts, shared_cache
from dhilgt.cluster.session import check_cluster, connected
from dhilgt.errors import ArtifactError, ConfigError, TrainingInterrupted, argument, setting
from dhilgt.graph.store import save_graph
from dhilgt.settings.settings import Settings
from dhilgt.store.files import explained
from dhilgt.store.target import BuildLock
from dhilgt.training.clock import StageClock
from dhilgt.training.resume import cut_off_message
from dhilgt.training.run_folder import CLUSTER, METRICS, RunFolder
from dhilgt.utils.progress import progress_bar, progress_note

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

CACHE = "cache"
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_STOP = 60.0


def fit_on_cluster(
    clf: NodeClassifier,
    make_inputs: Callable[[], FitInputs],
    *,
    cluster: str,
    run_dir: str | PathLike[str] | None,
    resume: bool,
) -> None:
    """Train a classifier on a cluster; see `NodeClassifier.fit`.

    Args:
        clf: The classifier; it is fitted afterwards, as after a training on this machine.
        make_inputs: Returns the graph and the split.
        cluster: "auto" or an address.
        run_dir: Folder of the run, which all machines must see.
        resume: Whether to go on with the run in it.

    Raises:
        ConfigError: If a setting is wrong, or no cluster is there.
        ArtifactError: If a machine does not see the folder, or another driver works in it.
        TrainingError: If workers failed again and again.
        TrainingInterrupted: On Ctrl-C; what was trained is saved.
    """
    check_cluster(cluster)
    check_alone(cluster)
    if run_dir is None:
        raise ConfigError(
            f"{setting('cluster', cluster)} needs {argument('run_dir')}, a folder that all "
            "machines of the cluster see"
        )
    clock = StageClock()  # of labels and tokens
    with _claimed(RunFolder(run_dir), resume) as folder:
        inputs = make_inputs()
        check_recipe(folder.path, clf.recipe == AUTO)
        if resume and clf.recipe != AUTO:
            check_origin(folder.path, origin(inputs.graph, inputs.classes, clf._settings()))
        with connected(cluster) as ray:
            workers = choose_workers(ray, clf._settings_before().device)
            if not (resume and _search_has_ended(clf, inputs, folder, workers)):
                _train(ray, clf, inputs, folder, workers, cluster, clock)
    loaded = type(clf).load(folder.path)
    loaded._pipeline.clock.join(clock)
    for member in loaded.members_:
        member.pipeline.graph = inputs.graph
    # Files have their keys in alphabetical order; loss and training nodes come first.
    scores = {
        part: {"loss": loaded.scores_[part]["loss"], **loaded.scores_[part]}
        for part in inputs.split
    }
    clf._set_fitted(inputs, loaded.members_, loaded.result_, scores, loaded.search_)
    clf._saved_in = loaded._saved_in


@contextlib.contextmanager
def _claimed(folder: RunFolder, resume: bool) -> Iterator[RunFolder]:
    """Keep other drivers out of the folder of a run, and remove what was for the workers."""
    place = folder.path / CLUSTER
    if place.exists():  # a driver was killed, or works there
        BuildLock(place).release()
        wait_for_lock(folder)
    folder.open(resume=resume)
    folder.close()
    lock = BuildLock(place)
    try:
        with explained("write in", folder.path):
            place.mkdir(exist_ok=True)
            _clear(place, {CACHE})  # of a driver that was killed
        yield folder
        shutil.rmtree(place, ignore_errors=True)
    finally:
        with contextlib.suppress(OSError):
            _clear(place, {CACHE, Task.STOP})  # for the next attempt; for workers that go on
            place.rmdir()
        lock.release()


def _clear(place: Path, kept: set[str]) -> None:
    """Remove what is in a folder, but for some names."""
    for path in place.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _search_has_ended(
    clf: NodeClassifier, inputs: FitInputs, folder: RunFolder, workers: Workers
) -> bool:
    """Return whether the search in a folder has ended; raise if it began with something else."""
    if clf.recipe != AUTO:
        return False
    search = begin(
        inputs,
        clf._given(),
        torch.device(workers.device),
        cache=None,
        progress=False,
        budget=clf.budget,
        run_dir=folder.path,
        resume=True,
        goes_on=(None, ""),
    )
    return search is None


def _train(
    ray: Any,
    clf: NodeClassifier,
    inputs: FitInputs,
    folder: RunFolder,
    workers: Workers,
    cluster: str,
    clock: StageClock,
) -> None:
    """Make what the workers need, and train."""
    settings, place = clf._settings_before(), folder.path / CLUSTER
    check_seen_by_all(ray, place)
    clf._note_split(inputs, settings, torch.device(workers.device), clf.progress)
    progress_note(f"cluster: {workers}", enabled=clf.progress)
    cache = shared_cache(ray, cluster, inputs.graph, clf.cache, place / CACHE, clf.progress)
    listed = _all_settings(clf, inputs, workers.device)
    make_parts(inputs.graph, listed, cache, progress=clf.progress, clock=clock)
    save_graph(inputs.graph, place / Task.GRAPH, overwrite=True)
    task = Task(
        place=place,
        kind=type(clf),
        params=clf.get_params() | {"progress": False},
        classes=inputs.classes,
        from_array=inputs.from_array,
        held_out=inputs.held_out,
        in_memory=not workers.gpus and not is_on_disk(inputs.graph.features),
        cache_folder=cache.root,
        resume_command=clf._resume_command,
        resume_call=clf._resume_call.replace(")", f", cluster={cluster!r})"),
    )
    _watch(start(ray, task, workers), clf, folder, task, max(one.epochs for one in listed))


def _all_settings(clf: NodeClassifier, inputs: FitInputs, device: str) -> list[Settings]:
    """Return the settings of each model that will be trained."""
    if clf.recipe != AUTO:
        return [clf._settings()]
    entries, _, _ = taking_part(inputs, clf._given(), torch.device(device))
    return [entry.settings for entry in entries]


def _watch(
    training: Training, clf: NodeClassifier, folder: RunFolder, task: Task, epochs: int
) -> None:
    """Wait for the workers, show how far they are, and stop them on Ctrl-C."""
    searches = clf.recipe == AUTO
    try:
        with progress_bar("training", unit="epochs", enabled=clf.progress) as update:
            while not training.ended(_SECONDS_BETWEEN_LOOKS):
                update(_epochs_done(folder, searches), None if searches else epochs)
    except KeyboardInterrupt:
        stop = task.place / task.STOP
        stop.touch()
        if training.ended(_SECONDS_TO_STOP):
            stop.unlink()
            training.raise_error()
        if not training.has_finished:  # its last epoch may just have ended
            how = "stopped before the workers had answered"
            text = cut_off_message(folder, clf._resume_command, task.resume_call, how)
            raise TrainingInterrupted(text, signal.SIGINT) from None
    else:
        training.raise_error()


def _epochs_done(folder: RunFolder, searches: bool) -> int:
    with contextlib.suppress(OSError, ArtifactError):
        if searches:
            record = read_record(folder.path)
            return 0 if record is None else record.num_epochs
        return (folder.path / METRICS).read_bytes().count(b"\n")
    return 0
