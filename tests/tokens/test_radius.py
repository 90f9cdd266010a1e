"""Tokens of labels with a radius: exact within it, bounds or far beyond it, never "no path"."""

import warnings

import numpy as np
import pytest

from dhilgt import ArtifactError, Graph, GraphWarning, HubLabels, Tokens, TokenSampler
from dhilgt.store.artifact import Artifact
from dhilgt.tokens import store
from dhilgt.tokens.spec import PADDING
from dhilgt.tokens.stats import token_stats
from tests.tokens.cases import FAR, NO_PATH, bfs_codes, generated, path_graph, random_graph


def near_labels(graph, radius):
    return HubLabels.build(graph, radius=radius, progress=False, threads=1)


def check_rows(rows, graph, radius, true, most=253):
    """Compare rows with a search: `most` is the longest distance that their store keeps."""
    ids = np.where(rows.ids == PADDING, 0, rows.ids)
    real = rows.ids != PADDING
    pairs = real[:, :, None] & real[:, None, :]
    expected = true[ids[:, :, None], ids[:, None, :]]
    assert (rows.spd[~pairs] == NO_PATH).all()
    found, expected = rows.spd[pairs], expected[pairs]
    near = expected <= min(radius, most)
    assert (found[near] == expected[near]).all()
    found, expected = found[~near], expected[~near]
    assert (found != NO_PATH).all()
    bound = found != FAR
    assert (found[bound] > radius).all()
    assert (found[bound] <= 2 * radius).all()
    assert (found[bound] >= expected[bound]).all()


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("size", [5, 16, 33, 65])  # bytes in two widths, then words
def test_distances_of_rows_keep_the_promise_of_the_labels(directed, size):
    bounded = 0
    for seed in range(60):
        graph = random_graph(seed, directed)
        radius = 1 + seed % 3
        labels = near_labels(graph, radius)
        if labels.radius is None:
            continue
        bounded += 1
        true = bfs_codes(graph)
        sampler = TokenSampler(labels, size=size, progress=False, threads=1)
        rows = sampler.rows(np.arange(graph.num_nodes))
        check_rows(rows, graph, radius, true)
        exact = sampler.is_exact(rows.spd)
        ids = np.where(rows.ids == PADDING, 0, rows.ids)
        expected = true[ids[:, :, None], ids[:, None, :]]
        assert (rows.spd[exact] == expected[exact]).all()
        assert (rows.spd[~exact] > radius + 1).all()
    assert bounded > 20


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_stored_rows_are_those_of_a_sampler(tmp_path, bits, directed):
    graph = generated(directed)
    labels = near_labels(graph, 2)
    tokens = Tokens.build(labels, size=12, bits=bits, path=tmp_path / "t", progress=False)
    nodes = np.arange(graph.num_nodes)
    rows = tokens.rows(nodes)
    drawn = TokenSampler(labels, size=12, progress=False).rows(nodes)
    assert (rows.ids == drawn.ids).all()
    assert (rows.spd == drawn.spd).all()
    check_rows(rows, graph, 2, bfs_codes(graph))
    assert (rows.spd == FAR).any()
    assert tokens.radius == Tokens.load(tmp_path / "t", labels=labels).radius == 2
    assert "radius 2)" in repr(tokens)
    assert (tokens.is_exact(rows.spd) == (rows.spd <= 3)).all()


def test_four_bits_keep_their_own_limit():
    order = [*range(20, 40), *range(20)]  # the ends of the path share few hubs
    labels = HubLabels.build(path_graph(40), order=order, radius=16, progress=False)
    tokens = Tokens.build(labels, size=33, bits=4, progress=False)
    rows = tokens.rows(np.arange(40))
    check_rows(rows, path_graph(40), 16, bfs_codes(path_graph(40)), most=13)
    assert not tokens.is_exact(np.array([FAR, NO_PATH], np.uint8)).any()


@pytest.mark.parametrize(("radius", "code"), [(None, NO_PATH), (1, FAR)])
def test_only_full_labels_tell_that_there_is_no_path(radius, code):
    # 0 -> 1 <- 2, then 2 -> 3: the row of 1 holds 0 and 2, without a path between the two.
    graph = Graph.from_edges([0, 2, 2], [1, 1, 3], directed=True)
    labels = HubLabels.build(graph, order=[2, 0, 3, 1], radius=radius, progress=False)
    rows = TokenSampler(labels, size=4, num_out=2, num_in=1, progress=False).rows([1])
    members = rows.ids[0].tolist()
    assert rows.spd[0, members.index(0), members.index(2)] == code


def test_only_tokens_of_near_labels_have_the_new_format(tmp_path):
    graph = generated(False)
    for name, radius, number in (("full", None, 1), ("near", 1, 2)):
        tokens = Tokens.build(
            near_labels(graph, radius), size=4, path=tmp_path / name, progress=False
        )
        artifact = Artifact.open(tmp_path / name)
        assert artifact.format_version == number
        assert ("radius" in artifact.params) == (radius is not None)
        assert tokens.radius == radius
    with pytest.raises(ArtifactError, match="format"):  # as an earlier version opens it
        Artifact.open(tmp_path / "near", kind=store.KIND, max_format=store.FORMAT)


def test_rows_do_not_fit_labels_of_another_radius(tmp_path):
    graph = generated(False)
    Tokens.build(near_labels(graph, 2), size=4, path=tmp_path / "t", progress=False)
    with pytest.raises(ArtifactError, match="drawn from other labels"):
        Tokens.load(tmp_path / "t", labels=near_labels(graph, 1))


def test_statistics_count_the_exact_pairs():
    graph = generated(False)
    tokens = Tokens.build(near_labels(graph, 1), size=8, progress=False)
    stats = token_stats(tokens)
    assert stats.radius == 1
    assert stats.exact == sum(stats.distances[:3])
    assert stats.far > 0
    assert stats.unreachable == 0
    assert "labels of radius 1" in str(stats)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphWarning)
        full = token_stats(Tokens.build(near_labels(graph, None), size=8, progress=False))
    assert full.radius is None
    assert full.exact == sum(full.distances)
