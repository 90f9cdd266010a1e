"""What a run tried before it chose is read with suspicion, and shown with the graph's worth."""

import json
import re
from types import SimpleNamespace

import pytest

from dhilgt import ArtifactError
from dhilgt.report import render, run_facts
from dhilgt.report.run import tried
from tests.report.cases import classifier, record
from tests.report.test_report import Tree


def searched(**changes):
    clf = classifier()
    clf.search_ = SimpleNamespace(to_dict=lambda: record(**changes))
    return run_facts(clf)


def candidate(name, values=None):
    values = record() if values is None else values
    return next(one for one in values["candidates"] if one["name"] == name)


# ---- the record --------------------------------------------------------------------------------


def test_a_folder_without_a_search_has_no_record(tmp_path):
    assert tried.read_search(tmp_path) is None


def test_a_record_is_read_as_it_was_written(tmp_path):
    (tmp_path / "search.json").write_text(json.dumps(record(began={"given": {}})))
    assert tried.read_search(tmp_path) == record()  # but for what only a resume needs


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidates": 7},
        {"candidates": [{"name": "a"}]},
        {"candidates": [candidate("neighbours") | {"rungs": [{"epochs": "30", "scores": []}]}]},
        {"candidates": [candidate("neighbours") | {"rungs": [{"epochs": 3, "scores": ["x"]}]}]},
        {"chosen": ["neighbours"]},
        {"references": {"mlp": 0.5}},
        {"sentence": None},
    ],
)
def test_a_record_that_lacks_a_part_is_refused_by_its_file(tmp_path, wrong):
    (tmp_path / "search.json").write_text(json.dumps(record(**wrong)))
    with pytest.raises(ArtifactError, match=r"search\.json is not the record of a search"):
        tried.read_search(tmp_path)


# ---- in words ----------------------------------------------------------------------------------


def test_scores_are_means_over_the_seeds():
    found = tried.scores(candidate("neighbours"))
    assert [round(mean, 3) for mean, _ in found.values()] == [0.6, 0.75, 0.9]
    assert found[30][1] == 0.0
    assert tried.scores(candidate("hubs")) == {}
    assert tried.seconds(candidate("neighbours")) == 6.0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("features alone", "for comparison"),
        ("neighbours", "chosen"),
        ("token row", "dropped after 30 epochs"),
        ("hubs", "failed: out of memory"),
    ],
)
def test_the_outcome_of_a_candidate_in_words(name, words):
    assert tried.outcome(record(), candidate(name)) == words


def test_averaged_members_have_their_weights():
    members = [{"name": "neighbours", "weight": 3}, {"name": "token row", "weight": 1}]
    values = record(chosen=members)
    assert tried.outcome(values, candidate("neighbours")) == "chosen, weight 75\xa0%"


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (
            0.35,
            "The graph helps: .* 35.0\xa0% with it, 25.0\xa0% without it .*, 10.0 points better",
        ),
        (0.2, "The graph does not help here: .*, 5.0 points worse"),
        (0.2501, "The graph makes no difference here"),
    ],
)
def test_the_worth_of_the_graph_has_both_numbers(score, words):
    assert re.match(words, tried.worth(record(), "accuracy", score, "test"))


def test_a_loss_is_better_when_it_is_lower():
    assert "The graph helps" in tried.worth(record(), "log_loss", 0.2, "test")
    assert "0.050 better" in tried.worth(record(), "log_loss", 0.2, "test")


def test_the_worth_is_not_said_where_it_is_not_known():
    assert tried.worth(record(references={}), "accuracy", 0.5, "test") == ""
    assert tried.worth(record(), "accuracy", None, "test") == ""


# ---- on the page -------------------------------------------------------------------------------


def test_the_page_shows_what_was_tried_beside_a_plain_mlp():
    tree = Tree(render(searched()))
    assert [one["id"] for one in tree.all("section")][:3] == ["score", "search", "training"]
    for words in (
        "What was tried", "Chosen: neighbours, accuracy 0.900", "The graph helps",
        "Plain MLP, features alone 70.0 % 25.0 %", "One answer for all 40.0 % 12.5 %",
        "what token row is Dropped after 30 epochs 50.0 % ± 14.1 – – 2.0 s",
        "Failed: out of memory", "mean ± deviation of 2 seeds",
    ):  # fmt: skip
        assert words in tree.text


def test_a_difference_within_the_interval_is_called_chance():
    facts = searched()
    low, high = (facts["evaluated"]["interval"][end] for end in ("low", "high"))
    near = {"mlp": {"val": 0.7, "test": (low + high) / 2}}
    assert "chance alone could make this difference" in Tree(render(searched(references=near))).text
    assert "chance alone could make" not in Tree(render(facts)).text.split("What was tried")[1]


def test_the_curves_of_candidates_without_a_role_are_not_in_the_legend():
    page = render(searched())
    curves = page.split('class="chart tried-curve"')[1].split("</svg>")[0]
    assert curves.count("<polyline") == 2
    assert curves.count('class="dot other"') == 1
    assert "token row</text>" not in curves


def test_the_legend_names_the_winner_and_those_averaged_with_it_once():
    names = ["neighbours", "propagated, neighbours", "token row"]
    rungs = [{"epochs": at, "scores": [0.8], "losses": [0.4], "seconds": 1.0} for at in (10, 30)]
    facts = searched(
        candidates=[
            candidate("neighbours") | {"name": name, "status": "averaged", "rungs": rungs}
            for name in names
        ],
        chosen=[{"name": name, "seed": 0, "weight": 1 / 3} for name in names],
    )
    curves = render(facts).split('class="chart tried-curve"')[1].split("</svg>")[0]
    assert curves.count("<polyline") == 3
    assert curves.count('class="line also"') == 2 + 1  # and in the legend
    assert curves.count("neighbours</text>") == 1
    assert curves.count("averaged with it</text>") == 1


def test_a_run_with_fixed_settings_has_no_such_section():
    facts = run_facts(classifier())
    assert "search" not in facts
    assert "What was tried" not in render(facts)


def test_a_damaged_record_leaves_the_rest_of_the_page():
    facts = searched() | {"search": {"metric": 3}}
    assert "What was tried" not in render(facts)


def test_names_of_candidates_never_become_markup():
    evil = candidate("neighbours") | {"name": "<script>x</script>", "about": "<b>"}
    page = render(searched(candidates=[evil]))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_model_without_token_rows_says_so():
    facts = searched() | {"tokens": None}
    assert "it draws no token rows" in Tree(render(facts)).text
