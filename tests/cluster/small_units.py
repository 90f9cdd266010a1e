"""Units of the tests: functions of a module, so that workers import them by name."""

import errno
import os
import signal
import time
from pathlib import Path

from dhilgt.cluster.units import Outcome, WrittenFile
from dhilgt.store import files
from dhilgt.store.files import write_file


def write(folder: Path, *, number: int, size: int = 100) -> Outcome:
    """Write a file whose content depends on the number alone."""
    data = bytes([number]) * size
    write_file(folder / f"part-{number}", iter([memoryview(data)]))
    return Outcome((WrittenFile.of(folder, f"part-{number}"),), {"number": number, "pid": (1, 2)})


def copy(folder: Path, *, source: str, number: int) -> Outcome:
    """Write a file from another one."""
    data = (folder / source).read_bytes() + bytes([number])
    write_file(folder / f"copy-{number}", iter([memoryview(data)]))
    return Outcome((WrittenFile.of(folder, f"copy-{number}"),))


def where(folder: Path, *, number: int) -> Outcome:
    """Say which process did it."""
    time.sleep(0.05)
    return Outcome((), {"folder": str(folder), "pid": os.getpid()})


def slow(folder: Path, *, number: int, seconds: float) -> Outcome:
    """Take some time."""
    (folder.parent / f"begun-{number}").touch()
    time.sleep(seconds)
    return write(folder, number=number)


def sleep(seconds: float, mark: Path) -> None:
    """Keep a core busy, and say when that begins."""
    mark.touch()
    time.sleep(seconds)


def fail(folder: Path, *, number: int) -> Outcome:
    """Have a bug."""
    raise ValueError(f"no {number}")


def die(folder: Path, *, number: int, times: int, by_signal: bool = False) -> Outcome:
    """End the process without a word, the first times."""
    marks = folder.parent / "deaths"
    with marks.open("a") as file:
        file.write(f"{number}\n")
    if marks.read_text().split().count(str(number)) <= times:
        if by_signal:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)
    return write(folder, number=number)


class FullDisk(files.FileOps):
    """A disk without space."""

    def write(self, descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def on_full_disk(folder: Path, *, number: int) -> Outcome:
    """Write a file to a full disk."""
    before, files.ops = files.ops, FullDisk()
    try:
        with files.explained("write", folder / "part", 100):
            return write(folder, number=number)
    finally:
        files.ops = before
