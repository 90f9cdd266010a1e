"""The ablation: parts taken out one by one, compared with the whole on the same splits."""

from pathlib import Path

import pytest

from dhilgt.benchmark import Results, cells
from dhilgt.benchmark.experiments.ablation import (
    BEYOND,
    WITHOUT,
    ablation_cells,
    ablation_tables,
    draw_ablation,
    effects,
)
from dhilgt.benchmark.experiments.studied import studied_recipes, whole_cells
from dhilgt.benchmark.running.contenders import chooses_settings, resolved
from dhilgt.benchmark.running.default_contender import default_classifier
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import Recipe
from dhilgt.benchmark.show.render import render
from dhilgt.errors import ArtifactError, ConfigError
from tests.benchmark.cases import changed
from tests.benchmark.study_cases import scored, tiny_recipe, write
from tests.cli.cases import fails, ok

OURS = [("dhilgt", "paper")]
RESULTS = Path(__file__).parents[2] / "docs" / "results"
DROPS = {"no readout": (0.03, 0.01, 0.05), "no virtual nodes": (0.01, -0.02, 0.0)}


def known(data="citeseer", recipe="paper"):
    """Three seeds: known drops of two variants, the third with one seed, the last not run."""
    lines = []
    for seed, score in enumerate((0.70, 0.74, 0.72)):
        whole = Cell("dhilgt", data, seed, recipe=recipe)
        for cell in ablation_cells([whole]):
            name = cell.recipe.partition(", ")[2]
            if name in DROPS or not name:
                drop = DROPS[name][seed] if name else 0.0
                lines.append(scored(cell, score - drop))
            elif name == "no SPD bias" and seed == 0:
                lines.append(scored(cell, score - 0.1))
    return lines


# ---- cells -------------------------------------------------------------------------------------


def test_each_variant_takes_away_what_its_name_says_and_nothing_else():
    (whole, *others) = ablation_cells(cells(OURS, ["cora"], [3]))
    full = resolved(whole, "accuracy").model
    removed = {
        "paper, no readout": {"readout": "ego"},
        "paper, no virtual nodes": {"num_virtual": 0},
        "paper, no SPD bias": {"spd_bias": False},
        "paper, none of the three": {"readout": "ego", "num_virtual": 0, "spd_bias": False},
    }
    assert [cell.recipe for cell in others] == list(removed)
    for cell in others:
        assert resolved(cell, "accuracy").model == full | removed[cell.recipe] != full
        assert (cell.data, cell.seed) == ("cora", 3)


def test_cells_come_seed_by_seed_and_differ_in_their_keys():
    found = ablation_cells(cells(OURS, ["cora", "squirrel"], [0, 1], Recipe("best")))
    # the recipe of cora has no readout to remove
    assert [cell.seed for cell in found] == [0] * 9 + [1] * 9
    assert len({cell.key for cell in found}) == 18
    epochs = {cell.data: cell.changes.training["epochs"] for cell in found}
    assert epochs == {"cora": 120, "squirrel": 200}


def test_the_whole_model_is_the_cell_of_the_table_so_that_its_line_serves_both():
    (whole, *_) = ablation_cells(cells(OURS, ["cora"], [0]))
    assert whole.key == cells(OURS, ["cora"], [0])[0].key


def test_what_a_recipe_is_without_is_not_removed_once_more():
    without = {"readout": "ego"}
    recipe = Recipe("mine", {"dhilgt": {"model": without}})
    found = ablation_cells(cells(OURS, ["cora"], [0], recipe))
    assert [cell.recipe.partition(", ")[2] for cell in found] == [
        "", "no virtual nodes", "no SPD bias", "none of the three",
    ]  # fmt: skip
    without |= {"num_virtual": 0}
    found = ablation_cells(cells(OURS, ["cora"], [0], recipe))  # removing all is removing the last
    assert [cell.recipe for cell in found] == ["mine", "mine, no SPD bias"]
    without |= {"spd_bias": False}
    with pytest.raises(ConfigError, match="without all of the parts on cora"):
        ablation_cells(cells(OURS, ["cora"], [0], recipe))


