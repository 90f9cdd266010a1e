"""Paired statistics: the effect of a change on a score, over the same splits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dhilgt.benchmark.running import results
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.tables import NOTHING
from dhilgt.datasets.registry import names as dataset_names
from dhilgt.errors import ArtifactError

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
    """Return the mean of ``after - before`` with its interval by the t distribution.

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
    """Return the t within which a share of Student's distribution lies, on both sides of 0.

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
    """Return P(|T| < sqrt(degrees) tan(angle)): a finite sum, as the degrees are a whole number."""
    cos, sin = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cos if odd else 1.0
    total = 0.0
    for power in range(odd, degrees - 1, 2):  # powers of the cosine up to degrees - 2
        total += term
        term *= cos * cos * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sin * total) if odd else sin * total


Line = dict[str, Any]
BySeed = dict[int, Line]


def is_ours(line: Line) -> bool:
    """Return whether a line is a cell of DHIL-GT, no trial of a search, whose score says something.

    That of a stand-in for a graph says nothing.
    """
    ours = line["system"] == OURS and line["trial"] is None and not line["trials"]
    return ours and line["standin_for"] is None


def add(found: BySeed, line: Line) -> None:
    """Put a line to its seed; of two of the same settings the later counts.

    Raises:
        ArtifactError: If one with other settings is there already.
    """
    seed = line["seed"]
    if found.setdefault(seed, line)["changes"] != line["changes"]:
        raise ArtifactError(
            f"two lines of {line['data']}, seed {seed}, recipe {line['recipe']!r} have different "
            "settings; show files that were made with the same options"
        )
    found[seed] = line


def scores(lines: Mapping[int, Line]) -> dict[int, float]:
    """Return the test scores of cells that ended well, by seed in ascending order."""
    found = {}
    for seed in sorted(lines):
        line = lines[seed]
        score = line["scores"].get("test", {}).get(line["metrics"][0])
        if line["status"] == results.OK and score is not None:
            found[seed] = float(score)
    return found


def paired_difference(before: Mapping[int, Line], after: Mapping[int, Line]) -> Difference | None:
    """Return the difference over the seeds that both have scores of; None where there are none.

    Raises:
        ArtifactError: If two lines of one seed have different splits.
    """
    for seed in set(before) & set(after):
        splits = {line["split_hash"] for line in (before[seed], after[seed])} - {None}
        if len(splits) > 1:
            names = f"{before[seed]['recipe']!r} and {after[seed]['recipe']!r}"
            raise ArtifactError(
                f"{after[seed]['data']}, seed {seed}: the splits of {names} differ, so that no "
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
    found = sorted(counts)
    low, high = found[0], found[-1]
    return f"{low} to {high} seeds" if low < high else f"{high} seed{'s' if high != 1 else ''}"


def title(data: str, recipe: str) -> str:
    """Return the name of a dataset, with the recipe where it is not the paper's.

    Example:
        >>> title("cora", "paper"), title("cora", "best")
        ('cora', 'cora, recipe best')
    """
    return data if recipe == PAPER else f"{data}, recipe {recipe}"


def in_known_order(data: Iterable[str]) -> list[str]:
    """Return each dataset once, in the order of the paper, others behind.

    Example:
        >>> in_known_order(["generated:40", "cora", "chameleon", "cora"])
        ['chameleon', 'cora', 'generated:40']
    """
    known = {name: at for at, name in enumerate(dataset_names())}
    return sorted(dict.fromkeys(data), key=lambda name: known.get(name, len(known)))
