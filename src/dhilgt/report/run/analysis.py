"""Statistics of predictions in plain NumPy.

Classes are whole numbers from 0; a fraction whose denominator is 0 is NaN, never 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.metrics import metric, to_numpy

_NORMAL_95 = 1.959963984540054  # 97.5 % of a normal distribution lies below


@dataclass(frozen=True)
class ClassScores:
    """Scores of each class; arrays with one number per class.

    Attributes:
        precision: Fraction of the nodes predicted as the class that belong to it; NaN if there are
            none.
        recall: Fraction of the nodes of the class that were predicted as it; NaN if it has none.
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
    """Agreement of the probability of the predicted class with the accuracy.

    Attributes:
        edges: Bounds of the bins, one more than bins.
        count: Nodes in each bin.
        confidence: Mean probability in each bin; NaN in empty ones.
        accuracy: Fraction of correct nodes in each bin; NaN in empty ones.
        error: The expected calibration error: mean absolute difference of the two, weighted by
            nodes; NaN without nodes.
    """

    edges: NDArray[np.float64]
    count: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    error: float


@dataclass(frozen=True)
class Interval:
    """A 95 % confidence interval of a score.

    Attributes:
        low: Its lower end; NaN if undefined.
        high: Its upper end.
        method: "Wilson" or "bootstrap".
    """

    low: float
    high: float
    method: str


