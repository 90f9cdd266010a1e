"""Commands in several processes, as torchrun starts them: the main one prints and writes."""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from dhilgt.errors import ConfigError
from dhilgt.utils.devices import Process, this_process

_SECONDS_FOR_MAIN = 5.0
_stderr_before: TextIO | None = None  # of a process that `silence` has silenced


def _process() -> Process:
    try:
        return this_process()
    except ConfigError:  # training refuses such numbers; other commands do not need them
        return Process(0, 1, 0)


def several() -> bool:
    """Return whether this is one of several processes."""
    return _process().world_size > 1


def is_main() -> bool:
    """Return whether this process prints and writes, without importing PyTorch."""
    return _process().rank == 0


def silence() -> None:
    """Discard all that this process prints, except what goes to `error_stream`."""
    global _stderr_before
    _stderr_before = sys.stderr
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def main_process_ends_first() -> bool:
    """Wait for the main process to end, and return whether it did; False at once in the main one.

    torchrun stops all processes when one has ended. The process whose message counts must not be
    stopped by the others, which mostly fail for the same reason.
    """
    if is_main():
        return False
    try:
        time.sleep(_SECONDS_FOR_MAIN)
    except KeyboardInterrupt:
        return True
    return False


def error_stream() -> TextIO:
    """Return the stream for errors, which are shown whichever process has them."""
    return _stderr_before or sys.stderr


def error_prefix() -> str:
    """Return the words before an error: the program and, unless it is the main one, the process.

    Example:
        >>> error_prefix()
        'dhilgt'
    """
    return "dhilgt" if is_main() else f"dhilgt (process {_process().rank})"


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """Raise in all processes if the block fails in one; a single process runs it as it is."""
    if not several():
        yield
        return
    # PyTorch takes a second to import: a single process does without it here.
    from dhilgt.training.distributed import Group

    with Group().agreed():
        yield


def launched(command: str) -> str:
    """Return a command as it is to be started again, with torchrun before it where that was used.

    Args:
        command: A line that begins with "dhilgt".

    Example:
        >>> launched("dhilgt train --resume -o runs/mine")
        'dhilgt train --resume -o runs/mine'
    """
    if not several():
        return command
    local = shlex.quote(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    # How several machines reach each other is not known here.
    options = "..." if local != os.environ["WORLD_SIZE"] else f"--nproc-per-node {local}"
    return f"torchrun {options} -m {command}"
