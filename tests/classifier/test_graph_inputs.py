"""What `fit`, `predict` and `score` make of a PyG `Data`, and hints for what is no graph."""

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from dhilgt import Graph, GraphError, GraphWarning
from dhilgt.classifier.graph_inputs import is_graph
from dhilgt.classifier.pipeline import Pipeline
from tests.classifier.cases import community_graph, quick


def masks_of(num_nodes=90):
    part = np.arange(num_nodes) // 3 % 5
    return {"train": part < 3, "val": part == 3, "test": part == 4}


def data_of(num_nodes=90, **changes):
    graph = community_graph(num_nodes, labels=np.arange(num_nodes) % 3, masks=masks_of(num_nodes))
    data = graph.to_pyg()
    for name, value in changes.items():
        data[name] = value
    return data


@pytest.fixture(scope="module")
def data():
    return data_of()


@pytest.fixture(scope="module")
def clf(data):
    return quick().fit(data)


@pytest.fixture
def no_pipeline(monkeypatch):
    """Refuse to prepare another graph."""

    def refuse(*args, **kwargs):
        raise AssertionError("a second graph was prepared")

    monkeypatch.setattr(Pipeline, "__init__", refuse)


# ---- the graph it was trained on ----------------------------------------------------------------


@pytest.mark.usefixtures("no_pipeline")
def test_data_of_the_training_is_recognised(clf, data):
    np.testing.assert_array_equal(clf.predict(data), clf.predict())
    np.testing.assert_array_equal(clf.predict_proba(data), clf.predict_proba())
    np.testing.assert_array_equal(clf.predict(Graph.from_pyg(data)), clf.predict())
    np.testing.assert_array_equal(clf.predict([5, 3], graph=data), clf.predict([5, 3]))


def test_a_score_is_of_the_test_mask_and_y(clf, data):
    test = data.test_mask.numpy()
    wanted = (clf.predict()[test] == data.y.numpy()[test]).mean()
    assert clf.score(data) == pytest.approx(wanted)
    assert clf.score(data) == clf.score()
    assert clf.score(Graph.from_pyg(data)) == clf.score()
    wrong = np.where(test, (clf.predict() + 1) % 3, 0)
    assert clf.score(data, wrong) == 0.0


def test_without_a_test_mask_the_held_out_nodes_count(clf, data):
    bare = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    assert clf.score(bare) == clf.score()


def test_direction_is_that_of_the_training(data):
    one_way = data_of()
    one_way.edge_index = one_way.edge_index[:, one_way.edge_index[0] < one_way.edge_index[1]]
    clf = quick().fit(Graph.from_pyg(one_way, directed=True))
    np.testing.assert_array_equal(clf.predict_proba(one_way), clf.predict_proba())


# ---- another graph ------------------------------------------------------------------------------


def test_another_graph_is_predicted_whole(clf):
    other = data_of(60)
    other.x = other.x + 0.5
    graph = Graph.from_pyg(other)
    np.testing.assert_array_equal(clf.predict_proba(other), clf.predict_proba(graph=graph))
    test = np.flatnonzero(masks_of(60)["test"])
    wanted = (clf.predict(test, graph=graph) == other.y.numpy()[test]).mean()
    assert clf.score(other) == pytest.approx(wanted)
    del other["test_mask"]
    everything = (clf.predict(graph=graph) == other.y.numpy()).mean()
    assert clf.score(other) == pytest.approx(everything)


def test_classes_are_not_needed_to_predict(clf, data):
    other = Data(x=data.x + 1, edge_index=data.edge_index, y=torch.rand(90))
    assert clf.predict(other).shape == (90,)
    with pytest.raises(GraphError, match="regression"):
        clf.score(other)
    del other.y
    with pytest.raises(GraphError, match="in a PyG Data they are y"):
        clf.score(other)


def test_a_graph_twice_is_refused(clf, data):
    with pytest.raises(GraphError, match="one graph as graph="):
        clf.predict(data, graph=data)


# ---- masks and classes as PyG has them ----------------------------------------------------------


