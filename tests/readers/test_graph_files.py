"""Files of edges in every form people use."""

import gzip
import re
import sys
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, GraphError, GraphWarning, _native

pytestmark = pytest.mark.filterwarnings("error::dhilgt.GraphWarning")


@pytest.fixture
def write(tmp_path):
    def write(content, name="edges.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def edges_of(graph):
    """The undirected edges by id, each once."""
    u, v = graph.to_edge_index()
    pairs = zip(graph.ids_of(u).tolist(), graph.ids_of(v).tolist(), strict=True)
    return {pair for pair in pairs if pair[0] < pair[1]}


PATH = {(1, 2), (2, 30)}
SHAPES = {
    "comma": "1,2\n2,30\n",
    "tab": "1\t2\n2\t30\n",
    "semicolon": "1;2\n2;30\n",
    "bar": "1|2\n2|30\n",
    "trailing commas": "1,2,\n2,30,\n",
    "header with trailing commas": "from,to,\n1,2,\n2,30,\n",
    "space": "1 2\n2 30\n",
    "ragged blanks": "  1   2  \n\t2 \t 30\n",
    "comma and space": "1, 2\n2 ,30 \n",
    "no last newline": "1,2\n2,30",
    "CRLF": "1,2\r\n2,30\r\n",
    "BOM": "\ufeff1,2\n2,30\n",
    "BOM and header": "\ufeffsource,target\r\n1,2\r\n2,30\r\n",
    "header": "a,b\n1,2\n2,30\n",
    "comments": "# a graph\n  % of two edges\n\n1 2\n2 30\n",
    "blank lines": "\n\n1,2\n   \n2,30\n\n\n",
    "quotes": '"1","2"\n"2","30"\n',
    "plus signs": "+1,2\n2,+30\n",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("compressed", [False, True])
def test_text_of_every_shape(write, shape, compressed):
    content = SHAPES[shape].encode()
    path = write(gzip.compress(content) if compressed else content)
    graph = Graph.read(path)
    assert edges_of(graph) == PATH
    assert graph.node_ids.tolist() == [1, 2, 30]


STRINGS = {
    "plain": ("ann,bob\nbob,cid\n", {("ann", "bob"), ("bob", "cid")}),
    "known header": ("Source,Target\nann,bob\n", {("ann", "bob")}),
    "spaces inside": ("Ann A.,Bob B.\n", {("Ann A.", "Bob B.")}),
    "quoted separator": ('"a,b",c\n', {("a,b", "c")}),
    "quoted quote": ('"say ""hi""","x"\n', {('say "hi"', "x")}),
    "two quoted quotes": ('"a""b","c""d"\n', {('a"b', 'c"d')}),
    "quoted comment sign": ('"#tag",b\n', {("#tag", "b")}),
    "unicode": ("zoë\t東京\n", {("zoë", "東京")}),
    "mixed": ("x1,2\n2,3\n", {("2", "x1"), ("2", "3")}),
    "longer than 64 bits": (
        "x,99999999999999999999\n",
        {("99999999999999999999", "x")},
    ),
}


@pytest.mark.parametrize("case", STRINGS)
def test_string_ids(write, case):
    content, expected = STRINGS[case]
    assert edges_of(Graph.read(write(content))) == expected


def test_a_late_word_turns_all_ids_into_strings_and_says_so(write):
    with pytest.warns(GraphWarning, match="line 3: 'x' is not an integer, so all ids"):
        graph = Graph.read(write("1,2\n2,3\n007,x\n"))
    assert graph.nodes.tolist() == ["007", "1", "2", "3", "x"]


def test_headers_and_columns(write):
    path = write("when,from,to\n5,1,2\n6,2,30\n")
    assert edges_of(Graph.read(path, columns=("from", "to"))) == PATH
    assert edges_of(Graph.read(path, columns=(1, 2))) == PATH
    assert edges_of(Graph.read(path, columns=(2, 1))) == PATH
    swapped = Graph.read(path, columns=("to", "from"), directed=True)
    assert swapped.neighbors(30).tolist() == [2]
    names = write("x,y\nann,bob\n")
    assert Graph.read(names, header=False).num_nodes == 4
    assert Graph.read(names, header=True).num_nodes == 2
    known = write("src,dst\nann,bob\n")
    assert Graph.read(known, header=False).num_nodes == 4


def test_the_caller_may_know_better(write):
    assert edges_of(Graph.read(write("a, b,\n"), separator=" ")) == {("a,", "b,")}
    assert edges_of(Graph.read(write("a;b,c\n"), separator=";")) == {("a", "b,c")}
    assert edges_of(Graph.read(write("1,2\n2,30\n"), format="csv")) == PATH
    assert edges_of(Graph.read(write("1\t2\n2\t30\n"), format="tsv")) == PATH
    graph = Graph.read(write("0,1\n"), num_nodes=5)
    assert (graph.num_nodes, graph.node_ids) == (5, None)
    assert edges_of(Graph.read(write("1,2,0.5\n2,30,7\n"), weights="ignore")) == PATH
    directed = Graph.read(write("1,2\n2,30\n"), directed=True)
    assert directed.num_edges == 2


BAD_TEXT = {
    "one column": (
        "1,2\n7\n",
        {"separator": ","},
        ["line 2", "'7'", "too few columns", "columns="],
    ),
    "no separator": ("1\n7\n", {}, ["line 1", "'1'", "two ids"]),
    "three columns": (
        "1,2\n1,2,0.5\n",
        {},
        ["line 2", "'1,2,0.5'", "weights='ignore'", "columns=(0, 1)"],
    ),
    "header of three": ("a,b,w\n1,2,3\n", {}, ["columns a, b, w", "weights='ignore'"]),
    "lacking id": ("1,2\n3,\n", {}, ["line 2", "'3,'", "lacks an id"]),
    "open quote": ('a,b\n"c,d\n', {}, ["line 2", "not closed"]),
    "junk after quote": ('a,b\n"c"x,d\n', {}, ["line 2", "quote"]),
    "not UTF-8": (
        b"a,b\n\n\ncaf\xe9,b\n",
        {},
        ["line 4", r"caf\\xe9", "save the file as UTF-8"],
    ),
    "overlong UTF-8": (b"a,b\n\xc0\xaf,b\n", {}, ["line 2", "UTF-8"]),
    "UTF-16": ("1,2\n".encode("utf-16"), {}, ["UTF-16", "save it as UTF-8"]),
    "CR alone": ("1,2\r2,3\r", {}, ["CR alone", "LF"]),
    "one endless field": ("x" * 200_000 + "\n", {}, ["line 1", "too few columns"]),
    "binary": (b"\x7fELF\0\0\0", {}, ["binary", "known formats"]),
    "only comments": ("# nothing\n", {}, ["no edges", "one edge per line"]),
    "word as index": ("0,1\n1,x\n", {"num_nodes": 3}, ["line 2", "'x'", "leave it out"]),
    "index too large": ("0,1\n1,3\n", {"num_nodes": 3}, ["dst[1] = 3", "outside 0 to 2"]),
    "unknown column": ("a,b\n1,2\n", {"columns": ("a", "c")}, ["no column 'c'", "a, b"]),
    "column past the end": ("1,2\n", {"columns": (0, 5)}, ["line 1", "too few columns"]),
    "same column": ("1,2\n", {"columns": (1, 1)}, ["columns=(1, 1)", "two different"]),
    "one word": ("1,2\n", {"columns": "ab"}, ["columns='ab'", "two"]),
    "separator": ("1/2\n", {"separator": "/"}, ["separator='/'", "','"]),
    "format": ("1,2\n", {"format": "xls"}, ["format='xls'", "parquet"]),
    "not that format": ("1,2\n", {"format": "npz"}, ["is not npz", "leave format out"]),
    "weights word": ("1,2\n", {"weights": "yes"}, ["weights='yes'", "weights='ignore'"]),
    "web page": ("<!DOCTYPE html><html>404</html>", {}, ["web page", "login"]),
    "empty": ("", {}, ["is empty", "fetch it again"]),
    "cut gzip": (gzip.compress(b"1,2\n" * 9999)[:-20], {}, ["damaged gzip", "again"]),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text_is_refused_with_its_line(write, case):
    content, options, parts = BAD_TEXT[case]
    path = write(content)
    with pytest.raises(GraphError) as refusal:
        Graph.read(path, **options)
    message = str(refusal.value)
    for part in parts:
        assert part in message or part.replace(r"\\", "\\") in message
    if not {"columns", "separator", "format", "weights", "num_nodes"} & options.keys():
        assert str(path) in message


def test_paths_that_are_no_files(tmp_path, write):
    write("1,2\n", "friends.csv")
    with pytest.raises(GraphError, match=r"frends.csv does not exist.*did you mean .*friends.csv"):
        Graph.read(tmp_path / "frends.csv")
    with pytest.raises(GraphError, match="is a folder; pass a file in it"):
        Graph.read(tmp_path)


field = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(field, field), min_size=1, max_size=30),
    st.sampled_from([",", "\t", ";", " "]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_csv_writes_is_read(pairs, separator, newline):
    quoted = ['"' + text.replace('"', '""') + '"' for pair in pairs for text in pair]
    lines = [u + separator + v for u, v in zip(quoted[::2], quoted[1::2], strict=True)]
    parser = _native.EdgeText(
        separator=separator,
        source_column=0,
        target_column=1,
        extra_columns=False,
        ones_column=-1,
        strings=True,
        first_line=1,
    )
    parser.feed(newline.join(lines).encode(), 2)
    names, sources, targets = parser.take_strings()
    assert names == sorted({name for pair in pairs for name in pair})
    read = [(names[u], names[v]) for u, v in zip(sources, targets, strict=True)]
    assert read == pairs


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([",", "\t", " "]), st.booleans())
def test_any_bytes_are_read_or_refused(content, separator, strings):
    parser = _native.EdgeText(
        separator=separator,
        source_column=0,
        target_column=1,
        extra_columns=False,
        ones_column=-1,
        strings=strings,
        first_line=1,
    )
    refused = None
    try:
        parser.feed(content, 1)
    except _native.EdgeTextError as error:
        refused = error.args[1]
    assert refused is None or 1 <= refused <= content.count(b"\n") + 1


def test_large_text_is_the_same_on_any_number_of_threads(write, monkeypatch):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 10**6, (300_000, 2))
    content = "\n".join(f"{u} {v}" for u, v in pairs.tolist())
    path = write(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = Graph.from_edges(pairs[:, 0], pairs[:, 1])
        for threads in (1, 2, 5):
            graph = Graph.read(path, threads=threads)
            assert graph.fingerprint == expected.fingerprint
            assert np.array_equal(graph.nodes, expected.nodes)
        monkeypatch.setattr(
            "dhilgt.readers.edge_text._BLOCK_BYTES", 100_003
        )  # blocks that cut lines
        assert Graph.read(path).fingerprint == expected.fingerprint
        words = Graph.read(write(content.replace(" ", " n")), threads=2)
        assert words.num_edges == Graph.read(write(content.replace(" ", " n")), threads=1).num_edges


def test_the_first_bad_line_is_named_on_any_number_of_threads(write):
    lines = [f"{i} {i + 1}" for i in range(400_000)]
    for at in (399_999, 250_000, 131_072):
        lines[at] = f"{at}"
        for threads in (1, 4):
            with pytest.raises(GraphError, match=f"line {at + 1}: '{at}' has too few"):
                Graph.read(write("\n".join(lines)), threads=threads)


# ---- Parquet, NPZ, MatrixMarket ------------------------------------------------------------------


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "edges.parquet"

    def save(**columns):
        pq.write_table(pa.table(columns), path)
        return path

    assert edges_of(Graph.read(save(u=[1, 2], v=[2, 30]))) == PATH
    assert edges_of(Graph.read(save(u=["a"], v=["b"]))) == {("a", "b")}
    three = save(t=[0, 0], src=[1, 2], dst=[2, 30])
    with pytest.raises(GraphError, match=r"3 columns \(t, src, dst\).*weights='ignore'"):
        Graph.read(three)
    assert edges_of(Graph.read(three, columns=("src", "dst"))) == PATH
    assert edges_of(Graph.read(three, columns=(1, 2))) == PATH
    assert edges_of(Graph.read(three, weights="ignore")) == PATH
    with pytest.raises(GraphError, match="row 1 of column 'v' is empty"):
        Graph.read(save(u=[1, 2], v=[2, None]))
    with pytest.raises(GraphError, match="no column 'w'; its columns are u, v"):
        Graph.read(save(u=[1], v=[2]), columns=("u", "w"))
    with pytest.raises(GraphError, match="1 column"):
        Graph.read(save(u=[1]))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(GraphError, match="damaged Parquet"):
        Graph.read(path)


def test_npz(tmp_path):
    path = tmp_path / "edges.npz"

    def save(**arrays):
        np.savez(path, **arrays)
        return path

    src, dst = np.array([1, 2]), np.array([2, 30])
    assert edges_of(Graph.read(save(src=src, dst=dst))) == PATH
    assert edges_of(Graph.read(save(edges=np.stack([src, dst], 1)))) == PATH
    by_index = Graph.read(save(edge_index=np.array([[1, 2, 5], [2, 3, 1]])))
    assert (by_index.num_nodes, by_index.num_edges) == (6, 6)
    assert Graph.read(save(src=src, dst=dst, num_nodes=40)).num_nodes == 40
    with pytest.raises(GraphError, match=r"holds x; save src and dst"):
        Graph.read(save(x=src))
    with pytest.raises(GraphError, match=r"edges has shape \(2, 1\)"):
        Graph.read(save(edges=src.reshape(-1, 1)))
    with pytest.raises(GraphError, match="could run code"):
        Graph.read(save(src=np.array([None]), dst=np.array([None])))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(GraphError, match="cannot be read as NPZ"):
        Graph.read(path)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array"])
def test_saved_scipy(tmp_path, kind):
    dense = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0.0]])
    path = tmp_path / "a.npz"
    scipy.sparse.save_npz(path, getattr(scipy.sparse, kind)(dense))
    assert np.array_equal(Graph.read(path, directed=True).to_scipy().toarray(), dense)
    scipy.sparse.save_npz(path, getattr(scipy.sparse, kind)(dense * 3))
    with pytest.raises(GraphError, match=r"data\[0\] = 3.0.*weights='ignore'"):
        Graph.read(path)


