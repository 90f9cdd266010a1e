"""Figures of the pages of results, computed from the lines of the runs, as sentences."""

from functools import cache
from pathlib import Path
from typing import Any

from docs.make import lines_of

from dhilgt.benchmark import Record, Results

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


@cache
def records(name: str) -> tuple[Record, ...]:
    """Return the records of a file under docs/results."""
    return tuple(Results(RESULTS / name).lines())


@cache
def lines(name: str) -> tuple[dict[str, Any], ...]:
    """Return the lines of a file under docs/results."""
    return tuple(lines_of(RESULTS / name))


def span(values: list[float], form: str) -> str:
    """Return the least and the largest of some values.

    Example:
        >>> span([0.3, 0.11, 0.2], ".1f")
        '0.1 to 0.3'
    """
    return f"{min(values):{form}} to {max(values):{form}}"
