"""The group of workers that train one model, started and restarted by Ray Train."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhilgt import errors
from dhilgt.classifier.inputs import FitInputs
from dhilgt.cluster.failures import last_line, packed, unpacked
from dhilgt.cluster.machines import Workers
from dhilgt.errors import (
    ArtifactError,
    DhilgtError,
    GraphWarning,
    ProcessError,
    TrainingError,
    TrainingInterrupted,
    argument,
    warn,
)
from dhilgt.graph.graph import Graph
from dhilgt.graph.store import load_graph
from dhilgt.loader.feature_rows import is_mapped
from dhilgt.store.files import canonical_json, read_object, write_file
from dhilgt.store.target import BuildLock
from dhilgt.training.distributed import TIMEOUT
from dhilgt.training.run_folder import RunFolder
from dhilgt.training.signals import StopSignals
from dhilgt.utils.devices import this_process

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

MAX_FAILURES = 3
"""How often the workers are started again after one of them died."""

_WARNINGS, _STOPPED = "warnings", "stopped"  # what the first worker returns
_MAX_STARTS = 10  # a minute each: for a machine to come back
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_DIE = 30.0


@dataclass(frozen=True)
class Task:
    """What a worker needs to know; the graph, labels and tokens are files.

    Attributes:
        place: Folder that all machines see, in the folder of the run.
        kind: Class of the classifier.
        params: Its parameters.
        classes: The user's classes.
        from_array: As in `FitInputs`.
        held_out: As in `FitInputs`.
        in_memory: Whether features are read into memory, as they were where the graph comes from:
            rows of arrays in files are multiplied in another way.
        cache_folder: Of labels and tokens.
        resume_command: For the message of a stop.
        resume_call: For the message of a stop.
    """

    STOP: ClassVar[str] = "stop"
    GRAPH: ClassVar[str] = "graph"

    place: Path
    kind: type[NodeClassifier]
    params: dict[str, Any]
    classes: NDArray[Any]
    from_array: bool
    held_out: int
    in_memory: bool
    cache_folder: Path
    resume_command: str | None
    resume_call: str

    def inputs(self) -> FitInputs:
        """Return the graph and the split."""
        graph = load_graph(self.place / self.GRAPH)
        if self.in_memory:
            graph = in_memory(graph)
        split = {name: np.flatnonzero(mask) for name, mask in (graph.masks or {}).items()}
        return FitInputs(graph, self.classes, split, self.from_array, self.held_out)


def in_memory(graph: Graph) -> Graph:
    """Return a graph whose features are in memory."""
    if not is_on_disk(graph.features):
        return graph
    features = np.array(graph.features)
    features.flags.writeable = False
    return graph.with_nodes(features=features)


def is_on_disk(features: Any) -> bool:
    """Return whether features are in a file, from which rows are read when they are needed."""
    return not hasattr(features, "tocsr") and is_mapped(features)


# ---- in the driver -----------------------------------------------------------------------------


class Training:
    """A training that goes on in the background."""

    def __init__(self, trainer: Any, place: Path) -> None:
        self._trainer, self._place = trainer, place
        self._answer: dict[str, Any] = {}
        self._error: BaseException | None = None
        self._over = threading.Event()  # a `join` that Ctrl-C interrupts takes the thread for ended
        # In the main thread, Ray Train would take over Ctrl-C.
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer = self._trainer.fit().return_value or {}
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def ended(self, seconds: float) -> bool:
        """Return whether the training has ended, after at most some seconds."""
        return self._over.wait(seconds)

    @property
    def has_finished(self) -> bool:
        """Whether the workers trained to the end."""
        return _WARNINGS in self._answer

    def raise_error(self) -> None:
        """Raise the error of the workers, and repeat their warnings."""
        for path in sorted(self._place.glob("error-*.json")):
            noted = read_object(path)
            raise unpacked(noted["name"], noted["message"])
        if self._error is not None:
            raise TrainingError(
                f"training on the cluster failed ({_reason(self._error)}); go on from the last "
                f"save with {argument('resume', True)}"
            ) from self._error
        for name, message in self._answer.get(_WARNINGS, ()):
            warn(message, getattr(errors, name))
        if _STOPPED in self._answer:
            raise TrainingInterrupted(self._answer[_STOPPED], signal.SIGINT)


def _reason(error: BaseException) -> str:
    failures = getattr(error, "worker_failures", {})
    texts = [f"worker {rank}: {last_line(one)}" for rank, one in sorted(failures.items())]
    return "; ".join(texts) or last_line(error)


def start(ray: Any, task: Task, workers: Workers) -> Training:
    """Start the workers of a training.

    Args:
        ray: The package, connected.
        task: What they need to know.
        workers: How many, and what each needs.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    trainer = TorchTrainer(
        work,
        train_loop_config={"task": task},
        # Both: gradients are exchanged between GPUs, counts and scores between hosts.
        torch_config=TorchConfig(
            backend="cpu:gloo,cuda:nccl" if workers.gpus else "gloo",
            timeout_s=int(TIMEOUT.total_seconds()),
        ),
        scaling_config=ScalingConfig(
            num_workers=workers.count,
            use_gpu=bool(workers.gpus),
            resources_per_worker=workers.resources,
            placement_strategy="SPREAD",
        ),
        run_config=RunConfig(
            name=f"ray-{time.time_ns()}",
            storage_path=str(task.place),
            failure_config=FailureConfig(
                max_failures=MAX_FAILURES, controller_failure_limit=_MAX_STARTS
            ),
        ),
    )
    return Training(trainer, task.place)