def test_options_are_removed_where_the_recipe_has_them_and_the_row_always():
    model = {"hops": 2, "bias_slope": 1.0, "num_out": 3}
    recipe = Recipe("mine", {"dhilgt": {"model": model}})
    (whole, *others) = ablation_cells(cells(OURS, ["cora"], [0], recipe), BEYOND)
    full = resolved(whole, "accuracy").model
    removed = {
        "mine, the node alone": {"size": 1, "num_out": None, "num_in": None},
        "mine, no hops": {"hops": 0},
        "mine, no slope": {"bias_slope": 0.0},
    }
    assert [cell.recipe for cell in others] == list(removed)
    for cell in others:
        assert resolved(cell, "accuracy").model == full | removed[cell.recipe] != full


def test_the_default_is_varied_by_what_is_fixed_in_all_of_its_candidates():
    (whole, *others) = ablation_cells(whole_cells([Recipe("auto")], ["cora"], [0]))
    assert (whole.recipe, whole.changes.model) == ("auto", {})
    assert {cell.recipe.removeprefix("auto, "): cell.changes.model for cell in others} == WITHOUT
    for cell in others:
        made = default_classifier(cell, "accuracy", "cpu", None)
        assert {name: getattr(made, name) for name in cell.changes.model} == cell.changes.model


def test_recipes_of_a_study_are_the_papers_a_short_one_the_default_and_files(tmp_path):
    mine = tiny_recipe(tmp_path)
    found = studied_recipes(f"paper, short,auto,{mine},paper")
    assert [recipe.name for recipe in found] == ["paper", "short", "auto", "tiny"]
    paper, short, auto, tiny = whole_cells(found, ["cora"], [0])
    config = resolved(paper, "accuracy").training
    assert (config.epochs, config.lr, config.max_seconds) == (500, 1e-4, None)
    config = resolved(short, "accuracy").training
    assert (config.epochs, config.lr, config.max_seconds) == (120, 1e-3, None)
    assert chooses_settings(auto)
    assert not chooses_settings(tiny)
    copy = mine.rename(tmp_path / "short.yaml")
    for wrong, said in ((str(copy), "choose another name"), (" ,", "no recipe"), ("x", "neither")):
        with pytest.raises(ConfigError, match=said):
            studied_recipes(wrong)


def test_no_bias_has_no_slope_either():
    recipe = Recipe("mine", {"dhilgt": {"model": {"bias_slope": 1.0}}})
    found = {cell.recipe: cell for cell in ablation_cells(cells(OURS, ["cora"], [0], recipe))}
    for name in ("mine, no SPD bias", "mine, none of the three"):
        assert resolved(found[name], "accuracy").model["bias_slope"] == 0.0


# ---- numbers and tables ------------------------------------------------------------------------


def test_differences_are_taken_split_by_split():
    found = {effect.variant: effect for effect in effects(known())}
    assert list(found) == ["full", *WITHOUT]
    assert found["full"].scores == (0.70, 0.74, 0.72)
    assert found["full"].difference is None
    assert found["no readout"].difference.mean == pytest.approx(-0.03)
    assert found["no readout"].difference.sd == pytest.approx(0.02)
    assert found["no SPD bias"].difference.count == 1
    assert found["none of the three"].difference is None
    assert found["no readout"].published == -2.70
    assert found["full"].published == 74.91


def test_a_table_of_options_has_rows_of_those_that_were_removed_and_no_others():
    recipe = Recipe("mine", {"dhilgt": {"model": {"hops": 2}}})
    lines = [
        scored(cell, 0.5 if "alone" in cell.recipe else 0.6)
        for cell in ablation_cells(cells(OURS, ["cora"], [0, 1], recipe), BEYOND)
    ]
    found = {effect.variant: effect for effect in effects(lines)}
    assert list(found) == ["full", "the node alone", "no hops"]
    assert found["the node alone"].difference.mean == pytest.approx(-0.1)


MARKDOWN = """\
| | citeseer<br>Acc | citeseer<br>to full | citeseer<br>95 % interval | citeseer<br>seen | citeseer<br>published |
|---|---:|---:|---:|---:|---:|
| full | 72.00 ± 2.00 |  |  |  | 74.91 |
| no readout | 69.00 ± 3.46 | -3.00 | -7.97 to +1.97 | no difference seen | -2.70 |
| no virtual nodes | 72.33 ± 3.51 | +0.33 | -3.46 to +4.13 | no difference seen | -3.76 |
| no SPD bias | 60.00 (1 of 3) | -10.00 | – | too few seeds | -6.36 |
| none of the three | not run | – | – | – | – |

| | recipe paper<br>drops | recipe paper<br>gains | recipe paper<br>no difference seen |
|---|---:|---:|---:|
| no readout | – | – | citeseer -3.00 |
| no virtual nodes | – | – | citeseer +0.33 |
| no SPD bias | – | – | – |
| none of the three | – | – | – |

- Test scores in per cent, mean ± standard deviation over 3 seeds. The difference to the full model is taken split by split; its mean has the interval of the t distribution. Seen: drops or gains where the interval leaves 0 out.
- Of 2 intervals about 0.1 leave 0 out by chance where nothing changes. Random splits of one graph share nodes, so the intervals are rather too narrow.
- Published: the paper's score of the full model, and its differences to it.
- Ours on H200, 16 cores of Xeon, torch 2.9.
"""  # noqa: E501


