"""Paired statistics: the effect of a change on a score, over the same splits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.tables import NOTHING
from dhilgt.errors import ArtifactError, DhilgtError

CONFIDENCE = 0.95
DROPS, GAINS, UNSEEN, TOO_FEW = "drops", "gains", "no difference seen", "too few seeds"
BySeed = dict[int, Record]
Key = TypeVar("Key", bound=Hashable)


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
        """In words; an interval that contains 0 only means that no difference was seen."""
        if self.low is None or self.high is None:
            return TOO_FEW
        if self.high < 0:
            return DROPS
        return GAINS if self.low > 0 else UNSEEN


def difference(
    before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE
) -> Difference:
    """Return the mean of ``after - before`` with its interval by the t distribution.

    Args:
        before: Scores, one per split.
        after: Scores of the same splits in the same order.
        confidence: Of the interval.

    Raises:
        ValueError: If there are no pairs, or one of a pair is missing.
        DhilgtError: If SciPy is not installed.

    Example:
        >>> gap = difference([0.80, 0.82, 0.81], [0.77, 0.80, 0.77])
        >>> f"{gap.mean:.3f} ({gap.low:.3f} to {gap.high:.3f})", gap.verdict
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
    reach = t_quantile(confidence, len(gaps) - 1) * sd / math.sqrt(len(gaps))
    return Difference(len(gaps), mean, sd, mean - reach, mean + reach)


def p_value(gap: Difference) -> float | None:
    """Return the two-sided p value of paired differences by the t test; None of a single pair.

    Args:
        gap: From `difference`.

    Raises:
        DhilgtError: If SciPy is not installed.

    Example:
        >>> round(p_value(difference([0.80, 0.82, 0.81], [0.77, 0.80, 0.77])), 4)
        0.0351
    """
    if gap.sd is None:
        return None
    if gap.sd == 0:  # the same difference on every split
        return 1.0 if gap.mean == 0 else 0.0
    stats = _scipy_stats()
    statistic = abs(gap.mean) / (gap.sd / math.sqrt(gap.count))
    return float(2 * stats.t.sf(statistic, gap.count - 1))


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return p values corrected for their number by Holm's method, in the same order.

    The smallest of m values is multiplied by m, the next by m - 1 and so on; none may be smaller
    than one before it, and none is above 1. A family of comparisons of which the values below a
    level are called differences has one wrong call or more with at most that probability.

    Args:
        p_values: By what they compare.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
        {'a': 0.03, 'b': 0.06, 'c': 0.06, 'd': 0.02}
    """
    corrected: dict[Key, float] = {}
    largest = 0.0
    for at, name in enumerate(sorted(p_values, key=lambda one: p_values[one])):
        largest = max(largest, min(1.0, (len(p_values) - at) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


def t_quantile(confidence: float, degrees: int) -> float:
    """Return t such that Student's distribution lies within ±t with a probability.

    Args:
        confidence: The probability, above 0 and below 1.
        degrees: Of freedom, at least 1.

    Raises:
        ValueError: If an argument is out of range.
        DhilgtError: If SciPy is not installed.

    Example:
        >>> [round(t_quantile(0.95, degrees), 3) for degrees in (1, 9, 30)]
        [12.706, 2.262, 2.042]
    """
    if not 0 < confidence < 1 or degrees < 1:
        raise ValueError(
            f"confidence = {confidence}, degrees = {degrees}; pass 0 < confidence < 1, degrees >= 1"
        )
    return float(_scipy_stats().t.ppf((1 + confidence) / 2, degrees))


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise DhilgtError(
            'confidence intervals need SciPy; install it with: pip install "dhilgt[plot]"'
        ) from error
    return stats


def is_ours(record: Record) -> bool:
    """Return whether a record is of DHIL-GT without a search, with a score of a real graph."""
    cell = record.cell
    ours = cell.system == OURS and cell.trial is None and not cell.trials
    return ours and record.standin_for is None


def add(by_seed: BySeed, record: Record) -> None:
    """Put a record under its seed; of two with the same settings the later counts.

    Raises:
        ArtifactError: If one with other settings is there already.
    """
    cell = record.cell
    if by_seed.setdefault(cell.seed, record).cell.changes != cell.changes:
        raise ArtifactError(
            f"two lines of {cell.data}, seed {cell.seed}, recipe {cell.recipe!r} have different "
            "settings; show files that were made with the same options"
        )
    by_seed[cell.seed] = record


def scores(by_seed: Mapping[int, Record]) -> dict[int, float]:
    """Return the test scores of cells trained to their end, by seed in ascending order."""
    known = {seed: by_seed[seed].test_score() for seed in sorted(by_seed) if by_seed[seed].whole}
    return {seed: float(score) for seed, score in known.items() if score is not None}


def paired_difference(
    before: Mapping[int, Record], after: Mapping[int, Record]
) -> Difference | None:
    """Return the difference over the seeds that both have scores of; None where there are none.

    Raises:
        ArtifactError: If two records of one seed have different splits.
    """
    for seed in set(before) & set(after):
        old_cell, new_cell = before[seed].cell, after[seed].cell
        if len({before[seed].split_hash, after[seed].split_hash} - {None}) > 1:
            names = f"{old_cell.recipe!r} and {new_cell.recipe!r}"
            raise ArtifactError(
                f"{new_cell.data}, seed {seed}: the splits of {names} differ, so that no "
                "difference can be taken; run both again"
            )
    old, new = scores(before), scores(after)
    pairs = [seed for seed in old if seed in new]
    return difference([old[s] for s in pairs], [new[s] for s in pairs]) if pairs else None


def difference_texts(gap: Difference | None) -> tuple[str, str, str]:
    """Return mean, interval and verdict, in points of per cent.

    Example:
        >>> difference_texts(difference([0.5, 0.6, 0.7], [0.4, 0.51, 0.6]))
        ('-9.67', '-11.10 to -8.23', 'drops')
    """
    if gap is None:
        return NOTHING, NOTHING, NOTHING
    mean = f"{100 * gap.mean:+.2f}"
    if gap.low is None or gap.high is None:
        return mean, NOTHING, gap.verdict
    return mean, f"{100 * gap.low:+.2f} to {100 * gap.high:+.2f}", gap.verdict


def seeds_text(counts: Iterable[int]) -> str:
    """Return numbers of seeds as words.

    Example:
        >>> seeds_text([1, 1]), seeds_text([10]), seeds_text([9, 10, 8])
        ('1 seed', '10 seeds', '8 to 10 seeds')
    """
    known = list(counts)
    low, high = min(known), max(known)
    return f"{low} to {high} seeds" if low < high else f"{high} seed{'s' if high != 1 else ''}"


def title(data: str, recipe: str) -> str:
    """Return the name of a dataset, with the recipe where it is not the paper's.

    Example:
        >>> title("cora", "paper"), title("cora", "best")
        ('cora', 'cora, recipe best')
    """
    return data if recipe == PAPER else f"{data}, recipe {recipe}"
