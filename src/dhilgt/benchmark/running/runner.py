"""Runs the cells of a grid, several at once if asked to, and keeps their records."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from dhilgt import metrics
from dhilgt.benchmark.running import results as result_lines
from dhilgt.benchmark.running.child import Child, Stopped
from dhilgt.benchmark.running.data import about, make_ready
from dhilgt.benchmark.running.grid import Cell, check, trials_of
from dhilgt.benchmark.running.recipe import Changes
from dhilgt.benchmark.running.results import Results
from dhilgt.errors import ConfigError
from dhilgt.utils.devices import free_gpu

Line = dict[str, Any]
Tell = Callable[[Cell, Line, int, int], None]


@dataclass(frozen=True)
class Limits:
    """What a run may use.

    Attributes:
        budget: Seconds of each cell; None for any time.
        total: Seconds of the whole run: cells that are not done then are left for `--resume`.
        jobs: Cells at once. More than one blurs all times, which is recorded.
        device: Where to train.
        apart: Whether cells run in processes apart from this one.
        reuse: Let a process do many cells, which saves its start; the peak of host memory is then
            that of all cells it has done.
        root: Folder that holds datasets.
    """

    budget: float | None = None
    total: float | None = None
    jobs: int = 1
    device: str = "auto"
    apart: bool = True
    root: str | PathLike[str] | None = None
    reuse: bool = False

    def __post_init__(self) -> None:
        for name in ("budget", "total"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"{name} = {value!r}; pass a number of seconds above 0")
        if self.jobs < 1:
            raise ConfigError(f"jobs = {self.jobs}; pass at least 1")
        if self.reuse and not self.apart:
            raise ConfigError("processes that do many cells need apart=True")
        if self.jobs > 1 and not self.apart:
            raise ConfigError("several cells at once need processes of their own; pass jobs=1")


@dataclass(frozen=True)
class Summary:
    """How a run ended.

    Attributes:
        ran: Cells and trials that were run.
        skipped: Those that were done before.
        left: Those that the time of the whole run did not suffice for.
    """

    ran: int
    skipped: int
    left: int


def run(
    cells: list[Cell],
    results: Results,
    limits: Limits | None = None,
    tell: Tell = lambda cell, line, done, of: None,
) -> Summary:
    """Run all cells that have no line yet, those of searches first.

    Args:
        cells: From `grid.cells`.
        results: An open file; a line is added as soon as its cell ends.
        limits: Time, processes, device.
        tell: Called after each cell with its line, how many are done, and of how many.

    Raises:
        DatasetError: If a dataset cannot be had; nothing was run then.
        KeyboardInterrupt: If it was stopped; the running cells are lost, no others.
    """
    limits = Limits() if limits is None else limits
    for name in dict.fromkeys(cell.data for cell in cells):
        make_ready(name, limits.root)
    work = _Work(results, limits, tell)
    searches = _searches(cells)
    try:
        work.do([(trial, {}) for trials in searches.values() for trial in trials])
        chosen = {group: _best(group[2], trials, work.known) for group, trials in searches.items()}
        ready = []
        for cell in cells:
            search = chosen.get(_group(cell))
            if cell.trials and search is None:
                work.left += 1  # its search is not done
                continue
            ready.append(_tuned(cell, search) if search is not None else (cell, {}))
        work.do(ready)
    finally:
        work.close()
    return Summary(work.ran, work.skipped, work.left)


# ---- searches ----------------------------------------------------------------------------------


def _group(cell: Cell) -> tuple[str, str, str]:
    return cell.system, cell.variant, cell.data


def _searches(cells: Iterable[Cell]) -> dict[tuple[str, str, str], list[Cell]]:
    """Return the trials by system, variant and dataset; all are made on the split of one seed."""
    wanted = [cell for cell in cells if cell.trials]
    found: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in wanted:
        if _group(cell) not in found:
            seed = min(other.seed for other in wanted if _group(other) == _group(cell))
            found[_group(cell)] = trials_of(cell, seed)
            for trial in found[_group(cell)]:
                check(trial)
    return found


def _best(data: str, trials: list[Cell], known: dict[str, Line]) -> Line | None:
    """Return what a search found: None while it is not done."""
    lines = [known.get(trial.key) for trial in trials]
    if any(line is None for line in lines):
        return None
    metric = metrics.metric(about(data).metrics[0])
    best: Line | None = None
    for line in lines:
        assert line is not None
        score = line["val_score"] if line["chosen_by"] == metric.name else None
        if line["status"] != result_lines.OK or score is None:
            continue
        if best is None or metric.better(score, best["val_score"]):
            best = line
    fine = sum(line is not None and line["status"] == result_lines.OK for line in lines)
    return {
        "trials": len(trials),
        "trials_ok": fine,
        "seed": trials[0].seed,
        "chosen": None if best is None else best["trial"],
        "val_score": None if best is None else best["val_score"],
        "changes": None if best is None else best["changes"],
        "seconds": sum(line["total_seconds"] or 0.0 for line in lines if line is not None),
    }


def _tuned(cell: Cell, search: Line) -> tuple[Cell, Line]:
    """Return the cell with the settings that the search chose, and what its line says of that."""
    more = {"search": search, "key": cell.key}
    if search["changes"] is None:
        return cell, more  # no trial ended well: the recipe as it stands
    return replace(cell, changes=Changes(**search["changes"])), more


# ---- work --------------------------------------------------------------------------------------


class _Work:
    """The lines there are, and the running of those that are not."""

    def __init__(self, results: Results, limits: Limits, tell: Tell) -> None:
        self.known = {line["key"]: line for line in results.lines()}
        self.ran = self.skipped = self.left = 0
        self._results, self._limits, self._tell = results, limits, tell
        self._ends = float("inf") if limits.total is None else time.monotonic() + limits.total
        self._stop = threading.Event()
        self._beside = _Beside()
        self._pool = ThreadPoolExecutor(limits.jobs) if limits.apart else None
        threads = None if limits.jobs == 1 else max(1, (os.cpu_count() or 1) // limits.jobs)
        self._children: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for _ in range(limits.jobs):
            self._children.put(Child(device=limits.device, root=limits.root, threads=threads))

    def do(self, cells: list[tuple[Cell, Line]]) -> None:
        """Run cells; with each come values for its line."""
        budget = self._limits.budget
        pending = []
        for cell, more in cells:
            if result_lines.is_done(self.known.get(more.get("key", cell.key)), budget):
                self.skipped += 1
            else:
                pending.append((cell, more))
        if self._pool is None:
            for done, (cell, more) in enumerate(pending, 1):
                line = None if self._late() else self._here(cell)
                self._keep(cell, line, more, done, len(pending))
        else:
            self._in_processes(pending, self._pool)

    def _in_processes(self, pending: list[tuple[Cell, Line]], pool: ThreadPoolExecutor) -> None:
        running: dict[Future[Line | None], tuple[Cell, Line]] = {}
        waiting = list(reversed(pending))
        once_more: list[tuple[Cell, Line]] = []
        at_once, done = self._limits.jobs, 0
        while waiting or running or once_more:
            if not waiting and not running:
                waiting, once_more, at_once = once_more, [], 1
            while waiting and len(running) < at_once:
                cell, more = waiting.pop()
                running[pool.submit(self._apart, cell)] = cell, more
            # In short steps: a thread that waits for ever does not hear Ctrl-C on all systems.
            ended, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ended:
                cell, more = running.pop(future)
                line = future.result()
                if line is not None and line["status"] == result_lines.OOM and line["beside"]:
                    once_more.append((cell, more))  # alone: others had a part of the memory
                    continue
                done += 1
                self._keep(cell, line, more, done, len(pending))

    def _late(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._ends

    def _here(self, cell: Cell) -> Line | None:
        from dhilgt.benchmark.running.cell import run_cell

        limits = self._limits
        rest = self._ends - time.monotonic()
        budget = min(limits.budget or float("inf"), rest)
        cut = budget == rest  # by the end of the run, which says nothing about the cell
        line = run_cell(
            cell,
            device=limits.device,
            budget=None if budget == float("inf") else budget,
            root=limits.root,
        )
        free_gpu()
        line["budget_seconds"] = limits.budget
        return None if cut and line["status"] == result_lines.OVER else line

    def _apart(self, cell: Cell) -> Line | None:
        if self._late():
            return None
        ticket = self._beside.enter()
        child = self._children.get_nowait()  # there are as many as jobs
        try:
            line = child.run(cell, budget=self._limits.budget, stop=self._late)
        except Stopped:
            return None
        finally:
            others = self._beside.leave(ticket)
            if not self._limits.reuse:
                child.close()
            self._children.put(child)
        return {**line, "beside": others}

    def _keep(self, cell: Cell, line: Line | None, more: Line, done: int, of: int) -> None:
        if line is None:
            self.left += 1
            return
        line = {**line, **more, "jobs": self._limits.jobs}
        self._results.add(line)
        self.known[line["key"]] = line
        self.ran += 1
        self._tell(cell, line, done, of)

    def close(self) -> None:
        """End what is running."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        while not self._children.empty():
            self._children.get().close()


class _Beside:
    """Counts how many others were at work at the same time, at the most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._most: dict[int, int] = {}
        self._next = 0

    def enter(self) -> int:
        with self._lock:
            ticket, self._next = self._next, self._next + 1
            self._most[ticket] = 0
            for other in self._most:
                self._most[other] = max(self._most[other], len(self._most) - 1)
            return ticket

    def leave(self, ticket: int) -> int:
        with self._lock:
            return self._most.pop(ticket)
