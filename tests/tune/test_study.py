"""A search: by validation score alone, stage by stage, going on where it was."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError
from dhilgt.settings import yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.tune.objective import GraphSource, Objective, Outcome, without_test
from dhilgt.tune.results import BEST, TRIALS, look, write_best
from dhilgt.tune.study import run_search
from tests.tune.cases import BASE, ONE_STAGE, chosen, graph, search

pytest.importorskip("optuna")
torch.set_num_threads(1)


# ---- one trial -------------------------------------------------------------------------------


def test_a_trial_is_the_mean_of_the_classifiers_best_validation_scores():
    outcome = Objective(GraphSource(graph()), [0, 3], cache=None)(Settings(**BASE))
    for seed, score, epoch in zip([0, 3], outcome.scores, outcome.best_epochs, strict=True):
        clf = dhilgt.NodeClassifier(
            **BASE, recipe="paper", seed=seed, cache=False, progress=False
        ).fit(graph())
        assert score == clf.result_.best_score == clf.scores_["val"]["accuracy"]
        assert epoch == clf.result_.best_epoch
    assert outcome.score == pytest.approx(np.mean(outcome.scores))


def test_what_is_kept_between_trials_changes_no_score():
    trials = [Settings(**BASE), Settings(**BASE, hops=1, out_exponent=2), Settings(**BASE)]
    shared = Objective(GraphSource(graph()), [0, 1], cache=None)
    found = [shared(one).scores for one in trials]
    alone = [Objective(GraphSource(graph()), [0, 1], cache=None)(one).scores for one in trials]
    assert found == alone
    assert found[0] == found[2]


def test_labels_of_test_nodes_are_gone_before_a_trial_begins():
    whole = graph()
    shown = without_test(whole)
    assert set(shown.masks) == {"train", "val"}
    known = whole.masks["train"] | whole.masks["val"]
    assert np.array_equal(shown.labels >= 0, known)
    assert np.array_equal(shown.labels[known], whole.labels[known])
    bare = dhilgt.generate(20, 4, num_features=2, num_classes=2)
    assert without_test(bare) is bare
    no_train = whole.with_nodes(masks={"test": whole.masks["test"]})
    assert np.array_equal(without_test(no_train).labels < 0, whole.masks["test"])


@pytest.mark.full
def test_other_test_labels_give_the_same_search(tmp_path):
    found = []
    for name, poison in (("clean", False), ("poisoned", True)):
        one = search(tmp_path / name, data=graph(poison), name="same")
        run_search(one)
        found.append(look(one))
    assert chosen(found[0]) == chosen(found[1])
    assert found[0].settings == found[1].settings


def test_a_metric_that_is_not_defined_ends_with_the_reason(tmp_path):
    one_class = graph().with_data(labels=np.zeros(80, np.int64))
    one = search(tmp_path / "s", data=one_class, base={"metric": "roc_auc"}, trials=8)
    with pytest.raises(DhilgtError, match=r"trials failed.*roc_auc is not defined"):
        run_search(one)


# ---- stages, pruning, files ------------------------------------------------------------------


@pytest.mark.full
def test_the_best_of_a_stage_holds_in_the_next(tmp_path):
    one = search(tmp_path / "s", trials=6)
    assert run_search(one)
    found = look(one)
    stages = [trial["stage"] for trial in found.trials]
    assert stages == ["tokens"] * 3 + ["training"] * 3
    assert found.trials[0]["chosen"] == {"num_out": 3}  # the base itself comes first
    assert found.trials[3]["chosen"] == {"lr": 0.01}
    tokens = max(found.trials[:3], key=lambda trial: trial["score"])
    assert found.settings.num_out == tokens["chosen"]["num_out"]
    assert found.settings.num_in is None
    assert found.trials[3]["scores"] == tokens["scores"]  # the same settings once more
    assert found.best["score"] >= tokens["score"]
    again = Objective(one.source, one.seeds, cache=None)(found.settings)
    assert again.score == found.best["score"]


@pytest.mark.full
def test_every_trial_of_a_later_stage_has_the_best_of_the_one_before(tmp_path, monkeypatch):
    tried = []

    def fake(self, settings, report=None, alive=None):
        tried.append(settings)
        score = abs(settings.num_out - 3) + settings.lr  # the base's 3 is the worst
        return Outcome(score, [score], [1], [1], 0.1, 1, 0)

    monkeypatch.setattr(Objective, "__call__", fake)
    one = search(tmp_path / "s", trials=10)
    run_search(one)
    tokens, training = tried[:5], tried[5:]
    best = max(tokens, key=lambda settings: abs(settings.num_out - 3)).num_out
    assert best != 3
    assert {settings.num_out for settings in training} == {best}
    assert look(one).settings.lr == max(settings.lr for settings in training)


def test_the_file_of_the_best_settings_says_where_they_come_from(tmp_path):
    one = search(tmp_path / "s", about={"edges": "e.csv"})
    run_search(one)
    found = look(one)
    path = write_best(one, found, "dhilgt tune -o s")
    text = path.read_text()
    for part in ("command: dhilgt tune -o s", "validation accuracy: ", "trials: 4 (4 complete)",
                 "time: ", "memory: ", "versions: dhilgt ", "optuna ", "hardware: "):  # fmt: skip
        assert part in text
    values = yaml_files.read_settings(path)
    assert values.pop("data") == {"edges": "e.csv"}
    assert values.pop("recipe") == "paper"  # repeated without a search
    assert Settings.from_dict(values) == found.settings
    lines = [json.loads(line) for line in (tmp_path / "s" / TRIALS).read_text().splitlines()]
    assert lines == found.trials
    assert {path.name for path in (tmp_path / "s").iterdir()} == {BEST, TRIALS, "search.journal"}


def test_a_trial_gives_its_memory_back_to_the_gpu(tmp_path, monkeypatch):
    freed = []
    monkeypatch.setattr("dhilgt.tune.trials.free_gpu", lambda: freed.append(1))
    one = search(tmp_path / "s", trials=4)
    assert run_search(one)
    assert len(freed) == len(look(one).trials) == 4


@pytest.mark.full
def test_trials_that_fall_behind_are_ended_early(tmp_path, monkeypatch):
    steps = {}

    def fake(self, settings, report=None, alive=None):
        score = -settings.lr if len(steps) else 1.0
        for step in range(10, 101, 15):
            steps[settings.lr] = step
            report(step, score)
        return real(Settings(**BASE))

    real = Objective(GraphSource(graph()), [0], cache=None).__call__
    monkeypatch.setattr(Objective, "__call__", fake)
    one = search(tmp_path / "s", space=ONE_STAGE, trials=12, base={"epochs": 100})
    run_search(one)
    found = look(one)
    pruned = [trial for trial in found.trials if trial["state"] == "pruned"]
    assert pruned
    assert all(trial["steps"] < 100 for trial in pruned)
    assert found.trials[0]["state"] == "complete"  # the best one
    steps.clear()
    every = search(tmp_path / "t", space=ONE_STAGE, trials=12, base={"epochs": 100}, pruner="none")
    run_search(every)
    assert look(every).count("pruned") == 0


def test_the_running_score_reaches_the_pruner_seed_by_seed():
    seen = []
    objective = Objective(GraphSource(graph()), [0, 1], cache=None)
    outcome = objective(
        Settings(**(BASE | {"epochs": 3})), lambda step, score: seen.append((step, score))
    )
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[2][1] == outcome.scores[0]
    assert seen[5][1] == pytest.approx(outcome.score)
    assert seen[3][1] >= (outcome.scores[0] + 0) / 2


# ---- going on --------------------------------------------------------------------------------


@pytest.mark.full
def test_a_search_goes_on_and_ends_as_one_that_was_never_stopped(tmp_path):
    whole = search(tmp_path / "whole", trials=6, name="n")
    run_search(whole)
    start = search(tmp_path / "parts", trials=6, name="n")

    def stop_soon():
        if len(look(start).trials) >= 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dhilgt.tune.study._SECONDS_BETWEEN_NOTES", 0.0)
        with pytest.raises(KeyboardInterrupt):
            run_search(start, watch=stop_soon)
    begun = len(look(start).trials)
    assert 1 <= begun < 6
    assert run_search(search(tmp_path / "parts", trials=6, name="n"))
    assert chosen(look(start)) == chosen(look(whole))


def test_more_trials_are_added_to_the_last_stage(tmp_path):
    run_search(search(tmp_path / "s", trials=2))
    more = search(tmp_path / "s", trials=4)
    run_search(more)
    assert [one["stage"] for one in look(more).trials] == ["tokens"] + ["training"] * 3


def test_another_search_in_the_same_folder_is_refused(tmp_path):
    run_search(search(tmp_path / "s", trials=2))
    with pytest.raises(ConfigError, match=r"a search with other base \(epochs\)"):
        run_search(search(tmp_path / "s", trials=2, base={"epochs": 3}))
    with pytest.raises(ConfigError, match="other seeds"):
        run_search(search(tmp_path / "s", trials=2, seeds=(5,)))


def test_a_trial_of_a_killed_process_is_tried_again(tmp_path):
    one = search(tmp_path / "s", trials=3, space=ONE_STAGE)
    (tmp_path / "s").mkdir()
    study = one.study(0)
    study.set_user_attr("facts", one.facts())
    study.enqueue_trial({"lr": 0.05})
    study.ask().suggest_float("lr", 0.001, 0.1, log=True)  # and nobody tells how it went
    run_search(one)
    found = look(one)
    assert len(found.trials) == 3
    assert found.trials[0]["chosen"] == {"lr": 0.05}


def test_time_is_kept_and_a_search_without_a_result_says_so(tmp_path):
    endless = search(tmp_path / "s", trials=None, budget=4.0, base={"epochs": 1}, seeds=(0,))
    start = time.monotonic()
    assert run_search(endless)
    assert time.monotonic() - start < 12
    found = look(endless)
    assert {one["stage"] for one in found.trials} == {"tokens", "training"}
    assert found.seconds >= 4.0
    count = len(found.trials)
    assert run_search(endless)  # the time is spent: nothing is tried any more
    assert len(look(endless).trials) == count
    short = search(
        tmp_path / "t", trials=None, budget=0.02, base={"epochs": 2000, "patience": None}
    )
    with pytest.raises(DhilgtError, match="no trial ended in its time"):
        run_search(short)


def test_a_pause_is_no_end(tmp_path):
    one = search(tmp_path / "s", trials=3, space=ONE_STAGE)
    with pytest.raises(DhilgtError, match="no trial ended"):
        run_search(one, until=time.time() - 1)
    assert run_search(one)
    assert len(look(one).trials) == 3


@pytest.mark.full
def test_two_processes_share_a_search_and_count_together(tmp_path):
    one = search(tmp_path / "s", trials=4)
    assert run_search(one, jobs=2)
    found = look(one)
    assert [trial["stage"] for trial in found.trials] == ["tokens"] * 2 + ["training"] * 2
    tokens = max(found.trials[:2], key=lambda trial: trial["score"])
    assert found.settings.num_out == tokens["chosen"]["num_out"]


def test_one_search_at_a_time_works_in_a_folder(tmp_path):
    from dhilgt.store.target import BuildLock

    (tmp_path / "s").mkdir()
    lock = BuildLock(tmp_path / "s" / "search")
    try:
        with pytest.raises(ArtifactError, match="a search is at work"):
            run_search(search(tmp_path / "s"))
    finally:
        lock.release()


# ---- storages --------------------------------------------------------------------------------


def test_any_storage_address_is_taken(tmp_path):
    pytest.importorskip("sqlalchemy")
    one = search(tmp_path / "s", trials=2, storage=f"sqlite:///{tmp_path / 'all.db'}", name="a")
    run_search(one)
    assert len(look(one).trials) == 2
    assert not (tmp_path / "s" / "search.journal").exists()
    with pytest.raises(ConfigError, match="storage nothing://here cannot be opened"):
        run_search(search(tmp_path / "t", storage="nothing://here"))


@pytest.mark.full
def test_a_search_needs_no_database_package(tmp_path):
    script = f"""
        import sys
        for name in ("sqlalchemy", "alembic", "mako", "greenlet", "scipy.stats", "sklearn"):
            sys.modules[name] = None
        from pathlib import Path
        from tests.tune.cases import search
        from dhilgt.tune.results import look
        from dhilgt.tune.study import run_search
        one = search(Path({str(tmp_path / "s")!r}), trials=2, seeds=(0,))
        run_search(one)
        print(len(look(one).trials))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2"


def test_without_optuna_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(DhilgtError, match=r"pip install 'dhilgt\[tune\]'"):
        run_search(search(tmp_path / "s"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": None}, "without end"),
        ({"trials": 1}, "for 2 stages"),
        ({"budget": 0.0}, "seconds above 0"),
        ({"pruner": "mean"}, "choose median or hyperband or none"),
        ({"seeds": ()}, "no seeds"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        search(tmp_path / "s", **changes)
