"""What predictions are worth, counted in plain NumPy.

Classes are whole numbers from 0; a share that would be divided by nothing is NaN, never 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.metrics import to_numpy

_NORMAL_95 = 1.959963984540054  # 97.5 % of a normal distribution lies below


@dataclass(frozen=True)
class ClassScores:
    """How well each class is found; arrays with one number per class.

    Attributes:
        precision: Share of right ones among the nodes predicted as the class; NaN if none was.
        recall: Share of the class's nodes that were found; NaN if it has none.
        f1: Their harmonic mean; NaN if the class neither occurs nor was predicted.
        support: Nodes of the class.
        predicted: Nodes predicted as the class.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    support: NDArray[np.int64]
    predicted: NDArray[np.int64]


@dataclass(frozen=True)
class Calibration:
    """How well the probability of the predicted class tells the chance that it is right.

    Attributes:
        edges: Bounds of the bins, one more than bins.
        count: Nodes in each bin.
        confidence: Mean probability in each bin; NaN in empty ones.
        accuracy: Share of right nodes in each bin; NaN in empty ones.
        error: The expected calibration error: mean distance of the two, weighted by nodes; NaN
            without nodes.
    """

    edges: NDArray[np.float64]
    count: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    error: float


@dataclass(frozen=True)
class Interval:
    """A range that holds the true score in 95 of 100 such samples of nodes.

    Attributes:
        low: Its lower end; NaN if undefined.
        high: Its upper end.
        method: "Wilson" or "bootstrap".
    """

    low: float
    high: float
    method: str


def confusion_matrix(truth: Any, predicted: Any, num_classes: int) -> NDArray[np.int64]:
    """Gives the numbers of nodes by class, [true, predicted].

    Args:
        truth: True classes.
        predicted: Predicted classes.
        num_classes: Number of classes.

    Example:
        >>> confusion_matrix([0, 0, 1], [0, 1, 1], 2).tolist()
        [[1, 1], [0, 1]]
    """
    rows, columns = _classes(truth, "truth"), _classes(predicted, "predicted")
    if len(rows) != len(columns):
        raise ValueError(f"{len(rows)} true and {len(columns)} predicted classes; pass one of each")
    for name, values in (("truth", rows), ("predicted", columns)):
        for at in np.flatnonzero((values < 0) | (values >= num_classes))[:1]:
            raise ValueError(f"{name}[{at}] = {values[at]} is none of the {num_classes} classes")
    flat = np.bincount(rows * num_classes + columns, minlength=num_classes * num_classes)
    return flat.reshape(num_classes, num_classes).astype(np.int64)


def class_scores(confusion: Any) -> ClassScores:
    """Gives precision, recall and F1 of each class.

    Args:
        confusion: As `confusion_matrix` gives it.

    Example:
        >>> class_scores([[1, 1], [0, 1]]).recall.tolist()
        [0.5, 1.0]
    """
    matrix = np.asarray(confusion, dtype=np.int64)
    right = matrix.diagonal().astype(np.float64)
    support, predicted = matrix.sum(axis=1), matrix.sum(axis=0)
    return ClassScores(
        precision=_share(right, predicted),
        recall=_share(right, support),
        f1=_share(2 * right, support + predicted),
        support=support,
        predicted=predicted,
    )


def calibration(truth: Any, probabilities: Any, bins: int = 10) -> Calibration:
    """Compares the probability of the predicted class with how often it is right.

    Args:
        truth: True classes, [n].
        probabilities: [n, classes].
        bins: Number of equally wide bins between 0 and 1; a bound belongs to the bin below it.

    Example:
        >>> found = calibration([0, 0, 1, 0], [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
        >>> found.count[8], found.accuracy[8], round(found.error, 3)
        (np.int64(4), np.float64(0.75), 0.15)
    """
    values = to_numpy(probabilities).astype(np.float64)
    classes = _classes(truth, "truth")
    if values.ndim != 2 or len(values) != len(classes):
        raise ValueError(f"{len(classes)} classes for probabilities of shape {values.shape}")
    edges = np.arange(bins + 1) / bins
    sure = values.max(axis=1, initial=0.0)
    # Single precision leaves sums a hair above 1.
    place = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    right = values.argmax(axis=1) == classes if len(values) else np.zeros(0, np.bool_)
    count = np.bincount(place, minlength=bins).astype(np.int64)
    confidence = _share(np.bincount(place, weights=sure, minlength=bins), count)
    accuracy = _share(np.bincount(place, weights=right, minlength=bins), count)
    gaps = np.where(count > 0, np.abs(accuracy - confidence), 0.0) * count
    error = float(gaps.sum() / count.sum()) if len(values) else math.nan
    return Calibration(edges, count, confidence, accuracy, error)


