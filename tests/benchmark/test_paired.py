"""Paired differences: mean and interval are those of SciPy, and words follow from the interval."""

import statistics
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dhilgt.benchmark.show.paired import difference, holm, p_value, t_quantile
from dhilgt.errors import DhilgtError

SCORES = st.floats(0, 1, allow_subnormal=False)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 10, 29, 100, 999])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
def test_quantiles_are_those_of_scipy(share, degrees):
    assert t_quantile(share, degrees) == pytest.approx(
        stats.t.ppf(0.5 + share / 2, degrees), rel=1e-9
    )


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=12))
def test_intervals_are_those_of_scipys_paired_test(pairs):
    before, after = zip(*pairs, strict=True)
    found = difference(before, after)
    gaps = [new - old for old, new in pairs]
    assert found.count == len(pairs)
    assert found.mean == pytest.approx(statistics.fmean(gaps))
    if found.sd > 1e-6:  # SciPy warns where nothing varies
        wanted = stats.ttest_rel(after, before).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=12))
def test_the_other_way_round_is_the_same_with_the_sign_turned(pairs):
    before, after = zip(*pairs, strict=True)
    there, back = difference(before, after), difference(after, before)
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low))
    turned = {"drops": "gains", "gains": "drops"}
    assert back.verdict == turned.get(there.verdict, there.verdict)


def test_by_hand():
    found = difference([0.5, 0.5, 0.5, 0.5], [0.4, 0.42, 0.44, 0.46])
    # Differences -0.10, -0.08, -0.06, -0.04; t of 3 degrees is 3.1824.
    assert found.mean == pytest.approx(-0.07)
    assert found.sd == pytest.approx(0.0258199)
    reach = 3.1824463 * 0.0258199 / 2
    assert (found.low, found.high) == pytest.approx((-0.07 - reach, -0.07 + reach), abs=1e-6)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ([0.4, 0.41, 0.42], "drops"),
        ([0.6, 0.61, 0.62], "gains"),
        ([0.4, 0.5, 0.6], "no difference seen"),
        ([0.5, 0.5, 0.5], "no difference seen"),
    ],
)
def test_the_verdict_says_on_which_side_of_0_the_interval_lies(after, verdict):
    assert difference([0.5, 0.5, 0.5], after).verdict == verdict


def test_one_pair_has_a_mean_and_no_interval():
    found = difference([0.5], [0.25])
    assert (found.mean, found.sd, found.low, found.high) == (-0.25, None, None, None)
    assert found.verdict == "too few seeds"


def test_what_is_no_pair_is_refused():
    with pytest.raises(ValueError, match="no pairs"):
        difference([], [])
    with pytest.raises(ValueError, match="argument"):
        difference([0.5], [0.5, 0.6])
    for share, degrees in ((0.0, 3), (1.0, 3), (0.95, 0)):
        with pytest.raises(ValueError, match="pass"):
            t_quantile(share, degrees)


def test_without_scipy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(DhilgtError, match=r'pip install "dhilgt\[plot\]"'):
        difference([0.5, 0.6], [0.5, 0.7])
    assert difference([0.5], [0.6]).verdict == "too few seeds"


# ---- many comparisons --------------------------------------------------------------------------


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=12))
def test_p_values_are_those_of_scipys_paired_test(pairs):
    before, after = zip(*pairs, strict=True)
    gaps = [new - old for old, new in pairs]
    found = p_value(difference(before, after))
    if statistics.pstdev(gaps) > 1e-9:
        assert found == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue, abs=1e-9)


def test_the_same_difference_everywhere_is_sure_and_one_pair_says_nothing():
    assert p_value(difference([0.5, 0.5], [0.75, 0.75])) == 0
    assert p_value(difference([0.5, 0.5], [0.5, 0.5])) == 1
    assert p_value(difference([0.5], [0.75])) is None


def test_holms_correction_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1 gives 0.02, 0.03, 0.06 and 0.04, which may
    # not be below the one before it.
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )
    assert holm({"a": 0.7, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


@given(st.dictionaries(st.integers(), st.floats(0, 1), max_size=8))
def test_holms_correction_keeps_the_order_and_lies_between_none_and_bonferronis(values):
    found = holm(values)
    assert list(found) == list(values)
    for name, value in values.items():
        assert value <= found[name] <= min(1, len(values) * value) + 1e-12
    ranked = sorted(values, key=lambda name: values[name])
    assert [found[name] for name in ranked] == sorted(found.values())
