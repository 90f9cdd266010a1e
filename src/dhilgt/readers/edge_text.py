"""Edges as lines of text: this module finds their layout, the native core parses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from dhilgt import _native
from dhilgt.errors import GraphError, argument, warn
from dhilgt.graph import checks
from dhilgt.graph.checks import IdArray
from dhilgt.graph.node_ids import as_objects
from dhilgt.readers.column_names import plain
from dhilgt.readers.separators import LINES_TO_SNIFF, SEPARATORS, find_separator, split_fields

_BLOCK_BYTES = 32 << 20
SNIFF_BYTES = 1 << 20
_HEADER_PAIRS = {
    ("source", "target"), ("src", "dst"), ("src", "dest"), ("source", "dest"),
    ("source", "destination"), ("from", "to"), ("u", "v"), ("i", "j"), ("head", "tail"),
    ("node1", "node2"), ("node_1", "node_2"), ("id1", "id2"), ("id_1", "id_2"),
    ("numeric_id_1", "numeric_id_2"), ("fromnodeid", "tonodeid"), ("from_node", "to_node"),
    ("from_id", "to_id"), ("source_id", "target_id"), ("src_id", "dst_id"), ("start", "end"),
    ("citing", "cited"), ("follower", "followee"), ("parent", "child"), ("user1", "user2"),
}  # fmt: skip

Columns = tuple[str | int, str | int]


@dataclass(slots=True)
class EdgeTable:
    """The edges of a file.

    Attributes:
        sources: Ids of the first ends, or their positions in `node_ids`.
        targets: The other ends.
        node_ids: Ids in ascending order, if `sources` and `targets` are positions in them.
        num_nodes: Number of nodes, if the file states it; the ends are then indices.
    """

    sources: IdArray
    targets: IdArray
    node_ids: IdArray | None = None
    num_nodes: int | None = None


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


@dataclass(frozen=True, slots=True)
class Layout:
    """Separator, columns and start of the lines of edges."""

    separator: str
    columns: tuple[int, int]
    skip_bytes: int  # before the first edge
    skip_lines: int


class DataLine(NamedTuple):
    """A line that is neither blank nor a comment."""

    number: int  # from 1
    end: int  # in bytes
    text: str


def read_edge_lines(stream: BinaryIO, options: EdgeTextOptions) -> EdgeTable:
    """Return the edges of a text; ids are integers, or strings if any is not an integer."""
    layout = _find_layout(stream, options)
    try:
        return EdgeTable(*parse(stream, options, layout, strings=False).take_integers())
    except _native.EdgeTextError as error:
        if error.args[0] != "integer" or options.integers_only:
            refuse(error, options)
        _, line, text = error.args
    if line > layout.skip_lines + 1 and not _first_line_is_text(stream, layout):
        warn(
            f"{options.path}, line {line}: {_shown(text)} is not an integer, so all ids are read "
            "as strings"
        )
    try:
        texts, sources, targets = parse(stream, options, layout, strings=True).take_strings()
    except _native.EdgeTextError as error:
        refuse(error, options)
    return EdgeTable(sources, targets, as_objects(texts))


def read_pairs(stream: BinaryIO, options: EdgeTextOptions) -> tuple[IdArray, IdArray]:
    """Return the two ids of every line in the order of the lines; there may be none.

    Ids are integers if `options.integers_only`, otherwise strings, even those that look like
    numbers: the type of the graph's ids is known.
    """
    stream.seek(0)
    head = stream.read(SNIFF_BYTES)
    if len(head) < SNIFF_BYTES and not data_lines(head.removeprefix(b"\xef\xbb\xbf"), 0):
        empty = np.empty(0, np.int64 if options.integers_only else object)
        return empty, empty
    layout = _find_layout(stream, options)
    try:
        parser = parse(stream, options, layout, strings=not options.integers_only)
        if options.integers_only:
            return parser.take_integers()
        texts, sources, targets = parser.take_strings()
    except _native.EdgeTextError as error:
        refuse(error, options)
    ids = as_objects(texts)
    return ids[sources], ids[targets]


def parse(
    stream: BinaryIO,
    options: EdgeTextOptions,
    layout: Layout,
    *,
    strings: bool,
    ones_column: int = -1,
) -> _native.EdgeText:
    """Return the native parser after it has read all lines.

    Args:
        stream: The text.
        options: How to read it.
        layout: Separator, columns and start of the edges.
        strings: Read ids as strings.
        ones_column: A column that must hold ones only; -1 for none.
    """
    parser = _native.EdgeText(
        separator=layout.separator,
        source_column=layout.columns[0],
        target_column=layout.columns[1],
        extra_columns=options.ignore_weights or options.columns is not None,
        ones_column=ones_column,
        strings=strings,
        first_line=layout.skip_lines + 1,
    )
    stream.seek(0)
    stream.read(layout.skip_bytes)
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut == 0 and len(rest) > _BLOCK_BYTES:
            raise GraphError(f"{options.path} has a line of over 32 MB; it is not a list of edges")
        if cut:
            parser.feed(rest + block[:cut], options.threads)
            rest = block[cut:]
        else:
            rest += block
    parser.feed(rest, options.threads)
    return parser


# ---- layout ------------------------------------------------------------------------------------


def _find_layout(stream: BinaryIO, options: EdgeTextOptions) -> Layout:
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
    skip = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    lines = data_lines(head, skip)
    if not lines:
        if len(head) < SNIFF_BYTES:
            raise GraphError(f"{options.path} holds no edges; one edge per line is expected")
        lines = [DataLine(1, skip, "")]
    separator = options.separator
    if separator is None:
        separator = find_separator([line.text for line in lines], one_column=False)
    if separator not in SEPARATORS:
        raise GraphError(
            f"{argument('separator', separator)}; pass ',' or ';' or a tab or ' ' (any run of "
            "blanks)"
        )
    rows = [split_fields(line.text, separator) for line in lines]
    if options.header or (options.header is None and _is_header(rows, options.columns)):
        columns = column_positions(options.columns, rows[0], options.path)
        return Layout(separator, columns, lines[0].end, lines[0].number)
    positions = [column for column in options.columns or (0, 1) if isinstance(column, int)]
    if len(positions) < 2:
        raise GraphError(
            f"{options.path} is read without a header, so its columns have no names; pass their "
            "positions, or header=True"
        )
    return Layout(separator, (positions[0], positions[1]), skip, 0)


def data_lines(head: bytes, skip: int) -> list[DataLine]:
    """Return the first lines of data after the first ``skip`` bytes."""
    lines: list[DataLine] = []
    end = skip
    for number, line in enumerate(head[skip:].split(b"\n"), start=1):
        end = min(end + len(line) + 1, len(head))
        text = line.decode("utf-8", errors="replace").strip("\r\n")
        if text.strip(" \t") and text.lstrip(" \t")[0] not in "#%":
            lines.append(DataLine(number, end, text))
            if len(lines) == LINES_TO_SNIFF:
                break
    return lines


def is_integer(text: str) -> bool:
    """Return whether a field is an integer."""
    return text.lstrip("+-").isascii() and text.lstrip("+-").isdigit()


def _is_header(rows: list[list[str]], columns: Columns | None) -> bool:
    if columns is not None and any(isinstance(column, str) for column in columns):
        return True
    a, b = (int(columns[0]), int(columns[1])) if columns is not None else (0, 1)

    def both_integers(row: list[str]) -> bool:
        return len(row) > max(a, b) and is_integer(row[a]) and is_integer(row[b])

    if both_integers(rows[0]):
        return False
    if len(rows) > 1 and both_integers(rows[1]):
        # One integer beside one word is a damaged line rather than a heading.
        return not any(is_integer(field) for field in rows[0])
    return known_columns(rows[0]) == (a, b)


def known_columns(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of a well-known pair of column names, or None."""
    plain_names = [plain(name) for name in names]
    for first, second in _HEADER_PAIRS:
        if first in plain_names and second in plain_names:
            return plain_names.index(first), plain_names.index(second)
    return None


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
            positions.append(list(names).index(column))
        elif column >= len(names):
            raise GraphError(f"{path} has {len(names)} columns, so none at position {column}")
        else:
            positions.append(column)
    return positions[0], positions[1]


