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

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from dhilgt import __version__, store_files
from dhilgt.errors import ArtifactError
from dhilgt.store import JOURNAL, MANIFEST, Artifact, Manifest, partial_path, read_manifest
from dhilgt.store_files import (
    SUFFIX,
    FileEntry,
    canonical_json,
    explained,
    hash_array,
    hash_file,
    npy_chunks,
    plain_array,
    shown,
    strict_json,
    sync_folder,
    write_all,
    write_file,
)
from dhilgt.store_target import Target, exists_message, foreign_names, is_empty, remove_folder


class _Writer:
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


class ArtifactWriter(_Writer):
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
        manifest = _plan(kind, format_version, params, fingerprint)
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


class ShardWriter(_Writer):
    """Writes an artifact shard by shard; a killed build continues at the last whole shard.

    The build grows in ``<path>.partial`` with a journal of what is whole. `commit` makes it the
    artifact at ``path``, byte for byte the same however often the build was stopped.

    Args:
        path: The artifact's folder; missing parents are created.
        kind: What it is ("tokens", ...).
        format_version: Version of this kind's files.
        params: How it is made; plain JSON values. A build continues only with equal ones.
        fingerprint: Fingerprint of the graph it is made from.
        shard_names: All shards that `commit` will ask for.
        resume: Continue an unfinished build, or start one. When the artifact at ``path`` is
            already complete and the same, every shard is done and `commit` has nothing to do.
        overwrite: Replace an older artifact at ``path``; without ``resume`` also discard an
            unfinished build.
        need_bytes: Refuse at once when the disk has not this much free for the whole artifact;
            what is already written counts.

    Raises:
        ArtifactError: Before any work, if the target cannot be written, another builder is at
            it, or there is an unfinished build that was not asked for or is of something else.

    Example:
        >>> import tempfile, numpy as np
        >>> folder, names = tempfile.mkdtemp() + "/tokens", ["rows-0", "rows-1"]
        >>> with ShardWriter(folder, kind="tokens", format_version=1, shard_names=names) as writer:
        ...     for name in names:
        ...         if name not in writer.done:
        ...             writer.write_shard(name, np.zeros(4))
        ...     writer.commit()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: str,
        format_version: int,
        params: Mapping[str, Any] | None = None,
        fingerprint: str = "",
        shard_names: Iterable[str],
        resume: bool = False,
        overwrite: bool = False,
        need_bytes: int = 0,
    ) -> None:
        manifest = _plan(kind, format_version, params, fingerprint)
        self.shard_names = tuple(shard_names)
        if len(set(self.shard_names)) != len(self.shard_names):
            raise ArtifactError("shard_names holds a name twice")
        target = Target(path, overwrite=overwrite, keep=resume)
        super().__init__(target, partial_path(target.path), manifest)
        self.dropped: tuple[str, ...] = ()
        self._journal_bytes = 0
        self._committed = False
        try:
            self._start(resume=resume, overwrite=overwrite)
            if not self._committed:
                written = sum(entry.nbytes for entry in self._entries.values())
                target.check_space(need_bytes - written)
        except BaseException:
            if self._fresh:
                remove_folder(self._folder)
            target.abandon()
            raise

    @property
    def done(self) -> frozenset[str]:
        """The shards that are whole."""
        return frozenset(self.shard_names).intersection(self._entries)

    def write_shard(self, name: str, array: npt.ArrayLike) -> None:
        """Write one of the ``shard_names``; it is done, whatever happens, when this returns.

        Raises:
            ArtifactError: If it is not one of them, or cannot be written.
        """
        if name not in self.shard_names:
            raise ArtifactError(f"{name!r} is not one of the {len(self.shard_names)} shards")
        self.write_array(name, array)

    def commit(self) -> None:
        """Make the build the artifact at its path.

        Raises:
            ArtifactError: If shards are missing, or the disk refuses; the build is kept then and
                can be resumed.
        """
        missing = [name for name in self.shard_names if name not in self._entries]
        if missing:
            raise ArtifactError(
                f"{self.path} is not complete: {len(missing)} of {len(self.shard_names)} shards "
                f"are missing, the first is {missing[0]!r}"
            )
        if not self._committed:
            with explained("finish", self.path):
                self._write_manifest()
                # From here the manifest stands for the journal, should this be cut short.
                (self._folder / JOURNAL).unlink(missing_ok=True)
                sync_folder(self._folder)
                self._publish()
            self._committed = True
        self.close()

    def close(self) -> None:
        """Let the next builder in; what is not committed stays for ``resume=True``."""
        self._target.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- starting and continuing ----

    def _start(self, *, resume: bool, overwrite: bool) -> None:
        folder = self._folder
        self._fresh = not folder.exists()
        with explained("start", folder):
            if not self._fresh:
                if foreign := next(foreign_names(folder), None):
                    raise ArtifactError(
                        f"{folder} is needed for the build but holds {foreign!r}; move it away"
                    )
                if not resume and not overwrite:
                    raise ArtifactError(
                        f"{folder} holds an unfinished build; continue it with --resume "
                        "(resume=True) or start over with --overwrite (overwrite=True)"
                    )
            if resume and not overwrite and self.path.exists() and not is_empty(self.path):
                if not self._fresh:
                    raise ArtifactError(f"{exists_message(self.path)} when {folder} is finished")
                self._adopt_complete()
                return
            if resume and not self._fresh:
                self._entries = self._continue()
            self._clear(folder)
            self._write_journal()

    def _adopt_complete(self) -> None:
        artifact = Artifact.open(self.path)
        self._check_same(_header_of(artifact), self.path, "choose another path or --overwrite")
        missing = [name for name in self.shard_names if name not in artifact.files]
        if missing:
            raise ArtifactError(f"{self.path} is complete but has no shard {missing[0]!r}")
        self._entries = dict(artifact.files)
        self._committed = True

    def _continue(self) -> dict[str, FileEntry]:
        """The files of an earlier run that are whole; refuses a build of something else."""
        if (self._folder / JOURNAL).exists():
            header, entries = _read_journal(self._folder / JOURNAL)
        elif (self._folder / MANIFEST).exists():
            # Stopped between the end of the journal and the last rename.
            manifest = read_manifest(self._folder)
            header, entries = _header_of(manifest), dict(manifest.files)
        else:
            return {}  # Stopped before there was anything.
        way_out = "start over with --overwrite (overwrite=True, resume=False)"
        self._check_same(header, self._folder, way_out)
        whole = {name: entry for name, entry in entries.items() if self._is_whole(entry)}
        self.dropped = tuple(name for name in entries if name not in whole)
        return whole

    def _is_whole(self, entry: FileEntry) -> bool:
        path = self._folder / entry.file
        try:
            return path.stat().st_size == entry.nbytes and hash_file(path) == entry.sha256
        except (OSError, ArtifactError):
            return False

    def _header(self) -> dict[str, Any]:
        names = hashlib.sha256("\n".join(self.shard_names).encode()).hexdigest()
        shards = {"count": len(self.shard_names), "names": names}
        return {**_header_of(self._manifest), "shards": shards}

    def _check_same(self, found: Mapping[str, Any], place: Path, way_out: str) -> None:
        for key, wanted in self._header().items():
            # Only a journal knows the plan of the shards.
            if found.get(key, wanted if key == "shards" else None) != wanted:
                was, now = _difference(found.get(key), wanted)
                raise ArtifactError(
                    f"{place} was made with {key} {was}, this build has {now}; give the same, or "
                    f"{way_out}"
                )

    def _clear(self, folder: Path) -> None:
        """Make the folder hold the journal and the whole files, nothing else."""
        if self._fresh:
            store_files.ops.mkdir(folder)
        keep = {entry.file for entry in self._entries.values()} | {JOURNAL, MANIFEST}
        if not self._entries:
            keep = set()
        for path in list(folder.iterdir()):
            if path.name not in keep:
                path.unlink()

    def _write_journal(self) -> None:
        """Put the journal in place with what is known; from here on it only grows."""
        lines = [canonical_json(self._header())]
        lines += [_journal_line(entry) for entry in self._entries.values()]
        data = b"".join(line + b"\n" for line in lines)
        write_file(self._folder / JOURNAL, iter([memoryview(data)]))
        self._journal_bytes = len(data)
        # Only now: until here a manifest may be all there is to continue from.
        (self._folder / MANIFEST).unlink(missing_ok=True)
        sync_folder(self._folder.parent)

    def _record(self, entry: FileEntry) -> None:
        line = _journal_line(entry) + b"\n"
        descriptor = store_files.ops.open(self._folder / JOURNAL, os.O_RDWR)
        try:
            # A line that an earlier error cut short is overwritten, not continued.
            os.ftruncate(descriptor, self._journal_bytes)
            os.lseek(descriptor, 0, os.SEEK_END)
            write_all(descriptor, line)
            store_files.ops.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._journal_bytes += len(line)


# ---- plans and journals ------------------------------------------------------------------------


def _plan(
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


def _header_of(plan: Manifest | Artifact) -> dict[str, Any]:
    """What must be equal for a build to continue another."""
    return {
        "kind": plan.kind,
        "format": plan.format_version,
        # Another version may draw or order differently: its shards must not be mixed in.
        "library": plan.library_version,
        "fingerprint": plan.fingerprint,
        "params": dict(plan.params),
    }


def _difference(found: Any, wanted: Any) -> tuple[str, str]:
    """Both sides for a message; of two dicts only what differs."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        missing = object()
        odd = {k for k in {*found, *wanted} if found.get(k, missing) != wanted.get(k, missing)}
        found = {key: found[key] for key in sorted(odd.intersection(found))}
        wanted = {key: wanted[key] for key in sorted(odd.intersection(wanted))}
    return shown(found), shown(wanted)


def _journal_line(entry: FileEntry) -> bytes:
    return canonical_json({"file": entry.file, **entry.to_json()})


def _read_journal(path: Path) -> tuple[dict[str, Any], dict[str, FileEntry]]:
    """The header and the finished files; a line cut short ends the reading."""
    with explained("read", path):
        lines = path.read_bytes().split(b"\n")
    try:
        header = strict_json(lines[0])
        if not isinstance(header, dict):
            raise ArtifactError("its first line is not a header")
    except ArtifactError as error:
        raise ArtifactError(
            f"{path} cannot be used: {error}; start over with --overwrite (overwrite=True)"
        ) from None
    entries = {}
    # The text after the last line break was never finished.
    for line in lines[1:-1]:
        try:
            value = strict_json(line)
            entry = FileEntry.from_json(value.pop("file"), value)
        except (ArtifactError, AttributeError, KeyError, TypeError):
            break
        entries[entry.name] = entry
    return header, entries
