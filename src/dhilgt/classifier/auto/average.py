"""Which trained models to average: chosen one by one on the nodes of validation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhilgt.classifier.members import mean
from dhilgt.metrics import Metric

MOST_MEMBERS = 5
_SMALLEST = np.finfo(np.float32).tiny


def chosen(
    shares: Sequence[NDArray[np.float32]],
    truth: NDArray[np.int64],
    metric: Metric | None,
    winners: Sequence[int],
    most: int = MOST_MEMBERS,
) -> list[int]:
    """Return the places of the models to average, the first one first.

    All seeds of the winner are averaged: the best of a few seeds is mostly the luckiest one, and an
    average never has a higher loss than its parts have in the mean. A model of another candidate is
    added only where the average then has a lower loss and no worse score; of those that qualify the
    one with the best score, and of these the lowest loss. All have the same weight, so that nothing
    is fitted to the nodes of validation but the choice.

    Args:
        shares: Class probabilities of the validation nodes by each model.
        truth: Their classes.
        metric: What the search goes by; None for the loss alone.
        winners: The models of the candidate that won, one for each seed.
        most: The most models.

    Example:
        >>> right, wrong = np.float32([[0.9, 0.1]]), np.float32([[0.2, 0.8]])
        >>> chosen([right, wrong, right + 0.05], np.array([0]), None, winners=[0])
        [0, 2]
    """
    alone = {place: _key(shares[place], truth, metric) for place in winners}
    places = sorted(winners, key=lambda place: alone[place])[:most]
    best = _key(mean([shares[place] for place in places]), truth, metric)
    while len(places) < most:
        tried = {
            place: _key(mean([shares[one] for one in (*places, place)]), truth, metric)
            for place in range(len(shares))
            if place not in places
        }
        better = {at: key for at, key in tried.items() if key[0] <= best[0] and key[1] < best[1]}
        if not better:
            break
        place = min(better, key=lambda at: (*better[at], at))
        places.append(place)
        best = better[place]
    return places


def _key(
    shares: NDArray[np.float32], truth: NDArray[np.int64], metric: Metric | None
) -> tuple[float, float]:
    """Return score and loss, both such that lower is better."""
    loss = mean_loss(shares, truth)
    if metric is None:
        return 0.0, loss
    score = float(metric(truth, np.log(np.maximum(shares, _SMALLEST))))
    return -score if metric.higher_is_better else score, loss


def mean_loss(shares: NDArray[np.float32], truth: NDArray[np.int64]) -> float:
    """Return the mean cross-entropy of class probabilities.

    Example:
        >>> round(mean_loss(np.float32([[0.5, 0.5]]), np.array([1])), 4)
        0.6931
    """
    own = shares[np.arange(len(truth)), truth].astype(np.float64)
    return float(-np.log(np.maximum(own, _SMALLEST)).mean())
