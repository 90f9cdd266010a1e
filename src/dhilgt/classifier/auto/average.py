"""Which candidates to average: those that validation nodes cannot tell from the best one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dhilgt.metrics import Metric

STANDARD_ERRORS = 2.0
_NUM_RESAMPLES = 100
_MOST_NODES = 20_000  # of validation, for the time of the resamples
_SMALLEST = np.finfo(np.float32).tiny


def level(
    shares: Mapping[str, NDArray[np.float32]],
    truth: NDArray[np.int64],
    metric: Metric | None,
    winner: str,
) -> list[str]:
    """Return the candidates to average: the winner, and those not clearly worse than it.

    A candidate is clearly worse where the winner's lead is more than two standard errors. The
    standard error is the deviation of the lead over resamples of the validation nodes, so that it
    holds for any metric, and models that err on the same nodes are told apart by few of them. All
    have the same weight: nothing is fitted to the nodes of validation but the choice.

    Args:
        shares: Class probabilities of the validation nodes by each candidate, the mean of its
            seeds.
        truth: Their classes.
        metric: What the search goes by; None for the loss.
        winner: The candidate that won.

    Example:
        >>> truth = np.arange(100) % 2
        >>> right = np.float32(np.eye(2)[truth]) * 0.8 + np.float32(0.1)
        >>> level({"a": right, "b": right[::-1], "c": right}, truth, None, "a")
        ['a', 'c']
    """
    num_nodes = min(len(truth), _MOST_NODES)
    rng = np.random.default_rng(0)
    nodes = rng.permutation(len(truth))[:num_nodes]
    resamples = [nodes, *(rng.choice(nodes, num_nodes) for _ in range(_NUM_RESAMPLES))]
    best = _scores(shares[winner], truth, metric, resamples)
    kept = [winner]
    for name in shares:
        if name != winner:
            lead = best - _scores(shares[name], truth, metric, resamples)
            if lead[0] <= STANDARD_ERRORS * np.nanstd(lead[1:]):
                kept.append(name)
    return kept


def _scores(
    shares: NDArray[np.float32],
    truth: NDArray[np.int64],
    metric: Metric | None,
    resamples: list[NDArray[np.int64]],
) -> NDArray[np.float64]:
    """Return the score on each sample of nodes, such that higher is better."""
    if metric is None:
        return np.array([-mean_loss(shares[at], truth[at]) for at in resamples])
    logits = np.log(np.maximum(shares, _SMALLEST))
    sign = 1 if metric.higher_is_better else -1
    return np.array([sign * float(metric(truth[at], logits[at])) for at in resamples])


def mean_loss(shares: NDArray[np.float32], truth: NDArray[np.int64]) -> float:
    """Return the mean cross-entropy of class probabilities.

    Example:
        >>> round(mean_loss(np.float32([[0.5, 0.5]]), np.array([1])), 4)
        0.6931
    """
    own = shares[np.arange(len(truth)), truth].astype(np.float64)
    return float(-np.log(np.maximum(own, _SMALLEST)).mean())
