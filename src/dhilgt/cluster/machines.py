"""The machines of a cluster: how many workers they take, and which folders they see."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhilgt._version import __version__
from dhilgt.cluster.failures import last_line
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError, setting
from dhilgt.store.files import explained, write_file
from dhilgt.utils.devices import this_process

_SECONDS_TO_APPEAR = 2.0  # of a new file on the other machines; network disks keep old listings


@dataclass(frozen=True)
class Workers:
    """The processes that divide a work among them.

    Attributes:
        count: Number of processes.
        cpus: Cores of each.
        gpus: GPUs of each, 1 or 0.
    """

    count: int
    cpus: int
    gpus: int

    @property
    def resources(self) -> dict[str, float]:
        """What a process needs, as Ray names it."""
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def __str__(self) -> str:
        """Return the number of workers and what each has, in words."""
        each = "a GPU" if self.gpus else f"{self.cpus} core{'' if self.cpus == 1 else 's'}"
        return f"{self.count} worker{'' if self.count == 1 else 's'} with {each} each"

    @property
    def device(self) -> str:
        """The kind of device that each works on."""
        return "cuda" if self.gpus else "cpu"


def check_alone(cluster: str) -> None:
    """Raise in one of several processes that torchrun has started.

    Args:
        cluster: The argument.
    """
    if not this_process().is_alone:
        raise ConfigError(
            f"{setting('cluster', cluster)}, but this is one of several processes; start it "
            "without torchrun, Ray starts processes itself"
        )


def choose_workers(ray: Any, device: str = "auto") -> Workers:
    """Return the workers of the whole cluster: one per GPU, without GPUs one per machine.

    Args:
        ray: The package, connected.
        device: The setting; "cpu" leaves GPUs alone.

    Raises:
        ConfigError: If no machine can take one.
    """
    machines = [node["Resources"] for node in _alive(ray)]
    gpus = [one for one in machines if one.get("GPU", 0) >= 1]
    if gpus and device != "cpu":
        cpus = min(one.get("CPU", 0) // one["GPU"] for one in gpus)
        return Workers(sum(int(one["GPU"]) for one in gpus), int(cpus), 1)
    if device not in ("auto", "cpu"):
        raise ConfigError(f"{setting('device', device)}, but no machine of the cluster has a GPU")
    cores = [one["CPU"] for one in machines if one.get("CPU", 0) >= 1]
    if not cores:
        raise ConfigError(
            f"no machine of the cluster has a core to work with ({len(machines)} machines); add "
            "one with ray start --address=HEAD:6379"
        )
    return Workers(len(cores), int(min(cores)), 0)


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


# ---- folders that all machines see -------------------------------------------------------------


@contextlib.contextmanager
def marked(folder: Path) -> Iterator[Path]:
    """Write a file of random content to a folder for the time of a block, and yield it.

    Args:
        folder: An existing one.

    Raises:
        ArtifactError: If it cannot be written.
    """
    word = secrets.token_hex(16)
    mark = folder / f"seen-{word}"
    with explained("write in", folder):
        write_file(mark, iter((memoryview(word.encode()),)))
    try:
        yield mark
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


def check_seen_by_all(ray: Any, folder: Path) -> None:
    """Raise if a machine does not see a folder; before any heavy work.

    Args:
        ray: The package, connected.
        folder: An existing one.

    Raises:
        ArtifactError: The message names the machine.
        DhilgtError: If a machine has no dhilgt, or another version.
    """
    for machine, problem in unseen(ray, folder).items():
        raise ArtifactError(
            f"{machine} does not see {folder} ({problem}); the run must be in a folder that all "
            "machines of the cluster share"
        )


def unseen(ray: Any, folder: Path) -> dict[str, str]:
    """Return the machines that do not see a folder, with the reason.

    Args:
        ray: The package, connected.
        folder: An existing one.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    with marked(folder) as mark:
        looks = []  # several nodes of Ray may have the name of one machine
        for node in _alive(ray):
            if not node["Resources"].get("CPU", 0):
                continue  # nothing runs there
            strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, scheduling_strategy=strategy)(look)
            looks.append((_name(node), node["NodeID"], task.remote(str(mark))))
        problems = {}
        lost = (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError)
        for machine, node_id, answer in looks:
            try:
                problem, version = ray.get(answer)
            except ray.exceptions.RayError as error:
                if isinstance(error, lost) and _has_left(ray, node_id):
                    continue
                raise DhilgtError(
                    f"{machine} cannot run dhilgt ({last_line(error)}); install the same version "
                    f"on all machines, {__version__}"
                ) from error
            if version != __version__:
                raise DhilgtError(
                    f"{machine} has dhilgt {version}, and this is {__version__}; install the same "
                    "version on all machines"
                )
            if problem:
                problems[machine] = problem
        return problems


def _has_left(ray: Any, node_id: str) -> bool:
    """Return whether a node has left the cluster, or does soon: Ray may still list it."""
    until = time.monotonic() + _SECONDS_TO_APPEAR
    while any(node["NodeID"] == node_id for node in _alive(ray)):
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def look(mark: str) -> tuple[str, str]:
    """Return why a file of `marked` is not seen here, "" where it is, and the version of dhilgt.

    Args:
        mark: Its path.

    Example:
        >>> import tempfile
        >>> with marked(Path(tempfile.mkdtemp())) as path:
        ...     look(str(path))[0]
        ''
    """
    path, until = Path(mark), time.monotonic() + _SECONDS_TO_APPEAR
    while True:
        try:
            seen = path.read_text("ascii") == path.name.removeprefix("seen-")
            return "" if seen else "it holds other files there", __version__
        except OSError as error:
            if time.monotonic() > until:
                return error.strerror or str(error), __version__
            time.sleep(0.2)


def _name(node: dict[str, Any]) -> str:
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
