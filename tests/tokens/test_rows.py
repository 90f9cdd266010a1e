"""What a token row holds: the ego, hubs, holders, padding, and the exact distance of every pair."""

import hashlib
from functools import cache

import numpy as np
import pytest

from dhilgt import Graph, GraphError, HubLabels, TokenSampler, _native
from dhilgt.tokens.sampler import unpack_distances
from tests.tokens.cases import (
    FAR,
    NO_PATH,
    bfs_codes,
    expected_square,
    generated,
    generated_labels,
    labels_of,
    landmark_path,
    neighbors_of,
    packed_slowly,
    path_graph,
    random_graph,
    sides_of,
    star,
)


def sampler(labels, **spec):
    return TokenSampler(labels, progress=False, threads=1, **spec)


@cache
def long_path():
    return landmark_path(700)


def everyone(labels):
    return np.arange(labels.num_nodes)


@pytest.fixture
def simd_levels():
    """The levels this machine has; the one in use is put back."""
    before = _native.simd_level()
    levels = ["portable", "avx2", "avx512"]
    yield levels[: levels.index(_native.simd_supported()) + 1]
    _native.set_simd_level(before)


# ---- distances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("block", range(6))
def test_distances_are_those_of_a_search_on_random_graphs(directed, block):
    for seed in range(15 * block, 15 * block + 15):
        graph = random_graph(seed, directed)
        labels, codes = labels_of(graph), bfs_codes(graph)
        for size in (1, 2, 5, 16, 33, 65):
            rows = sampler(labels, size=size, seed=seed).rows(everyone(labels))
            np.testing.assert_array_equal(rows.spd, expected_square(rows.ids, codes))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("size", [2, 31, 32, 33, 63, 64, 65, 100])
def test_distances_are_those_of_a_search_on_generated_graphs(directed, size):
    codes = bfs_codes(generated(directed))
    labels = generated_labels(directed)
    rows = sampler(labels, size=size).rows(everyone(labels))
    np.testing.assert_array_equal(rows.spd, expected_square(rows.ids, codes))
    if directed:
        assert (rows.spd != rows.spd.transpose(0, 2, 1)).any()


@pytest.mark.full
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_distances_are_those_of_a_search_on_many_random_graphs(directed):
    for seed in range(1000, 4000):
        graph = random_graph(seed, directed)
        labels, codes = labels_of(graph), bfs_codes(graph)
        rows = sampler(labels, size=1 + seed % 70, seed=seed).rows(everyone(labels))
        np.testing.assert_array_equal(rows.spd, expected_square(rows.ids, codes))


def test_nodes_without_a_path_are_told_apart_from_far_ones():
    """Two nodes of a row reach the ego, but not each other, when edges have a direction."""
    graph = Graph.from_edges([0, 0], [1, 2], num_nodes=3, directed=True)
    ids, spd = sampler(labels_of(graph), size=3, num_out=0, num_in=2).rows([0])
    at = {int(node): slot for slot, node in enumerate(ids[0])}
    assert sorted(at) == [0, 1, 2]
    assert spd[0, at[0], at[1]] == 1
    assert spd[0, at[1], at[0]] == NO_PATH
    assert spd[0, at[1], at[2]] == NO_PATH


@pytest.mark.parametrize("size", [8, 64, 70])
def test_long_distances_are_exact_to_253_and_far_from_254(size):
    labels = landmark_path(400)
    far_first = {"num_in": size - 1, "num_out": 0, "in_exponent": 4.0}
    actual = set()
    for copy in range(40):
        ids, spd = sampler(labels, size=size, **far_first).rows([0], copy)
        true = np.abs(ids[0][:, None] - ids[0][None, :])
        np.testing.assert_array_equal(spd[0], np.minimum(true, FAR))
        actual |= set(spd.ravel().tolist())
    assert FAR in actual
    assert NO_PATH not in actual


