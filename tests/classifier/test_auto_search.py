"""`recipe="auto"` on small graphs: what is tried, chosen, kept and said."""

import dataclasses

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import NodeClassifier, TrainingError, TrainingWarning
from dhilgt.classifier.auto.portfolio import FEATURES_ALONE, Candidate
from dhilgt.classifier.serving import export_classifier
from tests.classifier.auto_cases import CANDIDATES, TINY, searching, use_tiny
from tests.classifier.cases import NAMES, community_graph

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    use_tiny(monkeypatch)


@pytest.fixture(scope="module")
def graph():
    return community_graph()


@pytest.fixture(scope="module")
def fitted(graph):
    with pytest.MonkeyPatch.context() as patch:
        use_tiny(patch)
        return searching().fit(graph)


# ---- the search --------------------------------------------------------------------------------


def test_a_third_but_at_least_three_go_on_and_the_features_alone_to_the_end(graph, monkeypatch):
    more = [Candidate(f"row {size}", "near nodes", TINY | {"size": size}) for size in (3, 4, 6)]
    use_tiny(monkeypatch, (*CANDIDATES, *more))
    fitted = searching().fit(graph)
    record = fitted.search_
    assert record.rungs == [1, 2, 5]
    reached = {one.name: [rung.epochs for rung in one.rungs] for one in record.candidates}
    assert reached[FEATURES_ALONE] == [1, 2, 5]
    ended = [name for name in reached if reached[name][-1] == 5]
    assert len(ended) in (3, 4)
    assert all(len(rung.scores) == 2 for one in record.candidates for rung in one.rungs)
    best = {one.name: np.mean(one.rungs[0].scores) for one in record.candidates}
    dropped = [name for name in reached if len(reached[name]) == 1]
    assert max(best[name] for name in dropped) <= max(best[name] for name in ended)


def test_the_winner_has_the_best_mean_score_of_those_that_ended(fitted):
    record = fitted.search_
    ended = [one for one in record.candidates if one.rungs[-1].epochs == 5]
    winner = next(one for one in record.candidates if one.status == "chosen")
    assert np.mean(winner.rungs[-1].scores) == max(np.mean(one.rungs[-1].scores) for one in ended)
    assert record.chosen[0]["name"] == winner.name
    assert winner.name in record.sentence
    assert sum(one["weight"] for one in record.chosen) == pytest.approx(1)


def test_those_that_are_level_are_trained_with_further_seeds_and_all_are_averaged(
    graph, monkeypatch
):
    use_tiny(monkeypatch, seeds=1, last_seeds=3)
    clf = searching().fit(graph)
    record = clf.search_
    level = {one["name"] for one in record.chosen}
    for one in record.candidates:
        assert len(one.rungs[-1].scores) == (3 if one.name in level else 1)
        assert one.rungs[0].epochs == 1
        assert len(one.rungs[0].scores) == 1
    assert len(record.chosen) == len(clf.members_) == 3 * len(level)
    assert len({one["seed"] for one in record.chosen}) == 3
    winner = record.trial(record.chosen[0]["name"])
    assert winner.status == "chosen"
    assert f"{len(record.chosen)} models are averaged" in record.sentence
    assert "mean of 3 seeds" in record.sentence


def test_scores_at_rungs_are_those_of_one_whole_training(graph, fitted):
    """A candidate in the search is trained as it is alone: paused, not restarted."""
    trial = fitted.search_.trial("propagated")
    alone = searching(recipe="paper", **CANDIDATES[1].settings).fit(graph)
    history = [line["val_score"] for line in alone.result_.history]
    for rung in trial.rungs:
        assert rung.scores[0] == max(history[: rung.epochs])


def test_a_candidate_with_fewer_epochs_ends_before_the_last_rung(graph, monkeypatch):
    brief = Candidate("brief", "averages", TINY | {"size": 1, "hops": 1, "epochs": 2})
    use_tiny(monkeypatch, (CANDIDATES[0], brief), seeds=1)
    trial = searching().fit(graph).search_.trial("brief")
    alone = searching(recipe="paper", **brief.settings).fit(graph)
    history = [line["val_score"] for line in alone.result_.history]
    assert [rung.epochs for rung in trial.rungs] == [1, 2, 5]
    assert [rung.scores[0] for rung in trial.rungs] == [history[0], max(history), max(history)]


