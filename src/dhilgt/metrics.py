"""Scores of predictions, equal to scikit-learn's, in plain NumPy.

Labels are classes, (n,) integers; logits are (n, classes). Torch tensors are accepted too.
A score that is undefined is NaN with a note that gives the reason; it is never 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.utils.checks import name_hint


class Score(float):
    """A number with a note: why it is undefined (NaN), or what was left out.

    Example:
        >>> Score(float("nan"), "all labels are 1").note
        'all labels are 1'
        >>> Score(0.5) + 0.25, Score(0.5).note
        (0.75, '')
    """

    note: str

    def __new__(cls, value: float, note: str = "") -> "Score":
        """Make a number with a note."""
        score = super().__new__(cls, value)
        score.note = note
        return score

    def __reduce__(self) -> tuple[type["Score"], tuple[float, str]]:
        return Score, (float(self), self.note)

    @property
    def defined(self) -> bool:
        """Whether there is a number."""
        return self == self


@dataclass(frozen=True)
class Metric:
    """A score by name.

    Attributes:
        name: Its name in settings.
        function: Takes labels and logits.
        higher_is_better: Whether a larger score is a better one, for early stopping.

    Example:
        >>> metric("accuracy")([0, 1], [[0.2, 0.1], [0.0, 3.0]])
        1.0
    """

    name: str
    function: Callable[[Any, Any], Score]
    higher_is_better: bool = True

    def __call__(self, labels: Any, logits: Any) -> Score:
        """Return the score of logits."""
        return self.function(labels, logits)

    def better(self, new: float, old: float | None) -> bool:
        """Return whether a score beats another; an undefined score is worse than any other."""
        if new != new:
            return False
        if old is None or old != old:
            return True
        return new > old if self.higher_is_better else new < old


def metric(name: "str | Metric") -> Metric:
    """Return a metric by name.

    Args:
        name: One of `METRICS`; a `Metric` is returned as it is.

    Raises:
        ValueError: If there is none of this name; the message has the nearest one.
    """
    if isinstance(name, Metric):
        return name
    if name not in METRICS:
        hint = name_hint(name, METRICS, f"there are {', '.join(METRICS)}")
        raise ValueError(f"metric {name!r} is not known; {hint}")
    return METRICS[name]


# ---- from classes and scores -------------------------------------------------------------------


def accuracy(labels: Any, predicted: Any) -> Score:
    """Return the fraction of right classes.

    Args:
        labels: True classes.
        predicted: Predicted classes.

    Example:
        >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
        0.75
    """
    truth, guess = _two_lists(labels, predicted)
    return Score(float((truth == guess).mean())) if truth.size else _nothing()


def macro_f1(labels: Any, predicted: Any) -> Score:
    """Return the mean of the F1 of each class, true or predicted.

    Args:
        labels: True classes.
        predicted: Predicted classes.

    Example:
        >>> macro_f1([0, 0, 1, 1], [0, 1, 1, 1]).__round__(4)
        0.7333
    """
    truth, guess = _two_lists(labels, predicted)
    if not truth.size:
        return _nothing()
    classes, codes = np.unique(np.concatenate([truth, guess]), return_inverse=True)
    true_codes, guess_codes = np.split(codes.reshape(-1), 2)
    right = np.bincount(true_codes[true_codes == guess_codes], minlength=len(classes))
    both = np.bincount(codes.reshape(-1), minlength=len(classes))  # true + predicted: never 0
    return Score(float((2 * right / both).mean()))


def roc_auc(labels: Any, scores: Any) -> Score:
    """Return the probability that a node of a class scores above one of another; ties count half.

    With two classes, that of class 1. With more, the mean over the classes of one against the
    rest; classes that no label has (or all have) cannot be scored, are left out and named in the
    note.

    Args:
        labels: True classes.
        scores: Those of class 1, (n,) or (n, 1); or of every class, (n, classes).

    Example:
        >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        0.75
        >>> roc_auc([1, 1], [0.1, 0.4]).note
        'ROC AUC is undefined: all 2 labels are class 1'
    """
    values = to_numpy(scores)
    if values.ndim == 2 and values.shape[1] <= 2:
        values = values[:, -1]
    if values.ndim not in (1, 2):
        raise ValueError(f"scores has shape {values.shape}; pass (n,) or (n, classes)")
    width = 2 if values.ndim == 1 else values.shape[1]
    truth = _classes(labels, len(values), width)
    if not truth.size:
        return _nothing()
    broken = _not_finite(values)
    if broken:
        return Score(np.nan, broken)
    if (truth == truth[0]).all():
        return Score(np.nan, f"ROC AUC is undefined: all {truth.size} labels are class {truth[0]}")
    if values.ndim == 1:
        return Score(_area(truth == 1, values))
    present = np.bincount(truth, minlength=width) > 0
    areas = [_area(truth == c, values[:, c]) for c in np.flatnonzero(present)]
    absent = np.flatnonzero(~present).tolist()
    note = f"classes without a label are left out: {absent}" if absent else ""
    return Score(float(np.mean(areas)), note)


def _area(positive: NDArray[np.bool_], scores: NDArray[Any]) -> float:
    """Return the area under the ROC curve as the Mann-Whitney statistic with mean ranks."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[place.reshape(-1)]
    wins, losses = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - wins * (wins + 1) / 2) / wins / losses)


# ---- from logits -------------------------------------------------------------------------------


