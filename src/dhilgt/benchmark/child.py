"""A cell in a process of its own: its memory peak is its own, and its death is only a line.

The parent writes the work as one line of JSON to the child's standard input and keeps that open: a
child whose parent died reads the end of it and goes too. The child answers with lines of JSON.
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

from dhilgt.benchmark import data, record
from dhilgt.benchmark.grid import Cell

COMMAND = (sys.executable, "-m", "dhilgt.benchmark.child")
_GRACE_SECONDS = 30.0  # for work that does not hear the alarm at once
_POLL_SECONDS = 0.2
_TAIL_BYTES = 1000


class Stopped(Exception):  # noqa: N818  not an error: the caller asked for it
    """The cell was given up on request."""


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
    """Gives the line of a cell, as `run_cell` does, from a process of its own.

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
    work = {
        "cell": cell.to_dict(),
        "device": device,
        "budget": budget,
        "root": None if root is None else os.fspath(root),
        "threads": threads,
    }
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the parent, who ends its children
        )
        try:
            found = _talk(child, work, budget, stop, grace)
            child.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            pass  # it has said all it had to say
        finally:
            _end(child)
        if isinstance(found, dict):
            return {**found, "own_process": True}
        line = record.line_of(cell, data.about(cell.data), budget)
        return {**line, **_death(child, found, budget, _tail(errors)), "own_process": True}


def _talk(
    child: subprocess.Popen[bytes],
    work: dict[str, Any],
    budget: float | None,
    stop: Callable[[], bool],
    grace: float,
) -> dict[str, Any] | str:
    """Gives the child's line, or why there is none: "ended" or "over"."""
    assert child.stdin is not None and child.stdout is not None  # noqa: PT018
    heard: queue.Queue[bytes | None] = queue.Queue()
    threading.Thread(target=_listen, args=(child.stdout, heard), daemon=True).start()
    with contextlib.suppress(OSError):  # a child that is dead already
        child.stdin.write(json.dumps(work).encode() + b"\n")
        child.stdin.flush()
    deadline = float("inf")
    while True:
        if stop():
            raise Stopped
        try:
            text = heard.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if time.monotonic() > deadline:
                return "over"
            continue
        if text is None:
            return "ended"
        said = json.loads(text)
        if "line" in said:
            line: dict[str, Any] = said["line"]
            return line
        if budget is not None:  # it has begun
            deadline = time.monotonic() + budget + grace


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
    """Gives status and message of a child that left no line."""
    if why == "over":
        return {
            "status": record.OVER,
            "message": f"not done after {budget:g} seconds, and killed as it did not stop",
        }
    if child.returncode == -signal.SIGKILL:
        return {
            "status": record.OOM,
            "message": "killed by the system (signal 9), as it does when memory is short",
        }
    how = f"signal {-child.returncode}" if child.returncode < 0 else f"code {child.returncode}"
    return {"status": record.FAILED, "message": f"the process ended with {how}: {tail}".strip()}


def _tail(errors: IO[bytes]) -> str:
    end = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, end - _TAIL_BYTES))
    return errors.read().decode(errors="replace").strip()


# ---- in the child ------------------------------------------------------------------------------


def main() -> None:
    """Does the work that standard input names and answers on standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    work = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    from dhilgt.benchmark.cell import run_cell

    def say(values: dict[str, Any]) -> None:
        answers.write(json.dumps(values, allow_nan=False) + "\n")
        answers.flush()

    line = run_cell(
        Cell.from_dict(work["cell"]),
        device=work["device"],
        budget=work["budget"],
        root=work["root"],
        threads=work["threads"],
        begun=lambda: say({"begun": True}),
    )
    say({"line": line})
    # Nothing is left to do, and tearing a GPU context down takes a while.
    answers.close()
    os._exit(0)


def _leave_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
