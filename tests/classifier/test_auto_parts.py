"""The parts of the search that need no training: rungs, survivors, averages, who takes part."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhilgt import ArtifactError, ConfigError, Settings
from dhilgt.classifier.auto import average, halving
from dhilgt.classifier.auto.entries import entries
from dhilgt.classifier.auto.portfolio import (
    FEATURES_ALONE,
    WITHOUT_CHOICE,
    Candidate,
    GraphFacts,
    num_seeds,
    portfolio,
)
from dhilgt.classifier.auto.record import Rung, SearchRecord, Trial, read_record, write_record
from dhilgt.classifier.auto.sentence import sentence
from dhilgt.metrics import metric

# ---- halving -----------------------------------------------------------------------------------


@given(st.integers(1, 10_000))
def test_rungs_rise_to_the_last_epoch(epochs):
    plan = halving.rungs(epochs)
    assert plan[-1] == epochs
    assert list(plan) == sorted(set(plan))
    assert len(plan) <= 3


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 5), min_size=1), st.booleans())
def test_survivors_are_no_worse_than_the_dropped_and_keep_their_order(scores, higher):
    kept = halving.survivors(scores, higher_is_better=higher)
    sign = 1 if higher else -1
    dropped = [name for name in scores if name not in kept]
    assert kept == [name for name in scores if name in kept]
    assert len(kept) >= min(3, len(scores))
    for lost in dropped:
        assert all(sign * scores[one] >= sign * scores[lost] for one in kept)


def test_of_equal_scores_the_simpler_candidate_wins():
    scores = {"simple": 0.5, "complex": 0.5, "worse": 0.4}
    assert halving.ranked(scores, higher_is_better=True)[0] == "simple"
    assert halving.ranked(scores, higher_is_better=False)[0] == "worse"


def test_the_epochs_of_a_search_are_counted_by_hand():
    # 12 candidates for 10 epochs, 4 for 20 more, 3 for 60 more.
    assert halving.most_epochs(12, 1, (10, 30, 90)) == 120 + 80 + 180
    # The reference goes on beside them.
    assert halving.most_epochs(12, 2, (10, 30, 90), extra=1) == 2 * (120 + 100 + 240)
    assert halving.most_epochs(1, 1, (10, 30, 90)) == 90


# ---- averaging ---------------------------------------------------------------------------------


def shares(*right):
    """Return probabilities of two classes for nodes of class 0, by that of the right one."""
    return np.float32([[one, 1 - one] for one in right])


def test_all_seeds_of_the_winner_are_averaged_the_best_one_first():
    # Each is right on two of three nodes; together, they are right on one.
    truth = np.zeros(3, int)
    models = [shares(0.55, 0.55, 0.01), shares(0.3, 0.55, 0.6)]
    assert average.chosen(models, truth, metric("accuracy"), [0, 1]) == [1, 0]


def test_another_candidate_is_added_only_where_loss_falls_and_the_score_does_not():
    truth = np.zeros(2, int)
    first, better, worse = shares(0.6, 0.6), shares(0.9, 0.9), shares(0.99, 0.05)
    assert average.chosen([first, worse], truth, metric("accuracy"), [0]) == [0]
    assert average.chosen([first, worse, better], truth, metric("accuracy"), [0]) == [0, 2]


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 3))
def test_the_loss_of_an_average_is_never_above_that_of_the_seeds_it_began_with(
    seed, count, winners
):
    rng = np.random.default_rng(seed)
    models = rng.dirichlet(np.ones(3), size=(count, 12)).astype(np.float32)
    truth = rng.integers(0, 3, 12)
    own = list(range(min(winners, count)))
    places = average.chosen(list(models), truth, metric("accuracy"), own)
    assert len(places) <= average.MOST_MEMBERS
    assert len(set(places)) == len(places)
    assert places[0] in own
    found = average.mean_loss(models[places].mean(axis=0), truth)
    assert found <= np.mean([average.mean_loss(models[one], truth) for one in own]) + 1e-6


# ---- who takes part ----------------------------------------------------------------------------


ALONE = Candidate(FEATURES_ALONE, "own", {"size": 1, "num_layers": 1})
HOPS = Candidate("hops", "averages", {"size": 1, "num_layers": 1, "hops": 2})
ROW = Candidate("row", "near nodes", {"size": 8, "num_layers": 2})


def test_settings_that_are_given_hold_in_all_candidates():
    found = entries([ALONE, HOPS, ROW], {"hidden_channels": 64, "lr": 0.5})
    assert [one.settings.hidden_channels for one in found] == [64] * 3
    assert [one.settings.lr for one in found] == [0.5] * 3
    assert found[2].settings == Settings(size=8, num_layers=2, hidden_channels=64, lr=0.5)
    assert found[1].changed == {
        "size": 1, "num_layers": 1, "hops": 2, "hidden_channels": 64, "lr": 0.5
    }  # fmt: skip


def test_candidates_that_become_equal_take_part_once():
    found = entries([ALONE, HOPS, ROW], {"size": 4, "num_layers": 1})
    assert [one.name for one in found if one.contends] == ["hops", "row"]
    same = entries([HOPS, ROW], {"size": 4, "num_layers": 1, "hops": 1})
    assert [one.name for one in same] == ["hops"]


def test_the_features_alone_stay_a_reference_where_a_setting_makes_them_use_the_graph():
    for setting in ({"hops": 1}, {"size": 8}, {"label_inputs": True}):
        alone = entries([ALONE, ROW], setting)[0]
        assert not alone.contends
        assert (alone.settings.size, alone.settings.hops) == (1, 0)
        assert not alone.settings.label_inputs
    assert entries([ALONE, ROW], {"size": 1})[0].contends


def test_a_value_that_fits_no_candidate_is_refused_and_one_that_fits_some_is_not():
    with pytest.raises(ConfigError, match="heads = 'many'"):
        entries([ALONE, ROW], {"heads": "many"})
    sloped = Candidate("sloped", "", {"bias_slope": 2.0})
    assert [one.name for one in entries([ROW, sloped], {"spd_bias": False})] == ["row"]


def facts(**changes):
    values = {
        "num_nodes": 2000, "num_edges": 9000, "num_features": 50, "num_train": 1200,
        "num_val": 400, "num_classes": 4, "device": "cpu",
    }  # fmt: skip
    return GraphFacts(**(values | changes))


def test_the_portfolio_is_made_of_settings_and_begins_with_the_features_alone():
    listed = portfolio(facts())
    assert listed[0].name == FEATURES_ALONE
    assert WITHOUT_CHOICE in {one.name for one in listed}
    assert len({one.name for one in listed}) == len(listed)
    assert len({json.dumps(dict(one.settings), sort_keys=True) for one in listed}) == len(listed)
    for one in listed:
        Settings.from_dict(one.settings)


def test_without_edges_only_the_features_alone_are_tried():
    assert [one.name for one in portfolio(facts(num_edges=0))] == [FEATURES_ALONE]


def test_large_graphs_are_trained_for_fewer_epochs_and_with_one_seed():
    small, large = facts(), facts(num_nodes=10**6, num_train=600_000, num_val=10**5)
    epochs = [portfolio(one)[0].settings["epochs"] for one in (small, large)]
    assert epochs[0] > epochs[1] >= 9
    assert (num_seeds(small), num_seeds(large)) == (3, 1)
    assert num_seeds(facts(num_nodes=10**6, num_val=8)) == 3
    assert num_seeds(facts(num_val=0)) == 1


# ---- the record --------------------------------------------------------------------------------


def record():
    trials = [
        Trial(FEATURES_ALONE, "own", {}, [Rung(1, [0.5], [1.0]), Rung(3, [0.6], [0.9])]),
        Trial("row", "near nodes", {"size": 8}, [Rung(1, [0.7], [0.8]), Rung(3, [0.75], [0.5])]),
    ]
    trials[0].status, trials[1].status = "reference", "chosen"
    chosen = [{"name": "row", "seed": 0, "weight": 1.0}]
    return SearchRecord("accuracy", True, [1, 3], 1, trials, chosen=chosen)


def test_a_record_survives_its_file(tmp_path):
    assert read_record(tmp_path) is None
    write_record(record(), tmp_path)
    assert read_record(tmp_path) == record()


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.pop("rungs"),
        lambda values: values.update(format=9),
        lambda values: values.update(more=1),
        lambda values: values["candidates"][0].update(status="winning"),
        lambda values: values.update(candidates=3),
    ],
)
def test_a_damaged_record_is_refused_by_name(tmp_path, change):
    write_record(record(), tmp_path)
    path = tmp_path / "search.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=r"search\.json"):
        read_record(tmp_path)


def test_the_sentence_says_what_was_chosen_and_what_the_graph_is_worth():
    about = {FEATURES_ALONE: "own", "row": "near nodes"}
    found = sentence(record(), about)
    assert "row (near nodes) was chosen: accuracy 0.7500" in found
    assert "the graph is worth 15.0 points" in found
    alone = record()
    alone.candidates[0].status, alone.candidates[1].status = "chosen", "dropped"
    assert "The graph did not help" in sentence(alone, about)
    blind = record()
    for trial in blind.candidates:
        trial.rungs = [Rung(3, [None], [None])]
    assert "no validation nodes" in sentence(blind, about)
