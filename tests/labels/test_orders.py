"""Orders of the nodes: each against its plain definition, and on the way to predictions."""

import itertools
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dhilgt
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.errors import ConfigError, GraphWarning
from dhilgt.graph.node_ids import NodeIds, as_objects
from dhilgt.labels.orders import NUM_PIVOTS, ORDERS, node_order, tie_breakers
from dhilgt.labels.sizes import estimate
from dhilgt.settings.settings import Settings
from tests.classifier.cases import community_graph, quick
from tests.cli.cases import fails, ok
from tests.oracle import all_distances, degree_order, splitmix, tie_breaker
from tests.oracle_graphs import grid

SORTED = [name for name in ORDERS if not name.endswith("-id")]


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


def ranked(near, *keys, by_id=False):
    """Indices by rising keys, ties by falling degree, then by the hash of the id or by it."""
    ties = [v if by_id else tie_breaker(v) for v in range(len(near))]
    return sorted(
        range(len(near)), key=lambda v: (*(key[v] for key in keys), -len(near[v]), ties[v], v)
    )


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
    keys = [-len(list_) for list_ in near], [-one for one in sums]
    assert node_order(graph, "neighbor-degree").tolist() == ranked(near, *keys)
    assert node_order(graph, "neighbor-degree-id").tolist() == ranked(near, *keys, by_id=True)


@given(graph=graphs())
def test_core_is_by_core_number(graph):
    near = neighbours(graph)
    cores = plain_cores(near)
    keys = [-cores[v] for v in range(len(near))]
    assert node_order(graph, "core").tolist() == ranked(near, keys)
    assert node_order(graph, "core-id").tolist() == ranked(near, keys, by_id=True)


@given(graph=graphs())
def test_closeness_of_a_small_graph_is_by_all_distances(graph):
    near = neighbours(graph)
    assert graph.num_nodes <= NUM_PIVOTS  # so that every node is a pivot
    sums = np.sum([plain_distances(near, v) for v in range(len(near))], axis=0)
    assert node_order(graph, "closeness").tolist() == ranked(near, sums.tolist())
    assert node_order(graph, "closeness-id").tolist() == ranked(near, sums.tolist(), by_id=True)


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


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_a_ranking_and_repeats(name):
    graph = dhilgt.generate(300, 5, seed=1, directed=True)
    order = node_order(graph, name, 3)
    assert order.dtype == np.uint32
    assert np.array_equal(np.sort(order), np.arange(300))
    assert np.array_equal(order, node_order(graph, name, 3))


@pytest.mark.parametrize("name", ORDERS)
def test_seeds_count_for_drawn_orders_alone(name):
    graph = dhilgt.generate(300, 5, seed=1)
    same = np.array_equal(node_order(graph, name, 0), node_order(graph, name, 1))
    assert same == (name not in ("closeness", "closeness-id", "random"))


# ---- ties ----------------------------------------------------------------------------------------


def test_the_numbers_that_break_ties_are_fixed():
    golden = {
        0: 0xE220A839, 1: 0x910A2DEC, 2: 0x975835DE, -1: 0xE4D97177, 2**63 - 1: 0x2A67D755,
        -(2**63): 0x481EC0A2, "": 0xE220A839, "a": 0x5E025F9A, "ann": 0x381D69E3,
        "node-00": 0xA677902E, "Zürich": 0xBB34B4AF, "eight by": 0x4254302B,
        "more than eight bytes": 0xE0E50F3A, "\ud800": 0xFBCB6B9F,
    }  # fmt: skip
    assert {node: tie_breaker(node) for node in golden} == golden
    numbers = sorted(node for node in golden if isinstance(node, int))
    texts = sorted(node for node in golden if isinstance(node, str))
    for ids in (np.array(numbers), as_objects(texts)):
        found = tie_breakers(NodeIds(ids, len(ids))).tolist()
        assert dict(zip(ids.tolist(), found, strict=True)).items() <= golden.items()
    assert tie_breakers(NodeIds(None, 3)).tolist() == [golden[0], golden[1], golden[2]]


