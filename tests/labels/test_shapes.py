"""Shapes that break labelings: the smallest, the largest, the longest, the most skewed."""

import numpy as np
import pytest

from dhilgt import UNREACHABLE, Graph, GraphWarning, MemoryLimitError
from tests.labels.cases import ALGORITHMS, build, grid, label, native_labels, packed, path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("directed", [False, True])
def test_one_node(algorithm, directed):
    labels = build(Graph.from_edges([], [], num_nodes=1, directed=directed), algorithm=algorithm)
    assert (labels.num_nodes, labels.max_distance) == (1, 0)
    assert labels.num_entries == (2 if directed else 1)
    assert label(labels, 0) == {0: 0}
    assert labels.distance(0, 0) == 0
    assert labels.label_graph().out_hubs.size == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("directed", [False, True])
def test_no_edges(algorithm, directed):
    labels = build(Graph.from_edges([], [], num_nodes=5, directed=directed), algorithm=algorithm)
    assert [label(labels, node) for node in range(5)] == [{node: 0} for node in range(5)]
    assert labels.distance_matrix(range(5)).tolist() == (np.eye(5, dtype=int) - 1).tolist()
    assert labels.witness(0, 4) == (UNREACHABLE, None)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_nodes(algorithm):
    labels = build(Graph.from_edges([0], [1]), algorithm=algorithm, order=[0, 1])
    assert [label(labels, 0), label(labels, 1)] == [{0: 0}, {1: 0, 0: 1}]
    arrow = build(Graph.from_edges([0], [1], directed=True), algorithm=algorithm, order=[0, 1])
    assert (arrow.distance(0, 1), arrow.distance(1, 0)) == (1, UNREACHABLE)
    assert [label(arrow, 1, "in"), label(arrow, 1, "out")] == [{1: 0, 0: 1}, {1: 0}]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_components_share_nothing(algorithm):
    #   0 - 1 - 2     3 - 4 - 5
    labels = build(Graph.from_edges([0, 1, 3, 4], [1, 2, 4, 5]), algorithm=algorithm)
    matrix = labels.distance_matrix(range(6))
    assert (matrix[:3, 3:] == UNREACHABLE).all()
    assert matrix[:3, :3].tolist() == matrix[3:, 3:].tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    for node in range(6):
        assert {hub // 3 for hub in label(labels, node)} == {node // 3}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_ring_where_all_degrees_are_equal(algorithm):
    ids = np.arange(301)
    labels = build(Graph.from_edges(ids, (ids + 1) % 301), algorithm=algorithm)
    gap = np.abs(ids[:, None] - ids[None, :])
    assert np.array_equal(labels.distance_matrix(ids), np.minimum(gap, 301 - gap))


def test_self_loops_and_duplicates_change_no_label():
    clean = build(Graph.from_edges([0, 1, 2], [1, 2, 3]))
    with pytest.warns(GraphWarning, match="self-loop"):
        dirty = build(Graph.from_edges([0, 0, 1, 2, 3, 3, 3], [1, 1, 2, 3, 3, 3, 3]))
    assert packed(clean.native) == packed(dirty.native)


def test_a_complete_graph():
    u, v = np.triu_indices(2000, 1)
    labels = build(Graph.from_edges(u, v), order="degree-id")
    assert labels.num_entries == 2000 * 2001 // 2
    assert label(labels, 1999) == {1999: 0} | dict.fromkeys(range(1999), 1)
    assert labels.distance(3, 1998) == 1


def test_a_star_of_a_million():
    labels = build(Graph.from_edges(np.zeros(999_999, int), np.arange(1, 1_000_000)))
    assert labels.num_entries == 1_999_999
    assert labels.distance(17, 999_999) == 2
    assert labels.witness(17, 999_999).hub == 0
    assert len(labels.holders(0)[0]) == 1_000_000
    assert labels.nbytes < 60_000_000


def test_a_million_isolated_nodes():
    labels = build(Graph.from_edges([], [], num_nodes=1_000_000))
    assert labels.num_entries == 1_000_000
    assert labels.distance(0, 999_999) == UNREACHABLE
    assert labels.distances([5, 5], [5, 6]).tolist() == [0, UNREACHABLE]


def test_a_path_with_shuffled_ids():
    graph, place = path(20_000, seed=1)
    labels = build(graph)
    u, v = np.random.default_rng(2).integers(20_000, size=(2, 2000))
    assert np.array_equal(labels.distances(u, v), np.abs(place[u] - place[v]))


@pytest.mark.full
def test_a_long_path_with_shuffled_ids():
    graph, place = path(100_000, seed=1)
    labels = build(graph)
    u, v = np.random.default_rng(2).integers(100_000, size=(2, 2000))
    assert np.array_equal(labels.distances(u, v), np.abs(place[u] - place[v]))
    assert labels.distance(np.argmin(place), np.argmax(place)) == 99_999
    assert labels.num_entries < 100 * 100_000
    assert labels.max_distance > 65_535 // 4


@pytest.mark.full
def test_planes_followed_further_than_their_distances_fit_give_way():
    # Two bytes hold a top hub's distance. Here one block of planes reaches past 65,535.
    graph, place = path(70_000)
    order = np.concatenate([[0], np.random.default_rng(3).permutation(np.arange(1, 70_000))])
    labels = build(graph, order=order)
    assert labels.distance(0, 69_999) == 69_999
    forced = native_labels(graph, plane_hubs=1, threads=2, order=order.astype(np.uint32))
    assert packed(forced) == packed(labels.native)
    assert place[0] == 0


@pytest.mark.full
def test_a_large_grid_with_shuffled_ids():
    graph, row, column = grid(300, seed=1)
    u, v = np.random.default_rng(2).integers(90_000, size=(2, 5000))
    expected = np.abs(row[u] - row[v]) + np.abs(column[u] - column[v])
    bytes_of = []
    for algorithm in ("auto", "psl"):
        labels = build(graph, algorithm=algorithm)
        assert np.array_equal(labels.distances(u, v), expected)
        bytes_of.append(packed(labels.native))
    assert bytes_of[0] == bytes_of[1]


def test_a_grid_with_shuffled_ids():
    graph, row, column = grid(60, seed=1)
    u, v = np.random.default_rng(2).integers(3600, size=(2, 5000))
    expected = np.abs(row[u] - row[v]) + np.abs(column[u] - column[v])
    for algorithm in ALGORITHMS:
        assert np.array_equal(build(graph, algorithm=algorithm).distances(u, v), expected)


# ---- labels that cannot fit --------------------------------------------------------------------


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


def test_a_hopeless_build_is_refused_before_it_starts():
    graph, _ = path(100_000)  # ranked from one end to the other: labels are quadratic
    with pytest.raises(MemoryLimitError, match=r"about [0-9,]+ entries \(± .*limit is 300 MB"):
        build(graph, max_memory="300MB", order="degree-id")


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["auto", "pll", "psl"])
def test_a_build_that_outgrows_its_limit_stops_and_leaves_nothing(algorithm):
    graph, _ = path(100_000)
    build(path(1000)[0])  # whatever is taken once is taken
    before = resident_bytes()
    with pytest.raises(MemoryLimitError, match=r"300 MB allowed, [0-9,]{9,} entries found so far"):
        build(graph, max_memory="300MB", preflight=False, algorithm=algorithm, order="degree-id")
    assert resident_bytes() - before < 40_000_000
    assert build(path(1000)[0]).distance(0, 999) == 999


def test_a_build_that_outgrows_a_small_limit_stops():
    graph, _ = path(20_000)
    with pytest.raises(MemoryLimitError, match=r"40 MB allowed, [0-9,]{7,} entries found so far"):
        build(graph, max_memory="40MB", preflight=False, order="degree-id")
    assert build(path(1000)[0]).distance(0, 999) == 999


def test_a_limit_that_suffices_is_kept():
    graph, _ = path(20_000, seed=4)
    needed = build(graph).nbytes
    labels = build(graph, max_memory=4 * needed, threads=2)
    assert labels.nbytes == needed
    with pytest.raises(MemoryLimitError):
        build(graph, max_memory=needed // 2, preflight=False)
