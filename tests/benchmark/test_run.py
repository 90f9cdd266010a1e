"""A grid of trainings: every cell is a line, whatever becomes of it, and no line is lost."""

import contextlib
import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch

from dhilgt import baselines
from dhilgt.benchmark import Limits, Results, cells, models
from dhilgt.benchmark.running import data, runner
from dhilgt.benchmark.running.cell import run_cell
from dhilgt.benchmark.running.child import CellStopped, Child
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import Changes, Recipe
from dhilgt.benchmark.running.search import num_settings, read_space
from dhilgt.errors import ArtifactError, ConfigError, DatasetError
from tests.benchmark import cell_runs
from tests.benchmark.cases import changed, scripted, unrun
from tests.cli.cases import shell_command

HERE = Limits(apart=False, device="cpu")
TINY = Recipe(
    "tiny",
    {
        "all": {"training": {"epochs": 2}},
        "dhilgt": {"model": {"size": 4, "hidden_channels": 8, "num_layers": 1, "heads": 2}},
        "nagphormer": {"model": {"hidden_channels": 16, "hops": 2, "encoding_channels": 2}},
    },
)


def run(path, grid, limits=HERE, resume=False):
    """Runs a grid and gives the summary and the lines."""
    with Results(path).open(resume=resume) as results:
        found = runner.run(grid, results, limits)
    return found, Results(path).lines()


def grid(systems="mlp,gcn", datasets=("generated:40",), seeds=(0,), **more):
    return cells(models(systems, references=False), list(datasets), list(seeds), **more)


# ---- whole lines -------------------------------------------------------------------------------


def test_every_system_fills_its_cell(tmp_path):
    found, lines = run(tmp_path / "r.jsonl", grid("all", recipe=TINY))
    assert {line["system"] for line in lines} == {"dhilgt", *baselines.names()}
    assert found.ran == len(lines)
    for line in lines:
        assert line["status"] == "ok", line["message"]
        assert line["epochs"] == 2 >= line["best_epoch"] >= 1
        assert line["training"]["epochs"] == 2
        assert line["recipe"] == "tiny"
        assert line["settings"]
        assert set(line["scores"]) == {"val", "test"}
        assert all(0 <= line["scores"]["test"][name] <= 1 for name in ("accuracy", "macro_f1"))
        assert line["val_score"] == pytest.approx(line["scores"]["val"]["accuracy"])
        for name in ("precompute", "epoch", "first_epoch", "inference", "total"):
            assert line[f"{name}_seconds"] >= 0
        assert line["total_seconds"] > line["epoch_seconds"]
        assert line["host_peak_bytes"] > 10**7
        assert line["gpu_peak_bytes"] == 0
        assert line["inference_device"] == "cpu"
        assert line["environment"]["torch"] == torch.__version__
        assert line["environment"]["cpu"]
    # The same split for all.
    assert len({line["split_hash"] for line in lines}) == 1


def test_precompute_of_ours_is_labels_and_tokens(tmp_path):
    _, (line,) = run(tmp_path / "r.jsonl", grid("dhilgt", recipe=TINY))
    stages = line["stages"]
    made = stages["labels"]["seconds"] + stages["tokens"]["seconds"]
    assert line["precompute_seconds"] == pytest.approx(made)
    assert stages["epoch"]["times"] == 2


def test_a_cell_repeats_itself_and_depends_on_its_seed():
    first, again, other = (
        run_cell(grid("gcn", recipe=TINY, seeds=[seed])[0], device="cpu") for seed in (0, 0, 1)
    )
    assert first["scores"] == again["scores"]
    assert first["key"] == again["key"] != other["key"]
    assert first["split_hash"] == again["split_hash"] != other["split_hash"]


def test_variants_and_recipes_reach_the_training():
    recipe = Recipe("mine", {"gcn": {"data": {"generated:40": {"model": {"dropout": 0.25}}}}})
    line = run_cell(grid("gcn:tuned", recipe=recipe, epochs=1)[0], device="cpu")
    assert line["settings"]["norm"] == "batch"
    assert line["settings"]["dropout"] == 0.25
    assert line["variant"] == "tuned"
    assert line["epochs"] == 1


# ---- cells that fail ---------------------------------------------------------------------------