@pytest.mark.parametrize("field_kind", ["pattern", "integer", "real"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market(tmp_path, field_kind, symmetry):
    dense = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    path = tmp_path / "a.mtx"
    scipy.io.mmwrite(
        path, scipy.sparse.coo_array(dense), field=field_kind, symmetry=symmetry, comment="ones"
    )
    for directed in (False, True):
        graph = Graph.read(path, directed=directed)
        assert np.array_equal(graph.to_scipy().toarray(), dense)
    packed = tmp_path / "a.mtx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(Graph.read(packed).to_scipy().toarray(), dense)


HEAD = "%%MatrixMarket matrix coordinate "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + "real general\n2 2 1\n1 2 0.5\n", r"line 3 has the weight '0.5'.*weights='ignore'"),
        (HEAD + "complex general\n2 2 1\n1 2 1 0\n", "complex.*weights='ignore'"),
        (HEAD + "pattern general\n2 3 1\n1 2\n", "2 x 3; an adjacency matrix is square"),
        (HEAD + "pattern general\n2 2 1\n0 2\n", "row 0 of entry 1 is outside 1 to 2"),
        (HEAD + "pattern general\n2 2 1\n1 3\n", "column 3 of entry 1 is outside 1 to 2"),
        (HEAD + "pattern general\n2 2 5\n1 2\n", "announces 5 entries and holds 1; it is cut"),
        (HEAD + "pattern general\n2 2\n1 2\n", "rows columns entries"),
        (HEAD + "pattern general\n0 0 0\n", "no nodes"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", "only 'matrix coordinate'"),
    ],
)
def test_bad_matrix_market(write, content, message):
    with pytest.raises(GraphError, match=re.compile(message, re.DOTALL)):
        Graph.read(write(content, "a.mtx"))


