"""The default against every baseline: what is run, how chunks join, what the tables say."""

import statistics
from pathlib import Path

import pytest
from scipy import stats

from dhilgt import baselines
from dhilgt.benchmark import Limits, Results
from dhilgt.benchmark.experiments.default import (
    GRAPHS,
    MLP,
    default_cells,
    default_systems,
    default_tables,
    graph_results,
)
from dhilgt.benchmark.running import default_contender, runner
from dhilgt.benchmark.running.cell import run_cell
from dhilgt.benchmark.running.contenders import resolved
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import Changes, Recipe, read
from dhilgt.benchmark.show.render import render
from dhilgt.benchmark.show.tables import RowKey
from dhilgt.classifier.classifier import NodeClassifier
from dhilgt.errors import ArtifactError, ConfigError
from tests.benchmark.cases import changed, scripted
from tests.benchmark.study_cases import scored, write
from tests.cli.cases import fails, ok

TINY = Changes({"size": 4, "hidden_channels": 8, "num_layers": 1, "heads": 2}, {"epochs": 1})
SYSTEMS = [("dhilgt", "paper"), ("gcn", "paper"), ("gcn", "tuned"), ("mlp", "paper")]
OURS, GCN = (0.80, 0.84, 0.82, 0.86), (0.79, 0.80, 0.84, 0.83)
TUNED, PLAIN = (0.81, 0.82, 0.81, 0.84), (0.60, 0.62, 0.61, 0.65)
TUNED_KEY = RowKey("gcn", "tuned", "paper", 0)


def known(data="cora", ours=OURS):
    """Four seeds of the default, two variants of GCN and the MLP."""
    columns = {"dhilgt": ours, "gcn": GCN, "gcn:tuned": TUNED, "mlp": PLAIN}
    cells = default_cells(SYSTEMS, [data], range(10, 14))
    return [
        scored(cell, columns[cell.name.split()[0]][cell.seed - 10], total_seconds=2.0)
        for cell in cells
        if cell.recipe != "retuned"
    ]


# ---- cells -------------------------------------------------------------------------------------


def test_every_system_is_run_with_nothing_changed_on_ten_splits_of_twelve_graphs():
    cells = default_cells()
    assert len(GRAPHS) == 12
    assert {cell.seed for cell in cells} == set(range(10, 20))
    assert {cell.system for cell in cells} == {"dhilgt", *baselines.names()}
    assert {("gcn", "tuned"), ("sage", "tuned")} <= set(default_systems())
    own = [cell for cell in cells if cell.recipe != "retuned"]
    assert all(cell.changes == Changes() and not cell.trials for cell in own)
    assert {cell.recipe for cell in own if cell.system == "dhilgt"} == {"auto"}
    assert {cell.recipe for cell in own if cell.system != "dhilgt"} == {"paper"}
    assert len(own) == 120 * len(default_systems())
    assert len({cell.key for cell in cells}) == len(cells)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)


def test_published_settings_of_a_dataset_have_a_row_of_their_own():
    cells = default_cells([("gcn", "tuned"), ("sage", "tuned")], ["photo", "actor"], [10])
    assert [(cell.system, cell.data, cell.recipe) for cell in cells] == [
        ("gcn", "photo", "paper"),
        ("sage", "photo", "paper"),
        ("gcn", "photo", "retuned"),
        ("sage", "photo", "retuned"),
        ("gcn", "actor", "paper"),
        ("sage", "actor", "paper"),
    ]
    settings = {cell.system: resolved(cell, "accuracy") for cell in cells[2:4]}
    assert settings["gcn"].model["linear_head"]
    assert settings["gcn"].model["num_layers"] == 6
    assert settings["gcn"].training.epochs == 1000
    assert not settings["sage"].model["feature_dropout"]
    assert settings["sage"].training.patience is None


def test_no_system_without_early_stopping_in_its_paper_is_stopped_early():
    for cell in default_cells([("linkx", "paper"), ("gcn", "paper")], ["cora"], [10]):
        assert resolved(cell, "accuracy").training.patience is None


