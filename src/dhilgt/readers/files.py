"""Opening of files and pipes, plain or gzip; empty files and web pages are refused."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO, cast

from dhilgt.errors import GraphError
from dhilgt.readers import pipes
from dhilgt.utils.checks import nearest
from dhilgt.utils.progress import progress_of_reading


def check_file(path: "str | PathLike[str]", *, empty: bool = False) -> Path:
    """Return the name of a file; raise if it is missing, empty or a web page.

    Open it with `opened`, or open `pipes.on_disk` of it: the content of a pipe or of standard input
    ("-") is on disk then.

    Args:
        path: The file.
        empty: Whether it may be empty.
    """
    file = pipes.name_of(path)
    if file.is_dir():
        raise GraphError(f"{file} is a folder; pass a file in it")
    if not pipes.on_disk(file).exists():
        near = ""
        if file.parent.is_dir():
            names = [entry.name for entry in file.parent.iterdir()]
            close = nearest(file.name, names)
            near = f"; did you mean {file.parent / close}?" if close else ""
        raise GraphError(f"{file} does not exist; check the path{near}")
    try:
        with pipes.on_disk(file).open("rb") as stream:
            head = stream.read(512)
    except OSError as error:
        raise GraphError(f"{file} cannot be read ({error.strerror}); check its rights") from error
    if not head and not empty:
        raise GraphError(f"{file} is empty; check how it was made or fetch it again")
    if is_web_page(head):
        raise GraphError(
            f"{file} is a web page (HTML), not a file of edges; "
            "the address it came from may need a login or another link"
        )
    return file


def is_web_page(head: bytes) -> bool:
    """Return whether a file begins as HTML, which servers send instead of a missing file.

    Example:
        >>> is_web_page(b"<!DOCTYPE html><title>Not found"), is_web_page(b"1,2")
        (True, False)
    """
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html"))


@contextlib.contextmanager
def gzip_errors(file: Path) -> Iterator[None]:
    """Turn the errors of a damaged gzip file into a `GraphError`."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise GraphError(f"{file} is damaged gzip ({error}); fetch or make it again") from error


@contextlib.contextmanager
def opened(file: Path, progress: bool) -> Iterator[BinaryIO]:
    """Open a file, through gzip if it is compressed; show a progress bar if asked."""
    with contextlib.ExitStack() as stack:
        content = pipes.on_disk(file)
        raw: BinaryIO = stack.enter_context(content.open("rb"))
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if progress:
            title, size = f"reading {file.name}", content.stat().st_size
            raw = stack.enter_context(progress_of_reading(raw, title, size))
        if compressed:
            stack.enter_context(gzip_errors(file))
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw)))
        else:
            yield raw
