"""Whether the first line of edges between words is a header: nothing but its words can tell."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhilgt.readers.cells import is_number
from dhilgt.readers.end_names import LIKELY, NONE, PLAIN, WEAK, likeness, words_of

_ROWS_FOR_SHAPE = 3
_ROWS_FOR_CASE = 10
_LONE_FRACTION = 0.2
_SIGNS = "@:/.-_"
_DIGITS = re.compile(r"\d+")
_DIGITS_OF_IDS = 3
_SIGNS_OF_IDS = "@:/#"  # no name of a column has them


@dataclass(frozen=True)
class Occurrences:
    """Where the two words of the first line occur on the other lines.

    Attributes:
        others: Number of other lines.
        apart: Lines with at least one of the words that are not the first line again.
        again: Lines that are the first line again.
        lone: Lines whose two ids occur on no other line, as those of a header do.
    """

    others: int
    apart: int
    again: int
    lone: int

    @classmethod
    def of(cls, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> "Occurrences":
        """Return them for edges as ranks of ids; the first edge is the line in question.

        Example:
            >>> Occurrences.of(np.array([0, 2, 4], np.int32), np.array([1, 3, 3], np.int32))
            Occurrences(others=2, apart=0, again=0, lone=0)
        """
        a, b = sources[0], targets[0]
        first, second = sources[1:], targets[1:]
        again = int(((first == a) & (second == b)).sum())
        with_either = (first == a) | (first == b) | (second == a) | (second == b)
        size = int(max(first.max(initial=0), second.max(initial=0))) + 1
        counts = np.bincount(first, minlength=size) + np.bincount(second, minlength=size)
        lone = int(((counts[first] == 1) & (counts[second] == 1)).sum())
        return cls(len(first), int(with_either.sum()) - again, again, lone)


def decide(
    rows: Sequence[Sequence[str]], ends: tuple[int, int], found: Occurrences
) -> tuple[bool | None, str]:
    """Return whether the first line is a header, None where that is not plain, and the reason.

    Args:
        rows: The fields of the first lines, that in question included.
        ends: The columns of the two ids.
        found: Where its words occur.
    """
    looks = names_likeness(rows, ends)
    if found.others == 0:
        return (None if looks == LIKELY else looks == PLAIN), "there is no other line"
    if found.apart:
        if looks == PLAIN:
            return None, "its words are names of columns, and occur as ids on other lines"
        return False, "its words occur on other lines"
    if found.again:
        return (None if looks >= WEAK else False), "the same line occurs again"
    if looks >= LIKELY or differs(rows, ends, sure=looks == NONE):
        return True, "its words occur on no other line"
    # In a file of single pairs, words that occur once are nothing special.
    if looks == WEAK and found.lone < _LONE_FRACTION * found.others:
        return True, "its words occur on no other line"
    if alike(rows, ends):
        return False, "its words are written like the other ids"
    return None, "its words occur on no other line"


def names_likeness(rows: Sequence[Sequence[str]], ends: tuple[int, int]) -> int:
    """Return how much the words of the first line look like names of columns.

    They do not if those of other lines look just so: then they are ids.
    """
    a, b = ends
    full = [row for row in rows if len(row) > max(ends)]
    looks = likeness(full[0][a], full[0][b]) if full else NONE
    if looks == NONE:
        return NONE
    first = [words_of(full[0][at]) for at in ends]
    for row in full[1:]:
        other = [words_of(row[at]) for at in ends]
        if any(len(x) > 1 and x[:1] == y[:1] for x, y in zip(first, other, strict=True)):
            return NONE
        is_first = [row[a], row[b]] == [full[0][a], full[0][b]]
        has_digits = _DIGITS.search(row[a] + row[b])
        if not is_first and not has_digits and likeness(row[a], row[b]) >= looks:
            return NONE
    return looks


def differs(rows: Sequence[Sequence[str]], ends: tuple[int, int], *, sure: bool) -> bool:
    """Return whether the first line is written in another way than all others.

    Numbers below a word tell, in any column; so do digits and signs that both words lack, and, as
    a hint, capitals.

    Args:
        rows: The fields of the first lines.
        ends: The columns of the two ids.
        sure: Ask for several other lines that agree, and for more than capitals.
    """
    others = [row for row in rows[1:] if len(row) >= len(rows[0])]
    if len(others) < (_ROWS_FOR_SHAPE if sure else 1):
        return False
    for at, field in enumerate(rows[0]):
        if not is_number(field) and all(is_number(row[at]) for row in others):
            return True
    shapes_differ = all(_shape_differs(rows[0][at], [row[at] for row in others]) for at in ends)
    return shapes_differ or (not sure and _case_differs(rows[0], others, ends))


def alike(rows: Sequence[Sequence[str]], ends: tuple[int, int]) -> bool:
    """Return whether the first line is written as ids are, and names of columns are not.

    Its ids have many digits, a sign like @, or are those of other lines but for digits.
    """
    full = [row for row in rows if len(row) > max(ends)]

    def is_id(at: int) -> bool:
        field, others = full[0][at], [row[at] for row in full[1:]]
        if sum(map(str.isdigit, field)) >= _DIGITS_OF_IDS:
            return True
        if any(sign in field and all(sign in other for other in others) for sign in _SIGNS_OF_IDS):
            return True
        without_digits = _DIGITS.sub("", field)
        same = (without_digits == _DIGITS.sub("", other) for other in others)
        return without_digits != field and any(same)

    return all(map(is_id, ends))


def _shape_differs(field: str, others: list[str]) -> bool:
    if any(map(str.isdigit, field)):
        return False
    if all(any(map(str.isdigit, other)) for other in others):
        return True
    return any(sign not in field and all(sign in other for other in others) for sign in _SIGNS)


def _case_differs(
    first: Sequence[str], others: Sequence[Sequence[str]], ends: tuple[int, int]
) -> bool:
    if len(others) < _ROWS_FOR_CASE:
        return False
    ids = [row[at] for row in others for at in ends]
    return any(
        all(map(case, ids)) and not any(case(first[at]) for at in ends)
        for case in (str.islower, str.isupper)
    )
