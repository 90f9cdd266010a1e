"""The parameter study: one setting of the token rows at a time, and both exponents together."""

import pytest

from dhilgt.benchmark import Results, cells
from dhilgt.benchmark.experiments import study
from dhilgt.benchmark.experiments.study import (
    BASE,
    PARAMETERS,
    SQUARE,
    Point,
    curves,
    squares,
    study_cells,
)
from dhilgt.benchmark.experiments.study import study_tables as tables
from dhilgt.benchmark.experiments.study_plot import draw_curves, draw_squares
from dhilgt.benchmark.running.contenders import resolved
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import Recipe
from dhilgt.errors import ArtifactError
from dhilgt.settings.recipes import recipe
from dhilgt.tokens.spec import TokenSpec
from tests.benchmark.cases import changed
from tests.benchmark.study_cases import scored, tiny_recipe, write
from tests.cli.cases import fails, ok

OURS = [("dhilgt", "paper")]


def known(data=("chameleon", "citeseer"), seeds=(0, 1), grid=False, recipe="paper"):
    """Scores that grow with s, are the best at s_in = 15, and fall with both exponents."""
    lines = []
    for seed in seeds:
        for name in data:
            for cell in study_cells([Cell("dhilgt", name, seed, recipe=recipe)], grid=grid):
                own = cell.changes.model
                score = 0.5 + own["size"] / 1000 - abs(own["num_in"] - own["size"] / 2) / 1000
                score -= own["in_exponent"] / 100 + own["out_exponent"] / 200
                rows = {"filled": own["size"] / 2}
                lines.append(scored(cell, score + seed / 100, rows=rows))
    return lines


# ---- cells -------------------------------------------------------------------------------------


def test_every_point_is_a_cell_of_its_own_and_no_point_is_run_twice():
    found = study_cells(cells(OURS, ["cora", "citeseer"], [0, 1]))
    assert [cell.seed for cell in found] == [0] * 64 + [1] * 64
    assert len({cell.key for cell in found}) == 128
    more = study_cells(cells(OURS, ["cora"], [0]), grid=True)
    assert len({cell.key for cell in more}) == 32 + 81 - 17
    # What was run without the grid is not run again with it.
    assert {cell.key for cell in found[:32]} < {cell.key for cell in more}


def test_points_reach_the_settings():
    for cell in study_cells(cells(OURS, ["chameleon"], [0], Recipe("best"))):
        model = resolved(cell, "accuracy").model
        assert 1 + model["num_in"] + model["num_out"] == model["size"]
        assert model["hops"] == recipe("best", "chameleon")["hops"], "all else is the recipe's"
        point = Point(
            model["size"], model["num_in"], int(model["out_exponent"]), int(model["in_exponent"])
        )
        assert cell.recipe == f"best, {point.name}"


def test_half_of_the_slots_is_what_a_row_takes_by_itself():
    for size, point in PARAMETERS["s"].items():
        plain = TokenSpec(size=size)
        assert (point.size, point.num_out, point.num_in) == (size, plain.num_out, plain.num_in)


def test_all_parameters_start_from_one_base():
    bases = {"s": 32, "s_in": 15, "r_in": -1, "r_out": -1}
    assert {PARAMETERS[name][value] for name, value in bases.items()} == {BASE}
    assert SQUARE[-1, -1] == BASE


# ---- numbers -----------------------------------------------------------------------------------


def test_curves_have_mean_spread_rows_and_the_difference_to_the_base():
    found = {(curve.parameter, curve.data): curve for curve in curves(known())}
    assert len(found) == 8
    curve = found["s", "chameleon"]
    assert list(curve.points) == list(study.SIZES)
    point = curve.points[64]
    assert point.scores == pytest.approx((0.578, 0.588))
    assert point.mean == pytest.approx(0.583)
    assert point.sd == pytest.approx(0.01 / 2**0.5)
    assert point.filled == 32
    assert point.difference.mean == pytest.approx(0.032)
    assert point.difference.low == pytest.approx(0.032)
    assert curve.points[32].difference is None
    assert max(found["s_in", "citeseer"].points.items(), key=lambda one: one[1].mean)[0] == 15


def test_the_square_has_all_pairs_where_they_were_run():
    assert squares(known()) == []
    (square,) = squares(known(("citeseer",), grid=True))
    assert set(square.means) == set(SQUARE)
    assert square.means[-4, 4] == pytest.approx(square.means[0, 0] + 0.02 - 0.04)
    assert max(square.means, key=square.means.get) == (-4, -4)


def test_other_cells_and_failed_ones_are_left_out():
    others = [
        scored(Cell("dhilgt", "cora", 0), 0.9),
        scored(Cell("dhilgt", "cora", 0, recipe="paper, no readout"), 0.9),
        scored(Cell("gcn", "cora", 0, recipe=f"paper, {BASE.name}"), 0.9),
    ]
    assert curves(others) == []
    lines = known(("cora",), (0,))
    lines[0] = changed(lines[0], status="failed", scores={})
    assert 2 not in curves(lines)[0].points
    notes = tables(lines)[-1].notes
    assert any("seed 0: failed" in note for note in notes)


