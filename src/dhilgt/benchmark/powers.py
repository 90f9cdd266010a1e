"""The power of a size that a figure grows with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_FEWEST = 3  # points of a fit with an error


@dataclass(frozen=True)
class Power:
    """The fit y = a x^exponent.

    Attributes:
        exponent: Of the size.
        error: Its standard error; None where two points leave none to be seen.
        points: Number of points.
    """

    exponent: float
    error: float | None
    points: int

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{round(self.exponent, 2) + 0.0:.2f}{error}"  # no minus before a zero


def fit(sizes: Sequence[float], values: Sequence[float]) -> Power | None:
    """Fits a power by least squares on logarithms, over the larger half of the sizes.

    Small sizes hide behind what any size costs. Three points are taken at least, if there are.

    Args:
        sizes: Above 0.
        values: Above 0, one for each size.

    Returns:
        The fit; None if there are fewer than two different sizes.

    Example:
        >>> str(fit([1, 10, 100, 1000], [9, 3.0, 30.0, 300.0]))
        '1.00 ± 0.00'
    """
    pairs = sorted(zip(sizes, values, strict=True))
    pairs = pairs[-max(_FEWEST, math.ceil(len(pairs) / 2)) :]
    if len({size for size, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    if len(pairs) < _FEWEST:
        return Power(slope, None, len(pairs))
    rest = y - y.mean() - slope * x
    error = math.sqrt(float(rest @ rest) / (len(pairs) - 2) / float(x @ x))
    return Power(slope, error, len(pairs))
