"""Processes that work for this one: a worker that is given calls, and several side by side."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dhilgt.errors import DhilgtError

NOTE, DONE, STOPPED, ERROR = "note", "done", "stopped", "error"
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_END = 60.0
_TAIL_BYTES = 1000
# Not forked: a fork inherits locks of threads that it does not have.
_SPAWN = multiprocessing.get_context("spawn")


class Worker:
    """A process that makes the calls it is sent, one after another.

    As with every process that Python spawns, a script starts workers under
    ``if __name__ == "__main__"``.

    Args:
        threads: Of torch in the process; None for all.
        detached: Keep the process apart from this one: Ctrl-C does not reach it, its output is kept
            for `end` instead of being shown, and it exits at once if this process dies.

    Example:
        >>> worker = Worker()
        >>> worker.call(max, 3, 7)
        >>> worker.answer(60)
        ('done', 7)
        >>> worker.end(60)
        ''
    """

    def __init__(self, *, threads: int | None = None, detached: bool = False) -> None:
        self._output: Path | None = None
        if detached:
            descriptor, name = tempfile.mkstemp(prefix="dhilgt-worker-")
            os.close(descriptor)
            self._output = Path(name)
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_serve, args=(theirs, threads, self._output), daemon=True
        )
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    @property
    def exit_code(self) -> int | None:
        """Of the process; negative for a signal, None while it runs."""
        return self._process.exitcode

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function called; it and its arguments travel by pickle.

        Args:
            function: Of a module, not a local one.
            *arguments: Its arguments.
        """
        with contextlib.suppress(OSError):  # a process that has ended: `answer` reports that
            self._pipe.send((function, arguments))

    def answer(self, seconds: float) -> tuple[str, Any] | None:
        """Return the next message of the process, None if none comes in time.

        Args:
            seconds: How long to wait.

        Returns:
            `NOTE` and what the function passed to `notify`, `DONE` and what it returned, or
            `STOPPED` (by an interrupt) or `ERROR` and the message.

        Raises:
            EOFError: If the process has ended without an answer.
        """
        try:
            if not self._pipe.poll(seconds):
                return None
            kind, value = self._pipe.recv()
        except OSError as error:
            raise EOFError from error
        return kind, value

    def interrupt(self) -> None:
        """Ask the process to stop in good order."""
        if self._process.is_alive():
            self._process.terminate()

    def end(self, seconds: float = 0.0) -> str:
        """End the process and return the end of what it printed, if it was detached.

        Args:
            seconds: How long it may take to exit by itself before it is killed.
        """
        self._pipe.close()
        self._process.join(seconds)
        if self._process.is_alive():
            if self._output is not None and hasattr(os, "killpg"):
                with contextlib.suppress(OSError):  # with all that it has started
                    os.killpg(self._process.pid or 0, signal.SIGKILL)
            self._process.kill()
        self._process.join()
        output, self._output = self._output, None
        if output is None:
            return ""
        printed = output.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        output.unlink()
        return printed


class Workers:
    """Calls functions side by side, each in a process of its own, and collects their results.

    Used as a block: when it is left early, by an error or Ctrl-C, the processes are asked to stop,
    have a minute to do so in good order, and are then killed.

    Args:
        count: How many processes share the machine's cores; each takes its part of the threads.

    Example:
        >>> with Workers(1) as workers:
        ...     workers.start("a", max, 3, 7)
        ...     dict(workers.results())
        {'a': 7}
    """

    def __init__(self, count: int) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // count)
        self._running: dict[str, Worker] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        for worker in self._running.values():
            worker.interrupt()
        limit = time.monotonic() + _SECONDS_TO_END
        for worker in self._running.values():
            worker.end(max(0.0, limit - time.monotonic()))
        self._running = {}

    @property
    def running(self) -> int:
        """How many calls have not ended yet."""
        return len(self._running)

    def start(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a call, as `Worker.call` does.

        Args:
            name: What `results` calls it.
            function: Of a module, not a local one.
            *arguments: Its arguments.
        """
        self._running[name] = Worker(threads=self._threads)
        self._running[name].call(function, *arguments)

    def results(self, idle: Callable[[], None] | None = None) -> Iterator[tuple[str, Any]]:
        """Yield name and result of each call as it ends, until none is left.

        Args:
            idle: Called now and then while waiting.

        Raises:
            DhilgtError: With the message of a call that failed.
        """
        while self._running:
            for name, worker in list(self._running.items()):
                try:
                    message = worker.answer(0)
                except EOFError:
                    del self._running[name]
                    worker.end(_SECONDS_TO_END)
                    raise DhilgtError(
                        f"{name}: a process ended with exit code {worker.exit_code}"
                    ) from None
                if message is not None:
                    del self._running[name]
                    worker.end(_SECONDS_TO_END)
                    yield name, _result(name, *message)
            if idle is not None:
                idle()
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _result(name: str, kind: str, value: Any) -> Any:
    if kind == STOPPED:
        raise KeyboardInterrupt(value)
    if kind == ERROR:
        raise DhilgtError(f"{name}: {value}")
    return value


def orphaned(parent: int) -> bool:
    """Return whether the process that started this one has ended.

    Args:
        parent: Its number, asked for at the start.
    """
    return os.getppid() != parent


# ---- in the worker's process -------------------------------------------------------------------

_to_parent: Any = None


def notify(value: Any) -> None:
    """Send a value to the process that waits for the call under way; ignored outside a worker."""
    if _to_parent is not None:
        with contextlib.suppress(OSError):
            _to_parent.send((NOTE, value))


def _serve(pipe: Any, threads: int | None, output: Path | None) -> None:
    """Make calls until the pipe ends."""
    global _to_parent
    _to_parent = pipe
    next_call: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]] = pipe.recv
    if output is None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    else:
        calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        next_call = calls.get
        _detach(output)
        threading.Thread(target=_forward, args=(pipe, calls), daemon=True).start()
    if threads is not None:
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(threads)
    with contextlib.suppress(EOFError):
        while True:
            answer = _answer(*next_call())
            with contextlib.suppress(OSError):  # nobody may be listening any more
                pipe.send(answer)
    sys.stdout.flush()


def _detach(output: Path) -> None:
    if hasattr(os, "setsid"):
        os.setsid()
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _forward(pipe: Any, calls: queue.SimpleQueue[Any]) -> None:
    """Pass calls on to the main thread, and exit with the parent."""
    try:
        while True:
            calls.put(pipe.recv())
    except (EOFError, OSError):
        pass
    except Exception:
        traceback.print_exc()
    # Not in good order: nothing is left to do, and tearing a GPU context down takes a while.
    os._exit(1)


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were shown where the work was started
            return DONE, function(*arguments)
    except KeyboardInterrupt as stop:
        return STOPPED, str(stop)
    except DhilgtError as error:
        return ERROR, str(error)
    except Exception as error:
        return ERROR, f"unexpected {type(error).__name__}: {error}"
