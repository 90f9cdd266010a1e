"""Artifacts on disk: how a finished one is opened, and how one is written, all or nothing.

An artifact is a folder of plain `.npy` files that memory-map, and ``manifest.json``, which
describes them (kind, format, parameters, fingerprint of the graph; size, dtype, shape and SHA-256
of each file). The manifest is written last, so a folder that has one is complete. Nothing is ever
unpickled, and every statement of a manifest is compared with the files.

What is on the disk at any instant, for a target ``name``:

=================  ===============================================================================
``name``           the complete artifact, if any; only ever put in place by a rename
``.name.tmp``      what `ArtifactWriter` is writing; worthless after a crash
``name.partial``   what `ShardWriter` is writing; after a crash, what ``resume=True`` continues
``.name.old``      the previous artifact, for the instant in which the new one takes its name; after
                   a crash in that instant, readers open it there and the next builder restores it
``.name.lock``     held by the builder; the kernel releases it when the builder dies
=================  ===============================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError
from dhilgt.store import files
from dhilgt.store.files import (
    SUFFIX,
    FileEntry,
    canonical_json,
    explained,
    hash_array,
    hash_file,
    npy_chunks,
    open_regular,
    plain_array,
    shown,
    write_file,
)
from dhilgt.store.manifest import MANIFEST, Manifest, find_artifact, read_manifest
from dhilgt.store.target import Target, remove_folder
from dhilgt.utils.memory import format_bytes

# ---- a finished artifact -----------------------------------------------------------------------


class Artifact:
    """A finished artifact, opened for reading; make one with `Artifact.open`.

    Example:
        >>> import tempfile, numpy as np
        >>> from dhilgt.store.artifact import ArtifactWriter
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

        Args:
            path: The artifact's folder.
            kind: What it must be; None takes any.
            max_format: The newest format of this kind that the caller reads; None for any.
            min_format: The oldest format that the caller reads.

        Raises:
            ArtifactError: If it is not a whole artifact of that kind and format; the message
                names the file, what was expected and what was found.
        """
        wanted = Path(path)
        for attempts_left in reversed(range(10)):
            folder = find_artifact(wanted)
            before = _identity(folder)
            try:
                manifest = read_manifest(folder)
                _check_kind(wanted, manifest, kind, min_format, max_format)
                artifact = cls(wanted, folder, manifest)
            except ArtifactError:
                # A builder may put a newer artifact in place while this one is looked at.
                if attempts_left and _identity(folder) != before:
                    continue
                raise
            if _identity(folder) == before or not attempts_left:
                break
        return artifact

    def array(self, name: str, *, mmap: bool = True) -> npt.NDArray[Any]:
        """The array ``name``, read-only; memory-mapped unless ``mmap`` is False.

        Raises:
            ArtifactError: If there is no such array, or its file changed since `open`.
        """
        entry = self.files.get(name)
        if entry is None:
            raise ArtifactError(f"{self.path} has no array {name!r}; it has {sorted(self.files)}")
        path = self._folder / entry.file
        with explained("read", path), open_regular(path) as file:
            # Never map what someone else may have replaced: the manifest would not fit it.
            if _stamp(os.fstat(file.fileno())) != self._seen[name]:
                raise ArtifactError(f"{path} changed since it was opened; open the artifact again")
            count, offset = int(np.prod(entry.shape, dtype=object)), len(entry.header)
            if count == 0:
                found = np.empty(entry.shape, entry.dtype)
            elif mmap:
                mapped = np.memmap(file, entry.dtype, "r", offset=offset, shape=entry.shape)
                found = np.asarray(mapped)
            else:
                file.seek(offset)
                found = np.fromfile(file, entry.dtype, count)
                if found.size != count:
                    raise ArtifactError(f"{path} became shorter while it was read")
                found = found.reshape(entry.shape)
        found.setflags(write=False)
        return found

    def verify(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read every file whole and compare its SHA-256 with the manifest's.

        Args:
            progress: Called with bytes done and bytes in all, as the reading goes.

        Raises:
            ArtifactError: At the first file that differs, naming it and both hashes.
        """
        done = 0

        def advance(num_bytes: int) -> None:
            nonlocal done
            done += num_bytes
            if progress is not None:
                progress(done, self.nbytes)

        for entry in self.files.values():
            path = self._folder / entry.file
            self._check_file(entry)
            with explained("read", path):
                found = hash_file(path, advance)
            if found != entry.sha256:
                raise ArtifactError(
                    f"{path} is damaged: expected SHA-256 {entry.sha256}, found {found}; restore "
                    "it from a copy or build the artifact again"
                )

    def check_fingerprint(self, graph_fingerprint: str) -> None:
        """Make sure that the artifact was built from the graph with this fingerprint.

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
        """The arrays inside, sorted."""
        return tuple(sorted(self.files))

    @property
    def nbytes(self) -> int:
        """Size of all array files on disk."""
        return sum(entry.nbytes for entry in self.files.values())

    def __repr__(self) -> str:
        return (
            f"Artifact({str(self.path)!r}, kind={self.kind!r}, format={self.format_version}, "
            f"{len(self.files)} arrays, {format_bytes(self.nbytes)})"
        )

    def _check_file(self, entry: FileEntry) -> tuple[int, ...]:
        """Compare a file's size and header with its entry; return what identifies the file."""
        path, header = self._folder / entry.file, entry.header
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                found = file.read(len(header))
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
        if found != header:
            raise ArtifactError(
                f"{path} is damaged: expected the header of {entry.dtype} {list(entry.shape)}, "
                f"found {shown(found.rstrip())}; restore it from a copy or build the artifact again"
            )
        return _stamp(status)


