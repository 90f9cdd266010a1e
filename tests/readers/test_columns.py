"""Which column of a table is what: by its cells, by its name, or as the user says."""

import numpy as np
import pytest

from dhilgt import Graph, GraphError, GraphWarning
from dhilgt.readers.columns import select

EDGES = "ann,bob\nbob,cid\ncid,dan\n"
NAMES = [
    "sku", "email", "uuid", "Unnamed: 0", "user", "username", "customer", "account", "paper", "doi",
    "handle", "url", "gene", "protein", "symbol", "accession", "code", "login", "page", "title",
    "item", "asin", "isbn", "movie", "author", "Kennung", "x",
]  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(text, name="x.csv"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


@pytest.fixture
def edges(write):
    return write(EDGES, "edges.csv")


def refused(call, *args, **options):
    with pytest.raises(GraphError) as caught:
        call(*args, **options)
    return str(caught.value)


# ---- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_ids_are_found_under_any_name(write, edges, name):
    file = write(f"age,{name}\n4,dan\n1,ann\n2,bob\n3,cid\n")
    graph = Graph.read(edges, features=file)
    assert graph.features.ravel().tolist() == [1, 2, 3, 4]
    note = f"{file}: ids are in column {name!r} (all values differ, 100% are nodes of the graph)"
    assert note in graph.notes


def test_a_column_called_id_needs_no_note(write, edges):
    file = write("id,age\nann,1\nbob,2\ncid,3\ndan,4\n")
    notes = Graph.read(edges, features=file).notes
    assert not [note for note in notes if "ids are in" in note]


def test_numbers_are_ids_where_they_are_nodes(write):
    edges = write("10,20\n20,30\n", "edges.csv")
    file = write("Unnamed: 0,age,paper\n0,7,30\n1,8,20\n2,9,10\n")
    graph = Graph.read(edges, features=file)
    assert graph.features.ravel().tolist() == [9, 8, 7]
    assert any("'Unnamed: 0' (row numbers) is not a feature" in note for note in graph.notes)


def test_more_rows_than_nodes_do_not_hide_the_ids(write, edges):
    others = "".join(f"p{at},{at}\n" for at in range(40))
    file = write(f"who,age\nann,1\nbob,2\ncid,3\ndan,4\n{others}")
    with pytest.warns(GraphWarning, match="no edge: 40"):
        assert Graph.read(edges, features=file).num_nodes == 44


def test_ids_stay_as_they_are_written(write):
    edges = write("007,a1\na1,08\n", "edges.csv")
    graph = Graph.read(edges, features=write("code,n\n08,3\na1,2\n007,1\n"))
    assert graph.features[graph.index_of(["007", "a1", "08"])].ravel().tolist() == [1, 2, 3]


def test_two_columns_of_ids_are_refused_with_their_names(write, edges):
    file = write("left,right,n\nann,bob,1\nbob,cid,2\ncid,dan,3\ndan,ann,4\n")
    message = refused(Graph.read, edges, features=file)
    assert "which column holds the ids, 'left' (100%" in message
    assert "'right'" in message
    assert "id_column=" in message
    graph = Graph.read(edges, features=file, id_column="left", feature_columns="n")
    assert graph.features.ravel().tolist() == [1, 2, 3, 4]
    graph = Graph.read(edges, features=file, id_column=1, feature_columns=["n"])
    assert graph.features.ravel().tolist() == [4, 1, 2, 3]


def test_a_name_and_cells_that_speak_for_two_columns_are_refused(write):
    edges = write("1,2\n2,3\n", "edges.csv")
    assert "'id' (67%" in refused(Graph.read, edges, features=write("id,n\n1,3\n2,1\n9,2\n"))


def test_a_table_without_ids_is_refused(write, edges):
    message = refused(Graph.read, edges, features=write("age,height\n1,2\n3,4\n"))
    assert (
        "no column of ids (its columns are age, height; none holds ids of the graph, like 'ann'"
        in message
    )
    assert "id_column" in message


def test_a_column_that_is_not_there_is_refused_with_the_nearest(write, edges):
    file = write("id,age\nann,1\nbob,2\ncid,3\ndan,4\n")
    assert "did you mean 'id'?" in refused(Graph.read, edges, features=file, id_column="ids")
    labels = write("id,label\nann,1\n", "y.csv")
    message = refused(Graph.read, edges, labels=labels, label_column="lable")
    assert "label_column='lable'" in message
    assert "did you mean 'label'?" in message


def test_one_name_of_ids_is_for_the_tables_that_have_it(write, edges):
    features = write("key1,other,n\nann,bob,1\nbob,cid,2\ncid,dan,3\ndan,ann,4\n")
    labels = write("who,label\nann,1\nbob,0\n", "y.csv")
    graph = Graph.read(
        edges, features=features, labels=labels, id_column="key1", feature_columns="n"
    )
    assert graph.labels.tolist() == [1, 0, -1, -1]


# ---- headers -----------------------------------------------------------------------------------

HEADERS = {
    "names": "Mensch,Partei\nann,red\nbob,blue\ncid,red\n",
    "a known name": "person,label\nann,red\nbob,blue\ncid,red\n",
    "none": "ann,red\nbob,blue\ncid,red\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_ids_tell_whether_words_are_a_header(write, edges, name):
    graph = Graph.read(edges, labels=write(HEADERS[name]))
    assert (graph.labels.tolist(), graph.class_names) == ([1, 0, 1, -1], ("blue", "red"))
    said = " ".join(graph.notes)
    assert ("is taken as the header (Mensch, Partei)" in said) == (name == "names")
    assert ("no header" in said) == (name == "none")


def test_a_wrong_id_in_the_first_line_is_no_header(write, edges):
    message = refused(Graph.read, edges, labels=write("axn,red\nbob,blue\ncid,red\n"))
    assert "line 1 (axn, red) may be a header or a row; pass header=True or header=False" in message
    file = write("axn,red\nbob,blue\ncid,red\n")
    assert "'axn' is not a node" in refused(Graph.read, edges, labels=file, header=False)


def test_years_may_be_names_of_columns(write, edges):
    rows = "ann,1,2\nbob,3,4\ncid,5,6\ndan,7,8\n"
    assert Graph.read(edges, features=write(f"country,2019,2020\n{rows}")).num_nodes == 4
    assert Graph.read(edges, features=write(f",2019,2020\n{rows}")).num_nodes == 4
    file = write(f"Land,2019,2020\n{rows}")
    assert "may be a header or a row" in refused(Graph.read, edges, features=file)


# ---- one table for all -------------------------------------------------------------------------

ALL = "who,age,party,split\nann,1,red,train\nbob,2,blue,val\ncid,3,red,test\ndan,4,,\n"


def test_one_file_for_features_classes_and_split(write, edges):
    file = write(ALL)
    graph = Graph.read(edges, features=file, labels=file, masks=file, label_column="party")
    assert graph.features.ravel().tolist() == [1, 2, 3, 4]
    assert graph.labels.tolist() == [1, 0, 1, -1]
    assert {name: int(mask.argmax()) for name, mask in graph.masks.items()} == {
        "train": 0, "val": 1, "test": 2,
    }  # fmt: skip
    said = " ".join(graph.notes)
    assert "column 'party' (the class) is not a feature" in said
    assert "column 'split' (the split) is not a feature" in said
    message = refused(
        Graph.read, edges, features=file, labels=file, label_column="party", feature_columns="party"
    )
    assert "names 'party', which is the class" in message


def test_the_class_among_features_of_another_file_is_warned_of(write, edges):
    file = write("id,age,label\nann,1,0\nbob,2,1\ncid,3,0\ndan,4,1\n")
    labels = write("id,label\nann,0\nbob,1\n", "y.csv")
    with pytest.warns(GraphWarning, match="'label' has the name of a class and would be learned"):
        assert Graph.read(edges, features=file, labels=labels).features.shape == (4, 2)
    graph = Graph.read(edges, features=file, labels=labels, feature_columns="!label")
    assert graph.features.shape == (4, 1)
    renamed = write("id,label\nann,0\nbob,1\n".replace("label", "party"), "z.csv")
    with pytest.warns(GraphWarning, match="'party' has the name"):
        Graph.read(
            edges, features=write(file.read_text().replace("label", "party")), labels=renamed
        )


def test_the_split_is_found_by_its_cells(write, edges):
    file = write("who,age,label,use\nann,1,0,train\nbob,2,1,VAL\ncid,3,0,\ndan,4,1,test\n")
    graph = Graph.read(edges, labels=file, masks=file)
    assert graph.masks["val"].tolist() == [False, True, False, False]
    assert any("parts are in column 'use'" in note for note in graph.notes)


def test_which_class_is_asked_for(write, edges):
    file = write("id,a,b\nann,1,2\nbob,2,1\n")
    message = refused(Graph.read, edges, labels=file)
    assert "the columns id, a, b; which one is the class? Pass label_column=..." in message
    assert Graph.read(edges, labels=file, label_column="b").labels.tolist() == [2, 1, -1, -1]
    both = write("id,label,class\nann,1,2\n")
    assert "'label' and 'class'; which one" in refused(Graph.read, edges, labels=both)


def test_classes_that_are_words_for_missing_values_are_counted(write, edges):
    graph = Graph.read(edges, labels=write("id,label\nann,NA\nbob,x\ncid,NA\ndan,None\n"))
    assert graph.labels.tolist() == [-1, 0, -1, -1]
    assert any("missing value: 'NA' 2, 'None' 1 (unlabelled)" in note for note in graph.notes)


# ---- features ----------------------------------------------------------------------------------

TABLE = ["age", "gene_a", "gene_b", "zip", "a,b", "!odd"]
SELECTIONS = {
    "all": (None, TABLE),
    "names": ("zip,age", ["age", "zip"]),
    "a pattern": ("gene_*", ["gene_a", "gene_b"]),
    "all but": ("!zip,!gene_?", ["age", "a,b", "!odd"]),
    "some but": ("gene_*,!gene_b", ["gene_a"]),
    "a list": (["a,b", "!odd"], ["a,b", "!odd"]),
    "a kind": ("*,zip:category", TABLE),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_columns_are_selected_by_names_and_patterns(name):
    requested, names = SELECTIONS[name]
    selection = select(TABLE, requested, "x.csv")
    assert list(selection.names) == names
    assert selection.kinds == ({"zip": "category"} if name == "a kind" else {})


def test_a_selection_that_takes_nothing_is_refused():
    assert "did you mean 'age'?" in refused(select, TABLE, "agee", "x.csv")
    assert "no such column" in refused(select, TABLE, "protein_*", "x.csv")
    assert "leaves no column" in refused(select, TABLE, "age,!age", "x.csv")


def test_kinds_are_read_as_asked_for(write, edges):
    file = write("id,zip\nann,01\nbob,02\ncid,03\ndan,04\n")
    graph = Graph.read(edges, features=file, feature_columns="zip:number")
    np.testing.assert_array_equal(graph.features.ravel(), [1, 2, 3, 4])