@pytest.mark.parametrize("distance", [252, 253, 254, 255, 256, 399])
def test_the_boundary_of_far(distance):
    """Two ends of a path through its middle, the distances being those of the ends."""
    labels = landmark_path(distance + 1)
    rows = sampler(labels, size=distance + 1, num_in=distance, num_out=0).rows([0])
    last = int(np.flatnonzero(rows.ids[0] == distance)[0])
    assert rows.spd[0, 0, last] == min(distance, FAR)
    assert rows.spd[0, last, 0] == min(distance, FAR)


def test_words_and_bytes_agree_on_the_columns_they_share():
    """Rows of 64 slots are made with bytes, those of 65 with words."""
    labels = generated_labels()
    narrow = sampler(labels, size=64, num_out=30, num_in=30).rows(everyone(labels))
    wide = sampler(labels, size=65, num_out=30, num_in=30).rows(everyone(labels))
    np.testing.assert_array_equal(narrow.ids, wide.ids[:, :64])
    np.testing.assert_array_equal(narrow.spd, wide.spd[:, :64, :64])


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 63, 64, 65])
def test_every_instruction_set_gives_the_same_bytes(simd_levels, directed, size):
    labels = generated_labels(directed)
    seen = set()
    for level in simd_levels:
        _native.set_simd_level(level)
        rows = sampler(labels, size=size, seed=3).packed_rows(everyone(labels))
        seen.add(hashlib.sha256(b"".join(array.tobytes() for array in rows)).hexdigest())
    assert len(seen) == 1


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_the_square_has_zeros_on_the_diagonal_and_255_beside_padding(directed):
    labels = generated_labels(directed)
    ids, spd = sampler(labels, size=40).rows(everyone(labels))
    padding = ids < 0
    assert padding.any()
    diagonal = np.einsum("bii->bi", spd)
    assert (diagonal[~padding] == 0).all()
    assert (diagonal[padding] == NO_PATH).all()
    assert (spd[padding[:, :, None] | padding[:, None, :]] == NO_PATH).all()
    if not directed:
        np.testing.assert_array_equal(spd, spd.transpose(0, 2, 1))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("size", [1, 2, 7, 64, 65])
