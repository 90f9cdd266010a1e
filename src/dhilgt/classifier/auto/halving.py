"""Successive halving: how long candidates are trained, and which of them go on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

FACTOR = 3
_NUM_RUNGS = 3
FINALISTS = 3


def rungs(epochs: int) -> tuple[int, ...]:
    """Return the epochs at which candidates are compared; the last is the end of the training.

    Example:
        >>> rungs(270), rungs(5), rungs(1)
        ((30, 90, 270), (1, 2, 5), (1,))
    """
    parts = (max(1, round(epochs / FACTOR**at)) for at in range(_NUM_RUNGS))
    return tuple(sorted(set(parts)))


def mean_score(scores: Sequence[float]) -> float:
    """Return the score of a candidate: the mean over its seeds."""
    return statistics.fmean(scores)


def ranked(scores: Mapping[str, float], *, higher_is_better: bool) -> list[str]:
    """Return names from best to worst; equal scores stay in the order passed.

    Example:
        >>> ranked({"plain": 0.5, "deep": 0.7, "wide": 0.7}, higher_is_better=True)
        ['deep', 'wide', 'plain']
    """
    sign = -1 if higher_is_better else 1
    return sorted(scores, key=lambda name: sign * scores[name])  # sorting is stable


def num_survivors(count: int) -> int:
    """Return how many of some candidates go on.

    Example:
        >>> num_survivors(9), num_survivors(3), num_survivors(1)
        (3, 3, 1)
    """
    return min(count, max(FINALISTS, math.ceil(count / FACTOR)))


def survivors(scores: Mapping[str, float], *, higher_is_better: bool) -> list[str]:
    """Return who goes on to the next rung, in the order passed: a third, but at least three.

    Three, because an average of the best is often better than the best one.

    Example:
        >>> survivors({"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.0}, higher_is_better=True)
        ['a', 'b', 'c']
    """
    count = num_survivors(len(scores))
    best = set(ranked(scores, higher_is_better=higher_is_better)[:count])
    return [name for name in scores if name in best]


def most_epochs(
    num_candidates: int,
    num_seeds: int,
    plan: Sequence[int],
    extra: int = 0,
    last_seeds: int | None = None,
) -> int:
    """Return the epochs of a whole search, where no training stops early.

    Args:
        num_candidates: Candidates of the first rung.
        num_seeds: Trainings of each.
        plan: The `rungs`.
        extra: Candidates that are trained to the end although they lost.
        last_seeds: Trainings of each candidate of the last rung; None for as many as before.

    Example:
        >>> most_epochs(6, 1, (30, 90, 270))
        900
    """
    alive, before, total, finalists = num_candidates, 0, 0, 0
    for until in plan:
        total += min(num_candidates, alive + extra) * (until - before)
        finalists, alive, before = alive, num_survivors(alive), until
    further = finalists * max(0, (last_seeds or 0) - num_seeds)
    return total * num_seeds + further * plan[-1]
