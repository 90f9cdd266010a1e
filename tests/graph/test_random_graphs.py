"""The embedded generator makes what it was asked for."""

import networkx as nx
import numpy as np
import pytest

from dhilgt import GraphError, generate


def homophily(graph):
    u, v = graph.to_edge_index()
    return float((graph.labels[u] == graph.labels[v]).mean())


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("asked", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("average_degree", [4, 25])
def test_degree_and_homophily_are_met(average_degree, asked, directed):
    graph = generate(5000, average_degree, homophily=asked, seed=3, directed=directed)
    assert graph.num_nodes == 5000
    assert graph.directed == directed
    assert graph.num_edges / 5000 == pytest.approx(average_degree, rel=0.03)
    assert homophily(graph) == pytest.approx(asked, abs=0.03)
    assert (graph.cleaning.self_loops, graph.cleaning.duplicates) == (0, 0)


def test_a_seed_gives_one_graph():
    one, same, other = (generate(2000, 6, seed=seed) for seed in (1, 1, 2))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert np.array_equal(one.features, same.features)
    assert np.array_equal(one.labels, same.labels)


def test_the_stream_is_pinned():
    # Changes only when the model changes on purpose: benchmarks name graphs by their seed.
    graph = generate(1000, 8, seed=0)
    assert graph.fingerprint.startswith("2b72de290c61afdc")
    assert graph.features[0, 0] == pytest.approx(0, abs=3)


@pytest.mark.parametrize("power", [2.2, 2.5, 3.0])
def test_degrees_have_a_power_law_tail(power):
    graph = generate(50_000, 10, power=power, num_features=0, seed=5)
    degrees = np.sort(graph.degrees)[::-1].astype(float)
    tail = degrees[:500]
    hill = 1 + 1 / np.mean(np.log(tail / tail[-1]))
    assert hill == pytest.approx(power, abs=0.35)
    assert degrees[0] > 20 * degrees.mean()


def test_light_nodes_may_be_isolated_and_ids_say_nothing_about_degree():
    graph = generate(20_000, 4, seed=2)
    assert 0 < (graph.degrees == 0).mean() < 0.5
    assert abs(np.corrcoef(np.log1p(graph.degrees), np.arange(20_000))[0, 1]) < 0.05
    assert abs(np.corrcoef(graph.labels, np.arange(20_000))[0, 1]) < 0.05


def test_communities_are_denser_than_classes():
    nested = generate(3000, 10, num_communities=60, seed=4).to_networkx()
    flat = generate(3000, 10, num_communities=5, seed=4).to_networkx()
    assert nx.average_clustering(nested) > 1.5 * nx.average_clustering(flat)


def test_features_tell_the_classes_apart():
    graph = generate(5000, 5, num_classes=4, num_features=16, feature_noise=0.5, seed=6)
    assert graph.features.dtype == np.float32
    assert graph.features.shape == (5000, 16)
    centres = np.stack([graph.features[graph.labels == c].mean(0) for c in range(4)])
    spread = graph.features - centres[graph.labels]
    assert spread.std() == pytest.approx(0.5, rel=0.05)
    nearest = ((graph.features[:, None] - centres) ** 2).sum(-1).argmin(1)
    assert (nearest == graph.labels).mean() > 0.95
    assert np.bincount(graph.labels).min() > 500


def test_small_ones():
    assert generate(1, 0, num_classes=1).num_edges == 0
    assert generate(10, 2, num_classes=2).num_edges == 20
    assert generate(30, 3, num_features=0).features is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_nodes": 0}, "no nodes"),
        ({"average_degree": -1}, "average_degree=-1; pass at least 0"),
        ({"average_degree": 99}, "lower average_degree"),
        ({"homophily": 1.5}, "homophily=1.5; pass 0 to 1"),
        ({"power": 2}, "power=2; pass above 2"),
        ({"num_classes": 0}, "num_classes=0; pass 1 to num_nodes = 100"),
        ({"num_communities": 2}, "num_communities=2; pass num_classes = 5"),
        ({"num_classes": 1}, "only 0 such pairs"),
        ({"seed": -1}, "seed=-1; pass at least 0"),
    ],
)
def test_impossible_wishes(options, message):
    with pytest.raises(GraphError, match=message):
        generate(**{"num_nodes": 100, "average_degree": 4, **options})
