"""Whether the first line of edges between words is a header: nothing but its words can tell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhilgt.readers.columns import is_number
from dhilgt.readers.end_names import LIKELY, NONE, PLAIN, WEAK, likeness, words_of

_ROWS_FOR_SHAPE = 3
_ROWS_FOR_CASE = 10
_LONE_FRACTION = 0.2
_SIGNS = "@:/.-_"


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
        return looks >= LIKELY, "there is no other line"
    if found.apart:
        if looks == PLAIN:
            return None, "its words are names of columns, and occur as ids on other lines"
        return False, "its words occur on other lines"
    if found.again:
        return (None if looks >= WEAK else False), "the same line occurs again"
    if looks >= LIKELY or differs(rows, ends, sure=looks == NONE):
        return True, "its words occur on no other line"
    lone = found.lone >= _LONE_FRACTION * found.others
    if looks == WEAK:
        # In a file of single pairs, ids that occur once are nothing special.
        reason = "its words name kinds of things and occur on no other line"
        return (None if lone else True), reason
    if lone:
        return False, "ids that occur once are common in it"
    return None, "its words occur on no other line, other ids do"


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
        if likeness(row[a], row[b]) >= WEAK and [row[a], row[b]] != [full[0][a], full[0][b]]:
            return NONE
    return looks


def differs(rows: Sequence[Sequence[str]], ends: tuple[int, int], *, sure: bool) -> bool:
    """Return whether the first line is written in another way than all others.

    Numbers below a word tell, in any column; digits, signs and capitals do where both ids lack
    them.

    Args:
        rows: The fields of the first lines.
        ends: The columns of the two ids.
        sure: Ask for several other lines that agree.
    """
    others = [row for row in rows[1:] if len(row) >= len(rows[0])]
    if len(others) < (_ROWS_FOR_SHAPE if sure else 1):
        return False
    for at, field in enumerate(rows[0]):
        if not is_number(field) and all(is_number(row[at]) for row in others):
            return True
    return all(_shape_differs(rows[0][at], [row[at] for row in others]) for at in ends)


def _shape_differs(field: str, others: list[str]) -> bool:
    if any(map(str.isdigit, field)):
        return False
    if all(any(map(str.isdigit, other)) for other in others):
        return True
    if any(sign not in field and all(sign in other for other in others) for sign in _SIGNS):
        return True
    if len(others) < _ROWS_FOR_CASE:
        return False
    return any(all(map(case, others)) and not case(field) for case in (str.islower, str.isupper))
