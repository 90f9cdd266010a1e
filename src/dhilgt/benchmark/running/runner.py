"""Runs the cells of a grid, several at once if asked to, and keeps their records."""

from __future__ import annotations

import heapq
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from os import PathLike

from dhilgt.benchmark.record import OOM, OVER, Record
from dhilgt.benchmark.running.agenda import Agenda, Job
from dhilgt.benchmark.running.child import CellStopped, Child
from dhilgt.benchmark.running.data import make_ready
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.results import Results
from dhilgt.errors import ConfigError
from dhilgt.utils.devices import free_gpu

OnCell = Callable[[Cell, Record, int, int], None]


@dataclass(frozen=True)
class Limits:
    """What a run may use.

    Attributes:
        budget: Seconds of each cell; None for any time.
        total: Seconds of the whole run: cells that are not done then are left for `--resume`.
        starts: Seconds after which no further cell begins; those that run may end.
        jobs: Cells at once. More than one disturbs all times, which is recorded.
        device: Where to train.
        apart: Whether cells run in processes apart from this one.
        reuse: Let a process run many cells, which saves its start; the peak of host memory is then
            that of all cells it has run.
        root: Folder that holds datasets.
    """

    budget: float | None = None
    total: float | None = None
    jobs: int = 1
    device: str = "auto"
    apart: bool = True
    root: str | PathLike[str] | None = None
    reuse: bool = False
    starts: float | None = None

    def __post_init__(self) -> None:
        for name in ("budget", "total", "starts"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"{name} = {value!r}; pass a number of seconds above 0")
        if self.jobs < 1:
            raise ConfigError(f"jobs = {self.jobs}; pass at least 1")
        if self.reuse and not self.apart:
            raise ConfigError("processes that run many cells need apart=True")
        if self.jobs > 1 and not self.apart:
            raise ConfigError("several cells at once need processes of their own; pass jobs=1")


@dataclass(frozen=True)
class Summary:
    """How a run ended.

    Attributes:
        ran: Cells and trainings of searches that were run.
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
    tell: OnCell = lambda cell, record, done, of: None,
    command: str | None = None,
) -> Summary:
    """Run all cells that have no record yet, each after the search that it needs.

    Args:
        cells: From `grid.cells`.
        results: An open file; a record is added as soon as its cell ends.
        limits: Time, processes, device.
        tell: Called after each cell with its record, how many are done, and of how many.
        command: The command of this run, for the records.

    Raises:
        DatasetError: If a dataset is not available; nothing was run then.
        KeyboardInterrupt: If it was stopped; the running cells are lost, no others.
    """
    limits = Limits() if limits is None else limits
    for name in dict.fromkeys(cell.data for cell in cells):
        make_ready(name, limits.root)
    queued = _Queue(Agenda(cells), results, limits, tell, command)
    try:
        queued.run()
    finally:
        queued.close()
    return Summary(queued.ran, queued.skipped, queued.left)


class _Queue:
    """The records there are, and the running of cells that have none."""

    def __init__(
        self,
        agenda: Agenda,
        results: Results,
        limits: Limits,
        tell: OnCell,
        command: str | None,
    ) -> None:
        self.known = results.by_key()
        self.ran = self.skipped = 0
        self._agenda = agenda
        self._waiting: list[Job] = []  # a heap: the job of the first place is at its top
        self._results, self._limits, self._tell = results, limits, tell
        self._command = command
        self._ends = _deadline(limits.total)
        self._last_start = _deadline(limits.starts)
        self._stop = threading.Event()
        self._neighbours = _Neighbours()
        self._pool = ThreadPoolExecutor(limits.jobs) if limits.apart else None
        threads = None if limits.jobs == 1 else max(1, (os.cpu_count() or 1) // limits.jobs)
        self._children: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for _ in range(limits.jobs):
            self._children.put(Child(device=limits.device, root=limits.root, threads=threads))

    @property
    def left(self) -> int:
        """Trainings that are not done."""
        return self._agenda.total - self.ran - self.skipped

    def run(self) -> None:
        """Run the jobs that are not done."""
        self._release(self._agenda.first())
        if self._pool is not None:
            self._in_processes(self._pool)
            return
        while self._waiting:
            job = heapq.heappop(self._waiting)
            self._keep(job, self._run_in_process(job.cell) if self._may_start() else None)

    def _release(self, jobs: Iterable[Job]) -> None:
        """Put jobs in the queue, and in place of those that are done what they release."""
        for job in jobs:
            record = self.known.get(job.key)
            if record is not None and record.is_final(self._limits.budget):
                self.skipped += 1
                self._release(self._agenda.after(job, self.known))
            else:
                heapq.heappush(self._waiting, job)

    def _in_processes(self, pool: ThreadPoolExecutor) -> None:
        running: dict[Future[Record | None], Job] = {}
        alone: list[Job] = []
        while self._waiting or running or alone:
            while self._waiting and len(running) < self._limits.jobs:
                job = heapq.heappop(self._waiting)
                running[pool.submit(self._run_apart, job.cell)] = job
            if not running:
                job = alone.pop(0)
                running[pool.submit(self._run_apart, job.cell)] = job
            # In short steps: a thread that waits for ever does not react to Ctrl-C on all systems.
            ended, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ended:
                job, record = running.pop(future), future.result()
                if record is not None and record.status == OOM and record.costs.beside:
                    alone.append(job)  # later: other cells took a part of the memory
                else:
                    self._keep(job, record)

    def _late(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._ends

    def _may_start(self) -> bool:
        return not self._late() and time.monotonic() <= self._last_start

    def _run_in_process(self, cell: Cell) -> Record | None:
        from dhilgt.benchmark.running.cell import run_cell

        limits = self._limits
        rest = self._ends - time.monotonic()
        budget = min(limits.budget or float("inf"), rest)
        cut = budget == rest  # by the end of the run, which says nothing about the cell
        record = run_cell(
            cell,
            device=limits.device,
            budget=None if budget == float("inf") else budget,
            root=limits.root,
        )
        free_gpu()
        if cut and record.status == OVER:
            return None
        return replace(record, budget_seconds=limits.budget)

    def _run_apart(self, cell: Cell) -> Record | None:
        if not self._may_start():
            return None
        ticket = self._neighbours.enter()
        child = self._children.get_nowait()  # there are as many as jobs
        try:
            record = child.run(cell, budget=self._limits.budget, stop=self._late)
        except CellStopped:
            return None
        finally:
            others = self._neighbours.leave(ticket)
            if not self._limits.reuse:
                child.close()
            self._children.put(child)
        return replace(record, costs=replace(record.costs, beside=others))

    def _keep(self, job: Job, record: Record | None) -> None:
        if record is None:
            return
        costs = replace(record.costs, jobs=self._limits.jobs)
        record = replace(record, key=job.key, search=job.search, costs=costs, command=self._command)
        self._results.add(record)
        self.known[record.key] = record
        self.ran += 1
        self._tell(job.cell, record, self.ran, self._agenda.total - self.skipped)
        self._release(self._agenda.after(job, self.known))

    def close(self) -> None:
        """End what is running."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        while not self._children.empty():
            self._children.get().close()


def _deadline(seconds: float | None) -> float:
    return float("inf") if seconds is None else time.monotonic() + seconds


class _Neighbours:
    """Counts, for each cell that runs, the most others that ran at the same time."""

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
