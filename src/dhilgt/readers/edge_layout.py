"""The layout of a text of edges: comments before them, separator, header, columns."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dhilgt.errors import GraphError, argument
from dhilgt.readers.cells import is_whole
from dhilgt.readers.end_names import LIKELY, WEAK, end_columns, likeness
from dhilgt.readers.headers import differs, names_likeness
from dhilgt.readers.separators import LINES_TO_SNIFF, SEPARATORS, find_separator, split_fields

SNIFF_BYTES = 1 << 20
_LEADING_SIGNS = "#%"

Columns = tuple[str | int, str | int]


@dataclass(frozen=True, slots=True)
class EdgeTextOptions:
    """How to read lines of edges; None stands for detection."""

    path: Path
    separator: str | None
    header: bool | None
    columns: Columns | None
    ignore_weights: bool
    integers_only: bool
    threads: int
    pairs: bool = False  # lines are pairs of nodes to look up, not edges; for messages
    comment: str | None = None  # lines that begin with it are skipped; "" for no comments at all


@dataclass(frozen=True, slots=True)
class Layout:
    """Separator, columns and start of the lines of edges.

    Attributes:
        separator: Between the columns; " " for any run of blanks.
        columns: Positions of the two ids.
        skip_bytes: Bytes before the first edge.
        skip_lines: Lines before it.
        rows: The fields of the first lines; the first is the header, or the first edge.
        header: Whether the first of `rows` is a header, and skipped; None if only the ids of the
            whole file can tell, and it is not skipped.
        notes: What was decided.
    """

    separator: str
    columns: tuple[int, int]
    skip_bytes: int
    skip_lines: int
    rows: tuple[tuple[str, ...], ...] = ()
    header: bool | None = False
    notes: tuple[str, ...] = ()


class DataLine(NamedTuple):
    """A line that is not blank."""

    number: int  # from 1
    end: int  # in bytes
    text: str

    @property
    def sign(self) -> str:
        """Its first character."""
        return self.text.lstrip(" \t")[0]


def is_marked(line: str) -> bool:
    """Return whether a line begins as comments do."""
    return line.lstrip(" \t")[:1] in tuple(_LEADING_SIGNS)


def is_remark(line: str) -> bool:
    """Return whether a line begins with a sign that stands apart, as those of ids do not.

    Example:
        >>> is_remark("# friends"), is_remark("#cats,#dogs")
        (True, False)
    """
    text = line.lstrip(" \t")
    return is_marked(text) and text[1:2] in ("", " ", "\t", text[0])


def find_layout(stream: BinaryIO, options: EdgeTextOptions) -> Layout:
    """Return the layout of a text of edges.

    Raises:
        GraphError: If it holds none, or could be read in two ways.
    """
    _check_comment(options)
    head = _read_head(stream, options)
    skip = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    uncommented = (line for line in nonblank_lines(head, skip) if line.sign != options.comment)
    lines = list(itertools.islice(uncommented, LINES_TO_SNIFF))
    if lines and is_marked(lines[0].text):  # more lines tell whether ids have such signs
        lines += uncommented
    leading, lines, separator = _without_leading_comments(lines, options)
    if not lines:
        raise GraphError(f"{options.path} holds no edges; one edge per line is expected")
    lines = lines[:LINES_TO_SNIFF]
    start = leading[-1] if leading else DataLine(0, skip, "")
    notes = [_leading_note(leading, options)] if leading else []
    if separator is None:
        separator = find_separator([line.text for line in lines], one_column=False)
    if separator not in SEPARATORS:
        raise GraphError(
            f"{argument('separator', separator)}; pass ',' or ';' or '|' or a tab or ' ' (any run "
            "of blanks)"
        )
    rows = tuple(tuple(split_fields(line.text, separator)) for line in lines)
    columns, header = _columns_and_header(rows, options)
    if header:
        notes += _column_notes(rows[0], columns, options)
        start = lines[0]
    return Layout(separator, columns, start.end, start.number, rows, header, tuple(notes))


def is_empty(stream: BinaryIO) -> bool:
    """Return whether a text holds blank lines and comments at most."""
    stream.seek(0)
    head = stream.read(SNIFF_BYTES)
    lines = nonblank_lines(head.removeprefix(b"\xef\xbb\xbf"), 0)
    return len(head) < SNIFF_BYTES and all(is_remark(line.text) for line in lines)


def _check_comment(options: EdgeTextOptions) -> None:
    comment = options.comment
    if comment is None or comment == "":
        return
    if len(comment.encode()) != 1 or comment.isalnum() or comment in ' \t"+-' or ord(comment) < 32:
        raise GraphError(
            f"{argument('comment', comment)}; pass one sign like '#', or '' for no comments"
        )


def _read_head(stream: BinaryIO, options: EdgeTextOptions) -> bytes:
    stream.seek(0)
    head = stream.read(SNIFF_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GraphError(f"{options.path} is UTF-16 text; save it as UTF-8")
    if b"\0" in head:
        raise GraphError(
            f"{options.path} is binary, not text; known formats are text, Parquet, NPZ and "
            "MatrixMarket, plain or .gz"
        )
    if b"\n" not in head and b"\r" in head[:-1]:
        raise GraphError(f"{options.path} ends its lines with CR alone; save it with LF or CRLF")
    # Comments before the edges may be long.
    while not _has_edges(head, options) and (more := stream.read(len(head))):
        head += more
    return head


def _has_edges(head: bytes, options: EdgeTextOptions) -> bool:
    signs = (options.comment or "") + _LEADING_SIGNS
    return any(line.sign not in signs for line in nonblank_lines(head, 0))


def nonblank_lines(head: bytes, skip: int) -> Iterator[DataLine]:
    """Yield the lines after the first ``skip`` bytes that are not blank."""
    end = skip
    number = 0
    while end < len(head):
        stop = head.find(b"\n", end)
        line, end = (
            head[end : stop if stop >= 0 else len(head)],
            stop + 1 if stop >= 0 else len(head),
        )
        number += 1
        text = line.decode("utf-8", errors="replace").strip("\r\n")
        if text.strip(" \t"):
            yield DataLine(number, end, text)


# ---- comments before the edges -----------------------------------------------------------------


def _without_leading_comments(
    lines: list[DataLine], options: EdgeTextOptions
) -> tuple[list[DataLine], list[DataLine], str | None]:
    """Return the comments before the first edge, the other lines, and the separator if known.

    A sign before the first edge begins a comment unless the ids of the file have such signs.
    """
    if options.comment == "":
        return [], lines, options.separator
    count = next((at for at, line in enumerate(lines) if not is_marked(line.text)), len(lines))
    marked, rest = lines[:count], lines[count:]
    if not marked:
        return [], lines, options.separator
    sample = rest[:LINES_TO_SNIFF] or [line for line in marked if not is_remark(line.text)]
    if not sample:
        return marked, [], options.separator
    separator = options.separator
    if separator is None:
        separator = find_separator([line.text for line in sample], one_column=False)
    rows = [split_fields(line.text, separator) for line in sample]
    # Those that may be edges: "#cats,#dogs" above "#dogs,#birds".
    candidates = [
        at for at, line in enumerate(marked)
        if not is_remark(line.text) and len(split_fields(line.text, separator)) == len(rows[0]) > 1
    ]  # fmt: skip
    if not candidates or any(all(map(is_integer, row[:2])) for row in rows):
        return marked, rest, separator
    first = candidates[0]
    fields = [split_fields(marked[at].text, separator) for at in candidates]
    elsewhere = [field for row in fields for field in row[1:]]
    ids = {field for row in rows for field in row} if rest else set()
    signs_in_ids = any(field[:1] == marked[first].sign for field in (*elsewhere, *ids))
    if signs_in_ids or any(is_marked(line.text) and not is_remark(line.text) for line in rest):
        return marked[:first], marked[first:] + rest, separator
    names = [field.lstrip(_LEADING_SIGNS) for field in fields[0][:2]]
    is_header = likeness(*names) >= WEAK and not ids & set(elsewhere)
    if rest and candidates == [count - 1] and is_header:
        return marked, rest, separator
    unclear = marked[first]
    raise GraphError(
        f"{options.path}, line {unclear.number}: {unclear.text!r} may be a comment or an edge; "
        f"pass {argument('comment', unclear.sign)} to skip such lines, or "
        f"{argument('comment', '')} to read them as edges"
    )


def _leading_note(leading: list[DataLine], options: EdgeTextOptions) -> str:
    signs = " or ".join(sorted({line.sign for line in leading}))
    count = f"{len(leading):,} lines" if len(leading) > 1 else "1 line"
    begins = "begin" if len(leading) > 1 else "begins"
    return f"{options.path}: skipped {count} before the first edge that {begins} with {signs}"


# ---- header and columns ------------------------------------------------------------------------


def is_integer(text: str) -> bool:
    """Return whether a field is an integer."""
    return text.lstrip("+-").isascii() and text.lstrip("+-").isdigit()


def _columns_and_header(
    rows: Sequence[Sequence[str]], options: EdgeTextOptions
) -> tuple[tuple[int, int], bool | None]:
    """Return the positions of the ids, and whether the first row is a header (None: unknown)."""
    names = rows[0]
    if options.header or any(isinstance(column, str) for column in options.columns or ()):
        if options.header is False:
            raise GraphError(
                f"{options.path} is read without a header, so its columns have no names; pass "
                f"their positions, or {argument('header', True)}"
            )
        return _named_columns(rows, options), True
    positions = (0, 1)
    if options.columns is not None:
        positions = int(options.columns[0]), int(options.columns[1])
    if options.header is False:
        return positions, False
    guessed = positions
    if options.columns is None and len(names) > 2:
        guessed = end_columns(names) or positions
    header = _is_header(rows, guessed, options)
    if header is None and options.columns is None and len(names) > 2:
        # The columns to read are those that the header names, so it is decided without the rest.
        header = _is_plain_header(rows, guessed)
        if not header and not options.ignore_weights and likeness(*_ends(names, guessed)) > WEAK:
            _refuse_more_columns(names, guessed, options)
    if not header:
        return positions, header
    return _named_columns(rows, options), True


def _is_header(
    rows: Sequence[Sequence[str]], ends: tuple[int, int], options: EdgeTextOptions
) -> bool | None:
    if len(rows[0]) <= max(ends) or any(_is_numeric(field) for field in _ends(rows[0], ends)):
        return False  # one number beside one word is a damaged line rather than a header
    if len(rows) > 1 and len(rows[1]) > max(ends):
        if all(_is_numeric(field) for field in _ends(rows[1], ends)):
            return True
    elif options.integers_only:
        return names_likeness(rows, ends) >= WEAK
    return None


def _is_plain_header(rows: Sequence[Sequence[str]], ends: tuple[int, int]) -> bool | None:
    looks = names_likeness(rows, ends)
    others = {field for row in rows[1:] for field in row}
    if others.isdisjoint(_ends(rows[0], ends)) and (
        looks >= LIKELY or differs(rows, ends, sure=False)
    ):
        return True
    return None


def _is_numeric(field: str) -> bool:
    return is_integer(field) or is_whole(field)


def _ends(row: Sequence[str], ends: tuple[int, int]) -> tuple[str, str]:
    return row[ends[0]], row[ends[1]]


def _named_columns(rows: Sequence[Sequence[str]], options: EdgeTextOptions) -> tuple[int, int]:
    """Return the positions of the ids below a header."""
    names = rows[0]
    if options.columns is not None:
        return column_positions(options.columns, names, options.path)
    used = len(names)
    while used > 2 and not any(row[used - 1] for row in rows if len(row) >= used):
        used -= 1  # separators at the ends of lines
    if used <= 2:
        return 0, 1
    ends = end_columns(names)
    if not options.ignore_weights:
        _refuse_more_columns(names, ends, options)
    return ends or (0, 1)


def _refuse_more_columns(
    names: Sequence[str], ends: tuple[int, int] | None, options: EdgeTextOptions
) -> None:
    shown = _shown_names(names)
    if ends is None:
        raise GraphError(
            f"{options.path} has the columns {shown}; which two hold the ends of edges? Pass "
            f"{argument('columns', (names[0], names[1]))}, or {argument('weights', 'ignore')} to "
            "use the first two (weighted distances are not supported)"
        )
    pair = _ends(names, ends)
    others = _shown_names([name for at, name in enumerate(names) if at not in ends])
    raise GraphError(
        f"{options.path} has the columns {shown}: {pair[0]} and {pair[1]} are the ends of edges, "
        f"and {others} may be weights, which are not supported; pass "
        f"{argument('weights', 'ignore')} or {argument('columns', pair)} to ignore the rest"
    )


def _column_notes(
    names: Sequence[str], columns: tuple[int, int], options: EdgeTextOptions
) -> list[str]:
    others = [name for at, name in enumerate(names) if at not in columns and name]
    if not others or options.pairs:
        return []
    a, b = _ends(names, columns)
    return [
        f"{options.path}: edges go from column {a} to column {b}; ignored: {_shown_names(others)}"
    ]


def _shown_names(names: Sequence[str]) -> str:
    shown = [name or "(no name)" for name in names]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6:,} more" if len(shown) > 6 else "")


def column_positions(columns: Columns | None, names: Sequence[str], path: Path) -> tuple[int, int]:
    """Return the positions of two columns, which are named or numbered."""
    if columns is None:
        return 0, 1
    positions = []
    for column in columns:
        if isinstance(column, str):
            if column not in names:
                raise GraphError(
                    f"{path} has no column {column!r}; its columns are {', '.join(names)}"
                )
            if list(names).count(column) > 1:
                raise GraphError(f"{path} has two columns {column!r}; pass their positions")
            positions.append(list(names).index(column))
        elif column >= len(names):
            raise GraphError(f"{path} has {len(names)} columns, so none at position {column}")
        else:
            positions.append(column)
    return positions[0], positions[1]