def test_the_average_is_that_of_its_members(fitted, graph):
    nodes = np.arange(graph.num_nodes)
    shares = [member.probabilities(nodes) for member in fitted.members_]
    np.testing.assert_allclose(fitted.predict_proba(), np.mean(shares, axis=0), rtol=1e-6)
    assert fitted.model_ is fitted.members_[0].model
    assert fitted.settings_ == fitted.members_[0].settings
    val = graph.ids_of(fitted.split_["val"])
    truth = NAMES[np.asarray(val) % 3]
    assert fitted.scores_["val"]["accuracy"] == np.mean(fitted.predict(val) == truth)
    assert fitted.score() == fitted.scores_["val"]["accuracy"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(fitted, graph):
    again, other = searching().fit(graph), searching(seed=1).fit(graph)
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    assert [one.rungs[0].scores for one in again.search_.candidates] == [
        one.rungs[0].scores for one in fitted.search_.candidates
    ]
    assert not np.array_equal(other.predict_proba(), fitted.predict_proba())


def test_seeds_of_a_candidate_differ(fitted):
    rungs = [rung for one in fitted.search_.candidates for rung in one.rungs]
    assert any(rung.losses[0] != rung.losses[1] for rung in rungs)


def test_settings_that_are_given_hold_in_all(graph):
    clf = searching(hidden_channels=4, epochs=2).fit(graph)
    assert clf.search_.rungs == [1, 2]
    assert {one.settings["hidden_channels"] for one in clf.search_.candidates} == {4}
    assert {member.model.config.hidden_channels for member in clf.members_} == {4}


def test_labels_are_built_and_rows_drawn_once(graph, monkeypatch):
    counts = {"labels": 0, "tokens": 0}
    for name, owner in (("labels", dhilgt.HubLabels), ("tokens", dhilgt.Tokens)):
        real = owner.build

        def counted(*args, name=name, real=real, **more):
            counts[name] += 1
            return real(*args, **more)

        monkeypatch.setattr(owner, "build", counted)
    searching(epochs=1).fit(graph)
    assert counts == {"labels": 1, "tokens": 2}  # rows of one slot, and of five


# ---- a failing candidate -----------------------------------------------------------------------


def broken(name="broken"):
    return Candidate(name, "diverges", TINY | {"size": 1, "lr": 1e3, "optimizer": "adam"})


def failing(monkeypatch, *names):
    """Make the training of some candidates fail as a diverging one does."""
    from dhilgt.classifier.auto.training import Training

    real = Training.advance

    def advance(self, until, in_time):
        if self.data.pipeline.settings.lr == 1e3:
            raise TrainingError("the training loss of epoch 1 is nan")
        return real(self, until, in_time)

    monkeypatch.setattr(Training, "advance", advance)


def test_a_candidate_that_fails_is_recorded_and_the_others_go_on(graph, monkeypatch):
    failing(monkeypatch)
    use_tiny(monkeypatch, (*CANDIDATES[:2], broken()))
    clf = searching(epochs=2).fit(graph)
    trial = clf.search_.trial("broken")
    assert (trial.status, trial.rungs) == ("failed", [])
    assert "is nan" in trial.error
    assert clf.search_.chosen[0]["name"] != "broken"


def test_where_all_fail_the_first_error_is_raised(graph, monkeypatch):
    failing(monkeypatch)
    use_tiny(monkeypatch, (broken("one"), broken("two")))
    with pytest.raises(TrainingError, match="epoch 1 is nan"):
        searching(lr=1e3).fit(graph)


def test_a_candidate_without_memory_fails_alone(graph, monkeypatch):
    from dhilgt.classifier.pipeline import Pipeline

    real = Pipeline.features.fget

    def features(self):
        if self.settings.hops:
            raise MemoryError("too many columns")
        return real(self)

    monkeypatch.setattr(Pipeline, "features", property(features))
    clf = searching(epochs=1).fit(graph)
    failed = [one.name for one in clf.search_.candidates if one.status == "failed"]
    assert failed == ["propagated", "row, averages"]


# ---- graphs of all kinds -----------------------------------------------------------------------


def test_rows_without_edges_use_the_features_alone():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))
    clf = searching(epochs=20, lr=0.05).fit(rows, (rows[:, 0] > 0).astype(int))
    assert [one.name for one in clf.search_.candidates] == [FEATURES_ALONE]
    assert clf.predict(rows[:5]).shape == (5,)
    assert clf.scores_["val"]["accuracy"] > 0.7