def predicted_classes(logits: Any) -> NDArray[np.int64]:
    """Return the class with the largest logit, the first of equal ones.

    Args:
        logits: (n, classes); a single column is the logit of class 1.
    """
    values = _matrix(logits)
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(np.int64)
    classes: NDArray[np.int64] = values.argmax(axis=1).astype(np.int64)
    return classes


def class_scores(logits: Any) -> NDArray[np.float64]:
    """Return the scores for `roc_auc`: with two classes the margin of class 1, else probabilities.

    The margin orders nodes as the probability of class 1 does, and does not saturate at 1.

    Args:
        logits: (n, classes); a single column is the logit of class 1.
    """
    values = _matrix(logits)
    if values.shape[1] == 1:
        return values[:, 0]
    if values.shape[1] == 2:
        margin: NDArray[np.float64] = values[:, 1] - values[:, 0]
        return margin
    return np.exp(log_softmax(values))


def log_softmax(logits: Any) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities.

    Args:
        logits: (n, classes).
    """
    values = _matrix(logits)
    shifted = values - values.max(axis=1, keepdims=True, initial=-np.inf)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def _from_classes(score: Callable[[Any, Any], Score]) -> Callable[[Any, Any], Score]:
    def from_logits(labels: Any, logits: Any) -> Score:
        values = _matrix(logits)
        truth = _classes(labels, len(values), max(2, values.shape[1]))
        broken = _not_finite(values)
        return Score(np.nan, broken) if broken else score(truth, predicted_classes(values))

    return from_logits


def _roc_auc_from_logits(labels: Any, logits: Any) -> Score:
    values = _matrix(logits)
    broken = _not_finite(values)
    return Score(np.nan, broken) if broken else roc_auc(labels, class_scores(values))


def log_loss(labels: Any, logits: Any) -> Score:
    """Return the mean of -log of the true class's probability.

    Args:
        labels: True classes.
        logits: (n, classes).

    Example:
        >>> log_loss([0, 1], [[0.0, 0.0], [0.0, 0.0]]).__round__(4)
        0.6931
    """
    values = _matrix(logits)
    if values.shape[1] == 1:
        values = np.concatenate([np.zeros_like(values), values], 1)
    truth = _classes(labels, len(values), values.shape[1])
    if not truth.size:
        return _nothing()
    broken = _not_finite(values)
    if broken:
        return Score(np.nan, broken)
    return Score(float(-log_softmax(values)[np.arange(len(truth)), truth].mean()))


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _from_classes(accuracy)),
    "roc_auc": Metric("roc_auc", _roc_auc_from_logits),
    "macro_f1": Metric("macro_f1", _from_classes(macro_f1)),
    "log_loss": Metric("log_loss", log_loss, higher_is_better=False),
}


# ---- checks ------------------------------------------------------------------------------------


def to_numpy(values: Any) -> NDArray[Any]:
    """Return anything array-like as an array, torch tensors on any device included."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # NumPy has no such type
            values = values.float()
        values = values.numpy()
    return np.asarray(values)


def _matrix(logits: Any) -> NDArray[np.float64]:
    values = to_numpy(logits)
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"logits has shape {values.shape}; pass (n, classes)")
    return values.astype(np.float64, copy=False)


def _classes(labels: Any, count: int, width: int) -> NDArray[np.int64]:
    truth = _class_list(labels, "labels")
    if len(truth) != count:
        raise ValueError(f"{len(truth)} labels for {count} rows of scores; pass one per row")
    for at in np.flatnonzero((truth < 0) | (truth >= width))[:1]:
        raise ValueError(
            f"labels[{at}] = {truth[at]} is none of the {width} classes; leave unlabelled nodes "
            "out, or give the model more classes"
        )
    return truth


def _class_list(values: Any, name: str) -> NDArray[np.int64]:
    array = to_numpy(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or (array.size and array.dtype.kind not in "biu"):
        raise ValueError(f"{name} is {array.dtype} {array.shape}; pass whole class numbers, (n,)")
    return array.astype(np.int64)


def _two_lists(labels: Any, predicted: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    truth, guess = _class_list(labels, "labels"), _class_list(predicted, "predicted")
    if len(truth) != len(guess):
        raise ValueError(f"{len(truth)} labels for {len(guess)} predictions; pass one for each")
    return truth, guess


def _not_finite(values: NDArray[Any]) -> str:
    rows = np.unique(np.nonzero(~np.isfinite(values))[0])
    if not rows.size:
        return ""
    return f"undefined: {rows.size} of {len(values)} rows are not finite, the first is {rows[0]}"


def _nothing() -> Score:
    return Score(np.nan, "undefined: there are no nodes")


def constant_score(name: str, truth: Any, train_classes: Any, num_classes: int) -> Score:
    """Return the score of one answer for all nodes: how common each class is in training.

    By accuracy that is the score of the most common class, by ROC AUC 0.5. NaN where the metric is
    not one of this package, or not defined on these nodes.

    Args:
        name: The metric.
        truth: True classes of the nodes.
        train_classes: Classes of the training nodes; -1 for one that is not known.
        num_classes: Number of classes.

    Example:
        >>> constant_score("accuracy", [0, 0, 1, 1], [0, 0, 1], 2)
        0.5
    """
    if name not in METRICS or not len(truth):
        return Score(float("nan"), "it is not defined")
    known = to_numpy(train_classes)
    # Half a node stands for a class without any: its logarithm is finite.
    counts = np.maximum(np.bincount(known[known >= 0], minlength=num_classes), 0.5)
    answer = np.log(counts / counts.sum())
    return metric(name)(truth, np.broadcast_to(answer, (len(truth), num_classes)))