def raiser(error):
    def script(cell):
        if cell.system == "gcn":
            raise error
        return 0.5

    return script


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError("no room for 9 GB"), "oom"),
        (torch.OutOfMemoryError("CUDA out of memory"), "oom"),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("shapes do not fit"), "failed"),
        (ConfigError("no such thing"), "failed"),
    ],
)
def test_an_error_is_the_line_of_its_cell_and_the_others_go_on(
    tmp_path, monkeypatch, error, status
):
    scripted(monkeypatch, raiser(error))
    found, lines = run(tmp_path / "r.jsonl", grid("gcn,mlp"))
    assert [line["status"] for line in lines] == [status, "ok"]
    assert str(error) in lines[0]["message"]
    assert lines[0]["precompute_seconds"] is not None  # as far as it came
    assert lines[0]["scores"] == {}
    assert found.ran == 2


def test_over_budget_is_recorded_with_what_was_measured(tmp_path, monkeypatch):
    def script(cell):
        if cell.system == "gcn":
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                time.sleep(0.01)
        return 0.5

    scripted(monkeypatch, script)
    limits = Limits(budget=0.3, apart=False, device="cpu")
    _, lines = run(tmp_path / "r.jsonl", grid("gcn,mlp"), limits)
    assert [line["status"] for line in lines] == ["over-budget", "ok"]
    assert "0.3 seconds" in lines[0]["message"]
    assert lines[0]["epoch_seconds"] is not None
    assert lines[0]["total_seconds"] < 10


def test_over_budget_inside_the_trainer_keeps_the_times_of_its_epochs():
    cell = grid(
        "mlp", epochs=10**6, recipe=Recipe("long", {"mlp": {"training": {"patience": None}}})
    )
    run_cell(CELL, device="cpu")  # what is imported late is so before the clock starts
    line = run_cell(cell[0], device="cpu", budget=1.0)
    assert line["status"] == "over-budget"
    assert 0 < line["epoch_seconds"] < 1.0
    assert line["stages"]["epoch"]["times"] > 1


def test_undefined_scores_are_null_with_a_note(monkeypatch):
    monkeypatch.setattr(data, "about", lambda name: data.DataInfo(name, ("accuracy", "roc_auc")))
    loaded = data.load("generated:40", 0)
    one_class = loaded.labels.copy()
    one_class[loaded.masks["test"]] = 1
    graph = loaded.with_data(labels=one_class)
    monkeypatch.setattr(data, "load", lambda *args: graph)
    scripted(monkeypatch)
    line = run_cell(Cell("gcn", "generated:40", 0), device="cpu")
    assert line["scores"]["test"]["accuracy"] == 1.0
    assert line["scores"]["test"]["roc_auc"] is None
    assert "undefined" in line["score_notes"]["test roc_auc"]
    json.dumps(line.to_json(), allow_nan=False)


# ---- processes of their own --------------------------------------------------------------------


def run_apart(cell, *, budget=None, stop=lambda: False, **options):
    """The record of a cell from a process of its own."""
    child = Child(**options)
    try:
        return child.run(cell, budget=budget, stop=stop)
    finally:
        child.close()


CELL = Cell("mlp", "generated:40", 0, changes=Changes(training={"epochs": 2}))


@pytest.mark.full
def test_a_cell_in_a_process_of_its_own_says_the_same():
    here, apart = run_cell(CELL, device="cpu"), run_apart(CELL, device="cpu", budget=60)
    assert apart["status"] == "ok", apart["message"]
    assert apart["own_process"]
    assert not here["own_process"]
    assert apart["scores"] == here["scores"]
    assert apart["host_peak_bytes"] > apart["host_before_bytes"] > 0


def test_a_killed_process_is_out_of_memory():
    line = run_apart(CELL, run=cell_runs.kill_itself)
    assert (line["status"], line["key"]) == ("oom", CELL.key)
    assert "signal 9" in line["message"]


def test_a_crash_is_a_failure_with_its_last_words():
    line = run_apart(CELL, run=cell_runs.exit_with_a_message)
    assert line["status"] == "failed"
    assert "code 1: the kernel is not there" in line["message"]


def test_a_process_that_does_not_hear_its_alarm_is_killed():
    started = time.monotonic()
    line = run_apart(CELL, budget=0.2, grace=0.2, run=cell_runs.begin_and_sleep)
    assert line["status"] == "over-budget"
    assert time.monotonic() - started < 20


