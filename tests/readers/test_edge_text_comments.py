"""Lines of edges that begin with # or %: ids, or comments that are counted, never lost."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, GraphError

pytestmark = pytest.mark.filterwarnings("error::dhilgt.GraphWarning")


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        path = tmp_path / "edges.txt"
        path.write_text(content)
        return Graph.read(path, **options)

    return read


def edges_of(graph):
    """The undirected edges by id, each once."""
    u, v = graph.to_edge_index()
    pairs = zip(graph.ids_of(u).tolist(), graph.ids_of(v).tolist(), strict=True)
    return {pair for pair in pairs if pair[0] < pair[1]}


def test_ids_that_begin_with_a_sign_live(read):
    graph = read("ann,#cats\n#cats,bob\n#dogs,ann\nbob,%x\n")
    assert edges_of(graph) == {("#cats", "ann"), ("#cats", "bob"), ("#dogs", "ann"), ("%x", "bob")}
    assert any("2 edges on lines that begin with # or %" in note for note in graph.notes)


def test_a_file_of_hashtags_has_no_comments(read):
    assert edges_of(read("#a,#b\n#b,#c\n")) == {("#a", "#b"), ("#b", "#c")}
    assert edges_of(read("# tags\n#a,#b\n#b,#c\n")) == {("#a", "#b"), ("#b", "#c")}
    assert edges_of(read("#a,x\nx,y\n#b,y\n")) == {("#a", "x"), ("x", "y"), ("#b", "y")}


LEADING = {
    "SNAP": ("# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n1\t2\n2\t3\n", 2, "#"),
    "KONECT": ("% sym unweighted\n% 2 3 3\n1 2\n2 3\n", 2, "%"),
    "tight": ("#nodes 3\n#edges 2\n1 2\n2 3\n", 2, "#"),
    "header": ("#source,target\n1,2\n2,3\n", 1, "#"),
    "both": ("# one\n\n% two\n1 2\n2 3\n", 2, "# or %"),
}


@pytest.mark.parametrize("case", LEADING)
def test_comments_before_the_first_edge_are_counted(read, case):
    content, count, sign = LEADING[case]
    graph = read(content)
    assert edges_of(graph) == {(1, 2), (2, 3)}
    lines = "1 line" if count == 1 else f"{count} lines"
    assert f"skipped {lines} before the first edge" in graph.notes[0]
    assert graph.notes[0].endswith(f"with {sign}")


def test_a_header_behind_a_sign_is_no_edge_between_words_either(read):
    graph = read("#source,target\nann,bob\nbob,cid\n")
    assert edges_of(graph) == {("ann", "bob"), ("bob", "cid")}
    assert "skipped 1 line" in graph.notes[0]


def test_more_comments_than_are_looked_at_first(read):
    graph = read(("# " + "remark " * 100 + "\n") * 3000 + "1 2\n2 3\n")
    assert edges_of(graph) == {(1, 2), (2, 3)}
    assert "skipped 3,000 lines" in graph.notes[0]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("1 2\n# part two\n2 3\n", "line 2: '# part two'"),
        ("1 2\n2 3\n#4 5\n", "line 3: '#4 5'"),  # not a reason to read all ids as strings
        ("1,2\n% x\n2,3\n", "line 2: '% x'"),
        ("ann bob\n# two\nbob cid\n", "line 2: '# two'"),  # two columns, but no id
        ("ann,bob\n# so, what\nbob,cid\n", "line 2: '# so, what'"),
        ("ann,bob\n## two,parts\nbob,cid\n", "line 2: '## two,parts'"),
        ("ann,bob\n#a,b,c\nbob,cid\n", "line 2: '#a,b,c'"),
    ],
)
def test_a_comment_between_edges_is_refused_until_it_is_allowed(read, content, line):
    with pytest.raises(GraphError) as refusal:
        read(content)
    message = str(refusal.value)
    sign = line.split("'")[1][0]
    assert line in message
    assert f"comment={sign!r}" in message
    assert "comment=''" in message
    graph = read(content, comment=sign)
    assert graph.num_edges == 4 - 2 * (content.count("\n") - 1 - content.count(sign) > 2)
    assert any(f"skipped 1 line of comments ({sign})" in note for note in graph.notes)


@pytest.mark.parametrize(
    "content",
    [
        "#a,b\n#c,d\nx,y\n",
        "#ann,bob\nbob,cid\n",
        "#ann,eve\nbob,cid\n",
        "#a,b\n#b,c\n",
        "%a b\n%b c\nx y\n",
    ],
)
def test_lines_that_may_be_comments_or_edges_are_refused(read, content):
    with pytest.raises(GraphError, match=r"line 1: .* may be a comment or an edge; pass comment='"):
        read(content)
    every = read(content, comment="", header=False)
    assert every.num_edges == 2 * (content.count("\n"))


def test_no_comments_at_all(read):
    assert edges_of(read("# a\n# b\n", separator=" ", comment="")) == {("#", "a"), ("#", "b")}


@pytest.mark.parametrize("comment", ["//", "a", "1", " ", '"', "é", "-"])
def test_bad_signs(read, comment):
    with pytest.raises(GraphError, match=r"comment=.*pass one sign like '#', or ''"):
        read("1 2\n", comment=comment)


def test_matrix_market_keeps_its_comments(read):
    head = "%%MatrixMarket matrix coordinate pattern symmetric\n% one\n%two\n"
    assert read(head + "3 3 2\n2 1\n3 2\n").num_edges == 4
    with pytest.raises(GraphError, match="line 5: '% one' looks like a comment"):
        read("%%MatrixMarket matrix coordinate pattern symmetric\n\n3 3 2\n2 1\n% one\n3 2\n")


words = st.sampled_from(["ann", "bob", "#cats", "%x", "c#", "#1"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(words, words), min_size=1, max_size=12),
    st.sampled_from([",", "\t", " ", "|"]),
    st.booleans(),
)
def test_every_edge_is_read_or_the_file_is_refused(tmp_path_factory, pairs, separator, directed):
    path = tmp_path_factory.getbasetemp() / "edges.txt"
    path.write_text("".join(f"{u}{separator}{v}\n" for u, v in pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = Graph.from_edges(*np.array(pairs, dtype=object).T, directed=directed)
        error = None
        try:
            graph = Graph.read(path, directed=directed, header=False)
        except GraphError as refusal:
            error = refusal
            graph = expected
    assert error is None or error.mentions("comment")
    assert graph.fingerprint == expected.fingerprint
    assert graph.nodes.tolist() == expected.nodes.tolist()
