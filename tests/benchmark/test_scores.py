"""The table of scores on the results page is what the committed runs say."""

from pathlib import Path

import numpy as np
import pytest
from docs.make import against, known, lines_of, scores

from dhilgt.benchmark import Record, Results
from dhilgt.benchmark.experiments.paper import OURS, SYSTEMS
from dhilgt.settings.earlier import renamed
from dhilgt.settings.recipes import recipe
from dhilgt.settings.settings import Settings
from tests.cli.cases import ok

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


def test_rows_of_the_best_recipes_are_cells_of_the_same_runs():
    cells = Results(RESULTS / "paper" / "best.jsonl").lines()
    runs = {(file.stem, run["seed"]): run for file in BEST for run in lines_of(file)}
    beside = scores.seeds_beside(RESULTS / "paper" / "best.jsonl")
    wanted = {(file.stem, seed) for file in BEST for seed in beside[file.stem]}
    assert {(cell["data"], cell["seed"]) for cell in cells} == wanted
    for cell in cells:
        run = runs[cell["data"], cell["seed"]]
        assert cell["scores"]["test"][run["metric"]] == run["scores"]["test"][run["metric"]]
        assert cell["split_hash"] == run["split_hash"]
        assert (cell["recipe"], cell["epoch_seconds"]) == ("best", None)


def test_the_differences_to_each_system_are_made_from_the_lines():
    made = against.table(against.read(RESULTS / "paper"))
    assert (RESULTS / "against-table.md").read_text(encoding="utf-8") == made


def test_differences_are_ours_minus_theirs_over_the_splits_that_both_have():
    def line(system, recipe, seed, score):
        return Record.from_json({
            "format": 1, "key": f"{system} {recipe} {seed}", "system": system,
            "variant": "paper", "recipe": recipe, "trials": 0, "trial": None,
            "data": "cora", "standin_for": None, "seed": seed, "split_hash": str(seed),
            "status": "ok", "metrics": ["accuracy"], "scores": {"test": {"accuracy": score}},
        })  # fmt: skip

    ours = [line("dhilgt", "best", seed, 0.8 + 0.01 * seed) for seed in range(4)]
    worse = [line("gcn", "paper", seed, 0.75 + 0.01 * seed + 0.001 * seed**2) for seed in range(3)]
    alike = [line("mlp", "paper", seed, (0.9, 0.7)[seed]) for seed in range(2)]
    text = against.table(ours + worse + alike)
    assert "| GCN, not searched | **+4.83 (+4.32 to +5.35)** |" in text
    assert "| MLP, not searched | +0.50 (-132.92 to +133.92) |" in text
    assert "Of 2 intervals 1 leave 0 out (bold): 1 for the best recipe, 0 for the other" in text


def test_every_system_is_better_than_the_mlp_on_some_graph():
    found = {}
    for name in ("main", "homophilous"):
        for line in Results(RESULTS / "paper" / f"{name}.jsonl").lines():
            if line["status"] == "ok":
                score = line["scores"]["test"][line["chosen_by"]]
                found.setdefault((line["system"], line["data"]), []).append(score)

    def error(values):
        return np.std(values, ddof=1) / np.sqrt(len(values))

    for system in (OURS, *SYSTEMS):
        better = [
            data
            for (other, data), values in found.items()
            if other == system and len(values) == 10
            and np.mean(values) - np.mean(found["mlp", data])
            > 2 * np.hypot(error(values), error(found["mlp", data]))
        ]  # fmt: skip
        assert bool(better) == (system != "mlp"), system


def test_the_table_of_all_systems_is_made_from_its_lines():
    shown = ok("bench", "show", RESULTS / "comparison.jsonl", "--across", "2").stdout
    assert (RESULTS / "comparison-table.md").read_text(encoding="utf-8") == shown


def test_known_figures_are_read_against_their_range():
    (check,) = [one for one in known.CHECKS if one.name == "gcn:tuned squirrel official"]
    runs = [
        {"check": check.name, "score": s, "epochs": 9, "out_of_time": s < 0.4} for s in (0.3, 0.44)
    ]
    assert known.table(runs[1:]).splitlines()[-1].endswith("| 43 to 46 | 44.00 | 1 | 9 | met |")
    assert (
        "| 37.00 ± 9.90 | 2 | 9, cut by time | 6.0 below, within two deviations |"
        in known.table(runs)
    )


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
