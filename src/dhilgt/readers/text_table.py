"""Tables as text: CSV, TSV, semicolons, bars or blanks; plain or gzip."""

import csv
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike

from dhilgt.errors import GraphError, argument
from dhilgt.readers import arrow_text, files
from dhilgt.readers.cells import is_number
from dhilgt.readers.column_names import id_strength
from dhilgt.readers.separators import LINES_TO_SNIFF, find_separator, split_fields
from dhilgt.readers.tables import Table, TextCells

Row = tuple[int, list[str]]  # line number from 1, fields
_SIGNS = ("#", "%")
_BLANKS = " \t"
_REMARK = re.compile(rb"\n[ \t]*[#%]+[ \t]")


@dataclass(frozen=True, eq=False)
class TextTable:
    r"""A table of text whose first row may be a header.

    Attributes:
        source: The file, as messages call it.
        first: Line and fields of the first row.
        rest: The columns below it.
        lines: Lines of the rows below it.
        header: Whether the first row is a header; None if only the ids of a graph can tell.
        separator: Separator of fields; " " for any run of blanks, "" for one column.
        notes: Decisions made so far.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "y.csv"
        >>> _ = file.write_bytes(b"\xef\xbb\xbfid;label\r\n7;red\r\n")
        >>> table = read_text(file)
        >>> table.separator, table.first, [cells.values() for cells in table.rest]
        (';', (1, ['id', 'label']), [['7'], ['red']])
    """

    source: str
    first: Row
    rest: tuple[TextCells, ...]
    lines: Sequence[int]
    header: bool | None
    separator: str
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rest)

    def with_header(self, header: bool) -> Table:
        """Return the table with its first row as header, or as a row."""
        line, fields = self.first
        if not header:
            names = tuple(str(at) for at in range(self.width))
            columns = tuple(
                cells.after(field) for cells, field in zip(self.rest, fields, strict=True)
            )
            lines = [line, *self.lines]
            return Table(self.source, names, columns, lines, named=False, notes=self.notes)
        return Table(self.source, tuple(fields), self.rest, self.lines, notes=self.notes)

    def without_empty_ends(self) -> "TextTable":
        """Return the table without the columns that separators at the end of all lines leave."""
        fields, rest = list(self.first[1]), list(self.rest)
        while len(fields) > 1 and not fields[-1] and not any(rest[-1].values()):
            fields.pop()
            rest.pop()
        return replace(self, first=(self.first[0], fields), rest=tuple(rest))


def read_text(
    path: "str | PathLike[str]", *, comment: str | None = None, arrow: bool = True
) -> TextTable:
    """Return the table of a text file.

    Args:
        path: The file.
        comment: Lines that begin with this text are skipped; none are if it is "". By default
            lines that begin with # or % are skipped before the first row.
        arrow: Use PyArrow where it is installed; the result is the same.
    """
    file = files.check_file(path)
    with files.opened(file, False) as stream:
        content = _without_mark(str(file), stream.read())
    with _long_fields():
        table = _table(_Text(str(file), content, comment), arrow).without_empty_ends()
    if comment is None and _REMARK.search(content):
        _refuse_remarks(table)
    return table


def _refuse_remarks(table: TextTable) -> None:
    """Raise for a row that reads like a comment: a sign, a blank, and words."""
    for row, cell in enumerate(table.rest[0].values()):
        if cell[:1] in _SIGNS and _REMARK.match(f"\n{cell}".encode()):
            raise GraphError(
                f"{table.source}, line {table.lines[row]}: {_short(cell)!r} is a comment or an id; "
                f"pass {argument('comment', cell[0])} to skip such lines, or "
                f"{argument('comment', '')} to read them"
            )


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."


