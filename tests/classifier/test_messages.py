"""Message passing in a classifier: what it learns, new nodes, files, exports, reasons, plans."""

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.classifier.auto.portfolio import GraphFacts, portfolio
from dhilgt.classifier.planning import plan
from dhilgt.errors import ConfigError
from dhilgt.settings.settings import Settings
from tests.classifier.cases import community_graph, quick
from tests.classifier.serving_cases import assert_served
from tests.classifier.test_auto_kinds import sizes_nearby

torch.set_num_threads(1)
ROUNDS = {"message_layers": 2, "num_layers": 0, "cache": False, "dropout": 0.1}


def split_of(num_nodes=90):
    part = np.arange(num_nodes) % 9
    return {"train": part < 5, "val": (part == 5) | (part == 6), "test": part > 6}


def trained(graph=None, run_dir=None, resume=False, **changes):
    graph = community_graph(masks=split_of()) if graph is None else graph
    return quick(**(ROUNDS | changes)).fit(graph, run_dir=run_dir, resume=resume)


@pytest.fixture(scope="module")
def clf():
    return trained(community_graph(ids=True, masks=split_of()), class_inputs=True)


def test_a_function_of_single_neighbours_is_learned_that_no_average_shows():
    options = {"epochs": 60, "hidden_channels": 32, "batch_size": 4096, "input_dropout": 0.0}
    graph = sizes_nearby()
    found = trained(graph, **options)
    assert found.scores_["test"]["accuracy"] > 0.8
    averaged = trained(graph, message_layers=0, hops=2, input_activation=True, **options)
    assert averaged.scores_["test"]["accuracy"] < 0.75


@pytest.mark.parametrize("num_layers", [0, 1])
@pytest.mark.parametrize("directed", [False, True])
def test_with_token_rows_or_without_on_any_graph(num_layers, directed):
    graph = community_graph(masks=split_of())
    ends = graph.to_edge_index()
    if directed:
        graph = dhilgt.Graph.from_edges(
            *ends[:, ends[0] < ends[1]], num_nodes=90, directed=True,
            features=graph.features, labels=graph.labels, masks=graph.masks,
        )  # fmt: skip
    clf = trained(graph, num_layers=num_layers)
    assert clf.predict_proba([3, 5]).shape == (2, 3)
    assert [one for one in clf.model_.state_dict() if "messages" in one]


def test_a_graph_without_edges_passes_none():
    graph = dhilgt.Graph.from_edges(
        [], [], num_nodes=30, features=np.eye(30, dtype=np.float32), labels=np.arange(30) % 2
    )
    assert np.isfinite(trained(graph).predict_proba()).all()


def test_the_same_seed_gives_the_same_result():
    assert np.array_equal(trained().predict_proba(), trained().predict_proba())


def test_some_nodes_have_the_probabilities_they_have_among_all(clf):
    names = clf.graph_.ids_of(np.array([4, 50, 89])).tolist()
    np.testing.assert_allclose(
        clf.predict_proba(names), clf.predict_proba()[[4, 50, 89]], rtol=1e-5
    )


def test_the_class_of_a_training_node_does_not_reach_its_own_prediction():
    graph = community_graph(masks=split_of())
    clf = trained(graph, class_inputs=True)
    node = int(np.flatnonzero(split_of()["train"])[0])
    from dhilgt.classifier.pipeline import Pipeline

    known = clf._pipeline._known_classes().copy()
    before = clf.predict_proba()
    known[node] = (known[node] + 1) % 3
    other = Pipeline(graph, clf.settings_, cache=None, progress=False, known=known)
    after = other.probabilities(clf.model_, np.arange(90), torch.device("cpu"), 90)
    assert np.array_equal(before[node], after[node])
    assert (before != after).any()


def test_a_training_that_goes_on_has_the_result_of_one_that_did_not_stop(tmp_path):
    options = {"decay": "none", "dropout": 0.3}
    whole = trained(epochs=6, **options)
    trained(epochs=2, run_dir=tmp_path, **options)
    resumed = trained(epochs=6, run_dir=tmp_path, resume=True, **options)
    assert np.array_equal(resumed.predict_proba(), whole.predict_proba())


# ---- new nodes and other graphs ------------------------------------------------------------------


def test_new_nodes_are_predicted_with_their_edges(clf):
    old = clf.graph_
    larger = clf.graph_with(
        (["zoe", "zed"], ["node-000", "zoe"]), old.features[:2], nodes=["zoe", "zed"]
    )
    found = clf.predict_proba(["zoe", "zed"], graph=larger)
    alone = clf.graph_with(([], []), old.features[:2], nodes=["zoe", "zed"])
    assert found.shape == (2, 3)
    assert (found != clf.predict_proba(["zoe", "zed"], graph=alone)).any()


