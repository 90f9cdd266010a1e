"""The radius of the labels in training: asked for, or chosen where full labels do not fit."""

import re
import warnings

import numpy as np
import pytest

import dhilgt
from dhilgt import ConfigError, Graph, GraphWarning
from dhilgt.classifier import cache as cache_module
from dhilgt.classifier import pipeline as pipeline_module
from dhilgt.classifier import planning
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.sharing import inputs_key
from dhilgt.labels import build as build_module
from dhilgt.labels import estimate
from dhilgt.settings.settings import Settings
from tests.classifier.auto_cases import CANDIDATES, searching, use_tiny
from tests.classifier.cases import quick

NODES = 1200
SMALL = {"size": 6, "hidden_channels": 8, "num_layers": 1, "heads": 2, "epochs": 2}


@pytest.fixture(scope="module")
def graph():
    """Random, so that its full labels are far larger than those of a radius."""
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return Graph.from_edges(
            *rng.integers(0, NODES, (2, 2 * NODES)),
            num_nodes=NODES,
            features=rng.normal(size=(NODES, 4)).astype(np.float32),
            labels=np.arange(NODES) % 2,
        )


@pytest.fixture
def little_memory(monkeypatch, graph):
    """A machine with room for labels of radius 2, as predicted; gives the radius."""
    limit = estimate(graph, order=None).within(2).peak_bytes + 1000

    def limit_of(max_memory):
        return limit

    for module in (cache_module, planning, pipeline_module):
        monkeypatch.setattr(module, "memory_limit", limit_of)
    return 2


def pipeline(graph, cache=None, **changes):
    return Pipeline(graph, Settings(**(SMALL | changes)), cache=cache, progress=False)


def test_a_radius_that_is_asked_for_is_that_of_labels_and_tokens(graph, tmp_path):
    for cache in (None, Cache(tmp_path)):
        made = pipeline(graph, cache, radius=2)
        assert made.labels.radius == made.tokens.radius == 2
        assert made.settled == made.settings


def test_full_labels_that_fit_stay_as_they_are(graph, tmp_path):
    cache = Cache(tmp_path)
    made = pipeline(graph, cache)
    assert made.labels.radius is None
    assert made.settled.radius == "auto"
    assert made.labels.fingerprint == cache.labels(graph).fingerprint
    assert len([one for one in cache.entries() if one.kind == "labels"]) == 1


def test_where_full_labels_do_not_fit_a_radius_is_chosen_and_said(graph, tmp_path, little_memory):
    cache = Cache(tmp_path)
    made = pipeline(graph, cache)
    with pytest.warns(GraphWarning, match=r"full labels would take .*within a radius of 2: about"):
        labels = made.labels
    assert labels.radius == little_memory
    assert made.settled.radius == little_memory
    assert made.tokens.radius == little_memory


def test_the_key_in_the_cache_is_the_radius_and_not_the_word(graph, tmp_path, little_memory):
    cache = Cache(tmp_path)
    with pytest.warns(GraphWarning, match="within a radius"):
        chosen = cache.labels(graph, radius="auto")
    asked_for = cache.labels(graph, radius=little_memory)
    assert asked_for.fingerprint == chosen.fingerprint
    assert len(cache.entries()) == 1
    cache.labels(graph, radius=little_memory - 1)
    assert len(cache.entries()) == 2


