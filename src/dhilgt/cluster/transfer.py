"""Files between the driver and nodes that do not see its folder, through Ray's object store."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.store.files import explained, sync_folder, write_all

try:
    import fcntl
except ImportError:  # Windows has no such lock: two workers may fetch the same file there
    fcntl = None  # type: ignore[assignment]

# Small against any object store: a chunk need not leave it before the next one comes.
_CHUNK_BYTES = 8 << 20


class Parcel(NamedTuple):
    """A file in the object store.

    Attributes:
        name: Relative to the folder of the job.
        num_bytes: Its size.
        chunks: References to its bytes, in order.
    """

    name: str
    num_bytes: int
    chunks: tuple[Any, ...]


def pack(ray: Any, folder: Path, name: str) -> Parcel:
    """Put a file into the object store; it stays there as long as the parcel is kept.

    Args:
        ray: The package, connected.
        folder: Of the job.
        name: The file's name in it.
    """
    path = folder / name
    chunks = []
    with explained("read", path), path.open("rb") as file:
        while len(chunk := np.fromfile(file, np.uint8, _CHUNK_BYTES)):
            chunks.append(ray.put(chunk))
        num_bytes = file.tell()
    return Parcel(name, num_bytes, tuple(chunks))


# ---- in a worker -------------------------------------------------------------------------------


def local_folder(job: str, node_id: str) -> Path:
    """Return the folder of a node that stands for a job's folder, which it does not see.

    Args:
        job: Name of the job.
        node_id: Of the node: several may run on one machine.

    Raises:
        ArtifactError: If the place is taken by somebody else.
    """
    owner = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"dhilgt-{owner}-{job}-{node_id[:12]}"
    with explained("create", folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
        raise ArtifactError(f"{folder} belongs to somebody else; remove it, or set TMPDIR there")
    return folder


def unpack(parcels: Sequence[Parcel], folder: Path) -> None:
    """Write the files of parcels to a node's folder, those that are not there yet.

    Of several workers on the node one fetches them, the others wait for it.
    """
    with _locked(folder):
        for parcel in parcels:
            path = folder / parcel.name
            if path.exists() and path.stat().st_size == parcel.num_bytes:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with explained("write", path, parcel.num_bytes):
                _write(path, parcel)


def _write(path: Path, parcel: Parcel) -> None:
    import ray

    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            for chunk in parcel.chunks:
                write_all(file.fileno(), ray.get(chunk).data)
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def take(folder: Path, names: Sequence[str]) -> tuple[NDArray[np.uint8], ...]:
    """Return the bytes of files and remove them, as the driver is going to write them."""
    contents = []
    for name in names:
        with explained("read", folder / name):
            contents.append(np.fromfile(folder / name, np.uint8))
            (folder / name).unlink()
    return tuple(contents)


def clear_local(job: str) -> None:
    """Remove a node's folder at the end of a job."""
    import ray

    node_id = ray.get_runtime_context().get_node_id()
    shutil.rmtree(local_folder(job, node_id), ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
