"""The search before a comparison: as many trials for each, by validation scores only."""

import itertools
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import baselines
from dhilgt.benchmark import Limits, Results, cells, models
from dhilgt.benchmark.running import recipe, runner
from dhilgt.benchmark.running.agenda import Plan, plan
from dhilgt.benchmark.running.contenders import resolved
from dhilgt.benchmark.running.grid import Cell, check
from dhilgt.benchmark.running.recipe import PARTS, Changes
from dhilgt.benchmark.running.search import SEEDS, draws, num_settings, read_space, trials_of
from dhilgt.errors import ConfigError
from dhilgt.settings import recipes
from dhilgt.tune.space import space_of_choices
from tests.benchmark.cases import changed, scripted

SPACES = Path(str(files("dhilgt.benchmark.running"))) / "spaces"


def search(path, script, monkeypatch, systems="gcn,mlp", trials=4, seeds=(13, 15), resume=False):
    kind = scripted(monkeypatch, script)
    grid = cells(models(systems, references=False), ["generated:40"], list(seeds), trials=trials)
    with Results(path).open(resume=resume) as results:
        found = runner.run(grid, results, Limits(apart=False, device="cpu"))
    lines = Results(path).lines()
    tried = [line for line in lines if line["trial"] is not None]
    return found, tried, [line for line in lines if line["trial"] is None], kind.asked


def by_trial(cell):
    """Trial 2 is the best on the first split, trial 3 on average; a table scores anything."""
    if cell.trial is None:
        return 0.4
    return {2: [0.9, 0.5, 0.6], 3: [0.7, 0.8, 0.9]}.get(cell.trial, [0.6, 0.5, 0.5])[cell.seed]


def test_every_system_gets_the_same_number_of_trials_and_uses_its_best(tmp_path, monkeypatch):
    found, tried, final, _ = search(tmp_path / "r.jsonl", by_trial, monkeypatch)
    assert found.ran == 2 * (4 + 2 * 2) + 2 * 2
    for system in ("gcn", "mlp"):
        mine = [line for line in tried if line["system"] == system]
        assert [(line["seed"], line["trial"]) for line in mine] == [
            (0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 2), (2, 3),
        ]  # fmt: skip
        assert mine[0]["changes"] == {"model": {}, "training": {}}  # the recipe is a trial too
        for line in (line for line in final if line["system"] == system):
            chosen = line["search"]
            assert (chosen["chosen"], chosen["trials"], chosen["trials_ok"]) == (3, 4, 4)
            assert chosen["val_score"] == pytest.approx(0.8)
            assert (list(chosen["seeds"]), chosen["trainings"]) == ([0, 1, 2], 8)
            assert line["changes"] == mine[3]["changes"] == chosen["changes"]
            for name, value in line["changes"]["training"].items():
                assert line["training"][name] == value
            assert line["trials"] == 4


@pytest.mark.full
def test_no_seed_of_a_search_is_one_of_the_table(tmp_path, monkeypatch):
    _, tried, final, _ = search(tmp_path / "r.jsonl", by_trial, monkeypatch)
    assert {line["seed"] for line in tried} == set(SEEDS) == {0, 1, 2}
    assert {line["seed"] for line in final} == {13, 15}


def test_trials_never_look_at_the_test_nodes(tmp_path, monkeypatch):
    _, tried, _, asked = search(tmp_path / "r.jsonl", by_trial, monkeypatch)
    assert not [name for name, _ in asked if "trial" in name]
    assert all(line["scores"] == {} for line in tried)


def test_trials_that_fail_are_passed_over(tmp_path, monkeypatch):
    def script(cell):
        if cell.trial == 3 and cell.seed == 2:
            raise MemoryError
        return by_trial(cell)

    _, tried, final, _ = search(tmp_path / "r.jsonl", script, monkeypatch, "mlp")
    assert [line["status"] for line in tried] == ["ok"] * 7 + ["oom"]
    assert {line["search"]["chosen"] for line in final} == {2}


def test_without_a_good_trial_the_recipe_stands(tmp_path, monkeypatch):
    def script(cell):
        if cell.trial is not None:
            raise MemoryError
        return 0.4

    found, tried, final, _ = search(tmp_path / "r.jsonl", script, monkeypatch, "mlp")
    assert (found.left, len(tried)) == (0, 4)
    assert all(line["search"]["chosen"] is None and line["status"] == "ok" for line in final)
    assert all(line["changes"] == {"model": {}, "training": {}} for line in final)


