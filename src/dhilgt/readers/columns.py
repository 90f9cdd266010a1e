"""Which column of a table is which, from the names people give them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dhilgt.errors import GraphError

ID_NAMES = {"id", "ids", "node", "nodes", "nodeid", "index", "name", "vertex", "key"}


def plain(name: str) -> str:
    """Gives a name as it is compared: lower case, no blanks."""
    return name.strip().lower().replace(" ", "_")


def is_id_name(name: str) -> bool:
    """Says whether a column of this (plain) name holds ids."""
    return name in ID_NAMES or name.endswith("_id")


def whole(text: str) -> bool:
    """Says whether a field is a whole number, written as such or like 7.0."""
    digits = text.removeprefix("-").removesuffix(".0")
    return digits.isascii() and digits.isdigit()


def cell(value: Any) -> Any:
    """Gives a cell, None where it is empty."""
    if value is None or value != value or (isinstance(value, str) and value.lower() in ("", "nan")):
        return None
    return value


def id_column(file: Path, header: Sequence[str] | None) -> int:
    """Gives the position of the ids: the first column, unless a header names another."""
    if header is None or not header[0]:  # some programs write no name above row names
        return 0
    found = [at for at, name in enumerate(header) if is_id_name(plain(name))]
    exact = [at for at in found if plain(header[at]) in ID_NAMES]
    if not found:
        shown = ", ".join(header[:6]) + (", ..." if len(header) > 6 else "")
        raise GraphError(
            f"{file} has no column of ids (its columns are {shown}); call the one that holds them "
            "'id' or 'node'"
        )
    return 0 if 0 in found else (exact or found)[0]


def value_column(
    file: Path, header: Sequence[str] | None, width: int, at: int, names: set[str], what: str
) -> int:
    """Gives the position of the column that is not the ids."""
    if header is not None:
        for position, name in enumerate(header):
            if position != at and plain(name) in names:
                return position
    if width == 2:
        return 1 - at
    shown = f"{width} columns" if header is None else f"the columns {', '.join(header[:6])}"
    raise GraphError(
        f"{file} has {shown}; which one is the {what}? Call it {sorted(names)[0]!r} in a header, "
        "or keep two columns"
    )