def _without_mark(source: str, content: bytes) -> bytes:
    head = content[: content.find(b"\n") + 1] or content
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GraphError(f"{source} is UTF-16 text; save it as UTF-8")
    if b"\0" in head:
        raise GraphError(
            f"{source} is binary, not text; known are CSV, TSV and Parquet, plain or .gz"
        )
    returns = b"\r" in content and b'"' not in content  # within quotes any sign may be text
    if returns and b"\r" in content.rstrip(b"\r").replace(b"\r\n", b""):
        raise GraphError(f"{source} ends lines with CR alone; save it with LF or CRLF")
    return content.removeprefix(b"\xef\xbb\xbf")


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let the csv module read cells of more than 131,072 characters."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _table(text: "_Text", use_arrow: bool) -> TextTable:
    rows = text.rows()
    notes = list(text.notes)
    header = None
    first: Row | None
    if text.header is not None:
        first, header = (text.header_line, text.header), True
        notes.append(f"{text.source}: the header is line {text.header_line}, behind its sign")
    else:
        first = next(rows, None)
    if first is None:
        raise GraphError(f"{text.source} holds only blank lines and comments; check the file")
    second = next(rows, None)
    if second is not None and len(second[1]) == len(first[1]) + 1 and _are_words(first[1]):
        first, header = (first[0], ["", *first[1]]), True  # the row names of R have no heading
    below = [] if second is None else [second]
    width = len(first[1])
    comma = text.separator not in (",", "")
    if use_arrow and second is not None and text.separator not in (" ", "") and not text.filtered:
        start = text.start_of_line(second[0])
        arrays = arrow_text.read_cells(text.content[start:], text.separator, width)
        if arrays is not None:
            lines = range(second[0], second[0] + len(arrays[0]))
            cells = tuple(TextCells([], array, comma) for array in arrays)
            return TextTable(text.source, first, cells, lines, header, text.separator, tuple(notes))
    numbers, columns = _columns(text.source, first, itertools.chain(below, rows))
    cells = tuple(TextCells(column, None, comma) for column in columns)
    return TextTable(text.source, first, cells, numbers, header, text.separator, tuple(notes))


def _columns(source: str, first: Row, rows: Iterator[Row]) -> tuple[list[int], list[Sequence[str]]]:
    """Return the lines and the columns of rows; raise if rows differ in length."""
    width = len(first[1])
    lines: list[int] = []
    kept: list[list[str]] = []
    for line, fields in rows:
        if len(fields) != width:
            raise GraphError(
                f"{source}, line {line} has {len(fields)} fields, line {first[0]} has {width}; "
                "give every line the same columns, and put quotes around a field that holds the "
                "separator"
            )
        lines.append(line)
        kept.append(fields)
    return lines, list(zip(*kept, strict=True)) if kept else [[] for _ in range(width)]


def _skipped(source: str, count: int, where: str, sign: str) -> str:
    if count == 1:
        return f"{source}: 1 line{where} begins with {sign} and was skipped"
    return f"{source}: {count:,} lines{where} begin with {sign} and were skipped"


def _are_words(fields: list[str]) -> bool:
    return not any(is_number(field) for field in fields)


# ---- rows --------------------------------------------------------------------------------------


