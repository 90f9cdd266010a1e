"""The protocol of the comparison: what is run, what its tables say, and what they never say."""

from pathlib import Path

import numpy as np
import pytest

from dhilgt import baselines, datasets
from dhilgt.benchmark import Results
from dhilgt.benchmark.experiments.default import GRAPHS, default_cells, default_tables
from dhilgt.benchmark.experiments.paper import SYSTEMS
from dhilgt.benchmark.experiments.protocol import OFFICIAL_GRAPHS, TRIALS, protocol_cells
from dhilgt.benchmark.experiments.protocol_results import columns_of
from dhilgt.benchmark.experiments.protocol_tables import (
    known_table,
    protocol_tables,
)
from dhilgt.benchmark.record import SearchSummary
from dhilgt.benchmark.running import data, search
from dhilgt.benchmark.running.agenda import Agenda
from dhilgt.benchmark.running.cell import run_cell
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import Changes
from dhilgt.datasets.files import VARIABLE
from dhilgt.errors import ArtifactError, ConfigError, DatasetError
from tests.benchmark.cases import changed
from tests.benchmark.study_cases import scored
from tests.cli.cases import fails, ok

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OURS = (0.80, 0.84, 0.82, 0.86)
LOWER = (0.60, 0.66, 0.62, 0.65)
HIGHER = (0.81, 0.83, 0.83, 0.88)
DONE = SearchSummary(20, 20, 0, 3, 0.8, Changes(), 60.0, (0, 1, 2), 34)


def lines(table="defaults", split="own", data="squirrel", **scores):
    """Four splits of DHIL-GT and of other systems, with these scores; None is over budget."""
    given = {"dhilgt": OURS, "mlp": LOWER, "gcn": HIGHER, **scores}
    searched = {"trials": 20} if table == "search" else {}
    recipes = {} if searched else {"dhilgt": "auto"}
    records = []
    for system, values in given.items():
        for seed, value in enumerate(values, 10):
            recipe = recipes.get(system, "paper")
            cell = Cell(system, data, seed, recipe=recipe, split=split, **searched)
            one = scored(cell, value, split_hash=f"{data} {split} {seed}")
            if value is None:
                one = changed(one, status="over-budget", message="not done after 9 s", scores={})
            if searched:
                one = changed(one, search={**DONE.__dict__, "changes": None})
            records.append(one)
    return records


def shown(records, table="defaults", split="own", **options):
    """The texts of the table of all systems, by row."""
    _, whole = protocol_tables(records, table, split, published=False, **options)
    return {row.label: [entry.text for entry in row.entries[0]] for row in whole.rows}


# ---- what is run -------------------------------------------------------------------------------


def test_seventeen_systems_are_compared():
    assert len({"dhilgt", *SYSTEMS}) == 17
    assert set(baselines.names()) <= set(SYSTEMS)


@pytest.fixture(scope="module")
def whole():
    """All cells of the protocol."""
    return protocol_cells()


def test_every_system_has_as_many_trials_and_nothing_ends_by_the_clock(whole):
    cells = whole
    assert {cell.data for cell in cells} == set(GRAPHS)
    assert {cell.seed for cell in cells} == set(range(10, 20))
    assert not {cell.seed for cell in cells} & set(search.SEEDS)
    assert not any(cell.changes.training.get("max_seconds") for cell in cells)
    assert len({cell.key for cell in cells}) == len(cells)
    searched = [cell for cell in cells if cell.trials]
    assert {cell.trials for cell in searched} == {TRIALS}
    per_system = {
        system: sum(cell.system == system for cell in searched)
        for system in ("dhilgt", *baselines.names())
    }
    assert set(per_system.values()) == {10 * (12 + 3)}


def test_a_search_has_as_many_trainings_for_every_system():
    for system in ("dhilgt", *baselines.names()):
        assert search.Search(Cell(system, "cora", 10, trials=20)).trainings == 34


def test_as_they_come_are_the_cells_of_the_default_and_the_papers_recipe():
    cells = protocol_cells(["cora"], [10], tables=["defaults"])
    wanted = default_cells(None, ["cora"], [10])
    keys = {cell.key for cell in cells}
    assert keys == {*(cell.key for cell in wanted), Cell("dhilgt", "cora", 10).key}
    assert {("gcn", "tuned"), ("sage", "tuned")} < {(cell.system, cell.variant) for cell in cells}


