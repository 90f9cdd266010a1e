"""Wall-clock time and peak memory of stages."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_STATUS = Path("/proc/self/status")


class StageClock:
    """Sums the seconds of named stages and keeps their largest peak of memory.

    For the host this is the peak of the process since it started, for CUDA the peak of the stage.

    Example:
        >>> clock = StageClock()
        >>> clock.add("labels", seconds=2.5, host_bytes=10**9)
        >>> clock.add("labels", seconds=1.5)
        >>> clock.to_dict()["labels"]["seconds"], clock.to_dict()["labels"]["times"]
        (4.0, 2)
    """

    def __init__(self, values: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._stages = {name: dict(stage) for name, stage in (values or {}).items()}
        self._laps: dict[str, list[float]] = {}

    def add(self, name: str, seconds: float, host_bytes: int = 0, device_bytes: int = 0) -> None:
        """Add ``seconds`` to stage ``name``."""
        self._count(name, 1, seconds, host_bytes, device_bytes)
        self._laps.setdefault(name, []).append(seconds)

    def _count(
        self, name: str, times: int, seconds: float, host_bytes: int, device_bytes: int
    ) -> None:
        empty = {"seconds": 0.0, "times": 0, "host_peak_bytes": 0, "device_peak_bytes": 0}
        stage = self._stages.setdefault(name, empty)
        stage["seconds"] += seconds
        stage["times"] += times
        stage["host_peak_bytes"] = max(stage["host_peak_bytes"], host_bytes)
        stage["device_peak_bytes"] = max(stage["device_peak_bytes"], device_bytes)

    def extend(self, name: str, values: Mapping[str, Any]) -> None:
        """Add stage ``name`` of another clock's `to_dict`."""
        memory = values["host_peak_bytes"], values["device_peak_bytes"]
        self._count(name, values["times"], values["seconds"], *memory)

    def join(self, other: StageClock) -> None:
        """Add all stages of another clock, with their laps."""
        for name in other.to_dict():
            self.take(name, other)

    def take(self, name: str, other: StageClock) -> None:
        """Add one stage of another clock, if it has that stage."""
        if name in other._stages:
            self.extend(name, other._stages[name])
            self._laps.setdefault(name, []).extend(other.laps(name))

    @contextlib.contextmanager
    def measure(self, name: str, device: torch.device | None = None) -> Iterator[None]:
        """Measure the block as stage ``name``.

        A block that ends by an exception adds its seconds and memory, but does not count in
        ``times`` and `laps`, which are of completed blocks.
        """
        on_gpu = device is not None and device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(device)
        start = time.perf_counter()
        completed = False
        try:
            yield
            completed = True
        finally:
            if on_gpu:
                # The last kernels of the block may only be queued.
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - start
            peak = torch.cuda.max_memory_allocated(device) if on_gpu else 0
            if completed:
                self.add(name, seconds, host_peak_bytes(), peak)
            else:
                self._count(name, 0, seconds, host_peak_bytes(), peak)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage."""
        return {name: float(stage["seconds"]) for name, stage in self._stages.items()}

    def laps(self, name: str) -> list[float]:
        """Return the seconds of each run of a stage that this clock measured itself.

        The first run of a stage often includes work that is done only once.

        Example:
            >>> clock = StageClock()
            >>> clock.add("epoch", seconds=9.0)
            >>> clock.add("epoch", seconds=0.5)
            >>> clock.laps("epoch"), clock.laps("labels")
            ([9.0, 0.5], [])
        """
        return list(self._laps.get(name, ()))

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return all stages as plain values."""
        return {name: dict(stage) for name, stage in self._stages.items()}


def host_peak_bytes() -> int:
    """Return the peak memory of this process so far; 0 where the system does not report it."""
    # Linux counts what the parent held into a child's ru_maxrss, but not into VmHWM.
    try:
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