class _Text:
    """The lines of a file: comments before the first row taken off, and the separator found.

    Attributes:
        source: The file, as messages call it.
        content: Its bytes.
        separator: Separator of fields.
        filtered: Whether lines within the rows are comments.
        header: Names in the last line before the rows, where that line is a header behind a sign.
        header_line: Number of that line.
        notes: What was skipped.
    """

    def __init__(self, source: str, content: bytes, comment: str | None) -> None:
        end = content.find(b"\n", len(content.rstrip(b" \t\r\n")))
        self.source, self._comment = source, comment
        self.content = (content if end < 0 else content[:end]) + b"\n"
        self.filtered = bool(comment)
        self.header: list[str] | None = None
        self.header_line = 0
        self.notes: list[str] = []
        self._skip = 0  # lines before the first row
        lines = self._first_lines()
        self.separator = find_separator(lines, one_column=True) if lines else ""
        if comment is None:
            self._find_comments()
        elif comment:
            count = sum(self._is_comment(line) for line in self.content.split(b"\n"))
            if count:
                self.notes.append(_skipped(source, count, "", comment))

    def start_of_line(self, number: int) -> int:
        """Return where a line begins, in bytes."""
        at = 0
        for _ in range(number - 1):
            at = self.content.index(b"\n", at) + 1
        return at

    def _is_comment(self, line: bytes) -> bool:
        return bool(self._comment) and line.lstrip().startswith(str(self._comment).encode())

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise GraphError(
                f"{self.source}, line {number} is not UTF-8; save the file as UTF-8"
            ) from error

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and text of each line that is no comment, with its end."""
        start, number = 0, 0
        while start < len(self.content):
            end = self.content.index(b"\n", start) + 1
            number += 1
            line = self.content[start:end]
            if number > self._skip and not self._is_comment(line):
                yield number, self._decoded(line, number)
            start = end

    def _first_lines(self) -> list[str]:
        """Return the first lines of rows, those within quotes joined, for the separator."""
        joined: list[str] = []
        rows: list[str] = []
        signed: list[str] = []
        for _, text in self._lines():
            joined.append(text.rstrip("\r\n"))
            line = "\n".join(joined)
            if line.count('"') % 2 and len(joined) < 1000:
                continue
            joined = []
            if not line.strip():
                continue
            skip = self._comment is None and line.lstrip().startswith(_SIGNS) and not rows
            (signed if skip else rows).append(line)
            if len(rows) == LINES_TO_SNIFF:
                break
        if joined:
            rows.append("\n".join(joined))
        return rows or [line for line in signed if len(signed) > 1]

    # ---- comments ------------------------------------------------------------------------------

    def _find_comments(self) -> None:
        """Take off the lines before the first row that begin with # or %, unless they are rows."""
        before: list[tuple[int, str]] = []
        row: str | None = None
        later = False
        for number, text in self._lines():
            line = text.strip()
            if row is None and line.startswith(_SIGNS):
                before.append((number, line))
            elif row is None and line:
                row = line
            elif row is not None and line.startswith(_SIGNS):
                later = True
                break
            if row is not None and not before:
                return
        width = 0 if row is None else len(split_fields(row, self.separator))
        alike = self._as_wide(before, width)
        if row is None or later:  # ids begin with a sign
            if row is None and not alike:
                self._skip = before[-1][0] if before else 0
                return
            self._skip_before(before[: len(before) - len(alike)])
            return
        if len(alike) == 1 and alike[0] == before[-1]:
            number, line = before[-1]
            names = [name.strip(_BLANKS) for name in split_fields(line[1:], self.separator)]
            if width > 1 and self._is_header(names, row):
                self.header, self.header_line = names, number
                self._skip_before(before[:-1])
                self._skip = number
                return
        if alike:
            number, line = alike[0]
            raise GraphError(
                f"{self.source}, line {number}: {_short(line)!r} is a comment or a row; pass "
                f"{argument('comment', line[0])} to skip such lines, or "
                f"{argument('comment', '')} to read them"
            )
        self._skip_before(before)

    def _as_wide(self, before: list[tuple[int, str]], width: int) -> list[tuple[int, str]]:
        """Return the last lines in front of the rows that have as many fields as these."""
        alike: list[tuple[int, str]] = []
        for number, line in reversed(before):
            fields = split_fields(line, self.separator)
            if len(fields) < 2 or (width and len(fields) != width):
                break
            if self.separator == " " and not is_number(fields[-1]):
                break  # words of a sentence
            width = len(fields)
            alike.insert(0, (number, line))
        return alike

    def _is_header(self, names: list[str], row: str) -> bool:
        if not all(names) or len(set(names)) < len(names) or not _are_words(names):
            return False
        below = split_fields(row, self.separator)
        return any(map(is_number, below)) or id_strength(names[0]) > 0

    def _skip_before(self, skipped: list[tuple[int, str]]) -> None:
        if skipped:
            self._skip = skipped[-1][0]
            signs = " or ".join(sorted({line[0] for _, line in skipped}))
            self.notes.append(_skipped(self.source, len(skipped), " before the first row", signs))

    # ---- fields --------------------------------------------------------------------------------

    def rows(self) -> Iterator[Row]:
        """Yield line number and fields of the rows that are not empty."""
        rows = self._separated() if self.separator not in ("", " ") else self._by_line()
        return ((line, fields) for line, fields in rows if any(fields))

    def _by_line(self) -> Iterator[Row]:
        for number, text in self._lines():
            if text.strip():
                yield number, split_fields(text.rstrip("\r\n"), self.separator)

    def _separated(self) -> Iterator[Row]:
        number = 0

        def lines() -> Iterator[str]:
            nonlocal number
            for at, text in self._lines():
                number = at
                yield text

        reader = csv.reader(lines(), delimiter=self.separator, skipinitialspace=True, strict=True)
        begin = self._skip + 1
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise GraphError(self._quote_fault(str(error), begin, number)) from error
            yield number - self._inner_lines(fields), [field.strip(_BLANKS) for field in fields]
            begin = number + 1

    @staticmethod
    def _inner_lines(fields: list[str]) -> int:
        return sum(field.count("\n") for field in fields)

    def _quote_fault(self, error: str, begin: int, end: int) -> str:
        if "unexpected end" in error:
            return (
                f"{self.source}, line {begin} has a quote that is not closed; close it, or double "
                "a quote that is part of a field"
            )
        if "new-line" in error:
            return f"{self.source}, line {end} has a CR within the line; save it with LF or CRLF"
        return (
            f"{self.source}, line {end} has text behind a closing quote; put the quotes around "
            'the whole field, and double a quote within it: "5"" pipe"'
        )
