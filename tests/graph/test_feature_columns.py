"""Columns of features: encoded by kind, matched by name, kept with the graph."""

import json
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt.errors import ArtifactError, GraphError, GraphWarning
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.store import load_graph, save_graph
from dhilgt.graph.table import Column


def column(name, cells):
    """A column as a reader makes it of cells; None is a missing one."""
    present = [cell for cell in cells if cell is not None]
    filler = present[0] if present else 0.0
    values = [filler if cell is None else cell for cell in cells]
    array = np.array(values, dtype=object if isinstance(filler, str) else None)
    return Column(name, array, np.array([cell is None for cell in cells]))


def day(text):
    return np.datetime64(text, "s")


def people():
    return [
        column("age", [30, None, 50, 40]),
        column("member", [True, False, None, True]),
        column("joined", [day("1970-01-02"), day("1970-01-04"), day("1970-01-03T12:00"), None]),
        column("plan", ["free", "paid", "free", None]),
        column("bio", ["likes trees", "plays chess", "bakes bread", "paints"]),
    ]


# ---- kinds -------------------------------------------------------------------------------------


def test_every_kind_is_encoded_and_gaps_are_filled():
    columns = FeatureColumns.fit(people())
    assert columns.kinds == {
        "age": "number", "member": "boolean", "joined": "date", "plan": "category", "bio": "text",
    }  # fmt: skip
    assert columns.names == ("age", "member", "joined", "plan=free", "plan=paid")
    mean_age, mean_member, mean_day = 40, 2 / 3, (1 + 3 + 2.5) / 3
    expected = [
        [30, 1, 1, 1, 0],
        [mean_age, 0, 3, 0, 1],
        [50, mean_member, 2.5, 1, 0],
        [40, 1, mean_day, 0, 0],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the gaps of training are in the table, not warned of
        encoded = columns.encode(people(), "x.csv")
    assert encoded.dtype == np.float32
    assert encoded == pytest.approx(np.array(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["a", "b", "a"], "category"),
        (["a", "b", "c"], "text"),  # none repeats: names
        ([f"w{at % 21}" for at in range(104)], "text"),  # 21 values, fewer than 5 rows each
        ([f"w{at % 21}" for at in range(105)], "category"),
        ([f"w{at % 1001}" for at in range(6000)], "text"),
        (["a", "b" * 101, "a"], "text"),  # a long cell
        ([None, None], "empty"),
    ],
)
def test_words_are_a_category_where_they_repeat(words, kind):
    columns = FeatureColumns.fit([column("size", [1.0] * len(words)), column("words", words)])
    assert columns.kinds["words"] == kind


def test_rare_values_of_a_category_share_a_channel():
    words = [f"w{at:03}" for at in range(100)] * 6 + ["rare", "seldom"]
    columns = FeatureColumns.fit([column("word", words)])
    assert columns.num_channels == 101
    assert columns.names[-1] == "word (other)"
    encoded = columns.encode([column("word", ["rare", "w007", "never seen"])], "x.csv")
    assert encoded.sum(axis=1).tolist() == [1, 1, 1]
    assert encoded[[0, 2], 100].tolist() == [1, 1]
    assert encoded[1, 7] == 1


def test_a_kind_may_be_asked_for():
    codes = [column("zip", [1010, 8000, 1010]), column("year", ["1999", "2001", None])]
    columns = FeatureColumns.fit(codes, {"zip": "category", "year": "number"})
    assert columns.names == ("zip=1010", "zip=8000", "year")
    # The same codes with a gap arrive as floats, and mean the same.
    again = [column("zip", [8000.0, None, 1010.0]), column("year", [1.0, 2.0, 3.0])]
    with pytest.warns(GraphWarning, match="empty cells, filled as in training: zip 1"):
        assert columns.encode(again, "x.csv")[:, :2].tolist() == [[0, 1], [0, 0], [1, 0]]
    left_out = FeatureColumns.fit(codes, {"zip": "text", "year": "number"})
    assert left_out.names == ("year",)


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        ([1.0, 2.0], "colour", "column 'a' is to be 'colour'; pass one of number, boolean, date"),
        (["1", "x2"], "number", "x.csv, row 1, column 'a' = 'x2' is not a number"),
        (["1", "1_0"], "number", "column 'a' = '1_0' is not a number"),
        ([0, 2], "boolean", "column 'a' = 2 is not true or false"),
        (["2024-02-01", "2024"], "date", "column 'a' = '2024' is not a date"),
        ([2024, 2025], "date", "column 'a' = 2024 is not a date"),
        ([day("2024-02-01")], "number", "column 'a' = 2024-02-01T00:00:00 is not a number"),
    ],
)
def test_cells_that_are_not_of_the_kind_asked_for_are_refused(cells, kind, message):
    with pytest.raises(GraphError) as caught:
        FeatureColumns.fit([column("a", cells)], {"a": kind}, "x.csv")
    assert message in str(caught.value)


