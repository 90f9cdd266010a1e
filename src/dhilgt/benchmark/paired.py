"""Paired statistics: what a change does to a score, over the same splits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SHARE = 0.95
DROPS, GAINS, UNSEEN, TOO_FEW = "drops", "gains", "no difference seen", "too few seeds"
_STEPS = 60  # halvings of a right angle: beyond what a float holds


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences and its confidence interval.

    Attributes:
        count: Pairs.
        mean: Of the differences.
        sd: Sample standard deviation of the differences; None of a single one.
        low: Lower end of the interval of the mean; None of a single pair.
        high: Upper end.
    """

    count: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """What was seen: an interval that holds 0 says no more than that nothing was."""
        if self.low is None or self.high is None:
            return TOO_FEW
        if self.high < 0:
            return DROPS
        return GAINS if self.low > 0 else UNSEEN


def difference(before: Sequence[float], after: Sequence[float], share: float = SHARE) -> Difference:
    """Gives the mean of ``after - before`` with its interval by the t distribution.

    Args:
        before: Scores, one per split.
        after: Scores of the same splits in the same order.
        share: How sure the interval is.

    Raises:
        ValueError: If there are no pairs, or one of a pair is missing.

    Example:
        >>> found = difference([0.80, 0.82, 0.81], [0.77, 0.80, 0.77])
        >>> f"{found.mean:.3f} ({found.low:.3f} to {found.high:.3f})", found.verdict
        ('-0.030 (-0.055 to -0.005)', 'drops')
        >>> difference([0.8], [0.9]).verdict
        'too few seeds'
    """
    gaps = [new - old for old, new in zip(before, after, strict=True)]
    if not gaps:
        raise ValueError("there are no pairs; pass at least one score of each")
    mean = statistics.fmean(gaps)
    if len(gaps) == 1:
        return Difference(1, mean, None, None, None)
    sd = statistics.stdev(gaps)
    reach = t_quantile(share, len(gaps) - 1) * sd / math.sqrt(len(gaps))
    return Difference(len(gaps), mean, sd, mean - reach, mean + reach)


def t_quantile(share: float, degrees: int) -> float:
    """Gives the t within which a share of Student's distribution lies, on both sides of 0.

    Args:
        share: Above 0 and below 1.
        degrees: Of freedom, at least 1.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> [round(t_quantile(0.95, degrees), 3) for degrees in (1, 9, 30)]
        [12.706, 2.262, 2.042]
    """
    if not 0 < share < 1 or degrees < 1:
        raise ValueError(f"share = {share}, degrees = {degrees}; pass 0 < share < 1, degrees >= 1")
    low, high = 0.0, math.pi / 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _within(middle, degrees) < share:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _within(angle: float, degrees: int) -> float:
    """Gives P(|T| < sqrt(degrees) tan(angle)): a finite sum, as the degrees are a whole number."""
    cos, sin = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cos if odd else 1.0
    total = 0.0
    for power in range(odd, degrees - 1, 2):  # powers of the cosine up to degrees - 2
        total += term
        term *= cos * cos * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sin * total) if odd else sin * total
