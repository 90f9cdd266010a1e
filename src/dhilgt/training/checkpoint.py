"""Checkpoints: folders that are complete or absent, whatever happens while they are written.

checkpoints/
  LATEST                 the name of the newest complete checkpoint, replaced last
  00005-000000/          after 5 epochs and 0 batches of the sixth
    training.safetensors   model, optimizer, random states
    best.safetensors       the weights of the best epoch so far
    state.json             everything else, with sizes and SHA-256 of the other two files
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from dhilgt.errors import ArtifactError, TrainingWarning, warn
from dhilgt.store import files as store_files
from dhilgt.store.files import (
    canonical_json,
    explained,
    hash_file,
    open_regular,
    strict_json,
    sync_folder,
    write_file,
)

FORMAT = "dhilgt-checkpoint"
VERSION = 1
LATEST = "LATEST"
STATE = "state.json"
TRAINING = "training.safetensors"
BEST = "best.safetensors"
_TENSORS = (TRAINING, BEST)
_NAME = re.compile(r"[0-9]{5,10}-[0-9]{6,13}")
_UNFINISHED = ".unfinished-"
_MAX_STATE_BYTES = 1 << 28
_T = TypeVar("_T")


@dataclass
class Checkpoint:
    """A complete training state: tensors, and plain values.

    Attributes:
        training: Tensors of model, optimizer and generators, by name.
        best: Weights of the best epoch.
        values: Everything else, as JSON values.
    """

    training: dict[str, Tensor]
    best: dict[str, Tensor]
    values: dict[str, Any]


class CheckpointFolder:
    """The checkpoints of one run: the newest, and the one before it.

    Example:
        >>> import tempfile, torch
        >>> folder = CheckpointFolder(Path(tempfile.mkdtemp()) / "checkpoints")
        >>> folder.load() is None
        True
        >>> folder.save(1, 0, Checkpoint({"w": torch.ones(2)}, {}, {"seed": 3})).name
        '00001-000000'
        >>> folder.load().values["seed"]
        3
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, epoch: int, batch: int, checkpoint: Checkpoint) -> Path:
        """Commit a checkpoint, and keep the previous one.

        Raises:
            ArtifactError: If it could not be written; nothing of it is left then, and the older
                ones are unchanged.
        """
        name = f"{epoch:05d}-{batch:06d}"
        final, draft = self.path / name, self.path / (_UNFINISHED + name)
        training = safetensors.torch.save(checkpoint.training)
        best = safetensors.torch.save(checkpoint.best)
        with explained("save checkpoint", final, len(training) + len(best)):
            self.path.mkdir(parents=True, exist_ok=True)
            latest = self.latest()
            if latest == name:
                return final  # nothing has changed since it was written
            try:
                _remove(draft)
                store_files.ops.mkdir(draft)
                files = {
                    file: {"bytes": len(data), "sha256": _write(draft / file, data)}
                    for file, data in zip(_TENSORS, (training, best), strict=True)
                }
                _write(draft / STATE, _state_text(checkpoint.values, files))
                # A checkpoint of this name that LATEST does not name is incomplete.
                _remove(final)
                store_files.ops.rename(draft, final)
                sync_folder(self.path)
            except BaseException:
                _remove(draft)
                raise
            _write(self.path / LATEST, f"{name}\n".encode())
        self._remove_all_but({name, latest})
        return final

    def latest(self) -> str | None:
        """Return the name of the newest complete checkpoint, None where there is none yet."""
        path = self.path / LATEST
        try:
            with open_regular(path) as file:
                name = file.read(64).decode("ascii", errors="replace").strip()
        except FileNotFoundError:
            # Deleted, or the run was killed before it wrote the first one.
            complete = self._names() if self.path.is_dir() else []
            return complete[-1] if complete else None
        if not _NAME.fullmatch(name):
            raise ArtifactError(
                f"{path} names {name!r}, which is not a checkpoint; write one of "
                f"{', '.join(self._names()) or 'none'} in it, or start a new run"
            )
        return name

    def load(self) -> Checkpoint | None:
        """Return the newest checkpoint, with every byte checked; None where there is none yet.

        Raises:
            ArtifactError: If a file is missing, damaged or of another version; the message names
                it and the older checkpoint to go back to.
        """
        return self._newest(_read)

    def values(self) -> dict[str, Any] | None:
        """Return the plain values of the newest checkpoint, without reading its tensors.

        Raises:
            ArtifactError: If its state is missing, damaged or of another version.
        """
        newest = self._newest(_read_state)
        return None if newest is None else newest[0]

    def _newest(self, read: Callable[[Path], _T]) -> _T | None:
        name = self.latest()
        if name is None:
            return None
        if not (self.path / LATEST).exists():
            warn(f"{self.path / LATEST} is missing; the run goes on from {name}", TrainingWarning)
        try:
            return read(self.path / name)
        except ArtifactError as error:
            others = [other for other in self._names() if other < name]
            way_out = (
                f"to go back to the save before it, write {others[-1]} in {self.path / LATEST}"
                if others
                else "there is no older one; start a new run in another folder"
            )
            raise ArtifactError(f"{error}; {way_out}") from error

    def _names(self) -> list[str]:
        return sorted(
            path.name
            for path in self.path.iterdir()
            if _NAME.fullmatch(path.name) and (path / STATE).is_file()
        )

    def _remove_all_but(self, kept: set[str | None]) -> None:
        for path in self.path.iterdir():
            ours = _NAME.fullmatch(path.name) or path.name.startswith(_UNFINISHED)
            if ours and path.name not in kept:
                _remove(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

    Raises:
        ArtifactError: If it is not one.
    """
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} cannot be read: {error}") from error


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file atomically."""
    with explained("write", path):
        _write(path, safetensors.torch.save(tensors))


def _read(folder: Path) -> Checkpoint:
    content, files = _read_state(folder)
    for file, expected in files.items():
        _check(folder / file, expected)
    return Checkpoint(read_tensors(folder / TRAINING), read_tensors(folder / BEST), content)


def _read_state(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the checked values of a checkpoint, and what its state says of the other files."""
    state = folder / STATE
    try:
        with open_regular(state) as file:
            data = file.read(_MAX_STATE_BYTES)
    except OSError as error:
        raise ArtifactError(f"{state} cannot be read: {error.strerror}") from error
    try:
        values = strict_json(data, max_values=100_000_000)
    except ArtifactError as error:
        raise ArtifactError(f"{state} is damaged: {error}") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ArtifactError(f"{state} is not the state of a checkpoint")
    if values.get("version") != VERSION:
        raise ArtifactError(
            f"{state} has version {values.get('version')!r}, this library reads {VERSION}; use the "
            "library that wrote it"
        )
    content, files = values.get("values"), values.get("files")
    if values.get("sha256") != _state_hash(content, files):
        raise ArtifactError(f"{state} is damaged: its content does not match its SHA-256")
    if not isinstance(content, dict) or not isinstance(files, dict) or set(files) != {*_TENSORS}:
        raise ArtifactError(f"{state} is damaged: it does not hold what a checkpoint has")
    return content, files


def _state_text(values: Any, files: Any) -> bytes:
    head = {"format": FORMAT, "version": VERSION, "sha256": _state_hash(values, files)}
    return canonical_json(head | {"files": files, "values": values}, indent=1) + b"\n"


def _state_hash(values: Any, files: Any) -> str:
    return hashlib.sha256(canonical_json([files, values])).hexdigest()


def _check(path: Path, expected: Any) -> None:
    try:
        size, sha256 = path.stat().st_size, hash_file(path)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(expected, dict) or size != expected.get("bytes"):
        raise ArtifactError(f"{path} is damaged: {size} bytes, expected {expected}")
    if sha256 != expected.get("sha256"):
        raise ArtifactError(f"{path} is damaged: its content does not match its SHA-256")


def _write(path: Path, data: bytes) -> str:
    return write_file(path, iter((memoryview(data),)))


def _remove(folder: Path) -> None:
    """Remove a checkpoint's folder as far as possible, its state first: without it, it is none."""
    with contextlib.suppress(OSError):
        store_files.ops.unlink(folder / STATE)
        for path in list(folder.iterdir()):
            store_files.ops.unlink(path)
        store_files.ops.rmdir(folder)
