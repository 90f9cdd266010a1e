"""Frames of pandas, Polars and Arrow go straight in, and mean what the same file means."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dhilgt import Graph, GraphError, GraphWarning
from dhilgt.readers.frames import to_table

EDGES = {"source": ["ann", "bob"], "target": ["bob", "cid"]}
NODES = {
    "who": ["cid", "ann", "bob"],
    "age": [3, 1, 2],
    "label": ["red", "blue", None],
    "split": ["train", "val", None],
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def refused(call, *args, **options):
    with pytest.raises(GraphError) as caught:
        call(*args, **options)
    return str(caught.value)


def test_frames_for_everything(make):
    nodes = make(NODES)
    graph = Graph.read(make(EDGES), features=nodes, labels=nodes, masks=nodes)
    assert graph.nodes.tolist() == ["ann", "bob", "cid"]
    assert graph.features.ravel().tolist() == [1, 2, 3]
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.masks["train"].tolist() == [False, False, True]
    assert any("features: ids are in column 'who'" in note for note in graph.notes)


def test_frames_beside_arrays_of_edges(make):
    features = make({"who": NODES["who"], "age": NODES["age"]})
    graph = Graph.from_edges(EDGES["source"], EDGES["target"], features=features)
    assert graph.features.ravel().tolist() == [1, 2, 3]
    other = graph.with_data(features=make({"who": ["bob", "cid", "ann"], "age": [20, 30, 10]}))
    assert other.features.ravel().tolist() == [10, 20, 30]
    assert other.labels is None


def test_a_node_with_a_row_and_no_edge_is_kept(make):
    features = make({"who": ["cid", "ann", "dan", "bob"], "age": [3, 1, 4, 2]})
    with pytest.warns(GraphWarning, match="features: nodes with features and no edge: 1"):
        graph = Graph.from_edges(EDGES["source"], EDGES["target"], features=features)
    assert graph.features.ravel().tolist() == [1, 2, 3, 4]


def test_rows_without_ids_follow_the_nodes(make):
    features = make({"a": [1.0, 2.0, 0.0], "b": [4, 5, 6]})  # of which a could be ids
    graph = Graph.from_edges([0, 1], [1, 2], features=features)
    assert graph.features.tolist() == [[1, 4], [2, 5], [0, 6]]
    listed = Graph.from_edges([0, 1], [1, 2], nodes=[2, 0, 1], features=features)
    assert listed.features.tolist() == [[2, 5], [0, 6], [1, 4]]
    assert "3 rows and no ids, but the graph has 4" in refused(
        Graph.from_edges, [0, 1, 2], [1, 2, 3], features=features
    )


def test_the_index_of_pandas_holds_the_ids():
    frame = pd.DataFrame({"age": [3, 1, 2]}, index=["cid", "ann", "bob"])
    series = pd.Series(["red", "blue"], index=["cid", "bob"], name="party")
    train = pd.Series([True, False], index=["cid", "bob"])
    graph = Graph.from_edges(
        EDGES["source"], EDGES["target"], features=frame, labels=series, masks={"train": train}
    )
    assert graph.features.ravel().tolist() == [1, 2, 3]
    assert graph.labels.tolist() == [-1, 0, 1]
    assert graph.masks["train"].tolist() == [False, False, True]
    some = pd.DataFrame({"x": [5.0, 6.0, 7.0, 8.0]}).iloc[[3, 1, 2, 0]]
    assert Graph.from_edges([0, 1, 2], [1, 2, 3], features=some).features.ravel().tolist() == [
        5,
        6,
        7,
        8,
    ]
    filtered = pd.DataFrame({"name": ["ann", "bob", "cid"], "x": [1, 2, 3]}, index=[4, 7, 9])
    graph = Graph.read(pd.DataFrame(EDGES), features=filtered, feature_columns="x")
    assert graph.features.ravel().tolist() == [1, 2, 3]


def test_a_series_in_order_is_an_array():
    labels = pd.Series([1, 0, 1])
    assert Graph.from_edges([0, 1], [1, 2], labels=labels).labels.tolist() == [1, 0, 1]
    graph = Graph.from_edges([5, 6], [6, 7]).with_data(labels=pd.Series({7: "x", 5: "y"}))
    assert graph.labels.tolist() == [1, -1, 0]


def test_nodes_from_a_frame_or_series(make):
    nodes = make({"id": ["dan", "cid", "bob", "ann"]})
    assert Graph.read(make(EDGES), nodes=nodes).num_nodes == 4
    assert Graph.read(make(EDGES), nodes=pd.Series(["dan", "cid", "bob", "ann"])).num_nodes == 4
    wide = make({"a": ["ann"], "b": ["bob"]})
    assert "nodes has 2 columns" in refused(Graph.read, make(EDGES), nodes=wide)


def test_frames_of_edges(make):
    frame = make({"since": [1, 2], "to": ["bob", "cid"], "from": ["ann", "bob"]})
    assert "3 columns" in refused(Graph.read, frame)
    graph = Graph.read(frame, columns=("from", "to"), directed=True)
    assert graph.neighbors("ann").tolist() == ["bob"]
    empty = make({"source": ["ann", None], "target": ["bob", "cid"]})
    assert "row 1 of column 'source' is empty" in refused(Graph.read, empty)
    numbers = make({"source": [0, 1], "target": [1, 2]})
    assert Graph.read(numbers).num_nodes == 3


DAY = datetime.date(2020, 1, 31)
COLUMNS = {
    "whole": ([1, 2], np.int64, [1, 2], 0),
    "whole with a gap": ([1, None], None, None, 1),
    "real": ([1.5, None], np.float64, None, 1),
    "words": (["a", ""], object, ["a", ""], 1),
    "true or false": ([True, False], np.bool_, [True, False], 0),
    "dates": ([DAY, None], np.dtype("datetime64[s]"), None, 1),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_types_of_columns(make, name):
    values, dtype, expected, missing = COLUMNS[name]
    column = to_table(make({"x": values}), "frame").column(0)
    assert column.num_missing == missing
    assert dtype is None or column.values.dtype == dtype
    assert expected is None or column.values.tolist() == expected
    if name == "dates":
        assert column.values[0] == np.datetime64("2020-01-31")


def test_types_that_only_pandas_has():
    zone = pd.Series(pd.to_datetime(["2020-01-01T00:00+01:00"]))
    empty = {"i": pd.array([None], "Int64"), "b": pd.array([None], "boolean")}
    frame = pd.DataFrame({"c": pd.Categorical([3]), "z": zone, **empty})
    table = to_table(frame, "frame")
    kinds = [table.column(at).kind for at in range(4)]
    assert kinds == ["text", "date", "number", "boolean"]
    assert table.column(1).values[0] == np.datetime64("2019-12-31T23:00")
    assert "several levels" in refused(to_table, pd.DataFrame({("a", "b"): [1]}), "frame")


def test_lists_in_a_column_are_refused():
    for frame in (pl.DataFrame({"x": [[1, 2]]}), pa.table({"x": [[1, 2]]})):
        assert "column 'x' holds" in refused(to_table, frame, "features")


def test_an_empty_frame_is_refused(make):
    assert "features has no rows" in refused(to_table, make({"x": []}), "features")
