"""Columns and cells of tables: ids, values, numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dhilgt.errors import GraphError

ID_NAMES = {"id", "ids", "node", "nodes", "nodeid", "index", "name", "vertex", "key"}


def plain(name: str) -> str:
    """Return the name of a column as it is compared: lower case, underscores for blanks."""
    return name.strip().lower().replace(" ", "_")


def is_id_name(name: str) -> bool:
    """Return whether a column of this (plain) name holds ids."""
    return name in ID_NAMES or name.endswith("_id")


def is_whole(text: str) -> bool:
    """Return whether a field is a whole number, written as such or like 7.0."""
    digits = text.removeprefix("-").removesuffix(".0")
    return digits.isascii() and digits.isdigit()


def is_number(text: str) -> bool:
    """Return whether a field is a number, with a decimal point or comma.

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
    """Return the number in a field, with a decimal point or comma."""
    return float(text.replace(",", ".", 1))


def value_or_none(cell: Any) -> Any:
    """Return a cell, None if it is empty."""
    if cell is None or cell != cell or (isinstance(cell, str) and cell.lower() in ("", "nan")):
        return None
    return cell


def id_column(file: Path, header: Sequence[str] | None) -> int:
    """Return the position of the ids: the first column, unless the header names another."""
    if header is None or not header[0]:  # some programs write no name above row names
        return 0
    candidates = [at for at, name in enumerate(header) if is_id_name(plain(name))]
    if not candidates:
        shown = ", ".join(header[:6]) + (", ..." if len(header) > 6 else "")
        raise GraphError(
            f"{file} has no column of ids (its columns are {shown}); call the one that holds them "
            "'id' or 'node'"
        )
    exact = [at for at in candidates if plain(header[at]) in ID_NAMES]
    return 0 if 0 in candidates else (exact or candidates)[0]


def value_column(
    file: Path, header: Sequence[str] | None, width: int, id_at: int, names: set[str], content: str
) -> int:
    """Return the position of the column with one of some (plain) names, or the other of two."""
    if header is not None:
        for position, name in enumerate(header):
            if position != id_at and plain(name) in names:
                return position
    if width == 2:
        return 1 - id_at
    shown = f"{width} columns" if header is None else f"the columns {', '.join(header[:6])}"
    raise GraphError(
        f"{file} has {shown}; which one is the {content}? Call it {sorted(names)[0]!r} in a "
        "header, or keep two columns"
    )