def test_lines_of_baselines_are_those_of_any_other_table():
    (cell,) = default_cells([("gcn", "paper")], ["cora"], [10])
    assert cell.key == Cell("gcn", "cora", 10).key


def test_the_name_of_the_default_is_no_recipe_of_a_file(tmp_path):
    path = tmp_path / "auto.yaml"
    path.write_text("gcn: {training: {epochs: 3}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="choose another name"):
        read(str(path), ["gcn"])


# ---- the default is what is measured -----------------------------------------------------------


def test_the_classifier_is_given_only_what_belongs_to_the_comparison():
    (cell,) = default_cells([("dhilgt", "paper")], ["tolokers"], [17])
    made = default_contender.default_classifier(cell, "roc_auc", "cpu", None)
    given = {"metric": "roc_auc", "seed": 17, "device": "cpu", "cache": False, "progress": False}
    assert repr(made.get_params()) == repr(NodeClassifier(**given).get_params())
    bounded = default_contender.default_classifier(cell, "roc_auc", "cpu", 2)
    assert bounded.threads == 2


def test_its_line_has_scores_times_and_the_settings_it_ended_with():
    cell = Cell("dhilgt", "generated:40", 3, recipe="auto", changes=TINY)
    line = run_cell(cell, device="cpu")
    assert line["status"] == "ok", line["message"]
    assert line["recipe"] == "auto"
    assert line["settings"]["hidden_channels"] == 8
    assert line["training"]["epochs"] == 1
    assert line["num_parameters"] > 0
    assert 0 <= line["scores"]["test"]["accuracy"] <= 1
    assert line["total_seconds"] > line["inference_seconds"] > 0
    plain = run_cell(Cell("mlp", "generated:40", 3, changes=Changes(training={"epochs": 1})))
    assert line["split_hash"] == plain["split_hash"]


class Chooser(NodeClassifier):
    """A classifier that says what it tried."""

    def fit(self, graph, y=None, **options):
        super().fit(graph, y, **options)
        self.search_ = {
            "seconds": 3.0,
            "candidates": [
                {"name": "hops", "status": "chosen", "rungs": [{"epochs": 30, "scores": [0.5]}]},
                {"name": "alone", "status": "reference", "rungs": []},
            ],
            "chosen": [{"name": "hops", "seed": 0, "weight": 1.0}],
        }
        return self


def test_what_was_chosen_is_in_the_line_and_in_the_table(monkeypatch, tmp_path):
    def chooser(cell, metric, device, threads):
        given = {**cell.changes.model, **cell.changes.training, "seed": cell.seed}
        paper = {"recipe": "paper"} if "recipe" in NodeClassifier().get_params() else {}
        return Chooser(**given, **paper, device="cpu", cache=False, progress=False)

    monkeypatch.setattr(default_contender, "default_classifier", chooser)
    cell = Cell("dhilgt", "generated:40", 0, recipe="auto", changes=TINY)
    path = write(tmp_path / "r.jsonl", [run_cell(cell, device="cpu")])
    (line,) = Results(path).lines()
    assert line.chosen == {
        "seconds": 3.0,
        "candidates": {"hops": "chosen", "alone": "reference"},
        "chosen": [{"name": "hops", "seed": 0, "weight": 1.0}],
    }
    last = default_tables([line])[-1]
    assert last.rows[0].label == "generated:40"
    assert last.rows[0].entries[0][0].text == "hops (1)"


def test_a_default_that_fails_is_a_line_like_any_other(monkeypatch):
    monkeypatch.setattr(NodeClassifier, "fit", lambda *args, **options: 1 / 0)
    line = run_cell(Cell("dhilgt", "generated:40", 0, recipe="auto", changes=TINY), device="cpu")
    assert line["status"] == "failed"
    assert "ZeroDivisionError" in line["message"]


# ---- chunks ------------------------------------------------------------------------------------


def run(path, cells, limits, resume=True, command=None):
    with Results(path).open(resume=resume) as results:
        return runner.run(cells, results, limits, command=command)


def test_after_its_minutes_no_cell_begins_and_the_one_that_runs_may_end(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])

    def script(cell):
        now[0] += 40.0
        return 0.5

    scripted(monkeypatch, script)
    cells = default_cells([("mlp", "paper")], ["generated:40"], range(5))
    limits = Limits(apart=False, device="cpu", starts=60.0)
    path = tmp_path / "r.jsonl"
    first = run(path, cells, limits)
    assert (first.ran, first.left) == (2, 3)  # begun at 0 and at 40 seconds, ended at 80
    assert {line.status for line in Results(path).lines()} == {"ok"}
    second = run(path, cells, limits)
    assert (second.skipped, second.ran, second.left) == (2, 2, 1)
    third = run(path, cells, limits)
    assert (third.skipped, third.ran, third.left) == (4, 1, 0)


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="starts"):
        Limits(starts=0.0)
    assert "--minutes" in fails("bench", "default", "--minutes", "0", code=2)


