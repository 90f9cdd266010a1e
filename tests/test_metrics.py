"""Scores against scikit-learn, and what happens where there is none."""

import json
import math
import pickle

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dhilgt.metrics import (
    METRICS,
    Metric,
    Score,
    accuracy,
    class_scores,
    log_loss,
    log_softmax,
    macro_f1,
    metric,
    predicted_classes,
    roc_auc,
)


@st.composite
def class_pairs(draw):
    n, classes = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    numbers = hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1))
    return draw(numbers), draw(numbers)


@st.composite
def scored(draw, classes):
    n = draw(st.integers(2, 40))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    # Few values: many ties.
    values = draw(hnp.arrays(np.float64, (n, classes), elements=st.integers(-3, 3).map(float)))
    return labels, values * draw(st.sampled_from([1.0, 0.3, 1e-3]))


@given(class_pairs())
def test_accuracy_and_macro_f1_are_those_of_scikit_learn(pair):
    labels, predicted = pair
    assert accuracy(labels, predicted) == pytest.approx(sk.accuracy_score(labels, predicted))
    assert macro_f1(labels, predicted) == pytest.approx(
        sk.f1_score(labels, predicted, average="macro"), abs=1e-9
    )


@given(scored(2))
def test_binary_area_is_that_of_scikit_learn_with_ties(case):
    labels, values = case
    found = roc_auc(labels, values)
    if len(set(labels.tolist())) == 1:
        assert math.isnan(found)
        assert f"class {labels[0]}" in found.note
        return
    wanted = sk.roc_auc_score(labels, values[:, 1])
    assert found == pytest.approx(wanted, abs=1e-9)
    assert roc_auc(labels, values[:, 1]) == found
    assert roc_auc(labels, values[:, 1:]) == found
    assert found.note == ""


@settings(max_examples=200)
@given(st.integers(3, 5).flatmap(scored))
def test_area_of_many_classes_is_that_of_scikit_learn(case):
    labels, logits = case
    width = logits.shape[1]
    probabilities = np.exp(log_softmax(logits))
    found = METRICS["roc_auc"](labels, logits)
    present = sorted(set(labels.tolist()))
    if len(present) == 1:
        assert math.isnan(found)
        assert found.note
    elif len(present) == width:
        wanted = sk.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
        assert found == pytest.approx(wanted, abs=1e-6)
        assert found.note == ""
    else:
        each = [sk.roc_auc_score(labels == c, probabilities[:, c]) for c in present]
        assert found == pytest.approx(np.mean(each), abs=1e-6)
        assert str([c for c in range(width) if c not in present]) in found.note


@given(st.integers(2, 5).flatmap(scored))
def test_log_loss_is_that_of_scikit_learn(case):
    labels, logits = case
    probabilities = np.exp(log_softmax(logits))
    wanted = sk.log_loss(labels, probabilities, labels=range(logits.shape[1]))
    assert log_loss(labels, logits) == pytest.approx(wanted, abs=1e-6)


def test_a_large_case_is_that_of_scikit_learn_to_1e_6():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 20_000)
    logits = rng.normal(size=(20_000, 10)).astype(np.float32).round(1)
    logits[np.arange(20_000), labels] += 1
    guess = logits.argmax(1)
    found = {name: METRICS[name](labels, logits) for name in METRICS}
    chances = np.exp(log_softmax(logits))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, guess), abs=1e-6)
    assert found["macro_f1"] == pytest.approx(sk.f1_score(labels, guess, average="macro"), abs=1e-6)
    wanted = sk.roc_auc_score(labels, chances, multi_class="ovr")
    assert found["roc_auc"] == pytest.approx(wanted, abs=1e-6)
    assert found["log_loss"] == pytest.approx(sk.log_loss(labels, chances), abs=1e-6)


def test_sure_predictions_keep_their_order():
    labels, logits = [0, 1, 1], [[0.0, 800.0], [0.0, 900.0], [0.0, 1000.0]]
    assert METRICS["roc_auc"](labels, logits) == 1.0  # their probabilities are all 1


@pytest.mark.parametrize("name", METRICS)
def test_undefined_is_said_and_is_never_zero(name):
    nothing = METRICS[name](np.empty(0, np.int64), np.empty((0, 3)))
    assert math.isnan(nothing)
    assert "no nodes" in nothing.note
    broken = METRICS[name]([0, 1, 2], [[0.0, 1, 2], [0.0, np.nan, 1], [0.0, 1, 2]])
    assert math.isnan(broken)
    assert "1 of 3 rows" in broken.note
    assert "first is 1" in broken.note
    assert not broken.defined


