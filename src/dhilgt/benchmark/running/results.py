"""A results file: one record per line, appended and on the disk before the next cell starts."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from typing import Self

from dhilgt.benchmark.record import Record, checked_line
from dhilgt.errors import ArtifactError, argument
from dhilgt.store import files
from dhilgt.store.files import explained, write_all
from dhilgt.store.target import BuildLock


class Results:
    """A file of records that can be added to while it is open.

    A record is on the disk before `add` returns. An incomplete last line, left by a killed run, is
    cut off.

    Args:
        path: The file.

    Example:
        >>> import tempfile
        >>> from dhilgt.benchmark.running.data import about
        >>> from dhilgt.benchmark.running.grid import Cell
        >>> path = Path(tempfile.mkdtemp()) / "results.jsonl"
        >>> with Results(path).open(resume=False) as results:
        ...     results.add(Record.of(Cell("gcn", "cora", 0), about("cora"), None))
        >>> [record.cell.system for record in Results(path).lines()]
        ['gcn']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: BuildLock | None = None
        self._descriptor = -1

    def open(self, *, resume: bool) -> Self:
        """Open the file for writing and lock it.

        Args:
            resume: Keep the records that it has; otherwise it must not hold any.

        Raises:
            ArtifactError: If it holds results and was not to be resumed, holds something else,
                cannot be written, or is written by another process.
        """
        if self.path.is_dir():
            raise ArtifactError(f"{self.path} is a folder; name a file in it")
        with explained("write", self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = BuildLock(self.path)
            try:
                content = self.path.read_bytes() if self.path.exists() else b""
                if content and not resume:
                    raise ArtifactError(
                        f"{self.path} holds results; pass {argument('resume', True)} to go on "
                        "with them, or "
                        "choose another file"
                    )
                self.lines()  # refuse a file of another kind before changing it
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = files.ops.open(self.path, flags)
                complete = content.rfind(b"\n") + 1
                if complete < len(content):
                    files.ops.truncate(self._descriptor, complete)
            except BaseException:
                self.close()
                raise
        return self

    def add(self, record: Record) -> None:
        """Append a record."""
        with explained("write", self.path):
            write_all(self._descriptor, record.line() + b"\n")
            files.ops.fsync(self._descriptor)

    def close(self) -> None:
        """Close and unlock the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def lines(self) -> list[Record]:
        """Return the records of complete lines, the last of each cell, in the order of the file.

        Raises:
            ArtifactError: If the file cannot be read, or a line is no record or was changed.
        """
        return list(self.by_key().values())

    def by_key(self) -> dict[str, Record]:
        """Return what `lines` does, by the keys of the cells."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ArtifactError(f"{self.path} cannot be read ({error.strerror})") from error
        *complete, _ = data.split(b"\n")  # after the last line end: nothing, or an incomplete line
        records: dict[str, Record] = {}
        for number, text in enumerate(complete, 1):
            try:
                record = Record.from_json(checked_line(_parsed(text)))
            except ArtifactError as error:
                raise ArtifactError(f"{self.path}, line {number} {error}") from None
            records.pop(record.key, None)  # so that a cell stands where its last line does
            records[record.key] = record
        return records


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