def test_packed_distances_are_the_triangle_row_by_row(directed, size):
    labels = generated_labels(directed)
    nodes = np.arange(30)
    made = sampler(labels, size=size)
    square, packed = made.rows(nodes), made.packed_rows(nodes)
    assert packed.spd.shape == (30, size * (size - 1) // 2 * (2 if directed else 1))
    for row in range(30):
        assert packed.spd[row].tolist() == packed_slowly(square.spd[row], directed)
    again = unpack_distances(packed.ids, packed.spd, directed, threads=2)
    np.testing.assert_array_equal(again, square.spd)


def test_unpacking_refuses_arrays_that_are_no_rows():
    ids = np.zeros((2, 4), np.int32)
    with pytest.raises(ValueError, match="not rows of this size"):
        unpack_distances(ids, np.zeros((2, 5), np.uint8), False)


# ---- members -----------------------------------------------------------------------------------


SHAPES = [
    {"size": 1},
    {"size": 2},
    {"size": 3, "num_out": 1, "num_in": 1},
    {"size": 8, "num_out": 0, "num_in": 7},
    {"size": 8, "num_out": 7, "num_in": 0},
    {"size": 8, "num_out": 0, "num_in": 0},
    {"size": 32},
    {"size": 1000, "num_out": 400, "num_in": 599},
]


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_laws_of_a_row(directed, shape):
    labels = generated_labels(directed)
    sides = sides_of(labels)
    made = sampler(labels, **shape)
    ids, _, parts = made.packed_rows(everyone(labels))
    assert ids.dtype == np.int32
    assert parts.dtype == np.uint16
    assert ids.shape == (labels.num_nodes, shape["size"])
    for node in range(labels.num_nodes):
        num_hubs, num_holders = parts[node].tolist()
        members = ids[node][: 1 + num_hubs + num_holders].tolist()
        hubs, holders = members[1 : 1 + num_hubs], members[1 + num_hubs :]
        assert members[0] == node
        assert (ids[node][len(members) :] == -1).all()
        assert len(set(members)) == len(members)
        assert set(hubs) <= set(sides[node].hubs)
        assert set(holders) <= set(sides[node].holders)
        # All of them when they fit, the quota otherwise.
        assert num_hubs == min(made.spec.num_out, len(sides[node].hubs))
        assert num_holders == min(made.spec.num_in, len(sides[node].holders))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_members_of_a_side_come_nearest_first(directed):
    labels = generated_labels(directed)
    sides = sides_of(labels)
    ids, _, parts = sampler(labels, size=12).packed_rows(everyone(labels))
    for node in range(labels.num_nodes):
        num_hubs, num_holders = parts[node].tolist()
        hubs = [sides[node].hubs[int(u)] for u in ids[node, 1 : 1 + num_hubs]]
        rest = ids[node, 1 + num_hubs : 1 + num_hubs + num_holders]
        holders = [sides[node].holders[int(u)] for u in rest]
        assert hubs == sorted(hubs)
        assert holders == sorted(holders)


@pytest.mark.parametrize("exponent", [-64.0, -4.0, 0.0, 4.0, 64.0])
@pytest.mark.parametrize("size", [1, 2, 31, 33, 64, 65, 1024])
def test_rows_larger_than_the_graph_are_padded_whatever_the_exponent(exponent, size):
    """Rows 33 to 35 of the bad inputs: large sizes, empty sides, extreme exponents."""
    labels = labels_of(path_graph(5))
    rows = sampler(labels, size=size, out_exponent=exponent, in_exponent=exponent).rows(range(5))
    assert (rows.ids[:, 0] == np.arange(5)).all()
    assert ((rows.ids >= 0).sum(1) <= 5).all()
    np.testing.assert_array_equal(rows.spd, expected_square(rows.ids, bfs_codes(path_graph(5))))


@pytest.mark.parametrize("exponent", [-64.0, -4.0, 4.0, 64.0])
def test_extreme_exponents_fill_the_quota_over_hundreds_of_distances(exponent):
    """Weights from 1 down to 10^-180: none may be lost, none drawn twice."""
    labels = long_path()
    rows = sampler(labels, size=300, num_in=299, num_out=0, in_exponent=exponent).ids([0])[0]
    assert len(set(rows.tolist())) == 300
    assert rows.min() == 0
    if abs(exponent) == 64:
        favoured = rows[1:50] if exponent < 0 else rows[-50:]
        assert (favoured < 80).all() if exponent < 0 else (favoured > 600).all()


def test_isolated_nodes_are_alone_in_their_row():
    labels = labels_of(Graph.from_edges([0], [1], num_nodes=4))
    for extra in ({}, {"spill": True}, {"fill": "neighbors"}):
        assert sampler(labels, size=4, **extra).ids([2, 3]).tolist() == [
            [2, -1, -1, -1],
            [3, -1, -1, -1],
        ]


# ---- spill and fill ----------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("shape", [(12, 6, 5), (12, 3, 3), (12, 11, 0), (12, 0, 11), (70, 35, 34)])
def test_spill_gives_slots_one_side_cannot_use_to_the_other(directed, shape):
    size, num_out, num_in = shape
    labels = generated_labels(directed)
    sides = sides_of(labels)
    made = sampler(labels, size=size, num_out=num_out, num_in=num_in, spill=True)
    ids, _, parts = made.packed_rows(everyone(labels))
    moved = 0
    for node in range(labels.num_nodes):
        hubs, holders = len(sides[node].hubs), len(sides[node].holders)
        spare_out, spare_in = max(0, num_out - hubs), max(0, num_in - holders)
        assert parts[node].tolist() == [
            min(hubs, num_out + spare_in),
            min(holders, num_in + spare_out),
        ]
        members = [int(u) for u in ids[node] if u >= 0]
        assert len(members) == len(set(members)) == 1 + int(parts[node].sum())
        moved += parts[node][0] > num_out or parts[node][1] > num_in
    assert moved > 0


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("spill", [False, True])
def test_fill_takes_neighbours_that_were_not_drawn(directed, spill):
    labels = generated_labels(directed)
    neighbors = neighbors_of(generated(directed))
    shape = {"size": 16, "num_out": 4, "num_in": 4, "spill": spill}
    plain = sampler(labels, **shape).packed_rows(everyone(labels))
    filled = sampler(labels, fill="neighbors", **shape).packed_rows(everyone(labels))
    np.testing.assert_array_equal(plain.parts, filled.parts)
    total = 0
    for node in range(labels.num_nodes):
        drawn = [int(u) for u in plain.ids[node] if u >= 0]
        members = [int(u) for u in filled.ids[node] if u >= 0]
        added = members[len(drawn) :]
        assert members[: len(drawn)] == drawn
        assert len(set(members)) == len(members)
        assert set(added) <= neighbors[node] - set(drawn)
        assert len(added) == min(16 - len(drawn), len(neighbors[node] - set(drawn)))
        total += len(added)
    assert total > 100


def test_fill_is_uniform_over_the_neighbours_left():
    labels = labels_of(star(10))
    made = sampler(labels, size=4, num_out=0, num_in=0, fill="neighbors")
    rows = np.concatenate([made.ids([0], copy) for copy in range(6000)])
    counts = np.bincount(rows[:, 1:].ravel(), minlength=11)[1:]
    expected = 6000 * 3 / 10
    # Three of ten without replacement: the variance of a count is 6000 * 0.3 * 0.7.
    assert (np.abs(counts - expected) < 5 * np.sqrt(6000 * 0.3 * 0.7)).all()


# ---- cost --------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
def test_a_landmark_with_a_million_holders_is_as_cheap_as_a_leaf():
    """Ten thousand rows of the centre: reading its holders would take 10^10 steps."""
    labels = HubLabels.build(star(1_000_000), progress=False)
    for extra in ({}, {"fill": "neighbors", "num_in": 4}):
        made = sampler(labels, size=16, **extra)
        rows = made.ids(np.zeros(10_000, np.int64), copy=7)
        assert (rows == rows[0]).all()
        leaves = rows[0, 1:][rows[0, 1:] >= 0]
        num_leaves = 7 if not extra else 15
        assert len(set(leaves.tolist())) == len(leaves) == num_leaves
        other = made.ids([0], copy=8)
        assert (other != rows[0]).any()
        row = made.rows([0], copy=7)
        real = row.ids[0] >= 0
        expected = np.where(np.eye(16, dtype=bool), 0, 2)
        expected[0, 1:] = expected[1:, 0] = 1
        assert (row.spd[0][np.ix_(real, real)] == expected[np.ix_(real, real)]).all()
        assert made.ids([5]).tolist()[0][:2] == [5, 0]


# ---- arguments ---------------------------------------------------------------------------------


def test_nodes_may_be_given_in_any_usual_form():
    labels = generated_labels()
    made = sampler(labels, size=8)
    expected = made.ids([3, 5, 7])
    mask = np.zeros(400, bool)
    mask[[3, 5, 7]] = True
    for nodes in ((3, 5, 7), np.array([3, 5, 7], np.uint16), mask, np.array([3, 5, 7])[::1]):
        np.testing.assert_array_equal(made.ids(nodes), expected)
    np.testing.assert_array_equal(made.ids(3), expected[:1])
    assert made.ids([]).shape == (0, 8)
    assert made.rows([]).spd.shape == (0, 8, 8)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([0, 400], r"nodes\[1\] = 400; indices run from 0 to 399"),
        ([-1], r"nodes\[0\] = -1"),
        ([0.5], "float64"),
        (["a"], "pass node indices"),
        ([[0, 1]], r"shape \(1, 2\)"),
        (np.zeros(3, bool), "covers 3 nodes, the graph has 400"),
    ],
)
def test_nodes_that_are_none_are_refused(nodes, message):
    with pytest.raises(GraphError, match=message):
        sampler(generated_labels(), size=8).rows(nodes)


@pytest.mark.parametrize("copy", [-1, 1.5, "0", True, 2**63, None])
def test_copies_that_are_none_are_refused(copy):
    with pytest.raises(ValueError, match="copy"):
        sampler(generated_labels(), size=8).rows([0], copy)
