"""What a Graph holds, whatever it was made from."""

import pickle
import subprocess
import sys
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Cleaning, Graph, GraphError, GraphWarning
from tests.oracle import clean, rows_of


def edge_set(graph):
    u, v = graph.to_edge_index()
    return set(zip(graph.ids_of(u).tolist(), graph.ids_of(v).tolist(), strict=True))


def test_indices():
    graph = Graph.from_edges([0, 2], [1, 1], num_nodes=4)
    assert rows_of(graph.offsets, graph.targets) == [[1], [0, 2], [1], []]
    assert (graph.num_nodes, graph.num_edges, graph.directed) == (4, 4, False)
    assert graph.degrees.tolist() == [1, 2, 1, 0]
    assert graph.node_ids is None
    assert graph.nodes.tolist() == [0, 1, 2, 3]
    assert graph.cleaning == Cleaning(0, 0, 2)
    assert str(graph.cleaning) == "2 reverse edges added."
    assert repr(graph) == "Graph(nodes=4, edges=2, undirected)"


@pytest.mark.parametrize(
    ("src", "dst", "ids"),
    [
        ([30, -7], [2**60, 30], [-7, 30, 2**60]),
        (["b", "c"], ["ä", "b"], ["b", "c", "ä"]),
        (np.array(["b", "c"]), np.array(["a", "b"], dtype=object), ["a", "b", "c"]),
        ([b"b"], [b"a"], ["a", "b"]),
        (np.array([9], np.uint8), np.array([4], np.int16), [4, 9]),
    ],
)
def test_ids_are_mapped_in_ascending_order_and_given_back(src, dst, ids):
    graph = Graph.from_edges(src, dst)
    assert graph.nodes.tolist() == ids
    assert graph.index_of(ids).tolist() == list(range(len(ids)))
    assert graph.ids_of(range(len(ids))).tolist() == ids
    assert [graph.index_of(name) for name in ids] == list(range(len(ids)))
    assert [graph.ids_of(at) for at in range(len(ids))] == ids


def test_ids_that_are_indices_need_no_table():
    assert Graph.from_edges([1, 2], [0, 1]).node_ids is None
    assert Graph.from_edges([1, 3], [0, 1]).node_ids.tolist() == [0, 1, 3]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=20),
    st.booleans(),
    st.randoms(),
)
@pytest.mark.filterwarnings("ignore::dhilgt.GraphWarning")
def test_the_order_of_edges_does_not_matter(pairs, directed, random):
    first = Graph.from_edges(*zip(*pairs, strict=True), directed=directed)
    random.shuffle(pairs)
    second = Graph.from_edges(*zip(*pairs, strict=True), directed=directed)
    names = sorted({name for pair in pairs for name in pair})
    rows, counts = clean([(names.index(u), names.index(v)) for u, v in pairs], len(names), directed)
    assert first.nodes.tolist() == names
    assert rows_of(first.offsets, first.targets) == rows
    assert first.fingerprint == second.fingerprint
    assert (first.cleaning.self_loops, first.cleaning.duplicates) == counts[:2]


def test_nodes_keeps_the_lonely_and_orders_the_rows():
    graph = Graph.from_edges(
        ["c"],
        ["a"],
        nodes=["c", "lonely", "a"],
        features=[[1], [2], [3]],
        labels=["x", None, "y"],
        masks={"train": [True, False, False], "test": [2]},
    )
    assert graph.nodes.tolist() == ["a", "c", "lonely"]
    assert graph.features.tolist() == [[3], [1], [2]]
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.class_names == ("x", "y")
    assert graph.masks["train"].tolist() == [False, True, False]
    assert graph.masks["test"].tolist() == [True, False, False]
    assert graph.degrees.tolist() == [1, 1, 0]
    assert "ids=str, features=1, classes=2, train=1, test=1" in repr(graph)


def test_labels_by_id():
    graph = Graph.from_edges([5], [9], nodes=[9, 5, 7], labels={5: 1, 9: 0}, masks={"val": [0]})
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.masks["val"].tolist() == [False, False, True]
    assert graph.num_classes == 2
    with pytest.raises(GraphError, match=r"labels\[0\] = 6 is not a node"):
        Graph.from_edges([5], [9], labels={6: 1})


def test_directed():
    graph = Graph.from_edges([0, 0, 2], [1, 2, 1], num_nodes=3, directed=True)
    assert rows_of(graph.offsets, graph.targets) == [[1, 2], [], [1]]
    assert rows_of(graph.in_offsets, graph.in_targets) == [[], [0, 2], [0]]
    assert graph.in_targets is graph.in_targets
    undirected = Graph.from_edges([0], [1])
    assert undirected.in_targets is undirected.targets


