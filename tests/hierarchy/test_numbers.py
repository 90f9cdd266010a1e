"""Numbers of a graph and its label graph, against slow and obvious versions."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, HubLabels, datasets, generate, hierarchy_numbers
from dhilgt.hierarchy import numbers
from dhilgt.hierarchy.edges import label_edges, raw_pairs, sampled_edges


@st.composite
def classed_graphs(draw):
    count = draw(st.integers(2, 14))
    possible = list(itertools.combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=40, unique=True))
    classes = draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count))
    return count, np.array(chosen), np.array(classes)


def as_networkx(count, pairs):
    graph = nx.empty_graph(count)
    graph.add_edges_from(pairs.tolist())
    return graph


@given(classed_graphs())
@settings(deadline=None)
def test_homophily_counts_edges_with_known_ends(case):
    _, pairs, classes = case
    ends = [(classes[u], classes[v]) for u, v in pairs if classes[u] >= 0 and classes[v] >= 0]
    expected = sum(a == b for a, b in ends) / len(ends) if ends else None
    assert numbers.homophily(pairs, classes) == pytest.approx(expected)


@given(classed_graphs())
@settings(deadline=None)
def test_modularity_is_that_of_networkx_on_the_nodes_with_a_class(case):
    count, pairs, classes = case
    known = [node for node in range(count) if classes[node] >= 0]
    graph = as_networkx(count, pairs).subgraph(known)
    result = numbers.modularity(pairs, classes)
    if graph.number_of_edges() == 0:
        assert result is None
        return
    parts = [{node for node in known if classes[node] == one} for one in set(classes[known])]
    assert result == pytest.approx(nx.community.modularity(graph, parts))


@given(classed_graphs(), st.sampled_from([1, 5, 20_000_000]))
@settings(max_examples=60, deadline=None)
def test_triangles_and_clustering_are_those_of_networkx(case, at_once):
    count, pairs, _ = case
    graph = as_networkx(count, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "_STEPS_AT_ONCE", at_once)  # many blocks, or one
        assert numbers.triangles(pairs, count).tolist() == list(nx.triangles(graph).values())
        result = numbers.average_clustering(pairs, count)
    assert result == pytest.approx(nx.average_clustering(graph))


def test_clustering_of_a_graph_without_edges_is_zero():
    none = np.empty((0, 2), np.int64)
    assert numbers.average_clustering(none, 3) == 0.0
    assert numbers.average_clustering(none, 0) == 0.0
    assert numbers.homophily(none, np.array([0, 0, 1])) is None


@pytest.mark.parametrize("directed", [False, True])
def test_edges_of_both_graphs_are_pairs_listed_once(directed):
    graph = generate(200, 6, seed=3)
    graph = Graph.from_edge_index(graph.to_edge_index(), num_nodes=200, directed=directed)
    labels = HubLabels.build(graph, progress=False)
    raw, label = raw_pairs(graph), label_edges(labels.label_graph())
    for pairs in (raw, label.pairs):
        assert (pairs[:, 0] != pairs[:, 1]).all()
        assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs)
    for (node, hub), distance in zip(label.pairs[:50].tolist(), label.distances, strict=False):
        assert labels.distance(node, hub) == distance
        assert labels.ranks[hub] < labels.ranks[node]


def test_label_graph_keeps_every_edge_and_its_near_edges_are_the_edges():
    graph = generate(300, 6, seed=1, num_classes=3)
    result = hierarchy_numbers(graph, name="mine")
    assert result.kept == 1.0
    assert result.distances[0].distance == 1
    assert result.distances[0].edges == result.raw.edges == graph.num_edges // 2
    assert result.distances[0].homophily == result.raw.homophily
    assert sum(one.edges for one in result.distances) == result.label.edges
    assert sum(one.share for one in result.distances) == pytest.approx(1)
    assert result.raw.homophily == pytest.approx(datasets.statistics(graph).homophily)
    assert result.raw.modularity == pytest.approx(result.raw.homophily - result.raw.chance)
    assert result.label.average_degree == pytest.approx(2 * result.label.edges / 300)
    assert result.to_dict()["name"] == "mine"


def test_numbers_of_a_graph_without_classes_leave_them_out():
    result = hierarchy_numbers(Graph.from_edges([0, 1], [1, 2])).to_dict()
    assert result["raw"]["homophily"] is result["label"]["modularity"] is None
    assert result["distances"][0]["homophily"] is None
    assert result["raw"]["edges"] == 2


def test_too_many_edges_become_a_uniform_sample_by_seed():
    pairs = np.stack([np.arange(1000), np.arange(1000) + 1], axis=1)
    assert sampled_edges(pairs, 1000, 0).tolist() == pairs.tolist()
    few = sampled_edges(pairs, 100, 0)
    assert len(set(few[:, 0].tolist())) == 100
    assert few.tolist() == sorted(few.tolist())
    assert few.tolist() == sampled_edges(pairs, 100, 0).tolist()
    assert few.tolist() != sampled_edges(pairs, 100, 1).tolist()
    times = np.zeros(1000)
    for seed in range(300):
        times[sampled_edges(pairs, 100, seed)[:, 0]] += 1
    assert abs(times[:500].mean() - times[500:].mean()) < 1.5  # 30 each, give or take
    assert times.min() > 5
