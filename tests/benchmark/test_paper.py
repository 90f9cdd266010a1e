"""Time and memory beside the published figures: what is run, how lines join, what is shown."""

import pytest

from dhilgt.benchmark import Results
from dhilgt.benchmark.experiments.paper import (
    COMPARED,
    GRAPHS,
    SYSTEMS,
    TABLES,
    known_systems,
    published_figures,
    standin_of,
    time_cells,
)
from dhilgt.benchmark.experiments.paper_tables import joined, speed_table, times_tables
from dhilgt.errors import DatasetError
from tests.benchmark.cases import broken, changed, line
from tests.cli.cases import ok

BUSY = {"beside": 3, "jobs": 4}


def timed(system, data, **more):
    return line(system, data, 0, 0.99, recipe="times", **more)


# ---- what is run -------------------------------------------------------------------------------


def test_graphs_and_systems_are_those_of_the_paper():
    figures = published_figures()["figures"]
    assert sorted(GRAPHS) == sorted(figures)
    assert set(COMPARED) == set(figures["cora"]) - {"dhilgt"}
    assert known_systems()[0] == "dhilgt"
    assert len(SYSTEMS) == len(set(SYSTEMS)) == 16


def test_small_graphs_come_first_and_stand_ins_where_the_graph_is_not_here(monkeypatch):
    here = {"chameleon", "tolokers", "genius-like", "penn94-like", "twitch-like"}
    place = "dhilgt.benchmark.experiments.paper.is_here"
    monkeypatch.setattr(place, lambda name, root: name in here)
    cells = time_cells(TABLES["main"], ["gcn"])
    assert [cell.data for cell in cells] == [
        "chameleon", "tolokers", "genius-like", "penn94-like", "twitch-like",
    ]  # fmt: skip
    assert all(one.changes.training["epochs"] == 10 and one.recipe == "times" for one in cells)
    monkeypatch.setattr(place, lambda name, root: False)
    with pytest.raises(DatasetError, match=r"the files of chameleon, .* are not here"):
        time_cells(TABLES["main"])


def test_every_dataset_that_is_hard_to_get_has_a_stand_in():
    assert {name for name in GRAPHS if standin_of(name)} == {
        "penn94", "genius", "twitch-gamer", "ogbn-arxiv", "ogbn-mag",
    }  # fmt: skip


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


# ---- what is shown -----------------------------------------------------------------------------


def places(lines, data=("chameleon",)):
    """The texts of a table of one dataset, by row."""
    (table,) = times_tables(lines, data)
    return {row.label: [entry.text for entry in row.entries[0]] for row in table.rows}


def test_short_trainings_give_times_and_never_a_score():
    rows = places([timed("gcn", "chameleon"), line("gcn", "chameleon", 1, 0.5)])
    assert rows == {"GCN": ["0.50", "0.0120", "0.0040", "1.25"]}
    assert places([timed("goat", "chameleon")])["GOAT, as published"][0] == "1.99"
    assert times_tables([line("gcn", "chameleon", 1, 0.5)]) == []


def test_times_beside_others_are_marked():
    assert places([timed("gcn", "chameleon", epoch_seconds=9.0, **BUSY)])["GCN"][1] == "9.00†"


def test_a_stand_in_takes_the_place_of_its_graph():
    (table,) = times_tables([timed("gcn", "genius-like")])
    assert table.data == ("genius-like (stand-in)",)
    assert any("stand-in for genius" in note for note in table.notes)


def test_a_cell_cut_off_shows_what_it_had_measured():
    def cells(**known):
        one = changed(broken("goat", "penn94-like", 0, "over-budget", "600 s"), recipe="times")
        return places([changed(one, **known)], ["penn94"])["GOAT"]

    assert cells() == ["over budget", "–", "–", "–"]
    assert cells(precompute_seconds=31.0) == ["31.0", "over budget", "–", "–"]
    trained = cells(precompute_seconds=31.0, epoch_seconds=7.0, gpu_peak_bytes=2e9)
    assert trained == ["31.0", "7.00", "over budget", "2.00"]


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


def test_times_by_one_command(tmp_path):
    path = tmp_path / "r.jsonl"
    shown = ok(
        "bench", "paper", "--table", "times", "--models", "gcn,mlp", "--data", "generated:40",
        "--epochs", "2", "--in-process", "--device", "cpu", "-o", path,
    )  # fmt: skip
    lines = Results(path).lines()
    assert {(line["recipe"], line["epochs"], line["seed"]) for line in lines} == {("times", 2, 0)}
    assert all(line["load_seconds"] > 0 for line in lines)
    assert "2 of 2 trainings done" in shown.stderr
