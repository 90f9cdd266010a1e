"""Files of the units: named sections in one file, whose name holds the hash of its content.

A file is a line of JSON and the sections, each at a multiple of 64 bytes. The line lists the place
and the SHA-256 of every section, so the SHA-256 of the line stands for the whole file, and a reader
that takes one section checks that section alone.
"""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.store.files import (
    canonical_json,
    explained,
    hashed,
    open_regular,
    place_file,
    strict_json,
)

_ALIGNMENT = 64
_MOST_HEADER_BYTES = 64 << 20
_DTYPES = ("|u1", "<u2", "<u4", "<u8")


class SectionFile(NamedTuple):
    """A file of sections.

    Attributes:
        name: Name of the file in its folder.
        sha256: Hash of its first line, which holds the hashes of the sections.
        num_bytes: Size of the file.
    """

    name: str
    sha256: str
    num_bytes: int


def write_sections(
    folder: Path, prefix: str, params: Mapping[str, Any], sections: Mapping[str, NDArray[Any]]
) -> SectionFile:
    """Write sections all or nothing and return the file, named by its content.

    Args:
        folder: Where to.
        prefix: Beginning of the file's name.
        params: Plain JSON values that describe the sections.
        sections: Arrays of unsigned integers, one dimension each.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in sections.items()}
    table, at = {}, 0
    for name, array in arrays.items():
        table[name] = {
            "at": at,
            "count": array.size,
            "dtype": array.dtype.str,
            "sha256": hashlib.sha256(_bytes_of(array)).hexdigest(),
        }
        at += _padded(array.nbytes)
    line = canonical_json({"params": dict(params), "sections": table}) + b"\n"
    sha256 = hashlib.sha256(line).hexdigest()
    file = f"{prefix}-{sha256[:32]}"
    path = folder / file
    num_bytes = _padded(len(line)) + at

    def chunks() -> Iterator[memoryview]:
        yield memoryview(line.ljust(_padded(len(line)), b" "))
        for array in arrays.values():
            yield memoryview(_bytes_of(array))
            yield memoryview(bytes(_padded(array.nbytes) - array.nbytes))

    with explained("write", path, num_bytes):
        place_file(_own_path(folder, file), chunks(), lambda: path)
    return SectionFile(file, sha256, num_bytes)


def write_once(
    folder: Path, prefix: str, chunks: Iterator[memoryview], name: Callable[[str], str]
) -> str:
    """Write a file whose name holds the hash of its content, all or nothing; return its SHA-256.

    Args:
        folder: Where to.
        prefix: Beginning of the temporary name, which no other file of the unit has.
        chunks: Its bytes.
        name: Called with the SHA-256 of all bytes for the final name, so that they are hashed once.
    """
    digest = hashlib.sha256()
    place_file(
        _own_path(folder, prefix),
        hashed(chunks, digest),
        lambda: folder / name(digest.hexdigest()),
    )
    return digest.hexdigest()


def _own_path(folder: Path, prefix: str) -> Path:
    """Return a temporary path of this process alone.

    Two workers may do the same unit at once, on different machines: each writes a file of its own,
    and the later one replaces the same bytes.
    """
    return folder / f".{prefix}.{socket.gethostname()}.{os.getpid()}"


class Sections:
    """The sections of a file, mapped.

    Args:
        path: The file.
        sha256: The hash that `write_sections` returned.

    Raises:
        ArtifactError: If the file is missing, cut short, or another one.
    """

    def __init__(self, path: Path, sha256: str) -> None:
        self.path = path
        with explained("read", path), open_regular(path) as file:
            line = file.readline(_MOST_HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
        if hashlib.sha256(line).hexdigest() != sha256:
            raise ArtifactError(f"{path} is damaged: its first line has another hash; {_AGAIN}")
        header = strict_json(line)
        self.params: dict[str, Any] = header["params"]
        self._table: dict[str, dict[str, Any]] = header["sections"]
        self._start = _padded(len(line))
        ends = [
            one["at"] + _padded(one["count"] * np.dtype(one["dtype"]).itemsize)
            for one in self._table.values()
        ]
        expected = self._start + max(ends, default=0)
        if size != expected:
            raise ArtifactError(
                f"{path} is damaged: expected {expected} bytes, found {size}; {_AGAIN}"
            )

    def array(self, name: str, *, check: bool = True) -> NDArray[Any]:
        """Return one section, mapped and read-only.

        Args:
            name: Its name.
            check: Compare all its bytes with their hash.
        """
        one = self._table.get(name)
        if one is None or one["dtype"] not in _DTYPES:
            raise ArtifactError(f"{self.path} has no section {name!r}; {_AGAIN}")
        if one["count"] == 0:
            return np.empty(0, one["dtype"])
        with explained("read", self.path), open_regular(self.path) as file:
            mapped = np.memmap(
                file, one["dtype"], "r", offset=self._start + one["at"], shape=(one["count"],)
            )
        array = np.asarray(mapped)
        if check and hashlib.sha256(_bytes_of(array)).hexdigest() != one["sha256"]:
            raise ArtifactError(f"{self.path} is damaged in its section {name!r}; {_AGAIN}")
        return array

    def check(self) -> None:
        """Compare all sections with their hashes.

        Raises:
            ArtifactError: If one is damaged.
        """
        for name in self._table:
            self.array(name)


_AGAIN = "remove it and run the build again"


def _padded(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def _bytes_of(array: NDArray[Any]) -> Any:
    # An array without elements cannot be viewed as bytes.
    return array.view(np.uint8).data if array.size else b""
