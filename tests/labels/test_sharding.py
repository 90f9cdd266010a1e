"""Labels in parts are the labels, byte for byte."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, HubLabels, generate
from dhilgt.labels.sharding import build_sharded
from tests.labels.cases import build, path, random_graph

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def same_as_plain(graph, folder, *, order=None, **options):
    labels = build_sharded(graph, folder / "parts", order=order, **options)
    assert labels.is_sharded
    assert [file.name for file in folder.iterdir()] == ["parts"]  # nothing is left beside it
    labels.gather().save(folder / "gathered")
    plain = build(graph, order=order)
    plain.save(folder / "plain")
    assert bytes_of(folder / "gathered") == bytes_of(folder / "plain")
    assert labels.fingerprint == plain.fingerprint
    return labels, plain


CASES = {
    "one node": Graph.from_edges([], [], num_nodes=1),
    "isolated nodes": Graph.from_edges([0, 5], [3, 3], num_nodes=9),
    "names": Graph.from_edges(["ann", "bob", "cid"], ["bob", "cid", "dan"]),
    "long path": path(700, seed=1)[0],
    "directed": generate(600, 5, seed=3, num_features=0, directed=True),
    "undirected": generate(1500, 8, seed=4, num_features=0),
}


@pytest.mark.parametrize("num_ranges", [1, 3, 12])  # the first three have fewer nodes than 12
@pytest.mark.parametrize("name", CASES)
def test_gathered_parts_have_the_bytes_of_the_plain_labels(name, num_ranges, tmp_path):
    same_as_plain(CASES[name], tmp_path, num_ranges=num_ranges)


@given(seed=st.integers(0, 2**32 - 1), num_ranges=st.integers(1, 20))
@settings(max_examples=15, deadline=None)
def test_any_graph(seed, num_ranges, tmp_path_factory):
    same_as_plain(random_graph(seed), tmp_path_factory.mktemp("any"), num_ranges=num_ranges)


@pytest.mark.parametrize("directed", [False, True])
def test_labels_in_parts_answer_as_the_plain_ones(directed, tmp_path):
    graph = generate(300, 4, seed=2, num_features=0, directed=directed)
    labels, plain = same_as_plain(graph, tmp_path, num_ranges=7)
    nodes = np.arange(0, 300, 7)
    assert np.array_equal(labels.distance_matrix(nodes), plain.distance_matrix(nodes))
    assert labels.witness(1, 17) == plain.witness(1, 17)
    assert np.array_equal(labels.distance_histogram(), plain.distance_histogram())
    for side in ("in", "out"):
        for node in (0, 5, 299):
            for ask in (HubLabels.hubs, HubLabels.holders):
                for actual, expected in zip(
                    ask(labels, node, side=side), ask(plain, node, side=side), strict=True
                ):
                    assert np.array_equal(actual, expected)
    for actual, expected in zip(labels.label_graph(), plain.label_graph(), strict=True):
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize("directed", [False, True])
def test_packed_rows_of_any_ranks(directed, tmp_path):
    graph = generate(300, 4, seed=2, num_features=0, directed=directed)
    labels, plain = same_as_plain(graph, tmp_path, num_ranges=7)
    ranks = np.array([299, 0, 17, 17, 43, 120])
    natives = {"packed_rows": plain.native, "packed_holders": plain._transposed()}
    for number, side in enumerate(("in", "out")):
        for name, native in natives.items():
            offsets, records = native.pack(number, 1)
            rows = getattr(labels, name)(ranks, side)
            for i, rank in enumerate(ranks.tolist()):
                actual = rows.records[rows.offsets[i] : rows.offsets[i + 1]]
                assert np.array_equal(actual, records[offsets[rank] : offsets[rank + 1]])
