"""Tables as lines of text: CSV, TSV, semicolons or blanks; plain or gzip; row by row."""

import csv
import itertools
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from dhilgt.errors import GraphError
from dhilgt.readers import files

_SEPARATORS = ("\t", ";", ",")  # a comma may be a decimal one, so it is tried last
_LINES_TO_LOOK_AT = 20

Row = tuple[int, list[str]]


class TextTable:
    r"""The rows of a text file, read as they are asked for.

    Blank lines and those that begin with # or % are passed over.

    Attributes:
        file: The file.
        separator: What stands between fields; " " for any run of blanks, "" for one column.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "y.csv"
        >>> _ = file.write_bytes(b"\xef\xbb\xbfid;label\r\n7;red\r\n")
        >>> table = TextTable(file)
        >>> table.separator, list(table)
        (';', [(1, ['id', 'label']), (2, ['7', 'red'])])
    """

    def __init__(self, path: "str | PathLike[str]") -> None:
        self.file: Path = files.check_file(path)
        lines = [text for _, text in itertools.islice(self._lines(), _LINES_TO_LOOK_AT)]
        if not lines:
            raise GraphError(f"{self.file} holds only blank lines and comments; check the file")
        self.separator = _separator(lines)

    def __iter__(self) -> Iterator[Row]:
        """Gives line number (from 1) and fields; a row of another length is refused."""
        width, first = 0, 0
        for number, text in self._lines():
            fields = self._split(text, number)
            if not width:
                width, first = len(fields), number
            elif len(fields) != width:
                raise GraphError(
                    f"{self.file}, line {number} has {len(fields)} fields, line {first} has "
                    f"{width}; give every line the same columns, and put quotes around a field "
                    "that holds the separator"
                )
            yield number, fields

    def _split(self, text: str, number: int) -> list[str]:
        if not self.separator:
            return [text.strip().strip('"')]
        if self.separator == " ":
            return text.split()
        try:
            found = next(csv.reader([text], delimiter=self.separator, skipinitialspace=True))
        except csv.Error as error:
            raise GraphError(f"{self.file}, line {number}: {error}; correct the line") from error
        return [field.strip() for field in found]

    def _lines(self) -> Iterator[tuple[int, str]]:
        with files.opened(self.file, False) as stream:
            for number, raw in enumerate(stream, start=1):
                if number == 1:
                    raw = self._without_mark(raw)
                try:
                    text = raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise GraphError(
                        f"{self.file}, line {number} is not UTF-8; save the file as UTF-8"
                    ) from error
                stripped = text.strip()
                if stripped and stripped[0] not in "#%":
                    yield number, text

    def _without_mark(self, head: bytes) -> bytes:
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise GraphError(f"{self.file} is UTF-16 text; save it as UTF-8")
        if b"\0" in head:
            raise GraphError(
                f"{self.file} is binary, not text; known are CSV, TSV and Parquet, plain or .gz"
            )
        if b"\r" in head.rstrip(b"\r\n"):
            raise GraphError(f"{self.file} ends its lines with CR alone; save it with LF or CRLF")
        return head.removeprefix(b"\xef\xbb\xbf")


def _separator(lines: list[str]) -> str:
    def widths(separator: str) -> list[int]:
        # A line whose quotes do not match is reported when its turn comes.
        read = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        return [len(row) for row in read if row]

    for separator in _SEPARATORS:
        found = set(widths(separator))
        if len(found) == 1 and found.pop() > 1:
            return separator
    words = [line.split() for line in lines]
    numbers = all(is_number(row[0]) or is_number(row[-1]) for row in words[1:] or words)
    if len({len(row) for row in words}) == 1 and len(words[0]) > 1 and numbers:
        return " "
    # One damaged line must not hide what the others use: it is the one to be reported.
    used = {s: sum(width > 1 for width in widths(s)) for s in _SEPARATORS}
    best = max(used, key=used.__getitem__)
    return best if 2 * used[best] > len(lines) else ""


def is_number(text: str) -> bool:
    """Says whether a field is a number, with a decimal point or comma.

    Example:
        >>> [is_number(text) for text in ("-1.5e3", "0,5", "nan", "x", "")]
        [True, True, True, False, False]
    """
    try:
        as_number(text)
    except ValueError:
        return False
    return True


def as_number(text: str) -> float:
    """Gives the number that a field holds, with a decimal point or comma."""
    return float(text.replace(",", ".", 1))
