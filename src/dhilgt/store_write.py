"""Making artifacts: all or nothing, and a long build that continues where it was stopped.

What is on the disk at any instant, for a target ``name``:

=================  ===============================================================================
``name``           the complete artifact, if any; only ever put in place by a rename
``.name.tmp``      what `ArtifactWriter` is making; worthless after a crash
``name.partial``   what `ShardWriter` is making; after a crash, what ``resume=True`` continues
``.name.old``      the older artifact, for the instant in which the newer one takes its name; when
                   a crash hits that instant, readers find it there and the next builder puts it
                   back
``.name.lock``     held by the builder; the kernel lets go of it when the builder dies
=================  ===============================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from dhilgt import store_files
from dhilgt._version import __version__
from dhilgt.errors import ArtifactError
from dhilgt.store_files import (
    SUFFIX,
    FileEntry,
    canonical_json,
    explained,
    hash_array,
    npy_chunks,
    plain_array,
    write_file,
)
from dhilgt.store_manifest import MANIFEST, Manifest
from dhilgt.store_target import Target, remove_folder


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
                store_files.ops.mkdir(folder)
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
