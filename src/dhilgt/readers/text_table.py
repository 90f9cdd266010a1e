"""Tables as lines of text: CSV, TSV, semicolons or blanks; plain or gzip; row by row."""

import itertools
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from dhilgt.errors import GraphError
from dhilgt.readers import files
from dhilgt.readers.separators import LINES_TO_SNIFF, find_separator, split_fields

Row = tuple[int, list[str]]  # line number from 1, fields


class TextTable:
    r"""The rows of a text file, read as they are iterated over.

    Blank lines and those that begin with # or % are skipped.

    Attributes:
        file: The file.
        separator: Separator of fields; " " for any run of blanks, "" for one column.

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
        lines = [text for _, text in itertools.islice(self._lines(), LINES_TO_SNIFF)]
        if not lines:
            raise GraphError(f"{self.file} holds only blank lines and comments; check the file")
        self.separator = find_separator(lines, one_column=True)

    def __iter__(self) -> Iterator[Row]:
        """Yield the line number and fields of each row; raise if rows differ in length."""
        width, first = 0, 0
        for number, text in self._lines():
            fields = split_fields(text, self.separator)
            if not width:
                width, first = len(fields), number
            elif len(fields) != width:
                raise GraphError(
                    f"{self.file}, line {number} has {len(fields)} fields, line {first} has "
                    f"{width}; give every line the same columns, and put quotes around a field "
                    "that holds the separator"
                )
            yield number, fields

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