def wilson_interval(right: int, count: int) -> Interval:
    """Gives the Wilson score interval of a share, which stays inside 0 to 1.

    Args:
        right: Nodes that were right.
        count: All nodes.

    Example:
        >>> found = wilson_interval(8, 10)
        >>> round(found.low, 3), round(found.high, 3)
        (0.49, 0.943)
    """
    if count == 0:
        return Interval(math.nan, math.nan, "Wilson")
    z2 = _NORMAL_95**2
    share = right / count
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    spread = math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) * _NORMAL_95
    half = spread / (1 + z2 / count)
    return Interval(max(0.0, centre - half), min(1.0, centre + half), "Wilson")


def bootstrap_interval(
    score: Callable[[NDArray[np.int64], NDArray[Any]], float],
    truth: NDArray[np.int64],
    outputs: NDArray[Any],
    *,
    seed: int = 0,
) -> Interval:
    """Gives the middle 95 % of a score over samples of the nodes, drawn with replacement.

    Samples on which the score is undefined are left out. There are 1,000 samples, and fewer, at
    least 100, where there are more than 20,000 nodes.

    Args:
        score: Takes classes and outputs.
        truth: True classes, [n].
        outputs: What the score needs beside them, [n, ...].
        seed: Of the draws.
    """
    count = len(truth)
    if count == 0:
        return Interval(math.nan, math.nan, "bootstrap")
    rng = np.random.Generator(np.random.PCG64(seed))
    found = []
    for _ in range(min(1000, max(100, 20_000_000 // count))):
        drawn = rng.integers(0, count, count)
        found.append(float(score(truth[drawn], outputs[drawn])))
    values = np.array(found)
    values = values[np.isfinite(values)]
    if not values.size:
        return Interval(math.nan, math.nan, "bootstrap")
    low, high = np.quantile(values, (0.025, 0.975))
    return Interval(float(low), float(high), "bootstrap")


def most_confused(confusion: Any, most: int) -> NDArray[np.int64]:
    """Gives the classes with the most mistakes, as true or as predicted class, in class order.

    Args:
        confusion: As `confusion_matrix` gives it.
        most: How many at most.

    Example:
        >>> most_confused([[9, 0, 0], [0, 5, 2], [0, 1, 4]], 2).tolist()
        [1, 2]
    """
    matrix = np.asarray(confusion, dtype=np.int64)
    mistakes = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * matrix.diagonal()
    first = np.argsort(-mistakes, kind="stable")[:most]
    return np.sort(first)


def folded(confusion: Any, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Gives the matrix of some classes, all others added up in a last row and column.

    Args:
        confusion: As `confusion_matrix` gives it.
        kept: The classes to keep apart.

    Example:
        >>> folded([[9, 0, 1], [0, 5, 2], [0, 1, 4]], np.array([0])).tolist()
        [[9, 1], [0, 12]]
    """
    matrix = np.asarray(confusion, dtype=np.int64)
    place = np.full(len(matrix), len(kept))
    place[kept] = np.arange(len(kept))
    out = np.zeros((len(kept) + 1, len(kept) + 1), np.int64)
    np.add.at(out, (place[:, None], place[None, :]), matrix)
    return out


def _share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    out = np.full(len(whole), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out


def _classes(values: Any, name: str) -> NDArray[np.int64]:
    array = to_numpy(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "biu"):
        raise ValueError(f"{name} is {array.dtype} {array.shape}; pass whole class numbers, (n,)")
    return array.astype(np.int64)