def _check_kind(
    path: Path, found: Manifest, kind: str | None, min_format: int, max_format: int | None
) -> None:
    if kind is not None and found.kind != kind:
        raise ArtifactError(f"{path} holds {shown(found.kind)}, not {kind!r}")
    has = f"{path} has format {shown(found.format_version)} of {shown(found.kind)}"
    writer = f"dhilgt {found.library_version[:40]}"
    if max_format is not None and found.format_version > max_format:
        raise ArtifactError(
            f"{has}, this version reads up to {max_format}; it was written by {writer}: upgrade "
            "dhilgt to that version or build again"
        )
    if found.format_version < min_format:
        raise ArtifactError(
            f"{has}, which is no longer read (oldest: {min_format}); build it again, or read it "
            f"with {writer}"
        )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _identity(folder: Path) -> tuple[int, ...] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    # The time of change tells two folders apart that were given the same number in turn.
    return status.st_dev, status.st_ino, status.st_ctime_ns


class Writer:
    """What both writers share: a target, a folder that grows, the manifest at the end."""

    def __init__(
        self,
        target: Target,
        folder: Path,
        manifest: Manifest,
    ) -> None:
        self.path = target.path
        self._target = target
        self._folder = folder
        self._manifest = manifest
        self._entries: dict[str, FileEntry] = {}

    def write_array(self, name: str, array: npt.ArrayLike) -> None:
        """Write ``array`` to its file, synced to the disk when this returns.

        Raises:
            ArtifactError: If it cannot be stored or written, or another array has that name.
        """
        plain = plain_array(name, array)
        known = self._entries.get(name)
        if known is not None:
            # A resumed build gives its shared arrays again; they must be what they were.
            if known.sha256 != hash_array(plain):
                raise ArtifactError(
                    f"array {name!r} of {self.path} is already written with other contents"
                )
            return
        path = self._folder / (name + SUFFIX)
        with explained("write", path, plain.nbytes):
            sha256 = write_file(path, npy_chunks(plain))
            entry = FileEntry(name, plain.dtype.str, plain.shape, sha256)
            self._record(entry)
        self._entries[name] = entry

    def _record(self, entry: FileEntry) -> None:
        """Called when a file is in place and before it counts."""

    def _write_manifest(self) -> None:
        names = sorted(self._entries)
        manifest = Manifest(
            self._manifest.kind,
            self._manifest.format_version,
            self._manifest.library_version,
            self._manifest.params,
            self._manifest.fingerprint,
            {name: self._entries[name] for name in names},
        )
        data = manifest.encode()
        # What the reader refuses must not be written.
        Manifest.decode(data)
        write_file(self._folder / MANIFEST, iter([memoryview(data)]))

    def _publish(self) -> None:
        self._target.publish(self._folder)


class ArtifactWriter(Writer):
    """Writes an artifact that appears whole or not at all.

    It is made in a hidden folder next to the target and renamed when the block ends; if the block
    raises, nothing is left and an older artifact at the same place is untouched.

    Args:
        path: The artifact's folder; missing parents are created.
        kind: What it is ("labels", ...).
        format_version: Version of this kind's files.
        params: How it was made; plain JSON values.
        fingerprint: Fingerprint of the graph it was made from.
        overwrite: Replace an older artifact, once the new one is complete.
        need_bytes: Refuse at once when the disk has less than this free.

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
        manifest = plan(kind, format_version, params, fingerprint)
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
        """Leave nothing behind."""
        remove_folder(self._folder)
        self._target.abandon()


def plan(
    kind: str, format_version: int, params: Mapping[str, Any] | None, fingerprint: str
) -> Manifest:
    """The manifest without its files, proven to be readable again."""
    try:
        plain = json.loads(canonical_json(dict(params or {})))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"params must be plain JSON values: {error}") from None
    manifest = Manifest(kind, format_version, __version__, plain, fingerprint, {})
    if format_version < 1:
        raise ArtifactError(f"format_version {format_version}: versions count from 1")
    return Manifest.decode(manifest.encode())
