"""Whether the first row of a table is a header: decided by its cells and the ids of the graph."""

from collections.abc import Collection
from dataclasses import replace

from dhilgt.errors import GraphError, argument
from dhilgt.graph.node_ids import NodeIds
from dhilgt.readers.cells import MISSING, is_number, typed
from dhilgt.readers.column_names import id_strength, plain
from dhilgt.readers.columns import IdColumn, id_column, id_like
from dhilgt.readers.tables import Table
from dhilgt.readers.text_table import TextTable

_BY_IDS = "by the ids"
_CELLS = 1000  # of a column that are compared with its first
_FEW = 20  # cells that show the kind of a column, and columns that show that of a row
_MOST = 0.9  # share of the ids below that are nodes


def settled(
    table: Table | TextTable,
    ids: NodeIds | None,
    *,
    header: bool | None,
    id_name: str | int | None,
    names: Collection[str],
) -> tuple[Table, IdColumn]:
    """Return a table whose header is known, and its column of ids.

    Args:
        table: The table, as it was read.
        ids: Ids of the graph; None if there is none to compare with.
        header: The user's word, which counts where the table leaves it open.
        id_name: Name or position of the ids from the user.
        names: Known (plain) names of further columns.
    """
    if isinstance(table, Table):
        return table, id_column(table, ids, id_name)
    if not table.lines and header is None and table.header is None:
        return _single_row(table, ids, id_name, names)
    named = table.with_header(True)
    if table.header or (isinstance(id_name, str) and id_name in named.names):
        return named.distinct_names(), id_column(named, ids, id_name)
    # The names count for the choice of the ids, and the ids for that of the header.
    chosen = _tried(named, ids, id_name)
    at = 0 if chosen is None else chosen.at or 0
    decided = _decision(table, at, ids, header, names)
    if decided:
        notes = (_header_note(table, at),) if decided == _BY_IDS else ()
        named = replace(named.distinct_names(), notes=(*named.notes, *notes))
        return named, chosen or id_column(named, ids, id_name)
    rows = table.with_header(False)
    note = f"{table.source} has no header: its columns are 0 to {table.width - 1}"
    return replace(rows, notes=(*rows.notes, note)), id_column(rows, ids, id_name)


def _tried(table: Table, ids: NodeIds | None, id_name: str | int | None) -> IdColumn | None:
    """Return the column of ids; None where it cannot be told with these names."""
    try:
        return id_column(table, ids, id_name)
    except GraphError:
        return None


def _decision(
    table: TextTable,
    at: int,
    ids: NodeIds | None,
    header: bool | None,
    names: Collection[str],
) -> bool | str:
    """Return whether the first row is a header, and whether only the ids show it."""
    first = table.first[1]
    if ids is not None and _is_node(first[at], ids):
        return False
    others = [column for column in range(len(first)) if column != at]
    if not first[at] or id_strength(first[at]) or _has_known_name(first, others, names):
        return True
    fits = {column: _fits(table, column) for column in (at, *others[:_FEW])}
    if any(fits[column] for column in others[:_FEW]):
        if header is None and ids is not None and ids.are_text and _share(table, at, ids) == 1:
            raise GraphError(
                f"{table.source}, line {table.first[0]} ({', '.join(first[:4])}"
                f"{', ...' if len(first) > 4 else ''}) may be a header or a row; pass "
                f"{argument('header', True)} or {argument('header', False)}"
            )
        return bool(header)
    if False in fits.values():
        return True
    if header is not None:
        return header
    return _BY_IDS if ids is not None and _share(table, at, ids) >= _MOST else False


def _has_known_name(first: list[str], others: list[int], names: Collection[str]) -> bool:
    return any(plain(first[column]) in names for column in others)


def _fits(table: TextTable, at: int) -> bool | None:
    """Return whether the first cell of a column is like those below; None if nothing shows it."""
    cell = table.first[1][at]
    below = table.rest[at].values(range(min(_CELLS, len(table.lines))))
    if cell in MISSING or cell in below:
        return True
    filled = [text for text in below[:_FEW] if text not in MISSING]
    if not filled:
        return None
    if 2 * sum(is_number(text) for text in filled) > len(filled):
        return is_number(cell)
    kind = _kind(filled)
    return None if kind == "text" else _kind([cell]) == kind


def _kind(texts: list[str]) -> str:
    try:
        return typed("", texts, str).kind
    except GraphError:  # numbers with signs between the digits
        return "number"


def _single_row(
    table: TextTable, ids: NodeIds | None, id_name: str | int | None, names: Collection[str]
) -> tuple[Table, IdColumn]:
    """Return the table of a single row, or raise if it is a header."""
    first = table.first[1]
    known = any(plain(name) in names or id_strength(name) == 3 for name in first)
    if (known or not first[0]) and not (ids is not None and _is_node(first[0], ids)):
        raise GraphError(f"{table.source} has a header and no rows; give one row per node")
    plain_table = table.with_header(False)
    return plain_table, id_column(plain_table, ids, id_name)


def _is_node(text: str, ids: NodeIds) -> bool:
    value = id_like(text, ids.are_text)
    if value is None:
        return False
    if ids.node_ids is None:
        return bool(0 <= value < ids.count)
    return value in set(ids.node_ids.tolist())


def _share(table: TextTable, at: int, ids: NodeIds) -> float:
    known = set(ids.all.tolist())
    below = [id_like(value, ids.are_text) for value in table.rest[at].values()]
    return sum(value in known for value in below) / max(1, len(below))


def _header_note(table: TextTable, at: int) -> str:
    names = ", ".join(table.first[1][:4]) + (", ..." if table.width > 4 else "")
    return (
        f"{table.source}: line {table.first[0]} is taken as the header ({names}): "
        f"{table.first[1][at]!r} is not a node of the graph, and the ids below are"
    )
