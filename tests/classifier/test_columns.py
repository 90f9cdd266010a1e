"""A classifier knows the columns of its features by name: of graphs read from tables, of frames."""

import json

import numpy as np
import pytest

import dhilgt
from dhilgt.classifier.inputs import prepare
from dhilgt.classifier.serving import export_classifier
from dhilgt.errors import GraphError, GraphWarning
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.table import Column
from tests.classifier.cases import community_graph, quick

GROUPS = np.array(["ash", "birch", "cedar"])


def table(**changes):
    """Columns for the nodes of `community_graph`; one that is None is left out."""
    x = community_graph().features
    present = np.zeros(90, bool)
    plan = GROUPS[np.arange(90) % 3].astype(object)
    values = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "plan": plan} | changes
    return [
        Column(name, np.asarray(one), present) for name, one in values.items() if one is not None
    ]


def graph_of(columns, fitted=None):
    fitted = fitted or FeatureColumns.fit(columns)
    graph = community_graph(features=fitted.encode(columns, "x"))
    return graph.with_nodes(feature_columns=fitted)


@pytest.fixture(scope="module")
def clf():
    return quick(epochs=10).fit(graph_of(table()))


# ---- graphs ------------------------------------------------------------------------------------


def test_another_graph_is_matched_by_name(clf):
    other = graph_of(table()[::-1])
    assert other.features.shape[1] == clf.n_features_in_
    assert not np.array_equal(other.features, clf.graph_.features)
    assert np.array_equal(clf.predict_proba(graph=other), clf.predict_proba())


def test_a_graph_with_fewer_values_of_a_category_is_matched(clf):
    plan = np.where(np.arange(90) % 3 == 2, "ash", GROUPS[np.arange(90) % 3]).astype(object)
    other = table(plan=plan)
    encoded = graph_of(other, clf.feature_columns_)
    assert graph_of(other).features.shape[1] == clf.n_features_in_ - 1
    expected = clf.predict_proba(graph=encoded)
    assert np.array_equal(clf.predict_proba(graph=graph_of(other)), expected)


def test_a_missing_column_is_refused_and_a_further_one_named(clf):
    with pytest.raises(GraphError, match=r"graph lacks 1 of the 4 columns of training: 'b'"):
        clf.predict(graph=graph_of(table(b=None)))
    with pytest.warns(GraphWarning, match="columns that training did not have are not used: 'd'"):
        found = clf.predict_proba(graph=graph_of(table(d=np.arange(90.0))))
    assert np.array_equal(found, clf.predict_proba())


def test_a_graph_encoded_in_another_way_is_refused_with_the_way_out(clf):
    gaps = table()
    gaps[1] = Column("b", gaps[1].values, np.arange(90) == 4)
    with pytest.raises(GraphError) as caught:
        clf.predict(graph=graph_of(gaps))
    assert "column 'b' was encoded as a number whose 1 empty cells are" in str(caught.value)
    assert "feature_columns=clf.feature_columns_" in str(caught.value)
    with pytest.warns(GraphWarning, match="empty cells, filled as in training: b 1"):
        assert len(clf.predict(graph=graph_of(gaps, clf.feature_columns_))) == 90
    words = table(b=np.array(["low", "high"] * 45, dtype=object))
    with pytest.raises(GraphError, match="column 'b' was encoded as a category of 2 values, in tr"):
        clf.predict(graph=graph_of(words))


def test_a_graph_read_from_files_takes_the_columns_of_the_model(clf, tmp_path):
    only_numbers = quick().fit(graph_of(table(plan=None)))
    edges, x = tmp_path / "edges.csv", tmp_path / "x.csv"
    pairs = clf.graph_.to_edge_index().T.tolist()
    edges.write_text("".join(f"{u},{v}\n" for u, v in pairs if u < v))
    lines = [f"{node},{c},{a},{b}" for node, (a, b, c) in enumerate(clf.graph_.features[:, :3])]
    x.write_text("id,c,a,b\n" + "\n".join(lines))
    expected = only_numbers.predict_proba()
    read = dhilgt.Graph.read(edges, features=x)
    assert read.notes[0] == f"{x}: 3 columns, numbers without a gap"
    assert np.array_equal(only_numbers.predict_proba(graph=read), expected)
    read = dhilgt.Graph.read(edges, features=x, feature_columns=only_numbers.feature_columns_)
    assert read.feature_columns == only_numbers.feature_columns_
    assert np.array_equal(only_numbers.predict_proba(graph=read), expected)


