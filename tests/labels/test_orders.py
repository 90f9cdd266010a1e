"""Orders of the nodes: each against its plain definition, and on the way to predictions."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dhilgt
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.errors import ConfigError, GraphWarning
from dhilgt.labels.build import estimate
from dhilgt.labels.orders import NUM_PIVOTS, ORDERS, node_order
from dhilgt.settings.settings import Settings
from tests.classifier.cases import community_graph, quick
from tests.cli.cases import fails, ok

NEW = [name for name in ORDERS if name != "degree"]


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 24))
    node = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(node, node).filter(lambda p: p[0] != p[1]), max_size=60))
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return made(ends, count, draw(st.booleans()))


def made(ends, count, directed=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # edges named twice
        return dhilgt.Graph.from_edges(*ends.T, num_nodes=count, directed=directed)


def neighbours(graph):
    """Of each node, those at either end of its edges; on a directed graph, one per arc."""
    lists = [[] for _ in range(graph.num_nodes)]
    for u, v in graph.to_edge_index().T.tolist():
        lists[u].append(v)
        if graph.directed:
            lists[v].append(u)
    return lists


def ranked(near, *keys):
    """Indices by ascending keys, ties by falling degree, then by index."""
    return sorted(range(len(near)), key=lambda v: (*(key[v] for key in keys), -len(near[v]), v))


def plain_cores(near):
    left = {v: len(list_) for v, list_ in enumerate(near)}
    cores, level = {}, 0
    while left:
        v = min(left, key=lambda one: (left[one], one))
        level = max(level, left.pop(v))
        cores[v] = level
        for u in near[v]:
            if u in left:
                left[u] -= 1
    return cores


def plain_distances(near, start):
    actual, front = {start: 0}, [start]
    for v in front:  # grows while it is walked
        for u in near[v]:
            if u not in actual:
                actual[u] = actual[v] + 1
                front.append(u)
    return [actual.get(v, len(near)) for v in range(len(near))]


@given(graph=graphs())
def test_neighbor_degree_breaks_the_ties_of_degree(graph):
    near = neighbours(graph)
    sums = [sum(len(near[u]) for u in list_) for list_ in near]
    expected = ranked(near, [-len(list_) for list_ in near], [-one for one in sums])
    assert node_order(graph, "neighbor-degree").tolist() == expected


@given(graph=graphs())
def test_core_is_by_core_number(graph):
    near = neighbours(graph)
    cores = plain_cores(near)
    assert node_order(graph, "core").tolist() == ranked(near, [-cores[v] for v in range(len(near))])


@given(graph=graphs())
def test_closeness_of_a_small_graph_is_by_all_distances(graph):
    near = neighbours(graph)
    assert graph.num_nodes <= NUM_PIVOTS  # so that every node is a pivot
    sums = np.sum([plain_distances(near, v) for v in range(len(near))], axis=0)
    assert node_order(graph, "closeness").tolist() == ranked(near, sums.tolist())


def test_closeness_of_a_large_graph_is_by_some_distances():
    graph = dhilgt.generate(400, 4, seed=1)
    near = neighbours(graph)
    pivots = np.random.default_rng(5).choice(400, NUM_PIVOTS, replace=False)
    sums = np.sum([plain_distances(near, int(v)) for v in pivots], axis=0)
    assert node_order(graph, "closeness", 5).tolist() == ranked(near, sums.tolist())


def test_a_long_path_has_its_middle_first():
    ends = np.stack([np.arange(2000), np.arange(1, 2001)], axis=1)
    order = node_order(made(ends, 2001), "closeness")
    assert abs(int(order[0]) - 1000) < 300
    assert order[-1] in (0, 2000)


@pytest.mark.parametrize("name", NEW)
def test_an_order_is_a_ranking_and_repeats(name):
    graph = dhilgt.generate(300, 5, seed=1, directed=True)
    order = node_order(graph, name, 3)
    assert order.dtype == np.uint32
    assert np.array_equal(np.sort(order), np.arange(300))
    assert np.array_equal(order, node_order(graph, name, 3))


@pytest.mark.parametrize("name", NEW)
def test_seeds_count_for_drawn_orders_alone(name):
    graph = dhilgt.generate(300, 5, seed=1)
    same = np.array_equal(node_order(graph, name, 0), node_order(graph, name, 1))
    assert same == (name in ("neighbor-degree", "core"))


# ---- labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORDERS)
def test_labels_of_every_order_tell_the_same_distances(name):
    graph = dhilgt.generate(120, 4, seed=2)
    plain = dhilgt.HubLabels.build(graph, progress=False)
    labels = dhilgt.HubLabels.build(graph, order=name, seed=1, progress=False)
    order = node_order(graph, name, 1)
    if order is None:
        assert labels.fingerprint == plain.fingerprint
    else:
        assert labels.order.tolist() == order.tolist()
        assert estimate(graph, order=order, num_probes=120).num_entries == labels.num_entries
    nodes = np.arange(120)
    assert np.array_equal(labels.distance_matrix(nodes), plain.distance_matrix(nodes))


def test_an_order_that_is_none_is_refused():
    graph = dhilgt.Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="order = 'size'; pass one of \"degree\", "):
        dhilgt.HubLabels.build(graph, order="size")
    with pytest.raises(ConfigError, match="order = 'size'; pass one of \"degree\", "):
        Settings(order="size")


def test_the_cache_keeps_orders_apart_and_drawn_ones_by_seed(tmp_path):
    cache, graph = Cache(tmp_path), dhilgt.generate(100, 4, seed=1)
    for name in ORDERS:
        for seed in (0, 1):
            expected = dhilgt.HubLabels.build(graph, order=name, seed=seed, progress=False)
            actual = cache.labels(graph, name, seed=seed, progress=False)
            assert actual.fingerprint == expected.fingerprint, (name, seed)
    assert len(cache.entries()) == 3 + 2 * 2


@pytest.mark.parametrize("cached", [False, True])
def test_a_pipeline_takes_the_order_of_its_settings(tmp_path, cached):
    graph = community_graph()
    settings = Settings(size=6, order="random", seed=4)
    pipeline = Pipeline(graph, settings, cache=Cache(tmp_path) if cached else None, progress=False)
    assert pipeline.labels.order.tolist() == node_order(graph, "random", 4).tolist()


def test_a_classifier_of_another_order_is_saved_and_predicts_the_same(tmp_path):
    clf = quick(order="closeness", cache=False).fit(community_graph())
    clf.save(tmp_path / "run")
    read = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.hub_labels_.order, clf.hub_labels_.order)
    assert np.array_equal(read.predict_proba(), clf.predict_proba())


def test_a_search_draws_rows_from_the_labels_of_each_trials_order():
    from dhilgt.tune.objective import GraphSource, Objective

    graph = community_graph()
    objective = Objective(GraphSource(graph), [0], cache=None)
    rows = {}
    for order in ("degree", "random", "degree"):
        settings = Settings(size=6, hidden_channels=8, num_layers=1, epochs=1, order=order)
        assert len(objective(settings).scores) == 1
        actual = objective._tokens[0][1].rows(np.arange(90)).ids
        labels = dhilgt.HubLabels.build(graph, order=order, progress=False)
        expected = dhilgt.TokenSampler(labels, size=6, progress=False).rows(np.arange(90)).ids
        assert np.array_equal(actual, expected), order
        rows[order] = actual
    assert not np.array_equal(rows["degree"], rows["random"])


# ---- the command -------------------------------------------------------------------------------


def test_the_command_takes_an_order_by_name(tmp_path):
    graph = dhilgt.generate(80, 4, seed=1)
    edges = tmp_path / "edges.csv"
    np.savetxt(edges, graph.to_edge_index().T, fmt="%d", delimiter=",")
    for name in ORDERS:
        out = tmp_path / name
        ok("label", edges, "-o", out, "--num-nodes", 80, "--order", name, "--seed", 2)
        expected = dhilgt.HubLabels.build(graph, order=name, seed=2, progress=False)
        assert dhilgt.HubLabels.load(out).fingerprint == expected.fingerprint
    assert "did you mean 'closeness'?" in fails("label", edges, "--estimate", "--order", "closenes")