def test_a_stop_ends_the_process_and_leaves_no_line():
    with pytest.raises(CellStopped):
        run_apart(CELL, stop=lambda: True, run=cell_runs.begin_and_sleep)


@pytest.mark.full
def test_a_process_that_does_many_cells_says_the_same(tmp_path):
    limits = Limits(device="cpu", reuse=True, budget=60)
    wanted = grid("mlp", seeds=(0, 1, 2), epochs=2)
    _, lines = run(tmp_path / "reused.jsonl", wanted, limits)
    assert [line["own_process"] for line in lines] == [True, False, False]
    _, alone = run(tmp_path / "here.jsonl", wanted)
    assert [line["scores"] for line in lines] == [line["scores"] for line in alone]


@pytest.mark.full
def test_a_process_in_which_a_cell_failed_does_no_other(tmp_path):
    unknown = Cell("mlp", "generated:40", 1, changes=Changes(training={"batch_size": -1}))
    child = Child(device="cpu")
    try:
        found = [child.run(cell)["own_process"] for cell in (CELL, CELL, unknown, CELL)]
    finally:
        child.close()
    assert found == [True, False, False, True]


def test_processes_that_do_many_cells_are_apart():
    with pytest.raises(ConfigError, match="apart=True"):
        Limits(apart=False, reuse=True)


def test_several_at_once_are_recorded_as_such(tmp_path, monkeypatch):
    class Slow:
        def __init__(self, **options):
            self.threads = options["threads"]

        def run(self, cell, **options):
            time.sleep(0.3)
            return changed(run_cell(cell, device="cpu"), threads_given=self.threads)

        def close(self):
            pass

    scripted(monkeypatch)
    monkeypatch.setattr(runner, "Child", Slow)
    limits = Limits(jobs=3, device="cpu")
    _, lines = run(tmp_path / "r.jsonl", grid("mlp", seeds=(0, 1, 2, 3)), limits)
    assert sorted(line["seed"] for line in lines) == [0, 1, 2, 3]
    assert all(line["jobs"] == 3 for line in lines)
    assert max(line["beside"] for line in lines) == 2
    assert all(line["threads_given"] >= 1 for line in lines)
    _, alone = run(tmp_path / "alone.jsonl", grid("mlp"), Limits(device="cpu"))
    assert (alone[0]["beside"], alone[0]["threads_given"]) == (0, None)


def test_a_cell_without_memory_beside_others_is_tried_again_alone(tmp_path, monkeypatch):
    """Only one of these fits at a time; one of them never does."""
    lock, tried = threading.Lock(), []

    class Narrow:
        def __init__(self, **options):
            pass

        def run(self, cell, **options):
            tried.append(cell.seed)
            full = not lock.acquire(blocking=False)
            try:
                time.sleep(0.2)
                if full or cell.seed == 2:
                    return unrun(cell).after_error(MemoryError("no room"))
                return run_cell(cell, device="cpu")
            finally:
                if not full:
                    lock.release()

        def close(self):
            pass

    scripted(monkeypatch)
    monkeypatch.setattr(runner, "Child", Narrow)
    found, lines = run(tmp_path / "r.jsonl", grid("mlp", seeds=(0, 1, 2)), Limits(jobs=3))
    assert found.ran == 3
    assert {line["seed"]: line["status"] for line in lines} == {0: "ok", 1: "ok", 2: "oom"}
    assert {line["beside"] for line in lines if line["status"] == "oom"} == {0}
    assert sorted(tried) in ([0, 0, 1, 2, 2], [0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2])


# ---- files and resuming ------------------------------------------------------------------------


def test_resume_skips_what_is_done_and_adds_what_is_not(tmp_path, monkeypatch):
    path, done = tmp_path / "r.jsonl", []
    scripted(monkeypatch, lambda cell: done.append(cell.name) or 0.5)
    run(path, grid("mlp"))
    before = path.read_bytes()
    found, lines = run(path, grid("mlp,gcn", seeds=(0, 1)), resume=True)
    assert (found.ran, found.skipped) == (3, 1)
    assert path.read_bytes().startswith(before)
    assert len(done) == len(set(done)) == len(lines) == 4
    found, _ = run(path, grid("mlp,gcn", seeds=(0, 1)), resume=True)
    assert (found.ran, found.skipped) == (0, 4)


