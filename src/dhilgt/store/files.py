"""Files of the store: system calls, `.npy` files, canonical JSON.

All calls that change the disk go through `ops`, so that a test can make any one of them fail.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dhilgt.errors import ArtifactError
from dhilgt.store.checksums import StoredBytes, num_blocks
from dhilgt.utils.memory import format_bytes

SUFFIX = ".npy"
CHUNK_BYTES = 1 << 22
# Only fixed-size data, which needs no pickle.
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[0-9]{1,6}|\|S[0-9]{1,7}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENTRY_KEYS = {"bytes", "dtype", "shape", "sha256"}
_MAX_DIMENSIONS = 32
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the system's errors for a disk or a quota that is full."""
# Without it, Windows would change line ends.
_BINARY: int = getattr(os, "O_BINARY", 0)


class FileOps:
    """The system calls that change the disk, one method each."""

    def open(self, path: Path, flags: int) -> int:
        """Open for writing and return the descriptor."""
        return os.open(path, flags | _BINARY, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of ``data`` and return the number of bytes written."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Wait until the file is on the disk."""
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Move ``source`` over ``target`` in one step."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Give the file ``source`` a second name."""
        os.link(source, target)

    def mkdir(self, path: Path) -> None:
        """Create one folder."""
        path.mkdir()

    def unlink(self, path: Path) -> None:
        """Remove one file, if it exists."""
        path.unlink(missing_ok=True)

    def rmdir(self, path: Path) -> None:
        """Remove one empty folder."""
        path.rmdir()

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut a file to ``length`` bytes and move to its end."""
        os.ftruncate(descriptor, length)
        os.lseek(descriptor, length, os.SEEK_SET)

    def free_bytes(self, folder: Path) -> int | None:
        """Return the free space of the disk that holds ``folder``, or None if it is unknown."""
        try:
            disk = os.statvfs(folder)
        except (AttributeError, OSError):
            return None
        return disk.f_bavail * disk.f_frsize


ops = FileOps()


@dataclass(frozen=True)
class FileEntry:
    """The entry of one file in the manifest; a large file has the SHA-256 of its blocks too.

    Example:
        >>> FileEntry("hubs", "<i4", (3,), "0" * 64).nbytes
        140
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    blocks: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Name of the file in the artifact's folder."""
        return self.name + SUFFIX

    @property
    def header(self) -> bytes:
        """The bytes of the file before the data."""
        return npy_header(self.dtype, self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the file, header and data."""
        return len(self.header) + math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON values."""
        values = {
            "bytes": self.nbytes,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "sha256": self.sha256,
        }
        return values | {"blocks": list(self.blocks)} if self.blocks else values

    @classmethod
    def from_json(cls, file: str, value: Any) -> FileEntry:
        """Return the entry of plain JSON values, which may come from anybody.

        Raises:
            ArtifactError: If any part is not as `to_json` writes it; the message names the part.
        """
        name = file.removesuffix(SUFFIX)
        if name == file or not is_plain_name(name):
            raise ArtifactError(f"file name {shown(file)} is not a plain name ending in {SUFFIX}")
        if not isinstance(value, dict) or set(value) - {"blocks"} != _ENTRY_KEYS:
            raise ArtifactError(f"entry of {file} does not have bytes, dtype, shape and sha256")
        dtype, shape, sha256 = value["dtype"], value["shape"], value["sha256"]
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
            raise ArtifactError(f"dtype {shown(dtype)} of {file} is not one that can be stored")
        if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS:
            raise ArtifactError(f"shape {shown(shape)} of {file} is not a list of lengths")
        if not all(type(length) is int and 0 <= length < 2**63 for length in shape):
            raise ArtifactError(f"shape {shown(shape)} of {file} holds something else than lengths")
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise ArtifactError(f"sha256 {shown(sha256)} of {file} is not 64 hexadecimal digits")
        entry = cls(name, dtype, tuple(shape), sha256, _checked_blocks(file, value))
        if type(value["bytes"]) is not int or value["bytes"] != entry.nbytes:
            raise ArtifactError(
                f"bytes {shown(value['bytes'])} of {file}: {dtype} {shape} takes {entry.nbytes}"
            )
        # If one length is zero, the size does not bound the others.
        if math.prod(max(length, 1) for length in shape) * np.dtype(dtype).itemsize >= 2**62:
            raise ArtifactError(f"shape {shown(shape)} of {file} is more than any file can hold")
        if entry.blocks and len(entry.blocks) != num_blocks(entry.nbytes):
            raise ArtifactError(
                f"{len(entry.blocks)} blocks of {file}: {entry.nbytes} bytes have "
                f"{num_blocks(entry.nbytes)}"
            )
        return entry


def _checked_blocks(file: str, value: dict[str, Any]) -> tuple[str, ...]:
    blocks = value.get("blocks", [])
    is_list = isinstance(blocks, list) and ("blocks" not in value or len(blocks) > 0)
    if not is_list or not all(isinstance(one, str) and _SHA256.fullmatch(one) for one in blocks):
        raise ArtifactError(f"blocks {shown(blocks)} of {file} are not a list of SHA-256")
    return tuple(blocks)


def is_plain_name(name: str) -> bool:
    """Return whether ``name`` is safe as a file name: no path, no special file."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raise `ArtifactError` if a name is not plain."""
    if not is_plain_name(name):
        raise ArtifactError(
            f"array name {shown(name)}: use letters, digits, '_', '-' and '.', "
            "not starting with '.' or '-', at most 200"
        )


def shown(value: Any) -> str:
    """Return ``value`` as text for a message, cut to a readable length."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 2**64 else "a huge number"
    return text if len(text) <= 80 else text[:77] + "..."


# ---- npy files ---------------------------------------------------------------------------------


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of an array's file; readers compare it and never parse one."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    # Padded so that the data starts at a multiple of 64, as the format requires.
    length = -(-(10 + len(text) + 1) // 64) * 64 - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + f"{text:<{length - 1}}\n".encode()


def plain_array(name: str, array: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return ``array`` as it is stored: C order, little endian, a plain dtype.

    Raises:
        ArtifactError: If the name is not plain or the dtype cannot be stored without pickle.
    """
    check_name(name)
    values = np.asarray(array)
    dtype = values.dtype.newbyteorder("<")
    if not _DTYPE.fullmatch(dtype.str):
        raise ArtifactError(
            f"array {name!r} has dtype {values.dtype}; only bool, integers, floats and fixed-width "
            "text can be stored"
        )
    # `ascontiguousarray` would turn a single number into an array of one.
    return np.asarray(values, dtype=dtype, order="C")


def npy_chunks(array: npt.NDArray[Any]) -> Iterator[memoryview]:
    """Yield the bytes of the `.npy` file of a `plain_array` in chunks, without a copy."""
    yield memoryview(npy_header(array.dtype.str, array.shape))
    if array.nbytes:
        data = array.reshape(-1).view(np.uint8)
        for start in range(0, data.size, CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES].data


def stored_bytes(array: npt.NDArray[Any]) -> StoredBytes:
    """Return the bytes of the `.npy` file of a `plain_array`, to be hashed."""
    return StoredBytes(npy_header(array.dtype.str, array.shape), array)


def hash_file(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file; ``advance`` is called with the size of each chunk read."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            if advance is not None:
                advance(len(chunk))
    return digest.hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; raise for a pipe or a device, which could block."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArtifactError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


# ---- writing -----------------------------------------------------------------------------------


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte of ``data``, in as many calls as it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[ops.write(descriptor, rest) :]


def write_file(path: Path, chunks: Iterator[memoryview]) -> str:
    """Write a file all or nothing (temporary, synced, renamed) and return its SHA-256."""
    digest = hashlib.sha256()
    temporary = path.with_name(path.name + ".tmp")
    place_file(temporary, hashed(chunks, digest), lambda: path)
    return digest.hexdigest()


def place_file(
    temporary: Path, chunks: Iterator[memoryview], final_path: Callable[[], Path]
) -> None:
    """Write a file under a temporary name, sync it and rename it; on an error nothing is left.

    Args:
        temporary: The temporary path, on the disk of the final one.
        chunks: The bytes.
        final_path: Called for the final path when all bytes are written: it may depend on them.
    """
    try:
        descriptor = ops.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            for chunk in chunks:
                write_all(descriptor, chunk)
            ops.fsync(descriptor)
        finally:
            os.close(descriptor)
        path = final_path()
        ops.rename(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            ops.unlink(temporary)
        raise


def hashed(chunks: Iterator[memoryview], digest: Any) -> Iterator[memoryview]:
    """Yield the chunks, and add each to a digest of `hashlib`."""
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def sync_folder(folder: Path) -> None:
    """Wait until the entries of ``folder`` are on the disk."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        if os.name == "nt":
            return  # Windows cannot sync a folder, and need not
        raise
    try:
        ops.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(action: str, path: Path, need_bytes: int | None = None) -> Iterator[None]:
    """Turn a system error of the block into an `ArtifactError` with advice."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in FULL_DISK:
            free = ops.free_bytes(path.parent)
            sizes = [] if need_bytes is None else [f"{format_bytes(need_bytes)} needed"]
            sizes += [] if free is None else [f"{format_bytes(free)} free"]
            reason += f" ({', '.join(sizes)}); free some space or choose another disk"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason += "; allow writing there or choose another folder"
        raise ArtifactError(f"cannot {action} {path}: {reason}") from error


# ---- JSON --------------------------------------------------------------------------------------


def canonical_json(value: Any, *, indent: int | None = None) -> bytes:
    """Return ``value`` as JSON, with the same bytes on every run and every machine."""
    text = json.dumps(value, sort_keys=True, allow_nan=False, indent=indent)
    return text.encode("ascii")


def strict_json(data: bytes, max_values: int = 1_000_000) -> Any:
    """Return the value of untrusted JSON: no duplicate keys, no NaN, bounded depth and size.

    Raises:
        ArtifactError: If the text is not such JSON, with the reason.
    """
    # Counted before parsing: each "[]," of three bytes takes about a hundred in memory.
    if sum(map(data.count, (b",", b"[", b"{"))) > max_values:
        raise ArtifactError(f"it holds more than {max_values:,} values")
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ArtifactError("it is nested too deep") from None
    except ArtifactError:
        raise
    except ValueError as error:
        raise ArtifactError(f"it is not JSON: {shown(str(error))}") from None


def read_object(
    path: Path, *, max_bytes: int = 64 << 20, max_values: int = 4_000_000
) -> dict[str, Any]:
    """Return the JSON object in an untrusted file, as a dict.

    Args:
        path: The file.
        max_bytes: A longer file is refused unread.
        max_values: As for `strict_json`.

    Raises:
        ArtifactError: If it cannot be read, is too long or damaged, or holds something else.
    """
    with explained("read", path), open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ArtifactError(f"{path} is longer than {max_bytes} bytes; it is not ours")
    try:
        values = strict_json(data, max_values)
    except ArtifactError as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise ArtifactError(f"{path} does not hold a JSON object; save it again")
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ArtifactError(f"key {shown(counts.most_common(1)[0][0])} appears twice")
    return values


def _refuse_constant(text: str) -> None:
    raise ArtifactError(f"it holds {text}, which is not a JSON number")