def test_a_node_is_predicted_from_the_nodes_around_it_alone(clf):
    """In a part of the graph without the rest, where no more edges than those of the part are."""
    old = clf.graph_
    strangers = clf.graph_with(
        (["s0", "s1"], ["s1", "s2"]), old.features[:3], nodes=["s0", "s1", "s2"]
    )
    apart = dhilgt.Graph.from_edges(
        ["s0", "s1"], ["s1", "s2"], nodes=["s0", "s1", "s2"], features=old.features[:3]
    )
    found = clf.predict_proba(["s0", "s1", "s2"], graph=strangers)
    np.testing.assert_allclose(clf.predict_proba(graph=apart), found, rtol=1e-4)


# ---- files and exports ---------------------------------------------------------------------------


def test_a_saved_classifier_predicts_the_same(clf, tmp_path):
    clf.save(tmp_path / "run")
    read = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), clf.predict_proba())


@pytest.mark.parametrize("changes", [{"class_inputs": True}, {"num_layers": 1, "hops": 1}])
def test_an_export_is_served_with_the_edges_of_the_graph(tmp_path, changes):
    graph = community_graph(ids=True, masks=split_of())
    assert_served(trained(graph, **changes), tmp_path)


def test_known_classes_in_token_rows_are_refused():
    with pytest.raises(ConfigError, match="message_layers"):
        Settings(label_inputs=True, message_layers=1)


# ---- reasons and plans ---------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"class_inputs": True, "num_layers": 1}])
def test_a_reason_names_the_neighbours_and_what_their_messages_change(changes):
    graph = community_graph(ids=True, masks=split_of())
    clf = trained(graph, **changes)
    found = clf.explain("node-007")
    at = int(graph.index_of("node-007"))
    row = graph.targets[graph.offsets[at] : graph.offsets[at + 1]]
    passed = [one for one in found.neighbors if one.rows == ("messages",)]
    assert {one.name for one in passed} == set(graph.ids_of(row).tolist())
    assert [abs(one.effect) for one in passed] == sorted(
        (abs(one.effect) for one in passed), reverse=True
    )
    # The oracle: the same model on a graph without that edge, with the weights of the whole graph.
    first = passed[0]
    other = int(graph.index_of(first.name))
    weights = clf._pipeline.adjacency.to(torch.device("cpu")).whole().to_dense()
    weights[at, other] = weights[other, at] = 0
    loader = clf._pipeline.loader(np.array([at]), device=torch.device("cpu"), batch_size=1)
    inputs = (*next(iter(loader)).inputs[:5], weights.to_sparse_csr())
    with torch.no_grad():
        without = torch.softmax(clf.model_.eval()(*inputs).double(), -1)[0]
    place = clf.classes_.tolist().index(found.prediction)
    whole = found.probabilities[found.prediction]
    assert first.effect == pytest.approx(whole - float(without[place]), abs=1e-6)
    assert "messages" in found.table()


def test_the_plan_counts_all_nodes_in_every_step():
    graph = community_graph(900, masks=split_of(900))
    plain = plan(graph, Settings(num_layers=0, hidden_channels=32, heads=2))
    found = plan(graph, Settings(num_layers=0, hidden_channels=32, heads=2, message_layers=8))
    for part in ("training", "prediction"):
        assert found.stage(part).seconds > plain.stage(part).seconds
    assert found.stage("training").ram_bytes > plain.stage("training").ram_bytes


def test_candidates_with_messages_are_for_graphs_that_fit_into_a_step():
    facts = {"num_features": 50, "num_classes": 4, "num_val": 400}

    def tried(num_nodes, num_edges, device):
        listed = portfolio(
            GraphFacts(
                num_nodes=num_nodes, num_edges=num_edges, num_train=num_nodes // 2, device=device,
                **facts,
            )
        )  # fmt: skip
        return [one.name for one in listed if one.settings.get("message_layers")]

    both = ["messages", "messages, far"]
    assert tried(2_000, 9_000, "cpu") == tried(10_000, 50_000, "cpu") == both
    assert tried(200_000, 2_000_000, "cpu") == []
    assert tried(200_000, 2_000_000, "cuda") == both
    assert tried(50_000_000, 500_000_000, "cuda") == []
    assert tried(2_000, 0, "cpu") == []