def test_official_splits_are_run_where_published_figures_use_them(whole):
    official = {cell.data for cell in whole if cell.split == "official"}
    assert official == set(OFFICIAL_GRAPHS) == {"chameleon", "squirrel", "tolokers"}
    named = protocol_cells(["cora", "actor"], [10], splits=["official"], systems=["gcn"])
    assert {cell.data for cell in named} == {"actor"}
    with pytest.raises(ConfigError, match="none of cora has several official splits"):
        protocol_cells(["cora"], [10], splits=["official"])


def test_seeds_that_choose_settings_are_not_evaluated():
    with pytest.raises(ConfigError, match="seed 2 is one of those that settings are chosen on"):
        protocol_cells(["cora"], range(2, 5))


def test_few_seeds_of_all_graphs_come_first_and_small_graphs_before_large_ones():
    names = ("pubmed", "chameleon", "cora")
    cells = protocol_cells(names, systems=["gcn"], tables=["search"], splits=["own"])
    places = [(cell.seed > 12, cell.data) for cell in cells]
    assert list(dict.fromkeys(places)) == [
        (late, name) for late in (False, True) for name in ("cora", "chameleon", "pubmed")
    ]


def test_the_kind_of_split_is_a_part_of_the_cell_and_old_keys_stay():
    own, official = Cell("gcn", "squirrel", 10), Cell("gcn", "squirrel", 10, split="official")
    assert own.key == "1260380cfa55a66c"
    assert own.key != official.key
    again = type(scored(official, 0.5)).from_json(scored(official, 0.5).to_json())
    assert again.cell.split == "official"
    assert Agenda([own, official]).total == 2


def test_official_splits_are_those_of_the_files_in_turn():
    if not data.is_here("chameleon"):
        pytest.skip(f"chameleon is not here; set {VARIABLE}")
    graphs = [data.load("chameleon", seed, split="official") for seed in (0, 3, 10)]
    hashes = [datasets.split_hash(graph.masks) for graph in graphs]
    assert hashes[0] == hashes[2] != hashes[1]
    assert graphs[0].masks["train"].sum() == 409
    assert hashes[0] != datasets.split_hash(data.load("chameleon", 0).masks)


def test_a_graph_without_official_splits_is_refused():
    with pytest.raises(DatasetError, match="no official split"):
        data.load("generated:40", 0, split="official")
    line = run_cell(Cell("mlp", "generated:40", 0, split="official"), device="cpu")
    assert (line.status, "no official split" in line.message) == ("failed", True)


# ---- ranks and reasons -------------------------------------------------------------------------


def test_only_complete_rows_have_a_figure_and_a_rank():
    records = lines(goat=(0.9, 0.95, None, 0.9), hsgt=(None,) * 4, sage=(0.99, 0.99))
    rows = shown(records)
    assert rows["GOAT"][0] == "over budget on 1 of 4"
    assert rows["HSGT"][0] == "over budget"
    assert rows["GraphSAGE"][0] == "not run on 2 of 4"
    assert rows["Polynormer"][0] == "not run"
    assert all(rows[name][1] == "–" for name in ("GOAT", "HSGT", "GraphSAGE"))
    (column,) = columns_of(records, "defaults")
    assert [key.system for key in column.means] == ["gcn", "dhilgt", "mlp"]
    assert column.place(column.ours) == 2
    marked = [
        (row.label, entry.mark)
        for row in protocol_tables(records, "defaults")[1].rows
        for entry in row.entries[0]
        if entry.mark
    ]
    assert marked == [("GCN", "best"), ("DHIL-GT, default", "second")]


def test_a_training_that_the_clock_ended_is_never_ranked():
    cut = [changed(one, out_of_time=one.cell.system == "gcn") for one in lines()]
    assert shown(cut)["GCN"] == ["cut by time", "–"]


def test_all_systems_have_a_row_also_those_without_a_line():
    assert len(shown(lines())) == 17
    assert len(shown(lines("search"), "search")) == 17


def test_the_papers_recipe_is_a_row_beside_the_default():
    more = [scored(Cell("dhilgt", "squirrel", seed), 0.7) for seed in range(10, 14)]
    rows = shown([changed(one, split_hash=None) for one in (*lines(), *more)])
    assert rows["DHIL-GT, paper's recipe"][0] == "70.00 ± 0.00"
    assert rows["DHIL-GT, default"] == ["83.00 ± 2.58", "–"]


# ---- differences -------------------------------------------------------------------------------