def test_full_labels_in_the_cache_are_taken(graph, tmp_path, little_memory):
    cache = Cache(tmp_path)
    cache.labels(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.labels(graph, radius="auto").radius is None


@pytest.mark.filterwarnings("ignore:full labels would take")
def test_a_trained_classifier_keeps_its_radius(graph, tmp_path, monkeypatch, little_memory):
    clf = quick(epochs=2, order="degree", cache=tmp_path / "cache").fit(
        graph, run_dir=tmp_path / "run"
    )
    assert clf.settings_.radius == little_memory
    before = clf.predict_proba()
    monkeypatch.undo()  # now there is room for full labels
    again = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert again.hub_labels_.radius == little_memory
    np.testing.assert_array_equal(again.predict_proba(), before)


@pytest.mark.filterwarnings("ignore:full labels would take", "ignore:the run was planned")
def test_a_run_goes_on_with_the_radius_it_began_with(graph, tmp_path, monkeypatch, little_memory):
    options = {"cache": tmp_path / "cache", "checkpoint_every": 1, "order": "degree"}
    quick(epochs=1, **options).fit(graph, run_dir=tmp_path / "run")
    monkeypatch.undo()
    resumed = quick(epochs=2, **options).fit(graph, run_dir=tmp_path / "run", resume=True)
    assert resumed.settings_.radius == little_memory
    with pytest.raises(ConfigError, match="radius = 3, but the run in this folder has radius = 2"):
        quick(epochs=2, radius=3, **options).fit(graph, run_dir=tmp_path / "run", resume=True)


@pytest.mark.filterwarnings("ignore:full labels would take")
def test_a_search_goes_on_with_the_radius_it_began_with(
    graph, tmp_path, monkeypatch, little_memory
):
    class Killed(BaseException):
        """Stands for SIGKILL."""

    options = {"order": "degree", "cache": tmp_path / "cache"}

    def kill(display, line):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        use_tiny(patch, CANDIDATES[2:], seeds=1)
        patch.setattr("dhilgt.classifier.auto.search._Display.epoch", kill)
        with pytest.raises(Killed):
            searching(**options).fit(graph, run_dir=tmp_path / "run")
    monkeypatch.undo()  # now there is room for full labels
    use_tiny(monkeypatch, CANDIDATES[2:], seeds=1)
    resumed = searching(**options).fit(graph, run_dir=tmp_path / "run", resume=True)
    assert resumed.search_.began["radius"] == little_memory
    assert {one.settings.radius for one in resumed.members_} == {little_memory}


def test_the_plan_tells_the_radius(graph, little_memory):
    costs = planning.plan(graph, Settings(**SMALL))
    full = estimate(graph)
    assert costs.radius == costs.to_dict()["radius"] == little_memory
    words = costs.stage("labels").sure
    assert words.startswith("hubs within a radius of 2; all hubs do not fit the memory; entries")
    disk = costs.stage("labels").disk_bytes
    assert disk == int(2.5 * full.within(2).num_entries) + 24 * NODES


def test_the_plan_of_a_radius_asked_for(graph):
    costs = planning.plan(graph, Settings(**SMALL, radius=2))
    assert costs.radius == 2
    assert re.match(r"hubs within a radius of 2; entries ±", costs.stage("labels").sure)
    assert planning.plan(graph, Settings(**SMALL)).radius is None


def test_labels_are_shared_among_settings_of_the_same_radius_only():
    assert inputs_key(Settings(radius=2)) != inputs_key(Settings())


@pytest.mark.parametrize("radius", [0, "all", None, 1.5])
def test_settings_refuse_other_values(radius):
    with pytest.raises(ConfigError, match=r"radius = .*from 1 .*\"auto\""):
        Settings(radius=radius)


def test_a_build_without_a_cache_chooses_too(graph, monkeypatch):
    limit = estimate(graph).within(2).peak_bytes
    tried = []

    def fake(max_memory):
        return limit

    def run(graph, node_at, chosen, *others):
        tried.append(chosen.radius)
        raise dhilgt.MemoryLimitError("stopped here")

    monkeypatch.setattr(build_module, "memory_limit", fake)
    monkeypatch.setattr(build_module, "_run", run)
    with (
        pytest.warns(GraphWarning, match="within a radius"),
        pytest.raises(dhilgt.MemoryLimitError, match="stopped here"),
    ):
        assert pipeline(graph).labels
    assert tried == [2, 1]
