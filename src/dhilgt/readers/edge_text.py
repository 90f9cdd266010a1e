"""Edges as lines of text: `edge_layout` finds their layout, the native core parses them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, argument, warn
from dhilgt.graph import checks
from dhilgt.graph.checks import IdArray
from dhilgt.graph.node_ids import as_objects
from dhilgt.readers import headers
from dhilgt.readers.cells import is_whole
from dhilgt.readers.edge_layout import (
    EdgeTextOptions,
    Layout,
    find_layout,
    is_empty,
    is_integer,
)
from dhilgt.readers.end_names import PLAIN, WEAK

_BLOCK_BYTES = 32 << 20


@dataclass(slots=True)
class EdgeTable:
    """The edges of a file.

    Attributes:
        sources: Ids of the first ends, or their positions in `node_ids`.
        targets: The other ends.
        node_ids: Ids in ascending order, if `sources` and `targets` are positions in them.
        num_nodes: Number of nodes, if the file states it; the ends are then indices.
        notes: What the reader decided.
    """

    sources: IdArray
    targets: IdArray
    node_ids: IdArray | None = None
    num_nodes: int | None = None
    notes: tuple[str, ...] = ()


def read_edge_lines(stream: BinaryIO, options: EdgeTextOptions) -> EdgeTable:
    """Return the edges of a text; ids are integers, or strings if any is not an integer."""
    layout = find_layout(stream, options)
    surprise: str | None = None
    if options.integers_only or not _begins_with_text(layout):
        try:
            return _integers(stream, options, layout)
        except _native.EdgeTextError as error:
            if error.args[0] != "integer" or options.integers_only:
                refuse(error, options, layout)
            _, line, text = error.args
        if _repeats_header(text, layout):
            _refuse_repeated_header(f", line {line}", options)
        surprise = f"{options.path}, line {line}: {_shown(text)} is not an integer"
    try:
        parser = parse(stream, options, layout, strings=True)
        texts, sources, targets = parser.take_strings()
    except _native.EdgeTextError as error:
        refuse(error, options, layout)
    table = EdgeTable(sources, targets, as_objects(texts), notes=_notes(layout, parser, options))
    if surprise is not None:
        warn(f"{surprise}, so all ids are read as strings")
    if layout.header is None:
        return _without_header(table, layout, options)
    if layout.header and _has_edge(table, *(layout.rows[0][at] for at in layout.columns)):
        _refuse_repeated_header(": an edge", options)
    return table


def read_pairs(
    stream: BinaryIO,
    options: EdgeTextOptions,
    is_known: Callable[[IdArray], NDArray[np.bool_]],
) -> EdgeTable:
    """Return the two ids of every line in the order of the lines; there may be none.

    Ids are integers if `options.integers_only`, otherwise strings, even those that look like
    numbers: the type of the graph's ids is known.

    Args:
        stream: The text.
        options: How to read it.
        is_known: Tells of ids whether they are nodes: a header's names are not.
    """
    if is_empty(stream):
        empty = np.empty(0, np.int64 if options.integers_only else object)
        return EdgeTable(empty, empty, notes=(f"{options.path} holds no pairs",))
    layout = find_layout(stream, options)
    try:
        if options.integers_only:
            return _integers(stream, options, layout)
        parser = parse(stream, options, layout, strings=True)
        texts, sources, targets = parser.take_strings()
    except _native.EdgeTextError as error:
        refuse(error, options, layout)
    ids = as_objects(texts)
    table = EdgeTable(ids[sources], ids[targets], notes=_notes(layout, parser, options))
    if layout.header is not None:
        return table
    looks = headers.names_likeness(layout.rows, layout.columns)
    known = is_known(np.array([table.sources[0], table.targets[0]], dtype=object))
    if looks == PLAIN and known.all():
        _refuse_unclear(layout, options, "its words are names of columns and nodes")
    if looks < WEAK or known.any():
        return table
    note = f"{_first_line(layout, options)} is read as a header: its words are not nodes"
    return EdgeTable(table.sources[1:], table.targets[1:], notes=(*table.notes, note))


def parse(
    stream: BinaryIO,
    options: EdgeTextOptions,
    layout: Layout,
    *,
    strings: bool,
    whole: bool = False,
    ones_column: int = -1,
) -> _native.EdgeText:
    """Return the native parser after it has read all lines.

    Args:
        stream: The text.
        options: How to read it.
        layout: Separator, columns and start of the edges.
        strings: Read ids as strings.
        whole: Read integers that are written like 7.0, too.
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
        whole=whole,
        comment=options.comment or "",
        guard=options.comment != "",
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


def _integers(stream: BinaryIO, options: EdgeTextOptions, layout: Layout) -> EdgeTable:
    """Return edges between integers, also those that a program has written as 7.0."""
    note: tuple[str, ...] = ()
    try:
        parser = parse(stream, options, layout, strings=False)
    except _native.EdgeTextError as error:
        kind, line, text = error.args
        if kind != "integer" or not is_whole(text.decode("utf-8", errors="replace")):
            raise
        parser = parse(stream, options, layout, strings=False, whole=True)
        note = (f"{options.path}, line {line}: ids like {_shown(text)} are read as whole numbers",)
    return EdgeTable(*parser.take_integers(), notes=_notes(layout, parser, options) + note)


