"""PyArrow's reader of separated text, used where it provably gives what the plain reader gives."""

import contextlib
import re
from typing import Any

import numpy as np

from dhilgt.graph.table import Column
from dhilgt.readers.cells import MISSING

_BLOCK_BYTES = 1 << 30  # one chunk where possible: work by column is then fast
_BLANKS = " \t"


def pyarrow_or_none() -> Any:
    """Return PyArrow with its readers, or None where it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
    except ImportError:
        return None
    return pyarrow


def read_cells(content: bytes, separator: str, width: int) -> list[Any] | None:
    """Return the columns of text as Arrow arrays of strings.

    Return None where PyArrow is missing, where the two readers could differ (odd quotes, lines
    within quotes, blank lines), and where the text has a fault, which the plain reader names.

    Args:
        content: UTF-8 rows, one a line, without a header.
        separator: One character.
        width: Number of columns.
    """
    pyarrow = pyarrow_or_none()
    if pyarrow is None or not _one_row_a_line(content, separator):
        return None
    names = [str(at) for at in range(width)]
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.BufferReader(content),
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowException:
        return None
    columns = list(table.columns)
    # A quoted cell may hold the separator itself, which is a blank in a TSV file.
    if b'"' in content or any(blank.encode() in content for blank in _BLANKS if blank != separator):
        columns = [pyarrow.compute.utf8_trim(column, _BLANKS) for column in columns]
    return None if _has_empty_row(pyarrow, columns) else columns


def _one_row_a_line(content: bytes, separator: str) -> bool:
    """Return whether lines are rows and quotes stand around whole fields only."""
    if b"\r" in content and b"\r" in content.replace(b"\r\n", b""):
        return False
    if re.search(rb"\n[ \t]*\r?\n", content):
        return False
    if b'"' not in content:
        return True
    # Outside and inside of quotes alternate; an empty outside is a doubled quote.
    pieces = content.split(b'"')
    if len(pieces) % 2 == 0 or any(b"\n" in inside for inside in pieces[1::2]):
        return False
    sign = separator.encode()
    starts, ends = (sign, b"\n", b"\r\n"), (sign, b"\n")
    outside = pieces[2:-1:2]
    return (
        (not pieces[0] or pieces[0].endswith(ends))
        and (not pieces[-1] or pieces[-1].startswith(starts))
        and all(not text or (text.startswith(starts) and text.endswith(ends)) for text in outside)
    )


def _has_empty_row(pyarrow: Any, columns: list[Any]) -> bool:
    """Return whether a row has no cell that is filled."""
    filled = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        filled |= pyarrow.compute.binary_length(column).to_numpy() > 0
        if filled.all():
            return False
    return True


def number_column(name: str, cells: Any) -> Column | None:
    """Return a column of numbers, or None where `cells.typed` has to look at it.

    Args:
        name: Name of the column.
        cells: Arrow strings.
    """
    pyarrow = pyarrow_or_none()
    missing = None
    values = _finite(pyarrow, cells)
    if values is None:  # words for missing values are no numbers
        words = pyarrow.array(sorted(MISSING), pyarrow.string())
        missing = pyarrow.compute.is_in(cells, value_set=words)
        cells = pyarrow.compute.if_else(missing, pyarrow.scalar("0", pyarrow.string()), cells)
        values = _finite(pyarrow, cells)
    # Arrow reads 0x1F and, of floats only, +1; a zero in front is a code.
    odd = pyarrow.compute.match_substring_regex(cells, r"^[+]|^-?0[0-9xX]")
    if values is None or pyarrow.compute.any(odd, min_count=0).as_py():
        return None
    if not np.mod(values, 1).any():
        with contextlib.suppress(pyarrow.ArrowException):  # 1.0, and what 64 bits cannot hold
            values = pyarrow.compute.cast(cells, pyarrow.int64()).to_numpy()
    gaps = np.zeros(len(values), np.bool_) if missing is None else missing.to_numpy()
    return Column(name, values, np.asarray(gaps, np.bool_))


def _finite(pyarrow: Any, cells: Any) -> Any:
    """Return finite floats; None if a cell is none."""
    try:
        values = pyarrow.compute.cast(cells, pyarrow.float64()).to_numpy()
    except pyarrow.ArrowException:
        return None
    return values if np.isfinite(values).all() else None
