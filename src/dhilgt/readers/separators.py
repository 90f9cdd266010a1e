"""Separators of text files: detection from the first lines, and splitting of a line."""

import csv
from collections.abc import Sequence

from dhilgt.readers.cells import is_number

SEPARATORS = (",", "\t", ";", "|", " ")
SEPARATOR_OF_FORMAT = {"csv": ",", "tsv": "\t"}
LINES_TO_SNIFF = 20
_SYMBOLS = ("\t", ";", "|", ",")  # a comma may be a decimal one, so it is tried last


def find_separator(lines: Sequence[str], *, one_column: bool) -> str:
    """Return the separator of the first lines of a file; " " stands for any run of blanks.

    One damaged line does not hide the separator of the others: it is reported when it is read.

    Args:
        lines: Lines of data, at least one.
        one_column: Whether a line may be a single field; "" is returned for such lines.

    Example:
        >>> find_separator(["ann;0,5", "bob;0,7"], one_column=True)
        ';'
    """
    widths = {s: [len(split_fields(line, s)) for line in lines] for s in (*_SYMBOLS, " ")}
    for separator in _SYMBOLS:
        if widths[separator][0] > 1 and len(set(widths[separator])) == 1:
            return separator
    if one_column:
        if _are_columns_of_numbers([line.split() for line in lines]):
            return " "
        del widths[" "]
    counts = {s: sum(width > 1 for width in widths[s]) for s in widths}
    best = max(counts, key=counts.__getitem__)
    if one_column:
        return best if 2 * counts[best] > len(lines) else ""
    return best if counts[best] else " "


def _are_columns_of_numbers(rows: list[list[str]]) -> bool:
    """Return whether rows of words are columns rather than names of several words."""
    if len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        return False
    return all(is_number(row[0]) or is_number(row[-1]) for row in rows[1:] or rows)


def split_fields(line: str, separator: str) -> list[str]:
    """Return the fields of a line without quotes; "" as separator stands for a single field."""
    if not separator:
        return [line.strip().strip('"')]
    is_blank = separator == " "
    if is_blank and '"' not in line:
        return line.split()
    text = line.replace("\t", " ").strip() if is_blank else line
    try:
        fields = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a field of absurd length: reported by its reader as too few fields
        return [text]
    return [field.strip() for field in fields if field or not is_blank]