def test_one_class_is_missing_from_training():
    graph = community_graph()
    train = np.flatnonzero(np.arange(90) % 3 < 2)[:40]
    with pytest.warns(TrainingWarning, match="no training node is of class cedar") as caught:
        clf = searching(epochs=2).fit(graph, train=train, val=np.arange(60, 90))
    assert clf.predict_proba().shape == (90, 3)
    said = [one for one in caught if "no training node" in str(one.message)]
    assert len(said) == 1  # not once for each training


def test_twenty_labelled_nodes():
    labels = np.where(np.arange(90) < 20, np.arange(90) % 3, -1)
    graph = community_graph(labels=labels)
    clf = searching().fit(graph)
    assert len(clf.split_["val"]) < 10
    assert clf.predict().shape == (90,)


def test_without_validation_nodes_one_candidate_is_trained_to_its_end(graph):
    with pytest.warns(TrainingWarning, match="no validation nodes"):
        clf = searching(epochs=3).fit(graph, train=np.arange(60), val=[])
    assert [one.name for one in clf.search_.candidates] == ["propagated"]
    assert clf.result_.epochs == 3
    assert "no validation nodes" in clf.search_.sentence
    assert clf.search_.references["mlp"] == {"val": None, "test": None}


def test_a_metric_that_is_not_defined_on_validation_gives_way_to_the_loss(graph):
    ash = np.flatnonzero(np.arange(90) % 3 == 0)
    train = np.setdiff1d(np.arange(90), ash[:8])
    with pytest.warns(TrainingWarning, match="not defined"):
        clf = searching(metric="roc_auc", epochs=2).fit(
            community_graph(labels=(np.arange(90) % 3 > 0).astype(int)), train=train, val=ash[:8]
        )
    assert (clf.search_.metric, clf.search_.higher_is_better) == ("loss", False)
    winner = next(one for one in clf.search_.candidates if one.status == "chosen")
    ended = [one for one in clf.search_.candidates if one.rungs[-1].epochs == 2]
    assert np.mean(winner.rungs[-1].scores) == min(np.mean(one.rungs[-1].scores) for one in ended)


def test_references_are_the_features_alone_and_the_most_common_class(graph):
    masks = np.arange(90) % 5
    parts = {"train": masks < 3, "val": masks == 3, "test": masks == 4}
    clf = searching().fit(graph.with_data(masks=parts))
    alone = clf.search_.trial(FEATURES_ALONE).rungs[-1].scores
    assert clf.search_.references["mlp"]["val"] == pytest.approx(np.mean(alone))
    assert 0 <= clf.search_.references["mlp"]["test"] <= 1
    assert clf.search_.references["majority"]["test"] == pytest.approx(1 / 3)


# ---- time --------------------------------------------------------------------------------------


def test_a_budget_ends_the_search_with_the_best_so_far(graph):
    clf = searching(budget=1e-6).fit(graph)
    assert clf.search_.out_of_time
    assert clf.result_.epochs == 1
    assert "budget" in clf.search_.sentence
    assert clf.predict().shape == (90,)


def test_a_budget_that_ends_inside_a_rung_leaves_what_was_reached(graph):
    clf = searching(budget=1e-6, epochs=45).fit(graph)
    (trial,) = [one for one in clf.search_.candidates if one.rungs]
    assert (trial.status, [rung.epochs for rung in trial.rungs]) == ("chosen", [1])
    assert trial.rungs[0].scores == [clf.scores_["val"]["accuracy"]]
    assert "no validation nodes" not in clf.search_.sentence


