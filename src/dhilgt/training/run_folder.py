"""The folder of a training run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError, argument
from dhilgt.store import files
from dhilgt.store.files import canonical_json, explained, write_all, write_file
from dhilgt.store.target import BuildLock
from dhilgt.training.checkpoint import CheckpointFolder

CONFIG = "config.json"
METRICS = "metrics.jsonl"
ENVIRONMENT = "environment.json"
RESULT = "result.json"
BEST = "best.safetensors"
BUNDLE = "bundle.json"
MODEL = "model"
SCALE = "feature_scale.safetensors"
PROJECTION = "projection.safetensors"
GRAPH = "graph"
SETTINGS = "config.yaml"
CHOSEN = "chosen.yaml"
REPORT = "report.html"
REPORT_DATA = "report.json"
PREDICTIONS = "predictions"
SEARCH = "search"
SEARCH_RECORD = "search.json"
MEMBERS = "members"
CLUSTER = "cluster"
_TRAINING = {CONFIG, METRICS, ENVIRONMENT, RESULT, BEST, "checkpoints"}
_OURS = _TRAINING | {BUNDLE, MODEL, SCALE, PROJECTION, GRAPH, SETTINGS, CHOSEN, REPORT, REPORT_DATA}
_OURS |= {SEARCH, SEARCH_RECORD, MEMBERS, CLUSTER}
_BEFORE_TRAINING = {SETTINGS, SCALE, PROJECTION, CLUSTER, f".{CLUSTER}.lock"}


def is_ours(name: str) -> bool:
    """Return whether a file or folder of this name belongs in a run's folder.

    Example:
        >>> is_ours("predictions.csv"), is_ours("thesis.doc"), is_ours(".graph.lock")
        (True, False, True)
    """
    plain = name.removesuffix(".tmp").removeprefix(".")
    for ending in (".lock", ".old", ".tmp"):  # left by writers of artifacts that were killed
        plain = plain.removesuffix(ending)
    return plain in _OURS or plain.partition(".")[0] == PREDICTIONS


class RunFolder:
    r"""Config, scores, environment, checkpoints and result of one run, and the lock on it.

    Only one process writes it. A run that was cut off is continued with ``resume``.

    Example:
        >>> import tempfile
        >>> folder = RunFolder(Path(tempfile.mkdtemp()) / "run")
        >>> folder.open(resume=False)
        >>> folder.append({"epoch": 1, "train_loss": 0.5})
        >>> (folder.path / "metrics.jsonl").read_text()
        '{"epoch": 1, "train_loss": 0.5}\n'
        >>> folder.close()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().resolve()
        self.checkpoints = CheckpointFolder(self.path / "checkpoints")
        self._lock: BuildLock | None = None

    def open(self, *, resume: bool) -> None:
        """Lock the folder, before any work is done.

        Raises:
            ArtifactError: If it cannot be written, another process trains in it, it holds
                something else, or a run that was not to be resumed.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ArtifactError(f"{self.path} is a file; choose another folder")
        with explained("write in", self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = BuildLock(self.path)
            try:
                names = {path.name for path in self.path.iterdir()}
                if foreign := sorted(name for name in names if not is_ours(name)):
                    raise ArtifactError(
                        f"{self.path} is not the folder of a run (it holds {foreign[0]!r}); choose "
                        "another folder"
                    )
                # These may be written before the first epoch; using them loses nothing.
                if names - _BEFORE_TRAINING and not resume:
                    raise ArtifactError(
                        f"{self.path} holds a run; pass {argument('resume', True)} to go on with "
                        "it, or choose another folder"
                    )
                # Fail now, not after the first epoch, if the folder cannot be written.
                probe = self.path / f"{CONFIG}.tmp"
                os.close(files.ops.open(probe, os.O_WRONLY | os.O_CREAT))
                files.ops.unlink(probe)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def write(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        path = self.path / name
        with explained("write", path):
            write_file(path, iter((memoryview(canonical_json(values, indent=2) + b"\n"),)))

    def rewrite(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Replace the metrics file, without lines that a cut-off run wrote after its last save."""
        path = self.path / METRICS
        with explained("write", path):
            data = b"".join(_line(line) for line in lines)
            write_file(path, iter((memoryview(data),)))

    def append(self, line: Mapping[str, Any], *, wait: bool = True) -> None:
        """Append a line to the metrics file.

        Args:
            line: Of an epoch.
            wait: Until it is on the disk. Lines after the last save are not needed to resume.
        """
        path = self.path / METRICS
        with explained("write", path):
            descriptor = files.ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                write_all(descriptor, _line(line))
                if wait:
                    files.ops.fsync(descriptor)
            finally:
                os.close(descriptor)


def _line(values: Mapping[str, Any]) -> bytes:
    return canonical_json(values) + b"\n"


def environment(device: torch.device, processes: int) -> dict[str, Any]:
    """Return what a result can depend on besides settings and data."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    return {
        "dhilgt": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "safetensors": str(safetensors.__version__),  # type: ignore[attr-defined, unused-ignore]
        "cuda": torch.version.cuda,
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(at) for at in gpus],
        "device": str(device),
        "processes": processes,
    }
