"""Clocks, memory and results as data."""

import argparse
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
from rich.console import Console
from rich.table import Table

import dhilgt
from dhilgt import _native
from dhilgt.benchmark.lines import script_command, signed_line


def seconds(work: Callable[[], Any], repeats: int = 1) -> float:
    """Return the shortest of some runs, the one least disturbed by other work."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def machine() -> dict[str, Any]:
    """Return what figures depend on besides the code."""
    names = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "cpu": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "simd": _native.simd_level(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "dhilgt": dhilgt.__version__,
    }


class Bench:
    """A benchmark of several parts, each measured in a fresh process so that memory is its own.

    Figures go to `<name>.jsonl` as they are measured, each with the machine it was measured on.

    Args:
        name: Of the module in `bench` and of the files it writes.
        parts: Functions that measure something and return plain values.
        about: For --help.
        shares: Names of shares of it that can be measured alone, with --only.
    """

    def __init__(
        self,
        name: str,
        parts: list[Callable[..., dict[str, Any]]],
        about: str,
        shares: tuple[str, ...] = (),
    ) -> None:
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("--results", type=Path, default=Path("bench-results"))
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument("--part", nargs="*", help="measure this one here and print it as JSON")
        if shares:
            parser.add_argument("--only", choices=shares, help="measure this share alone")
        options = parser.parse_args()
        self.only: str | None = getattr(options, "only", None)
        if options.part:
            name, *arguments = options.part
            part = {function.__name__: function for function in parts}[name]
            print(json.dumps(part(*(int(a) if a.isdigit() else a for a in arguments))))
            raise SystemExit
        self.threads: int = options.threads
        self.folder: Path = options.results
        self.folder.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._machine = machine()
        self._lines: list[str] = []
        self._rows: list[tuple[str, str]] = []

    def measured(self, part: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """Return the figures of a part, and keep them."""
        print(f"{part.__name__} {' '.join(map(str, arguments))} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"bench.{self._name}", "--part", part.__name__]
        done = subprocess.run(
            [*command, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
        )
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        line = {**figures, "machine": self._machine, "command": script_command()}
        self._lines.append(signed_line(line).decode())
        text = "\n".join(self._lines) + "\n"
        (self.folder / f"{self._name}.jsonl").write_text(text, encoding="utf-8")
        return figures

    def row(self, what: str, measured: str) -> None:
        """Add a row to the table."""
        self._rows.append((what, measured))

    def finish(self) -> None:
        """Write the table, and print it."""
        lines = ["| what | measured |", "|---|---|"]
        lines += ["| " + " | ".join(cell.strip() for cell in row) + " |" for row in self._rows]
        table_path = self.folder / f"{self._name}-table.md"
        table_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        shown = Table("what", "measured")
        for row in self._rows:
            shown.add_row(*row)
        Console(width=110).print(shown)


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Yield a list that holds, afterwards, the largest rise of resident memory in bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    before = status_bytes("VmRSS")
    risen: list[int] = []
    yield risen
    risen.append(status_bytes("VmHWM") - before)


def status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no {field} in /proc/self/status")


def exponent(xs: list[float], ys: list[float]) -> float:
    """Return b of the least-squares fit y = a x^b."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def draw_growth(
    points: list[dict[str, Any]], x: str, curves: list[tuple[str, str, float]], path: Path
) -> None:
    """Plot figures against a size on logarithmic axes, with the exponent of each curve.

    Args:
        points: Measurements.
        x: Figure on the horizontal axis.
        curves: Figure, title and scale of each plot.
        path: Image to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = [point[x] for point in points]
    figure, axes = plt.subplots(
        1, len(curves), figsize=(3.8 * len(curves), 3.4), layout="constrained"
    )
    for axis, (key, title, scale) in zip(axes, curves, strict=True):
        values = [point[key] * scale for point in points]
        axis.loglog(sizes, values, "o-")
        axis.set(xlabel=x, title=title)
        axis.text(0.05, 0.9, f"exponent {exponent(sizes, values):.2f}", transform=axis.transAxes)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
