"""What labels tell: distances, hubs, holders, the label graph, in the user's ids."""

import numpy as np
import pytest

from dhilgt import UNREACHABLE, Graph, GraphError, HubLabels, Witness, estimate, generate
from tests.labels.cases import build, label, path, random_graph, rows_of
from tests.oracle import FAR, all_distances, best_on_paths

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


def wanted_distances(graph):
    actual = all_distances(rows_of(graph))
    return np.where(actual == FAR, UNREACHABLE, actual)


# ---- distances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("mmap", [None, True, False], ids=["built", "mapped", "loaded"])
def test_all_pairs_are_exact(directed, mmap, tmp_path):
    for seed in range(60 if mmap is None else 12):
        graph = random_graph(seed, most_nodes=40, directed=directed)
        labels = build(graph)
        if mmap is not None:
            labels.save(tmp_path / "labels", overwrite=True)
            labels = HubLabels.load(tmp_path / "labels", mmap=mmap)
        n = graph.num_nodes
        expected = wanted_distances(graph)
        u, v = np.divmod(np.arange(n * n), n)
        assert np.array_equal(labels.distance_matrix(range(n)), expected), f"seed {seed}"
        for threads in (1, 3):
            assert np.array_equal(labels.distances(u, v, threads=threads), expected[u, v])
        assert [labels.distance(0, target) for target in range(n)] == expected[0].tolist()


def test_direction_matters():
    #   0 -> 1 -> 2 -> 0      3 -> 0
    labels = build(Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0], directed=True))
    assert (labels.distance(0, 2), labels.distance(2, 0)) == (2, 1)
    assert (labels.distance(3, 2), labels.distance(2, 3)) == (3, UNREACHABLE)
    assert labels.directed
    assert "directed" in repr(labels)


@pytest.mark.parametrize("algorithm", ["auto", "pll", "planes", "psl"])
def test_distances_above_255_are_exact(algorithm):
    graph, place = path(600)
    labels = build(graph, algorithm=algorithm, order="degree-id")
    expected = np.abs(place[:, None] - place[None, :])
    assert np.array_equal(labels.distance_matrix(range(600)), expected)
    assert labels.max_distance == 598  # the ends have degree 1, all others rank better
    assert labels.distance(0, 599) == 599


@pytest.mark.parametrize("directed", [False, True])
def test_the_witness_is_the_best_ranked_node_on_a_shortest_path(directed):
    for seed in range(60):
        graph = random_graph(seed, directed=directed)
        labels = build(graph)
        n, rank = graph.num_nodes, np.argsort(labels.order)
        expected = wanted_distances(graph)
        best = best_on_paths(all_distances(rows_of(graph)), rank)
        u, v = np.divmod(np.arange(n * n), n)
        actual, hubs = labels.witnesses(u, v)
        for i in range(n * n):
            hub = labels.order[best[u[i], v[i]]] if expected[u[i], v[i]] >= 0 else None
            assert (
                labels.witness(u[i], v[i])
                == Witness(expected[u[i], v[i]], hub)
                == (actual[i], hubs[i])
            )


def test_pairs_come_back_in_the_order_asked():
    labels = build(Graph.from_edges([0, 1], [1, 2]))
    assert labels.distances([2, 0, 2, 1], [0, 0, 1, 2]).tolist() == [2, 0, 1, 1]
    assert labels.distances([], []).tolist() == []
    assert labels.distances(0, 2).tolist() == [2]
    assert labels.distance_matrix([2, 0]).tolist() == [[0, 2], [2, 0]]
    assert labels.distance_matrix([]).shape == (0, 0)
    assert labels.distance_matrix([1, 1]).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        labels.distances([0, 1], [2])


# ---- the label graph ---------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("side", ["in", "out"])
def test_holders_are_hubs_turned_around(directed, side):
    for seed in range(60):
        graph = random_graph(seed, directed=directed)
        labels = build(graph)
        hubs, holders = set(), set()
        for node in range(graph.num_nodes):
            ids, distances = labels.hubs(node, side=side)
            assert (ids[0], distances[0]) == (node, 0)
            assert (np.diff(distances) >= 0).all()
            hubs |= {(node, *entry) for entry in zip(ids.tolist(), distances.tolist(), strict=True)}
            ids, distances = labels.holders(node, side=side)
            assert (ids[0], distances[0]) == (node, 0)
            assert (np.diff(distances) >= 0).all()
            holders |= {(v, node, d) for v, d in zip(ids.tolist(), distances.tolist(), strict=True)}
        assert hubs == holders, f"seed {seed}"


@pytest.mark.parametrize("directed", [False, True])
def test_the_label_graph_has_no_self_entries_and_in_is_out_transposed(directed):
    graph = generate(800, 4, seed=3, directed=directed)
    labels = build(graph)
    actual = labels.label_graph()
    tails = np.repeat(np.arange(800), np.diff(actual.out_offsets))
    heads = np.repeat(np.arange(800), np.diff(actual.in_offsets))
    out = set(
        zip(tails.tolist(), actual.out_hubs.tolist(), actual.out_distances.tolist(), strict=True)
    )
    into = set(
        zip(actual.in_holders.tolist(), heads.tolist(), actual.in_distances.tolist(), strict=True)
    )
    assert out == into
    assert len(out) == len(actual.out_hubs) == len(actual.in_holders)
    assert all(v != hub for v, hub, _ in out)
    for node in (0, 17, 799):
        assert {(node, h, d) for h, d in label(labels, node).items() if h != node} == {
            entry for entry in out if entry[0] == node
        }
    if not directed:
        assert len(out) == labels.num_entries - 800


