"""A run that ends no better than one answer for all nodes says so, with what to try."""

import warnings

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.classifier.majority import majority_note
from dhilgt.errors import TrainingWarning
from dhilgt.metrics import constant_score
from dhilgt.report.run.facts import run_facts
from dhilgt.report.run.page import render
from tests.classifier.cases import community_graph, quick
from tests.cli.cases import Files, run

torch.set_num_threads(1)


def blind(**changes):
    """A classifier whose rate is too small to learn."""
    return quick(**({"epochs": 5, "lr": 1e-9, "cache": False} | changes))


def uneven_classes(share=0.5, count=120):
    """Random features; the first class has a share of the nodes."""
    rng = np.random.default_rng(1)
    classes = np.where(np.arange(count) < share * count, 0, 1 + np.arange(count) % 2)
    features = rng.normal(size=(count, 3)) * [1, 1, 1000]
    src = np.arange(count - 1)
    return dhilgt.Graph.from_edges(src, src + 1, features=features, labels=classes)


def warnings_of(clf, graph):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrainingWarning)
        clf.fit(graph)
    return [str(one.message) for one in caught if "learned nothing" in str(one.message)]


@pytest.mark.parametrize(
    ("metric", "expected"), [("accuracy", 0.75), ("roc_auc", 0.5), ("macro_f1", 3 / 7)]
)
def test_one_answer_for_all_has_the_score_of_a_constant(metric, expected):
    classes = np.array([0, 0, 0, 1])
    assert constant_score(metric, classes, classes, 2) == pytest.approx(expected)
    assert np.isnan(constant_score("my own", classes, classes, 2))


def test_a_model_that_learned_nothing_is_said_to_with_what_to_try():
    clf = blind(feature_scale="none")
    (found,) = warnings_of(clf, uneven_classes(0.6))
    assert found == str(TrainingWarning(majority_note(clf)))
    assert "has learned nothing: accuracy of " in found
    assert "one answer for all of them (the most common class: 0) has 0.5" in found
    assert "; scale the features with feature_scale='auto', or train for more epochs" in found
    assert "epochs = 5" in found
    assert "macro_f1" not in found


def test_the_advice_follows_the_settings_and_the_classes():
    (found,) = warnings_of(blind(lr=5.0, weight_decay=0.0), uneven_classes(0.9))
    assert "feature_scale" not in found  # it was scaled
    assert "lower the learning rate (lr = 5.0)" in found
    assert "metric='macro_f1', as 90% of the training nodes are of one class" in found


def test_a_model_that_learned_and_a_short_trial_say_nothing():
    assert warnings_of(quick(epochs=8, cache=False), community_graph()) == []
    assert warnings_of(blind(epochs=4), uneven_classes(0.6)) == []


def test_a_ranking_of_rare_nodes_is_not_nothing():
    clf = quick(epochs=5, cache=False, metric="roc_auc")
    graph = community_graph()
    rare = np.where(np.arange(graph.num_nodes) % 18 == 0, 1, 0)
    x = np.random.default_rng(0).normal(size=(graph.num_nodes, 2)) + rare[:, None]
    assert warnings_of(clf, graph.with_data(features=x, labels=rare)) == []
    assert clf.scores_["val"]["roc_auc"] > 0.5


def test_nodes_of_one_class_decide_nothing():
    graph = uneven_classes(0.6)
    val = np.arange(graph.num_nodes) < 10  # all of class 0
    clf = blind()
    masks = {"train": ~val, "val": val}
    assert warnings_of(clf, graph.with_data(masks=masks)) == []


def test_the_report_and_the_shell_have_the_line(tmp_path, monkeypatch):
    clf = blind()
    warnings_of(clf, uneven_classes(0.6))
    assert "The model has learned nothing" in render(run_facts(clf))
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    files = Files(tmp_path)
    args = [*files.train(split=files.split), "--lr", "1e-9", "--epochs", "5", "--no-report"]
    shown = run(*args, "--dropout", "0").stderr
    assert "note: the model has learned nothing" in " ".join(shown.split())
    assert "(--epochs 5)" in " ".join(shown.split())
