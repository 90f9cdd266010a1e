"""From an edge list to clean rows: the native core against the obvious version."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import _native
from tests.oracle import clean, rows_of


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(node, node), max_size=60))


def build(edges, n, directed, threads=1, dtype=np.int64):
    pairs = np.array(edges, dtype=dtype).reshape(-1, 2)
    sources, targets = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    offsets, neighbors, *counts = _native.build_csr(sources, targets, n, directed, threads)
    return offsets, neighbors, tuple(counts)


def test_a_drawn_graph():
    #   0 -- 1     2 (loop)     3
    edges = [(0, 1), (0, 1), (2, 2), (1, 0), (0, 1)]
    offsets, targets, counts = build(edges, 4, directed=False)
    assert offsets.tolist() == [0, 1, 2, 2, 2]
    assert targets.tolist() == [1, 0]
    assert counts == (1, 2, 0)
    assert offsets.dtype == np.int64
    assert targets.dtype == np.int32


@settings(max_examples=300, deadline=None)
@given(edge_lists(), st.booleans(), st.sampled_from([np.int32, np.int64]))
def test_any_edge_list(graph, directed, dtype):
    n, edges = graph
    offsets, targets, counts = build(edges, n, directed, dtype=dtype)
    rows, expected = clean(edges, n, directed)
    assert rows_of(offsets, targets) == rows
    assert counts == expected


@settings(max_examples=100, deadline=None)
@given(edge_lists())
def test_transpose_turns_every_edge_around(graph):
    n, edges = graph
    offsets, targets, _ = build(edges, n, directed=True)
    back = _native.transpose(offsets, targets)
    assert rows_of(*back) == clean([(v, u) for u, v in edges], n, directed=True)[0]
    again = _native.transpose(*back)
    assert again[0].tolist() == offsets.tolist()
    assert again[1].tolist() == targets.tolist()


@pytest.mark.parametrize("directed", [False, True])
def test_threads_do_not_change_the_result(directed):
    rng = np.random.default_rng(0)
    pairs = rng.zipf(1.5, (400_000, 2)) % 5000
    one = build(pairs, 5000, directed, threads=1)
    for threads in (2, 3, 8):
        many = build(pairs, 5000, directed, threads=threads)
        assert np.array_equal(one[0], many[0])
        assert np.array_equal(one[1], many[1])
        assert one[2] == many[2]


def test_star_and_no_edges():
    n = 200_000
    offsets, _, counts = build([(0, leaf) for leaf in range(1, n)], n, directed=False, threads=2)
    assert offsets[1] == n - 1
    assert counts == (0, 0, n - 1)
    offsets, targets, _ = build([], 3, directed=False)
    assert offsets.tolist() == [0, 0, 0, 0]
    assert targets.size == 0


@pytest.mark.parametrize(
    ("sources", "targets", "n", "message"),
    [
        ([0, 5], [1, 1], 3, r"sources\[1\] is 5, outside 0 to 2"),
        ([0], [-1], 3, r"targets\[0\] is -1"),
        ([0], [0, 1], 3, "differ in length: 1 and 2"),
        ([], [], 0, "num_nodes is 0"),
        ([], [], 2**31 - 1, "below 2147483647"),
    ],
)
def test_the_core_refuses_what_would_break_it(sources, targets, n, message):
    with pytest.raises(ValueError, match=message):
        _native.build_csr(np.array(sources, np.int64), np.array(targets, np.int64), n, False, 1)


def test_the_core_never_narrows_an_array():
    ids = np.array([2**40])
    with pytest.raises(TypeError):
        _native.build_csr(ids.astype(np.float64), ids, 3, False, 1)
    with pytest.raises(TypeError):
        _native.transpose(np.array([0, 1], np.int32), np.array([0], np.int32))
    with pytest.raises(ValueError, match="offsets do not describe targets"):
        _native.transpose(np.array([0, 5]), np.array([0], np.int32))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 70)), min_size=1, max_size=40
    )
)
def test_ids_are_ranked(pairs):
    for edges in (pairs, [(v, v + 1) for _, v in pairs]):  # all over 64 bits, and close together
        sources, targets = (np.array(side, dtype=np.int64) for side in zip(*edges, strict=True))
        ids, u, v = _native.compact_ids(sources, targets, 2)
        assert ids.tolist() == sorted({*sources.tolist(), *targets.tolist()})
        assert np.array_equal(ids[u], sources)
        assert np.array_equal(ids[v], targets)


def test_many_scattered_ids():
    rng = np.random.default_rng(1)
    sources, targets = rng.integers(-(2**63), 2**63 - 1, (2, 100_000))
    ids, u, v = _native.compact_ids(sources, targets, 2)
    assert np.array_equal(ids, np.unique(np.concatenate([sources, targets])))
    assert np.array_equal(ids[u], sources)
    assert np.array_equal(ids[v], targets)
