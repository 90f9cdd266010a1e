"""New nodes from only their rows and edges: the same graph and predictions as from whole files."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt import GraphError, NodeClassifier
from dhilgt.graph.growth import grown_graph
from dhilgt.readers.new_nodes import graph_with_new_nodes, new_ids
from tests.classifier.cases import community_graph, quick

torch.set_num_threads(1)


def same(first, second):
    assert first.fingerprint == second.fingerprint
    assert first.nodes.tolist() == second.nodes.tolist()
    x, y = first.features, second.features
    assert scipy.sparse.issparse(x) == scipy.sparse.issparse(y)
    if scipy.sparse.issparse(x):
        x, y = x.toarray(), y.toarray()
    assert np.array_equal(x, y)


# ---- the graph ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(data=st.data(), directed=st.booleans(), text=st.booleans(), sparse=st.booleans())
def test_a_graph_and_its_new_nodes_are_the_whole_graph(data, directed, text, sparse):
    draw = data.draw
    count = draw(st.integers(3, 12))
    ids = np.array(draw(st.permutations(range(100))))[:count]
    num_old = draw(st.integers(2, count - 1))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, count - 1)] * 2), min_size=1, max_size=30))
    pairs = np.array([(a, b) for a, b in pairs if a != b] or [(0, 1)])
    pairs = np.unique(pairs, axis=0)
    names = np.array([f"n{at}" for at in ids], object) if text else ids
    x = np.round(np.random.default_rng(0).normal(size=(count, 3)), 2).astype(np.float32)
    is_old = (pairs < num_old).all(axis=1)
    form = scipy.sparse.csr_array if sparse else np.asarray

    def made(edges, nodes, rows):
        return dhilgt.Graph.from_edges(
            names[edges[:, 0]], names[edges[:, 1]], nodes=names[nodes], features=form(rows),
            directed=directed,
        )  # fmt: skip

    old, new = slice(0, num_old), slice(num_old, count)
    before, whole = made(pairs[is_old], old, x[old]), made(pairs, slice(0, count), x)
    ends = names[pairs[~is_old]].T
    same(grown_graph(before, *ends, names[new], x[new]), whole)
    same(graph_with_new_nodes(before, tuple(ends), x[new], nodes=names[new]), whole)
    assert new_ids(before, whole).tolist() == sorted(names[new].tolist())


@pytest.fixture
def friends():
    """Nodes with ids that look like numbers and are not."""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    return dhilgt.Graph.from_edges(["7", "007"], ["007", "x"], features=x)


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("head", ["", "source,target\n"])
def test_files_are_read_with_ids_like_those_of_the_graph(friends, tmp_path, head):
    edges = write(tmp_path, "e.csv", head + "8,007\n8,9\n")
    features = write(tmp_path, "x.csv", "id,a,b\n9,1,2\n8,3,4\n")
    grown = graph_with_new_nodes(friends, edges, features)
    assert grown.nodes.tolist() == ["007", "7", "8", "9", "x"]
    assert grown.neighbors("8").tolist() == ["007", "9"]
    assert grown.features[grown.index_of(["8", "9"])].tolist() == [[3, 4], [1, 2]]


def test_integers_stay_integers_and_may_have_gaps(tmp_path):
    graph = dhilgt.Graph.from_edges([0, 1], [1, 2], num_nodes=3, features=np.zeros((3, 2)))
    edges = write(tmp_path, "e.csv", "70.0,0\n")
    grown = graph_with_new_nodes(graph, edges, write(tmp_path, "x.csv", "id,a,b\n70,1,2\n"))
    assert grown.nodes.tolist() == [0, 1, 2, 70]
    # An array has no ids: its rows follow the others.
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    grown = graph_with_new_nodes(graph, ([3], [4]), tmp_path / "x.npy")
    assert grown.node_ids is None
    assert grown.neighbors(3).tolist() == [4]


def test_edges_of_parquet_are_read(friends, tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"source": ["new"], "target": ["x"]})
    pyarrow.parquet.write_table(table, tmp_path / "e.parquet")
    features = write(tmp_path, "x.csv", "id,a,b\nnew,3,4\n")
    grown = graph_with_new_nodes(friends, tmp_path / "e.parquet", features)
    assert grown.neighbors("new").tolist() == ["x"]


def test_a_new_node_without_an_edge_is_allowed(friends):
    grown = graph_with_new_nodes(friends, None, [[1.0, 2.0]], nodes=["lone"])
    assert grown.neighbors("lone").tolist() == []
    assert grown.num_edges == friends.num_edges


@pytest.mark.parametrize(
    ("edges", "rows", "nodes", "message"),
    [
        ((["a"], ["7"]), [[1, 2]], ["x"], "'x' is a node of the graph already"),
        ((["a"], ["yy"]), [[1, 2]], ["a"], "'yy' in a new edge is not a node of the graph"),
        ((["a"], ["7"]), [[1, 2, 3]], ["a"], "new nodes have 3 features, those of the graph 2"),
        ((["a"], ["7"]), [[1, 2], [3, 4]], ["a", "a"], "'a' is listed twice"),
        ((["a"], ["7"]), [[1, 2], [3, 4]], ["a"], "2 rows for 1 nodes"),
        ((["a"], ["7"]), [[1, 2]], [5], "5 of a new node is of another type"),
        (([5], [7]), [[1, 2]], ["a"], "5 in a new edge is of another type"),
        ((["a"], ["7"]), [[1, 2]], None, "has no ids, and those of the graph are not 0 to 2"),
        ((["a"], ["7"]), [[1, np.nan]], ["a"], "nan"),
        (["a"], [[1, 2]], ["a"], r"pass \(src, dst\)"),
        ((["a"], ["7"]), [1, 2], ["a"], "one row per new node"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(friends, edges, rows, nodes, message):
    with pytest.raises(GraphError, match=message):
        graph_with_new_nodes(friends, edges, np.array(rows, np.float32), nodes=nodes)


def test_a_word_among_integers_is_refused_with_the_header_as_way_out(tmp_path):
    graph = dhilgt.Graph.from_edges([0, 1], [1, 2], num_nodes=3, features=np.zeros((3, 2)))
    edges = write(tmp_path, "e.csv", "3,zero\n")
    with pytest.raises(GraphError, match=r"e\.csv: 'zero' is not the id .* header=True"):
        graph_with_new_nodes(graph, edges, np.ones((1, 2)))


# ---- a classifier ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_quick", [False, True])
def test_predictions_are_those_on_the_whole_grown_graph(is_quick, tmp_path):
    graph = community_graph(ids=True)
    clf = quick(label_inputs=True, hops=1, cache=False).fit(graph)
    clf.save(tmp_path / "run")
    new = ["late", "zoe"]
    src, dst = ["late", "late", "zoe"], ["node-003", "node-006", "late"]
    rows = np.array([[2, 0, 0, 0], [0, 0, 2, 0]], np.float32)
    old = graph.ids_of(graph.to_edge_index())
    whole = dhilgt.Graph.from_edges(
        [*old[0], *src], [*old[1], *dst], nodes=[*graph.nodes, *new],
        features=np.concatenate([graph.features, rows]),
    )  # fmt: skip
    expected = clf.predict_proba(new, graph=whole, quick=is_quick)
    for one in (clf, NodeClassifier.load(tmp_path / "run")):
        grown = one.graph_with((src, dst), rows, nodes=new)
        same(grown, whole)
        assert np.array_equal(one.predict_proba(new, graph=grown, quick=is_quick), expected)


def test_new_nodes_need_features_and_a_fitted_classifier():
    with pytest.raises(GraphError, match="new nodes need features"):
        quick(cache=False).fit(community_graph()).graph_with(([90], [0]))
    with pytest.raises(ValueError, match="not fitted"):
        quick().graph_with(([90], [0]), [[0.0] * 4])
