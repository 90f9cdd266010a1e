"""Runs that learned nothing: no better than one answer for all nodes, and what to try."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dhilgt.errors import argument, setting
from dhilgt.features.scale import AUTO, NONE, FeatureScale
from dhilgt.metrics import METRICS, constant_score

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_FEWEST_EPOCHS = 5  # fewer are a trial of the settings, of which nobody expects a score
_HIGH_RATE = 1e-2
_UNBALANCED = 0.8


def majority_note(clf: NodeClassifier) -> str:
    """Return what to try after a run that is no better than one answer for all nodes; else "".

    The nodes of validation decide, those of training where there are none. Runs of fewer than five
    epochs, and nodes of one class, say nothing.

    Args:
        clf: A fitted classifier.
    """
    settings, labels = clf.settings_, clf.graph_.labels
    part = "val" if "val" in clf.split_ else "train"
    score = clf.scores_.get(part, {}).get(settings.metric, math.nan)
    assert labels is not None, "it was trained on them"
    truth, train = labels[clf.split_[part]], labels[clf.split_["train"]]
    one_answer = constant_score(settings.metric, truth, train, len(clf.classes_))
    if settings.epochs < _FEWEST_EPOCHS or math.isnan(score) or math.isnan(one_answer):
        return ""
    if len(np.unique(truth)) < 2 or METRICS[settings.metric].better(score, one_answer):
        return ""
    counts = np.bincount(train, minlength=len(clf.classes_))
    common = clf.classes_[int(counts.argmax())].item()
    nodes = "validation" if part == "val" else "training"
    return (
        f"the model has learned nothing: {settings.metric} of {score:.4f} on the {nodes} nodes, "
        f"where one answer for all of them (the most common class: {common!r}) has "
        f"{one_answer:.4f}; {_advice(clf, counts.max() / counts.sum())}"
    )


def _advice(clf: NodeClassifier, share: float) -> str:
    """Return what to try, the most likely reason first."""
    settings, tries = clf.settings_, []
    if settings.feature_scale == NONE:
        summary = FeatureScale.fit(clf.graph_.features, AUTO).summary()
        if summary:
            tries.append(f"scale the features with {argument('feature_scale', AUTO)}")
    if settings.lr >= _HIGH_RATE:
        tries.append(f"lower the learning rate ({setting('lr', settings.lr)})")
    else:
        tries.append(
            f"train for more epochs ({setting('epochs', settings.epochs)}) or at another learning "
            f"rate ({setting('lr', settings.lr)})"
        )
    if share > _UNBALANCED and settings.metric == "accuracy":
        tries.append(
            f"choose epochs by {argument('metric', 'macro_f1')}, as {share:.0%} of the training "
            "nodes are of one class"
        )
    tries.append("check that the features, or the neighbours, tell the classes apart")
    return ", or ".join(tries)
