"""Clocks, memory and results as data."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dhilgt
from dhilgt import _native


def seconds(work: Callable[[], Any], repeats: int = 1) -> float:
    """Gives the best of some runs: what the machine can do, not what else it did meanwhile."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def machine() -> dict[str, Any]:
    """Gives what a figure depends on besides the code."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "simd": _native.simd_level(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "dhilgt": dhilgt.__version__,
    }


class Results:
    """A JSON-lines file of measured figures, each with the machine it was measured on."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.jsonl"
        self._machine = machine()
        self.path.write_text("")

    def add(self, **figures: Any) -> None:
        """Appends one measurement."""
        with self.path.open("a") as file:
            file.write(json.dumps({**figures, "machine": self._machine}) + "\n")


def in_process(module: str, *arguments: str) -> dict[str, Any]:
    """Runs a measurement in a fresh process, so that memory is its own, and gives its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Gives a list that holds, afterwards, the bytes by which resident memory rose at the most."""
    Path("/proc/self/clear_refs").write_text("5")  # start the high-water mark anew
    before = _status_bytes("VmRSS")
    risen: list[int] = []
    yield risen
    risen.append(_status_bytes("VmHWM") - before)


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no {field} in /proc/self/status")


def exponent(xs: list[float], ys: list[float]) -> float:
    """Gives b of the least-squares fit y = a x^b."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])
