"""Rows of what a node is connected to, against their definition by search and by counting paths."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt.features import ego_rows as rows_module
from dhilgt.features.ego_rows import ego_rows
from dhilgt.features.ego_vocabulary import EgoVocabulary
from dhilgt.graph.graph import Graph
from dhilgt.labels.grow import quick_labels
from dhilgt.labels.hub_labels import HubLabels
from tests import oracle

CLASSES = 3
ALL = {"neighbors": True, "hubs": True, "num_classes": CLASSES}


@st.composite
def graphs(draw):
    """A graph with a few nodes, and the class of each, -1 for those not in training."""
    count = draw(st.integers(2, 12))
    node = st.integers(0, count - 1)
    pair = st.tuples(node, node).filter(lambda ends: ends[0] != ends[1])
    edges = draw(st.lists(pair, max_size=30, unique=True))
    known = draw(st.lists(st.integers(-1, CLASSES - 1), min_size=count, max_size=count))
    src, dst = np.array(edges, np.int64).reshape(-1, 2).T
    graph = Graph.from_edges(src, dst, num_nodes=count, directed=draw(st.booleans()))
    return graph, np.array(known)


def made(graph, known=None, **changes):
    labels = HubLabels.build(graph, progress=False, threads=1)
    vocabulary = EgoVocabulary.of(graph, labels, **{**ALL, **changes})
    known = np.full(graph.num_nodes, -1) if known is None else known
    return vocabulary, ego_rows(vocabulary, graph, labels, known)


def named_rows(vocabulary, rows, node):
    """{group: {(kind, index of the node or class): value}} of one node."""
    names = [("neighbor", at) for at in vocabulary.neighbors]
    names += [("hub", at) for at in vocabulary.hubs]
    names += [("class", at) for at in range(vocabulary.num_classes)]
    first = node * len(vocabulary.groups)
    found = {}
    for at, group in enumerate(vocabulary.groups, start=first):
        entries = slice(*rows.indptr[at : at + 2].tolist())
        columns, values = rows.indices[entries].tolist(), rows.data[entries].tolist()
        found[group] = {names[column]: v for column, v in zip(columns, values, strict=True)}
    return found


def expected_rows(graph, known):
    """The same of all nodes by the definition: labels by search, paths one by one."""
    out = oracle.rows_of(graph.offsets, graph.targets)
    back = oracle.rows_of(graph.in_offsets, graph.in_targets)
    reached, reaching = oracle.canonical_labels(out, HubLabels.build(graph, progress=False).order)
    sides = [("", out, reached)]
    if graph.directed:
        sides = [(" out", out, reached), (" in", back, reaching)]
    joined = [sorted({*out[at], *back[at]}) for at in range(graph.num_nodes)]
    for node in range(graph.num_nodes):
        found = {}
        for side, rows, _ in sides:
            found[f"neighbors{side}"] = _even([("neighbor", other) for other in rows[node]])
        for side, _, labels in sides:
            for away in (1, 2, 3, 4):
                near = [("hub", hub) for hub, distance in labels[node].items() if distance == away]
                found[f"hubs at distance {away}{side}"] = _even(near)
        ends = [joined[node], [end for near in joined[node] for end in joined[near] if end != node]]
        for steps, others in enumerate(ends, start=1):
            seen = [known[other] for other in others if known[other] >= 0]
            parts = {("class", one): seen.count(one) / len(seen) for one in sorted({*seen})}
            found[f"classes at {steps}"] = parts
        yield found


def _even(entries):
    return {entry: 1 / np.sqrt(len(entries)) for entry in entries}


@settings(deadline=None, max_examples=40)
@given(graphs())
def test_rows_are_what_their_definition_says(drawn):
    graph, known = drawn
    vocabulary, rows = made(graph, known)
    assert rows.shape == (graph.num_nodes * len(vocabulary.groups), vocabulary.num_channels)
    assert rows.dtype == np.float32
    assert rows.has_canonical_format
    for node, expected in enumerate(expected_rows(graph, known)):
        found = named_rows(vocabulary, rows, node)
        assert list(found) == list(expected)
        for group in expected:
            assert found[group] == pytest.approx(expected[group]), (node, group)


@settings(deadline=None, max_examples=40)
@given(graphs(), st.integers(0, 11), st.integers(-1, CLASSES - 1))
def test_the_class_of_a_node_changes_nothing_in_its_own_rows(drawn, node, other):
    graph, known = drawn
    node %= graph.num_nodes
    vocabulary, rows = made(graph, known)
    changed = known.copy()
    changed[node] = other
    anew = made(graph, changed)[1]
    groups = len(vocabulary.groups)
    own = slice(node * groups, (node + 1) * groups)
    assert (rows[own] != anew[own]).nnz == 0


@settings(deadline=None, max_examples=40)
@given(graphs())
def test_fractions_of_classes_sum_to_one_or_there_are_none(drawn):
    graph, known = drawn
    vocabulary, rows = made(graph, known)
    at = [place for place, name in enumerate(vocabulary.groups) if name.startswith("classes")]
    sums = rows.sum(axis=1).reshape(graph.num_nodes, -1)[:, at].reshape(-1)
    assert np.all((sums == 0) | np.isclose(sums, 1))


@settings(deadline=None, max_examples=40)
@given(graphs(), st.integers(1, 4))
def test_a_small_table_keeps_the_most_frequent(drawn, most):
    graph, _ = drawn
    whole, _ = made(graph)
    small, rows = made(graph, table_rows=most)
    for name in ("neighbors", "hubs"):
        assert getattr(small, name).tolist() == getattr(whole, name)[:most].tolist()
    assert small.num_candidates == whole.num_candidates
    assert rows.shape[1] == small.num_channels <= 2 * most + CLASSES
    for node in range(graph.num_nodes):
        for group, row in named_rows(small, rows, node).items():
            if not group.startswith("classes"):
                assert all(value == pytest.approx(len(row) ** -0.5) for value in row.values())


def test_tables_are_ranked_by_how_many_rows_hold_a_node():
    graph = dhilgt.generate(60, 4, seed=3)
    vocabulary, rows = made(graph)
    counts = np.bincount(rows.indices, minlength=vocabulary.num_channels)
    near, far, _ = np.split(counts, [vocabulary.first_hub, vocabulary.first_class])
    for table in (near, far):
        assert len(table)
        assert table.min() > 0
        assert (np.diff(table) <= 0).all()


def test_long_rows_keep_the_most_frequent_entries(monkeypatch):
    graph = dhilgt.generate(60, 8, seed=3)
    vocabulary, whole = made(graph)
    monkeypatch.setattr(rows_module, "MOST_NEIGHBORS", 5)
    monkeypatch.setattr(rows_module, "MOST_HUBS", 3)
    _, cut = made(graph)
    for node, (place, group) in itertools.product(range(60), enumerate(vocabulary.groups)):
        most = {"n": 5, "h": 3, "c": CLASSES}[group[0]]
        at = node * len(vocabulary.groups) + place
        long, short = whole[[at]], cut[[at]]
        assert short.indices.tolist() == long.indices[:most].tolist()
        if short.nnz and group[0] != "c":
            assert short.data == pytest.approx(np.full(short.nnz, short.nnz**-0.5))


def test_a_node_without_edges_has_empty_rows_and_no_column():
    graph = Graph.from_edges([0, 1], [1, 2], num_nodes=4)
    vocabulary, rows = made(graph, np.array([0, 1, 2, 0]))
    assert not rows[[3 * len(vocabulary.groups) + at for at in range(len(vocabulary.groups))]].nnz
    assert 3 not in vocabulary.neighbors
    assert 3 not in vocabulary.hubs


def test_a_graph_without_edges_has_no_columns_but_those_of_classes():
    graph = Graph.from_edges([], [], num_nodes=3)
    vocabulary, rows = made(graph, np.array([0, 1, 2]))
    assert vocabulary.num_channels == CLASSES
    assert not rows.nnz
    assert EgoVocabulary.of(graph, None, neighbors=True).num_channels == 0


def test_labels_on_disk_give_the_same_rows(tmp_path):
    graph = dhilgt.generate(80, 5, seed=1)
    labels = HubLabels.build(graph, progress=False)
    labels.save(tmp_path / "labels")
    mapped = HubLabels.load(tmp_path / "labels")
    vocabulary = EgoVocabulary.of(graph, labels, hubs=True)
    again = EgoVocabulary.of(graph, mapped, hubs=True)
    assert (vocabulary.hubs == again.hubs).all()
    first, second = ego_rows(vocabulary, graph, labels), ego_rows(again, graph, mapped)
    assert (first != second).nnz == 0


# ---- another graph -------------------------------------------------------------------------------


def named(count, edges, directed=False, **changes):
    names = [f"n{at:02}" for at in range(count)]
    src, dst = ([names[end] for end in ends] for ends in zip(*edges, strict=True))
    return Graph.from_edges(src, dst, nodes=names, num_nodes=None, directed=directed, **changes)


def by_id(graph, vocabulary, rows, node):
    """The named rows of a node, by ids of nodes instead of indices."""
    found = named_rows(vocabulary, rows, graph.index_of(node))
    return {
        group: {
            (kind, kind == "class" or graph.ids_of(int(at))): v for (kind, at), v in row.items()
        }
        for group, row in found.items()
    }


@pytest.mark.parametrize("directed", [False, True])
def test_old_nodes_keep_their_columns_and_new_ones_have_none(directed):
    edges = [(0, 1), (1, 2), (2, 3), (0, 2), (3, 4)]
    old = Graph.from_edges(
        *zip(*[(f"b{u}", f"b{v}") for u, v in edges], strict=True), directed=directed
    )
    more = [*[(f"b{u}", f"b{v}") for u, v in edges], ("a", "b0"), ("c", "b2"), ("c", "a")]
    grown = Graph.from_edges(*zip(*more, strict=True), directed=directed)
    vocabulary, _ = made(old)
    carried = vocabulary.carried_over(old, grown)
    assert carried.num_channels == vocabulary.num_channels
    assert carried.groups == vocabulary.groups
    ids = grown.ids_of(carried.neighbors).tolist()
    assert ids == old.ids_of(vocabulary.neighbors).tolist()
    labels = HubLabels.build(grown, progress=False)
    rows = ego_rows(carried, grown, labels, np.full(grown.num_nodes, -1))
    out = "neighbors out" if directed else "neighbors"
    row = by_id(grown, carried, rows, "c")[out]
    assert row == {("neighbor", "b2"): 1.0}  # not a, which the table does not know


def test_quick_labels_give_rows_of_new_nodes():
    old = Graph.from_edges(["b", "c", "d"], ["c", "d", "e"])
    grown = Graph.from_edges(["b", "c", "d", "a"], ["c", "d", "e", "b"])
    labels = HubLabels.build(old, progress=False)
    vocabulary = EgoVocabulary.of(old, labels, hubs=True, neighbors=True)
    carried = vocabulary.carried_over(old, grown)
    rows = ego_rows(carried, grown, quick_labels(labels, old, grown))
    found = by_id(grown, carried, rows, "a")
    assert found["neighbors"] == {("neighbor", "b"): 1.0}
    hubs = {name: d for d in (1, 2, 3, 4) for _, name in found[f"hubs at distance {d}"]}
    assert hubs == {"c": 2} | ({"b": 1} if "b" in hubs else {})


def test_integer_ids_match_only_with_equal_features():
    features = np.eye(4, dtype=np.float32)
    old = Graph.from_edges([0, 1, 2], [1, 2, 3], features=features)
    other = features.copy()
    other[2] = 7
    changed = Graph.from_edges([0, 1, 2], [1, 2, 3], features=other)
    vocabulary = EgoVocabulary.of(old, None, neighbors=True)
    carried = vocabulary.carried_over(old, changed)
    assert sorted(carried.neighbors.tolist()) == [-1, 0, 1, 3]
    assert (vocabulary.carried_over(old, old).neighbors == vocabulary.neighbors).all()


def test_text_ids_never_match_integer_ids():
    numbers = Graph.from_edges([0, 1], [1, 2], features=np.zeros((3, 1)))
    words = Graph.from_edges(["0", "1"], ["1", "2"], features=np.zeros((3, 1)))
    vocabulary = EgoVocabulary.of(numbers, None, neighbors=True)
    assert (vocabulary.carried_over(numbers, words).neighbors == -1).all()


def test_the_summary_says_what_is_left_out():
    graph = dhilgt.generate(60, 4, seed=3)
    vocabulary, _ = made(graph, table_rows=10)
    words = vocabulary.summary()
    assert f"10 of {vocabulary.num_candidates[0]} neighbours" in words
    assert f"10 of {vocabulary.num_candidates[1]} hubs" in words
    assert "at most 512 neighbours and 64 hubs per distance" in words
    assert "3 classes of training nodes" in words