def test_a_kind_for_a_column_that_is_not_there_is_refused():
    with pytest.raises(GraphError, match="has no column 'agee'; did you mean 'age'"):
        FeatureColumns.fit([column("age", [1, 2])], {"agee": "number"})


def test_a_table_of_text_alone_is_refused_with_the_way_out():
    with pytest.raises(
        GraphError, match=r"no column to learn from: 'bio' holds text.*sentence-tra"
    ):
        FeatureColumns.fit([column("bio", ["one", "two", "three"])])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e39])
def test_numbers_that_are_infinite_as_float32_are_refused(bad):
    cells = [1.0, bad, 2.0]
    with pytest.raises(GraphError, match=r"x.csv, row 1, column 'a' = .* is not finite"):
        FeatureColumns.fit([column("a", cells)], source="x.csv").encode(
            [column("a", cells)], "x.csv"
        )
    columns = FeatureColumns.fit([column("a", [1.0, 2.0])])
    with pytest.raises(GraphError, match=r"line 3, column 'a' = .* is not finite"):
        columns.encode([column("a", cells)], "x.csv", place=lambda row: f"line {row + 2}")


def test_not_a_number_counts_as_missing():
    columns = FeatureColumns.fit([Column("a", np.array([1.0, np.nan, 3.0]), np.zeros(3, bool))])
    assert columns.columns[0].fill == 2
    assert columns.columns[0].missing == 1


# ---- another table -----------------------------------------------------------------------------


def test_columns_are_matched_by_name_whatever_their_order():
    columns = FeatureColumns.fit(people())
    expected = columns.encode(people(), "x.csv")
    assert (columns.encode(people()[::-1], "x.csv") == expected).all()
    assert (columns.encode(people()[:-1], "x.csv") == expected).all()  # text is not needed


def test_missing_columns_are_refused_by_name_with_the_nearest():
    columns = FeatureColumns.fit([column(f"gene_{at}", [1, 2]) for at in range(9)])
    found = [column("gene-0", [1, 2]), column("gene_8", [1, 2])]
    with pytest.raises(GraphError) as caught:
        columns.encode(found, "x.csv")
    assert "x.csv lacks 8 of the 9 columns of training: 'gene_0' (is it 'gene-0'?)" in str(
        caught.value
    )
    assert "and 3 more; add them" in str(caught.value)


def test_further_columns_new_values_and_gaps_are_counted():
    columns = FeatureColumns.fit(people())
    found = [
        column("age", [None, None]),
        column("member", [1, 0]),  # booleans of another program
        column("joined", [day("2024-01-01"), day("2024-01-02")]),
        column("plan", ["trial", "paid"]),
        column("shoe", [38, 44]),
    ]
    with pytest.warns(GraphWarning) as caught:
        encoded = columns.encode(found, "new.csv")
    assert [str(one.message) for one in caught] == [
        "new.csv: columns that training did not have are not used: 'shoe'",
        "new.csv: empty cells, filled as in training: age 2",
        "new.csv: values that training did not have, taken as none: plan 1",
    ]
    assert encoded[:, 0].tolist() == [40, 40]
    assert encoded[:, 3:].tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("name", "cells", "message"),
    [
        ("age", ["31", "old"], "x.csv, row 1, column 'age' = 'old' is not a number"),
        ("age", [day("2024-01-01"), None], "column 'age' = 2024-01-01T00:00:00 is not a number"),
        ("member", [1, 2], "row 1, column 'member' = 2 is not true or false"),
        ("joined", [19000, 19001], "column 'joined' = 19000 is not a date"),
    ],
)
def test_a_column_whose_kind_changed_is_refused(name, cells, message):
    columns = FeatureColumns.fit(people()[:3])
    found = [column(name, cells)] + [
        column(one.name, [None, None]) for one in people()[:3] if one.name != name
    ]
    with pytest.raises(GraphError) as caught:
        columns.encode(found, "x.csv")
    assert message in str(caught.value)


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(GraphError, match="two columns 'a'"):
        FeatureColumns.fit([column("a", [1]), column("a", [2])])