def test_counts_and_histogram_agree():
    for directed in (False, True):
        labels = build(generate(1000, 5, seed=4, directed=directed))
        histogram = labels.distance_histogram()
        assert histogram.sum() == labels.num_entries
        assert histogram[0] == 1000 * (2 if directed else 1)
        assert len(histogram) == labels.max_distance + 1
        assert labels.nbytes >= 4 * labels.num_entries


# ---- ids and order -----------------------------------------------------------------------------


def test_answers_are_in_the_users_ids():
    graph = Graph.from_edges(["ann", "bob", "cid"], ["bob", "cid", "zoé"])
    labels = build(graph)
    assert repr(labels) == "HubLabels(nodes=4, entries=8, 2.0 per node, longest distance 2)"
    assert labels.witness("ann", "zoé") == Witness(3, "cid")
    assert label(labels, "ann") == {"ann": 0, "bob": 1, "cid": 2}
    assert labels.holders("cid")[0].tolist() == ["cid", "bob", "zoé", "ann"]
    assert labels.distance_matrix(["zoé", "ann"]).tolist() == [[0, 3], [3, 0]]
    far = build(Graph.from_edges([-5, 2**60], [2**60, 7]))
    assert far.witness(-5, 7) == Witness(2, 2**60)
    assert type(far.witness(-5, 7).hub) is int


def test_an_unknown_id_is_named():
    labels = build(Graph.from_edges(["ann", "bob"], ["bob", "cid"]))
    for ask in (
        lambda: labels.distance("ann", "bobb"),
        lambda: labels.hubs("bobb"),
        lambda: labels.holders("bobb"),
        lambda: labels.distances(["ann"], ["bobb"]),
        lambda: labels.distance_matrix(["ann", "bobb"]),
    ):
        with pytest.raises(GraphError, match="bobb"):
            ask()
    numbers = build(Graph.from_edges([0, 1], [1, 2]))
    for bad in (3, -1, 2**40):
        with pytest.raises(GraphError, match=str(bad)):
            numbers.distance(0, bad)
    with pytest.raises(ValueError, match='pass one of "in", "out"'):
        numbers.hubs(0, side="both")


def test_ties_go_by_ascending_id_where_that_is_asked_for():
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=6)
    labels = build(graph, order="degree-id")
    assert labels.order.tolist() == [0, 1, 2, 3, 4, 5]
    arrows = Graph.from_edges([3, 2, 1], [0, 0, 2], directed=True)
    directed = build(arrows, order="degree-id")
    assert directed.order.tolist() == [0, 2, 1, 3]  # degrees, both ways: 2 1 2 1


def test_order_takes_any_permutation_of_the_ids():
    graph = Graph.from_edges(["a", "b"], ["b", "c"])
    worst = build(graph, order=["c", "a", "b"])
    assert worst.order.tolist() == [2, 0, 1]
    assert label(worst, "b") == {"b": 0, "a": 1, "c": 1}
    assert label(worst, "a") == {"a": 0, "c": 2}
    assert worst.fingerprint != build(graph).fingerprint
    assert worst.graph_fingerprint == build(graph).graph_fingerprint


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1], "order lists 2 nodes, the graph has 3"),
        ([0, 1, 2, 2], "order lists 4 nodes, the graph has 3"),
        ([0, 1, 1], "order lists node 1 2 times"),
        ([0, 1, 3], "3"),
        ([], "order lists 0 nodes"),
        (["a", "b", "c"], "'a'"),
        (1, "order lists 1 nodes, the graph has 3"),
    ],
)
def test_what_is_no_order_is_refused(order, message):
    with pytest.raises(GraphError, match=message):
        build(Graph.from_edges([0, 1], [1, 2]), order=order)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "dijkstra"}, 'dijkstra.; pass one of "auto", "pll", "planes", "psl"'),
        ({"threads": 0}, "threads"),
        ({"threads": -1}, "threads"),
        ({"max_memory": "lots"}, "'lots' is not a size"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build(Graph.from_edges([0], [1]), **options)


# ---- the estimate ------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_an_estimate_from_all_nodes_is_exact(directed):
    graph = generate(700, 5, seed=5, directed=directed)
    actual = estimate(graph, num_probes=700)
    assert actual.num_entries == build(graph).num_entries
    assert (actual.num_probes, actual.relative_error) == (700, 0.0)


def test_an_estimate_is_within_its_stated_error():
    graph = generate(20_000, 6, seed=6, num_features=0)
    labels = build(graph)
    for seed in range(5):
        actual = estimate(graph, seed=seed)
        assert actual.num_probes == 64
        assert 0 < actual.relative_error < 0.5
        off = abs(actual.num_entries - labels.num_entries) / labels.num_entries
        assert off < 4 * actual.relative_error
        assert actual.num_bytes == pytest.approx(labels.nbytes, rel=4 * actual.relative_error + 0.3)
        assert "entries (±" in str(actual)


def test_an_estimate_follows_the_order():
    graph, _ = path(2000)
    order = np.arange(2000, dtype=np.uint32)
    assert estimate(graph, order=order, num_probes=2000).num_entries == 2000 * 2001 // 2
