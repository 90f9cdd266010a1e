"""What a run will take, against what it took."""

import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.classifier import planning, trials
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.planning import Plan, StagePlan, long_run, plan
from dhilgt.classifier.trials import measure_graph
from dhilgt.errors import ConfigError
from dhilgt.labels.orders import node_order
from dhilgt.labels.sizes import estimate
from dhilgt.model.config import DHILGTConfig
from dhilgt.settings.settings import Settings
from tests import oracle_graphs

SMALL = {"size": 16, "hidden_channels": 32, "num_layers": 2, "heads": 4, "epochs": 2}


@pytest.fixture(scope="module")
def graph():
    return dhilgt.generate(4000, 8, seed=1, num_features=16, num_classes=4)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_disk_of_tokens_and_labels(tmp_path, copies, directed):
    graph = dhilgt.generate(4000, 8, seed=1, num_features=4, directed=directed)
    settings = Settings(**SMALL, copies=copies)
    found = plan(graph, settings)
    cache = Cache(tmp_path)
    labels = cache.labels(graph, progress=False)
    cache.tokens(labels, settings.token_options(), copies=copies, progress=False)
    sizes = {entry.kind: entry.num_bytes for entry in cache.entries()}
    assert found.stage("tokens").disk_bytes == pytest.approx(sizes["tokens"], rel=0.15)
    assert sizes["labels"] <= found.stage("labels").disk_bytes <= 4 * sizes["labels"]


@pytest.mark.full
def test_memory_is_an_upper_bound_of_the_same_order():
    # In processes of their own: the peak of this one holds whatever other tests did.
    options = {**SMALL, "max_batches": 2, "max_eval_batches": 2}
    code = f"""
import json, sys, dhilgt
from dhilgt.classifier.planning import plan
from dhilgt.settings import Settings
from dhilgt.training.clock import host_peak_bytes
graph = dhilgt.generate(6000, 8, seed=1, num_features=64, num_classes=4)
settings = Settings(**{options!r})
if sys.argv[1] == "plan":
    print(plan(graph, settings).ram_bytes)
else:
    dhilgt.NodeClassifier(**{options!r}, recipe="paper", cache=False, progress=False).fit(graph)
    print(host_peak_bytes())
"""
    predicted, taken = (
        int(
            subprocess.run(
                [sys.executable, "-c", code, what], capture_output=True, text=True, check=True
            ).stdout
        )
        for what in ("plan", "run")
    )
    assert taken <= predicted <= 4 * taken


def test_the_run_folder_stays_below_its_plan(tmp_path, graph):
    settings = Settings(**SMALL)
    found = plan(graph, settings)
    clf = dhilgt.NodeClassifier(**SMALL, recipe="paper", cache=False, progress=False)
    clf.fit(graph, run_dir=tmp_path / "run")
    taken = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    # Small files of text are not in the plan.
    assert taken <= found.stage("training").disk_bytes + 100_000 <= 4 * taken
    assert found.num_parameters == sum(p.numel() for p in clf.model_.parameters())
    assert found.num_train == len(clf.split_["train"])


def test_more_work_takes_more(graph):
    small = plan(graph, Settings(**SMALL))
    large = plan(graph, Settings(**{**SMALL, "epochs": 200, "size": 32, "batch_size": 2048}))
    assert large.stage("training").seconds > 5 * small.stage("training").seconds
    assert large.stage("tokens").disk_bytes > 2 * small.stage("tokens").disk_bytes
    assert large.ram_bytes > small.ram_bytes
    fresh = plan(graph, Settings(**SMALL, fresh=True))
    assert fresh.stage("tokens").disk_bytes == 0


def test_a_plan_as_plain_values_and_as_a_table():
    stages = tuple(
        StagePlan(name, seconds, ram, disk, gpu, "rough")
        for name, seconds, ram, disk, gpu in (
            ("labels", 2.0, 10, 5, 0),
            ("training", 70.0, 30, 7, 9),
        )
    )
    found = Plan(stages, 100, 50, "cpu")
    values = json.loads(json.dumps(found.to_dict()))
    assert [values[key] for key in ("seconds", "ram_bytes", "disk_bytes", "gpu_bytes")] == [
        72.0, 30, 12, 9,
    ]  # fmt: skip
    assert found.lines()[2][:5] == ("training", "1 min 10 s", "30 B", "7 B", "9 B")
    assert found.lines()[-1][:5] == ("all", "1 min 12 s", "30 B", "12 B", "9 B")


def test_a_graph_without_features_has_no_plan():
    with pytest.raises(dhilgt.ConfigError, match="features and labels"):
        plan(dhilgt.Graph.from_edges([0], [1]), Settings())


# ---- deep graphs --------------------------------------------------------------------------------