def test_markdown_is_exactly_this():
    assert render(ablation_tables(known()), "md") == MARKDOWN


def test_the_order_of_lines_does_not_matter():
    assert ablation_tables(reversed(known())) == ablation_tables(known())


def test_datasets_and_recipes_have_tables_of_their_own():
    lines = known() + known("chameleon") + known(recipe="best")
    found = ablation_tables(lines)
    assert [table.data for table in found] == [
        ("chameleon",), ("citeseer",), ("citeseer, recipe best",), ("recipe paper", "recipe best"),
    ]  # fmt: skip
    assert [bool(table.notes) for table in found] == [False, False, False, True]


def test_findings_name_the_graphs_where_a_part_matters():
    lines = []
    for data, drop in (("cora", 0.02), ("chameleon", 0.0), ("citeseer", -0.03)):
        for cell in ablation_cells(cells(OURS, [data], range(3))):
            lost = drop + 0.001 * cell.seed if cell.recipe.endswith("no readout") else 0.0
            lines.append(scored(cell, 0.8 + 0.01 * cell.seed - lost))
    *_, findings = ablation_tables(lines)
    texts = {row.label: [entry.text for entry in row.entries[0]] for row in findings.rows}
    assert texts["no readout"] == ["cora -2.10", "citeseer +2.90", "chameleon -0.10"]
    assert texts["no SPD bias"][2] == "chameleon +0.00, cora +0.00, citeseer +0.00"


def test_other_cells_are_left_out():
    others = [
        scored(Cell("gcn", "citeseer", 0), 0.9),
        scored(Cell("dhilgt", "pubmed", 0), 0.9),
        scored(Cell("dhilgt", "citeseer", 0, trials=5), 0.9),
        scored(Cell("dhilgt", "citeseer", 0, trial=2), 0.9),
    ]
    assert ablation_tables(known() + others) == ablation_tables(known())
    assert ablation_tables(others) == []


def test_a_cell_that_failed_is_named_and_not_counted():
    lines = known()
    lines[1] = changed(lines[1], status="oom", message="CUDA out of memory", scores={})
    table, findings = ablation_tables(lines)
    assert table.rows[1].entries[0][0].text == "70.00 ± 4.24 (2 of 3)"
    assert "dhilgt, citeseer, seed 0: oom (CUDA out of memory)." in findings.notes


def test_different_splits_of_a_seed_are_refused():
    lines = known()
    lines[1] = changed(lines[1], split_hash="another")
    with pytest.raises(ArtifactError, match="splits of 'paper' and 'paper, no readout' differ"):
        effects(lines)


def test_two_lines_of_a_cell_with_other_settings_are_refused():
    short = ablation_cells(cells(OURS, ["citeseer"], [0], epochs=3))[1]
    with pytest.raises(ArtifactError, match="seed 0, recipe 'paper, no readout' have different"):
        effects([*known(), scored(short, 0.5)])


# ---- figure ------------------------------------------------------------------------------------


