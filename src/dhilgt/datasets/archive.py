"""Unpacking of untrusted archives: no file outside the folder, and a limit on the size."""

import contextlib
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from dhilgt.errors import DatasetError
from dhilgt.store.files import write_file
from dhilgt.utils.memory import format_bytes

_UNPACK_BYTES = 1 << 20
_MOST_FILES = 100_000
_DRIVE = re.compile(r"^[A-Za-z]:")


def extract(
    archive: Path,
    target: Path,
    *,
    strip: int = 0,
    only: Collection[str] | None = None,
    max_bytes: int = 4 << 30,
) -> list[Path]:
    """Unpack a .zip or .tar archive (also compressed) into a folder.

    All names are checked before the first file is written. Each file appears complete.

    Args:
        archive: The archive.
        target: The folder; created if missing.
        strip: Leading folders of each name to leave out; names with fewer are skipped.
        only: Names (after stripping) to unpack; None for all.
        max_bytes: Limit on the size of all files together.

    Returns:
        The files written.

    Raises:
        DatasetError: For a name that leads outside, a link or another special file, a file too
            large, or a damaged archive.
    """
    written: list[Path] = []
    remaining = max_bytes
    try:
        with _members(archive) as members:
            for name, member, source in members:
                parts = name.split("/")[strip:]
                if not parts or (only is not None and "/".join(parts) not in only):
                    continue
                path = target.joinpath(*parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                with source.read(member) as stream:
                    limited = _LimitedReader(stream, remaining, archive, max_bytes)
                    write_file(path, limited.chunks())
                remaining -= limited.num_bytes
                written.append(path)
    except (
        EOFError,
        NotImplementedError,
        OSError,
        RuntimeError,
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(
            f"{archive} cannot be unpacked ({error}); remove it and fetch it again"
        ) from error
    return written


class _ZipSource:
    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    def members(self) -> Iterator[tuple[str, object, bool]]:
        for entry in self._file.infolist():
            mode = entry.external_attr >> 16
            plain = stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR)
            if plain and entry.is_dir():
                yield entry.orig_filename, None, True
            else:
                yield entry.orig_filename, entry, plain

    def read(self, member: object) -> IO[bytes]:
        assert isinstance(member, zipfile.ZipInfo)
        return self._file.open(member)


class _TarSource:
    def __init__(self, file: tarfile.TarFile) -> None:
        self._file = file

    def members(self) -> Iterator[tuple[str, object, bool]]:
        for entry in self._file:
            yield entry.name, None if entry.isdir() else entry, entry.isfile() or entry.isdir()

    def read(self, member: object) -> IO[bytes]:
        assert isinstance(member, tarfile.TarInfo)
        stream = self._file.extractfile(member)
        assert stream is not None
        return stream


_Member = tuple[str, object, _ZipSource | _TarSource]


@contextlib.contextmanager
def _members(archive: Path) -> Iterator[list[_Member]]:
    """Open an archive for its files, after a check of all names."""
    with contextlib.ExitStack() as stack:
        source: _ZipSource | _TarSource
        if zipfile.is_zipfile(archive):
            source = _ZipSource(stack.enter_context(zipfile.ZipFile(archive)))
        else:
            source = _TarSource(stack.enter_context(tarfile.open(archive)))
        members: dict[str, _Member] = {}
        for count, (name, member, plain) in enumerate(source.members()):
            if count >= _MOST_FILES:
                raise DatasetError(f"{archive} holds more than {_MOST_FILES:,} files; not unpacked")
            if not plain:
                raise DatasetError(
                    f"{archive} holds {name!r}, a link or special file; not unpacked, fetch the "
                    "archive again from its publisher"
                )
            name = name.removeprefix("./")
            _check_name(archive, name)
            if member is not None:
                if name in members:
                    raise DatasetError(f"{archive} holds {name!r} twice; not unpacked")
                members[name] = (name, member, source)
        yield list(members.values())


def _check_name(archive: Path, name: str) -> None:
    parts = name.rstrip("/").split("/")
    outside = name.startswith("/") or _DRIVE.match(name) or ".." in parts
    if outside or "\\" in name or "\0" in name or "" in parts or "." in parts[1:]:
        raise DatasetError(
            f"{archive} holds the name {name!r}, which leads outside its folder or is malformed; "
            "not unpacked, fetch the archive again from its publisher"
        )


class _LimitedReader:
    """Reads a member and stops at the limit: sizes in headers may be wrong."""

    def __init__(self, stream: IO[bytes], remaining: int, archive: Path, limit: int) -> None:
        self._stream, self._remaining = stream, remaining
        self._archive, self._limit = archive, limit
        self.num_bytes = 0

    def chunks(self) -> Iterator[memoryview]:
        while chunk := self._stream.read(_UNPACK_BYTES):
            self.num_bytes += len(chunk)
            if self.num_bytes > self._remaining:
                raise DatasetError(
                    f"{self._archive} unpacks to more than {format_bytes(self._limit)}; stopped, "
                    "fetch the archive again from its publisher"
                )
            yield memoryview(chunk)
