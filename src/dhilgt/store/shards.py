"""Long builds, shard by shard: a journal lists the complete shards, a later run continues."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Self

import numpy.typing as npt

from dhilgt.errors import ArtifactError, argument
from dhilgt.store import files
from dhilgt.store.artifact import Artifact, Writer, draft_manifest
from dhilgt.store.files import (
    FileEntry,
    canonical_json,
    check_name,
    explained,
    hash_file,
    shown,
    strict_json,
    sync_folder,
    write_all,
    write_file,
)
from dhilgt.store.manifest import JOURNAL, MANIFEST, Manifest, partial_path, read_manifest
from dhilgt.store.target import Target, exists_message, foreign_names, is_empty, remove_folder


class ShardWriter(Writer):
    """Writer of an artifact in shards; a killed build continues after its last complete shard.

    The files go to ``<path>.partial``, with a journal of the complete ones. `commit` makes the
    folder the artifact at ``path``, with the same bytes however often the build was stopped.

    Args:
        path: The artifact's folder; missing parents are created.
        kind: Kind of the artifact ("tokens", ...).
        format_version: Version of the files of this kind.
        params: Parameters it is made with; plain JSON values. A build continues only with equal
            ones.
        fingerprint: Fingerprint of the graph it is made from.
        shard_names: Names of all shards; `commit` needs every one.
        resume: Continue an unfinished build, or start one. If the artifact at ``path`` is already
            complete and the same, every shard is done and `commit` does nothing.
        overwrite: Replace an older artifact at ``path``; without ``resume`` also discard an
            unfinished build.
        need_bytes: Size of the whole artifact; raise at once if the disk has less free for the
            part not yet written.

    Raises:
        ArtifactError: Before any work, if the target cannot be written, another process is
            building it, or an unfinished build is in the way or has other parameters.

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
        manifest = draft_manifest(kind, format_version, params, fingerprint)
        self.shard_names = tuple(shard_names)
        self._planned = frozenset(self.shard_names)
        if len(self._planned) != len(self.shard_names):
            raise ArtifactError("shard_names holds a name twice")
        for name in self.shard_names:
            check_name(name)
        target = Target(path, overwrite=overwrite, keep=resume)
        super().__init__(target, partial_path(target.path), manifest)
        self.dropped: tuple[str, ...] = ()
        self._journal_bytes = 0
        self._committed = False
        self._fresh = False
        try:
            self._start(resume=resume, overwrite=overwrite)
            self._done = set(self._planned.intersection(self._entries))
            if not self._committed:
                written = sum(entry.nbytes for entry in self._entries.values())
                target.check_space(need_bytes - written)
        except BaseException:
            if self._fresh:
                remove_folder(self._folder)
            target.abandon()
            raise

    @property
    def done(self) -> Set[str]:
        """Names of the complete shards; a live view that grows as shards are written."""
        return self._done

    def write_shard(self, name: str, array: npt.ArrayLike) -> None:
        """Write one of the ``shard_names``; it survives any later crash once this returns.

        Raises:
            ArtifactError: If the name is not one of them, or the shard cannot be written.
        """
        if name not in self._planned:
            raise ArtifactError(f"{name!r} is not one of the {len(self.shard_names)} shards")
        self.write_array(name, array)
        self._done.add(name)

    def commit(self) -> None:
        """Make the build the artifact at ``path``.

        Raises:
            ArtifactError: If shards are missing or the disk fails; the build is kept and can be
                resumed.
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
                # After a crash from here on, the manifest takes the place of the journal.
                files.ops.unlink(self._folder / JOURNAL)
                sync_folder(self._folder)
                self._publish()
            self._committed = True
        self.close()

    def close(self) -> None:
        """Release the target; a build that is not committed stays for ``resume=True``."""
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
                        f"{folder} holds an unfinished build; continue it with "
                        f"{argument('resume', True)} or start over with "
                        f"{argument('overwrite', True)}"
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
        way_out = f"choose another path or {argument('overwrite', True)}"
        self._check_same(_header_of(artifact), self.path, way_out)
        missing = [name for name in self.shard_names if name not in artifact.files]
        if missing:
            raise ArtifactError(f"{self.path} is complete but has no shard {missing[0]!r}")
        self._entries = dict(artifact.files)
        self._committed = True

    def _continue(self) -> dict[str, FileEntry]:
        """Return the complete files of an earlier run, a build of the same artifact."""
        if (self._folder / JOURNAL).exists():
            header, entries = _read_journal(self._folder / JOURNAL)
        elif (self._folder / MANIFEST).exists():
            # The run stopped between the removal of the journal and the last rename.
            manifest = read_manifest(self._folder)
            header, entries = _header_of(manifest), dict(manifest.files)
        else:
            return {}  # the run stopped before it wrote anything
        way_out = (
            f"start over with {argument('overwrite', True)} and without {argument('resume', True)}"
        )
        self._check_same(header, self._folder, way_out)
        complete = {name: entry for name, entry in entries.items() if self._is_complete(entry)}
        self.dropped = tuple(name for name in entries if name not in complete)
        return complete

    def _is_complete(self, entry: FileEntry) -> bool:
        path = self._folder / entry.file
        try:
            return path.stat().st_size == entry.nbytes and hash_file(path) == entry.sha256
        except (OSError, ArtifactError):
            return False

    def _header(self) -> dict[str, Any]:
        names = hashlib.sha256("\n".join(self.shard_names).encode()).hexdigest()
        shards = {"count": len(self.shard_names), "names": names}
        return {**_header_of(self._manifest), "shards": shards}

    def _check_same(self, header: Mapping[str, Any], place: Path, way_out: str) -> None:
        for key, value in self._header().items():
            # Only a journal holds the names of the shards.
            if header.get(key, value if key == "shards" else None) != value:
                before, now = _difference(header.get(key), value)
                raise ArtifactError(
                    f"{place} was made with {key} {before}, this build has {now}; give the same, "
                    f"or {way_out}"
                )

    def _clear(self, folder: Path) -> None:
        """Remove everything from the folder but the journal and the complete files."""
        if self._fresh:
            files.ops.mkdir(folder)
        keep = {entry.file for entry in self._entries.values()}
        if keep:
            keep |= {JOURNAL, MANIFEST}
        for path in list(folder.iterdir()):
            if path.name not in keep:
                files.ops.unlink(path)

    def _write_journal(self) -> None:
        """Write the journal with the complete files; later entries are appended."""
        lines = [canonical_json(self._header())]
        lines += [_journal_line(entry) for entry in self._entries.values()]
        data = b"".join(line + b"\n" for line in lines)
        write_file(self._folder / JOURNAL, iter([memoryview(data)]))
        self._journal_bytes = len(data)
        # Not earlier: without a journal, the manifest is what a later run continues from.
        files.ops.unlink(self._folder / MANIFEST)
        sync_folder(self._folder.parent)

    def _record(self, entry: FileEntry) -> None:
        line = _journal_line(entry) + b"\n"
        descriptor = files.ops.open(self._folder / JOURNAL, os.O_RDWR)
        try:
            # Overwrite a line that an earlier error cut short.
            files.ops.truncate(descriptor, self._journal_bytes)
            write_all(descriptor, line)
            files.ops.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._journal_bytes += len(line)


# ---- the journal --------------------------------------------------------------------------------


def _header_of(build: Manifest | Artifact) -> dict[str, Any]:
    """Return the values that must be equal for one build to continue another."""
    return {
        "kind": build.kind,
        "format": build.format_version,
        # Another version may sample or order differently: its shards must not be mixed in.
        "library": build.library_version,
        "fingerprint": build.fingerprint,
        "params": dict(build.params),
    }


def _difference(before: Any, now: Any) -> tuple[str, str]:
    """Return two values as text for a message; of two dicts only the keys that differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        missing = object()
        odd = {k for k in {*before, *now} if before.get(k, missing) != now.get(k, missing)}
        before = {key: before[key] for key in sorted(odd.intersection(before))}
        now = {key: now[key] for key in sorted(odd.intersection(now))}
    return shown(before), shown(now)


def _journal_line(entry: FileEntry) -> bytes:
    return canonical_json({"file": entry.file, **entry.to_json()})


def _read_journal(path: Path) -> tuple[dict[str, Any], dict[str, FileEntry]]:
    """Return the header and the entries up to the first damaged line."""
    with explained("read", path):
        lines = path.read_bytes().split(b"\n")
    try:
        header = strict_json(lines[0])
        if not isinstance(header, dict):
            raise ArtifactError("its first line is not a header")
    except ArtifactError as error:
        raise ArtifactError(
            f"{path} cannot be used: {error}; start over with {argument('overwrite', True)}"
        ) from None
    entries = {}
    # The text after the last line break is an unfinished line, or empty.
    for line in lines[1:-1]:
        try:
            value = strict_json(line)
            entry = FileEntry.from_json(value.pop("file"), value)
        except (ArtifactError, AttributeError, KeyError, TypeError):
            break
        entries[entry.name] = entry
    return header, entries
