"""The predicted time of a search is that of its slowest course."""

from itertools import combinations

import pytest

from dhilgt.classifier.auto import costs, halving
from dhilgt.classifier.auto.entries import Entry
from dhilgt.classifier.planning import Plan, StagePlan
from dhilgt.settings.settings import Settings

EPOCHS = 9
PER_EPOCH = {"features alone": 1.0, "slow": 7.0, "middle": 3.0, "slower": 8.0, "fast": 0.5}


def plan_of(name, epochs=EPOCHS):
    stages = [
        StagePlan(stage, seconds, 1000, 10, 0, "")
        for stage, seconds in (
            ("labels", 5.0), ("tokens", 2.0), ("training", PER_EPOCH[name] * epochs),
            ("prediction", 0.25),
        )
    ]  # fmt: skip
    return Plan(tuple(stages), 100, 60, "cpu")


def entries(contends=True):
    settings = Settings(epochs=EPOCHS)
    return [
        Entry(name, "", settings, {}, contends or name != "features alone") for name in PER_EPOCH
    ]


def slowest_course(listed, rungs, seeds, last_seeds):
    """Every choice of who goes on, tried in turn."""

    def after(alive, at, before):
        if at == len(rungs):
            return 0.0
        if at == len(rungs) - 1:
            further = rungs[at] * sum(PER_EPOCH[name] for name in alive) * (last_seeds - seeds)
        else:
            further = 0.0
        trained = {*alive, "features alone"}
        here = sum(PER_EPOCH[name] for name in trained) * (rungs[at] - before) * seeds + further
        kept = combinations(alive, halving.num_survivors(len(alive)))
        return here + max(after(one, at + 1, rungs[at]) for one in kept)

    return after([one.name for one in listed if one.contends], 0, 0)


@pytest.mark.parametrize("contends", [True, False])
@pytest.mark.parametrize(("seeds", "last_seeds"), [(1, 1), (1, 3), (3, 3)])
def test_time_is_that_of_the_slowest_course(contends, seeds, last_seeds):
    listed = entries(contends)
    plans = {name: plan_of(name) for name in PER_EPOCH}
    rungs = halving.rungs(EPOCHS)
    found = costs._trained_seconds(listed, plans, costs._Trainings(rungs, seeds, last_seeds))
    assert found == pytest.approx(slowest_course(listed, rungs, seeds, last_seeds))


def test_labels_are_built_once_and_tokens_once_per_kind_of_row():
    plans = {name: plan_of(name) for name in PER_EPOCH}
    whole = costs._whole(entries(), plans, costs._Trainings((1, 3, 9), 2, 2), None)
    assert whole.stage("labels").seconds == 5
    assert whole.stage("tokens").seconds == 2  # all have the same rows
    assert whole.stage("prediction").seconds == 3 * 2 * 0.25  # three candidates of two seeds


def test_a_budget_ends_the_search():
    plans = {name: plan_of(name) for name in PER_EPOCH}
    whole = costs._whole(entries(), plans, costs._Trainings((1, 3, 9), 2, 2), 4.0)
    assert whole.stage("search").seconds == 4


def test_a_candidate_with_fewer_epochs_takes_no_more_than_these():
    settings = {"features alone": 9, "slow": 4}
    listed = [
        Entry(name, "", Settings(epochs=epochs), {}, True) for name, epochs in settings.items()
    ]
    plans = {name: plan_of(name, epochs) for name, epochs in settings.items()}
    how = costs._Trainings(halving.rungs(EPOCHS), 1, 1)
    found = costs._trained_seconds(listed, plans, how)
    assert found == pytest.approx(9 * PER_EPOCH["features alone"] + 4 * PER_EPOCH["slow"])
