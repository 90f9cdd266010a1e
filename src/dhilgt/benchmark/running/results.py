"""The lines of results: one JSON object per cell, appended and on the disk before the next."""

from __future__ import annotations

import json
import os
import platform
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dhilgt.benchmark.running.data import DataInfo
from dhilgt.benchmark.running.grid import Cell
from dhilgt.errors import ArtifactError, argument
from dhilgt.graph.graph import Graph
from dhilgt.store import files
from dhilgt.store.files import canonical_json, explained, write_all
from dhilgt.store.target import BuildLock

FORMAT = 1
OK, OOM, OVER, FAILED = "ok", "oom", "over-budget", "failed"
STATUSES = (OK, OOM, OVER, FAILED)
_NEEDED = ("system", "data", "seed", "variant", "recipe", "status", "key")
_LONGEST_MESSAGE = 2000
_CUDA_OUT = ("out of memory", "alloc_failed", "cannot allocate memory")


def line_of(cell: Cell, about: DataInfo, budget: float | None) -> dict[str, Any]:
    """Gives the line of a cell of which nothing is known but what was asked for.

    Args:
        cell: The cell.
        about: Its dataset.
        budget: Seconds that it may take.

    Example:
        >>> from dhilgt.benchmark.running.data import about
        >>> line = line_of(Cell("gcn", "cora", 3), about("cora"), 60.0)
        >>> line["system"], line["seed"], line["status"], line["scores"]
        ('gcn', 3, 'failed', {})
    """
    return {
        "format": FORMAT,
        "key": cell.key,
        "system": cell.system,
        "variant": cell.variant,
        "data": cell.data,
        "seed": cell.seed,
        "recipe": cell.recipe,
        "trials": cell.trials,
        "trial": cell.trial,
        "metrics": list(about.metrics),
        "standin_for": about.standin_for,
        "budget_seconds": budget,
        "changes": {"model": cell.changes.model, "training": cell.changes.training},
        "status": FAILED,
        "message": "",
        "scores": {},
        "score_notes": {},
        "val_score": None,
        "chosen_by": None,
        "epochs": None,
        "best_epoch": None,
        "out_of_time": None,
        "load_seconds": None,
        "precompute_seconds": None,
        "epoch_seconds": None,
        "first_epoch_seconds": None,
        "inference_seconds": None,
        "inference_device": None,
        "total_seconds": None,
        "host_before_bytes": None,
        "host_peak_bytes": None,
        "gpu_peak_bytes": None,
        "num_parameters": None,
        "rows": None,
        "split_hash": None,
        "graph": None,
        "settings": None,
        "training": None,
        "stages": None,
        "environment": None,
        "jobs": 1,
        "beside": 0,
        "own_process": False,
    }


def graph_facts(graph: Graph) -> dict[str, Any]:
    """Gives what a line says of its graph."""
    return {
        "graph": {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "classes": graph.num_classes,
            "fingerprint": graph.fingerprint,
        }
    }


def environment(device: str) -> dict[str, Any]:
    """Gives versions and hardware."""
    from dhilgt.training import run_folder
    from dhilgt.utils.devices import choose_device

    found = run_folder.environment(choose_device(device), 1)
    return {**found, "cpu": _cpu_name(), "memory_bytes": _memory_bytes()}


def _cpu_name() -> str:
    try:
        for text in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def failure(error: BaseException) -> dict[str, Any]:
    """Gives status and message of an error.

    Example:
        >>> failure(MemoryError("no room"))
        {'status': 'oom', 'message': 'MemoryError: no room'}
        >>> failure(RuntimeError("CUDA error: out of memory"))["status"]
        'oom'
        >>> failure(ValueError("wrong"))["status"]
        'failed'
    """
    text = f"{type(error).__name__}: {error}".strip()
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    full = full or (
        isinstance(error, RuntimeError) and any(word in text.lower() for word in _CUDA_OUT)
    )
    return {"status": OOM if full else FAILED, "message": text[:_LONGEST_MESSAGE]}


class Results:
    """A file of lines that cells are added to while it is open.

    A line is on the disk before `add` returns. What a killed run left of a last line is cut off.

    Args:
        path: The file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "results.jsonl"
        >>> from dhilgt.benchmark.running.data import about
        >>> with Results(path).open(resume=False) as results:
        ...     results.add(line_of(Cell("gcn", "cora", 0), about("cora"), None))
        >>> [line["system"] for line in Results(path).lines()]
        ['gcn']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: BuildLock | None = None
        self._descriptor = -1

    def open(self, *, resume: bool) -> Self:
        """Takes the file to write to it.

        Args:
            resume: Keep the lines that it has; else it must not hold any.

        Raises:
            ArtifactError: If it holds results and was not to be resumed, holds something else,
                cannot be written, or is written by another process.
        """
        if self.path.is_dir():
            raise ArtifactError(f"{self.path} is a folder; name a file in it")
        with explained("write", self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = BuildLock(self.path)
            try:
                found = self.path.read_bytes() if self.path.exists() else b""
                if found and not resume:
                    raise ArtifactError(
                        f"{self.path} holds results; pass {argument('resume', True)} to go on "
                        "with them, or "
                        "choose another file"
                    )
                self.lines()  # a file that is none is refused before it is touched
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = files.ops.open(self.path, flags)
                whole = found.rfind(b"\n") + 1
                if whole < len(found):
                    files.ops.truncate(self._descriptor, whole)
            except BaseException:
                self.close()
                raise
        return self

    def add(self, line: dict[str, Any]) -> None:
        """Appends a line."""
        with explained("write", self.path):
            write_all(self._descriptor, canonical_json(line) + b"\n")
            files.ops.fsync(self._descriptor)

    def close(self) -> None:
        """Lets go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def lines(self) -> list[dict[str, Any]]:
        """Gives the whole lines, the last one of each cell, in the order of the file.

        Raises:
            ArtifactError: If the file cannot be read, or a line is not one.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ArtifactError(f"{self.path} cannot be read ({error.strerror})") from error
        *whole, _ = data.split(b"\n")  # after the last line end: nothing, or a torn line
        found: dict[str, dict[str, Any]] = {}
        for number, text in enumerate(whole, 1):
            line = self._line(text, number)
            found.pop(line["key"], None)
            found[line["key"]] = line
        return list(found.values())

    def _line(self, text: bytes, number: int) -> dict[str, Any]:
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict) or any(name not in line for name in _NEEDED):
            raise ArtifactError(
                f"{self.path}, line {number} is not a result of dhilgt bench; choose another file"
            )
        if line.get("format") != FORMAT:
            raise ArtifactError(
                f"{self.path}, line {number} has format {line.get('format')!r}, this version reads "
                f"{FORMAT}; use the version that wrote it"
            )
        return line


def is_done(line: dict[str, Any] | None, budget: float | None) -> bool:
    """Says whether a cell with this line need not be run again.

    A failed cell is tried again, one that was over budget if it now has more time, and one that
    ran out of memory beside others.

    Example:
        >>> is_done({"status": "over-budget", "budget_seconds": 5.0}, 60.0)
        False
    """
    if line is None or line["status"] == FAILED:
        return False
    if line["status"] == OVER:
        had = line.get("budget_seconds")
        return had is not None and budget is not None and budget <= had
    return line["status"] != OOM or not line.get("beside")