def test_a_budget_that_is_never_reached_changes_nothing(graph, fitted):
    clf = searching(budget=1e6).fit(graph)
    assert not clf.search_.out_of_time
    np.testing.assert_array_equal(clf.predict_proba(), fitted.predict_proba())


# ---- members -----------------------------------------------------------------------------------


def test_several_members_are_saved_loaded_and_predict_the_same(tmp_path, graph):
    clf = searching().fit(graph)
    pair = clf.members_[0], several(graph).members_[0]
    clf._set_fitted(inputs_of(clf), pair, clf.result_, clf.scores_, clf.search_)
    clf.save(tmp_path / "saved")
    read = NodeClassifier.load(tmp_path / "saved").set_params(progress=False)
    np.testing.assert_array_equal(read.predict_proba(), clf.predict_proba())
    assert read.search_ == clf.search_
    assert [one.settings for one in read.members_] == [one.settings for one in pair]
    assert read.get_params() | {"progress": False} == clf.get_params()
    assert not (tmp_path / "saved" / "search").exists()
    grown = clf.graph_with(([90, 91], [0, 1]), graph.features[:2])
    for quick in (False, True):
        np.testing.assert_array_equal(
            read.predict_proba([90, 3], graph=grown, quick=quick),
            clf.predict_proba([90, 3], graph=grown, quick=quick),
        )
    # Saved again with one member, the others are gone.
    clf._set_fitted(inputs_of(clf), pair[:1], clf.result_, clf.scores_, None)
    clf.save(tmp_path / "saved", overwrite=True)
    assert not (tmp_path / "saved" / "members").exists()
    assert not (tmp_path / "saved" / "search.json").exists()
    assert len(NodeClassifier.load(tmp_path / "saved").members_) == 1


def several(graph):
    """Return a classifier of other settings, to be a second member."""
    options = TINY | {"size": 4, "feature_scale": "standard", "label_inputs": True}
    return searching(recipe="paper", **options).fit(graph)


def inputs_of(clf):
    from dhilgt.classifier.inputs import FitInputs

    return FitInputs(clf.graph_, clf.classes_, clf.split_, False, 0)


@pytest.mark.parametrize(
    "name", ["members/2/model/model.safetensors", "members/2/model/config.json", "search.json"]
)
def test_a_file_of_a_member_that_was_changed_is_refused_by_name(tmp_path, graph, name):
    clf = searching(epochs=1).fit(graph)
    pair = clf.members_[0], several(graph).members_[0]
    clf._set_fitted(inputs_of(clf), pair, clf.result_, clf.scores_, clf.search_)
    clf.save(tmp_path / "saved")
    path = tmp_path / "saved" / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(dhilgt.ArtifactError, match=path.name.replace(".", r"\.")):
        NodeClassifier.load(tmp_path / "saved")


def test_members_with_the_same_inputs_are_exported_as_one_program(tmp_path, fitted):
    clf = averaged(fitted)
    export_classifier(clf, tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    nodes = np.arange(12)
    loader = clf._pipeline.loader(nodes, device=torch.device("cpu"), batch_size=12)
    found = program(*plain_inputs(next(iter(loader)))).softmax(dim=1)
    np.testing.assert_allclose(found.detach(), clf.predict_proba(nodes), atol=1e-5)


def averaged(clf):
    """Return the classifier with two members of the same settings and other weights."""
    import copy

    first = clf.members_[0]
    model = copy.deepcopy(first.model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1)
    both = copy.copy(clf)
    pair = first, dataclasses.replace(first, model=model)
    both._set_fitted(inputs_of(clf), pair, clf.result_, clf.scores_, clf.search_)
    return both


def plain_inputs(batch):
    x, index, spd, *more = batch.inputs
    return x.to_dense() if x.is_sparse else x, index.long(), spd, *more


def test_an_explanation_says_that_it_is_of_the_first_member(fitted):
    clf = averaged(fitted)
    with pytest.warns(dhilgt.GraphWarning, match="average of 2 models; explained is the first"):
        found = clf.explain(3)
    assert found.probabilities is not None


def test_a_copy_in_another_process_predicts_the_same(fitted):
    import pickle

    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(), fitted.predict_proba())
