"""One rule finds the separator of edges, tables and lists, and one function splits their lines."""

import pytest

from dhilgt import Graph, GraphError
from dhilgt.readers.node_lists import read_nodes
from dhilgt.readers.separators import find_separator, split_fields

EDGES = {
    "commas": (["1,2", "2,3"], ","),
    "tabs": (["1\t2", "2\t3"], "\t"),
    "semicolons": (["1;2", "2;3"], ";"),
    "blanks": (["ann bob", "bob  cid"], " "),
    "commas and blanks": (["1, 2", "2, 3"], ","),
    "a comma and blanks inside ids": (["Ann A.,Bob B.", "Bob B.,Cid"], ","),
    "decimal commas": (["1;2;0,5", "2;3;0,7"], ";"),
    "commas inside ids": (["Smith, J.\tDoe, A.", "Doe, A.\tRoe, B."], "\t"),
    "a damaged line": (["1,2", "2", "3,4"], ","),
    "lines of unequal width": (["1, 2", "1, 2, 0.5"], ","),
    "no separator at all": (["1", "2"], " "),
    "an empty line": ([""], " "),
}
TABLES = {
    "commas": (["id,x", "ann,1"], ","),
    "decimal commas": (["ann;0,5", "bob;0,7"], ";"),
    "blanks beside numbers": (["node x", "ann 1", "bob 2"], " "),
    "names of several words": (["deep learning", "data bases"], ""),
    "one column": (["1", "2"], ""),
    "one damaged line": (["ann,1", "bob", "cid,2"], ","),
    "a comma in one name": (["ann", "bob", "Smith, J."], ""),
}


@pytest.mark.parametrize("case", EDGES)
def test_the_separator_of_edges(case):
    lines, separator = EDGES[case]
    assert find_separator(lines, one_column=False) == separator


@pytest.mark.parametrize("case", TABLES)
def test_the_separator_of_tables(case):
    lines, separator = TABLES[case]
    assert find_separator(lines, one_column=True) == separator


@pytest.mark.parametrize(
    ("line", "separator", "fields"),
    [
        ("a, b ,c", ",", ["a", "b", "c"]),
        ('"a,b",c', ",", ["a,b", "c"]),
        ("a,", ",", ["a", ""]),
        (" a \t b  c ", " ", ["a", "b", "c"]),
        ('"a b"\tc', " ", ["a b", "c"]),
        (' "a b" ', "", ["a b"]),
        ("", ",", []),
        ("x" * 200_000, ",", ["x" * 200_000]),
    ],
)
def test_fields_of_a_line(line, separator, fields):
    assert split_fields(line, separator) == fields


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("id\n3\n1\n", [3, 1]),
        ("node,class\nann,1\nbob,2\n", ["ann", "bob"]),
        ("ann\t1\nbob\t2\n", ["ann", "bob"]),
        ("Ann A.\nBob B.\n", ["Ann A.", "Bob B."]),
        ("ann 1\nbob 2\n", ["ann 1", "bob 2"]),
        ("Smith, J.\nann\n", ["Smith, J.", "ann"]),
        ("Smith, J.\nDoe, A.\nann\n", ["Smith, J.", "Doe, A.", "ann"]),
        ('"ann"\n"Smith, J."\n', ["ann", "Smith, J."]),
    ],
)
def test_a_list_of_nodes_is_its_first_column_or_its_lines(tmp_path, text, ids):
    (tmp_path / "nodes.txt").write_text(text)
    assert read_nodes(tmp_path / "nodes.txt").tolist() == ids


def test_edges_between_names_with_commas_are_read(tmp_path):
    (tmp_path / "edges.tsv").write_text("Smith, J.\tDoe, A.\nDoe, A.\tRoe, B.\n")
    graph = Graph.read(tmp_path / "edges.tsv")
    assert graph.nodes.tolist() == ["Doe, A.", "Roe, B.", "Smith, J."]


def test_columns_without_a_header_have_no_names(tmp_path):
    (tmp_path / "edges.csv").write_text("from,to\n1,2\n")
    with pytest.raises(GraphError, match=r"without a header.*pass their positions, or header=True"):
        Graph.read(tmp_path / "edges.csv", header=False, columns=("from", "to"))
