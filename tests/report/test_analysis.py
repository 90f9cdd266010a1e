"""Counts and fractions of predictions are those of scikit-learn and of statistics books."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from dhilgt import metrics
from dhilgt.metrics import metric
from dhilgt.report.run import analysis


@st.composite
def answers(draw):
    num_classes = draw(st.integers(1, 6))
    one = st.integers(0, num_classes - 1)
    pairs = draw(st.lists(st.tuples(one, one), min_size=1, max_size=60))
    truth, predicted = np.array(pairs).T
    return truth, predicted, num_classes


@pytest.mark.filterwarnings("ignore:A single label")
@given(answers())
def test_confusion_is_scikit_learns(case):
    truth, predicted, num_classes = case
    expected = confusion_matrix(truth, predicted, labels=range(num_classes))
    assert (analysis.confusion_matrix(truth, predicted, num_classes) == expected).all()


@given(answers())
def test_class_scores_are_scikit_learns(case):
    truth, predicted, num_classes = case
    result = analysis.class_scores(analysis.confusion_matrix(truth, predicted, num_classes))
    expected = precision_recall_fscore_support(
        truth, predicted, labels=range(num_classes), zero_division=np.nan
    )
    for mine, theirs in zip((result.precision, result.recall, result.f1), expected, strict=False):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert (result.support == expected[3]).all()
    assert result.predicted.sum() == len(truth)


def test_classes_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"predicted\[1\] = 3 is none of the 3 classes"):
        analysis.confusion_matrix([0, 1], [0, 3], 3)
    with pytest.raises(ValueError, match="2 true and 1 predicted"):
        analysis.confusion_matrix([0, 1], [0], 3)


def probabilities(count, classes, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(classes, 0.4), count)
    truth = np.array([rng.choice(classes, p=row**0.5 / (row**0.5).sum()) for row in proba])
    return truth, proba


def test_reliability_is_scikit_learns():
    truth, proba = probabilities(500, 4)
    result = analysis.calibration(truth, proba, bins=10)
    right = proba.argmax(axis=1) == truth
    accuracy, confidence = calibration_curve(right, proba.max(axis=1), n_bins=10)
    full = result.count > 0
    np.testing.assert_allclose(result.accuracy[full], accuracy)
    np.testing.assert_allclose(result.confidence[full], confidence)
    assert np.isnan(result.accuracy[~full]).all()
    weights = result.count[full] / result.count.sum()
    assert result.error == pytest.approx((weights * np.abs(accuracy - confidence)).sum())


def test_calibration_error_by_hand():
    # Two bins: confidence 0.6 with 1 of 2 correct, confidence 0.9 with 2 of 2 correct.
    proba = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.1, 0.9]])
    result = analysis.calibration([0, 1, 1, 1], proba)
    assert result.count.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 2, 0]
    assert result.error == pytest.approx((2 * 0.1 + 2 * 0.1) / 4)


def test_a_probability_slightly_above_one_stays_in_the_last_bin():
    result = analysis.calibration([0], np.array([[np.float32(1.0000001)]]))
    assert result.count[-1] == 1


def test_calibration_of_no_nodes_is_undefined():
    assert math.isnan(analysis.calibration(np.zeros(0, int), np.zeros((0, 3))).error)


def test_wilson_interval_is_the_books():
    # Agresti and Coull's example, and the ends where the normal interval has no width.
    result = analysis.wilson_interval(0, 20)
    assert result.low == 0
    assert result.high == pytest.approx(0.16113, abs=1e-5)
    assert analysis.wilson_interval(20, 20).high == 1
    assert math.isnan(analysis.wilson_interval(0, 0).low)


@given(st.integers(1, 10_000), st.data())
def test_wilson_interval_holds_the_accuracy(count, data):
    right = data.draw(st.integers(0, count))
    result = analysis.wilson_interval(right, count)
    assert 0 <= result.low <= right / count + 1e-12
    assert right / count - 1e-12 <= result.high <= 1


def test_bootstrap_agrees_with_wilson_on_accuracy():
    truth, proba = probabilities(400, 3)
    score = metric("accuracy")
    result = analysis.bootstrap_interval(score, truth, np.log(proba))
    right = int((proba.argmax(axis=1) == truth).sum())
    expected = analysis.wilson_interval(right, 400)
    assert result.low == pytest.approx(expected.low, abs=0.02)
    assert result.high == pytest.approx(expected.high, abs=0.02)
    assert result == analysis.bootstrap_interval(score, truth, np.log(proba))
    assert result != analysis.bootstrap_interval(score, truth, np.log(proba), seed=1)


def test_bootstrap_leaves_undefined_samples_out():
    truth = np.array([0, 0, 0, 0, 0, 1])
    logits = np.array([[0.0, x] for x in (-2.0, -1.0, 0.0, 1.0, 2.0, 1.5)])
    result = analysis.bootstrap_interval(metric("roc_auc"), truth, logits)
    assert 0 <= result.low <= result.high <= 1
    alone = analysis.bootstrap_interval(metric("roc_auc"), truth[:5], logits[:5])
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)


@given(answers(), st.integers(1, 4))
def test_folding_keeps_every_node(case, most):
    matrix = analysis.confusion_matrix(*case)
    kept = analysis.most_confused(matrix, most)
    folded = analysis.folded(matrix, kept)
    assert folded.sum() == matrix.sum()
    assert (folded[:-1, :-1] == matrix[np.ix_(kept, kept)]).all()
    assert (folded.sum(axis=1)[:-1] == matrix.sum(axis=1)[kept]).all()


def test_the_most_confused_classes_are_kept():
    matrix = np.diag([50, 50, 50, 50])
    matrix[1, 3] = 7
    assert analysis.most_confused(matrix, 2).tolist() == [1, 3]


# ---- one answer for all, and two models on the same nodes --------------------------------------


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30), st.lists(st.integers(0, 3), min_size=1)
)
def test_the_accuracy_of_one_answer_is_that_of_the_most_common_training_class(truth, known):
    counts = [known.count(at) for at in range(4)]
    common = counts.index(max(counts))
    expected = truth.count(common) / len(truth)
    assert float(metrics.constant_score("accuracy", truth, known, 4)) == pytest.approx(expected)


def test_one_answer_has_no_order_of_nodes():
    assert float(metrics.constant_score("roc_auc", [0, 1, 1], [0, 0, 1], 2)) == 0.5
    assert math.isnan(metrics.constant_score("unknown", [0], [0], 1))
    assert math.isnan(metrics.constant_score("accuracy", [], [0], 1))


def test_what_is_hard_for_both_does_not_widen_a_paired_interval():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    answers = np.where(rng.random(400) < 0.6, truth, 1 - truth)
    better = np.where(np.arange(400) < 40, truth, answers)  # right on 40 nodes more or the same
    first, second = np.eye(2)[answers], np.eye(2)[better]
    difference, interval = analysis.paired_interval("accuracy", truth, first, second)
    assert difference == pytest.approx((better == truth).mean() - (answers == truth).mean())
    assert 0 < interval.low < difference < interval.high
    alone = analysis.wilson_interval(int((better == truth).sum()), 400)
    assert interval.high - interval.low < alone.high - alone.low
    same, nothing = analysis.paired_interval("accuracy", truth, first, first)
    assert (same, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
