"""Which column of a table is what: ids, a single value, features."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, argument
from dhilgt.graph.node_ids import NodeIds
from dhilgt.readers.cells import KINDS
from dhilgt.readers.column_names import id_strength, is_unnamed, plain
from dhilgt.readers.tables import Table
from dhilgt.utils.checks import name_hint

_SAMPLE = 64  # cells that are looked at before a whole column is
_ENOUGH = 0.5  # share of a column, or of the graph, that makes it a candidate
_ALIKE = 0.01  # shares that differ by less are equal


# ---- ids ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdColumn:
    """The column of ids.

    Attributes:
        at: Its position; None if rows are those of the nodes in order.
        note: Why it was chosen, where its name does not say so.
    """

    at: int | None
    note: str | None = None


@dataclass(frozen=True)
class _Candidate:
    at: int
    share: float  # of its rows that are nodes, or of the nodes that are rows; the larger one
    rows: float  # share of its rows that are nodes
    distinct: bool
    strength: int


def id_column(table: Table, ids: NodeIds | None, requested: str | int | None) -> IdColumn:
    """Return the column of ids: the one asked for, else by its cells, else by its name.

    A column is a candidate if all its cells differ and at least half of them are nodes of the
    graph, or half of the nodes are among them.

    Args:
        table: The table.
        ids: Ids of the graph; None if there is none to compare with.
        requested: Name or position from the user.

    Raises:
        GraphError: If no column, or more than one, may be meant.
    """
    if requested is not None:
        return IdColumn(position(table, requested, "id_column"))
    if len(table.names) == 1 and table.in_order and not table.indexed:
        return IdColumn(None)
    found = [] if ids is None else _candidates(table, ids)
    distinct = [one for one in found if one.distinct]
    if table.in_order:  # numbers of a frame are ids only if their column is called so
        distinct = [one for one in distinct if one.strength or _is_text(table, one.at)]
    if distinct:
        return _by_cells(table, distinct, found)
    return _by_name(table, ids)


def _by_cells(table: Table, distinct: list[_Candidate], found: list[_Candidate]) -> IdColumn:
    best = max(one.share for one in distinct)
    alike = [one for one in distinct if one.share >= best - _ALIKE]
    strength = max(one.strength for one in alike)
    winners = [one for one in alike if one.strength == strength]
    rivals = [one for one in found if one.strength > strength]
    for rival in rivals:
        if rival.share >= best - _ALIKE:  # it has an id twice, which is refused with its line
            return IdColumn(rival.at)
    if len(winners) > 1 or rivals:
        listed = ", ".join(
            f"{table.names[one.at]!r} ({one.rows:.0%} of its cells are nodes)"
            for one in sorted((*winners, *rivals), key=lambda one: one.at)
        )
        raise GraphError(
            f"{table.source}: which column holds the ids, {listed}? Pass "
            f"{argument('id_column', ...)}"
        )
    (winner,) = winners
    if winner.strength == 3 or (not table.named and winner.at == 0):
        return IdColumn(winner.at)
    name = table.names[winner.at]
    return IdColumn(
        winner.at,
        f"{table.source}: ids are in column {name!r} (all values differ, {winner.rows:.0%} are "
        "nodes of the graph)",
    )


def _by_name(table: Table, ids: NodeIds | None) -> IdColumn:
    strengths = [_strength(table, at) for at in range(len(table.names))]
    best = max(strengths)
    if best > 0:
        return IdColumn(strengths.index(best))
    if table.named and is_unnamed(table.names[0]):
        return IdColumn(0)
    if table.in_order:
        return IdColumn(None)
    like = ""
    if ids is not None:
        some = ", ".join(repr(value) for value in ids.all[:2].tolist())
        like = f"; none holds ids of the graph, like {some}"
    raise GraphError(
        f"{table.source} has no column of ids (its columns are {', '.join(table.names[:6])}"
        f"{', ...' if len(table.names) > 6 else ''}{like}); pass {argument('id_column', ...)}, or "
        "call the column 'id'"
    )


def _strength(table: Table, at: int) -> int:
    if table.indexed:
        return 3 * (at == 0)
    return id_strength(table.names[at]) if table.named else int(at == 0)


def _is_text(table: Table, at: int) -> bool:
    return any(isinstance(value, str) for value in table.columns[at].values(range(1)))


def _candidates(table: Table, ids: NodeIds) -> list[_Candidate]:
    """Return the columns at least half of whose cells are nodes, or that hold half of these."""
    count = table.num_rows
    known = set(ids.all.tolist())
    sample = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64)).tolist()
    found: list[_Candidate] = []
    for at, column in enumerate(table.columns):
        strength = _strength(table, at)
        some = [id_like(value, ids.are_text) for value in column.values(sample)]
        if not strength and (len(set(some)) < len(some) or known.isdisjoint(some)):
            continue
        cells = [id_like(value, ids.are_text) for value in column.values()]
        hits = len(known.intersection(cells))
        rows = sum(cell in known for cell in cells) / max(1, count)
        share = max(rows, hits / len(known))
        distinct = len(set(cells)) == len(cells)
        if share >= _ENOUGH:
            found.append(_Candidate(at, share, rows, distinct, strength))
    return found


def id_like(value: Any, text: bool) -> Any:
    """Return a cell as an id: text, or an integer where it is one, 7.0 included; else None."""
    if text:
        return None if value is None else str(value)
    try:
        return int(value) if not isinstance(value, float) else _whole(value)
    except (TypeError, ValueError):
        try:
            return _whole(float(value))
        except (TypeError, ValueError):
            return None


def _whole(value: float) -> int | None:
    return int(value) if value.is_integer() else None


# ---- one column --------------------------------------------------------------------------------


def position(table: Table, requested: str | int, option: str) -> int:
    """Return the position of a column asked for by name, or by position where none is called so.

    Args:
        table: The table.
        requested: Name or position.
        option: Argument that asked for it, for the message.
    """
    if isinstance(requested, str) and requested in table.names and table.named:
        return table.names.index(requested)
    at = int(requested) if str(requested).isascii() and str(requested).isdigit() else -1
    if 0 <= at < len(table.names):
        return at
    hint = name_hint(requested, table.names, f"its columns are {', '.join(table.names[:12])}")
    raise GraphError(
        f"{argument(option, requested)}: {table.source} has no such column; {hint}"
        if table.named
        else f"{argument(option, requested)}: {table.source} has no header and "
        f"{len(table.names)} columns; pass a position from 0"
    )


def value_column(
    table: Table,
    id_at: int | None,
    requested: str | int | None,
    names: Collection[str],
    option: str,
    content: str,
) -> int:
    """Return the position of a column: the one asked for, of a known name, or the other of two.

    Args:
        table: The table.
        id_at: Position of the ids.
        requested: Name or position from the user.
        names: Known (plain) names.
        option: Argument that asks for it.
        content: Content of the column, for messages.
    """
    if requested is not None:
        at = position(table, requested, option)
        if at == id_at:
            raise GraphError(
                f"{argument(option, requested)}: {table.source} has its ids there; name another"
            )
        return at
    others = [at for at in range(len(table.names)) if at != id_at]
    called = [at for at in others if table.named and plain(table.names[at]) in names]
    if len(called) == 1:
        return called[0]
    if len(others) == 1 and not called:
        return others[0]
    listed = table.listed()
    if called:
        listed = "the columns " + " and ".join(repr(table.names[at]) for at in called)
    raise GraphError(
        f"{table.source} has {listed}; which one is the {content}? Pass {argument(option, ...)}"
    )


# ---- features ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """Columns chosen by name.

    Attributes:
        names: The names, in the order of the table.
        kinds: Kinds asked for, by name.
        explicit: Names that were written out, not found by a pattern.
    """

    names: tuple[str, ...]
    kinds: dict[str, str]
    explicit: frozenset[str]


def select(names: Sequence[str], requested: str | Iterable[str] | None, source: str) -> Selection:
    """Return the columns that a list of names, patterns and exceptions asks for.

    Args:
        names: Names of the table.
        requested: Names and shell patterns; ``!name`` leaves columns out, ``name:category`` asks
            for a kind. A text is split at commas. Without a name or pattern all are taken.
        source: The table, for messages.

    Example:
        >>> select(["gene_a", "gene_b", "age", "zip"], "gene_*,zip:category,!gene_b", "x.csv").names
        ('gene_a', 'zip')
    """
    if requested is None:
        return Selection(tuple(names), {}, frozenset())
    parts = requested.split(",") if isinstance(requested, str) else [str(one) for one in requested]
    known = set(names)
    wanted: set[str] = set()
    unwanted: set[str] = set()
    kinds: dict[str, str] = {}
    explicit: set[str] = set()
    items = [part.strip() if isinstance(requested, str) else part for part in parts]
    only_exceptions = all(item.startswith("!") and item not in known for item in items if item)
    for item in (item for item in items if item):
        pattern, kind = item, ""
        if item not in known:
            head, _, tail = item.rpartition(":")
            pattern, kind = (head, tail) if head and tail in KINDS else (item, "")
        leave = pattern.startswith("!") and pattern not in known
        pattern = pattern[1:] if leave else pattern
        matched = [pattern] if pattern in known else [n for n in names if fnmatchcase(n, pattern)]
        if not matched:
            hint = name_hint(pattern, names, f"its columns are {', '.join(names[:12])}")
            raise GraphError(
                f"{argument('feature_columns')} names {pattern!r}, but {source} has no such "
                f"column; {hint}"
            )
        (unwanted if leave else wanted).update(matched)
        kinds.update(dict.fromkeys(matched, kind) if kind else {})
        explicit.update([pattern] if pattern in known else [])
    if only_exceptions:
        wanted = set(names)
    chosen = tuple(name for name in names if name in wanted and name not in unwanted)
    if not chosen:
        raise GraphError(
            f"{argument('feature_columns')} leaves no column of {source}; name at least one"
        )
    return Selection(chosen, kinds, frozenset(explicit))