def confusion_matrix(truth: Any, predicted: Any, num_classes: int) -> NDArray[np.int64]:
    """Return the number of nodes by class, [true, predicted].

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
    """Return precision, recall and F1 of each class.

    Args:
        confusion: From `confusion_matrix`.

    Example:
        >>> class_scores([[1, 1], [0, 1]]).recall.tolist()
        [0.5, 1.0]
    """
    matrix = np.asarray(confusion, dtype=np.int64)
    right = matrix.diagonal().astype(np.float64)
    support, predicted = matrix.sum(axis=1), matrix.sum(axis=0)
    return ClassScores(
        precision=_fraction(right, predicted),
        recall=_fraction(right, support),
        f1=_fraction(2 * right, support + predicted),
        support=support,
        predicted=predicted,
    )


def calibration(truth: Any, probabilities: Any, bins: int = 10) -> Calibration:
    """Compare the probability of the predicted class with the accuracy, bin by bin.

    Args:
        truth: True classes, [n].
        probabilities: [n, classes].
        bins: Number of equally wide bins between 0 and 1; a bound belongs to the bin below it.

    Example:
        >>> result = calibration([0, 0, 1, 0], [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
        >>> result.count[8], result.accuracy[8], round(result.error, 3)
        (np.int64(4), np.float64(0.75), 0.15)
    """
    values = to_numpy(probabilities).astype(np.float64)
    classes = _classes(truth, "truth")
    if values.ndim != 2 or len(values) != len(classes):
        raise ValueError(f"{len(classes)} classes for probabilities of shape {values.shape}")
    edges = np.arange(bins + 1) / bins
    top = values.max(axis=1, initial=0.0)
    # In single precision a probability can be slightly above 1.
    place = np.clip(np.searchsorted(edges, top, side="left") - 1, 0, bins - 1)
    correct = values.argmax(axis=1) == classes if len(values) else np.zeros(0, np.bool_)
    count = np.bincount(place, minlength=bins).astype(np.int64)
    confidence = _fraction(np.bincount(place, weights=top, minlength=bins), count)
    accuracy = _fraction(np.bincount(place, weights=correct, minlength=bins), count)
    gaps = np.where(count > 0, np.abs(accuracy - confidence), 0.0) * count
    error = float(gaps.sum() / count.sum()) if len(values) else math.nan
    return Calibration(edges, count, confidence, accuracy, error)


def wilson_interval(correct: int, count: int) -> Interval:
    """Return the Wilson score interval of an accuracy, which stays within 0 and 1.

    Args:
        correct: Number of correct nodes.
        count: Number of all nodes.

    Example:
        >>> interval = wilson_interval(8, 10)
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.49, 0.943)
    """
    if count == 0:
        return Interval(math.nan, math.nan, "Wilson")
    z2 = _NORMAL_95**2
    accuracy = correct / count
    centre = (accuracy + z2 / (2 * count)) / (1 + z2 / count)
    spread = math.sqrt(accuracy * (1 - accuracy) / count + z2 / (4 * count**2)) * _NORMAL_95
    half = spread / (1 + z2 / count)
    return Interval(max(0.0, centre - half), min(1.0, centre + half), "Wilson")


def bootstrap_interval(
    score: Callable[[NDArray[np.int64], NDArray[Any]], float],
    truth: NDArray[np.int64],
    outputs: NDArray[Any],
    *,
    seed: int = 0,
) -> Interval:
    """Return the middle 95 % of a score over samples of the nodes, drawn with replacement.

    Samples on which the score is undefined are left out. There are 1,000 samples; fewer, but
    at least 100, for more than 20,000 nodes.

    Args:
        score: Function of classes and outputs.
        truth: True classes, [n].
        outputs: Second argument of the score, [n, ...].
        seed: Seed of the samples.
    """
    count = len(truth)
    if count == 0:
        return Interval(math.nan, math.nan, "bootstrap")
    rng = np.random.Generator(np.random.PCG64(seed))
    scores = []
    for _ in range(min(1000, max(100, 20_000_000 // count))):
        drawn = rng.integers(0, count, count)
        scores.append(float(score(truth[drawn], outputs[drawn])))
    values = np.array(scores)
    values = values[np.isfinite(values)]
    if not values.size:
        return Interval(math.nan, math.nan, "bootstrap")
    low, high = np.quantile(values, (0.025, 0.975))
    return Interval(float(low), float(high), "bootstrap")


def paired_interval(
    name: str,
    truth: NDArray[np.int64],
    first: NDArray[Any],
    second: NDArray[Any],
) -> tuple[float, Interval]:
    """Return how much better the second scores on the same nodes, and the interval of that.

    Nodes are drawn with replacement for both at once, so that what is hard for both cancels out.

    Args:
        name: The metric.
        truth: True classes, [n].
        first: Logits of one model, [n, classes].
        second: Logits of the other.

    Example:
        >>> truth = np.array([0, 1, 1, 0])
        >>> right, wrong = np.eye(2)[truth], np.eye(2)[1 - truth]
        >>> difference, interval = paired_interval("accuracy", truth, wrong, right)
        >>> difference, interval.low, interval.high
        (1.0, 1.0, 1.0)
    """
    score = metric(name)

    def difference(classes: NDArray[np.int64], both: NDArray[Any]) -> float:
        return float(score(classes, both[:, 1])) - float(score(classes, both[:, 0]))

    both = np.stack([first, second], axis=1)  # (n, 2, C)
    return difference(truth, both), bootstrap_interval(difference, truth, both)


def most_confused(confusion: Any, most: int) -> NDArray[np.int64]:
    """Return the classes with the most mistakes, as true or as predicted class, in class order.

    Args:
        confusion: From `confusion_matrix`.
        most: Largest number of classes.

    Example:
        >>> most_confused([[9, 0, 0], [0, 5, 2], [0, 1, 4]], 2).tolist()
        [1, 2]
    """
    matrix = np.asarray(confusion, dtype=np.int64)
    mistakes = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * matrix.diagonal()
    first = np.argsort(-mistakes, kind="stable")[:most]
    return np.sort(first)


def folded(confusion: Any, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the matrix of some classes, all others added up in a last row and column.

    Args:
        confusion: From `confusion_matrix`.
        kept: The classes that keep their rows and columns.

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


def _fraction(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    out = np.full(len(whole), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out


def _classes(values: Any, name: str) -> NDArray[np.int64]:
    array = to_numpy(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "biu"):
        raise ValueError(f"{name} is {array.dtype} {array.shape}; pass whole class numbers, (n,)")
    return array.astype(np.int64)
