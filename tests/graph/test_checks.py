"""Every bad input is refused before heavy work, with its value and the remedy."""

import re

import numpy as np
import pytest
import scipy.sparse

from dhilgt import Graph, GraphError, GraphWarning

PATH = ([0, 1, 2], [1, 2, 3])  # 0 - 1 - 2 - 3


def says(*parts):
    return re.compile(".*".join(re.escape(part) for part in parts), re.DOTALL)


BAD_EDGES = {
    "no nodes": (([], []), {}, says("no nodes", "num_nodes=")),
    "zero nodes": (([], []), {"num_nodes": 0}, says("no nodes")),
    "no ids": (([], []), {"nodes": []}, says("no nodes")),
    "negative count": (([], []), {"num_nodes": -4}, says("num_nodes=-4", "at least 1")),
    "count of another kind": (([], []), {"num_nodes": 2.5}, says("num_nodes=2.5", "whole number")),
    "too many nodes": (
        ([], []),
        {"num_nodes": 2**32},
        says("num_nodes=4294967296", "fewer than 2147483647", "leave num_nodes out"),
    ),
    "negative index": (
        ([0, -3], [1, 1]),
        {"num_nodes": 2},
        says("src[1] = -3 is outside 0 to 1", "leave num_nodes out"),
    ),
    "index past the end": (
        ([0, 1, 0], [1, 0, 2]),
        {"num_nodes": 2},
        says("dst[2] = 2 is outside 0 to 1 (num_nodes=2)", "leave num_nodes out"),
    ),
    "id above 32 bits as index": (
        ([2**33], [0]),
        {"num_nodes": 5},
        says("src[0] = 8589934592 is outside 0 to 4"),
    ),
    "fraction": (([0.0, 1.5], [1, 0]), {}, says("src[1] = 1.5 is not a whole number", "integers")),
    "nan": (([0.0, np.nan], [1, 0]), {}, says("src[1] = nan")),
    "float too large": (([0.0, 2.0**60], [1, 0]), {}, says("src[1] = 1.15", "int64")),
    "above 64 bits": (
        (np.array([2**63], np.uint64), [0]),
        {},
        says("src[0] = 9223372036854775808"),
    ),
    "beyond 64 bits": (([2**70], [0]), {}, says("beyond 64 bits", "strings")),
    "unequal lengths": (([0, 1], [1]), {}, says("src has 2 entries and dst has 1")),
    "matrix": (([[0, 1]], [[1, 0]]), {}, says("src has shape (1, 2)", "from_edge_index")),
    "mixed": (
        (np.array([1, "a"], dtype=object), [1, 2]),
        {},
        says("src[1] = 'a'", "all integers or all strings"),
    ),
    "mixed list": (([1, "a"], ["b", "c"]), {}, says("src[1] = 'a'", "all integers or all strings")),
    "missing": ((np.array(["a", None], dtype=object), ["b", "c"]), {}, says("src[1] = None")),
    "sides of two kinds": (([1], ["a"]), {}, says("src[0] =", "1", "dst[0] = 'a'", "convert")),
    "empty name": ((["a", ""], ["b", "c"]), {}, says("src[1] is an empty string")),
    "not UTF-8": (([b"\xff"], [b"a"]), {}, says("src[0] = b'\\xff' is not UTF-8")),
    "booleans": (([True], [False]), {}, says("src holds bool")),
    "strings as indices": ((["a"], ["b"]), {"num_nodes": 2}, says("src[0] = 'a'", "num_nodes")),
    "both counts": (([0], [1]), {"num_nodes": 2, "nodes": [0, 1]}, says("both given")),
    "node twice": (([0], [1]), {"nodes": [0, 1, 0]}, says("nodes[2]", "repeats nodes[0]")),
    "end not in nodes": (
        (["a"], ["x"]),
        {"nodes": ["a", "b"]},
        says("dst[0] = 'x' is not a node of the graph", "nearest"),
    ),
    "weights": (([0], [1]), {"weights": [0.5]}, says("weights[0] = 0.5", "weights='ignore'")),
    "weights word": (([0], [1]), {"weights": "drop"}, says("weights='drop'", "weights='ignore'")),
    "threads": (([0], [1]), {"threads": 0}, says("threads=0", "at least 1")),
}


