"""On the demo's graph the structure helps: the default is clearly better than an MLP."""

import numpy as np
import pytest
import torch

from dhilgt.cli import demo

torch.set_num_threads(1)
FEW = {"epochs": 9, "hidden_channels": 32, "dropout": 0.3, "batch_size": 128, "lr": 0.01}


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    graph = demo.make_graph(1000, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "BUDGET_SECONDS", None)
        patch.setattr("dhilgt.classifier.auto.start.num_seeds", lambda facts: 1)
        clf = demo.train(graph, tmp_path_factory.mktemp("demo") / "run", seed=0, **FEW)
    return graph, clf, demo.compare(clf)


def test_beats_an_mlp_and_the_majority_class_by_a_clear_margin(scores):
    _, _, by_model = scores
    ours = by_model["DHIL-GT"]
    assert ours > by_model["MLP, features alone"] + 0.05
    assert ours > by_model["one answer for all"] + 0.35


def test_compares_on_nodes_that_none_has_seen(scores):
    graph, clf, by_model = scores
    test = clf.split_["test"]
    assert len(test) == 200
    assert not set(test) & (set(clf.split_["train"]) | set(clf.split_["val"]))
    right = (clf.predict(test) == graph.labels[test]).mean()
    assert by_model["DHIL-GT"] == pytest.approx(right)
    best = np.bincount(graph.labels[clf.split_["train"]]).argmax()
    assert by_model["one answer for all"] == pytest.approx((graph.labels[test] == best).mean())


def test_the_mlp_is_trained_well_enough_to_compare_with(scores):
    _, _, by_model = scores
    assert by_model["MLP, features alone"] > by_model["one answer for all"] + 0.2
