"""Artifacts on disk: open a finished one, or write one all or nothing.

An artifact is a folder of plain `.npy` files that memory-map, and ``manifest.json``, which
describes them (kind, format, parameters, fingerprint of the graph; size, dtype, shape and SHA-256
of each file). The manifest is written last, so a folder that has one is complete. Nothing is ever
unpickled, and readers compare every entry of the manifest with the files: sizes and headers when
the artifact is opened, the bytes of an array when it is taken.

Files and folders of an artifact ``name`` at any moment:

=================  ===============================================================================
``name``           the complete artifact, if any; put in place only by a rename
``.name.tmp``      folder that `ArtifactWriter` writes; worthless after a crash
``name.partial``   folder that `ShardWriter` writes; ``resume=True`` continues it after a crash
``.name.old``      the previous artifact while a new one takes its name; after a crash at that
                   moment, readers open it and the next builder restores it
``.name.lock``     lock file of the builder; the kernel releases the lock when the builder dies
=================  ===============================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError
from dhilgt.store import checksums, files
from dhilgt.store.checksums import StoredBytes, sampled_blocks
from dhilgt.store.files import (
    SUFFIX,
    FileEntry,
    canonical_json,
    check_name,
    explained,
    hash_file,
    npy_chunks,
    open_regular,
    plain_array,
    shown,
    stored_bytes,
    write_file,
)
from dhilgt.store.manifest import MANIFEST, Manifest, find_artifact, read_manifest
from dhilgt.store.target import Target, remove_folder
from dhilgt.utils.memory import format_bytes

_MOST_THREADS = 8  # that read and hash files; more would wait for the disk

# ---- reading -----------------------------------------------------------------------------------


class Artifact:
    """A finished artifact, opened for reading; make one with `Artifact.open`.

    Example:
        >>> import tempfile, numpy as np
        >>> folder = tempfile.mkdtemp() + "/squares"
        >>> with ArtifactWriter(folder, kind="demo", format_version=1) as writer:
        ...     writer.write_array("values", np.arange(4) ** 2)
        >>> Artifact.open(folder, kind="demo").array("values").tolist()
        [0, 1, 4, 9]
    """

    def __init__(self, path: Path, folder: Path, manifest: Manifest) -> None:
        self.path = path
        self.kind = manifest.kind
        self.format_version = manifest.format_version
        self.library_version = manifest.library_version
        self.params = dict(manifest.params)
        self.fingerprint = manifest.fingerprint
        self.files = dict(manifest.files)
        self._folder = folder
        self._seen = {name: self._check_file(entry) for name, entry in self.files.items()}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        kind: str | None = None,
        max_format: int | None = None,
        min_format: int = 1,
    ) -> Artifact:
        """Open the artifact at ``path``, checking the manifest, file sizes and file headers.

        The bytes of an array are checked when `array` returns it.

        Args:
            path: The artifact's folder.
            kind: The kind it must have; None for any.
            max_format: The newest format of this kind that the caller reads; None for any.
            min_format: The oldest format that the caller reads.

        Raises:
            ArtifactError: If it is not a complete artifact of that kind and format; the message
                names the file, the expected value and the actual one.
        """
        target = Path(path)
        for attempts_left in reversed(range(10)):
            folder = find_artifact(target)
            before = _identity(folder)
            try:
                manifest = read_manifest(folder)
                _check_kind(target, manifest, kind, min_format, max_format)
                artifact = cls(target, folder, manifest)
            except ArtifactError:
                # A builder may put a newer artifact in place while this one is being read.
                if attempts_left and _identity(folder) != before:
                    continue
                raise
            if _identity(folder) == before or not attempts_left:
                break
        return artifact

    def array(self, name: str, *, mmap: bool = True, check: bool = True) -> npt.NDArray[Any]:
        """Return the array ``name``, read-only; memory-mapped unless ``mmap`` is False.

        Its bytes are compared with their checksum: all of them where it is read into memory or
        its file has at most `checksums.WHOLE_BYTES`, else a sample of blocks, as it stays on disk.

        Args:
            name: Name of the array.
            mmap: Map the file instead of reading it.
            check: False leaves the bytes unchecked, for callers of `check_array`.

        Raises:
            ArtifactError: If there is no such array, its file changed since `open`, or it is
                damaged.
        """
        entry = self.files.get(name)
        if entry is None:
            raise ArtifactError(f"{self.path} has no array {name!r}; it has {sorted(self.files)}")
        path = self._folder / entry.file
        with explained("read", path), open_regular(path) as file:
            # A file that was replaced meanwhile would not fit the manifest: do not map it.
            if _stamp(os.fstat(file.fileno())) != self._seen[name]:
                raise ArtifactError(f"{path} changed since it was opened; open the artifact again")
            count, offset = int(np.prod(entry.shape, dtype=object)), len(entry.header)
            if count == 0:
                array = np.empty(entry.shape, entry.dtype)
            elif mmap:
                mapped = np.memmap(file, entry.dtype, "r", offset=offset, shape=entry.shape)
                array = np.asarray(mapped)
            else:
                file.seek(offset)
                array = np.fromfile(file, entry.dtype, count)
                if array.size != count:
                    raise ArtifactError(f"{path} became shorter while it was read")
                array = array.reshape(entry.shape)
        array.setflags(write=False)
        if check:
            self.check_array(name, array, whole=not mmap)
        return array

    def check_array(self, name: str, array: npt.NDArray[Any], *, whole: bool = False) -> None:
        """Compare an array that `array` returned with its checksum.

        Args:
            name: Its name.
            array: The array.
            whole: Compare all bytes of a large one too, not a sample.

        Raises:
            ArtifactError: If it is damaged; the message names the file.
        """
        entry = self.files[name]
        stored = StoredBytes(entry.header, array)
        if whole or entry.nbytes <= checksums.WHOLE_BYTES:
            self._compare(entry, entry.sha256, stored.sha256())
        elif entry.blocks:  # files of earlier versions have none
            for number in sampled_blocks(len(entry.blocks)):
                place = f", block {number} of {len(entry.blocks)}"
                self._compare(entry, entry.blocks[number], stored.block_sha256(number), place)

    def _compare(self, entry: FileEntry, expected: str, actual: str, place: str = "") -> None:
        if actual != expected:
            raise ArtifactError(
                f"{self._folder / entry.file} is damaged{place}: expected SHA-256 {expected}, "
                f"found {actual}; restore it from a copy or build the artifact again"
            )

    def verify(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read every file completely and compare its SHA-256 with the manifest.

        Args:
            progress: Called with the bytes read so far and the bytes in all.

        Raises:
            ArtifactError: At the first file that differs, naming it and both hashes.
        """
        done, lock, stopped = 0, Lock(), Event()

        def advance(num_bytes: int) -> None:
            nonlocal done
            if stopped.is_set():
                raise InterruptedError
            with lock:
                done += num_bytes
                if progress is not None:
                    progress(done, self.nbytes)

        def check(entry: FileEntry) -> None:
            path = self._folder / entry.file
            self._check_file(entry)
            with explained("read", path):
                self._compare(entry, entry.sha256, hash_file(path, advance))

        with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
            try:
                for _ in pool.map(check, self.files.values()):
                    pass
            except BaseException:
                stopped.set()  # files that are being read need not be read to their end
                raise

    def check_fingerprint(self, graph_fingerprint: str) -> None:
        """Check that the artifact was built from the graph with this fingerprint.

        Raises:
            ArtifactError: If it was not, with both fingerprints.
        """
        if graph_fingerprint != self.fingerprint:
            raise ArtifactError(
                f"{self.path} was built from another graph: its fingerprint is "
                f"{self.fingerprint!r}, that of the graph given is {graph_fingerprint!r}; use the "
                "graph it was built from or build again"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays, sorted."""
        return tuple(sorted(self.files))

    @property
    def nbytes(self) -> int:
        """Size of all array files on disk, in bytes."""
        return sum(entry.nbytes for entry in self.files.values())

    @property
    def is_large(self) -> bool:
        """Whether its files together are more than is checked whole each time."""
        return self.nbytes > checksums.WHOLE_BYTES

    def __repr__(self) -> str:
        return (
            f"Artifact({str(self.path)!r}, kind={self.kind!r}, format={self.format_version}, "
            f"{len(self.files)} arrays, {format_bytes(self.nbytes)})"
        )

    def _check_file(self, entry: FileEntry) -> tuple[int, ...]:
        """Compare the size and header of a file with its entry; return the identity of the file."""
        path, header = self._folder / entry.file, entry.header
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                start = file.read(len(header))
        except FileNotFoundError:
            raise ArtifactError(
                f"{path} is missing (expected {entry.nbytes} bytes); restore it from a copy or "
                "build the artifact again"
            ) from None
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
        if status.st_size != entry.nbytes:
            raise ArtifactError(
                f"{path} is damaged: expected {entry.nbytes} bytes, found {status.st_size}; "
                "restore it from a copy or build the artifact again"
            )
        if start != header:
            raise ArtifactError(
                f"{path} is damaged: expected the header of {entry.dtype} {list(entry.shape)}, "
                f"found {shown(start.rstrip())}; restore it from a copy or build the artifact again"
            )
        return _stamp(status)


def _check_kind(
    path: Path, manifest: Manifest, kind: str | None, min_format: int, max_format: int | None
) -> None:
    if kind is not None and manifest.kind != kind:
        raise ArtifactError(f"{path} holds {shown(manifest.kind)}, not {kind!r}")
    version = manifest.format_version
    start = f"{path} has format {shown(version)} of {shown(manifest.kind)}"
    writer = f"dhilgt {manifest.library_version[:40]}"
    if max_format is not None and version > max_format:
        raise ArtifactError(
            f"{start}, this version reads up to {max_format}; it was written by {writer}: upgrade "
            "dhilgt to that version or build again"
        )
    if version < min_format:
        raise ArtifactError(
            f"{start}, which is no longer read (oldest: {min_format}); build it again, or read it "
            f"with {writer}"
        )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _identity(folder: Path) -> tuple[int, ...] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    # A new folder may get the inode of a removed one: the time of change differs.
    return status.st_dev, status.st_ino, status.st_ctime_ns


# ---- writing -----------------------------------------------------------------------------------


class Writer:
    """Base of both writers: files go to a folder, the manifest last, then it is renamed."""

    def __init__(self, target: Target, folder: Path, manifest: Manifest) -> None:
        self.path = target.path
        self._target = target
        self._folder = folder
        self._manifest = manifest
        self._entries: dict[str, FileEntry] = {}

    def write_array(self, name: str, array: npt.ArrayLike) -> None:
        """Write ``array`` to its file and sync it to the disk.

        Raises:
            ArtifactError: If it cannot be stored or written, or another array has that name.
        """
        plain = plain_array(name, array)
        known = self._entries.get(name)
        if known is not None:
            # A resumed build writes its shared arrays again; they must not differ.
            if known.sha256 != stored_bytes(plain).sha256():
                raise ArtifactError(
                    f"array {name!r} of {self.path} is already written with other contents"
                )
            return
        path = self._folder / (name + SUFFIX)
        with explained("write", path, plain.nbytes):
            sha256 = write_file(path, npy_chunks(plain))
            blocks = stored_bytes(plain).blocks()
            entry = FileEntry(name, plain.dtype.str, plain.shape, sha256, blocks)
            self._record(entry)
        self._entries[name] = entry

    def take_file(self, entry: FileEntry, source: Path) -> None:
        """Make a finished file part of the artifact; it is linked, or copied where it cannot be.

        Args:
            entry: Its entry in the manifest.
            source: The file, of the same disk if possible.

        Raises:
            ArtifactError: If its size or header is not that of the entry.
        """
        check_name(entry.name)
        path = self._folder / entry.file
        with explained("read", source), open_regular(source) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.nbytes or file.read(len(entry.header)) != entry.header:
                raise ArtifactError(
                    f"{source} is damaged: expected {entry.nbytes} bytes of {entry.dtype} "
                    f"{list(entry.shape)}, found {size}; remove it and build again"
                )
        with explained("write", path, entry.nbytes):
            try:
                files.ops.link(source, path)
            except OSError:  # another disk, or one without links
                with open_regular(source) as file:
                    chunks = iter(lambda: memoryview(file.read(files.CHUNK_BYTES)), b"")
                    sha256 = write_file(path, chunks)
                self._compare_copy(source, entry, sha256)
            self._record(entry)
        self._entries[entry.name] = entry

    @staticmethod
    def _compare_copy(source: Path, entry: FileEntry, sha256: str) -> None:
        if sha256 != entry.sha256:
            raise ArtifactError(
                f"{source} is damaged: expected SHA-256 {entry.sha256}, found {sha256}; remove it "
                "and build again"
            )

    def _record(self, entry: FileEntry) -> None:
        """Record a file that is in place, before it counts as written."""

    def _write_manifest(self) -> None:
        data = replace(self._manifest, files=dict(sorted(self._entries.items()))).encode()
        Manifest.decode(data)  # never write what a reader refuses
        write_file(self._folder / MANIFEST, iter([memoryview(data)]))

    def _publish(self) -> None:
        self._target.publish(self._folder)


class ArtifactWriter(Writer):
    """Writer of an artifact that appears complete or not at all.

    The files go to a hidden folder beside the target, which is renamed when the block ends. If the
    block raises, nothing is left and an older artifact at the target is untouched.

    Args:
        path: The artifact's folder; missing parents are created.
        kind: Kind of the artifact ("labels", ...).
        format_version: Version of the files of this kind.
        params: Parameters it was made with; plain JSON values.
        fingerprint: Fingerprint of the graph it was made from.
        overwrite: Replace an older artifact once the new one is complete.
        need_bytes: Raise at once if the disk has less than this free.

    Raises:
        ArtifactError: Before any work, if the target cannot be written.

    Example:
        >>> import tempfile, numpy as np
        >>> folder = tempfile.mkdtemp() + "/labels"
        >>> with ArtifactWriter(folder, kind="labels", format_version=1) as writer:
        ...     writer.write_array("hubs", np.array([3, 1, 2]))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: str,
        format_version: int,
        params: Mapping[str, Any] | None = None,
        fingerprint: str = "",
        overwrite: bool = False,
        need_bytes: int = 0,
    ) -> None:
        manifest = draft_manifest(kind, format_version, params, fingerprint)
        target = Target(path, overwrite=overwrite, keep=False)
        folder = target.path.with_name(f".{target.path.name}.tmp")
        super().__init__(target, folder, manifest)
        try:
            remove_folder(folder)
            target.check_space(need_bytes)
            with explained("create", folder):
                files.ops.mkdir(folder)
        except BaseException:
            target.abandon()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abort()
            return
        try:
            with explained("finish", self.path):
                self._write_manifest()
                self._publish()
        except BaseException:
            self.abort()
            raise
        self._target.release()

    def abort(self) -> None:
        """Remove everything written so far and release the target."""
        remove_folder(self._folder)
        self._target.abandon()


def draft_manifest(
    kind: str, format_version: int, params: Mapping[str, Any] | None, fingerprint: str
) -> Manifest:
    """Return a manifest without files, checked to be readable.

    Raises:
        ArtifactError: If a value cannot be written as JSON or the version is below 1.
    """
    try:
        plain = json.loads(canonical_json(dict(params or {})))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"params must be plain JSON values: {error}") from None
    manifest = Manifest(kind, format_version, __version__, plain, fingerprint, {})
    if format_version < 1:
        raise ArtifactError(f"format_version {format_version}: versions count from 1")
    return Manifest.decode(manifest.encode())
