"""Tables about nodes in the forms people use: rows are matched by id, in any order."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, GraphError, GraphWarning
from dhilgt.readers.node_tables import labels_of, open_table, split_of

NUMBERS = {"ann": [1.5, -2.0], "bob": [0.25, 3.0], "cid": [1e-3, 0.0]}


@pytest.fixture
def write(tmp_path):
    def write(data, name="file.csv"):
        file = tmp_path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    return write


@pytest.fixture
def edges(write):
    return write("ann,bob\nbob,cid\n", "edges.csv")


def refused(call, *args, **options):
    with pytest.raises(GraphError) as caught:
        call(*args, **options)
    return str(caught.value)


# ---- features ----------------------------------------------------------------------------------

FEATURES = {
    "header": "id,age,height\nann,1.5,-2\nbob,.25,3\ncid,1e-3,0\n",
    "no header": "ann,1.5,-2\nbob,.25,3\ncid,1e-3,0\n",
    "another order": "cid,1e-3,0\nann,1.5,-2\nbob,.25,3\n",
    "id last": "age,height,node_id\n1.5,-2,ann\n.25,3,bob\n1e-3,0,cid\n",
    "own name of the ids": "paper_id,age,height\nann,1.5,-2\nbob,.25,3\ncid,1e-3,0\n",
    "row names without a heading": ",age,height\nann,1.5,-2\nbob,.25,3\ncid,1e-3,0\n",
    "mark, CRLF": b"\xef\xbb\xbfid,age,height\r\nann,1.5,-2\r\nbob,.25,3\r\ncid,1e-3,0\r\n",
    "tabs": "node\tage\theight\nann\t1.5\t-2\nbob\t.25\t3\ncid\t1e-3\t0\n",
    "blanks": "ann 1.5  -2\nbob .25 3\ncid 1e-3 0\n",
    "semicolons": "id;age;height\nann;1.5;-2\nbob;.25;3\ncid;1e-3;0\n",
    "decimal commas": "id;age;height\nann;1,5;-2\nbob;0,25;3\ncid;1e-3;0\n",
    "decimal commas alone": "ann;1,5;-2,0\nbob;0,25;3,0\ncid;0,001;0,0\n",
    "gzip": gzip.compress(b"id,age,height\nann,1.5,-2\nbob,.25,3\ncid,1e-3,0\n"),
    "remarks, gaps, quotes": '# made today\nid,age,height\n\n"ann",1.5,-2\nbob, .25, 3\ncid,1e-3,0',
}


@pytest.mark.parametrize("name", FEATURES)
def test_features_are_read_in_any_form(write, edges, name):
    graph = Graph.read(edges, features=write(FEATURES[name]))
    for node, row in NUMBERS.items():
        assert graph.features[graph.index_of(node)] == pytest.approx(row)


def test_features_from_parquet(tmp_path, edges):
    names = list(NUMBERS)[::-1]
    columns = dict(zip("ab", np.array([NUMBERS[n] for n in names]).T, strict=True))
    pq.write_table(pa.table({**columns, "id": names}), tmp_path / "x.parquet")
    graph = Graph.read(edges, features=tmp_path / "x.parquet")
    assert graph.features[graph.index_of("ann")].tolist() == [1.5, -2]


@settings(deadline=None, max_examples=25)
@given(st.permutations(range(6)), st.permutations(range(6)), st.booleans())
def test_the_order_of_rows_does_not_matter(tmp_path_factory, one, other, text):
    folder = tmp_path_factory.mktemp("files")
    ids = [f"n{v}" if text else 10 * v for v in range(6)]
    (folder / "e.csv").write_text("".join(f"{ids[v]},{ids[(v + 1) % 6]}\n" for v in range(6)))
    (folder / "x.csv").write_text("id,a\n" + "".join(f"{ids[v]},{v / 2}\n" for v in one))
    (folder / "y.csv").write_text("id,label\n" + "".join(f"{ids[v]},{v % 3}\n" for v in other))
    graph = Graph.read(folder / "e.csv", features=folder / "x.csv", labels=folder / "y.csv")
    at = graph.index_of(ids)
    assert graph.features[at, 0].tolist() == [v / 2 for v in range(6)]
    assert graph.labels[at].tolist() == [v % 3 for v in range(6)]


def test_a_node_with_features_and_no_edge_is_kept(write, edges):
    with pytest.warns(GraphWarning, match="nodes with features and no edge: 1"):
        graph = Graph.read(edges, features=write("id,a\ndan,4\nann,1\ncid,3\nbob,2\n"))
    assert graph.nodes.tolist() == ["ann", "bob", "cid", "dan"]
    assert graph.features.ravel().tolist() == [1, 2, 3, 4]
    assert graph.degrees.tolist() == [1, 2, 1, 0]


def test_rows_of_arrays_follow_the_list_of_nodes(write, edges, tmp_path):
    nodes = write("cid\nann\nbob\n", "nodes.txt")
    np.save(tmp_path / "x.npy", [[3], [1], [2]])
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.coo_array([[3], [1], [2]]))
    labels = write("id,label\nbob,2\nann,1\n", "y.csv")
    for name in ("x.npy", "x.npz"):
        graph = Graph.read(edges, nodes=nodes, features=tmp_path / name, labels=labels)
        x = graph.features if name == "x.npy" else graph.features.toarray()
        assert x.ravel().tolist() == [1, 2, 3]
        assert graph.labels.tolist() == [1, 2, -1]


def test_ids_that_look_like_numbers_fit_ids_that_are_strings(write):
    edges = write("007,a\na,1\n", "edges.csv")
    graph = Graph.read(edges, labels=write("id,label\n007,x\n1,y\n"))
    assert graph.labels[graph.index_of(["007", "1", "a"])].tolist() == [0, 1, -1]
    numbers = write("1,2\n2,3\n", "numbers.csv")  # a table with gaps had its ids made 1.0, 2.0
    assert Graph.read(numbers, labels=write("id,label\n3.0,1\n1.0,0\n")).labels.tolist() == [
        0, -1, 1,
    ]  # fmt: skip


FEATURE_FAULTS = {
    "word": ("id,age\nann,1\nbob,old\ncid,2\n", ["line 3, column 'age'", "'old'", "not a number"]),
    "infinite": ("ann,1,2\nbob,2,1e99\ncid,2,2\n", ["line 2, column '2' = 1e+99", "finite"]),
    "first line": ("ann,1,x\nbob,2,1\ncid,2,2\n", ["line 1, column '2' = 'x'", "not a number"]),
    "twice": ("id,a\nann,1\nbob,2\ncid,3\nann,4\n", ["line 5: 'ann'", "line 2"]),
    "missing": ("id,a\nann,1\nbob,2\n", ["2 rows", "3 nodes", "'cid' has no features"]),
    "no ids": ("age,height\n1,2\n3,4\n5,6\n", ["no column of ids", "age, height", "'id'"]),
    "no id": ("id,a\nann,1\n,2\ncid,3\n", ["line 3 has no id"]),
    "two of a name": ("id,a,a\nann,1,2\n", ["two columns 'a'"]),
    "uneven": ("id,a,b\nann,1,2\nbob,1\ncid,1,2\n", ["line 3 has 2 fields, line 1 has 3"]),
    "one column": ("1\n2\n3\n", ["one column", "column of ids"]),
    "header alone": ("id,a\n", ["a header and no rows"]),
    "not UTF-8": (b"id,a\nann,1\nb\xf6b,2\n", ["line 3 is not UTF-8"]),
    "UTF-16": ("id,a\nann,1\n".encode("utf-16"), ["UTF-16"]),
    "CR alone": ("id,a\rann,1\rbob,2\r", ["CR alone"]),
    "cut gzip": (gzip.compress(b"id,a\nann,1\n" * 99)[:-20], ["damaged gzip"]),
    "points and grouped commas": ("id,a\nann,1\nbob,\"1,5\"\n", ["line 3", "'1,5'"]),
    "remarks alone": ("# nothing\n\n", ["only blank lines"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FEATURE_FAULTS)
def test_faults_in_features_are_named(write, edges, name):
    data, words = FEATURE_FAULTS[name]
    file = write(data)
    message = refused(Graph.read, edges, features=file)
    assert [word for word in (str(file), *words) if word not in message] == []


def test_faults_in_parquet_features_are_named(tmp_path, edges):
    def message(**columns):
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        return refused(Graph.read, edges, features=tmp_path / "x.parquet")

    ids = list(NUMBERS)
    assert "row 2, column 'a' = inf" in message(id=ids, a=[1.0, 2.0, float("inf")])
    assert "column 'a' holds list" in message(id=ids, a=[[1.0], [2.0], [3.0]])
    assert "no column of ids" in message(a=[1.0], b=[2.0])
    assert "row 1 has no id" in message(id=["ann", None, "cid"], a=[1, 2, 3])
    assert "has one column" in message(id=ids)
    assert "row 2: 'ann' has a row already (row 0)" in message(id=["ann", "bob", "ann"], a=[1] * 3)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "x.parquet").read_bytes()[:80])
    assert "damaged Parquet" in refused(open_table, tmp_path / "cut.parquet", "features")


def test_arrays_name_their_file(write, tmp_path):
    edges = write("0,1\n1,2\n", "edges.csv")
    np.save(tmp_path / "x.npy", np.ones((2, 4)))
    message = refused(Graph.read, edges, features=tmp_path / "x.npy")
    assert "x.npy: features has 2 rows, but the graph has 3 nodes" in message
    np.save(tmp_path / "x.npy", [[1.0], [np.inf], [2.0]])
    assert "x.npy: features[1, 0] = inf" in refused(Graph.read, edges, features=tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    assert "could run code" in refused(Graph.read, edges, features=tmp_path / "x.npy")


def test_a_sparse_file_that_lies_about_its_columns_is_refused(write, tmp_path):
    matrix = scipy.sparse.eye_array(3, format="csr")
    parts = {"format": b"csr", "shape": matrix.shape, "data": matrix.data, "indptr": matrix.indptr}
    np.savez(tmp_path / "x.npz", indices=matrix.indices + 5, **parts)
    message = refused(Graph.read, write("0,1\n1,2\n"), features=tmp_path / "x.npz")
    assert "not a sound sparse matrix" in message


# ---- labels ------------------------------------------------------------------------------------


def test_missing_rows_and_empty_cells_are_unlabelled(write, edges):
    graph = Graph.read(edges, labels=write("id,label\nbob,\ncid,red\n"))
    assert (graph.labels.tolist(), graph.class_names) == ([-1, -1, 0], ("red",))


LABELS = {
    "words": ("id,label\na,red\nb,\n", ["red", None]),
    "numbers": ("id,y\na,3\nb,-1\n", [3, None]),
    "numbers with gaps": ("id,y\na,3.0\nb,\n", [3, None]),
    "numbers and words": ("id,y\na,3\nb,x\n", ["3", "x"]),
    "no header": ("a,red\nb,blue\n", ["red", "blue"]),
    "header found by the ids": ("paper,topic\n1,ML\n2,DB\n", ["ML", "DB"]),
    "a column among others": ("name,age,class\na,30,x\nb,40,y\n", ["x", "y"]),
    "words with blanks": ("a,deep learning\nb,data bases\n", ["deep learning", "data bases"]),
    "not a number": ("id,label\na,nan\nb,NaN\nc,1\n", [None, None, 1]),
}


@pytest.mark.parametrize("name", LABELS)
def test_classes_are_numbers_or_words(write, name):
    text, classes = LABELS[name]
    assert list(labels_of(open_table(write(text), "labels"), None).values) == classes


def test_labels_from_parquet(tmp_path):
    written = pa.table({"node": [5, 7, 9], "label": pa.array([1, None, 0])})
    pq.write_table(written, tmp_path / "y.parquet")
    table = labels_of(open_table(tmp_path / "y.parquet", "labels"), None)
    assert (list(table.ids), table.values) == ([5, 7, 9], [1, None, 0])


LABEL_FAULTS = {
    "unknown": ("id,label\nann,1\nbib,2\n", ["line 3: 'bib' is not a node", "'bob'", "nodes="]),
    "regression": ("id,label\nann,0.5\n", ["line 2: 0.5 is not a class"]),
    "all empty": ("id,label\nann,\n", ["holds no class"]),
    "twice": ("id,label\nann,1\nann,2\n", ["line 3: 'ann' has a row already (line 2)"]),
    "which": ("id,a,b\nann,1,2\n", ["columns id, a, b", "which one is the class"]),
}


@pytest.mark.parametrize("name", LABEL_FAULTS)
def test_faults_in_labels_are_named(write, edges, name):
    text, words = LABEL_FAULTS[name]
    file = write(text)
    message = refused(Graph.read, edges, labels=file)
    assert [word for word in (str(file), *words) if word not in message] == []


def test_an_id_of_another_kind_is_named(write):
    numbers = write("1,2\n2,3\n", "edges.csv")
    message = refused(Graph.read, numbers, labels=write("id,label\n1,0\nx7,1\n"))
    assert "line 3: 'x7' is not the id of a node" in message
    assert "integers" in message
    assert "64 bits" in refused(Graph.read, numbers, labels=write(f"id,label\n{2**70},0\n"))


# ---- splits ------------------------------------------------------------------------------------


def test_a_split_by_the_words_people_use(write, edges):
    labels = write("id,label\nann,1\nbob,0\ncid,1\n", "y.csv")
    split = write("node,split\ncid,Validation\nann,train\nbob,TEST\n", "s.csv")
    graph = Graph.read(edges, labels=labels, masks=split)
    assert {name: mask.tolist() for name, mask in graph.masks.items()} == {
        "train": [True, False, False], "test": [False, True, False], "val": [False, False, True],
    }  # fmt: skip
    assert split_of(open_table(write("a,dev\nb,\n"), "masks"), None).values == ["val", None]


def test_test_nodes_without_a_label_are_not_scored(write, edges):
    labels = write("id,label\nann,1\n", "y.csv")
    split = write("ann,train\nbob,test\n", "s.csv")
    with pytest.warns(GraphWarning, match="test nodes without a label: 1"):
        assert set(Graph.read(edges, labels=labels, masks=split).masks) == {"train"}


def test_faults_in_a_split_are_named(write, edges):
    labels = write("id,label\nann,1\nbob,0\n", "y.csv")

    def message(text):
        return refused(Graph.read, edges, labels=labels, masks=write(text, "s.csv"))

    assert "line 2: 'trian' is not a part; did you mean 'train'?" in message("ann,val\nbob,trian\n")
    assert "line 1: node 'cid' is in 'train' and has no label" in message("cid,train\nann,val\n")
    assert "line 2: 'ann' has a row already" in message("ann,train\nann,test\n")
    assert "one column" in message("train\nval\n")


# ---- with_data ---------------------------------------------------------------------------------


def test_with_data_replaces_what_is_given_and_keeps_the_rest():
    graph = Graph.from_edges([5, 6], [6, 7], features=[[1], [2], [3]], labels=[0, 1, -1])
    other = graph.with_data(labels={7: "x", 5: "y"})
    assert other.labels.tolist() == [1, -1, 0]
    assert other.features is graph.features
    assert other.fingerprint == graph.fingerprint
    split = other.with_data(masks={"train": [True, False, False]})
    assert split.masks["train"].tolist() == [True, False, False]
    with pytest.raises(GraphError, match="no label"):
        split.with_data(labels=[-1, 0, 0])
    with pytest.raises(GraphError, match="2 rows"):
        graph.with_data(features=[[1], [2]])