def test_a_line_has_the_command_that_made_it(tmp_path, monkeypatch):
    scripted(monkeypatch)
    cells = default_cells([("mlp", "paper")], ["generated:40"], [10])
    run(tmp_path / "r.jsonl", cells, Limits(apart=False, device="cpu"), command="dhilgt bench x")
    (line,) = Results(tmp_path / "r.jsonl").lines()
    assert line.command == "dhilgt bench x"
    assert line["command"] == "dhilgt bench x"


def test_a_line_without_a_choice_or_a_command_is_as_it_was_before_there_were_any():
    assert not {"chosen", "command"} & set(known()[0].to_json())


def test_chunks_join_in_any_order(tmp_path):
    lines = known()
    first, second = write(tmp_path / "a.jsonl", lines[:7]), write(tmp_path / "b.jsonl", lines[7:])
    whole = ok("bench", "default", "--render-only", write(tmp_path / "all.jsonl", lines)).stdout
    assert ok("bench", "default", "--render-only", first, second).stdout == whole
    assert ok("bench", "default", "--render-only", second, first).stdout == whole
    both = tmp_path / "both.jsonl"
    both.write_bytes(second.read_bytes() + first.read_bytes())
    assert ok("bench", "default", "--render-only", both).stdout == whole


# ---- numbers -----------------------------------------------------------------------------------


def test_differences_are_those_of_the_same_splits():
    (one,) = graph_results(known())
    gaps = [ours - other for ours, other in zip(OURS, PLAIN, strict=True)]
    found = one.ahead(MLP)
    assert found.mean == pytest.approx(sum(gaps) / 4)
    reach = stats.t.ppf(0.975, 3) * statistics.stdev(gaps) / 2
    assert (found.low, found.high) == pytest.approx((found.mean - reach, found.mean + reach))
    assert one.splits_at_or_above(RowKey("gcn", "paper", "paper", 0)) == "3 of 4"


def test_the_best_baseline_is_that_of_the_highest_mean_and_never_one_of_ours():
    by_paper = [scored(Cell("dhilgt", "cora", seed), 0.99) for seed in range(10, 14)]
    (one,) = graph_results(known() + by_paper)
    assert one.best == TUNED_KEY  # 82.0 against 81.5
    assert one.seeds == {10, 11, 12, 13}


def test_a_baseline_is_ranked_by_the_splits_it_shares_with_the_default():
    """As of a run that is not done: the missing split is not held against anybody."""
    lines = [line for line in known() if (line.cell.variant, line.cell.seed) != ("tuned", 13)]
    (one,) = graph_results(lines)
    assert one.best == TUNED_KEY
    assert one.ahead(one.best).mean == pytest.approx(
        statistics.fmean(ours - tuned for ours, tuned in zip(OURS[:3], TUNED[:3], strict=True))
    )
    assert "(3 of 4)" in render(default_tables(lines), "md")