@pytest.mark.parametrize(
    "masks",
    [
        {name: torch.from_numpy(mask) for name, mask in masks_of().items()},
        {name: torch.from_numpy(mask).to(torch.uint8) for name, mask in masks_of().items()},
        {name: torch.from_numpy(np.flatnonzero(mask)) for name, mask in masks_of().items()},
        {
            name: torch.from_numpy(np.stack([mask, np.roll(mask, 1)], axis=1))
            for name, mask in masks_of().items()
        },
    ],
    ids=["booleans", "bytes", "indices", "columns"],
)
@pytest.mark.parametrize("ending", ["mask", "idx"])
def test_masks_of_every_kind(data, masks, ending):
    bare = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    for name, mask in masks.items():
        bare[f"{name}_{ending}"] = mask
    graph = Graph.from_pyg(bare)
    for name, mask in masks_of().items():
        np.testing.assert_array_equal(graph.masks[name], mask)


@pytest.mark.parametrize(
    "y",
    [
        lambda y: y.reshape(-1, 1),
        lambda y: y.float(),
        lambda y: torch.nn.functional.one_hot(y),
        lambda y: torch.nn.functional.one_hot(y).float(),
        lambda y: torch.where(torch.from_numpy(masks_of()["test"]), torch.nan, y.float()),
    ],
    ids=["column", "float", "one-hot", "float one-hot", "NaN is unknown"],
)
def test_classes_of_every_kind(data, y):
    changed = Data(x=data.x, edge_index=data.edge_index, y=y(data.y))
    labels = Graph.from_pyg(changed).labels
    known = labels >= 0
    np.testing.assert_array_equal(labels[known], data.y.numpy()[known])
    assert known.sum() in (90, 90 - masks_of()["test"].sum())


def test_a_score_takes_the_split_of_the_training():
    columns = {
        f"{name}_mask": torch.from_numpy(np.stack([np.roll(mask, 3), mask], axis=1))
        for name, mask in masks_of().items()
    }
    data = data_of(**columns)
    clf = quick(epochs=1).fit(Graph.from_pyg(data, split=1))
    assert clf.score(data) == clf.score()
    data.test_mask = torch.roll(data.test_mask, 6, dims=0)
    with pytest.raises(GraphError, match="none has the test nodes"):
        clf.score(data)


# ---- hints --------------------------------------------------------------------------------------


class TwoGraphs(InMemoryDataset):
    def __init__(self):
        super().__init__(None)
        self.data, self.slices = self.collate([data_of(30), data_of(60)])


def hetero():
    data = HeteroData()
    data["paper"].x = torch.zeros(2, 1)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return data


@pytest.mark.parametrize(
    ("thing", "hint"),
    [
        (hetero(), "to_homogeneous"),
        ([data_of(30), data_of(30)], "Batch.from_data_list"),
        (TwoGraphs(), r"dataset\[0\]"),
        (networkx.path_graph(3), "Graph.from_networkx"),
        ({"x": 1}, "a dict is neither"),
        (Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1])), "set data.x"),
        (Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[0], [1]])), "they are y"),
        (Data(x=torch.zeros(2, 1), adj_t=1), "before ToSparseTensor"),
        (
            Batch.from_data_list(
                [Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0], [1]]), y=1)] * 2
            ),
            "each of 2 graphs",
        ),
    ],
    ids=["hetero", "list", "dataset", "networkx", "dict", "no x", "no y", "adj_t", "batch"],
)
def test_the_way_out_is_named(thing, hint):
    with pytest.raises(GraphError, match=hint):
        quick().fit(thing)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score"])
def test_a_fitted_classifier_gives_the_same_hints(clf, method):
    with pytest.raises(GraphError, match=r"dataset\[0\]"):
        getattr(clf, method)(TwoGraphs())
    with pytest.raises(GraphError, match=r"Graph\.from_networkx"):
        getattr(clf, method)(networkx.path_graph(3))


def test_a_batch_with_classes_of_nodes_is_one_graph(data):
    batch = Batch.from_data_list([data_of(60), data_of(30)])
    clf = quick(epochs=1).fit(batch)
    assert clf.predict(batch).shape == (90,)


def test_a_square_sparse_matrix_may_be_an_adjacency_matrix():
    matrix = scipy.sparse.eye(12, format="csr")
    with pytest.warns(GraphWarning, match="Graph.from_scipy"):
        quick(epochs=1).fit(matrix, np.arange(12) % 2)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_features_may_be_sparse_in_any_way_of_scipy(kind):
    assert not is_graph(scipy.sparse.random_array((6, 3), density=0.5, format=kind))