# ---- in a worker -------------------------------------------------------------------------------


def work(config: dict[str, Any]) -> dict[str, Any]:
    """Train in one of the workers; the first one returns its warnings.

    Args:
        config: With the `Task`.
    """
    task: Task = config["task"]
    folder = RunFolder(task.place.parent)
    if (task.place / task.STOP).exists() or any(task.place.glob("error-*.json")):
        return {}  # started again after an error that would come again
    if not (task.place / task.GRAPH).exists():
        raise ArtifactError(f"{task.place} is not seen by this machine")
    rank = this_process().rank
    if rank == 0:
        wait_for_lock(folder)  # the group before this one may still be ending
    clf = task.kind(**task.params)
    clf._cache_folder = task.cache_folder
    clf._resume_command, clf._resume_call = task.resume_command, task.resume_call
    try:
        with warnings.catch_warnings(record=True) as caught, _stops(task):
            warnings.simplefilter("always")
            clf._fit_here(task.inputs, folder.path, resume=True)
    except TrainingInterrupted as stop:
        return {_STOPPED: stop.quotable}
    except DhilgtError as error:
        if not isinstance(error, ProcessError):
            _note_error(task.place / f"error-{rank:06}.json", error)
        raise
    ours = [one.message for one in caught if isinstance(one.message, GraphWarning)]
    return {_WARNINGS: [(type(one).__name__, one.quotable) for one in ours]}


def wait_for_lock(folder: RunFolder) -> None:
    """Wait until no worker of a group that has ended writes in the folder of a run.

    Args:
        folder: Of the run.

    Raises:
        ArtifactError: If one still does after half a minute.
    """
    until = time.monotonic() + _SECONDS_TO_DIE
    while True:
        try:
            BuildLock(folder.path).release()
            return
        except ArtifactError:
            if time.monotonic() > until:
                raise
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _note_error(path: Path, error: DhilgtError) -> None:
    name, message = packed(error)
    noted = canonical_json({"name": name, "message": message})
    write_file(path, iter((memoryview(noted),)))


@contextlib.contextmanager
def _stops(task: Task) -> Iterator[None]:
    """Ask the work of the block to stop once the driver has left a file that says so."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_SECONDS_BETWEEN_LOOKS):
            if (task.place / task.STOP).exists():
                StopSignals.ask(signal.SIGINT)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