def _first_line_is_text(stream: BinaryIO, layout: Layout) -> bool:
    """Return whether the first edge has ids that are not integers: no warning is needed then."""
    stream.seek(0)
    lines = data_lines(stream.read(SNIFF_BYTES), layout.skip_bytes)
    if not lines:
        return False
    row = split_fields(lines[0].text, layout.separator)
    return not all(is_integer(row[at]) for at in layout.columns if at < len(row))


# ---- errors ------------------------------------------------------------------------------------


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", errors="backslashreplace"))


def refuse(error: Any, options: EdgeTextOptions) -> NoReturn:
    """Raise an error of the native parser with its line and the remedy."""
    kind, line, text = error.args
    place = f"{options.path}, line {line}"
    if kind == "ones":
        checks.refuse_weights(f"{place} has the weight {_shown(text)}")
    problems = {
        "columns": "has too few columns; an edge needs two ids, check "
        f"{argument('separator', ...)} and {argument('columns', ...)}",
        "extra": "has more than two columns; weighted distances are not supported, pass "
        f"{argument('weights', 'ignore')} to pass over the rest or "
        f"{argument('columns', (0, 1))} to choose",
        "integer": f"is not an integer; with {argument('num_nodes', ...)} the ends of edges are "
        "indices, leave it out to have ids mapped",
        "empty": "lacks an id; every edge needs two",
        "quote": "has a quote that is not closed; quotes must begin and end on one line",
        "utf8": "is not UTF-8; save the file as UTF-8",
    }
    if options.pairs:
        problems |= {
            "columns": "has too few columns; a pair needs two ids",
            "integer": "is not an integer; the ids of these labels are integers",
            "empty": "lacks an id; every pair needs two",
        }
    raise GraphError(f"{place}: {_shown(text)} {problems[kind]}") from error
