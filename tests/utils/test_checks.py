"""Values from a user are returned in one plain type, or refused with the value and the range."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dhilgt.errors import ConfigError, GraphError
from dhilgt.utils.checks import (
    as_array,
    choice,
    fraction,
    name_hint,
    nearest,
    num_threads,
    number,
    true_or_false,
    whole_number,
)

# ---- whole numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [7, np.int8(7), np.uint64(7), np.array(7)])
def test_a_whole_number_of_any_integer_type_becomes_an_int(value):
    result = whole_number("size", value, 1, 9)
    assert (result, type(result)) == (7, int)


@pytest.mark.parametrize("value", [1, 9])
def test_both_bounds_of_a_whole_number_are_allowed(value):
    assert whole_number("size", value, 1, 9) == value


@pytest.mark.parametrize(
    "value",
    [
        *(0, 10, -7, True, False, np.True_, 7.0, np.float64(7), math.nan),
        *("7", b"7", None, [7], np.array([7, 8])),
    ],
)
def test_any_other_whole_number_is_refused_with_its_range(value):
    with pytest.raises(ConfigError) as caught:
        whole_number("size", value, 1, 9)
    assert str(caught.value) == f"size = {value!r}; pass a whole number from 1 to 9"


def test_none_is_a_whole_number_only_where_it_is_optional():
    assert whole_number("size", None, 1, 9, optional=True) is None
    assert whole_number("size", 3, 1, 9, optional=True) == 3
    with pytest.raises(ConfigError, match="size = 0; pass a whole number from 1 to 9, or None"):
        whole_number("size", 0, 1, 9, optional=True)


# ---- numbers and fractions ---------------------------------------------------------------------


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int16(2), Fraction(2), np.array(2.0)])
def test_a_number_of_any_numeric_type_becomes_a_float(value):
    result = number("lr", value, 0, 10)
    assert (result, type(result)) == (2.0, float)


def test_bounds_of_a_number_are_allowed_unless_it_must_be_above_the_lower_one():
    assert number("lr", 0, 0, 10) == 0
    assert number("lr", 10, 0, 10, above=True) == 10
    with pytest.raises(ConfigError, match="lr = 0; pass a number above 0 up to 10"):
        number("lr", 0, 0, 10, above=True)


@pytest.mark.parametrize(
    "value",
    [
        *(-0.1, 10.5, math.inf, math.nan, np.float32("nan"), True, np.False_, 1j, 10**400),
        *("2", None, [2.0], np.array([2.0, 3.0])),
    ],
)
def test_any_other_number_is_refused_with_its_range(value):
    with pytest.raises(ConfigError) as caught:
        number("lr", value, 0, 10)
    assert str(caught.value) == f"lr = {value!r}; pass a number from 0 up to 10"


def test_none_is_a_number_only_where_it_is_optional():
    assert number("clip", None, 0, 10, optional=True) is None
    with pytest.raises(ConfigError, match="clip = nan; pass a number from 0 up to 10, or None"):
        number("clip", math.nan, 0, 10, optional=True)


@pytest.mark.parametrize("value", [0, 0.5, np.float32(0.5), np.nextafter(1, 0)])
def test_a_fraction_is_at_least_0_and_below_1(value):
    assert fraction("dropout", value) == value
    assert type(fraction("dropout", value)) is float


@pytest.mark.parametrize("value", [1, -0.1, math.nan, True, "0.5", None])
def test_any_other_fraction_is_refused(value):
    with pytest.raises(ConfigError) as caught:
        fraction("dropout", value)
    assert str(caught.value) == f"dropout = {value!r}; pass a number from 0 to below 1"


# ---- words and names ---------------------------------------------------------------------------


def test_a_choice_is_one_of_the_words():
    assert choice("order", "degree", ("degree", "random")) == "degree"
    assert type(choice("order", np.str_("degree"), iter(["degree"]))) is str


@pytest.mark.parametrize("value", ["Degree", "", None, 1, True])
def test_any_other_choice_is_refused_with_the_words(value):
    with pytest.raises(ConfigError) as caught:
        choice("order", value, ("degree", "random"))
    assert str(caught.value) == f'order = {value!r}; pass one of "degree", "random"'


def test_the_nearest_name_is_close_enough_or_none():
    assert nearest("epoch", ["lr", "epochs"]) == "epochs"
    assert nearest("optimizer", ["lr", "epochs"]) is None
    assert nearest("epohcs", ["lr", "epochs"], cutoff=0.99) is None
    assert nearest("epoch", []) is None
    assert nearest(2023, {"2024": None}) == "2024"


def test_a_hint_is_the_nearest_name_or_all_names_or_the_text_instead():
    names = ["gcn", "sage"]
    assert name_hint("gnc", names) == "did you mean 'gcn'?"
    assert name_hint("gnc", iter(names), "see the list") == "did you mean 'gcn'?"
    assert name_hint("transformer", names) == "known: gcn, sage"
    assert name_hint("transformer", iter(names)) == "known: gcn, sage"
    assert name_hint("transformer", names, "see the list") == "see the list"
    assert name_hint("gnc", names, cutoff=0.9) == "known: gcn, sage"


# ---- threads and arrays ------------------------------------------------------------------------


def test_threads_are_a_positive_integer_or_all():
    assert num_threads(None) >= 1
    assert num_threads(3) == 3
    assert type(num_threads(np.int64(3))) is int


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "2"])
def test_any_other_number_of_threads_is_refused(value):
    with pytest.raises(GraphError) as caught:
        num_threads(value)
    assert str(caught.value).startswith(f"threads={value!r}; pass a number of at least 1")


class Series:
    """A column as pandas, Polars and PyArrow have it."""

    def to_numpy(self):
        return np.arange(3)


def test_anything_array_like_becomes_an_array():
    array = np.arange(3)
    for values in ([0, 1, 2], (0, 1, 2), range(3), Series()):
        np.testing.assert_array_equal(as_array(values), array)
    assert as_array(array) is array


def test_a_tensor_that_has_a_gradient_becomes_an_array():
    torch = pytest.importorskip("torch")
    assert as_array(torch.ones(2, requires_grad=True)).tolist() == [1, 1]


def test_text_in_a_list_stays_as_it_is():
    assert as_array([1, "1", b"a\0"]).tolist() == [1, "1", b"a\0"]


def test_rows_of_unequal_length_are_no_array():
    with pytest.raises(GraphError, match="rows of unequal length"):
        as_array([[1, 2], [3]])


# ---- None, 0 and switches ----------------------------------------------------------------------


def test_none_is_a_choice_where_it_is_allowed():
    assert choice("fill", None, ["near"], optional=True) is None
    with pytest.raises(ConfigError, match=r'fill = .far.; pass one of "near", or None'):
        choice("fill", "far", ["near"], optional=True)


def test_a_fraction_can_exclude_zero():
    with pytest.raises(ConfigError, match="validation = 0; pass a number above 0 to below 1"):
        fraction("validation", 0, above=True)


def test_true_and_false_are_taken_and_nothing_like_them():
    assert true_or_false("fresh", np.True_) is True
    for value in (1, 0.0, "true", None):
        with pytest.raises(ConfigError, match=r"fresh = .*; pass True or False"):
            true_or_false("fresh", value)