def test_a_baseline_with_half_of_the_splits_is_not_ranked():
    lines = [line for line in known() if (line.cell.variant, line.cell.seed) < ("tuned", 12)]
    (one,) = graph_results(lines)
    assert one.best == RowKey("gcn", "paper", "paper", 0)
    assert "GCN (tuned) has 2 of 4 splits" in render(default_tables(lines), "md")


def test_a_baseline_that_failed_on_a_split_is_named_and_not_ranked():
    lines = [
        changed(line, status="over-budget", message="not done after 9 seconds", scores={})
        if (line.cell.variant, line.cell.seed) == ("tuned", 13)
        else line
        for line in known()
    ]
    (one,) = graph_results(lines)
    assert one.best == RowKey("gcn", "paper", "paper", 0)
    text = render(default_tables(lines), "md")
    assert "GCN (tuned) has 3 of 4 splits of cora and is not ranked there" in text
    assert "gcn, cora, seed 13: over-budget (not done after 9 seconds)." in text
    assert "81.33 ± 0.58 (3 of 4)" in text


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (0.0, "on 1 of 1 graphs, less than half a point below on 0, further below on 0"),
        (-0.0049, "on 0 of 1 graphs, less than half a point below on 1, further below on 0"),
        (-0.0051, "on 0 of 1 graphs, less than half a point below on 0, further below on 1"),
    ],
)
def test_graphs_are_counted_by_the_mean_difference_to_the_best_baseline(shift, words):
    text = render(default_tables(known(ours=[score + shift for score in TUNED])), "md")
    assert f"the default is at or above the best baseline {words}" in text
    assert "at or above the MLP on 1 of 1 graphs" in text


def test_systems_without_a_line_are_named():
    lines = known() + [line for line in known("actor") if line.cell.system != "gcn"]
    notes = default_tables(lines)[0].notes
    assert "Not run on actor: GCN." in notes
    (others,) = (note for note in notes if note.startswith("Not run on these graphs: "))
    assert "LINKX" in others


def test_splits_that_differ_are_refused():
    lines = known()
    lines[1] = changed(lines[1], split_hash="another")
    with pytest.raises(ArtifactError, match="no difference can be taken"):
        default_tables(lines)


def test_other_lines_of_the_file_do_no_harm():
    others = [
        scored(Cell("gcn", "cora", 10, trial=3), 0.99),
        scored(Cell("gcn", "penn94-like", 10), 0.99),
    ]
    assert default_tables([*known(), *others])[0] == default_tables(known())[0]
    assert default_tables([]) == []


def test_graphs_stand_in_the_order_of_the_list():
    lines = known("cornell5") + known("actor") + known("chameleon")
    assert [one.data for one in graph_results(lines)] == ["chameleon", "actor", "cornell5"]


# ---- the command -------------------------------------------------------------------------------


def test_the_command_runs_resumes_and_writes_the_table(tmp_path):
    path = tmp_path / "r.jsonl"
    options = ("--models", "mlp,gcn", "--data", "generated:40", "--epochs", 1, "--device", "cpu")
    options += ("--in-process", "-o", path)
    ok("bench", "default", *options, "--seeds", "10")
    again = ok("bench", "default", *options, "--seeds", "10-11", "--resume", "--minutes", 5)
    assert "2 run, 2 were done" in again.stderr
    assert "| generated:40, Acc |" in again.stdout
    shown = ok("bench", "default", "--render-only", path, "--into", tmp_path / "out").stdout
    written = (tmp_path / "out" / "default-table.md").read_text(encoding="utf-8")
    assert written == shown == again.stdout


def test_the_recipe_of_the_default_changes_nothing_of_a_baseline():
    assert Recipe("auto").name_for("gcn") == "paper"
    assert Recipe("auto").changes("gcn", "cora") == Changes()


def test_the_page_has_the_table_of_its_lines():
    results = Path(__file__).parents[2] / "docs" / "results"
    files = ["default.jsonl", "default-baselines.jsonl", "paper/scores.jsonl"]
    lines = [one for file in files for one in Results(results / file).lines()]
    made = render(default_tables(lines), "md")
    assert (results / "default-table.md").read_text(encoding="utf-8") == made
