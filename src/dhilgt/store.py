"""Artifacts on disk: what a finished one looks like, and how to open it.

An artifact is a folder: plain `.npy` files that memory-map, and ``manifest.json``, which says what
they are (kind, format, parameters, fingerprint of the graph; size, dtype, shape and SHA-256 of
each file). The manifest is written last: a folder with one is complete. Nothing is ever
unpickled, and nothing in a manifest is believed before it is compared with the files.

`store_write` and `store_shards` make artifacts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dhilgt.errors import ArtifactError
from dhilgt.memory import format_bytes
from dhilgt.store_files import FileEntry, explained, hash_file, open_regular, shown
from dhilgt.store_manifest import Manifest, find_artifact, read_manifest


def inspect_kind(path: str | os.PathLike[str]) -> str:
    """The kind of the artifact at ``path`` ("labels", "tokens", ...), reading the manifest only.

    Raises:
        ArtifactError: If there is no artifact there.
    """
    return read_manifest(find_artifact(Path(path))).kind


# ---- a finished artifact -----------------------------------------------------------------------


class Artifact:
    """A finished artifact, opened for reading; make one with `Artifact.open`.

    Example:
        >>> import tempfile, numpy as np
        >>> from dhilgt.store_write import ArtifactWriter
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
