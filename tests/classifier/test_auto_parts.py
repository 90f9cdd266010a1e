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
    num_last_seeds,
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
    # The three of the last rung are trained with two further seeds, from the start.
    assert halving.most_epochs(12, 1, (10, 30, 90), last_seeds=3) == 380 + 2 * 3 * 90


# ---- averaging ---------------------------------------------------------------------------------


def shares(right, truth, sure=0.8):
    """Return probabilities of two classes that are right on some nodes and wrong on the others."""
    predicted = np.where(right, truth, 1 - truth)
    return np.float32(np.where(np.arange(2) == predicted[:, None], sure, 1 - sure))


@pytest.mark.parametrize("score", [metric("accuracy"), metric("roc_auc"), None])
def test_candidates_that_chance_explains_are_averaged_and_clearly_worse_ones_are_not(score):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    best = rng.random(500) < 0.8
    alike = best.copy()
    alike[rng.choice(np.flatnonzero(best), 3)] = False  # three more mistakes of a hundred
    worse = rng.random(500) < 0.7
    found = average.level(
        {
            "worse": shares(worse, truth),
            "alike": shares(alike, truth),
            "best": shares(best, truth),
        },
        truth,
        score,
        "best",
    )
    assert found == ["best", "alike"]


def test_a_lead_that_few_nodes_make_is_chance_and_the_same_lead_on_many_is_not():
    rng = np.random.default_rng(1)
    kept = []
    for num_nodes in (40, 4000):
        truth = rng.integers(0, 2, num_nodes)
        right, other = (rng.random(num_nodes) < one for one in (0.75, 0.68))
        models = {"best": shares(right, truth), "other": shares(other, truth)}
        kept.append(average.level(models, truth, metric("accuracy"), "best"))
    assert kept == [["best", "other"], ["best"]]


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 60))
def test_the_winner_comes_first_and_a_copy_of_it_is_always_kept(seed, count, num_nodes):
    rng = np.random.default_rng(seed)
    models = rng.dirichlet(np.ones(3), size=(count, num_nodes)).astype(np.float32)
    truth = rng.integers(0, 3, num_nodes)
    named = {"copy": models[0]} | {str(at): one for at, one in enumerate(models)}
    found = average.level(named, truth, metric("accuracy"), "0")
    assert found[0] == "0"
    assert "copy" in found
    assert found == average.level(named, truth, metric("accuracy"), "0")


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
    tried = portfolio(facts(num_edges=0))
    assert [one.name for one in tried] == [FEATURES_ALONE, "standardized features"]


def test_large_graphs_are_trained_for_fewer_epochs_and_with_one_seed():
    small, large = facts(), facts(num_nodes=10**6, num_train=600_000, num_val=10**5)
    epochs = [portfolio(one)[0].settings["epochs"] for one in (small, large)]
    assert epochs[0] > epochs[1] >= 9
    assert (num_seeds(small), num_seeds(large)) == (3, 1)
    assert num_seeds(facts(num_nodes=10**6, num_val=8)) == 3
    assert num_seeds(facts(num_val=0)) == 1


def test_finalists_of_all_but_large_graphs_are_averaged_over_seeds():
    sizes = (2000, 50_000, 10**6)
    assert [num_last_seeds(facts(num_nodes=one)) for one in sizes] == [3, 3, 1]
    assert num_last_seeds(facts(num_nodes=10**6, num_val=8)) == 3
    assert num_last_seeds(facts(num_val=0)) == 1


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
