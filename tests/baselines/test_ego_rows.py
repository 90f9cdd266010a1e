"""Rows of nodes against breadth-first search, sorting, and a dense inverse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt.baselines.shared import ego_rows as module
from dhilgt.baselines.shared.ego_rows import (
    SAMPLERS,
    all_distances,
    ego_rows,
    nearest_rows,
    page_rank_rows,
    undirected_labels,
)
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.row_model import pair_codes
from dhilgt.errors import ConfigError, MemoryLimitError
from dhilgt.tokens import TokenSampler
from tests.baselines.cases import lonely_graph, small_graph
from tests.oracle import splitmix

NO_PATH = 255


def searched(graph):
    """Distances of all pairs by breadth-first search, edges taken in both directions."""
    source, target = graph.to_edge_index()
    n = graph.num_nodes
    near = [set(target[source == v]) | set(source[target == v]) - {v} for v in range(n)]
    found = np.full((n, n), NO_PATH)
    for start in range(n):
        level, depth = {start}, 0
        while level:
            found[start, list(level)] = depth
            depth += 1
            level = {v for u in level for v in near[u] if found[start, v] == NO_PATH}
    return found


def directed_graph():
    graph = small_graph()
    source, target = graph.to_edge_index()
    return dhilgt.Graph.from_edges(
        source[::3], target[::3], num_nodes=80, directed=True, features=graph.features,
        labels=graph.labels,
    )  # fmt: skip


def random_graph(seed, most=14):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most))
    joined = np.triu(rng.random((n, n)) < 1.5 / n, 1)
    return dhilgt.Graph.from_edges(*np.nonzero(joined | joined.T), num_nodes=n)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("graph", [small_graph, lonely_graph, directed_graph])
def test_all_distances_inside_rows_are_those_of_a_search(sampler, graph):
    graph = graph()
    rows, expected = ego_rows(graph, sampler, 9, seed=1), searched(graph)
    for ids, distances in zip(rows.ids, rows.distances, strict=True):
        for i, u in enumerate(ids):
            for j, v in enumerate(ids):
                if u >= 0 and v >= 0:
                    assert distances[i, j] == expected[u, v]


@pytest.mark.parametrize("graph", [small_graph, lonely_graph, directed_graph])
def test_distances_of_all_pairs_are_those_of_a_search(graph):
    graph = graph()
    assert np.array_equal(all_distances(undirected_labels(graph)), searched(graph))


def test_long_distances_are_far_not_wrapped():
    graph = dhilgt.Graph.from_edges(np.arange(299), np.arange(1, 300), num_nodes=301)
    distances = all_distances(undirected_labels(graph))
    assert distances[0, [253, 254, 299, 300]].tolist() == [253, 254, 254, 255]
    codes = pair_codes(distances, np.ones(301, np.bool_), 250)
    assert codes[0, [249, 250, 299, 300]].tolist() == [249, 250, 250, 251]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_row_begins_with_its_node_and_has_no_node_twice(sampler):
    graph = lonely_graph()
    ids = ego_rows(graph, sampler, 12, seed=1).ids
    assert ids[:, 0].tolist() == list(range(80))
    for row in ids:
        there = row[row >= 0]
        assert len(np.unique(there)) == len(there)
        assert (row[len(there) :] == -1).all()
        assert len(there) == 1 or graph.degrees[row[0]] > 0


def tie_breaker(seed, ego, node):
    return splitmix(splitmix(splitmix(seed) ^ ego) ^ node)


def check_nearest(graph, size, seed):
    expected = searched(graph)
    actual = nearest_rows(CleanGraph.of(graph, self_loops=False), size, seed)
    for ego in range(graph.num_nodes):
        reached = [v for v in range(graph.num_nodes) if expected[ego, v] < NO_PATH]
        reached.sort(key=lambda v: (expected[ego, v], tie_breaker(seed, ego, v)))
        assert actual[ego].tolist() == reached[:size] + [-1] * (size - len(reached))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_the_nearest_nodes_are_those_of_a_sorted_list(seed, size):
    check_nearest(random_graph(seed), size, seed)


@pytest.mark.parametrize("spare", [0.5, 4])
def test_the_nearest_of_many_at_one_distance_are_those_of_a_sorted_list(spare, monkeypatch):
    monkeypatch.setattr(module, "_SPARE", spare)  # with 0.5 too few are sorted at first
    for degree in (4, 16):
        check_nearest(dhilgt.generate(90, degree, seed=1), 6, seed=2)


def test_another_seed_breaks_ties_otherwise():
    star = CleanGraph.of(dhilgt.Graph.from_edges([0] * 50, range(1, 51)), self_loops=False)
    first, same, other = (nearest_rows(star, 8, seed) for seed in (3, 3, 4))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def check_largest(rank, rows):
    """Every row has the largest positive entries of its ego, its own left out."""
    np.fill_diagonal(rank, 0)
    rank[rank < 1e-12] = 0
    for ego, row in enumerate(rows):
        there = row[1:][row[1:] >= 0]
        assert len(there) == min(len(row) - 1, (rank[ego] > 0).sum())
        assert np.allclose(rank[ego, there], np.sort(rank[ego])[::-1][: len(there)], atol=1e-7)


@pytest.mark.parametrize("graph", [small_graph, lonely_graph])
def test_rows_of_page_rank_are_the_largest_of_the_dense_inverse(graph):
    clean = CleanGraph.of(graph())
    hat = clean.adjacency("symmetric").to_dense().double().numpy()
    check_largest(0.15 * np.linalg.inv(np.eye(80) - 0.85 * hat), page_rank_rows(clean, 7))


def test_on_a_large_graph_rows_of_page_rank_are_the_largest_after_five_steps(monkeypatch):
    monkeypatch.setattr(module, "_EXACT_NODES", 0)
    monkeypatch.setattr(module, "_CANDIDATES", 80)
    clean = CleanGraph.of(lonely_graph())
    hat = clean.adjacency("symmetric").to_dense().double().numpy()
    rank = np.eye(80)
    for _ in range(5):
        rank = np.eye(80) + 0.85 * rank @ hat
    check_largest(rank, page_rank_rows(clean, 9))


def test_rows_of_hubs_are_the_tokens_of_the_package():
    graph = small_graph()
    labels = dhilgt.HubLabels.build(graph, progress=False)
    expected = TokenSampler(labels, size=10, seed=4, progress=False).rows(range(80))
    actual = ego_rows(graph, "hubs", 10, seed=4)
    assert np.array_equal(actual.ids, expected.ids)
    assert np.array_equal(actual.distances, expected.spd)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_graph_without_edges_has_rows_of_one_node(sampler):
    graph = dhilgt.Graph.from_edges([], [], num_nodes=3)
    rows = ego_rows(graph, sampler, 4, seed=0)
    assert rows.ids.tolist() == [[0, -1, -1, -1], [1, -1, -1, -1], [2, -1, -1, -1]]
    assert ego_rows(graph, sampler, 1, seed=0).distances.tolist() == [[[0]]] * 3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_work_in_small_pieces_gives_the_same_rows(sampler, monkeypatch):
    graph = lonely_graph()
    expected = ego_rows(graph, sampler, 9, seed=1)
    for name, value in {"_EGOS": 7, "_STEPS": 5, "_PAIRS": 50, "_BLOCK": 200}.items():
        monkeypatch.setattr(module, name, value)
    actual = ego_rows(graph, sampler, 9, seed=1)
    assert np.array_equal(actual.ids, expected.ids)
    assert np.array_equal(actual.distances, expected.distances)


def test_too_little_memory_and_unknown_samplers_are_refused(monkeypatch):
    graph = small_graph()
    with pytest.raises(ConfigError, match="khop"):
        ego_rows(graph, "k-hop", 4, seed=0)
    labels = undirected_labels(graph)
    monkeypatch.setattr(module, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryLimitError, match="80 rows of 9 nodes"):
        ego_rows(graph, "khop", 9, seed=0)
    with pytest.raises(MemoryLimitError, match="all pairs of 80 nodes"):
        all_distances(labels)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_codes_are_distances_far_no_path_and_left_out(seed, most):
    rng = np.random.default_rng(seed)
    distances = rng.choice([0, 1, 2, 5, 6, 254, NO_PATH], (2, 4, 4)).astype(np.uint8)
    present = rng.random((2, 4)) < 0.7
    codes = pair_codes(distances, present, most)
    for b, i, j in np.ndindex(2, 4, 4):
        if i == j:
            expected = 0
        elif not (present[b, i] and present[b, j]):
            expected = most + 2
        elif distances[b, i, j] == NO_PATH:
            expected = most + 1
        else:
            expected = min(most, distances[b, i, j])
        assert codes[b, i, j] == expected