def test_the_same_lines_draw_the_same_files(tmp_path):
    lines = known() + known("chameleon") + known("cora", "best")
    first, again = (draw_ablation(lines, tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["a.png", "a.svg"]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    other = draw_ablation(known(), tmp_path / "c")
    assert other[1].read_bytes() != first[1].read_bytes()
    assert not list(tmp_path.glob("*.tmp"))


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(ArtifactError, match="no differences to draw"):
        draw_ablation(known()[:1], tmp_path / "a")


# ---- the command -------------------------------------------------------------------------------


@pytest.mark.full
def test_a_small_ablation_from_end_to_end(tmp_path):
    results, out = tmp_path / "a.jsonl", tmp_path / "out"
    small = (
        "bench", "ablation", "--data", "generated:40", "--recipe", tiny_recipe(tmp_path),
        "--in-process", "--device", "cpu", "-o", results,
    )  # fmt: skip
    ok(*small, "--seeds", "0", "-q")
    said = ok(*small, "--seeds", "0-1", "--resume", "--into", out)
    assert "5 run, 5 were done" in said.stderr
    assert "[5/5] dhilgt generated:40 seed 1 (tiny, none of the three)" in said.stderr
    lines = Results(results).lines()
    assert [line["status"] for line in lines] == ["ok"] * 10
    for seed in (0, 1):
        assert len({line["split_hash"] for line in lines if line["seed"] == seed}) == 1
    assert {line["epochs"] for line in lines} == {2}
    whole, *parts, bare = (line["num_parameters"] for line in lines[:5])
    assert whole - bare == sum(whole - part for part in parts)
    assert all(bare < part < whole for part in parts)
    assert (out / "ablation-table.md").read_text(encoding="utf-8") == said.stdout
    again = ok("bench", "ablation", "--render-only", results, "--into", tmp_path / "more")
    assert again.stdout == said.stdout
    for name in ("ablation.png", "ablation.svg"):
        assert (out / name).read_bytes() == (tmp_path / "more" / name).read_bytes()
    latex = ok("bench", "ablation", "--render-only", results, "--format", "latex").stdout
    assert latex.startswith("\\begin{tabular}")


def test_the_default_and_a_recipe_are_ablated_in_one_run(tmp_path, monkeypatch):
    few = {"no readout": WITHOUT["no readout"]}
    monkeypatch.setattr("dhilgt.benchmark.experiments.ablation.WITHOUT", few)
    results = tmp_path / "a.jsonl"
    recipes = f"auto,{tiny_recipe(tmp_path)}"
    shown = ok(
        "bench", "ablation", "--data", "generated:40", "--recipe", recipes, "--seeds", "0",
        "--epochs", "1", "--in-process", "--device", "cpu", "-o", results, "-q",
    ).stdout  # fmt: skip
    lines = Results(results).lines()
    assert [line["status"] for line in lines] == ["ok"] * 4, [line["message"] for line in lines]
    assert [line["recipe"] for line in lines] == [
        "auto", "auto, no readout", "tiny", "tiny, no readout",
    ]  # fmt: skip
    assert lines[1]["settings"]["readout"] == "ego"
    assert lines[1]["chosen"] is not None
    assert "recipe auto<br>drops | " in shown


@pytest.mark.full
def test_a_process_does_several_cells(tmp_path):
    recipe, results = tiny_recipe(tmp_path), tmp_path / "a.jsonl"
    ok(
        "bench", "ablation", "--data", "generated:40", "--recipe", recipe, "--seeds", "0",
        "--device", "cpu", "-o", results, "-q",
    )  # fmt: skip
    lines = Results(results).lines()
    assert [line["status"] for line in lines] == ["ok"] * 5
    assert [line["own_process"] for line in lines] == [True] + [False] * 4


def test_files_of_parts_are_shown_together(tmp_path):
    lines = known()
    parts = [write(tmp_path / f"{at}.jsonl", lines[at::2]) for at in range(2)]
    assert ok("bench", "ablation", "--render-only", *parts).stdout == MARKDOWN


def test_wrong_usage_is_said_before_any_work(tmp_path):
    there = write(tmp_path / "r.jsonl", [scored(Cell("gcn", "cora", 0), 0.8)])
    assert "need --render-only" in fails("bench", "ablation", there, code=2)
    assert "name the files" in fails("bench", "ablation", "--render-only", code=2)
    assert "no cells of this kind" in fails("bench", "ablation", "--render-only", there)
    assert "is not there" in fails("bench", "ablation", "--render-only", tmp_path / "none.jsonl")
    assert "none of md" in fails("bench", "ablation", "--format", "pdf", code=2)


# ---- the results page --------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "page"), [("ablation", "ablation"), ("study", "parameters")])
def test_the_results_page_shows_what_the_lines_say(command, page):
    lines = sorted(RESULTS.glob(f"{command}*.jsonl"), key=lambda path: path.stem)
    table = (RESULTS / f"{command}-table.md").read_text(encoding="utf-8")
    assert table == ok("bench", command, "--render-only", *lines).stdout
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    assert f"{{include}} {command}-table.md" in text
    assert f"{{image}} {command}.png" in text
    assert (RESULTS / f"{command}.png").exists()