# ---- laws --------------------------------------------------------------------------------------

CELLS = {
    "number": st.floats(-1e6, 1e6, width=32),
    "boolean": st.booleans(),
    "date": st.integers(-(10**9), 10**9).map(lambda seconds: np.datetime64(seconds, "s")),
    "category": st.sampled_from(["red", "green", "blue", "", "a=b", "r,g"]),
}


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=5))
    names = draw(
        st.lists(st.text(max_size=4), min_size=len(kinds), max_size=len(kinds), unique=True)
    )
    cells = {
        name: draw(st.lists(st.none() | CELLS[kind], min_size=rows, max_size=rows))
        for name, kind in zip(names, kinds, strict=True)
    }
    return cells, dict(zip(names, kinds, strict=True))


def slow_rows(cells, kinds):
    """The obvious version: cell by cell."""
    channels = []
    for name, values in cells.items():
        present = [value for value in values if value is not None]
        if not present:
            continue
        if kinds[name] == "category":
            channels += [
                [float(value == word) for value in values] for word in sorted(set(present))
            ]
            continue
        numbers = [
            None if value is None
            else (value - day("1970-01-01")) / np.timedelta64(1, "D") if kinds[name] == "date"
            else float(value)
            for value in values
        ]  # fmt: skip
        known = [number for number in numbers if number is not None]
        mean = sum(known) / len(known)
        channels.append([mean if number is None else number for number in numbers])
    return np.array(channels, np.float64).T


@settings(deadline=None, max_examples=60)
@given(tables(), st.randoms(use_true_random=False))
def test_encoding_agrees_with_the_slow_version_in_any_order(table, random):
    cells, kinds = table
    columns = [column(name, values) for name, values in cells.items()]
    forced = {name: kind for name, kind in kinds.items() if kind == "category"}
    if not any(value is not None for values in cells.values() for value in values):
        with pytest.raises(GraphError, match="no column to learn from"):
            FeatureColumns.fit(columns, forced)
        return
    fitted = FeatureColumns.fit(columns, forced)
    encoded = fitted.encode(columns, "x")
    assert encoded == pytest.approx(slow_rows(cells, kinds), rel=1e-5, abs=1e-4)
    assert len(fitted.names) == encoded.shape[1]
    shuffled = list(columns)
    random.shuffle(shuffled)
    assert np.array_equal(fitted.encode(shuffled, "x"), encoded)
    stored = json.loads(json.dumps(fitted.to_dict()))
    assert FeatureColumns.from_dict(stored) == fitted
    assert pickle.loads(pickle.dumps(fitted)) == fitted
    assert fitted.channels_in(fitted, "x").tolist() == list(range(fitted.num_channels))


def test_wide_tables_are_copied_in_blocks():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(7, 700)).astype(np.float32)
    present = np.zeros(7, bool)
    columns = [Column(f"g{at}", matrix[:, at], present) for at in range(700)]
    columns[300:300] = [column("c", ["x", "y", "x", "y", "x", "x", "x"])]
    encoded = FeatureColumns.fit(columns).encode(columns, "x")
    assert (np.delete(encoded, [300, 301], axis=1) == matrix).all()
    assert encoded[:, 300].tolist() == [1, 0, 1, 0, 1, 1, 1]


