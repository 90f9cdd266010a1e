"""The folder of a job: locked, with a journal of what is finished."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dhilgt._version import __version__
from dhilgt.cluster.units import Outcome, WrittenFile
from dhilgt.errors import ArtifactError, argument
from dhilgt.labels.sharding.sections import Sections
from dhilgt.store import files
from dhilgt.store.files import (
    canonical_json,
    explained,
    hash_file,
    is_plain_name,
    shown,
    strict_json,
    sync_folder,
    write_all,
    write_file,
)
from dhilgt.store.manifest import JOURNAL, TOKEN, partial_path
from dhilgt.store.target import BuildLock, Target

_LAYOUT = "dhilgt-job-3"


class JobFolder:
    """The folder in which a job writes the artifact at a path: ``<path>.partial``.

    The journal in it has a line for each finished unit, with the size and hash of its files. When
    the same job is started again, units whose files are still whole are not done again.

    Args:
        path: Of the artifact.
        about: What the job makes: plain JSON values. Only a job with equal ones goes on with an
            unfinished folder.
        overwrite: Replace an older artifact at the path, and discard what is unfinished there of
            another job.

    Attributes:
        path: Of the artifact.
        folder: Where units write.
        token: Content of the file `TOKEN`, by which a worker knows the folder.
        name: Of the job; the same when it is started again.
        done: Outcomes of finished units, by name.

    Raises:
        ArtifactError: If the path cannot be written, another process works on it, or the folder
            holds something else.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/web.labels"
        >>> with JobFolder(path, about={"kind": "demo"}) as job:
        ...     outcome = job.record("first", Outcome(facts={"entries": 3}))
        >>> with JobFolder(path, about={"kind": "demo"}) as job:
        ...     job.done
        {'first': Outcome(files=(), facts={'entries': 3})}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        about: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        self._header = {"layout": _LAYOUT, "library": __version__, "about": dict(about)}
        target = Target(path, overwrite=overwrite, keep=False)
        self.path = target.path
        self.folder = partial_path(self.path)
        self.token = uuid.uuid4().hex
        identity = canonical_json([str(self.folder), self._header])
        self.name = hashlib.sha256(identity).hexdigest()[:16]
        self.done: dict[str, Outcome] = {}
        self._journal_bytes = 0
        try:
            # Not the lock of the target: the writer of the artifact takes that one at the end.
            with explained("write in", self.path.parent):
                self._lock = BuildLock(self.folder)
        except BaseException:
            target.abandon()
            raise
        target.release()
        try:
            with explained("start", self.folder):
                self._start(overwrite=overwrite)
        except BaseException:
            self._lock.release()
            raise

    def record(self, name: str, outcome: Outcome) -> Outcome:
        """Write a finished unit to the journal; it survives any crash once this returns.

        Returns:
            The outcome as a later run reads it.
        """
        line = _journal_line(name, outcome)
        with explained("write", self.folder / JOURNAL):
            descriptor = files.ops.open(self.folder / JOURNAL, os.O_RDWR)
            try:
                # Overwrite a line that an earlier error cut short.
                files.ops.truncate(descriptor, self._journal_bytes)
                write_all(descriptor, line)
                files.ops.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._journal_bytes += len(line)
        _, self.done[name] = _parsed(line)
        return self.done[name]

    def is_whole(self, file: WrittenFile) -> bool:
        """Return whether a file is there with the bytes that it had."""
        path = self.folder / file.name
        try:
            if path.stat().st_size != file.num_bytes:
                return False
            if not file.has_sections:
                return hash_file(path) == file.sha256
            Sections(path, file.sha256).check()
        except (OSError, ArtifactError):
            return False
        return True

    def remove(self) -> None:
        """Remove the folder, once the artifact at the path is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Release the folder; what is finished stays for the next run."""
        if not self.done:
            self.remove()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- starting and continuing ----

    def _start(self, *, overwrite: bool) -> None:
        if self.folder.exists():
            self._continue(overwrite=overwrite)
        else:
            files.ops.mkdir(self.folder)
        lines = [canonical_json(self._header) + b"\n"]
        lines += [_journal_line(name, outcome) for name, outcome in self.done.items()]
        data = b"".join(lines)
        write_file(self.folder / JOURNAL, iter([memoryview(data)]))
        self._journal_bytes = len(data)
        write_file(self.folder / TOKEN, iter([memoryview(self.token.encode())]))
        sync_folder(self.folder.parent)

    def _continue(self, *, overwrite: bool) -> None:
        header, outcomes = _read_journal(self.folder)
        if header is not None and header != self._header:
            if not overwrite:
                raise ArtifactError(
                    f"{self.folder} holds an unfinished build of something else "
                    f"({shown(header.get('about', header))}); finish it with the call that "
                    f"started it, remove it, or discard it with {argument('overwrite', True)}"
                )
            outcomes = {}
        self.done = {
            name: outcome
            for name, outcome in outcomes.items()
            if all(self.is_whole(file) for file in outcome.files)
        }
        keep = {self.folder / JOURNAL}
        keep |= {self.folder / one.name for outcome in self.done.values() for one in outcome.files}
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            if path not in keep:
                files.ops.unlink(path)


# ---- the journal -------------------------------------------------------------------------------


def _journal_line(name: str, outcome: Outcome) -> bytes:
    values = [file._asdict() for file in outcome.files]
    return canonical_json({"unit": name, "files": values, "facts": dict(outcome.facts)}) + b"\n"


def _parsed(line: bytes) -> tuple[str, Outcome]:
    value = strict_json(line)
    written = tuple(WrittenFile(**one) for one in value["files"])
    for file in written:
        parts = file.name.split("/")
        if not all(is_plain_name(part) for part in parts) or type(file.num_bytes) is not int:
            raise ArtifactError(f"{shown(file)} is not a file of a job")
    return str(value["unit"]), Outcome(written, dict(value["facts"]))


def _read_journal(folder: Path) -> tuple[dict[str, Any] | None, dict[str, Outcome]]:
    """Return the header, if there is one, and the outcomes up to the first damaged line."""
    path = folder / JOURNAL
    if not path.exists():
        # The run stopped before it wrote a journal, and so before it wrote anything.
        odd = next((one.name for one in folder.iterdir() if one.stem != JOURNAL), None)
        if odd is not None:
            raise ArtifactError(f"{folder} is needed for the build but holds {odd!r}; move it away")
        return None, {}
    lines = path.read_bytes().split(b"\n")
    try:
        header = strict_json(lines[0])
        if not isinstance(header, dict):
            raise ArtifactError("its first line is not a header")
    except ArtifactError as error:
        raise ArtifactError(f"{path} cannot be used: {error}; remove {folder}") from None
    outcomes = {}
    # The text after the last line break is an unfinished line, or empty.
    for line in lines[1:-1]:
        try:
            name, outcome = _parsed(line)
        except (ArtifactError, AttributeError, KeyError, TypeError, ValueError):
            break
        outcomes[name] = outcome
    return header, outcomes
