"""Inputs that can be read once only: pipes and standard input, kept in temporary files."""

import contextlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from dhilgt.errors import GraphError

STANDARD_INPUT = Path("standard input")
"""The name of standard input in messages; `-` asks for it."""


class _Copies:
    """Copies of pipes on disk by the name of the pipe."""

    def __init__(self) -> None:
        self._files: dict[Path, Path] = {}
        self._stack = contextlib.ExitStack()

    def find(self, name: Path) -> Path | None:
        return self._files.get(name)

    def add(self, name: Path) -> None:
        if not self._files:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory("-dhilgt")))
        copy = self._folder / str(len(self._files))
        try:
            with _stream(name) as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        except OSError as error:
            raise GraphError(
                f"{name} cannot be copied to {self._folder} ({error.strerror or error}); save it "
                "to a file and pass that"
            ) from error
        self._files[name] = copy

    def close(self) -> None:
        self._files.clear()
        self._stack.close()


_copies: ContextVar[_Copies | None] = ContextVar("copies", default=None)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Keep what is read from pipes until the block ends, so that it can be read again.

    A block inside another shares its copies.
    """
    if _copies.get() is not None:
        yield
        return
    copies = _Copies()
    token = _copies.set(copies)
    try:
        yield
    finally:
        _copies.reset(token)
        copies.close()


def is_pipe(path: "str | PathLike[str]") -> bool:
    """Return whether a path is standard input, a pipe, or another stream that ends by itself.

    Example:
        >>> is_pipe("-"), is_pipe("edges.csv")
        (True, False)
    """
    if str(path) == "-":
        return True
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def name_of(path: "str | PathLike[str]") -> Path:
    """Return the name of an input in messages; the content of a pipe is copied to disk.

    Raises:
        GraphError: If the pipe cannot be read, or no block of `kept` is open.
    """
    name = STANDARD_INPUT if str(path) == "-" else Path(path)
    copies = _copies.get()
    if (copies is not None and copies.find(name)) or not is_pipe(path):
        return name
    if copies is None:
        raise GraphError(f"{name} is a pipe; save it to a file and pass that")
    copies.add(name)
    return name


def on_disk(file: Path) -> Path:
    """Return the file to open for an input: the copy of a pipe, or the file itself."""
    copies = _copies.get()
    copy = None if copies is None else copies.find(STANDARD_INPUT if str(file) == "-" else file)
    return file if copy is None else copy


@contextlib.contextmanager
def _stream(name: Path) -> Iterator[BinaryIO]:
    if name != STANDARD_INPUT:
        with name.open("rb") as stream:
            yield stream
        return
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise GraphError(
            "standard input is not connected to a file or a pipe; name a file instead of -, or "
            "write: ... | dhilgt"
        )
    yield sys.stdin.buffer
