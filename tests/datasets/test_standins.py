"""Stand-ins have the size and shape they claim, come from a seed, and never hide what they are."""

import numpy as np
import pytest

from dhilgt import datasets
from dhilgt.datasets import standins

NAMES = ["penn94-like", "genius-like", "twitch-like", "mag-like"]
SCALE = {"penn94-like": 0.1, "genius-like": 0.02, "twitch-like": 0.05, "mag-like": 0.02}


@pytest.fixture(params=NAMES, scope="module")
def small(request):
    return request.param, standins.make(request.param, scale=SCALE[request.param])


def test_size_is_that_of_the_real_graph_scaled(small):
    name, raw = small
    size = datasets.info(name).facts
    assert raw.num_nodes == round(size.nodes * SCALE[name])
    assert 2 * len(raw.sources) == pytest.approx(size.edges * SCALE[name], rel=0.01)
    assert raw.features.shape == (raw.num_nodes, size.features)
    assert raw.labels.max() == size.classes - 1
    assert raw.labels.min() == (-1 if name == "penn94-like" else 0)
    assert len(np.unique(raw.labels[raw.labels >= 0])) == size.classes


def test_edges_are_distinct_and_no_loops(small):
    _, raw = small
    low, high = np.minimum(raw.sources, raw.targets), np.maximum(raw.sources, raw.targets)
    assert (low < high).all()
    assert len(np.unique(low * raw.num_nodes + high)) == len(low)


def test_homophily_is_the_published_one(small):
    name, raw = small
    ours, theirs = raw.labels[raw.sources], raw.labels[raw.targets]
    known = (ours >= 0) & (theirs >= 0)
    actual = float((ours[known] == theirs[known]).mean())
    assert actual == pytest.approx(datasets.info(name).facts.homophily, abs=0.01)


def test_penn94_like_has_the_homophily_of_papers_that_count_no_answer_as_a_class():
    raw = standins.make("penn94-like", scale=0.2, features=False)
    actual = (raw.labels[raw.sources] == raw.labels[raw.targets]).mean()
    assert actual == pytest.approx(0.470, abs=0.01)


def test_degrees_have_a_heavy_tail(small):
    _, raw = small
    degrees = np.bincount(np.concatenate([raw.sources, raw.targets]), minlength=raw.num_nodes)
    assert degrees.max() > 8 * degrees.mean()


def test_a_seed_gives_one_graph_and_another_seed_another(small):
    name, raw = small
    again = standins.make(name, scale=SCALE[name])
    other = standins.make(name, scale=SCALE[name], seed=1)
    for part in ("sources", "targets", "labels"):
        assert np.array_equal(getattr(raw, part), getattr(again, part))
    assert not np.array_equal(raw.sources, other.sources)
    dense = [x.toarray() if hasattr(x, "toarray") else x for x in (raw.features, again.features)]
    assert np.array_equal(*dense)


def test_features_of_penn94_like_are_sparse_and_tell_something_of_the_class():
    raw = standins.make("penn94-like", scale=0.1)
    assert raw.features.nnz == 6 * raw.num_nodes
    assert (raw.features.data == 1).all()
    known = raw.labels >= 0
    major = np.asarray(raw.features[:, 7:119].argmax(axis=1)).reshape(-1)
    agrees = (major % 2 == raw.labels)[known].mean()
    assert 0.6 < agrees < 0.9


def test_classes_of_genius_like_are_four_to_one():
    raw = standins.make("genius-like", scale=0.1, features=False)
    assert (raw.labels == 0).mean() == pytest.approx(0.8, abs=0.02)


def test_dense_features_tell_the_class_only_in_part():
    raw = standins.make("genius-like", scale=0.02)
    centres = np.stack([raw.features[raw.labels == k].mean(axis=0) for k in (0, 1)])
    distances = ((raw.features[:, None] - centres) ** 2).sum(axis=2)
    assert 0.6 < (distances.argmin(axis=1) == raw.labels).mean() < 0.97


@pytest.mark.parametrize("scale", [0, -1, 1.5])
def test_a_scale_that_makes_no_sense_is_refused(scale):
    with pytest.raises(datasets.DatasetError, match="scale="):
        standins.make("genius-like", scale=scale)


def test_every_stand_in_says_what_it_is():
    actual = [datasets.info(name) for name in datasets.names() if datasets.info(name).generated]
    assert [about.name for about in actual] == [*NAMES, "arxiv-like"]
    for about in actual:
        assert about.name.endswith("-like")
        assert "generated stand-in" in about.title
        assert about.standin_for in about.title
        assert "generated stand-in" in about.note
        assert datasets.info(about.standin_for).facts.nodes == about.facts.nodes
        assert not about.in_paper


def test_a_loaded_stand_in_carries_its_name(monkeypatch):
    whole = standins.make
    monkeypatch.setattr(
        standins, "make", lambda name, **more: whole(name, **more | {"scale": 0.05})
    )
    graph = datasets.load("penn94-like", split="paper", seed=3)
    assert "generated stand-in" in graph.name
    assert repr(graph).startswith("Graph(penn94-like (generated stand-in, not penn94), ")
    other = datasets.load("penn94-like", split="paper", seed=4, features=False)
    assert graph.fingerprint == other.fingerprint  # the seed is that of the split
    assert datasets.split_hash(graph.masks) != datasets.split_hash(other.masks)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_full_size(name):
    size, actual = datasets.info(name).facts, datasets.statistics(name)
    assert (actual.nodes, actual.features, actual.classes) == (
        size.nodes,
        size.features,
        size.classes,
    )
    assert actual.edges == pytest.approx(size.edges, rel=0.01)
    assert actual.homophily == pytest.approx(size.homophily, abs=0.005)