@pytest.mark.full
def test_a_search_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"

    def stops(cell):
        if cell.system == "mlp" and cell.trial == 1:
            raise KeyboardInterrupt
        return by_trial(cell)

    with pytest.raises(KeyboardInterrupt):
        search(path, stops, monkeypatch)
    before = len(Results(path).lines())
    found, tried, final, _ = search(path, by_trial, monkeypatch, resume=True)
    assert (found.skipped, len(tried), len(final)) == (before, 16, 4)
    again, *_ = search(path, by_trial, monkeypatch, resume=True)
    assert (again.ran, again.skipped, again.left) == (0, 20, 0)


@pytest.mark.full
def test_more_trials_keep_those_that_are_done(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    search(path, by_trial, monkeypatch, "gcn", trials=2, seeds=[13])
    found, tried, final, _ = search(path, by_trial, monkeypatch, "gcn", 4, [13], resume=True)
    assert found.skipped == 2
    assert {line["trial"] for line in tried} == {0, 1, 2, 3}
    assert {line["trials"]: line["search"]["chosen"] for line in final} == {2: 0, 4: 3}


def test_a_limit_of_epochs_holds_in_a_search_too():
    cell = Cell("gcn", "cora", 0, changes=Changes(training={"epochs": 7}), trials=5)
    assert {trial.changes.training["epochs"] for trial in trials_of(cell, 0)} == {7}


def test_published_variants_are_tried_before_anything_is_drawn():
    tuned = trials_of(Cell("gcn", "cora", 10, trials=20), 0)[1]
    asked = Cell("gcn", "cora", 0, "tuned")
    assert resolved(tuned, "accuracy") == resolved(asked, "accuracy")
    again = trials_of(Cell("sage", "squirrel", 10, trials=20), 0)[2]
    (asked,) = cells([("sage", "tuned")], ["squirrel"], [0], recipe.retuned_recipe())
    assert resolved(again, "accuracy") == resolved(asked, "accuracy")
    for system in baselines.names():
        variants = baselines.describe(system)["variants"]
        drawn = trials_of(Cell(system, "cora", 10, trials=20), 0)
        assert len(drawn) == 20
        for name in variants:
            wanted = resolved(Cell(system, "cora", 0, name), "accuracy")
            assert wanted in [resolved(one, "accuracy") for one in drawn[: len(variants)]], name


# ---- order and plan ----------------------------------------------------------------------------


def test_work_is_done_in_the_order_of_the_cells(tmp_path, monkeypatch):
    """A search stands at the place of the first cell that needs it."""
    first = cells([("mlp", "paper")], ["generated:40"], [13])
    second = cells([("gcn", "paper")], ["generated:40"], [13], trials=1)
    third = cells([("mlp", "paper"), ("gcn", "paper")], ["generated:40"], [14, 15])
    done = []
    scripted(monkeypatch, lambda cell: done.append(cell.name) or 0.5)
    with Results(tmp_path / "r.jsonl").open(resume=False) as results:
        runner.run([*first, *second, *third], results, Limits(apart=False, device="cpu"))
    assert done == [
        "mlp generated:40 seed 13",
        *(f"gcn generated:40 seed {seed} trial 0" for seed in (0, 1, 2)),
        "gcn generated:40 seed 13",
        *(f"{name} generated:40 seed {seed}" for seed in (14, 15) for name in ("mlp", "gcn")),
    ]


@pytest.mark.full
def test_the_plan_says_what_is_left_and_guesses_the_time(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    grid = cells([("gcn", "paper"), ("mlp", "paper")], ["generated:40"], [13, 14], trials=4)
    assert plan(grid, {}) == Plan(20, 20, None)
    search(path, by_trial, monkeypatch, "gcn", seeds=[13])
    known = {key: changed(one, total_seconds=3.0) for key, one in Results(path).by_key().items()}
    found = plan(grid, known)
    assert (found.total, found.left, found.seconds) == (20, 11, 33.0)
    assert found.text(2) == "9 of 20 trainings done, 11 left: about 1 minute with 2 at once"
    search(path, by_trial, monkeypatch, seeds=[13, 14], resume=True)
    assert plan(grid, Results(path).by_key()).text(2) == "20 of 20 trainings done"


# ---- spaces ------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["dhilgt", *baselines.names()])
def test_all_that_a_space_can_give_is_valid(system):
    cell = Cell(system, "cora", 0, trials=40)
    for trial in trials_of(cell, 0):
        check(trial)
    # Each value alone, with the system's own settings around it.
    for one in draws(read_space(system), "each", 500):
        check(Cell(system, "cora", 0, changes=one))


@settings(max_examples=30)
@given(st.text(max_size=8), st.integers(1, 30), st.integers(0, 30))
def test_draws_differ_and_do_not_depend_on_how_many_are_wanted(key, few, more):
    values = {"model": {"a": [1, 2, 3]}, "training": {"b": [1, 2, 3], "c": [True, False]}}
    one = space_of_choices(values, "mine", "mine.yaml", PARTS)
    short, long = draws(one, key, few), draws(one, key, few + more)
    assert long[: len(short)] == short
    assert num_settings(one) == 18
    assert len(short) == min(few, 18 + 1)
    assert all(short.count(draw) == 1 for draw in short)
    everything = [
        Changes({"a": a}, {"b": b, "c": c})
        for a, b, c in itertools.product((1, 2, 3), (1, 2, 3), (True, False))
    ]
    assert all(draw in everything for draw in short[1:])


GENERIC = {"feature_scale", "weight_average", "lr", "weight_decay", "hidden_channels"}


@pytest.mark.parametrize("system", ["dhilgt", *baselines.names()])
def test_what_is_not_of_one_system_is_offered_to_all(system):
    choices = {
        one.name: set(one.choices)
        for stage in read_space(system).stages
        for one in stage.parameters
    }
    assert choices.keys() >= GENERIC
    assert choices["feature_scale"] == {"none", "standard", "rank"}
    assert choices["weight_average"] == {0, 0.9}
    assert any("dropout" in name for name in choices)


def test_classes_are_offered_only_where_a_node_does_not_see_its_own_through_others():
    def offered(system):
        stages = read_space(system).stages
        return any(one.name == "class_inputs" for stage in stages for one in stage.parameters)

    assert [name for name in baselines.names() if offered(name)] == ["linkx"]


@pytest.mark.parametrize("path", sorted(SPACES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_space_begins_with_where_its_values_come_from(path):
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {heads: 4}", "write a list of values"),
        ("modle: {heads: [4]}", "write 'model' or 'training'"),
        ("- 1", "is no search space"),
        ("a: [", "is not YAML"),
    ],
)
def test_spaces_that_are_none_are_refused(tmp_path, text, message):
    (tmp_path / "gcn.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_space("gcn", tmp_path)
    with pytest.raises(ConfigError, match="has no search space"):
        read_space("nothing", tmp_path)


# ---- recipes -----------------------------------------------------------------------------------


def test_the_nearer_a_line_of_a_recipe_the_more_it_counts(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "all: {training: {epochs: 5, lr: 1e-3}, data: {cora: {training: {epochs: 6}}}}\n"
        "gcn: {training: {epochs: 7}, data: {cora: {training: {epochs: 8}}}}\n"
    )
    found = recipe.read(str(path), ["gcn", "mlp"])
    wanted = {
        (s, d): found.changes(s, d).training["epochs"]
        for s in ("gcn", "mlp")
        for d in ("cora", "pubmed")
    }
    assert wanted == {
        ("gcn", "cora"): 8, ("gcn", "pubmed"): 7, ("mlp", "cora"): 6, ("mlp", "pubmed"): 5,
    }  # fmt: skip
    assert found.name == "mine"
    assert found.changes("gcn", "cora").training["lr"] == 0.001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gnc: {model: {heads: 1}}", "did you mean 'gcn'"),
        ("gcn: {modle: {heads: 1}}", "did you mean 'model'"),
        ("gcn: 3", "write lines"),
        ("gcn: {training: {seed: 3}}", "seed follows from the cell"),
        ("all: {data: {cora: {training: {metric: x}}}}", "metric follows from the cell"),
        ("all: {training: {max_seconds: 9}}", "end by epochs and not by the clock"),
    ],
)
def test_slips_in_recipes_are_named(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        recipe.read(str(path), ["gcn", "mlp"])
    with pytest.raises(ConfigError, match="neither 'paper' nor 'best' nor a file"):
        recipe.read("nowhere.yaml", ["gcn"])


def test_the_best_recipe_is_ours_alone(monkeypatch):
    known = {"size": 16, "batch_size": 256, "lr": 0.001, "metric": "accuracy"}
    monkeypatch.setattr(recipes, "recipe", lambda name, data: {**known, "epochs": len(data)})
    best = recipe.read("best", ["dhilgt", "gcn"])
    ours, other = cells([("dhilgt", "paper"), ("gcn", "paper")], ["cora"], [0], best)
    assert (ours.recipe, other.recipe) == ("best", "paper")
    assert ours.changes == Changes({"size": 16, "batch_size": 256}, {"lr": 0.001, "epochs": 4})
    assert other.changes == Changes()


def test_a_dataset_without_best_settings_is_named():
    with pytest.raises(ConfigError, match="no best settings of 'reed98'"):
        cells([("dhilgt", "paper")], ["reed98"], [0], recipe.read("best", ["dhilgt"]))


def test_a_file_cannot_take_the_name_of_a_recipe(tmp_path):
    (tmp_path / "best.yaml").write_text("gcn: {model: {dropout: 0.1}}")
    with pytest.raises(ConfigError, match="choose another name"):
        recipe.read(str(tmp_path / "best.yaml"), ["gcn"])