def test_lines_without_the_base_have_no_differences():
    lines = [line for line in known(("cora",)) if BASE.name not in line["recipe"]]
    assert all(p.difference is None for curve in curves(lines) for p in curve.points.values())


def test_two_lines_of_a_point_with_other_settings_are_refused():
    short = study_cells(cells(OURS, ["cora"], [0], epochs=3))[0]
    with pytest.raises(ArtifactError, match="have different settings"):
        curves([*known(("cora",)), scored(short, 0.5)])


# ---- tables and figures ------------------------------------------------------------------------


def test_a_table_has_a_row_per_value_and_columns_per_dataset():
    found = tables(known())
    assert len(found) == 5
    assert found[0].data == ("chameleon", "citeseer")
    assert [row.label for row in found[0].rows][:2] == ["s = 2", "s = 4"]
    row = next(row for row in found[0].rows if row.label == "s = 64")
    assert [entry.text for entry in row.entries[0]] == [
        "58.30 ± 0.71", "+3.20", "+3.20 to +3.20", "32.0",
    ]  # fmt: skip
    base = next(row for row in found[1].rows if row.label == "s_in = 15 (base)")
    assert [entry.text for entry in base.entries[1]] == ["55.10 ± 0.71", "–", "–", "16.0"]
    assert [bool(table.notes) for table in found] == [False] * 4 + [True]


def test_findings_are_the_values_whose_interval_leaves_the_base_out():
    *_, findings = tables(known())
    s = next(row for row in findings.rows if row.label == "s")
    better, worse = (entry.text for entry in s.entries[0])
    assert better.split("; ")[-1] == "64: +3.20"
    assert worse.startswith("2: -")
    assert "32" not in better + worse, "the base is not compared with itself"


def test_a_point_that_was_not_run_is_said_to_be_so():
    table = tables(known()[1:2])[0]
    assert [row.entries[0][0].text for row in table.rows][:3] == ["not run", "51.80", "not run"]


def test_the_best_pair_of_exponents_is_marked():
    *_, table, _ = tables(known(("citeseer",), grid=True))
    marked = [
        (row.label, head)
        for row in table.rows
        for head, entry in zip(table.columns[0], row.entries[0], strict=True)
        if entry.mark
    ]
    assert marked == [("r_out = -4", "r_in = -4")]


def test_the_same_lines_draw_the_same_files(tmp_path):
    lines = known(("citeseer",), grid=True) + known(("citeseer",), recipe="best")
    for draw in (draw_curves, draw_squares):
        first, again = (draw(lines, tmp_path / f"{draw.__name__}{at}") for at in range(2))
        assert [path.suffix for path in first] == [".png", ".svg"]
        for one, other in zip(first, again, strict=True):
            assert one.read_bytes() == other.read_bytes()
    assert draw_squares(known(), tmp_path / "none") == []
    with pytest.raises(ArtifactError, match="no curves"):
        draw_curves([], tmp_path / "none")
    assert not (tmp_path / "none.png").exists()


# ---- the command -------------------------------------------------------------------------------


@pytest.mark.full
def test_a_small_study_from_end_to_end(tmp_path, monkeypatch):
    sizes = {size: PARAMETERS["s"][size] for size in (4, 32)}
    few = {"s": sizes, "r_in": {-1: BASE, 2: PARAMETERS["r_in"][2]}}
    monkeypatch.setattr(study, "PARAMETERS", few)
    monkeypatch.setattr("dhilgt.benchmark.experiments.study_plot.PARAMETERS", few)
    monkeypatch.setattr(study, "SQUARE", {(0, 0): SQUARE[0, 0]})
    results, out = tmp_path / "s.jsonl", tmp_path / "out"
    small = (
        "bench", "study", "--data", "generated:40", "--recipe", tiny_recipe(tmp_path), "--seeds",
        "0-1", "--in-process", "--device", "cpu", "-o", results,
    )  # fmt: skip
    ok(*small, "-q")
    said = ok(*small, "--resume", "--grid", "--into", out)
    assert "2 run, 6 were done" in said.stderr
    lines = Results(results).lines()
    assert [line["status"] for line in lines] == ["ok"] * 8
    by_size = {line["settings"]["size"]: line["rows"] for line in lines}
    for size, rows in by_size.items():
        assert rows["slots"] == size
        assert 1 < rows["filled"] == pytest.approx(1 + rows["hubs"] + rows["holders"])
        assert rows["filled"] <= size
    assert by_size[4]["filled"] < by_size[32]["filled"]
    assert (out / "study-table.md").read_text(encoding="utf-8") == said.stdout
    again = ok("bench", "study", "--render-only", results, "--into", tmp_path / "more")
    assert again.stdout == said.stdout
    names = ("study.png", "study.svg", "study-grid.png", "study-grid.svg")
    for name in names:
        assert (out / name).read_bytes() == (tmp_path / "more" / name).read_bytes()


def test_wrong_usage_is_said_before_any_work(tmp_path):
    there = write(tmp_path / "r.jsonl", [scored(Cell("dhilgt", "cora", 0), 0.8)])
    assert "no cells of this kind" in fails("bench", "study", "--render-only", there)
    assert "need --render-only" in fails("bench", "study", there, code=2)
