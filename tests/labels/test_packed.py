"""Label rows packed in NumPy are those the native core packs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import _native, generate
from dhilgt.labels.packed import PackedLabelRows, empty_rows, joined, only_rows, pack_rows
from tests.labels.cases import UNLIMITED, build, native_labels, path, random_graph

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


def without_self(native):
    """Lengths, hubs and distances of all rows, self entries left out."""
    offsets, hubs, distances = native.flat_arrays(0)
    others = distances > 0
    return np.diff(offsets) - 1, hubs[others].astype(np.int64), distances[others].astype(np.int64)


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_rows_are_packed_as_by_the_native_core(seed):
    native = native_labels(random_graph(seed, directed=False))
    assert same(pack_rows(*without_self(native)), native.pack(0, 1))


@pytest.mark.parametrize("graph", [generate(20_000, 5, num_features=0), path(300)[0]])
def test_numbers_of_several_bytes_are_packed_as_by_the_native_core(graph):
    native = build(graph).native
    assert same(pack_rows(*without_self(native)), native.pack(0, 1))


@given(st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=80, deadline=None)
def test_rows_not_wanted_are_emptied_and_the_rest_stays(seed, data):
    native = native_labels(random_graph(seed, directed=False))
    n = native.num_nodes
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    chosen = only_rows(PackedLabelRows(*native.pack(0, 1)), kept)
    actual = _native.labels_from_packed(False, n, tuple(chosen)).unpack(1, UNLIMITED)
    for rank in range(n):
        expected = native.label(rank, 0) if kept[rank] else ([rank], [0])
        assert same(actual.label(rank, 0), expected)


def test_joined_rows_follow_each_other():
    native = native_labels(path(9)[0])
    rows = PackedLabelRows(*native.pack(0, 1))
    both = joined(rows, empty_rows(2))
    actual = _native.labels_from_packed(False, 11, tuple(both)).unpack(1, UNLIMITED)
    assert same(actual.label(8, 0), native.label(8, 0))
    assert same(actual.label(10, 0), ([10], [0]))