@pytest.mark.parametrize("case", BAD_EDGES)
def test_bad_edges(case):
    (src, dst), options, message = BAD_EDGES[case]
    with pytest.raises(GraphError, match=message):
        Graph.from_edges(src, dst, **options)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.zeros((5, 2), int), says("(5, 2)", "transposed", ".t()")),
        (np.zeros((3, 4), int), says("(3, 4)", "(2, E)")),
        (np.zeros(4, int), says("(4,)", "(2, E)")),
        (np.array([[0, 1, -1], [1, 0, 0]]), says("src[2] = -1")),
        (np.full((2, 3), -1), says("src[0] = -1")),
        (np.full((2, 3), np.nan), says("src[0] = nan")),
        (np.full((2, 3), "a"), says("src[0] = 'a'", "indices")),
        (np.zeros((2, 0), int), says("no nodes")),
        ([[0, 1], [1]], says("unequal length")),
    ],
)
def test_bad_edge_index(index, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_edge_index(index)


def test_what_is_unusual_but_fine():
    assert Graph.from_edges([], [], num_nodes=3).degrees.tolist() == [0, 0, 0]  # no edges
    assert Graph.from_edges([], [], num_nodes=1).num_nodes == 1  # one node
    assert Graph.from_edges([0], [1]).num_edges == 2  # two nodes, one edge
    assert Graph.from_edges([0, 2], [1, 3]).num_nodes == 4  # two components
    assert Graph.from_edges([0], [1], weights=[1.0]).num_edges == 2
    assert Graph.from_edges([0], [1], weights="ignore").num_edges == 2
    with pytest.warns(GraphWarning, match="src holds whole numbers as float64"):
        assert Graph.from_edges([0.0, 1.0], [1, 2]).num_nodes == 3


X = np.zeros((4, 2), np.float32)
BAD_NODES = {
    "nan in features": (
        {"features": np.array([[0, 0], [0, np.nan], [np.inf, 0], [0, 0]])},
        says("features[1, 1] = nan", "(2 NaN or infinite values)", "nan_to_num"),
    ),
    "nan in sparse features": (
        {"features": scipy.sparse.csr_matrix(([np.inf], ([2], [1])), shape=(4, 2))},
        says("features[2, 1] = inf", "nan_to_num"),
    ),
    "too large for float32": (
        {"features": np.full((4, 1), 1e300)},
        says("features[0, 0] = inf is not finite as float32"),
    ),
    "rows": ({"features": X[:3]}, says("features has 3 rows", "4 nodes")),
    "one channel": ({"features": X[:, 0]}, says("shape (4,)", "reshape(-1, 1)")),
    "cube": ({"features": X[None]}, says("shape (1, 4, 2)")),
    "words": ({"features": X.astype(str)}, says("features holds <U", "numbers")),
    "label below -1": (
        {"labels": [0, 1, -2, 0]},
        says("labels[2] = -2", "use -1 for unlabelled"),
    ),
    "label that is an id": (
        {"labels": [0, 10**9, 0, 0]},
        says("labels[1] = 1000000000", "strings"),
    ),
    "label fraction": ({"labels": [0, 1, 0.5, 0]}, says("labels[2] = 0.5", "whole numbers")),
    "label count": ({"labels": [0, 1]}, says("labels has 2 entries", "4 nodes", "-1")),
    "several labels": (
        {"labels": [[1, 1], [0, 1], [1, 0], [1, 0]]},
        says("row 0 = [1, 1] is not one-hot", "one class per node"),
    ),
    "labels of two kinds": (
        {"labels": np.array([1, "a", 2, 3], dtype=object)},
        says("labels mixes types", "'a'"),
    ),
    "overlap": (
        {"masks": {"train": [0, 1], "test": [1, 2]}},
        says("'train' and 'test' share 1 nodes, the first at 1", "disjoint"),
    ),
    "unlabelled in mask": (
        {"labels": [0, -1, 0, 0], "masks": {"train": [0, 1]}},
        says("'train' selects node 1, which has no label", "labels >= 0"),
    ),
    "mask or indices": (
        {"masks": {"train": np.array([0, 1, 1, 0])}},
        says("'train'", "all 0 or 1", "astype(bool)", "indices"),
    ),
    "mask length": ({"masks": {"val": [True, False]}}, says("'val' has 2 entries", "4 nodes")),
    "mask index": ({"masks": {"val": [0, 9]}}, says("'val'[1] = 9 is outside 0 to 3")),
    "mask twice": ({"masks": {"val": [2, 2]}}, says("'val' lists a node twice")),
    "mask kind": ({"masks": {"val": [0.5, 1.0]}}, says("'val' holds float64")),
    "mask of splits": (
        {"masks": {"val": np.zeros((4, 3), bool)}},
        says("'val' has shape (4, 3)", "one split"),
    ),
    "mask name": ({"masks": {"valid": [0]}}, says("unknown name 'valid'", "did you mean 'val'")),
    "masks as a list": ({"masks": [[0]]}, says("masks is a list", "dict")),
}


@pytest.mark.parametrize("case", BAD_NODES)
def test_bad_nodes(case):
    options, message = BAD_NODES[case]
    with pytest.raises(GraphError, match=message):
        Graph.from_edges(*PATH, **options)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64"])
def test_features_become_float32(dtype):
    values = np.array([[0, 1], [1, 1], [0, 0], [1, 0]], dtype=dtype)
    features = Graph.from_edges(*PATH, features=values).features
    assert features.dtype == np.float32
    assert np.array_equal(features, values.astype(np.float32))
    assert np.shares_memory(features, values) == (dtype == "float32")
    sparse = Graph.from_edges(*PATH, features=scipy.sparse.coo_array(values.astype("f4"))).features
    assert sparse.format == "csr"


@pytest.mark.parametrize(
    ("values", "classes", "names"),
    [
        ([2, 0, -1, 1], [2, 0, -1, 1], None),
        ([1.0, np.nan, 0.0, 1.0], [1, -1, 0, 1], None),
        ([True, False, True, True], [1, 0, 1, 1], None),
        (np.array([[0], [1], [2], [3]]), [0, 1, 2, 3], None),
        (np.array([[0, 1], [1, 0], [0, 0], [0, 1]]), [1, 0, -1, 1], None),
        (["dog", "cat", "", "dog"], [1, 0, -1, 1], ("cat", "dog")),
        (np.array(["dog", None, np.nan, "cat"], dtype=object), [1, -1, -1, 0], ("cat", "dog")),
        (np.array([1, None, 0, 0], dtype=object), [1, -1, 0, 0], None),
    ],
)
def test_labels_of_every_kind(values, classes, names):
    graph = Graph.from_edges(*PATH, labels=values)
    assert graph.labels.tolist() == classes
    assert graph.class_names == names
    assert graph.num_classes == max(classes) + 1
