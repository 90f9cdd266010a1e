"""Cells in processes apart: a memory peak is theirs alone, and a death is only a line.

The parent writes work as a line of JSON to a child's standard input and keeps that open: a child
whose parent died reads the end of it and goes too. The child answers with lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from os import PathLike
from typing import IO, Any

from dhilgt.benchmark.running import data, results
from dhilgt.benchmark.running.grid import Cell
from dhilgt.utils.devices import free_gpu

COMMAND = (sys.executable, "-m", "dhilgt.benchmark.running.child")
_GRACE_SECONDS = 30.0  # for work that does not hear the alarm at once
_POLL_SECONDS = 0.2
_TAIL_BYTES = 1000


class Stopped(Exception):  # noqa: N818  not an error: the caller asked for it
    """The cell was given up on request."""


class Child:
    """A process that does cells, one after another, and is replaced when one goes wrong in it.

    Args:
        device: As for `run_cell`.
        root: As for `run_cell`.
        threads: As for `run_cell`.
        command: What to start; for tests.
        grace: Seconds over the budget after which the process is killed.
    """

    def __init__(
        self,
        *,
        device: str = "auto",
        root: str | PathLike[str] | None = None,
        threads: int | None = None,
        command: Sequence[str] = COMMAND,
        grace: float = _GRACE_SECONDS,
    ) -> None:
        self._work = {
            "device": device,
            "root": None if root is None else os.fspath(root),
            "threads": threads,
        }
        self._command, self._grace = list(command), grace
        self._process: _Process | None = None

    def run(
        self, cell: Cell, *, budget: float | None = None, stop: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """Return the line of a cell, as `run_cell` does.

        Args:
            cell: What to do.
            budget: As for `run_cell`.
            stop: Asked now and then; if it says so, the process is ended.

        Raises:
            Stopped: If ``stop()`` said so.
        """
        if self._process is None:
            self._process = _Process(self._command)
        process = self._process
        try:
            work = {**self._work, "cell": cell.to_dict(), "budget": budget}
            found = process.talk(work, budget, stop, self._grace)
        except BaseException:
            self.close()
            raise
        process.served += 1
        own = {"own_process": process.served == 1}
        if isinstance(found, dict):
            if found["status"] != results.OK:
                self.close()  # what went wrong may have left a mark on the process
            return {**found, **own}
        self._process = None
        tail = process.end()
        line = results.line_of(cell, data.about(cell.data), budget)
        return {**line, **_death(process.child, found, budget, tail), **own}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None


def run_apart(
    cell: Cell,
    *,
    device: str = "auto",
    budget: float | None = None,
    root: str | PathLike[str] | None = None,
    threads: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    command: Sequence[str] = COMMAND,
    grace: float = _GRACE_SECONDS,
) -> dict[str, Any]:
    """Return the line of a cell, as `run_cell` does, from a process of its own.

    Args:
        cell: What to do.
        device: As for `run_cell`.
        budget: As for `run_cell`.
        root: As for `run_cell`.
        threads: As for `run_cell`.
        stop: Asked now and then; if it says so, the process is ended.
        command: What to start; for tests.
        grace: Seconds over the budget after which the process is killed.

    Raises:
        Stopped: If ``stop()`` said so.
    """
    child = Child(device=device, root=root, threads=threads, command=command, grace=grace)
    try:
        return child.run(cell, budget=budget, stop=stop)
    finally:
        child.close()


class _Process:
    """A started process, what it says and what it complains of."""

    def __init__(self, command: list[str]) -> None:
        self.served = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the parent, who ends its children
        )
        assert self.child.stdout is not None
        self._heard: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=_listen, args=(self.child.stdout, self._heard), daemon=True).start()

    def talk(
        self, work: dict[str, Any], budget: float | None, stop: Callable[[], bool], grace: float
    ) -> dict[str, Any] | str:
        """Return the line of the work, or why there is none: "ended" or "over"."""
        assert self.child.stdin is not None
        with contextlib.suppress(OSError):  # a child that is dead already
            self.child.stdin.write(json.dumps(work).encode() + b"\n")
            self.child.stdin.flush()
        deadline = float("inf")
        while True:
            if stop():
                raise Stopped
            try:
                text = self._heard.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if time.monotonic() > deadline:
                    return "over"
                continue
            if text is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(timeout=grace)  # for its exit code
                return "ended"
            said = json.loads(text)
            if "line" in said:
                line: dict[str, Any] = said["line"]
                return line
            if budget is not None:  # it has begun
                deadline = time.monotonic() + budget + grace

    def end(self) -> str:
        """End the process; return the end of what it complained of."""
        _end(self.child)
        with self._errors as errors:
            return _tail(errors)


def _listen(stream: IO[bytes], heard: queue.Queue[bytes | None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for text in stream:
            heard.put(text)
    heard.put(None)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _death(
    child: subprocess.Popen[bytes], why: str, budget: float | None, tail: str
) -> dict[str, Any]:
    """Return status and message of a child that left no line."""
    if why == "over":
        return {
            "status": results.OVER,
            "message": f"not done after {budget:g} seconds, and killed as it did not stop",
        }
    if child.returncode == -signal.SIGKILL:
        return {
            "status": results.OOM,
            "message": "killed by the system (signal 9), as it does when memory is short",
        }
    how = f"signal {-child.returncode}" if child.returncode < 0 else f"code {child.returncode}"
    return {"status": results.FAILED, "message": f"the process ended with {how}: {tail}".strip()}


def _tail(errors: IO[bytes]) -> str:
    end = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, end - _TAIL_BYTES))
    return errors.read().decode(errors="replace").strip()


# ---- in the child ------------------------------------------------------------------------------


def main() -> None:
    """Do the work that lines of standard input name and answer on standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    waiting: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_leave_with_parent, args=(waiting,), daemon=True).start()
    from dhilgt.benchmark.running.cell import run_cell

    def say(values: dict[str, Any]) -> None:
        answers.write(json.dumps(values, allow_nan=False) + "\n")
        answers.flush()

    while True:
        work = json.loads(waiting.get())
        line = run_cell(
            Cell.from_dict(work["cell"]),
            device=work["device"],
            budget=work["budget"],
            root=work["root"],
            threads=work["threads"],
            begun=lambda: say({"begun": True}),
        )
        say({"line": line})
        free_gpu()


def _leave_with_parent(waiting: queue.Queue[bytes]) -> None:
    for text in sys.stdin.buffer:
        waiting.put(text)
    # Not in good order: nothing is left to do, and tearing a GPU context down takes a while.
    os._exit(1)


if __name__ == "__main__":
    main()
