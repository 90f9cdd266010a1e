"""The tables of the paper by one command: what is run, how files are joined, what is shown."""

import json
import re
from pathlib import Path

import pytest

from dhilgt.benchmark import Record, Results
from dhilgt.benchmark.experiments.paper import (
    SYSTEMS,
    TABLES,
    published_figures,
    rounds,
    standin_of,
)
from dhilgt.benchmark.experiments.paper_tables import (
    joined,
    paper_tables,
    score_table,
    slim,
    speed_table,
)
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.search import trials_of
from dhilgt.benchmark.show.render import render
from dhilgt.datasets.files import VARIABLE
from dhilgt.errors import ConfigError, DatasetError
from dhilgt.settings.settings import Settings
from dhilgt.tune.space import read_space
from tests.benchmark.cases import broken, changed, line
from tests.cli.cases import fails, ok

RESULTS = Path(__file__).parents[2] / "docs" / "results"
BUSY = {"beside": 3, "jobs": 4}


def write(path, lines):
    with Results(path).open(resume=False) as results:
        for item in lines:
            results.add(item)
    return path


def places(lines, which="main", data=("chameleon",)):
    """The texts of a table of one dataset, by row."""
    (table,) = paper_tables(lines, which, data=data)
    return {row.label: [entry.text for entry in row.entries[0]] for row in table.rows}


def searched(system, seed, score, **more):
    variant = "paper-space" if system == "dhilgt" else "paper"
    return line(system, "chameleon", seed, score, trials=5, variant=variant, **more)


# ---- what is run -------------------------------------------------------------------------------


def test_the_tables_are_those_of_the_paper():
    names = [name for table in TABLES.values() for name in table]
    assert sorted(names) == sorted(published_figures()["figures"])
    compared = set(published_figures()["figures"]["cora"]) - {"dhilgt"}
    assert compared < set(SYSTEMS)
    assert {"gcn", "sage", "linkx", "mlp", "sgformer"} == set(SYSTEMS) - compared


def test_few_seeds_of_everything_come_before_more_of_anything():
    work = rounds(["generated:60", "generated:40"], range(10), trials=2, systems=["dhilgt", "gcn"])
    first = [(sorted({c.data for c in one.cells}), {c.seed for c in one.cells}) for one in work]
    assert first == [
        (["generated:60"], {0, 1, 2}),
        (["generated:40"], {0, 1, 2}),
        (["generated:40", "generated:60"], {0}),  # for time
        (["generated:40", "generated:60"], set(range(10))),
    ]
    assert [one.timed for one in work] == [False, False, True, False]


def test_a_round_has_cells_with_a_search_or_without_never_both():
    for one in rounds(["generated:40"], range(4), trials=2):
        assert len({cell.trials for cell in one.cells}) == 1


