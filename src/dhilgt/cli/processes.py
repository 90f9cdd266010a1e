"""Commands in several processes, as torchrun starts them: one speaks and writes for all."""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_SECONDS_FOR_MAIN = 5.0
_heard: TextIO | None = None  # standard error of a process that is hushed


def several() -> bool:
    """Says whether this is one of several processes."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def is_main() -> bool:
    """Says whether this process speaks and writes; asked without importing PyTorch."""
    return not several() or os.environ.get("RANK", "0") == "0"


def hush() -> None:
    """Has all that this process prints go nowhere, except what goes to `error_stream`."""
    global _heard
    _heard = sys.stderr
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def main_spoke() -> bool:
    """Lets the main process end first, and says whether it did; at once where this is the main.

    torchrun stops all processes when one has ended: the one whose message counts must not be
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
    """Gives the stream for errors, which are seen whichever process has them."""
    return _heard or sys.stderr


def who() -> str:
    """Gives the words before an error: which of the processes had it, where that is not the main.

    Example:
        >>> who()
        'dhilgt'
    """
    return "dhilgt" if is_main() else f"dhilgt (process {os.environ.get('RANK')})"


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """Has all processes fail if the block fails in one; alone it does nothing."""
    if not several():
        yield
        return
    # PyTorch takes a second to import: one process does without it here.
    from dhilgt.training.distributed import Group

    with Group().agreed():
        yield


def launched(command: str) -> str:
    """Gives a command as it is to be started again, with torchrun before it where that was used.

    Args:
        command: A line that begins with "dhilgt".

    Example:
        >>> launched("dhilgt train --resume -o runs/mine")
        'dhilgt train --resume -o runs/mine'
    """
    if not several():
        return command
    local = shlex.quote(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    # How several machines find each other is not known here.
    how = "..." if local != os.environ["WORLD_SIZE"] else f"--nproc-per-node {local}"
    return f"torchrun {how} -m {command}"