def test_differences_are_paired_and_corrected_for_the_number_of_systems():
    rows = shown(lines())
    assert rows["MLP"][1] == "-19.75 ▼"  # p = 0.00007, twice: two systems
    assert rows["GCN"][1] == "+0.75"  # p = 0.32
    (column,) = columns_of(lines(), "defaults")
    found = {key.system: one for key, one in column.comparisons.items()}
    assert found["gcn"].p_value == pytest.approx(0.31893, abs=1e-5)
    assert found["mlp"].p_value == pytest.approx(2 * 0.00007103, abs=1e-7)


def test_a_difference_that_the_correction_takes_away_has_no_mark():
    near = tuple(np.subtract(OURS, (0.010, 0.021, 0.022, 0.012)))
    alone = [one for one in lines(gcn=near) if one.cell.system != "mlp"]
    assert shown(alone)["GCN"][1] == "-1.63 ▼"  # p = 0.013
    same = {name: tuple(np.add(OURS, (0.01, -0.01, 0.02, -0.01))) for name in ("sage", "linkx")}
    many = dict.fromkeys(("ansgt", "difformer", "hsgt", "nagphormer"), same["sage"])
    assert shown(lines(gcn=near, **same, **many))["GCN"][1] == "-1.63"


def test_a_system_above_ours_is_marked_as_such_and_the_summary_says_by_how_much():
    better = tuple(np.add(OURS, (0.05, 0.052, 0.049, 0.05)))
    places, whole = protocol_tables(lines(gcn=better), "defaults")
    rows = {row.label: row.entries[0][1].text for row in whole.rows}
    assert rows["GCN"] == "+5.03 ▲"
    texts = [entry.text for entries in places.rows[0].entries for entry in entries]
    assert texts[1:4] == ["2 of 3", "GCN", "88.02 ± 2.62"]
    assert texts[4] == "-5.03"
    assert places.notes == ("DHIL-GT is below the highest mean score on: squirrel (-5.03 to GCN).",)


def test_the_summary_tells_first_places_from_equal_ones():
    records = [*lines(), *lines(data="cora", gcn=LOWER)]
    places, *_ = protocol_tables(records, "defaults")
    assert places.notes == (
        "DHIL-GT has the highest mean score on: cora.",
        "No difference to the highest mean score is seen on: squirrel (-0.75 to GCN).",
    )
    assert protocol_tables([], "defaults") == []


# ---- the search --------------------------------------------------------------------------------


def test_trials_are_stated_for_each_system_and_graph():
    rows = shown(lines("search"), "search")
    assert rows["GCN"] == ["83.75 ± 2.99", "+0.75", "20 (34)"]
    assert rows["DHIL-GT"][2] == "20 (34)"


def test_searches_of_different_numbers_of_trials_are_not_compared():
    records = lines("search")
    other = scored(Cell("sage", "squirrel", 10, trials=5), 0.9, split_hash="squirrel own 10")
    with pytest.raises(ArtifactError, match="5 and 20 trials are not equal"):
        columns_of([*records, other], "search")


def test_tables_and_splits_are_never_mixed():
    records = [*lines(), *lines("search"), *lines(split="official"), *lines("search", "official")]
    for table in ("defaults", "search"):
        for split in ("own", "official"):
            (column,) = [one for one in columns_of(records, table) if one.split == split]
            cells = [one.cell for rows in column.rows.values() for one in rows.values()]
            assert {(bool(cell.trials), cell.split) for cell in cells} == {
                (table == "search", split)
            }
    (summary, *_) = default_tables(records)
    assert [row.label for row in summary.rows] == ["squirrel, Acc"]
    wrong = changed(records[0], split_hash="another", system="linkx", recipe="paper")
    with pytest.raises(ArtifactError, match="another split"):
        columns_of([*records, wrong], "defaults")


# ---- known figures -----------------------------------------------------------------------------


