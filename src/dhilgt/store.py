"""Artifacts on disk: what a finished one looks like, and how to open it.

An artifact is a folder: plain `.npy` files that memory-map, and ``manifest.json``, which says what
they are (kind, format, parameters, fingerprint of the graph; size, dtype, shape and SHA-256 of
each file). The manifest is written last: a folder with one is complete. Nothing is ever
unpickled, and nothing in a manifest is believed before it is compared with the files.

`store_write` makes artifacts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dhilgt.errors import ArtifactError
from dhilgt.memory import format_bytes
from dhilgt.store_files import (
    FileEntry,
    canonical_json,
    explained,
    hash_file,
    open_regular,
    shown,
    strict_json,
)

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
LAYOUT = "dhilgt-artifact-1"
MAX_MANIFEST_BYTES = 16 << 20
_KEYS = {"layout", "kind", "format", "library", "params", "fingerprint", "files", "sha256"}


# ---- where things lie --------------------------------------------------------------------------


def partial_path(target: Path) -> Path:
    """The visible folder in which a long build of ``target`` grows."""
    return target.with_name(target.name + ".partial")


def aside_path(target: Path) -> Path:
    """Where an older artifact waits for the instant in which a newer one takes its name."""
    return target.with_name(f".{target.name}.old")


def find_artifact(path: Path) -> Path:
    """The folder that holds the artifact named ``path``.

    Raises:
        ArtifactError: If there is none; the message says what is there instead.
    """
    with explained("open", path):
        return _find_artifact(path)


def _find_artifact(path: Path) -> Path:
    if (path / MANIFEST).exists():
        return path
    if path.is_dir():
        if (path / JOURNAL).exists() or path.name.endswith(".partial"):
            raise ArtifactError(
                f"{path} is an unfinished build; run the same command again with --resume "
                "(resume=True) to finish it"
            )
        raise ArtifactError(f"{path} is a folder without {MANIFEST}: not an artifact")
    if path.exists():
        raise ArtifactError(f"{path} is a file; an artifact is a folder with {MANIFEST} in it")
    # A crash between the two renames of a replacement leaves the older artifact here, whole.
    if path.name and (aside_path(path) / MANIFEST).exists():
        return aside_path(path)
    if path.name and partial_path(path).is_dir():
        raise ArtifactError(
            f"{path} is not finished: its build stopped in {partial_path(path)}; run the same "
            "command again with --resume (resume=True) to finish it"
        )
    raise ArtifactError(f"there is no artifact at {path}; check the path, or build it first")


# ---- the manifest ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manifest:
    """What ``manifest.json`` says.

    Example:
        >>> manifest = Manifest("labels", 1, "0.1.0", {"order": "degree"}, "ab12", {})
        >>> Manifest.decode(manifest.encode()) == manifest
        True
    """

    kind: str
    format_version: int
    library_version: str
    params: Mapping[str, Any]
    fingerprint: str
    files: Mapping[str, FileEntry]

    def encode(self) -> bytes:
        """The text of the manifest; equal contents give equal bytes."""
        body = {
            "layout": LAYOUT,
            "kind": self.kind,
            "format": self.format_version,
            "library": self.library_version,
            "params": dict(self.params),
            "fingerprint": self.fingerprint,
            "files": {entry.file: entry.to_json() for entry in self.files.values()},
        }
        body["sha256"] = hashlib.sha256(canonical_json(body)).hexdigest()
        return canonical_json(body, indent=1) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest, trusting nothing.

        Raises:
            ArtifactError: If it is not exactly what `encode` writes.
        """
        body = _recognise(data)
        if set(body) != _KEYS:
            odd = sorted(_KEYS.symmetric_difference(body))
            raise ArtifactError(f"its keys are not those of an artifact: {shown(odd)}")
        for key, kinds in _TYPES.items():
            # A truth value is an int to Python, and never one here.
            if type(body[key]) is not kinds:
                raise ArtifactError(f"its {key!r} is {shown(body[key])}, not {kinds.__name__}")
        entries = [FileEntry.from_json(file, value) for file, value in body["files"].items()]
        manifest = cls(
            body["kind"],
            body["format"],
            body["library"],
            body["params"],
            body["fingerprint"],
            {entry.name: entry for entry in entries},
        )
        # The text must be ours to the last byte: that covers its checksum and every key.
        if manifest.encode() != data:
            raise ArtifactError("it was changed after it was written (its checksum differs)")
        return manifest


_TYPES: dict[str, type] = {
    "kind": str,
    "format": int,
    "library": str,
    "params": dict,
    "fingerprint": str,
    "files": dict,
    "sha256": str,
}


def _recognise(data: bytes) -> dict[str, Any]:
    found = strict_json(data)
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    layout = body.get("layout")
    if not isinstance(layout, str) or not layout.startswith("dhilgt-artifact-"):
        raise ArtifactError("it does not describe an artifact of this package")
    if layout != LAYOUT:
        raise ArtifactError(
            f"its layout is {shown(layout)}, this version reads {LAYOUT!r}; it was written by "
            f"dhilgt {shown(body.get('library'))}: upgrade dhilgt to that version or build again"
        )
    return body


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in ``folder``.

    Raises:
        ArtifactError: If it is missing, damaged, too large or not a manifest.
    """
    path = folder / MANIFEST
    try:
        return Manifest.decode(_manifest_bytes(path))
    except (ArtifactError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise ArtifactError(f"{path} cannot be used: {reason}") from None


def _manifest_bytes(path: Path) -> bytes:
    with explained("read", path), open_regular(path) as file:
        data = file.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise ArtifactError(f"it is larger than {format_bytes(MAX_MANIFEST_BYTES)}")
    return data


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
        for attempts_left in (2, 1, 0):
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


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
