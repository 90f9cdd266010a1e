"""Tables as text: PyArrow's reader and the plain one give the same; comments, quotes."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, GraphError
from dhilgt.readers import arrow_text
from dhilgt.readers.text_table import read_text


@pytest.fixture
def write(tmp_path):
    def write(data, name="file.csv"):
        file = tmp_path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    return write


def content(table):
    return (
        table.first,
        [cells.values() for cells in table.rest],
        list(table.lines),
        table.separator,
        table.header,
        table.notes,
    )


def both(file, **options):
    """Return what both readers make of a file, an error as its message."""
    results = []
    for arrow in (True, False):
        try:
            results.append(content(read_text(file, arrow=arrow, **options)))
        except GraphError as error:
            results.append(str(error))
    assert results[0] == results[1]
    return results[0]


# ---- two readers, one result -------------------------------------------------------------------

CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "007", "1,5", "a b", ' "x" ', 'say ""', "#7", "%", "nan", "é", "1\n2"]
    ),
    st.text('ab1,;\t" #.\r\n', max_size=4),
)


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=4
        )
    ),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.booleans(),
)
def test_both_readers_give_the_same(tmp_path_factory, rows, separator, end, quoting, mark):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)
    file = tmp_path_factory.mktemp("files") / "x.csv"
    file.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.getvalue().encode())
    both(file)


@settings(deadline=None, max_examples=200)
@given(st.text('ab1,;"\t\n\r# ', min_size=1, max_size=30))
def test_both_readers_give_the_same_for_any_text(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("files") / "x.csv"
    file.write_bytes(b"id,x,y\n" + text.encode())
    both(file)


def test_pyarrow_reads_what_it_can(write, monkeypatch):
    calls = []
    plain = arrow_text.read_cells

    def read_cells(*arguments):
        calls.append(plain(*arguments))
        return calls[-1]

    monkeypatch.setattr(arrow_text, "read_cells", read_cells)
    read_text(write('id,"a b",c\r\n"ann","say ""hi"", bob",1\r\nbob, 2 ,3\r\n\r\n'))
    assert [column.to_pylist() for column in calls[0]] == [
        ["ann", "bob"], ['say "hi", bob', "2"], ["1", "3"],
    ]  # fmt: skip


def test_without_pyarrow_files_are_read_all_the_same(write, monkeypatch):
    file = write("id,a\nann,1\nbob,2\n")
    expected = content(read_text(file))
    monkeypatch.setattr(arrow_text, "pyarrow_or_none", lambda: None)
    assert content(read_text(file)) == expected


# ---- forms -------------------------------------------------------------------------------------

FORMS = {
    "separators in quotes": ('id,a\nann,"1,2"\n', ["ann", "1,2"]),
    "doubled quotes": ('id,a\nann,"say ""hi"""\n', ["ann", 'say "hi"']),
    "a line in quotes": ('id,a\nann,"one\ntwo"\n', ["ann", "one\ntwo"]),
    "a quote within a field": ('id,a\nann,5" pipe\n', ["ann", '5" pipe']),
    "blanks around": ("id, a\nann , 1 \n", ["ann", "1"]),
    "quotes behind a blank": ('id, a\nann, "x, y"\n', ["ann", "x, y"]),
    "separators at the ends of lines": ("id,a,\nann,1,\n", ["ann", "1"]),
    "empty rows below": ("id,a\nann,1\n,\n\n , \n", ["ann", "1"]),
    "row names without a heading": ("a\tb\nann\t1\t2\n", ["ann", "1", "2"]),
    "an empty cell at the end": ("id\ta\nann\t\n", ["ann", ""]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_rows(write, name):
    text, row = FORMS[name]
    _, columns, _, _, _, _ = both(write(text))
    assert [cells[0] for cells in columns] == row
    assert {len(cells) for cells in columns} == {1}


FAULTS = {
    "an open quote": ('id,a\nann,"1\nbob,2\ncid,3\n', "line 2 has a quote that is not closed"),
    "text behind a quote": ('id,a\nann,"1"x\n', "line 2 has text behind a closing quote"),
    "uneven": ("id,a,b\nann,1,2\nbob,1,2\ncid,1\n", "line 4 has 2 fields"),
    "not UTF-8": (b"id,a\nann,1\nb\xf6b,2\n", "line 3 is not UTF-8"),
    "a lone CR": ("id,a\nann,1\rbob,2\n", "CR alone"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(write, name):
    text, words = FAULTS[name]
    assert words in both(write(text))


def test_long_cells_and_wide_tables(write):
    long = "x" * 200_000
    limit = csv.field_size_limit()
    _, columns, *_ = both(write(f'id,a,bio\nann,1,"{long}, and"\nbob,2,{long}\n'))
    assert columns[2] == [f"{long}, and", long]
    assert csv.field_size_limit() == limit
    names = ",".join(f"gene_{at}" for at in range(20_000))
    numbers = ",".join(str(at / 4) for at in range(20_000))
    wide = write(f"id,{names}\nann,{numbers}\nbob,{numbers}\n")
    edges = write("ann,bob\n", "edges.csv")
    graph = Graph.read(edges, features=wide, feature_columns="gene_*,!gene_1")
    assert graph.features.shape == (2, 19_999)
    assert graph.features[1, -1] == 19_999 / 4


# ---- comments ----------------------------------------------------------------------------------


def test_ids_that_begin_with_a_sign_are_ids(write):
    table = read_text(write("id,label\n#7,red\nann,blue\n%x,red\n"))
    assert table.rest[0].values() == ["#7", "ann", "%x"]
    for text in ("#7,red\nann,blue\n%x,red\n", "#7,red\n%x,red\n"):
        first, columns, *_ = both(write(text))
        assert [first[1][0], *columns[0]] == [line.split(",")[0] for line in text.split()]


def test_comments_before_the_rows_are_skipped_and_counted(write):
    file = write("# made today\n# by hand, mostly, and late\nid,label\nann,red\n#7,red\n")
    first, columns, lines, _, _, notes = both(file)
    assert (first, columns[0], lines) == ((3, ["id", "label"]), ["ann", "#7"], [4, 5])
    assert notes == (f"{file}: 2 lines before the first row begin with # and were skipped",)


def test_a_header_behind_a_sign_is_the_header(write):
    for text in ("# made today\n#id,label\nann,1\n", "% made today\n# id,label\nann,1\n"):
        first, columns, _, _, header, notes = both(write(text))
        assert (first, header, columns) == ((2, ["id", "label"]), True, [["ann"], ["1"]])
        assert "1 line before the first row" in notes[0]
        assert "line 2" in notes[1]


def test_a_line_that_may_be_a_row_or_a_comment_is_refused(write):
    file = write("#7,red\nann,blue\nbob,red\n")
    assert "line 1: '#7,red' is a comment or a row; pass comment='#'" in both(file)
    assert both(file, comment="#")[:2] == ((2, ["ann", "blue"]), [["bob"], ["red"]])
    assert both(file, comment="")[:2] == ((1, ["#7", "red"]), [["ann", "bob"], ["blue", "red"]])


def test_comments_anywhere_where_asked_for(write):
    file = write("id,label\nann,red\n# bob,blue\ncid,red\n")
    assert "line 3: '# bob' is a comment or an id; pass comment='#'" in both(file)
    assert both(file, comment="")[1][0] == ["ann", "# bob", "cid"]
    _, columns, lines, _, _, notes = both(file, comment="#")
    assert (columns[0], lines) == (["ann", "cid"], [2, 4])
    assert notes == (f"{file}: 1 line begins with # and was skipped",)