# ---- shown -------------------------------------------------------------------------------------


def test_the_kinds_are_shown_in_a_short_table():
    assert FeatureColumns.fit(people()).table_rows("x.csv") == [
        "x.csv: 5 columns, 5 features a node",
        "  numbers       1  age",
        "  true or false 1  member",
        "  dates         1  joined",
        "  categories    1  plan (2 values)",
        "  empty cells   4  age 1, member 1, joined 1, plan 1 (filled with means; zeros for "
        "categories)",
        "  left out      1  bio (text)",
        "  embed text, for example with sentence-transformers, and give the vectors as columns or "
        "as a .npy file; or declare it a category",
    ]
    plain = FeatureColumns.fit([column("a", [1, 2]), column("b", [3, 4])])
    assert plain.table_rows("x.csv") == ["x.csv: 2 columns, numbers without a gap"]
    wide = FeatureColumns.fit([column(f"g{at}", [1, None]) for at in range(2_000)])
    assert wide.table_rows()[1:] == [
        "  numbers       2,000  g0, g1, g2, g3, g4 and 1,995 more",
        "  empty cells   2,000  g0 1, g1 1, g2 1, g3 1, g4 1 and 1,995 more (filled with the mean)",
    ]


# ---- with a graph ------------------------------------------------------------------------------


def graph_of(columns, table):
    count = len(table[0].values)
    graph = dhilgt.Graph.from_edges([0], [1], num_nodes=count, features=columns.encode(table, "x"))
    return graph.with_nodes(feature_columns=columns)


def test_a_graph_keeps_its_columns_on_disk_and_loses_them_with_its_features(tmp_path):
    graph = graph_of(FeatureColumns.fit(people()), people())
    save_graph(graph, tmp_path / "graph")
    again = load_graph(tmp_path / "graph", verify=True)
    assert again.feature_columns == graph.feature_columns
    assert again.with_data(labels=[0, 1, 0, 1]).feature_columns == graph.feature_columns
    assert again.named("people").feature_columns == graph.feature_columns
    assert again.with_data(features=np.ones((4, 5))).feature_columns is None
    assert pickle.loads(pickle.dumps(graph)).feature_columns == graph.feature_columns


def test_thousands_of_names_are_stored(tmp_path):
    table = [column(f"gene_{at}", [1.0, 2.0]) for at in range(20_000)]
    graph = graph_of(FeatureColumns.fit(table), table)
    save_graph(graph, tmp_path / "graph")
    assert load_graph(tmp_path / "graph").feature_columns == graph.feature_columns


def plain_values(**changes):
    return {"rows": 3, "columns": [{"name": "a", "kind": "number", "fill": 1.5} | changes]}


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {"rows": 3},
        {"rows": 0, "columns": plain_values()["columns"]},
        {"rows": True, "columns": plain_values()["columns"]},
        {"rows": 3, "columns": []},
        {"rows": 3, "columns": plain_values()["columns"] * 2},
        {"rows": 3, "columns": ["a"]},
        plain_values(name=3),
        plain_values(kind="text"),  # no channel is left
        plain_values(kind="colour"),
        plain_values(kind="category"),
        plain_values(fill="1"),
        plain_values(fill=10**400),
        plain_values(values=["x"]),
        plain_values(kind="category", values=["b", "a"]),
        plain_values(kind="category", values=["a", "a"]),
        plain_values(kind="category", values=[f"{at:03}" for at in range(101)]),
        plain_values(kind="category", values=[1]),
        plain_values(other=True),
        plain_values(missing=-1),
        plain_values(missing=0.5),
        plain_values(more=1),
    ],
)
def test_values_that_nobody_wrote_are_refused(values):
    with pytest.raises(GraphError):
        FeatureColumns.from_dict(values)


def test_columns_that_do_not_fit_the_features_are_refused(tmp_path):
    graph = graph_of(FeatureColumns.fit(people()), people())
    save_graph(graph.with_nodes(features=graph.features[:, :3]), tmp_path / "graph")
    with pytest.raises(ArtifactError, match="columns have 5 channels, features 3"):
        load_graph(tmp_path / "graph")
