"""Units of work: what the driver asks for, what a worker does, and what it reports."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt._version import __version__
from dhilgt.cluster.transfer import Parcel, local_folder, take, unpack
from dhilgt.errors import DhilgtError
from dhilgt.store.files import FULL_DISK, explained, hash_file
from dhilgt.store.manifest import TOKEN

SEPARATE = "DHILGT_SEPARATE_NODE"
"""Environment variable of a node that shall not use the shared folder, though it may see one."""

_NAMESPACE = b"dhilgt"  # of the notes in which a worker says where a unit runs


class WrittenFile(NamedTuple):
    """A complete file in the folder of a job.

    Attributes:
        name: Relative to the folder; it contains a part of the hash, so equal names are equal
            bytes.
        num_bytes: Its size.
        sha256: Of its bytes.
        has_sections: Whether it is a file of sections: the hash is then that of its first line,
            which lists the hashes of the sections (`dhilgt.labels.sharding.sections`).
    """

    name: str
    num_bytes: int
    sha256: str
    has_sections: bool = False

    @classmethod
    def of(cls, folder: Path, name: str) -> WrittenFile:
        """Return the entry of a file that is complete, from its bytes.

        Args:
            folder: Of the job.
            name: The file's name in it.
        """
        path = folder / name
        with explained("read", path):
            return cls(name, path.stat().st_size, hash_file(path))


class Outcome(NamedTuple):
    """What a unit returns.

    Attributes:
        files: The files it has written.
        facts: Further values, plain JSON.
    """

    files: tuple[WrittenFile, ...] = ()
    facts: Mapping[str, Any] = {}


class Unit(NamedTuple):
    """A piece of work that can be done anywhere, and again, with the same result.

    Attributes:
        name: Unique in the job; messages and the journal use it.
        function: Of a module, so that it travels by name. It is called with the folder of the job
            and the arguments, writes its files there all or nothing, and returns an `Outcome`.
        arguments: Plain values by name. Files are named relative to the folder.
        inputs: Files of the folder that it reads; a node that does not see the folder gets copies
            of them. None: it reads too many, and is done where the folder is seen.
        weight: Its share of the progress bar.
    """

    name: str
    function: Callable[..., Outcome]
    arguments: Mapping[str, Any] = {}
    inputs: tuple[str, ...] | None = ()
    weight: int = 1


class Node(NamedTuple):
    """A machine of the cluster."""

    host: str
    address: str
    node_id: str

    def __str__(self) -> str:
        return f"{self.host} ({self.address}, Ray node {self.node_id[:12]})"


class Problem(NamedTuple):
    """An error inside a unit.

    Attributes:
        kind: Name of its class.
        text: The message; where it is one of this package, with its mentions of arguments.
        full_disk: Whether it comes from a disk without space.
        trace: Where it was raised.
    """

    kind: str
    text: str
    full_disk: bool
    trace: str


class Call(NamedTuple):
    """What travels to a worker.

    Attributes:
        unit: The unit.
        folder: Of the job, as the driver sees it.
        token: Content of the folder's `TOKEN`.
        job: Name for the worker's own copy of the folder.
        version: Of this package, at the driver.
        parcels: Its inputs in the object store; None until a node needs them.
    """

    unit: Unit
    folder: str
    token: str
    job: str
    version: str
    parcels: tuple[Parcel, ...] | None = None


class Report(NamedTuple):
    """What comes back from a worker.

    Attributes:
        node: Where the unit ran.
        sees_folder: Whether the node sees the folder of the driver.
        outcome: None if the unit was not done.
        contents: The bytes of the files, where the node does not see the folder.
        problem: The error that stopped the unit, if any.
        seconds: What it took there.
    """

    node: Node
    sees_folder: bool
    outcome: Outcome | None = None
    contents: tuple[NDArray[np.uint8], ...] = ()
    problem: Problem | None = None
    seconds: float = 0.0


# ---- in a worker -------------------------------------------------------------------------------


def warm_up() -> None:
    """Do nothing: with this function a process has imported what a unit needs."""


def perform(call: Call) -> Report:
    """Do a unit and return the report; the function that Ray runs on a worker.

    An error inside the unit is part of the report: Ray repeats a task for failures of processes
    and machines, not for errors of the program.
    """
    begin = time.perf_counter()
    return _report(call)._replace(seconds=time.perf_counter() - begin)


def _report(call: Call) -> Report:
    node = this_node()
    _note_place(call, node)
    sees_folder = False
    try:
        if call.version != __version__:
            raise DhilgtError(
                f"dhilgt {__version__} is installed there, {call.version} here; install the same "
                "version on every node"
            )
        sees_folder = _sees_folder(call)
        if sees_folder:
            outcome = call.unit.function(Path(call.folder), **call.unit.arguments)
            return Report(node, sees_folder, outcome)
        if call.parcels is None or call.unit.inputs is None:
            return Report(node, sees_folder)
        folder = local_folder(call.job, node.node_id)
        unpack(call.parcels, folder)
        outcome = call.unit.function(folder, **call.unit.arguments)
        return Report(node, sees_folder, outcome, take(folder, [one.name for one in outcome.files]))
    except Exception as error:
        return Report(node, sees_folder, problem=_problem(error))


def this_node() -> Node:
    """Return the node that this process runs on."""
    import ray

    context = ray.get_runtime_context()
    return Node(socket.gethostname(), ray.util.get_node_ip_address(), context.get_node_id())


def _sees_folder(call: Call) -> bool:
    if os.environ.get(SEPARATE):
        return False
    try:
        return (Path(call.folder) / TOKEN).read_text() == call.token
    except (OSError, ValueError):
        return False


def _problem(error: Exception) -> Problem:
    trace = "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, DhilgtError):
        text = error.quotable
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        text = f"unexpected {type(error).__name__}: {error} ({where})"
    return Problem(type(error).__name__, text, _is_full_disk(error), trace)


def _is_full_disk(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            return True
        error = error.__cause__ or error.__context__
    return False


# ---- where a unit runs -------------------------------------------------------------------------

# A worker that dies takes what it knows with it, and Ray's error does not say on which node it
# was. The notes are only for that message: the job does not depend on them.


def _note_place(call: Call, node: Node) -> None:
    with contextlib.suppress(Exception):
        from ray.experimental.internal_kv import _internal_kv_put

        text = "\n".join(node).encode()
        _internal_kv_put(_note_key(call), text, overwrite=True, namespace=_NAMESPACE)


def noted_place(call: Call) -> Node | None:
    """Return where a unit was begun last, if that is known."""
    with contextlib.suppress(Exception):
        from ray.experimental.internal_kv import _internal_kv_get

        text = _internal_kv_get(_note_key(call), namespace=_NAMESPACE)
        if text:
            return Node(*text.decode().split("\n"))
    return None


def forget_places(job: str) -> None:
    """Remove the notes of a job."""
    with contextlib.suppress(Exception):
        from ray.experimental.internal_kv import _internal_kv_del

        _internal_kv_del(f"{job}/".encode(), del_by_prefix=True, namespace=_NAMESPACE)


def _note_key(call: Call) -> bytes:
    return f"{call.job}/{call.unit.name}".encode()