# ---- the files beside it -------------------------------------------------------------------------


def test_nodes_features_and_labels_from_files(write, tmp_path):
    edges = write("ann,bob\n", "edges.csv")
    nodes = write("id\nbob\nann\nzoe\n", "nodes.txt")
    np.save(tmp_path / "x.npy", [[1.0], [2.0], [3.0]])
    labels = write("node,label\nann,red\nzoe,blue\n", "y.csv")
    graph = Graph.read(edges, nodes=nodes, features=tmp_path / "x.npy", labels=str(labels))
    assert graph.nodes.tolist() == ["ann", "bob", "zoe"]
    assert graph.features.ravel().tolist() == [2, 1, 3]
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.class_names == ("blue", "red")


def test_other_files_about_nodes(write, tmp_path):
    edges = write("0 1\n", "edges.txt")
    column = write("1\n0\n", "y.txt")
    assert Graph.read(edges, labels=column).labels.tolist() == [1, 0]
    np.save(tmp_path / "y.npy", np.array([0, 2]))
    assert Graph.read(edges, labels=tmp_path / "y.npy").num_classes == 3
    scipy.sparse.save_npz(tmp_path / "s.npz", scipy.sparse.eye_array(2, format="csr"))
    assert Graph.read(edges, features=tmp_path / "s.npz").features.shape == (2, 2)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3)))
    assert Graph.read(edges, features=tmp_path / "x.npz").features.shape == (2, 3)
    np.save(tmp_path / "bad.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(GraphError, match=r"bad.npy cannot be read"):
        Graph.read(edges, features=tmp_path / "bad.npy")
    with pytest.raises(GraphError, match="has one column"):
        Graph.read(edges, features=column)
    with pytest.raises(GraphError, match="line 2: 0 has a row already"):
        Graph.read(edges, labels=write("0,1\n0,2\n", "twice.csv"))
    with pytest.raises(GraphError, match=r"none.csv does not exist"):
        Graph.read(edges, labels=tmp_path / "none.csv")
    with pytest.raises(GraphError, match="lists no nodes"):
        Graph.read(edges, nodes=write("id\n", "n.txt"))


def test_progress_goes_to_a_terminal_on_standard_error(write, capsys, monkeypatch):
    Graph.read(write("1,2\n"), progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    Graph.read(write("1,2\n"), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "reading edges.txt" in shown.err