def test_rows_of_dhilgt_are_different_cells(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("dhilgt.benchmark.experiments.paper.is_here", lambda name, root: True)
    work = rounds(["cora"], [0], part="scores", trials=3, systems=["dhilgt"])
    cells = [cell for one in work for cell in one.cells]
    assert [(c.variant, c.recipe, c.trials) for c in cells] == [
        ("paper-space", "paper", 3), ("paper", "best", 0),
    ]  # fmt: skip
    (unsearched,) = rounds(["cora"], [0], part="scores", systems=["dhilgt"])
    assert [(c.recipe, c.trials) for c in unsearched.cells] == [("best", 0), ("paper", 0)]


def test_small_graphs_come_first_and_stand_ins_where_the_graph_is_not_here(monkeypatch):
    here = {"chameleon", "tolokers", "genius-like", "penn94-like", "twitch-like"}
    monkeypatch.setattr(
        "dhilgt.benchmark.experiments.paper.is_here", lambda name, root: name in here
    )
    work = rounds(TABLES["main"], [0], systems=["gcn"])
    assert [[cell.data for cell in one.cells] for one in work] == [
        ["chameleon", "tolokers"],
        ["chameleon", "tolokers", "genius-like", "penn94-like", "twitch-like"],
    ]
    assert all(c.changes.training["epochs"] == 10 and c.recipe == "times" for c in work[1].cells)
    monkeypatch.setattr("dhilgt.benchmark.experiments.paper.is_here", lambda name, root: False)
    with pytest.raises(DatasetError, match=r"of chameleon, .* the files of none are here"):
        rounds(TABLES["main"], [0])
    with pytest.raises(ConfigError, match="choose scores, times, stand-ins, all"):
        rounds(["cora"], [0], part="everything")


def test_every_dataset_that_is_hard_to_get_has_a_stand_in():
    found = {name: standin_of(name) for names in TABLES.values() for name in names}
    assert {name for name, standin in found.items() if standin} == {
        "penn94", "genius", "twitch-gamer", "ogbn-arxiv", "ogbn-mag",
    }  # fmt: skip


def test_the_papers_search_stays_within_the_papers_space():
    stages = {p.name: p for stage in read_space("paper").stages for p in stage.parameters}
    trials = trials_of(Cell("dhilgt", "cora", 0, "paper-space", trials=40), 0)
    assert len(trials) == 40
    for trial in trials[1:]:
        changed = {**trial.changes.model, **trial.changes.training}
        assert (changed.pop("batch_size"), changed.pop("precision")) == (4096, "bf16")
        assert set(changed) == set(stages)
        settings = Settings.from_dict(changed).to_dict()
        for name, parameter in stages.items():
            assert parameter.holds(changed[name], settings), name
    wide = trials_of(Cell("dhilgt", "cora", 0, trials=2), 0)[1]
    assert "hidden_channels" in wide.changes.model


# ---- lines of several files --------------------------------------------------------------------


def test_scores_of_the_later_line_and_times_of_the_one_that_ran_alone():
    alone = line("gcn", "cora", 0, 0.7, epoch_seconds=1.0)
    busy = line("gcn", "cora", 0, 0.8, epoch_seconds=9.0, **BUSY)
    for files, score in (([alone], [busy]), 0.8), (([busy], [alone]), 0.7):
        (found,) = joined(files)
        assert (found["scores"]["test"]["accuracy"], found["epoch_seconds"]) == (score, 1.0)
        assert found["beside"] == 0
    assert joined([[busy], [broken("gcn", "cora", 0, "oom")]]) == [busy]
    assert joined([[broken("gcn", "cora", 0, "oom")], [busy]]) == [busy]
    assert joined([[line("gcn", "cora", 0, 0.7, trial=3)]]) == []


def test_times_of_cells_that_ran_alone_are_not_mixed_with_others():
    lines = [searched("gcn", 0, 0.5, epoch_seconds=1.0)]
    lines += [searched("gcn", seed, 0.5, epoch_seconds=9.0, **BUSY) for seed in (1, 2)]
    assert places(lines)["GCN (5 trials)"][1] == "1.00"
    assert places(lines[1:])["GCN (5 trials)"][1] == "9.00†"


def test_short_trainings_give_times_and_never_a_score():
    short = line("gcn", "chameleon", 0, 0.99, recipe="times", epoch_seconds=1.0)
    busy = [searched("gcn", seed, 0.5, epoch_seconds=9.0, **BUSY) for seed in range(3)]
    assert places([short])["GCN"] == ["0.50", "1.00", "0.0040", "1.25", "–"]
    found = places([short, *busy])["GCN (5 trials)"]
    assert (found[1], found[-1]) == ("1.00‡", "50.00 ± 0.00")
    alone = [searched("gcn", 3, 0.5, epoch_seconds=2.0)]
    assert places([short, *busy, *alone])["GCN (5 trials)"][1] == "2.00"


def test_what_is_kept_gives_the_same_table_and_is_smaller():
    lines = [searched("gcn", seed, 0.5, settings={"a": 1}) for seed in range(2)]
    lines += [broken("mlp", "chameleon", 0, "failed", "long " * 400)]
    more = {"stages": {"epoch": {"seconds": 1}}}
    lines = [
        changed(one, **more, environment={**one["environment"], "release": "kernel"})
        for one in lines
    ]
    kept = [slim(one) for one in lines]
    assert "kernel" not in json.dumps(kept)
    assert "stages" not in kept[0]
    assert len(json.dumps(kept)) < len(json.dumps([one.to_json() for one in lines]))
    read = [Record.from_json(one) for one in kept]
    for which in TABLES:
        assert render(paper_tables(read, which), "md") == render(paper_tables(lines, which), "md")
    assert kept == [slim(one) for one in read]


def test_scores_that_mean_nothing_are_not_kept():
    for one in (line("gcn", "genius-like", 0, 0.9), line("gcn", "cora", 0, 0.9, recipe="times")):
        assert slim(one)["scores"] == {}
        assert slim(one)["epoch_seconds"] == one["epoch_seconds"]
    assert slim(line("gcn", "cora", 0, 0.9))["scores"] == {"test": {"accuracy": 0.9}}


# ---- what is shown -----------------------------------------------------------------------------


def test_rows_of_dhilgt_are_never_taken_for_each_other():
    lines = [
        searched("gcn", 0, 0.5),
        searched("dhilgt", 0, 0.6),
        line("dhilgt", "chameleon", 0, 0.4),
        line("dhilgt", "chameleon", 0, 0.7, recipe="best"),
        line("dhilgt", "chameleon", 0, 0.7, trials=5),
        line("gcn", "chameleon", 0, 0.5),
    ]
    (table,) = paper_tables(lines, "main", data=["chameleon"])
    labels = [row.label for row in table.rows]
    assert [name for name in labels if "DHIL" in name] == [
        "DHIL-GT (5 trials)", "DHIL-GT, as published", "DHIL-GT, wider search (5 trials)",
        "DHIL-GT, best recipe", "DHIL-GT, paper's settings, not searched",
    ]  # fmt: skip
    assert {"GCN (5 trials)", "GCN, not searched", "MLP"} < set(labels)
    assert len(set(labels)) == len(labels)


def test_a_table_without_lines_has_the_published_figures():
    main, large = paper_tables([], "main")
    assert main.data == ("chameleon", "squirrel", "tolokers")
    assert large.data == ("penn94", "genius", "twitch-gamer")
    rows = {row.label: row for row in large.rows}
    assert [e.text for e in rows["GCN"].entries[0]] == ["–"] * 4 + ["not run"]
    published = rows["DHIL-GT, as published"].entries
    assert [e.text for e in published[0]] == ["31", "14", "0.3", "10.2", "78.74 ± 0.45"]
    with pytest.raises(ConfigError, match="choose main, homophilous"):
        paper_tables([], "other")


def test_a_stand_in_takes_the_place_of_its_graph_without_a_score():
    lines = [line("gcn", "genius-like", 0, 0.99, recipe="times"), searched("gcn", 0, 0.5)]
    lines.append(line("gcn", "genius-like", 1, 0.99))  # however it came about
    tables = paper_tables(lines, "main")
    assert tables[1].data == ("penn94", "genius-like (stand-in)", "twitch-gamer")
    assert "99.00" not in render(tables, "md")
    row = next(row for row in tables[1].rows if row.label == "GCN (5 trials)")
    assert [e.text for e in row.entries[1]] == [
        "0.50‡", "0.0120‡", "0.0040‡", "1.25", "–", "–",
    ]  # fmt: skip
    assert any("stand-in for genius" in note for note in tables[1].notes)
    real = paper_tables([*lines, line("gcn", "genius", 0, {"accuracy": 0.8})], "main")
    assert real[1].data[1] == "genius"


def test_no_memory_and_no_time_are_results():
    lines = [broken("goat", "chameleon", seed, "over-budget", "600 s") for seed in (0, 1)]
    lines.append(broken("hsgt", "penn94-like", 0, "oom", "no room"))
    first, second = paper_tables(lines, "main")
    rows = {row.label: row for row in first.rows}
    assert rows["GOAT"].entries[0][-1].text == "over budget"
    rows = {row.label: row for row in second.rows}
    assert [entry.text for entry in rows["HSGT"].entries[0]] == ["OOM", "–", "–", "–", "–"]
    assert "goat, chameleon, seeds 0, 1: over-budget (600 s)." in first.notes


def test_a_cell_cut_off_shows_what_it_had_measured():
    def cells(**known):
        one = changed(broken("goat", "penn94-like", 0, "over-budget", "600 s"), **known)
        rows = {row.label: row for row in paper_tables([one], "main")[1].rows}
        return [entry.text for entry in rows["GOAT"].entries[0]]

    assert cells(precompute_seconds=31.0) == ["31.0", "over budget", "–", "–", "–"]
    trained = cells(precompute_seconds=31.0, epoch_seconds=7.0, gpu_peak_bytes=2e9)
    assert trained == ["31.0", "7.00", "over budget", "2.00", "–"]


# ---- speed -------------------------------------------------------------------------------------


def speeds(lines):
    return {
        row.label: [entry.text for entries in row.entries for entry in entries]
        for row in speed_table(lines).rows
    }


def test_speed_stands_beside_the_published_figure():
    lines = [
        line("dhilgt", "cora", 0, 0.8, load_seconds=0.1, precompute_seconds=0.11),
        line("dhilgt", "cora", 1, 0.8, load_seconds=0.1, precompute_seconds=0.11),
        line("dhilgt", "cora", 0, 0.8, recipe="best", precompute_seconds=99.0),
        line("dhilgt", "penn94-like", 0, 0.8, recipe="times", load_seconds=50, **BUSY),
        line("gcn", "pubmed", 0, 0.8),
    ]
    found = speeds(lines)
    assert len(found) == 12
    assert found["cora"] == [
        "0.21", "0.42", "2.0×", "0.0120", "0.05", "4.2×", "0.0040", "0.005", "1.2×",
    ]  # fmt: skip
    assert found["penn94-like (stand-in)"][:4] == ["0.50†§", "31", "62.0×†§", "0.0120†"]
    assert found["pubmed"][:3] == ["–", "2.6", "–"]
    notes = " ".join(speed_table(lines).notes)
    assert "H200" in notes
    assert "A30" in notes
    assert "penn94-like: generated" in notes


def test_a_slower_program_has_a_ratio_below_one():
    assert speeds([line("dhilgt", "cora", 0, 0.8, epoch_seconds=0.5)])["cora"][5] == "0.1×"


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small run of the paper: two systems, a search, times, two seeds."""
    path = tmp_path_factory.mktemp("paper") / "r.jsonl"
    command = (
        "bench", "paper", "--models", "dhilgt,gcn", "--data", "generated:40", "--seeds", "0-1",
        "--tune", "2", "--epochs", "2", "--score-epochs", "2", "--in-process", "--device", "cpu",
        "-o", path,
    )  # fmt: skip
    return command, path, ok(*command)


def test_the_paper_by_one_command(small):
    command, path, first = small
    lines = Results(path).lines()
    assert {line["status"] for line in lines} == {"ok"}
    assert sum(line["trial"] is not None for line in lines) == 2 * 2
    assert "note: 10 run, 6 of 6 cells done" in first.stderr
    times = [text for text in first.stderr.splitlines() if "round 2" in text]
    assert len(times) == 2
    assert all("epoch" in text and "accuracy" not in text for text in times)
    assert "GCN (2 trials)" in first.stdout
    assert "DHIL-GT (2 trials)" in first.stdout
    assert all(line["load_seconds"] > 0 for line in lines)
    again = ok(*command, "--resume")
    assert "0 run, 6 of 6" in again.stderr
    assert again.stdout == first.stdout


@pytest.mark.full
def test_timed_cells_at_once_are_marked(tmp_path):
    path = tmp_path / "r.jsonl"
    shown = ok(
        "bench", "paper", "--models", "gcn,mlp", "--data", "generated:40", "--seeds", "0", "--part",
        "times", "--timed-jobs", "2", "--epochs", "2", "--reuse", "--device", "cpu", "-o", path,
    )  # fmt: skip
    assert {line["jobs"] for line in Results(path).lines()} == {2}
    assert "† measured in a run of several cells at once" in shown.stdout


def test_showing_is_apart_from_running(small, tmp_path):
    _, path, first = small
    show = ("bench", "paper", "--data", "generated:40", "--render-only")
    assert ok(*show, "--results", path).stdout == first.stdout
    assert ok(*show, "-o", path).stdout == first.stdout
    kept, table = tmp_path / "lines" / "kept.jsonl", tmp_path / "t.tex"
    kept.parent.mkdir()
    assert ok(*show, "--results", path, "--keep", kept, "--to", table).stdout == ""
    assert table.read_text(encoding="utf-8").startswith(r"\begin{tabular}")
    assert ok(*show, "--results", kept.parent).stdout == first.stdout
    assert kept.stat().st_size < path.stat().st_size / 2
    assert "published, s" in ok("bench", "paper", "--table", "speed", "--results", kept,
                                "--render-only").stdout  # fmt: skip


def test_a_run_cut_short_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["dhilgt", "bench", "paper", "..."])
    found = ok(
        "bench", "paper", "--models", "gcn", "--data", "generated:40", "--total", "0.000001",
        "--in-process", "--device", "cpu", "-o", tmp_path / "r.jsonl",
    )  # fmt: skip
    assert "cells are not done; go on with: dhilgt bench paper" in found.stderr
    assert "--resume" in found.stderr


def test_refusals(tmp_path):
    assert "none of main" in fails("bench", "paper", "--table", "x", code=2)
    assert "md, latex" in fails("bench", "paper", "--format", "x", code=2)
    assert "not a system of this table" in fails("bench", "paper", "--models", "gnc")
    assert "holds no results" in fails("bench", "paper", "--render-only", "--results", tmp_path)
    missing = tmp_path / "no.jsonl"
    assert "is not there" in fails("bench", "paper", "--render-only", "-o", missing)


def test_scores_alone_leave_times_and_graphs_without_scores_out():
    lines = [
        searched("gcn", 0, 0.5),
        line("dhilgt", "chameleon", 0, 0.7, recipe="best"),
        line("gcn", "genius-like", 0, 0.9),
        line("gcn", "cora", 0, 0.9, recipe="times"),
    ]
    table = score_table(lines)
    assert (table.data, table.columns) == (("chameleon",), (("Acc",),))
    shown = {row.label: row.entries[0][0].text for row in table.rows}
    assert (shown["GCN (5 trials)"], shown["DHIL-GT, best recipe"]) == ("50.00", "70.00")
    assert not any(note.startswith("Seconds") for note in table.notes)
    with pytest.raises(ConfigError, match="no scores of a real graph"):
        score_table(lines[2:])


# ---- the committed lines -----------------------------------------------------------------------


def test_the_committed_scores_are_made_from_the_committed_lines():
    made = ok("bench", "paper", "--table", "scores", "--render-only", "--results",
              RESULTS / "paper", "--no-published").stdout  # fmt: skip
    assert (RESULTS / "paper-scores-table.md").read_text(encoding="utf-8") == made


def test_the_scores_of_the_readme_are_those_of_the_table_without_a_ranking():
    table = (RESULTS / "paper-scores-table.md").read_text(encoding="utf-8")
    unmarked = re.sub(r"\*\*|</?u>", "", table).replace(" (3 trials)", "")
    readme = (RESULTS.parent.parent / "README.md").read_text(encoding="utf-8")
    shown = [line for line in readme.splitlines() if " ± " in line]
    assert 0 < len(shown) <= 4
    assert [line for line in shown if line not in unmarked] == []


@pytest.mark.parametrize("which", ["main", "homophilous", "speed"])
def test_the_committed_table_is_made_from_the_committed_lines(which):
    if not list((RESULTS / "paper").glob("*.jsonl")):
        pytest.skip("no lines under docs/results/paper yet")
    name = "speed-published-table.md" if which == "speed" else f"paper-{which}-table.md"
    found = ok("bench", "paper", "--table", which, "--render-only", "--results", RESULTS / "paper")
    assert (RESULTS / name).read_text(encoding="utf-8") == found.stdout