def test_other_settings_are_other_cells(tmp_path, monkeypatch):
    scripted(monkeypatch)
    run(tmp_path / "r.jsonl", grid("mlp"))
    found, lines = run(tmp_path / "r.jsonl", grid("mlp", epochs=3), resume=True)
    assert (found.ran, len(lines)) == (1, 2)


def test_failed_cells_are_tried_again_and_full_ones_are_not(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"

    def script(cell):
        raise MemoryError if cell.system == "gcn" else ValueError("a bug")

    scripted(monkeypatch, script)
    run(path, grid("gcn,mlp"))
    scripted(monkeypatch)
    found, lines = run(path, grid("gcn,mlp"), resume=True)
    assert found.ran == 1
    assert {line["system"]: line["status"] for line in lines} == {"gcn": "oom", "mlp": "ok"}
    assert path.read_bytes().count(b"\n") == 3  # nothing is taken back


@pytest.mark.parametrize(("budget", "again"), [(0.1, 0), (60.0, 1), (None, 1)])
def test_a_cell_over_budget_is_tried_again_with_more_time(tmp_path, monkeypatch, budget, again):
    path = tmp_path / "r.jsonl"
    scripted(monkeypatch, lambda cell: time.sleep(5) or 0.5)
    run(path, grid("mlp"), Limits(budget=0.1, apart=False, device="cpu"))
    scripted(monkeypatch)
    found, _ = run(path, grid("mlp"), Limits(budget=budget, apart=False, device="cpu"), True)
    assert found.ran == again


def test_the_time_of_the_whole_run_leaves_cells_without_a_line(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    scripted(monkeypatch, lambda cell: time.sleep(0.01 if cell.seed == 0 else 5) or 0.5)
    limits = Limits(total=1.0, apart=False, device="cpu")
    found, lines = run(path, grid("mlp", seeds=range(4)), limits)
    assert [line["seed"] for line in lines] == [0]
    assert (found.ran, found.left) == (1, 3)


def test_a_stopped_run_loses_the_running_cell_only(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"

    def script(cell):
        if cell.seed == 1:
            raise KeyboardInterrupt
        return 0.5

    scripted(monkeypatch, script)
    with pytest.raises(KeyboardInterrupt):
        run(path, grid("mlp", seeds=range(3)))
    assert [line["seed"] for line in Results(path).lines()] == [0]
    scripted(monkeypatch)
    assert run(path, grid("mlp", seeds=range(3)), resume=True)[0].ran == 2


def test_a_torn_last_line_is_cut_off(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    scripted(monkeypatch)
    run(path, grid("mlp"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    assert len(Results(path).lines()) == 1
    _, lines = run(path, grid("mlp,gcn"), resume=True)
    assert [line["system"] for line in lines] == ["mlp", "gcn"]
    assert path.read_bytes().startswith(whole + b'{"be')


def test_files_that_are_not_ours_are_refused_and_left_as_they_are(tmp_path):
    path = tmp_path / "thesis.txt"
    for text in (b"my thesis\n", b'{"system": "gcn"}\n'):
        path.write_bytes(text)
        with pytest.raises(ArtifactError, match="line 1 is not a result"):
            Results(path).open(resume=True)
        with pytest.raises(ArtifactError, match="holds results"):
            Results(path).open(resume=False)
        assert path.read_bytes() == text
    with pytest.raises(ArtifactError, match="is a folder"):
        Results(tmp_path).open(resume=False)


def test_two_runs_do_not_write_one_file(tmp_path):
    with (
        Results(tmp_path / "r.jsonl").open(resume=False),
        pytest.raises(ArtifactError, match=r"is being built|lock"),
    ):
        Results(tmp_path / "r.jsonl").open(resume=True)


@pytest.mark.full
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_process_behind(tmp_path, signum):
    path = tmp_path / "r.jsonl"
    command = shell_command(
        "bench", "table", "--models", "polynormer", "--no-references", "--data", "generated:3000",
        "--epochs", "100000", "--seeds", "0-1", "--jobs", "2", "--device", "cpu", "-o", path,
    )  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as parent:
        tasks = Path(f"/proc/{parent.pid}/task")
        deadline = time.monotonic() + 60
        children = []
        while len(children) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
            found = [(task / "children").read_text().split() for task in tasks.iterdir()]
            children = [Path(f"/proc/{pid}") for pids in found for pid in pids]
        assert len(children) == 2
        time.sleep(5)  # they are at work
        parent.send_signal(signum)
        words = parent.stderr.read().decode()
        code = parent.wait(30)
    if signum == signal.SIGTERM:
        assert code == 130
        assert "--resume" in words
    deadline = time.monotonic() + 20
    while any(child.exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(child.exists() for child in children)
    assert Results(path).lines() == []


# ---- what is refused before any work -----------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models("gnc"), "did you mean 'gcn'"),
        (lambda: models("gcn:wide"), "no variant 'wide'; choose paper, tuned"),
        (lambda: models("dhilgt:wide"), "no variant 'wide'"),
        (lambda: data.chosen("coar"), "did you mean 'cora'"),
        (lambda: data.chosen("generated:many"), "generated:NODES"),
        (lambda: Limits(budget=0), "budget = 0"),
        (lambda: Limits(jobs=2, apart=False), "processes of their own"),
        (
            lambda: grid("gcn", recipe=Recipe("x", {"gcn": {"model": {"drop": 1}}})),
            "gcn generated:40 seed 0: 'drop' is not a setting",
        ),
        (
            lambda: grid("dhilgt", recipe=Recipe("x", {"all": {"training": {"lr": -1}}})),
            "lr = -1",
        ),
    ],
)
def test_slips_are_named(call, message):
    with pytest.raises((ConfigError, DatasetError), match=message):
        call()


def test_references_join_unless_they_are_left_out():
    assert models("dhilgt") == [
        ("dhilgt", "paper"), ("gcn", "paper"), ("sage", "paper"), ("linkx", "paper"),
        ("mlp", "paper"),
    ]  # fmt: skip
    assert models("gcn:tuned,mlp", references=False) == [("gcn", "tuned"), ("mlp", "paper")]
    assert {name for name, _ in models("all")} == {"dhilgt", *baselines.names()}


def test_groups_of_datasets():
    assert data.chosen("small") == [
        "chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed",
    ]  # fmt: skip
    assert data.chosen("cora,small")[0] == "cora"
    assert len(data.chosen("cora,small")) == 6


def test_a_missing_dataset_stops_the_run_before_it_begins(tmp_path, monkeypatch):
    scripted(monkeypatch)

    def no_network(files):
        raise DatasetError(f"{files.info.name} is not here and could not be fetched")

    monkeypatch.setattr(data, "fetch", no_network)
    limits = Limits(apart=False, device="cpu", root=tmp_path)
    with pytest.raises(DatasetError, match="genius is not here"):
        run(tmp_path / "r.jsonl", grid("mlp", ("generated:40", "genius")), limits)
    assert Results(tmp_path / "r.jsonl").lines() == []


def test_every_system_has_a_search_space_of_valid_settings():
    for name in ("dhilgt", *baselines.names()):
        assert num_settings(read_space(name)) >= 30


# ---- the clock ---------------------------------------------------------------------------------


def test_clocks_join_with_their_single_times():
    from dhilgt.training.clock import StageClock

    one, two = StageClock(), StageClock()
    one.add("epoch", 3.0)
    two.add("epoch", 1.0, host_bytes=7)
    two.add("epoch", 2.0)
    two.add("labels", 5.0)
    one.join(two)
    assert one.laps("epoch") == [3.0, 1.0, 2.0]
    assert one.to_dict()["epoch"] == {
        "seconds": 6.0, "times": 3, "host_peak_bytes": 7, "device_peak_bytes": 0,
    }  # fmt: skip
    assert one.laps("labels") == [5.0]
    kept = StageClock(one.to_dict())  # as from a checkpoint: sums, no single times
    kept.take("epoch", two)
    assert (kept.laps("epoch"), kept.seconds()["epoch"]) == ([1.0, 2.0], 9.0)
    kept.take("nothing", two)
    assert "nothing" not in kept.seconds()


def test_a_stage_that_broke_off_has_cost_time_but_is_no_time_of_it():
    from dhilgt.training.clock import StageClock

    clock = StageClock()
    with clock.measure("epoch"):
        pass
    with contextlib.suppress(KeyboardInterrupt), clock.measure("epoch"):
        time.sleep(0.02)
        raise KeyboardInterrupt
    (whole,) = clock.laps("epoch")
    assert clock.to_dict()["epoch"]["times"] == 1
    assert clock.seconds()["epoch"] >= whole + 0.02
