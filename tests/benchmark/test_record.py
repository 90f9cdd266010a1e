"""The record of a cell: every line ever written can be read, and new lines keep the format."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt.benchmark import Cell, Record, Results
from dhilgt.benchmark.record import checked_line
from dhilgt.benchmark.running.data import about
from dhilgt.benchmark.running.recipe import Changes
from dhilgt.errors import ArtifactError
from dhilgt.store.files import canonical_json
from tests.benchmark.cases import GPU, changed, line

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CELLS = [
    path
    for path in sorted(RESULTS.rglob("*.jsonl"))
    if "variant" in json.loads(path.read_text(encoding="utf-8").partition("\n")[0])
]
# What a run writes for every cell; "search" is added where there was one.
NAMES = {
    "beside", "best_epoch", "budget_seconds", "changes", "chosen_by", "data", "environment",
    "epoch_seconds", "epochs", "first_epoch_seconds", "format", "gpu_peak_bytes", "graph",
    "host_before_bytes", "host_peak_bytes", "inference_device", "inference_seconds", "jobs", "key",
    "load_seconds", "message", "metrics", "num_parameters", "out_of_time", "own_process",
    "precompute_seconds", "recipe", "rows", "score_notes", "scores", "seed", "settings",
    "split_hash", "stages", "standin_for", "status", "system", "total_seconds", "training", "trial",
    "trials", "val_score", "variant",
}  # fmt: skip


@pytest.mark.parametrize("path", CELLS, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_every_committed_line_is_read_without_loss(path):
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    for values in lines:
        record = Record.from_json(values)
        written = record.to_json() if record.format == 1 else json.loads(record.line())
        assert {name: written[name] for name in values} == values
        if not NAMES - set(values):
            assert canonical_json(written) == canonical_json(values)
    # A cell has further lines only where it had failed before.
    last = {values["key"]: number for number, values in enumerate(lines)}
    again = [values for number, values in enumerate(lines) if last[values["key"]] != number]
    assert {values["status"] for values in again} <= {"failed"}
    assert len(Results(path).lines()) == len(last)


def test_committed_lines_are_of_all_kinds():
    assert {path.stem for path in CELLS} >= {"ablation", "study", "scaling", "times", "default"}


def test_a_line_of_a_run_has_the_names_that_lines_always_had():
    record = Record.of(Cell("gcn", "cora", 0), about("cora"), 60.0)
    assert set(record.to_json()) == NAMES
    assert set(json.loads(canonical_json(record.to_json()))) == NAMES


def test_what_an_older_line_lacks_has_its_default_and_what_a_newer_one_has_is_kept():
    values = {
        "format": 1, "key": "k", "system": "gcn", "variant": "paper", "data": "cora", "seed": 2,
        "recipe": "paper", "status": "ok",
    }  # fmt: skip
    old = Record.from_json(values)
    assert old.cell == Cell("gcn", "cora", 2)
    assert (old.scores, old.costs.epoch_seconds, old.costs.ran_alone) == ({}, None, True)
    new = Record.from_json(values | {"power_watts": 300})
    assert new.to_json()["power_watts"] == 300


# ---- hashes ------------------------------------------------------------------------------------


def test_a_line_has_the_hash_of_its_values_and_of_its_run():
    record = line("gcn", "cora", 0, 0.8, settings={"hidden": 8}, split_hash="s")
    values = json.loads(record.line())
    assert set(values) - set(record.to_json()) == {"run_hash", "line_hash"}
    assert checked_line(values) == values
    assert Record.from_json(values).to_json() == record.to_json()
    assert values["run_hash"] == Record.from_json(values).run_hash


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_line_that_was_changed_in_any_value_is_refused(data):
    values = json.loads(line("gcn", "cora", 0, 0.8, command="dhilgt bench table").line())
    name = data.draw(st.sampled_from(sorted(set(values) - {"format"})))
    other = data.draw(st.sampled_from(["", 0.9, None, 20, {}]).filter(lambda v: v != values[name]))
    changes = data.draw(st.sampled_from([{name: other}, {f"{name}_too": other}]))
    with pytest.raises(ArtifactError, match="was changed after it was written"):
        checked_line(values | changes)
    del values[name]
    with pytest.raises(ArtifactError, match="was changed after it was written"):
        checked_line(values)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"hidden": 16}},
        {"training": {"epochs": 3}},
        {"split_hash": "t"},
        {"graph": {"fingerprint": "g"}},
        {"environment": GPU | {"torch": "2.11"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_hash_of_a_run_depends_on_what_a_score_depends_on(changes):
    record = line("gcn", "cora", 0, 0.8, settings={"hidden": 8}, split_hash="s")
    assert changed(record, **changes).run_hash != record.run_hash
    assert changed(record, epoch_seconds=9.0, beside=3).run_hash == record.run_hash


def test_a_file_with_a_changed_line_is_refused_with_its_place(tmp_path):
    path = tmp_path / "r.jsonl"
    with Results(path).open(resume=False) as results:
        for seed in range(2):
            results.add(line("gcn", "cora", seed, 0.8))
    path.write_bytes(path.read_bytes().replace(b'"seed": 1', b'"seed": 2'))
    with pytest.raises(ArtifactError, match=r"r\.jsonl, line 2 was changed after it was written"):
        Results(path).lines()


def test_lines_of_the_first_format_are_read_and_keep_it():
    old = line("gcn", "cora", 0, 0.8).to_json() | {"format": 1}
    record = Record.from_json(checked_line(old))
    assert (record.format, record.to_json()) == (1, old)


def test_only_a_training_that_ended_by_its_own_rule_is_whole():
    ended = line("gcn", "cora", 0, 0.8)
    assert ended.whole
    assert not changed(ended, out_of_time=True).whole
    assert not changed(ended, status="oom").whole


# ---- parts -------------------------------------------------------------------------------------


def test_a_search_is_a_part_of_the_record():
    search = {
        "trials": 3, "trials_ok": 2, "seed": 0, "chosen": 1, "val_score": 0.7, "seconds": 4.0,
        "changes": {"model": {"heads": 2}, "training": {}},
    }  # fmt: skip
    record = line("gcn", "cora", 0, 0.8, search=search)
    assert record.search.changes == Changes({"heads": 2})
    assert record.to_json()["search"] == search
    without = line("gcn", "cora", 0, 0.8, search=search | {"chosen": None, "changes": None})
    assert without.search.changes is None


def test_values_can_be_read_by_their_names_in_a_file():
    record = line("gcn", "cora", 3, 0.8)
    assert (record["system"], record["seed"], record["status"]) == ("gcn", 3, "ok")
    assert record["epoch_seconds"] == record.costs.epoch_seconds
    with pytest.raises(KeyError, match="epoch_second"):
        record["epoch_second"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "is not a result of dhilgt bench"),
        ({"system": "gcn"}, "is not a result of dhilgt bench"),
        (line("gcn", "cora", 0, 0.8).to_json() | {"format": 3}, "has format 3, this version reads"),
    ],
)
def test_other_lines_are_refused(values, message):
    with pytest.raises(ArtifactError, match=message):
        Record.from_json(values)


@pytest.mark.parametrize(
    ("values", "budget", "final"),
    [
        ({"status": "ok"}, None, True),
        ({"status": "failed"}, None, False),
        ({"status": "oom"}, None, True),
        ({"status": "oom", "beside": 1}, None, False),
        ({"status": "over-budget", "budget_seconds": 5.0}, 60.0, False),
        ({"status": "over-budget", "budget_seconds": 5.0}, 5.0, True),
        ({"status": "over-budget", "budget_seconds": 5.0}, None, False),
    ],
)
def test_only_cells_that_could_end_otherwise_are_run_again(values, budget, final):
    assert line("gcn", "cora", 0, 0.8, **values).is_final(budget) == final