@pytest.mark.parametrize("name", METRICS)
def test_tensors_and_half_precision_are_taken(name):
    labels, logits = [0, 1, 1, 0], [[1.0, 0.5], [0.0, 2.0], [0.5, 0.25], [0.25, 1.0]]
    wanted = METRICS[name](labels, logits)
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        tensor = torch.tensor(logits, dtype=kind, requires_grad=True)
        assert METRICS[name](torch.tensor(labels), tensor) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("labels", "logits", "said"),
    [
        ([0, 3], [[0.0, 1], [1, 0]], r"labels\[1\] = 3 is none of the 2 classes"),
        ([-1, 0], [[0.0, 1], [1, 0]], r"labels\[0\] = -1"),
        ([0], [[0.0, 1], [1, 0]], "1 labels for 2 rows"),
        ([0.5, 1.0], [[0.0, 1], [1, 0]], "labels is float64"),
        ([0, 1], [0.0, 1.0], r"logits has shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("name", METRICS)
def test_bad_input_is_refused(name, labels, logits, said):
    with pytest.raises(ValueError, match=said):
        METRICS[name](labels, logits)


def test_names():
    assert metric("accuracy") is METRICS["accuracy"]
    own = Metric("mine", lambda labels, logits: Score(1.0))
    assert metric(own) is own
    with pytest.raises(ValueError, match="did you mean 'accuracy'"):
        metric("acuracy")
    with pytest.raises(ValueError, match="there are accuracy, roc_auc"):
        metric("zzz")
    assert METRICS["roc_auc"].higher_is_better
    assert not METRICS["log_loss"].higher_is_better


def test_better():
    up, down, nan = METRICS["accuracy"], METRICS["log_loss"], float("nan")
    assert up.better(0.2, None)
    assert up.better(0.2, 0.1)
    assert not up.better(0.1, 0.1)
    assert down.better(0.1, 0.2)
    assert not up.better(nan, 0.1)
    assert not up.better(nan, None)
    assert up.better(0.0, nan)


def test_a_score_is_a_number_that_keeps_its_note():
    score = Score(0.25, "why")
    assert json.dumps({"score": score}) == '{"score": 0.25}'
    again = pickle.loads(pickle.dumps(score))
    assert (again, again.note) == (0.25, "why")


def ogb_eval(kind, columns):
    """The checks and the formula of OGB's node evaluator."""
    y_true, y_pred = columns["y_true"], columns["y_pred"]
    assert isinstance(y_true, np.ndarray)
    assert isinstance(y_pred, np.ndarray)
    assert y_true.shape == y_pred.shape
    assert y_true.ndim == 2
    if kind == "acc":
        return np.mean([(t == p).mean() for t, p in zip(y_true.T, y_pred.T, strict=True)])
    areas = [
        sk.roc_auc_score(t, p)
        for t, p in zip(y_true.T, y_pred.T, strict=True)
        if (t == 1).any() and (t == 0).any()
    ]
    return np.mean(areas)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_scores_are_those_of_ogb(classes):
    rng = np.random.default_rng(2)
    labels, logits = rng.integers(0, max(2, classes), 60), rng.normal(size=(60, classes))
    columns = {"y_true": labels[:, None], "y_pred": predicted_classes(logits)[:, None]}
    assert ogb_eval("acc", columns) == pytest.approx(METRICS["accuracy"](labels, logits), abs=1e-9)
    columns["y_pred"] = class_scores(logits).reshape(60, -1)
    if classes > 2:  # one column per class, which OGB averages
        columns["y_true"] = (labels[:, None] == np.arange(classes)).astype(np.int64)
    area = METRICS["roc_auc"](torch.tensor(labels), torch.tensor(logits))
    assert ogb_eval("rocauc", columns) == pytest.approx(area, abs=1e-9)


def test_one_column_is_the_logit_of_class_1():
    logits = [[-1.0], [2.0], [0.0]]
    assert predicted_classes(logits).tolist() == [0, 1, 0]
    assert class_scores(logits).tolist() == [-1.0, 2.0, 0.0]
    assert METRICS["accuracy"]([0, 1, 1], logits) == pytest.approx(2 / 3)
    assert METRICS["roc_auc"]([0, 1, 0], logits) == 1.0
    assert log_loss([1], [[0.0]]) == pytest.approx(math.log(2))
