"""Graphs on disk come back as they were, or not at all."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli.app import app
from dhilgt.graph.store import load_graph, save_graph
from dhilgt.loader.feature_rows import is_mapped
from dhilgt.store.artifact import ArtifactWriter

EDGES = (["ann", "bob", "cid", "éva"], ["bob", "cid", "dan", "ann"])


def full_graph(**changes):
    options = {
        "features": np.arange(10, dtype=np.float32).reshape(5, 2),
        "labels": ["red", "blue", None, "red", "blue"],
        "masks": {"train": [0], "val": [1], "test": [3, 4]},
    }
    return dhilgt.Graph.from_edges(*EDGES, **(options | changes))


def same(left, right):
    assert repr(left) == repr(right)
    assert left.fingerprint == right.fingerprint
    assert left.directed == right.directed
    assert left.cleaning == right.cleaning
    assert left.class_names == right.class_names
    assert left.nodes.tolist() == right.nodes.tolist()
    for name in ("offsets", "targets", "labels"):
        one, other = getattr(left, name), getattr(right, name)
        assert one is other is None or one.tolist() == other.tolist()
    assert (left.features is None) == (right.features is None)
    if left.features is not None:
        assert scipy.sparse.issparse(left.features) == scipy.sparse.issparse(right.features)
        plain = [
            x.toarray() if hasattr(x, "toarray") else x for x in (left.features, right.features)
        ]
        np.testing.assert_array_equal(*plain)
    assert (left.masks is None) == (right.masks is None)
    for name, mask in (left.masks or {}).items():
        assert mask.tolist() == right.masks[name].tolist()


GRAPHS = {
    "everything": full_graph(),
    "directed": full_graph(directed=True),
    "sparse features": full_graph(features=scipy.sparse.csr_matrix(np.eye(5))),
    "numbers": dhilgt.Graph.from_edges([7, 9], [9, 40], labels=[0, -1, 5]),
    "bare": dhilgt.Graph.from_edges([0, 1], [1, 2]),
    "no edges": dhilgt.Graph.from_edges([], [], num_nodes=3),
    "cleaned": dhilgt.Graph.from_edges([0, 0, 1], [1, 2, 2]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_comes_back_as_it_was(name, tmp_path):
    save_graph(GRAPHS[name], tmp_path / "graph")
    same(load_graph(tmp_path / "graph", verify=True), GRAPHS[name])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_copy_for_another_process_is_the_same(name):
    same(pickle.loads(pickle.dumps(GRAPHS[name])), GRAPHS[name])


def test_dense_features_are_mapped_not_read(tmp_path):
    save_graph(full_graph(), tmp_path / "graph")
    assert is_mapped(load_graph(tmp_path / "graph").features)


def test_a_graph_that_is_there_stays_unless_asked(tmp_path):
    save_graph(full_graph(), tmp_path / "graph")
    with pytest.raises(dhilgt.ArtifactError, match="overwrite"):
        save_graph(GRAPHS["bare"], tmp_path / "graph")
    save_graph(GRAPHS["bare"], tmp_path / "graph", overwrite=True)
    same(load_graph(tmp_path / "graph"), GRAPHS["bare"])


def forged(path, **changes):
    """Writes what looks like a path of three nodes, with some arrays or facts of another kind."""
    graph = GRAPHS["bare"]
    arrays = {"offsets": graph.offsets, "targets": graph.targets}
    params = {
        "num_nodes": 3, "num_edges": 4, "directed": False, "num_channels": None,
        "num_class_names": None,
        "cleaning": {"self_loops": 0, "duplicates": 0, "reversed_added": 2},
    }  # fmt: skip
    for name, value in changes.items():
        (params if name in params else arrays)[name] = value
    with ArtifactWriter(
        path, kind="graph", format_version=1, params=params, fingerprint=graph.fingerprint
    ) as writer:
        for name, array in arrays.items():
            if array is not None:
                writer.write_array(name, array)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": np.array([1, 0, 3, 1], np.int32)}, "do not describe rows"),
        ({"targets": np.array([1, 0, -1, 1], np.int32)}, "do not describe rows"),
        ({"offsets": np.array([0, 3, 1, 4])}, "do not describe rows"),
        ({"offsets": np.array([0, 1, 3])}, "do not describe rows"),
        ({"targets": np.array([1, 0, 2, 1], np.int64)}, "do not describe rows"),
        ({"targets": np.array([1, 2, 0, 1], np.int32)}, "not in order"),
        ({"targets": np.array([0, 0, 2, 1], np.int32)}, "self-loops"),
        ({"targets": np.array([2, 0, 2, 1], np.int32)}, "lacks its reverse"),
        ({"directed": True}, "fingerprint"),
        ({"num_nodes": 4}, "do not describe rows"),
        ({"num_nodes": "3"}, "not a graph as written"),
        ({"cleaning": {"nonsense": 1}}, "not a graph as written"),
        ({"labels": np.array([0, 1])}, "labels has 2 entries"),
        ({"mask_train": np.array([1, 0, 1])}, "mask 'train'"),
        ({"features": np.zeros((2, 2), np.float32)}, "features are"),
        ({"ids": np.array([3, 1, 2])}, "ids"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message, tmp_path):
    forged(tmp_path / "whole")
    same(load_graph(tmp_path / "whole"), GRAPHS["bare"])
    forged(tmp_path / "graph", **changes)
    with pytest.raises(dhilgt.ArtifactError, match=message):
        load_graph(tmp_path / "graph")


def test_features_that_point_outside_are_refused(tmp_path):
    forged(
        tmp_path / "graph",
        num_channels=2,
        features_offsets=np.array([0, 1, 1, 1]),
        features_columns=np.array([9]),
        features_values=np.ones(1, np.float32),
    )
    with pytest.raises(dhilgt.ArtifactError, match="not a graph as written"):
        load_graph(tmp_path / "graph")


def test_inspect_tells_what_it_is(tmp_path):
    save_graph(full_graph(), tmp_path / "graph")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "graph"), "--json", "--verify"])
    facts = json.loads(result.output)
    assert facts["kind"] == "graph"
    assert (facts["nodes"], facts["features"], facts["classes"]) == (5, 2, 2)
    assert facts["masks"] == {"train": 1, "val": 1, "test": 2}
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "graph")]).output
    assert "known of 4 nodes" in shown
