"""Edges as lines of text: what the lines look like is found out here, reading them is native."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from dhilgt import _native
from dhilgt.errors import GraphError, argument, warn
from dhilgt.graph import checks, node_ids

_BLOCK_BYTES = 32 << 20
_SNIFF_BYTES = 1 << 20
_SEPARATORS = (",", "\t", ";", " ")
_HEADER_PAIRS = {
    ("source", "target"), ("src", "dst"), ("src", "dest"), ("source", "dest"),
    ("source", "destination"), ("from", "to"), ("u", "v"), ("i", "j"), ("head", "tail"),
    ("node1", "node2"), ("node_1", "node_2"), ("id1", "id2"), ("id_1", "id_2"),
    ("numeric_id_1", "numeric_id_2"), ("fromnodeid", "tonodeid"), ("from_node", "to_node"),
    ("from_id", "to_id"), ("source_id", "target_id"), ("src_id", "dst_id"), ("start", "end"),
    ("citing", "cited"), ("follower", "followee"), ("parent", "child"), ("user1", "user2"),
}  # fmt: skip

Columns = tuple[str | int, str | int]
Edges = tuple[checks.IdArray, checks.IdArray, checks.IdArray | None, int | None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller knows about the lines; None where it is to be found out."""

    path: Path
    separator: str | None
    header: bool | None
    columns: Columns | None
    ignore_weights: bool
    integers_only: bool
    threads: int
    pairs: bool = False  # lines are pairs of nodes to look up, not edges; for messages


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the lines look like."""

    separator: str
    columns: tuple[int, int]
    skip_bytes: int  # up to the first line of data
    skip_lines: int


def read_edge_lines(stream: BinaryIO, settings: Settings) -> Edges:
    """Gives sources, targets, names (if ids are strings) and None (no number of nodes)."""
    layout = _find_layout(stream, settings)
    try:
        parser = _parse(stream, settings, layout, strings=False)
        return (*parser.take_integers(), None, None)
    except _native.EdgeTextError as error:
        if error.args[0] != "integer" or settings.integers_only:
            _refuse(error, settings)
        _, line, text = error.args
    if line > layout.skip_lines + 1 and not _first_line_is_text(stream, layout):
        warn(
            f"{settings.path}, line {line}: {_shown(text)} is not an integer, so all ids are read "
            "as strings"
        )
    try:
        names, sources, targets = _parse(stream, settings, layout, strings=True).take_strings()
    except _native.EdgeTextError as error:
        _refuse(error, settings)
    return sources, targets, node_ids.as_objects(names), None


def read_pairs(stream: BinaryIO, settings: Settings) -> tuple[checks.IdArray, checks.IdArray]:
    """Gives the two ids of every line in the order of the lines; there may be none.

    Ids are integers if `settings.integers_only`, otherwise strings even where they look like
    numbers: what they name is known already.
    """
    stream.seek(0)
    head = stream.read(_SNIFF_BYTES)
    if len(head) < _SNIFF_BYTES and not _data_lines(head.removeprefix(b"\xef\xbb\xbf"), 0):
        empty = np.empty(0, np.int64 if settings.integers_only else object)
        return empty, empty
    layout = _find_layout(stream, settings)
    try:
        parser = _parse(stream, settings, layout, strings=not settings.integers_only)
        if settings.integers_only:
            return parser.take_integers()
        names, sources, targets = parser.take_strings()
    except _native.EdgeTextError as error:
        _refuse(error, settings)
    by_rank = node_ids.as_objects(names)
    return by_rank[sources], by_rank[targets]


def _parse(
    stream: BinaryIO,
    settings: Settings,
    layout: _Layout,
    *,
    strings: bool,
    ones_column: int = -1,
) -> _native.EdgeText:
    parser = _native.EdgeText(
        separator=layout.separator,
        source_column=layout.columns[0],
        target_column=layout.columns[1],
        extra_columns=settings.ignore_weights or settings.columns is not None,
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
            raise GraphError(f"{settings.path} has a line of over 32 MB; it is not a list of edges")
        if cut:
            parser.feed(rest + block[:cut], settings.threads)
            rest = block[cut:]
        else:
            rest += block
    parser.feed(rest, settings.threads)
    return parser


# ---- what the lines look like ------------------------------------------------------------------


def _find_layout(stream: BinaryIO, settings: Settings) -> _Layout:
    stream.seek(0)
    head = stream.read(_SNIFF_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GraphError(f"{settings.path} is UTF-16 text; save it as UTF-8")
    if b"\0" in head:
        raise GraphError(
            f"{settings.path} is binary, not text; known formats are text, Parquet, NPZ and "
            "MatrixMarket, plain or .gz"
        )
    if b"\n" not in head and b"\r" in head[:-1]:
        raise GraphError(f"{settings.path} ends its lines with CR alone; save it with LF or CRLF")
    skip = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    lines = _data_lines(head, skip)
    if not lines:
        if len(head) < _SNIFF_BYTES:
            raise GraphError(f"{settings.path} holds no edges; one edge per line is expected")
        lines = [(1, skip, "")]
    separator = _separator(settings.separator, [text for _, _, text in lines])
    rows = [split(text, separator) for _, _, text in lines]
    number, end, _ = lines[0]
    if settings.header or (settings.header is None and _is_header(rows, settings.columns)):
        columns = column_positions(settings.columns, rows[0], settings.path)
        return _Layout(separator, columns, end, number)
    if settings.columns is not None and any(isinstance(c, str) for c in settings.columns):
        column_positions(settings.columns, rows[0], settings.path)
    columns = column_positions(settings.columns, [str(i) for i in range(10**6)], settings.path)
    return _Layout(separator, columns, skip, 0)


def _data_lines(head: bytes, skip: int) -> list[tuple[int, int, str]]:
    """Gives number, end in bytes, and text of the first few lines that hold data."""
    found: list[tuple[int, int, str]] = []
    at = skip
    for number, line in enumerate(head[skip:].split(b"\n"), start=1):
        at = min(at + len(line) + 1, len(head))
        text = line.decode("utf-8", errors="replace").strip("\r\n")
        if text.strip(" \t") and text.lstrip(" \t")[0] not in "#%":
            found.append((number, at, text))
            if len(found) == 20:
                break
    return found


def _separator(given: str | None, lines: list[str]) -> str:
    if given is not None:
        if given not in _SEPARATORS:
            raise GraphError(
                f"{argument('separator', given)}; pass ',' or ';' or a tab or ' ' (any run of "
                "blanks)"
            )
        return given
    for separator in _SEPARATORS[:-1]:
        if all(separator in line for line in lines):
            return separator
    # One damaged line must not hide what the others use: it is the one to be reported.
    used = {s: sum(len(split(line, s)) > 1 for line in lines) for s in (" ", *_SEPARATORS)}
    return max(used, key=used.__getitem__)


def split(line: str, separator: str) -> list[str]:
    """Gives the fields of one line as the native reader sees them, for looking at a few lines."""
    blank = separator == " "
    text = line.replace("\t", " ").strip() if blank else line
    try:
        fields = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a field of absurd length; the native reader will say what is wrong
        return [text]
    return [field.strip() for field in fields if field or not blank]


def _is_integer(text: str) -> bool:
    return text.lstrip("+-").isascii() and text.lstrip("+-").isdigit()


def _is_header(rows: list[list[str]], columns: Columns | None) -> bool:
    if columns is not None and any(isinstance(column, str) for column in columns):
        return True
    a, b = (int(columns[0]), int(columns[1])) if columns is not None else (0, 1)

    def both_integers(row: list[str]) -> bool:
        return len(row) > max(a, b) and _is_integer(row[a]) and _is_integer(row[b])

    if both_integers(rows[0]):
        return False
    if len(rows) > 1 and both_integers(rows[1]):
        # One integer beside one word is a damaged line rather than a heading.
        return not any(_is_integer(field) for field in rows[0])
    return known_columns(rows[0]) == (a, b)


def known_columns(names: Sequence[str]) -> tuple[int, int] | None:
    """Gives the positions of a well-known pair of column names, or None."""
    lower = [name.strip().lower().replace(" ", "_") for name in names]
    for first, second in _HEADER_PAIRS:
        if first in lower and second in lower:
            return lower.index(first), lower.index(second)
    return None


def column_positions(columns: Columns | None, names: Sequence[str], path: Path) -> tuple[int, int]:
    """Gives the positions of two columns asked for by name or position."""
    if columns is None:
        return 0, 1
    found = []
    for column in columns:
        if isinstance(column, str):
            if column not in names:
                raise GraphError(
                    f"{path} has no column {column!r}; its columns are {', '.join(names)}"
                )
            found.append(list(names).index(column))
        elif column >= len(names):
            raise GraphError(f"{path} has {len(names)} columns, so none at position {column}")
        else:
            found.append(column)
    return found[0], found[1]


def _first_line_is_text(stream: BinaryIO, layout: _Layout) -> bool:
    """Says whether the first edge has ids that are no integers, so that nobody is surprised."""
    stream.seek(0)
    lines = _data_lines(stream.read(_SNIFF_BYTES), layout.skip_bytes)
    if not lines:
        return False
    row = split(lines[0][2], layout.separator)
    return not all(_is_integer(row[at]) for at in layout.columns if at < len(row))


# ---- MatrixMarket ------------------------------------------------------------------------------


def read_matrix_market(stream: BinaryIO, settings: Settings, directed: bool) -> Edges:
    """Gives 0-based sources and targets, None (no names) and the number of nodes."""
    path = settings.path
    stream.seek(0)
    head = stream.read(_SNIFF_BYTES)
    words = head.split(b"\n", 1)[0].decode("ascii", errors="replace").lower().split()
    if len(words) != 5 or words[1:3] != ["matrix", "coordinate"]:
        raise GraphError(
            f"{path}: the first line is {' '.join(words)!r}; only 'matrix coordinate' files hold a "
            "graph, save a sparse matrix"
        )
    field, symmetry = words[3], words[4]
    lines = _data_lines(head, 0)
    sizes = lines[0][2].split() if lines else []
    if len(sizes) != 3 or not all(_is_integer(size) for size in sizes):
        raise GraphError(
            f"{path}: the line of sizes should be 'rows columns entries'; make it again"
        )
    rows, columns, entries = (int(size) for size in sizes)
    if rows != columns:
        raise GraphError(f"{path} is {rows} x {columns}; an adjacency matrix is square")
    count = checks.num_nodes(rows, found_in=f"{path}: rows")
    layout = _Layout(" ", (0, 1), lines[0][1], lines[0][0])
    weighted = field != "pattern"
    if field == "complex" and not settings.ignore_weights:
        checks.refuse_weights(f"{path} holds complex numbers")
    try:
        parser = _parse(
            stream,
            settings,
            layout,
            strings=False,
            ones_column=2 if weighted and not settings.ignore_weights else -1,
        )
    except _native.EdgeTextError as error:
        _refuse(error, settings)
    sources, targets = parser.take_integers()
    if len(sources) != entries:
        raise GraphError(
            f"{path} announces {entries} entries and holds {len(sources)}; it is cut short, fetch "
            "or make it again"
        )
    for name, ends in (("row", sources), ("column", targets)):
        bad = np.flatnonzero((ends < 1) | (ends > count))
        if bad.size:
            raise GraphError(
                f"{path}: {name} {ends[bad[0]]} of entry {bad[0] + 1} is outside 1 to {count}; "
                "MatrixMarket counts from 1"
            )
    sources -= 1
    targets -= 1
    if directed and symmetry != "general":  # only one triangle is stored
        other = sources != targets
        sources, targets = (
            np.concatenate([sources, targets[other]]),
            np.concatenate([targets, sources[other]]),
        )
    return sources, targets, None, count


# ---- wording -----------------------------------------------------------------------------------


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", errors="backslashreplace"))


def _refuse(error: Any, settings: Settings) -> NoReturn:
    kind, line, text = error.args
    where = f"{settings.path}, line {line}"
    if kind == "ones":
        checks.refuse_weights(f"{where} has the weight {_shown(text)}")
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
    if settings.pairs:
        problems |= {
            "columns": "has too few columns; a pair needs two ids",
            "integer": "is not an integer; the ids of these labels are integers",
            "empty": "lacks an id; every pair needs two",
        }
    raise GraphError(f"{where}: {_shown(text)} {problems[kind]}") from error
