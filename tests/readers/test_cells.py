"""The types of columns of text: one set of rules, and PyArrow as a faster way to them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import GraphError
from dhilgt.readers.arrow_text import number_column
from dhilgt.readers.cells import KINDS, MISSING, typed

NUMBERS = {
    "whole": (["1", "-2", "+3"], np.int64, [1, -2, 3]),
    "points": (["1.5", ".5", "2.", "1e5", "-1E-2"], np.float64, [1.5, 0.5, 2.0, 1e5, -0.01]),
    "a gap": (["1", "NA", "3"], np.int64, [1, 0, 3]),
    "beyond 64 bits": (["1", str(2**70)], np.float64, [1.0, float(2**70)]),
    "infinite": (["1", "inf"], np.float64, [1.0, np.inf]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name):
    texts, dtype, values = NUMBERS[name]
    column = typed("x", texts, str)
    assert (column.kind, column.values.dtype, column.values.tolist()) == ("number", dtype, values)


@pytest.mark.parametrize("word", sorted(MISSING))
def test_words_for_a_missing_value_are_missing_in_any_column(word):
    for filled in (["1", "2"], ["true", "false"], ["2020-01-31", "2021-01-01"], ["red", "blue"]):
        column = typed("x", [*filled, word], str)
        assert column.missing.tolist() == [False, False, True]
        assert column.kind == typed("x", filled, str).kind


def test_other_kinds():
    assert typed("x", ["True", "FALSE", ""], str).values.tolist() == [True, False, False]
    assert typed("x", ["yes", "no"], str).kind == "boolean"
    assert typed("x", ["yes", "true"], str).kind == "text"
    assert typed("x", ["1_000", "x"], str).kind == "text"
    assert typed("x", ["2020-02-30", "2020-01-01"], str).kind == "text"
    assert typed("x", ["NA", ""], str).num_missing == 2


def test_dates_are_in_utc():
    days = ["1970-01-02", "1970-01-02T01:00", "1970-01-02 01:00:30.5+01:00", "1970-01-01T12:00Z"]
    column = typed("x", days, str)
    assert column.kind == "date"
    assert column.values.astype(np.int64).tolist() == [86400, 90000, 86430, 43200]


def test_a_zero_in_front_makes_a_code_and_not_a_number():
    assert typed("zip", ["01234", "99501"], str).values.tolist() == ["01234", "99501"]
    assert typed("zip", ["01234", "99501"], str, kind="number").values.tolist() == [1234, 99501]
    assert typed("zip", ["1234", "99501"], str, kind="category").values.tolist() == [
        "1234",
        "99501",
    ]
    assert typed("x", ["0", "0.5", "-0.25"], str).kind == "number"


def test_decimal_commas():
    column = typed("x", ["0,5", "1", "2,25"], str, decimal_comma=True)
    assert column.values.tolist() == [0.5, 1.0, 2.25]
    assert typed("x", ["1,500", "0,250"], str, decimal_comma=True).values.tolist() == [1.5, 0.25]


UNCLEAR = {
    "thousands or thousandths": (["1,500", "2,000"], True, "row 0, column 'x' = '1,500'"),
    "commas between commas": (["1", "0,5"], False, "row 1, column 'x' = '0,5'"),
    "groups": (["1,234.5", "2"], True, "row 0, column 'x' = '1,234.5'"),
    "points as groups": (["1.234,5", "2"], True, "row 0, column 'x' = '1.234,5'"),
    "a word among numbers": (["1", "2", "old"], True, "row 2, column 'x' = 'old' is not a number"),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_numbers_that_can_be_read_in_two_ways_are_refused(name):
    texts, comma, words = UNCLEAR[name]
    with pytest.raises(GraphError) as caught:
        typed("x", texts, lambda row: f"row {row}", decimal_comma=comma)
    assert words in str(caught.value)
    assert "x:category" in str(caught.value)
    assert typed("x", texts, str, kind="category", decimal_comma=comma).values.tolist() == texts


def test_a_column_that_is_not_what_was_asked_for_is_refused():
    for kind, cell in (("number", "x"), ("date", "5"), ("boolean", "2")):
        with pytest.raises(GraphError, match=f"row 1, column 'x' = '{cell}' is not a {kind}"):
            typed("x", ["", cell], lambda row: f"row {row}", kind=kind)


CELLS = st.one_of(
    st.sampled_from(
        [*sorted(MISSING), "007", "+1", "-0", "1e5", ".5", "5.", "1_000", "0x1F", "inf", "-inf",
         "1e999", "0,5", "１２", "true", "no", "x", "9223372036854775808", "1.0", "nan(1)", "-nan",
         "infinity", "00"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False).map(repr),
    st.text("0123456789+-.eE,", max_size=6),
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(CELLS, min_size=1, max_size=4), st.sampled_from([None, "number"]))
def test_what_pyarrow_reads_as_numbers_is_the_same(texts, kind):
    texts = [text.strip(" \t") for text in texts]
    fast = number_column("x", pa.chunked_array([pa.array(texts, pa.string())]))
    if fast is None:
        return
    slow = typed("x", texts, str, kind=kind)
    assert fast.values.dtype == slow.values.dtype
    assert fast.values.tolist() == slow.values.tolist()
    assert fast.missing.tolist() == slow.missing.tolist()


def test_every_kind_can_be_asked_for():
    samples = {"number": "1", "category": "a", "boolean": "no", "date": "2020-01-01", "text": "a b"}
    assert set(samples) == set(KINDS)
    for kind, cell in samples.items():
        assert typed("x", [cell], str, kind=kind).num_missing == 0
