"""The table of scores on the results page is what the committed runs say."""

from pathlib import Path

import pytest
from docs.make import known, lines_of, scores

from dhilgt.settings.earlier import renamed
from dhilgt.settings.recipes import recipe
from dhilgt.settings.settings import Settings

RESULTS = Path(__file__).parents[2] / "docs" / "results"
BEST = sorted((RESULTS / "scores" / "best").glob("*.jsonl"))


def test_the_table_is_made_from_the_lines():
    assert (RESULTS / "scores-table.md").read_text(encoding="utf-8") == scores.table(
        RESULTS / "scores"
    )


def test_a_score_at_or_above_the_published_one_is_bold():
    runs = [{"metric": "accuracy", "scores": {"test": {"accuracy": share}}} for share in (0.5, 0.7)]
    assert scores.cell(runs, "59.9 ± 1.0").startswith("**60.00")
    assert scores.cell(runs, "60.1 ± 1.0").startswith("60.00")
    assert scores.cell([], "60.1 ± 1.0") == "not run"


@pytest.mark.parametrize("file", BEST, ids=lambda file: file.stem)
def test_the_shipped_recipe_is_the_one_that_was_run(file):
    shipped = Settings.from_dict(recipe("best", file.stem)).to_dict()
    runs = lines_of(file)
    assert [run["seed"] for run in runs] == list(range(10))
    for run in runs:
        # Settings that came later than the run are in it at the defaults they came with.
        then = Settings.from_dict({"feature_scale": "none"} | renamed(run["config"])).to_dict()
        where = {"seed": 0, "device": "auto"}  # no part of a recipe
        assert then | where == shipped | where


def test_known_figures_are_read_against_their_range():
    (check,) = [one for one in known.CHECKS if one.name == "gcn:tuned squirrel official"]
    runs = [
        {"check": check.name, "score": score, "epochs": 9, "out_of_time": False}
        for score in (0.3, 0.44)
    ]
    assert known.table(runs[1:]).splitlines()[-1].endswith("| 43 to 46 | 44.00 | 1 | 9 | met |")
    within = "| 37.00 ± 9.90 | 2 | 9 | 6.0 below, within two deviations |"
    assert within in known.table(runs)
    runs[0]["out_of_time"] = True
    assert "| – | 2 | 9 | not trained to the end: a limit of time |" in known.table(runs)


def test_the_table_of_known_figures_is_made_from_its_lines():
    made = known.table(lines_of(RESULTS / "known.jsonl"))
    assert (RESULTS / "known-table.md").read_text(encoding="utf-8") == made


def test_the_recorded_runs_of_the_papers_recipe_are_near_an_independent_trial():
    """Guards the record, not the training: `test_recipe_real` trains anew."""
    for name, (low, high) in {
        "cora": (82, 84),
        "citeseer": (72, 74),
        "chameleon": (39, 42),
    }.items():
        runs = lines_of(RESULTS / "scores" / "paper" / f"{name}.jsonl")
        mean = float(scores.score(runs, "test").partition(" ")[0])
        assert low - 3 <= mean <= high + 3, name