def test_known_figures_stand_beside_both_tables():
    records = [*lines("search", "official"), *lines(split="official")]
    tuned = [
        scored(Cell("gcn", "squirrel", seed, "tuned", "retuned", split="official"), 0.45,
               split_hash=None)
        for seed in range(10, 14)
    ]  # fmt: skip
    table = known_table([*records, *tuned])
    rows = {row.label: [entry.text for entry in row.entries[0]] for row in table.rows}
    assert rows["GCN (tuned, recipe retuned), squirrel, official"] == [
        "45.01 ± 1.63", "45.00 ± 0.00", "83.75 ± 2.99",
        "Luo et al., NeurIPS 2024, tuned; ten masks",
    ]  # fmt: skip
    assert known_table(lines(data="actor")) is None


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Both tables of two small systems on a generated graph."""
    folder = tmp_path_factory.mktemp("paper")
    command = (
        "bench", "paper", "--models", "gcn,mlp", "--data", "generated:40", "--seeds", "10-11",
        "--trials", "2", "--epochs", "1", "--in-process", "--device", "cpu",
        "-o", folder / "r.jsonl",
    )  # fmt: skip
    return command, folder, ok(*command)


def test_both_tables_by_one_command(small):
    command, folder, first = small
    records = Results(folder / "r.jsonl").lines()
    assert {line["status"] for line in records} == {"ok"}
    trained = [line for line in records if line["trial"] is not None]
    assert sorted((line["system"], line["seed"], line["trial"]) for line in trained) == sorted(
        (system, seed, trial)
        for system in ("gcn", "mlp")
        for seed, trial in ((0, 0), (0, 1), *((s, _kept(records, system)) for s in (1, 2)))
    )
    # As they come: GCN, its tuned variant, MLP. Searches: 4 trainings and 2 cells each.
    assert "note: 0 of 18 trainings done, 18 left" in first.stderr
    assert "18 of 18 trainings done" in first.stderr
    assert "## As they come, the package's splits" in first.stdout
    assert "## Equal search, the package's splits" in first.stdout
    assert "| 2 (4) |" in first.stdout
    again = ok(*command, "--resume")
    assert "note: 0 run" in again.stderr
    assert again.stdout == first.stdout
    more = ok(*command, "--seeds", "10-12", "--plan").stdout
    assert more == "18 of 23 trainings done, 5 left: about 1 minute with 1 at once\n"


def _kept(records, system):
    (kept,) = {one["trial"] for one in records if one["system"] == system and one["seed"] == 1}
    return kept


def test_showing_is_apart_from_running(small, tmp_path):
    _, folder, first = small
    shown = ok("bench", "paper", "--render-only", folder, "--into", tmp_path)
    assert shown.stdout == first.stdout
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written["paper-defaults-own-table.md"] in first.stdout
    assert written["paper-search-official-table.md"] == "Not measured yet.\n"
    assert set(written) == {
        "paper-defaults-own-table.md", "paper-defaults-official-table.md",
        "paper-search-own-table.md", "paper-search-official-table.md", "paper-known-table.md",
    }  # fmt: skip
    one = ok("bench", "paper", "--render-only", folder, "--table", "search", "--format", "latex")
    assert one.stdout.startswith(r"\begin{tabular}")


def test_a_run_cut_short_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["dhilgt", "bench", "paper", "..."])
    found = ok(
        "bench", "paper", "--models", "gcn", "--data", "generated:40", "--total", "0.000001",
        "--in-process", "--device", "cpu", "-o", tmp_path / "r.jsonl",
    )  # fmt: skip
    assert "trainings are not done; go on with: dhilgt bench paper" in found.stderr
    assert "--resume" in found.stderr
    assert "Not measured yet." in found.stdout


def test_refusals(tmp_path):
    assert "none of scores" in fails("bench", "paper", "--table", "x", code=2)
    assert "none of own" in fails("bench", "paper", "--splits", "x", code=2)
    assert "md, latex" in fails("bench", "paper", "--format", "x", code=2)
    assert "a time above 0" in fails("bench", "paper", "--minutes", "0", code=2)
    assert "not a system of the comparison" in fails("bench", "paper", "--models", "gnc")
    assert "settings are chosen on" in fails("bench", "paper", "--seeds", "0-9")
    missing = tmp_path / "no.jsonl"
    assert "is not there" in fails("bench", "paper", "--render-only", missing)


# ---- the committed tables ----------------------------------------------------------------------


def test_the_committed_tables_are_made_from_the_committed_lines(tmp_path):
    files = [RESULTS / "paper", *(RESULTS / f"default{end}.jsonl" for end in ("", "-baselines"))]
    ok("bench", "paper", "--render-only", *files, "--into", tmp_path)
    ok("bench", "paper", "--render-only", RESULTS / "paper", "--table", "times", "--into", tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {
        path.name: path.read_text(encoding="utf-8") for path in RESULTS.glob("paper-*-table.md")
    }
    assert made == kept
