"""Long builds, shard by shard: a journal says what is whole, a later run continues there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Self

import numpy.typing as npt

from dhilgt.errors import ArtifactError, argument
from dhilgt.store import files
from dhilgt.store.artifact import Artifact, Writer, plan
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
        manifest = plan(kind, format_version, params, fingerprint)
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
        """The shards that are whole; a live view, it grows as shards are written."""
        return self._done

    def write_shard(self, name: str, array: npt.ArrayLike) -> None:
        """Write one of the ``shard_names``; it is done, whatever happens, when this returns.

        Raises:
            ArtifactError: If it is not one of them, or cannot be written.
        """
        if name not in self._planned:
            raise ArtifactError(f"{name!r} is not one of the {len(self.shard_names)} shards")
        self.write_array(name, array)
        self._done.add(name)

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
                files.ops.unlink(self._folder / JOURNAL)
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
        """The files of an earlier run that are whole; refuses a build of something else."""
        if (self._folder / JOURNAL).exists():
            header, entries = _read_journal(self._folder / JOURNAL)
        elif (self._folder / MANIFEST).exists():
            # Stopped between the end of the journal and the last rename.
            manifest = read_manifest(self._folder)
            header, entries = _header_of(manifest), dict(manifest.files)
        else:
            return {}  # Stopped before there was anything.
        way_out = (
            f"start over with {argument('overwrite', True)} and without {argument('resume', True)}"
        )
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
            files.ops.mkdir(folder)
        keep = {entry.file for entry in self._entries.values()} | {JOURNAL, MANIFEST}
        if not self._entries:
            keep = set()
        for path in list(folder.iterdir()):
            if path.name not in keep:
                files.ops.unlink(path)

    def _write_journal(self) -> None:
        """Put the journal in place with what is known; from here on it only grows."""
        lines = [canonical_json(self._header())]
        lines += [_journal_line(entry) for entry in self._entries.values()]
        data = b"".join(line + b"\n" for line in lines)
        write_file(self._folder / JOURNAL, iter([memoryview(data)]))
        self._journal_bytes = len(data)
        # Only now: until here a manifest may be all there is to continue from.
        files.ops.unlink(self._folder / MANIFEST)
        sync_folder(self._folder.parent)

    def _record(self, entry: FileEntry) -> None:
        line = _journal_line(entry) + b"\n"
        descriptor = files.ops.open(self._folder / JOURNAL, os.O_RDWR)
        try:
            # A line that an earlier error cut short is overwritten, not continued.
            files.ops.truncate(descriptor, self._journal_bytes)
            write_all(descriptor, line)
            files.ops.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._journal_bytes += len(line)


# ---- the journal --------------------------------------------------------------------------------


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
            f"{path} cannot be used: {error}; start over with {argument('overwrite', True)}"
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
