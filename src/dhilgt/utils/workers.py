"""Processes that make calls for this one, one after another or side by side.

Calls and results travel by pickle, as in `multiprocessing`, over pipes that only the two processes
hold: what is unpickled was written by this program a moment before, never read from a file.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import spawn
from typing import IO, Any

from dhilgt.errors import DhilgtError

NOTE, DONE, STOPPED, ERROR = "note", "done", "stopped", "error"
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_END = 60.0
_TAIL_BYTES = 1000


class Worker:
    """A process that makes the calls it is sent, one after another.

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
        self._detached = detached
        self._output = tempfile.TemporaryFile() if detached else None  # noqa: SIM115  see `end`
        serve = f"from dhilgt.utils.workers import serve; serve({threads}, {detached})"
        self._process = subprocess.Popen(
            # Not forked: a fork inherits locks of threads that it does not have.
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}; {serve}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            start_new_session=detached,
        )
        self._messages: queue.Queue[tuple[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        # Pickles come from the pipe of the process that was started here, never from a file or the
        # network. One that is incomplete or cannot be read counts as the end of the process.
        with contextlib.suppress(Exception), self._process.stdout as answers:
            while True:
                self._messages.put(pickle.load(answers))
        self._messages.put(None)

    @property
    def exit_code(self) -> int | None:
        """Of the process; negative for a signal, None while it runs."""
        return self._process.poll()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function called; it and its arguments travel by pickle.

        Args:
            function: Of a module, not a local one.
            *arguments: Its arguments.
        """
        assert self._process.stdin is not None
        payload = pickle.dumps((function, arguments))
        # A script is imported in the process only for what it defines itself, and then has to be
        # importable: it starts its work under ``if __name__ == "__main__"``.
        known = spawn.get_preparation_data("worker") if b"__main__" in payload else {}
        script = {name: value for name, value in known.items() if name.startswith("init_main")}
        with contextlib.suppress(OSError):  # a process that has ended: `answer` reports that
            pickle.dump((script, payload), self._process.stdin)
            self._process.stdin.flush()

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
            message = self._messages.get(timeout=seconds) if seconds else self._messages.get(False)
        except queue.Empty:
            return None
        if message is None:
            raise EOFError
        return message

    def interrupt(self) -> None:
        """Ask the process to stop in good order."""
        self._process.terminate()

    def end(self, seconds: float = 0.0) -> str:
        """End the process and return the end of what it printed, if it was detached.

        Args:
            seconds: How long it may take to exit by itself before it is killed.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            if self._detached and hasattr(os, "killpg"):
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)  # and what it has started
            self._process.kill()
            self._process.wait()
        if self._output is None:
            return ""
        with self._output as output:
            self._output = None
            output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return output.read().decode(errors="replace").strip()


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

_to_parent: IO[bytes] | None = None


def notify(value: Any) -> None:
    """Send a value to the process that waits for the call under way; ignored outside a worker."""
    if _to_parent is not None:
        _send((NOTE, value), _to_parent)


def serve(threads: int | None, detached: bool) -> None:
    """Make the calls that come on standard input, until it ends.

    Args:
        threads: Of torch; None for all.
        detached: See `Worker`.
    """
    global _to_parent
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a call prints is no answer
    _to_parent = answers
    receive: Callable[[], Any] = partial(pickle.load, requests)
    if detached:
        forwarded: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_forward, args=(receive, forwarded), daemon=True).start()
        receive = forwarded.get
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if threads is not None:
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(threads)
    with contextlib.suppress(EOFError):
        while True:
            script, payload = receive()
            spawn.prepare(script)
            # From the process that started this one, on its standard input.
            _send(_answer(*pickle.loads(payload)), answers)
    sys.stdout.flush()


def _forward(receive: Callable[[], Any], forwarded: queue.SimpleQueue[Any]) -> None:
    """Pass requests on to the main thread, and exit with the parent."""
    try:
        while True:
            forwarded.put(receive())
    except EOFError:
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
        return ERROR, error.quotable
    except Exception as error:
        return ERROR, f"unexpected {type(error).__name__}: {error}"


def _send(message: tuple[str, Any], stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # nobody may be listening any more
        pickle.dump(message, stream)
        stream.flush()
