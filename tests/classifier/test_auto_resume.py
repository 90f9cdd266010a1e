"""A search that is stopped or killed anywhere goes on, and ends with the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import ConfigError, NodeClassifier, TrainingInterrupted
from dhilgt.classifier.auto import search as searches
from dhilgt.classifier.auto import training
from dhilgt.classifier.auto.training import Training
from tests.classifier.auto_cases import searching, use_tiny
from tests.classifier.cases import community_graph, quick

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    use_tiny(monkeypatch)


@pytest.fixture(scope="module")
def graph():
    return community_graph()


@pytest.fixture(scope="module")
def expected(graph):
    with pytest.MonkeyPatch.context() as patch:
        use_tiny(patch)
        clf = searching().fit(graph)
        return clf.predict_proba(), clf.search_


def outcome(record):
    """Return what a record says apart from times."""
    return record.chosen, record.sentence, [
        (one.name, one.status, [(rung.epochs, rung.scores) for rung in one.rungs])
        for one in record.candidates
    ]  # fmt: skip


def assert_same(clf, expected):
    probabilities, record = expected
    np.testing.assert_array_equal(clf.predict_proba(), probabilities)
    assert outcome(clf.search_) == outcome(record)


def at_epoch(patch, number, act):
    """Act when epoch ``number`` of the whole search, counted from 1, has been scored."""
    count = iter(range(1, 10**6))
    real = searches._Display.epoch

    def epoch(self, line):
        real(self, line)
        if next(count) == number:
            act()

    patch.setattr(searches._Display, "epoch", epoch)


@pytest.mark.parametrize(
    ("number", "signum"), [(1, signal.SIGINT), (9, signal.SIGTERM), (20, signal.SIGINT)]
)
def test_a_search_that_is_stopped_goes_on(tmp_path, graph, expected, number, signum):
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        at_epoch(patch, number, lambda: os.kill(os.getpid(), signum))
        with pytest.raises(TrainingInterrupted, match="in the search for settings") as caught:
            searching().fit(graph, run_dir=run)
    assert f"fit(graph, run_dir={str(run)!r}, resume=True)" in str(caught.value)
    assert not (run / "bundle.json").exists()
    assert_same(searching().fit(graph, run_dir=run, resume=True), expected)
    assert not (run / "search").exists()


@pytest.mark.parametrize("kill", [True, False])
def test_a_search_that_is_stopped_in_its_last_seeds_goes_on(tmp_path, graph, monkeypatch, kill):
    use_tiny(monkeypatch, seeds=1, last_seeds=3)
    whole = searching().fit(graph)
    numbers = [len(one.rungs[-1].scores) for one in whole.search_.candidates]
    further = 5 * sum(number - 1 for number in numbers)
    assert further > 5
    run = tmp_path / "run"

    def act():
        if kill:
            raise Killed
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        at_epoch(patch, whole.search_.num_epochs - further + 8, act)
        with pytest.raises(Killed if kill else TrainingInterrupted):
            searching().fit(graph, run_dir=run)
    again = searching().fit(graph, run_dir=run, resume=True)
    assert_same(again, (whole.predict_proba(), whole.search_))


@pytest.mark.parametrize("saves", [True, False])
def test_a_search_that_is_killed_in_an_epoch_goes_on(tmp_path, graph, expected, saves):
    def kill():
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        if saves:
            patch.setattr(training, "SECONDS_BETWEEN_SAVES", 0.0)
        at_epoch(patch, 15, kill)
        with pytest.raises(Killed):
            searching().fit(graph, run_dir=tmp_path / "run")
    assert_same(searching().fit(graph, run_dir=tmp_path / "run", resume=True), expected)


@pytest.mark.parametrize(
    ("place", "number"), [("save", 3), ("write", 1), ("write", 10), ("finish", 2), ("store", 1)]
)
def test_a_search_that_is_killed_between_trainings_goes_on(
    tmp_path, graph, expected, place, number
):
    count = iter(range(1, 10**6))
    owner, name = {
        "save": (Training, "save"),
        "write": (searches, "write_record"),
        "finish": (Training, "finish"),
        "store": (dhilgt.classifier.store, "save_graph"),
    }[place]
    real = getattr(owner, name)

    def dying(*args, **more):
        found = real(*args, **more)
        if next(count) == number:
            raise Killed
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SECONDS_BETWEEN_SAVES", 0.0)
        patch.setattr(owner, name, dying)
        with pytest.raises(Killed):
            searching().fit(graph, run_dir=tmp_path / "run")
    assert_same(searching().fit(graph, run_dir=tmp_path / "run", resume=True), expected)


def test_checkpoints_that_are_lost_cost_time_only(tmp_path, graph, expected):
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        at_epoch(patch, 20, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(TrainingInterrupted):
            searching().fit(graph, run_dir=run)
    folders = sorted((run / "search").iterdir())
    for folder in folders[::2]:
        for file in folder.rglob("*"):
            if file.is_file():
                file.unlink()
    assert_same(searching().fit(graph, run_dir=run, resume=True), expected)


def test_a_search_that_has_ended_is_loaded_not_repeated(tmp_path, graph, expected, monkeypatch):
    searching().fit(graph, run_dir=tmp_path / "run")
    monkeypatch.setattr(Training, "advance", None)  # any training would fail
    again = searching().fit(graph, run_dir=tmp_path / "run", resume=True)
    assert_same(again, expected)


def stopped(run, graph, **changes):
    with pytest.MonkeyPatch.context() as patch:
        at_epoch(patch, 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(TrainingInterrupted):
            searching(**changes).fit(graph, run_dir=run)


def test_other_settings_inputs_and_recipes_are_refused(tmp_path, graph):
    run = tmp_path / "run"
    stopped(run, graph)
    with pytest.raises(
        ConfigError, match=r"lr = 0\.5, but the search in this folder began with lr"
    ):
        searching(lr=0.5).fit(graph, run_dir=run, resume=True)
    with pytest.raises(ConfigError, match="began with other edges"):
        searching().fit(community_graph(93), run_dir=run, resume=True)
    with pytest.raises(ConfigError, match="recipe = 'auto'"):
        quick().fit(graph, run_dir=run, resume=True)
    quick(epochs=1).fit(graph, run_dir=tmp_path / "paper")
    with pytest.raises(ConfigError, match="recipe = 'paper'"):
        searching().fit(graph, run_dir=tmp_path / "paper", resume=True)
    with pytest.raises(dhilgt.ArtifactError, match="holds a run"):
        searching().fit(graph, run_dir=run)


def test_the_candidates_of_another_version_are_refused(tmp_path, graph):
    run = tmp_path / "run"
    stopped(run, graph)
    values = json.loads((run / "search.json").read_text())
    values["candidates"][1]["settings"]["hops"] = 7
    (run / "search.json").write_text(json.dumps(values))
    with pytest.raises(ConfigError, match="another version"):
        searching().fit(graph, run_dir=run, resume=True)


def test_a_candidate_that_failed_before_the_stop_is_not_tried_again(tmp_path, graph):
    run = tmp_path / "run"
    stopped(run, graph)
    values = json.loads((run / "search.json").read_text())
    values["candidates"][2] |= {"status": "failed", "error": "no memory", "rungs": []}
    (run / "search.json").write_text(json.dumps(values))
    clf = searching().fit(graph, run_dir=run, resume=True)
    assert clf.search_.trial("row").status == "failed"
    assert clf.search_.trial("row").rungs == []


@pytest.mark.full
def test_a_process_that_is_killed_goes_on(tmp_path, graph, expected):
    code = (
        "import sys, torch\n"
        "from pytest import MonkeyPatch\n"
        "from tests.classifier.auto_cases import community_graph, searching, use_tiny\n"
        "torch.set_num_threads(1)\n"
        "use_tiny(MonkeyPatch())\n"
        "searching().fit(community_graph(), run_dir=sys.argv[1], resume=True)\n"
    )
    run = tmp_path / "run"
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", code, str(run)], cwd=ROOT)
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < 60:
            if len(list(run.glob("search/*/*"))) > 3 and time.monotonic() - began > 4:
                process.kill()
            time.sleep(0.05)
        process.wait()
    use = searching().fit(graph, run_dir=run, resume=True)
    assert_same(use, expected)
    assert len(NodeClassifier.load(run).members_) == len(use.members_)


@pytest.mark.full
def test_two_processes_make_the_same_choice(tmp_path):
    code = (
        "import os, sys, numpy as np, torch\n"
        "from pytest import MonkeyPatch\n"
        "from tests.classifier.auto_cases import community_graph, searching, use_tiny\n"
        "torch.set_num_threads(1)\n"
        "use_tiny(MonkeyPatch())\n"
        "clf = searching().fit(community_graph(), run_dir=sys.argv[1] + '/run')\n"
        "np.save(sys.argv[1] + f'/{os.environ[\"RANK\"]}.npy', clf.predict_proba())\n"
    )
    (tmp_path / "two.py").write_text(code)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        str(tmp_path / "two.py"), str(tmp_path),
    ]  # fmt: skip
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=200,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = np.load(tmp_path / "0.npy"), np.load(tmp_path / "1.npy")
    np.testing.assert_array_equal(first, second)
    read = NodeClassifier.load(tmp_path / "run").set_params(progress=False)
    np.testing.assert_allclose(read.predict_proba(), first, atol=1e-6)
    assert [one.rungs[-1].epochs for one in read.search_.candidates if one.status == "chosen"] == [
        5
    ]
