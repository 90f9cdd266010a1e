"""Unpacking archives from elsewhere: nothing lands outside the folder or grows without end."""

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
    """Unpacks a .zip or .tar archive (also compressed) into a folder.

    All names are looked at before the first file is written. Each file appears whole.

    Args:
        archive: The archive.
        target: The folder; made if missing.
        strip: Leading folders of each name to leave out; names with fewer are passed over.
        only: Names (after stripping) to unpack; None for all.
        max_bytes: Refuse to write more than this in all.

    Returns:
        The files written.

    Raises:
        DatasetError: For a name that leads outside, a link or another special file, a file too
            large, or a damaged archive.
    """
    written: list[Path] = []
    room = max_bytes
    try:
        with _opened(archive) as members:
            _check_names(archive, members)
            for name, member, source in members:
                inside = name.split("/")[strip:]
                if not inside or (only is not None and "/".join(inside) not in only):
                    continue
                place = target.joinpath(*inside)
                place.parent.mkdir(parents=True, exist_ok=True)
                with source.read(member) as stream:
                    counted = _Counted(stream, room, archive, max_bytes)
                    write_file(place, counted.chunks())
                room -= counted.done
                written.append(place)
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


class _Zip:
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


class _Tar:
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


_Member = tuple[str, object, "_Zip | _Tar"]


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[list[_Member]]:
    with contextlib.ExitStack() as stack:
        source: _Zip | _Tar
        if zipfile.is_zipfile(archive):
            source = _Zip(stack.enter_context(zipfile.ZipFile(archive)))
        else:
            source = _Tar(stack.enter_context(tarfile.open(archive)))
        members: list[_Member] = []
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
                members.append((name, member, source))
        yield members


def _check_name(archive: Path, name: str) -> None:
    parts = name.rstrip("/").split("/")
    outside = name.startswith("/") or _DRIVE.match(name) or ".." in parts
    if outside or "\\" in name or "\0" in name or "" in parts or "." in parts[1:]:
        raise DatasetError(
            f"{archive} holds the name {name!r}, which leads outside its folder or is malformed; "
            "not unpacked, fetch the archive again from its publisher"
        )


def _check_names(archive: Path, members: list[_Member]) -> None:
    seen: set[str] = set()
    for name, _, _ in members:
        if name in seen:
            raise DatasetError(f"{archive} holds {name!r} twice; not unpacked")
        seen.add(name)


class _Counted:
    """Reads a member and stops at the limit: sizes in headers are only claims."""

    def __init__(self, stream: IO[bytes], room: int, archive: Path, limit: int) -> None:
        self._stream, self._room = stream, room
        self._archive, self._limit = archive, limit
        self.done = 0

    def chunks(self) -> Iterator[memoryview]:
        while chunk := self._stream.read(_UNPACK_BYTES):
            self.done += len(chunk)
            if self.done > self._room:
                raise DatasetError(
                    f"{self._archive} unpacks to more than {format_bytes(self._limit)}; stopped, "
                    "fetch the archive again from its publisher"
                )
            yield memoryview(chunk)
