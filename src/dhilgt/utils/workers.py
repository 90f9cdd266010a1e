"""Several processes at work side by side, ended together and never left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from dhilgt.errors import DhilgtError

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_END = 60.0


class Workers:
    """Starts functions in processes of their own and gives what they return.

    Used as a block: when it is left early, by an error or Ctrl-C, the processes are asked to end,
    given a minute to do so in good order, and then ended.

    Args:
        count: How many processes share the machine's cores; each takes its part of the threads.

    Example:
        >>> with Workers(1) as workers:
        ...     workers.start("a", max, 3, 7)
        ...     dict(workers.results())
        {'a': 7}
    """

    def __init__(self, count: int) -> None:
        self._count = count
        # Not forked: a fork inherits locks of threads that it does not have.
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[str, tuple[Any, Any]] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        for process, _ in self._running.values():
            if process.is_alive():
                process.terminate()
        limit = time.monotonic() + _SECONDS_TO_END
        for process, _ in self._running.values():
            process.join(max(0.0, limit - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._running = {}

    @property
    def running(self) -> int:
        """How many have not ended yet."""
        return len(self._running)

    def start(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Starts a function; it and its arguments travel by pickle.

        Args:
            name: What `results` calls it.
            function: Of a module, not a local one.
            *arguments: Its arguments.
        """
        ours, theirs = self._context.Pipe(duplex=False)
        threads = max(1, (os.cpu_count() or 1) // self._count)
        process = self._context.Process(
            target=_run, args=(theirs, threads, function, arguments), daemon=True
        )
        process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._running[name] = (process, ours)

    def results(self, idle: Callable[[], None] | None = None) -> Iterator[tuple[str, Any]]:
        """Gives name and result of each process as it ends, until none is left.

        Args:
            idle: Called now and then while waiting.

        Raises:
            DhilgtError: With the message of a process that failed.
        """
        while self._running:
            for name in list(self._running):
                process, pipe = self._running[name]
                if pipe.poll() or not process.is_alive():
                    yield name, self._result(name)
            if idle is not None:
                idle()
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _result(self, name: str) -> Any:
        process, pipe = self._running[name]
        try:
            how, value = pipe.recv()
        except EOFError:
            process.join()
            how, value = "error", f"a process ended with exit code {process.exitcode}"
        process.join()
        pipe.close()
        del self._running[name]
        if how == "stopped":
            raise KeyboardInterrupt(value)
        if how == "error":
            raise DhilgtError(f"{name}: {value}")
        return value


def orphaned(parent: int) -> bool:
    """Says whether the process that started this one is gone.

    Args:
        parent: Its number, asked for at the start.
    """
    return os.getppid() != parent


def _run(pipe: Any, threads: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The life of a process: the function, and its result or error into the pipe."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(threads)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were shown where the work was started
            answer = ("done", function(*arguments))
    except KeyboardInterrupt as stop:
        answer = ("stopped", str(stop))
    except DhilgtError as error:
        answer = ("error", error.quotable)
    except Exception as error:
        answer = ("error", f"unexpected {type(error).__name__}: {error}")
    with contextlib.suppress(OSError):  # nobody may be listening any more
        pipe.send(answer)
    pipe.close()
    sys.stdout.flush()