def test_nothing_can_be_changed():
    graph = Graph.from_edges([4], [7], features=np.ones((2, 1), np.float32), labels=[0, 1])
    arrays = (graph.offsets, graph.targets, graph.node_ids, graph.features, graph.labels)
    for array in (*arrays, graph.in_offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for name in ("num_nodes", "targets", "new"):
        with pytest.raises(AttributeError):
            setattr(graph, name, 1)
    with pytest.raises(TypeError):
        Graph.from_edges([0], [1], masks={"train": [0]}).masks["train"] = 1


def test_fingerprint_is_of_the_structure_only():
    one = Graph.from_edges([0], [1])
    assert len(one.fingerprint) == 64
    assert one.fingerprint == Graph.from_edges(["x"], ["y"], labels=[0, 1]).fingerprint
    others = [
        Graph.from_edges([0], [1], num_nodes=3),
        Graph.from_edges([0, 1], [1, 0], directed=True),
        Graph.from_edges([0, 1], [1, 2]),
    ]
    assert len({one.fingerprint, *(graph.fingerprint for graph in others)}) == 4


def test_cleaning_is_told_once_and_only_if_unusual():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph.from_edges([0], [1])
    with pytest.warns(GraphWarning, match="1 self-loop removed; 1 duplicate edge merged") as caught:
        graph = Graph.from_edges([0, 0, 2], [1, 1, 2])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert graph.num_nodes == 3
    assert str(Cleaning()) == "nothing to clean."


def test_unknown_ids_are_named_with_their_neighbours():
    people = Graph.from_edges(["alice", "bob"], ["bob", "carol"])
    with pytest.raises(GraphError, match=r"id\[0\] = 'alicia' is not a node.*'alice'"):
        people.index_of("alicia")
    with pytest.raises(GraphError, match=r"ids\[1\] = 'zzz'"):
        people.index_of(["bob", "zzz"])
    with pytest.raises(GraphError, match="= 3, but the ids of the graph are strings"):
        people.index_of(3)
    with pytest.raises(GraphError, match=r"= 21 is not a node.*20, 30"):
        Graph.from_edges([10, 20], [20, 30]).index_of(21)
    with pytest.raises(GraphError, match=r"= 5 is not a node.* 0, 2"):
        Graph.from_edges([0, 1], [1, 2]).index_of(5)
    with pytest.raises(GraphError, match=r"indices\[0\] = -1"):
        people.ids_of(-1)
    with pytest.raises(GraphError, match="indices holds float64"):
        people.ids_of(0.5)


def test_edge_index():
    index = np.array([[0, 1, 2], [1, 2, 0]])
    assert Graph.from_edge_index(index).num_nodes == 3
    graph = Graph.from_edge_index(index.astype(np.int32), 5, directed=True)
    assert graph.num_nodes == 5
    assert np.array_equal(graph.to_edge_index(), index)
    assert Graph.from_edge_index(np.empty((2, 0), int), 2).num_edges == 0


def test_two_by_two_says_how_it_was_read():
    with pytest.warns(GraphWarning, match=r"shape \(2, 2\).*row 0 is taken as sources"):
        graph = Graph.from_edge_index([[0, 1], [2, 3]])
    assert edge_set(graph) == {(0, 2), (2, 0), (1, 3), (3, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph.from_edge_index([[0, 1], [1, 0]])


@pytest.mark.parametrize("kind", ["csr_array", "coo_array", "csc_matrix", "lil_array"])
def test_scipy_there_and_back(kind):
    dense = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    matrix = getattr(scipy.sparse, kind)(dense)
    graph = Graph.from_scipy(matrix, directed=True)
    assert np.array_equal(graph.to_scipy().toarray(), dense)
    assert np.array_equal(Graph.from_scipy(matrix).to_scipy().toarray(), dense + dense.T)


def test_scipy_zeros_are_no_edges_and_weights_are_refused():
    matrix = scipy.sparse.csr_array(([0.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert edge_set(Graph.from_scipy(matrix)) == {(1, 2), (2, 1)}
    with pytest.raises(GraphError, match=r"matrix.data\[0\] = 0.5.*weights='ignore'"):
        Graph.from_scipy(matrix * 0.5)
    assert Graph.from_scipy(matrix * 0.5, weights="ignore").num_edges == 2
    with pytest.raises(GraphError, match=r"shape \(2, 3\)"):
        Graph.from_scipy(scipy.sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(GraphError, match=r"ndarray is not a SciPy.*csr_array"):
        Graph.from_scipy(np.eye(3))


@pytest.mark.parametrize("made", [nx.karate_club_graph, nx.les_miserables_graph])
def test_networkx_there_and_back(made):
    theirs = made()
    graph = Graph.from_networkx(theirs, weights="ignore")
    assert nx.utils.graphs_equal(graph.to_networkx(), nx.Graph(list(theirs.edges)))
    assert graph.cleaning == Cleaning()
    with pytest.raises(GraphError, match=r"has weight .*weights='ignore'"):
        Graph.from_networkx(theirs)


def test_networkx_kinds():
    directed = nx.DiGraph([("a", "b"), ("c", "b")])
    directed.add_node("alone")
    graph = Graph.from_networkx(directed, labels=[0, 1, 2, 3])
    assert graph.directed
    assert graph.nodes.tolist() == ["a", "alone", "b", "c"]
    assert graph.labels.tolist() == [0, 3, 1, 2]
    assert nx.utils.graphs_equal(graph.to_networkx(), nx.DiGraph(directed))
    grid = Graph.from_networkx(nx.grid_2d_graph(2, 2))
    assert grid.nodes.tolist() == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    with pytest.warns(GraphWarning, match="2 duplicate edges merged"):
        Graph.from_networkx(nx.MultiGraph([(0, 1), (0, 1)]))
    with pytest.raises(GraphError, match="would both be named '1'"):
        Graph.from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(GraphError, match="list is not a NetworkX graph"):
        Graph.from_networkx([])
    with pytest.raises(GraphError, match="has no nodes"):
        Graph.from_networkx(nx.Graph())


class TestPyG:
    @pytest.fixture
    def data(self):
        torch = pytest.importorskip("torch")
        data = pytest.importorskip("torch_geometric.data")
        masks = torch.tensor([[1, 0], [0, 1], [0, 0]], dtype=torch.bool)
        return data.Data(
            x=torch.eye(3),
            y=torch.tensor([[0], [1], [1]]),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            train_mask=masks,
            test_mask=~masks,
        )

    def test_all_of_it(self, data):
        graph = Graph.from_pyg(data, split=1)
        assert repr(graph) == (
            "Graph(nodes=3, edges=1, undirected, features=3, classes=2, train=1, test=2)"
        )
        assert graph.masks["train"].tolist() == [False, True, False]
        assert np.array_equal(graph.features, np.eye(3))
        assert Graph.from_pyg(data).masks["train"].tolist() == [True, False, False]

    def test_sparse_features_and_bare_data(self, data):
        data.x = data.x.to_sparse()
        assert scipy.sparse.issparse(Graph.from_pyg(data).features)
        bare = type(data)(edge_index=data.edge_index, num_nodes=9)
        assert repr(Graph.from_pyg(bare, directed=True)) == "Graph(nodes=9, edges=2, directed)"

    def test_refusals(self, data):
        with pytest.raises(GraphError, match="split=2, but train_mask has splits 0 to 1"):
            Graph.from_pyg(data, split=2)
        data.edge_weight = data.x[:2, 0] * 2
        with pytest.raises(GraphError, match=r"edge_weight\[0\] = 2.0.*weights='ignore'"):
            Graph.from_pyg(data)
        assert Graph.from_pyg(data, weights="ignore").num_edges == 2
        with pytest.raises(GraphError, match="has no edge_index"):
            Graph.from_pyg(type(data)())

    def test_a_tensor_is_an_edge_index(self, data):
        assert Graph.from_edge_index(data.edge_index, 3).num_edges == 2
        with pytest.raises(GraphError, match=r"shape \(3, 2\).*\.t\(\)"):
            Graph.from_edge_index(data.train_mask.long())


def test_a_graph_survives_pickling():
    graph = Graph.from_edges(["a"], ["b"], labels=["x", "y"])
    copy = pickle.loads(pickle.dumps(graph))
    assert copy.fingerprint == graph.fingerprint
    assert copy.nodes.tolist() == ["a", "b"]


def test_the_package_imports_nothing_heavy():
    code = (
        "import sys, dhilgt; dhilgt.Graph.from_edges([0], [1]); dhilgt.generate(50, 3);"
        "print([m for m in ('scipy', 'pyarrow', 'networkx', 'torch') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_graph_travels_to_other_processes_whole():
    masks = {"train": np.array([True, False, False])}
    graph = Graph.from_edges([0, 1], [1, 2], labels=["a", "b", "a"], masks=masks)
    copy = pickle.loads(pickle.dumps(graph.named("small")))
    assert copy.name == "small"
    assert copy.masks["train"].tolist() == [True, False, False]
    assert copy.fingerprint == graph.fingerprint
    assert copy.class_names == ("a", "b")


class TestNetworkXAttributes:
    @pytest.fixture
    def theirs(self):
        graph = nx.Graph([("b", "a"), ("b", "c")])
        for at, node in enumerate(graph.nodes):  # b, a, c
            graph.nodes[node].update(age=10 + at, rich=at > 0, at=np.array([at, -at]))
        graph.nodes["a"]["club"] = "red"
        graph.nodes["c"]["club"] = "blue"
        return graph

    def test_names_are_features_and_classes(self, theirs):
        graph = Graph.from_networkx(theirs, features=["at", "age", "rich"], labels="club")
        assert graph.nodes.tolist() == ["a", "b", "c"]
        assert graph.features.tolist() == [[1, -1, 11, 1], [0, 0, 10, 0], [2, -2, 12, 1]]
        assert graph.class_names == ("blue", "red")
        assert graph.labels.tolist() == [1, -1, 0]
        assert Graph.from_networkx(theirs, features="age").features.tolist() == [[11], [10], [12]]

    def test_words_are_categories(self, theirs):
        nx.set_node_attributes(theirs, {"a": "x", "b": "y", "c": "x"}, "kind")
        graph = Graph.from_networkx(theirs, features=["age", "kind"])
        assert graph.feature_columns.names == ("age", "kind=x", "kind=y")
        assert graph.features.tolist() == [[11, 1, 0], [10, 0, 1], [12, 1, 0]]

    def test_numbers_are_classes_too(self):
        karate = Graph.from_networkx(nx.karate_club_graph(), labels="club", weights="ignore")
        assert karate.num_classes == 2
        theirs = nx.path_graph(3)
        nx.set_node_attributes(theirs, {0: 1, 2: 0}, "y")
        assert Graph.from_networkx(theirs, labels="y").labels.tolist() == [1, -1, 0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"features": "agee"}, "features='agee': no node has this attribute.* 'age'"),
            ({"labels": "clubs"}, "labels='clubs': no node has this attribute.* 'club'"),
            ({"features": ["age", "club"]}, "1 of 3 nodes have no attribute 'club'.* 'b'"),
            ({"features": ["odd"]}, "'odd' of node 'a' is 'x', which is no number"),
            ({"features": ["long"]}, "1 numbers for node 'b' and 2 for node 'a'"),
        ],
        ids=["feature name", "class name", "absent", "word", "length"],
    )
    def test_what_is_wrong_is_named(self, theirs, options, message):
        nx.set_node_attributes(theirs, {"a": "x", "b": 1, "c": 2}, "odd")
        nx.set_node_attributes(theirs, {"a": [1, 2], "b": [1], "c": [2]}, "long")
        with pytest.raises(GraphError, match=message):
            Graph.from_networkx(theirs, **options)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((np.array([[0, 1, 2], [1, 2, 0]]),), r"Graph\.from_edge_index\(edge_index\)"),
        (([[0, 1, 2], [1, 2, 0]],), r"Graph\.from_edge_index\(edge_index\)"),
        (([(0, 1), (1, 2), (2, 0)],), r"Graph\.from_edges\(\*zip\(\*pairs\)\)"),
        ((nx.path_graph(3),), r"Graph\.from_networkx\(graph\)"),
        ((scipy.sparse.eye(3),), r"Graph\.from_scipy\(matrix\)"),
        (("edges.csv",), r"Graph\.read\(path\)"),
        (([0, 1], [1, 2]), r"Graph\.from_edges\(src, dst\)"),
        ((5,), r"Graph\.from_edges\(src, dst\)"),
        ((Graph.from_edges([0], [1]),), r"Graph\.from_edges\(src, dst\)"),
    ],
    ids=["tensor", "lists", "pairs", "networkx", "scipy", "path", "two", "number", "graph"],
)
def test_data_passed_to_the_class_itself_gets_the_right_method(arguments, hint):
    with pytest.raises(GraphError, match=hint):
        Graph(*arguments)
    with pytest.raises(GraphError, match=r"call Graph\.from_edge_index"):
        Graph(np.array([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