@given(st.lists(st.text(), unique=True))
def test_texts_are_hashed_word_by_word(texts):
    found = tie_breakers(NodeIds(as_objects(sorted(texts)), len(texts)))
    assert found.tolist() == [tie_breaker(text) for text in sorted(texts)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
def test_numbers_are_hashed_by_splitmix(numbers):
    found = tie_breakers(NodeIds(np.array(sorted(numbers), np.int64), len(numbers)))
    assert found.tolist() == [splitmix(number) >> 32 for number in sorted(numbers)]


@given(graph=graphs())
def test_degree_is_by_degree_then_by_the_hash_of_the_id(graph):
    near = neighbours(graph)
    assert node_order(graph, "degree").tolist() == degree_order(graph).tolist() == ranked(near)
    assert node_order(graph, "degree-id").tolist() == ranked(near, by_id=True)


@pytest.mark.parametrize("name", SORTED)
@pytest.mark.parametrize("text", [False, True])
def test_equal_nodes_go_by_their_own_ids_whatever_the_rows_and_the_other_ids(name, text):
    ends = grid(6).to_edge_index().T
    shuffled = np.random.default_rng(1).permutation(len(ends))
    names = np.array([f"at {node}" for node in range(36)]) if text else np.arange(36) * 7 - 100
    graph = made(names[ends], None)
    again = made(names[ends[shuffled, ::-1]], None)
    order = graph.ids_of(node_order(graph, name, 1)).tolist()
    assert again.ids_of(node_order(again, name, 1)).tolist() == order
    if name in ("degree", "core"):
        # A node apart that comes first moves all indices by one, and no rank.
        first = ["a"] if text else [-101]
        more = dhilgt.Graph.from_edges(*names[ends].T, nodes=first + sorted(names.tolist()))
        assert more.ids_of(node_order(more, name)).tolist() == [*order, *first]


def test_labels_of_a_grid_are_short_and_exact():
    graph = grid(100, diagonals=True)
    labels = dhilgt.HubLabels.build(graph, progress=False)
    assert labels.num_entries / labels.num_nodes < 100  # 2,482 with ties by id
    across, down = np.divmod(np.arange(10_000), 100)
    some = np.random.default_rng(1).choice(10_000, 300, replace=False)
    wide, high = (abs(axis[some][:, None] - axis[some]) for axis in (across, down))
    assert np.array_equal(labels.distance_matrix(some), np.maximum(wide, high))


@pytest.mark.parametrize("shape", ["grid", "diagonals", "names"])
def test_labels_of_small_grids_are_those_of_all_searches(shape):
    graph = grid(9, diagonals=shape == "diagonals")
    if shape == "names":
        names = np.array([f"node {node}" for node in range(81)])
        graph = made(names[graph.to_edge_index().T], None)
    labels = dhilgt.HubLabels.build(graph, progress=False)
    rows = [graph.targets[a:b].tolist() for a, b in itertools.pairwise(graph.offsets)]
    assert np.array_equal(labels.distance_matrix(graph.nodes), all_distances(rows))


# ---- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, *ORDERS, "given"])
def test_saved_labels_say_which_order_they_have(tmp_path, order):
    graph = grid(3)
    chosen = [4, 0, 1, 2, 3, 5, 6, 7, 8] if order == "given" else order
    labels = dhilgt.HubLabels.build(graph, order=chosen, progress=False)
    labels.save(tmp_path / "labels")
    read = dhilgt.HubLabels.load(tmp_path / "labels")
    assert labels.order_name == read.order_name == (order or "degree")
    facts = json.loads(ok("inspect", tmp_path / "labels", "--json").stdout)
    assert facts["order"] == (order or "degree")
    assert read.fingerprint == labels.fingerprint


def test_the_cache_keeps_graphs_apart_whose_ids_alone_differ(tmp_path):
    cache, plain = Cache(tmp_path), grid(6)
    names = np.array([f"{node:02}" for node in range(36)])
    named = made(names[plain.to_edge_index().T], None)
    assert named.fingerprint == plain.fingerprint
    for name in ("degree", "degree-id"):
        for graph in (plain, named):
            expected = dhilgt.HubLabels.build(graph, order=name, progress=False)
            actual = cache.labels(graph, name, progress=False)
            assert actual.order.tolist() == expected.order.tolist()
    assert len(cache.entries()) == 3  # ties by id are the same for both


@pytest.mark.parametrize("name", ORDERS)
def test_labels_of_every_order_tell_the_same_distances(name):
    graph = dhilgt.generate(120, 4, seed=2)
    plain = dhilgt.HubLabels.build(graph, progress=False)
    labels = dhilgt.HubLabels.build(graph, order=name, seed=1, progress=False)
    order = node_order(graph, name, 1)
    assert labels.order.tolist() == order.tolist()
    assert (labels.fingerprint == plain.fingerprint) == (name == "degree")
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
    assert len(cache.entries()) == 6 + 3 * 2


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