def with_data(graph):
    rng = np.random.default_rng(0)
    return graph.with_data(
        features=rng.normal(size=(graph.num_nodes, 4)), labels=rng.integers(0, 2, graph.num_nodes)
    )


def test_a_deep_graph_takes_longer_than_a_shallow_one_with_as_many_edges():
    """Its labels are larger, and each entry and row costs more; no absolute times."""
    deep = oracle_graphs.grid(45)
    shallow = dhilgt.generate(2025, deep.num_edges / 2025, num_features=1)
    costs = []
    for graph in (deep, shallow):
        order = node_order(graph, "degree-id")  # along the rows of the grid
        predicted = estimate(graph, order=order)
        costs.append(measure_graph(graph, predicted, order, Settings(**SMALL)))
    one, other = costs
    assert one.label_seconds > 5 * other.label_seconds
    assert one.row_seconds > 5 * other.row_seconds


# ---- announcing a long run ----------------------------------------------------------------------


def fake_plan(labels, training, device="cpu"):
    stages = tuple(
        StagePlan(name, seconds, 1, 1, 0, "")
        for name, seconds in (
            ("labels", labels), ("tokens", 0.0), ("training", training), ("prediction", 1.0),
        )
    )  # fmt: skip
    return lambda graph, settings: Plan(stages, 100, 50, device)


@pytest.fixture
def not_short(monkeypatch):
    monkeypatch.setattr(planning, "_surely_short", lambda graph, settings: False)


def test_a_run_that_is_short_anywhere_costs_no_trial(graph, monkeypatch):
    monkeypatch.setattr(planning, "plan", lambda *_: pytest.fail("a plan was made"))
    assert long_run(graph, Settings(**SMALL)) is None


@pytest.mark.usefixtures("not_short")
def test_a_long_training_is_announced_with_what_is_faster(monkeypatch):
    graph = with_data(oracle_graphs.grid(10))
    monkeypatch.setattr(planning, "plan", fake_plan(1.0, 250.0))
    assert long_run(graph, Settings(**SMALL)) is None
    monkeypatch.setattr(planning, "plan", fake_plan(1.0, 4000.0))
    clf = dhilgt.NodeClassifier(
        **{**SMALL, "epochs": 4}, recipe="paper", cache=False, progress="auto"
    )
    with pytest.warns(dhilgt.TrainingWarning) as found:
        clf.fit(graph)
    (message,) = [str(one.message) for one in found if "this run takes" in str(one.message)]
    assert "up to about 1 h 6 min" in message
    assert "epochs=1 (about 16 min 40 s)" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error", dhilgt.TrainingWarning)
        clf.set_params(progress=False, epochs=1).fit(graph)  # shows nothing


@pytest.mark.usefixtures("not_short")
def test_long_labels_are_announced_with_orders_that_make_them_smaller(monkeypatch):
    monkeypatch.setattr(planning, "plan", fake_plan(4000.0, 10.0))
    hubs = dhilgt.generate(800, 6, seed=1, num_features=4)
    message = str(ConfigError(long_run(hubs, Settings(**SMALL, order="random"))))
    assert "labels and tokens 1 h 6 min" in message
    assert re.search(r"faster: order='degree' \(about \d+% of the labels\), order='cl", message)
    assert "faster" not in long_run(hubs, Settings(**SMALL))


def test_a_run_may_be_long_by_its_training_or_by_its_labels():
    small = with_data(oracle_graphs.grid(10))
    assert planning._surely_short(small, Settings(**SMALL))
    many = Settings(**{**SMALL, "epochs": 10**5})
    assert not planning._surely_short(small, many)
    assert planning._surely_short(small, replace(many, max_batches=1, batch_size=1))
    cycle = with_data(oracle_graphs.cycle(50_000))
    assert planning._surely_short(cycle, Settings(**SMALL))
    assert not planning._surely_short(cycle, Settings(**SMALL, order="degree-id"))


@pytest.mark.parametrize(
    ("step_seconds", "egos"),
    [(0.001, [32, 256, 1000]), (0.5, [32])],  # cheap steps, and one that is long enough
)
def test_a_trial_grows_until_a_step_is_long_or_as_large_as_in_training(
    monkeypatch, step_seconds, egos
):
    tried = []

    def measured(model, inputs, device):
        x, index = inputs[:2]
        tried.append(len(index))
        assert len(x) == 3 * len(index)  # distinct nodes
        return step_seconds, step_seconds / 2, 8 * len(index)

    monkeypatch.setattr(trials, "_measured", measured)
    config = DHILGTConfig(in_channels=8, hidden_channels=16, out_channels=3)
    cost = trials.measure_model(config, 5, torch.device("cpu"), batch=1000, distinct=3)
    assert tried == egos
    assert cost.train_seconds == step_seconds / egos[-1]
    assert cost.saved_bytes == 8
