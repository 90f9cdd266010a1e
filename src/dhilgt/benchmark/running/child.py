"""Cells in a worker process: their peak memory is their own, and a crash ends one cell only."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dhilgt.benchmark.record import FAILED, OK, OOM, OVER, Record
from dhilgt.benchmark.running import data
from dhilgt.benchmark.running.grid import Cell
from dhilgt.utils.devices import free_gpu
from dhilgt.utils.workers import DONE, NOTE, Worker, notify

_GRACE_SECONDS = 30.0  # for work that does not react to the alarm at once
_POLL_SECONDS = 0.2
RunCell = Callable[[Cell, float | None, dict[str, Any]], Record]


class CellStopped(Exception):  # noqa: N818  not an error: the caller asked for it
    """The cell was stopped on request."""


def _run(cell: Cell, budget: float | None, options: dict[str, Any]) -> Record:
    from dhilgt.benchmark.running.cell import run_cell

    record = run_cell(cell, budget=budget, begun=lambda: notify("begun"), **options)
    free_gpu()
    return record


class Child:
    """Runs cells in a process, one after another, and replaces it when a cell goes wrong.

    Args:
        run: What to call in the process; for tests.
        grace: Seconds over the budget after which the process is killed.
        **options: For `run_cell`: device, root and threads.
    """

    def __init__(
        self, *, run: RunCell = _run, grace: float = _GRACE_SECONDS, **options: Any
    ) -> None:
        self._run, self._grace, self._options = run, grace, options
        self._worker: Worker | None = None
        self._served = 0

    def run(
        self, cell: Cell, *, budget: float | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Record:
        """Return the record of a cell, as `run_cell` does.

        Args:
            cell: What to do.
            budget: As for `run_cell`.
            stop: Asked now and then; once it returns True the process is ended.

        Raises:
            CellStopped: If ``stop()`` returned True.
        """
        if self._worker is None:
            self._worker, self._served = Worker(detached=True), 0
        try:
            record = self._record(self._worker, cell, budget, stop)
        except BaseException:
            self.close()
            raise
        self._served += 1
        if record.status != OK:
            self.close()  # the error may have left the process in a bad state
        return replace(record, costs=replace(record.costs, own_process=self._served == 1))

    def _record(
        self, worker: Worker, cell: Cell, budget: float | None, stop: Callable[[], bool]
    ) -> Record:
        worker.call(self._run, cell, budget, self._options)
        without = Record.of(cell, data.about(cell.data), budget)
        deadline = float("inf")
        while True:
            if stop():
                raise CellStopped
            try:
                message = worker.answer(_POLL_SECONDS)
            except EOFError:
                self._worker = None
                return _after_death(without, worker, worker.end(self._grace))
            if message is None:
                if time.monotonic() > deadline:
                    text = f"not done after {budget:g} seconds, and killed as it did not stop"
                    return replace(without, status=OVER, message=text)
                continue
            kind, value = message
            if kind == DONE:
                record: Record = value
                return record
            if kind != NOTE:
                return replace(without, status=FAILED, message=value)
            if budget is not None:  # the graph is loaded, the clock has started
                deadline = time.monotonic() + budget + self._grace

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _after_death(record: Record, worker: Worker, printed: str) -> Record:
    """Return the record of a cell whose process ended without an answer."""
    code = worker.exit_code or 0
    if code == -signal.SIGKILL:
        text = "killed by the system (signal 9), as it does when memory is short"
        return replace(record, status=OOM, message=text)
    how = f"signal {-code}" if code < 0 else f"code {code}"
    text = f"the process ended with {how}: {printed}".strip()
    return replace(record, status=FAILED, message=text)