def _begins_with_text(layout: Layout) -> bool:
    """Return whether the first edge has an id that is not a number."""
    rows = layout.rows[1:] if layout.header else layout.rows
    fields = [row[at] for row in rows[:1] for at in layout.columns if at < len(row)]
    return any(not is_integer(field) and not is_whole(field) for field in fields)


def _notes(layout: Layout, parser: _native.EdgeText, options: EdgeTextOptions) -> tuple[str, ...]:
    notes = list(layout.notes)
    if parser.num_comments:
        lines = "1 line" if parser.num_comments == 1 else f"{parser.num_comments:,} lines"
        notes.append(f"{options.path}: skipped {lines} of comments ({options.comment})")
    if parser.num_marked:
        lines = "1 edge" if parser.num_marked == 1 else f"{parser.num_marked:,} edges"
        notes.append(f"{options.path}: {lines} on lines that begin with # or %, read as ids")
    return tuple(notes)


# ---- a first line of words ---------------------------------------------------------------------


def _without_header(table: EdgeTable, layout: Layout, options: EdgeTextOptions) -> EdgeTable:
    """Return edges between strings without the first one if that is the header of the file."""
    found = headers.Occurrences.of(table.sources, table.targets)
    header, reason = headers.decide(layout.rows, layout.columns, found)
    if header is None and found.again and not found.apart:
        raise GraphError(
            f"{_first_line(layout, options)} occurs again; if it is a header, remove the others "
            "(several files may have been joined), if it is an edge, pass "
            f"{argument('header', False)}"
        )
    if header is None:
        _refuse_unclear(layout, options, reason)
    kind = "a header" if header else "an edge"
    note = f"{_first_line(layout, options)} is read as {kind}: {reason}"
    if not header:
        return replace(table, notes=(*table.notes, note))
    assert table.node_ids is not None
    names = np.unique([table.sources[0], table.targets[0]])  # they occur nowhere else
    sources, targets = (
        (ends[1:] - np.searchsorted(names, ends[1:])).astype(np.int32)
        for ends in (table.sources, table.targets)
    )
    return EdgeTable(sources, targets, np.delete(table.node_ids, names), notes=(*table.notes, note))


def _first_line(layout: Layout, options: EdgeTextOptions) -> str:
    a, b = (layout.rows[0][at] for at in layout.columns)
    return f"{options.path}: the first line ({a}, {b})"


def _refuse_unclear(layout: Layout, options: EdgeTextOptions, reason: str) -> NoReturn:
    thing = "a pair" if options.pairs else "an edge"
    raise GraphError(
        f"{_first_line(layout, options)} may be a header or {thing} ({reason}); pass "
        f"{argument('header', True)} or {argument('header', False)}"
    )


def _repeats_header(text: bytes, layout: Layout) -> bool:
    if not layout.header:
        return False
    return text.decode("utf-8", errors="replace") == layout.rows[0][layout.columns[0]]


def _has_edge(table: EdgeTable, source: str, target: str) -> bool:
    assert table.node_ids is not None
    places = np.searchsorted(table.node_ids, np.array([source, target], dtype=object))
    if places.max() >= len(table.node_ids) or list(table.node_ids[places]) != [source, target]:
        return False
    return bool(((table.sources == places[0]) & (table.targets == places[1])).any())


def _refuse_repeated_header(place: str, options: EdgeTextOptions) -> NoReturn:
    raise GraphError(
        f"{options.path}{place} is the header again; remove that line (several files may have been "
        "joined)"
    )


# ---- errors ------------------------------------------------------------------------------------


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", errors="backslashreplace"))


def refuse(error: Any, options: EdgeTextOptions, layout: Layout) -> NoReturn:
    """Raise an error of the native parser with its line and the remedy."""
    kind, line, text = error.args
    place = f"{options.path}, line {line}"
    if kind == "ones":
        checks.refuse_weights(f"{place} has the weight {_shown(text)}")
    if kind == "integer" and _repeats_header(text, layout):
        _refuse_repeated_header(f", line {line}", options)
    sign = text.lstrip()[:1].decode("ascii", errors="replace")
    problems = {
        "columns": "has too few columns; an edge needs two ids, check "
        f"{argument('separator', ...)} and {argument('columns', ...)}",
        "extra": "has more than two columns; weighted distances are not supported, pass "
        f"{argument('weights', 'ignore')} to pass over the rest or "
        f"{argument('columns', (0, 1))} to choose",
        "integer": f"is not an integer; with {argument('num_nodes', ...)} the ends of edges are "
        "indices, leave it out to have ids mapped",
        "empty": "lacks an id; every edge needs two",
        "missing": "lacks an id; every edge needs two (if it is one, put it in quotes)",
        "comment": f"looks like a comment; pass {argument('comment', sign)} to skip such lines, or "
        f"{argument('comment', '')} to read them as edges",
        "quote": "has a quote that is not closed; quotes must begin and end on one line",
        "utf8": "is not UTF-8; save the file as UTF-8",
    }
    if options.pairs:
        problems |= {
            "columns": "has too few columns; a pair needs two ids",
            "integer": "is not an integer; the ids of these labels are integers",
            "empty": "lacks an id; every pair needs two",
            "missing": "lacks an id; every pair needs two (if it is one, put it in quotes)",
        }
    raise GraphError(f"{place}: {_shown(text)} {problems[kind]}") from error
