"""The path of an artifact to be written: checked, locked, replaced in one step."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from dhilgt.errors import ArtifactError, argument
from dhilgt.store import files
from dhilgt.store.files import SUFFIX, canonical_json, explained, sync_folder, write_all
from dhilgt.store.manifest import JOURNAL, MANIFEST, aside_path
from dhilgt.utils.memory import format_bytes

try:
    import fcntl
except ImportError:  # Windows has no such lock: two builders are not kept apart there
    fcntl = None  # type: ignore[assignment]


class BuildLock:
    """Lock of a target against a second builder; the kernel releases it when this process dies.

    The content of the file is only for the message. A lock file that no process holds was left by
    a dead builder and is taken over.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        self._descriptor = -1
        while self._descriptor < 0:
            self._descriptor = self._try(target)
        try:
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": _now()}
            files.ops.truncate(self._descriptor, 0)
            write_all(self._descriptor, canonical_json(holder) + b"\n")
        except BaseException:
            self.release()
            raise

    def _try(self, target: Path) -> int:
        """Return the descriptor of the locked file, or -1 if the file vanished: try again."""
        descriptor = files.ops.open(self.path, os.O_RDWR | os.O_CREAT)
        if fcntl is None:
            return descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _describe_holder(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise ArtifactError(
                f"{target} is being built by {holder} (lock {self.path}); wait for it, stop it, "
                "or choose another path"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        # The previous holder removes the file when it is done: a lock on a removed file would keep
        # nobody out.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                return descriptor
        os.close(descriptor)
        return -1

    def release(self) -> None:
        """Remove the lock; calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                files.ops.unlink(self.path)
            if fcntl is not None:
                # Explicitly: closing is not enough if a forked worker holds the file too.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z")


def _describe_holder(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"process {holder['pid']} on {holder['host']} since {holder['started']}"
    except (ValueError, TypeError, KeyError):
        return "another process"


# ---- the target --------------------------------------------------------------------------------


class Target:
    """The path of an artifact to be written: checked, locked, restored after a crash."""

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool, keep: bool) -> None:
        try:
            # Resolved, so that of a link to a folder the folder is replaced, not the link.
            self.path = Path(path).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ArtifactError(f"{str(path)!r} is not a usable path: {error}") from None
        if not self.path.name:
            raise ArtifactError(f"{self.path} cannot be an artifact; name a folder inside it")
        if self.path.name.endswith(".partial"):
            raise ArtifactError(
                f"{self.path}: names ending in .partial are for unfinished builds; drop the ending"
            )
        self.aside = aside_path(self.path)
        self._made: list[Path] = []
        self._lock: BuildLock | None = None
        try:
            with explained("write in", self.path.parent):
                self._make_parents()
                self._lock = BuildLock(self.path)
            with explained("put back", self.path):
                self._recover()
            self._check(overwrite=overwrite, keep=keep)
        except BaseException:
            self.abandon()
            raise

    def _make_parents(self) -> None:
        missing = []
        folder = self.path.parent
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                files.ops.mkdir(folder)
                self._made.append(folder)

    def _recover(self) -> None:
        """Undo a replacement that a crash stopped between its two renames."""
        if not self.aside.exists():
            return
        if not self.path.exists() and (self.aside / MANIFEST).exists():
            files.ops.rename(self.aside, self.path)
        else:
            remove_folder(self.aside)

    def _check(self, *, overwrite: bool, keep: bool) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ArtifactError(f"{self.path} is a file; choose another path or remove it")
        if is_empty(self.path) or (keep and not overwrite):
            return
        if not overwrite:
            raise ArtifactError(exists_message(self.path))
        if foreign := next(foreign_names(self.path), None):
            raise ArtifactError(
                f"{self.path} is not an artifact (it holds {foreign!r}) and is not replaced; "
                "choose another path"
            )

    def check_space(self, need_bytes: int) -> None:
        """Raise `ArtifactError` if the disk has less than ``need_bytes`` free."""
        free = files.ops.free_bytes(self.path.parent)
        if free is not None and need_bytes > free:
            raise ArtifactError(
                f"{self.path} needs {format_bytes(need_bytes)}, but {format_bytes(free)} are free "
                f"in {self.path.parent}; free some space or choose another disk"
            )

    def publish(self, built: Path) -> None:
        """Rename ``built`` to the target; if that fails, an older artifact stays in place."""
        rename = files.ops.rename
        older = self.path.exists() and not is_empty(self.path)
        if older:
            rename(self.path, self.aside)
        try:
            rename(built, self.path)
            try:
                sync_folder(self.path.parent)
            except BaseException:
                rename(self.path, built)
                raise
        except BaseException:
            if older:
                with contextlib.suppress(OSError):
                    rename(self.aside, self.path)
            raise
        if older:
            remove_folder(self.aside)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()

    def abandon(self) -> None:
        """Release the lock and remove the parent folders that were created, if they are empty."""
        self.release()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                files.ops.rmdir(folder)


def exists_message(path: Path) -> str:
    """Return the message about a path that is already taken."""
    replace = argument("overwrite", True)
    return f"{path} exists; choose another path, or replace it with {replace}"


def is_empty(folder: Path) -> bool:
    """Return whether ``folder`` is empty."""
    return next(folder.iterdir(), None) is None


def foreign_names(folder: Path) -> Iterator[str]:
    """Yield the names in ``folder`` that no builder of this package writes."""
    for path in folder.iterdir():
        name = path.name.removesuffix(".tmp")
        ours = name in (MANIFEST, JOURNAL) or name.endswith(SUFFIX)
        if not ours or (path.is_dir() and not path.is_symlink()):
            yield path.name


def remove_folder(folder: Path) -> None:
    """Remove an artifact's folder as far as possible, its manifest first."""
    ops = files.ops
    with contextlib.suppress(OSError):
        ops.unlink(folder / MANIFEST)
        for path in list(folder.iterdir()):
            ops.unlink(path)
        ops.rmdir(folder)