def test_arrays_have_no_names(clf):
    plain = community_graph(features=clf.graph_.features)
    assert np.array_equal(clf.predict_proba(graph=plain), clf.predict_proba())
    narrow = community_graph(features=clf.graph_.features[:, 1:])
    with pytest.raises(GraphError, match=r"expecting 6 features as input \(a, b, c, plan=ash, pla"):
        clf.predict(graph=narrow)
    unnamed = quick().fit(plain)
    with pytest.warns(GraphWarning, match="graph has names of columns, which the classifier has n"):
        unnamed.predict(graph=clf.graph_)


def test_the_columns_are_saved_with_the_model(clf, tmp_path):
    clf.save(tmp_path / "run")
    again = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert again.feature_columns_ == clf.feature_columns_
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "plan"]
    other = graph_of(table()[::-1])
    assert np.array_equal(again.predict_proba(graph=other), clf.predict_proba())


def test_an_exported_model_names_its_features(clf, tmp_path):
    facts = export_classifier(clf, tmp_path / "model.pt2").read_text()
    names = ["a", "b", "c", "plan=ash", "plan=birch", "plan=cedar"]
    assert json.loads(facts)["feature_names"] == names


# ---- frames ------------------------------------------------------------------------------------


def frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 2
    return pandas.DataFrame(
        {
            "size": kind * 4.0 + rng.normal(size=60),
            "since": pandas.to_datetime("1970-01-01") + pandas.to_timedelta(kind, unit="D"),
            "plan": pandas.Categorical(kind + 7),
            "active": pandas.array([True, False, None] * 20, dtype="boolean"),
            "name": [f"person {at}" for at in range(60)],
        }
    ), kind


def test_rows_of_a_frame_are_matched_by_name():
    rows, y = frame()
    clf = quick(epochs=8, lr=0.05).fit(rows, y)
    assert clf.feature_columns_.names == ("size", "since", "plan=7", "plan=8", "active")
    assert clf.feature_names_in_.tolist() == list(rows.columns)
    assert clf.graph_.features[:2, 1:].tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert clf.graph_.features[2, 4] == 0.5
    turned = rows[["active", "plan", "since", "size"]]
    assert np.array_equal(clf.predict_proba(turned), clf.predict_proba(rows))
    assert clf.score(turned, y) > 0.9
    with pytest.raises(GraphError, match="X lacks 1 of the 4 columns of training: 'plan'"):
        clf.predict(rows.drop(columns="plan"))
    with pytest.warns(GraphWarning, match="columns that training did not have are not used: 'age'"):
        clf.predict(rows.assign(age=3))
    with pytest.raises(GraphError, match="X, row 0, column 'size' = 'big' is not a number"):
        clf.predict(rows.assign(size="big"))
    assert len(clf.predict(clf.graph_.features)) == 60  # an array has no names


def test_a_frame_without_names_is_an_array():
    rows, y = frame()
    numbers = rows[["size"]].rename(columns={"size": 0})
    clf = quick().fit(numbers, y)
    assert clf.feature_columns_ is None
    assert not hasattr(clf, "feature_names_in_")
    with pytest.warns(GraphWarning, match="X has names of columns, which the classifier has not"):
        clf.predict(rows[["size"]])


@pytest.mark.filterwarnings("ignore::dhilgt.TrainingWarning")
def test_a_series_of_classes_is_matched_by_its_index_not_by_its_order():
    pandas = pytest.importorskip("pandas")
    names = ["ann", "bob", "cid", "dan"]
    graph = dhilgt.Graph.from_edges(names, names[1:] + names[:1], features=np.eye(4))
    y = pandas.Series(["x", "y", "y", "x"], index=["dan", "cid", "bob", "ann"])
    inputs = prepare(graph, y, train=None, val=[], validation=0.2, seed=0)
    assert inputs.classes[inputs.graph.labels].tolist() == ["x", "y", "y", "x"]
    assert inputs.graph.nodes.tolist() == names
    y = pandas.Series(["x", "x", "y"], index=["dan", "ann", "cid"])
    inputs = prepare(graph, y, train=None, val=[], validation=0.2, seed=0)
    assert inputs.graph.labels.tolist() == [0, -1, 1, 0]
