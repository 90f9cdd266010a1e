"""Rows drawn from labels in parts are the rows drawn from whole labels, byte for byte."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import ArtifactError, Graph, HubLabels, MemoryLimitError, Tokens, TokenSampler, _native
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.labels.sharding import build_sharded
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.ranges import RangeSampler, Traffic
from tests.tokens.cases import (
    contents,
    generated,
    generated_labels,
    labels_of,
    landmark_path,
    random_graph,
)
from tests.tokens.parts import rows_of

SPECS = [
    {"size": 1},
    {"size": 2, "num_in": 0},
    {"size": 5, "spill": True, "seed": 3},
    {"size": 8, "num_out": 0, "num_in": 3, "spill": True, "fill": "neighbors"},
    {"size": 32, "fill": "neighbors", "out_exponent": 1.0},
    {"size": 66, "in_exponent": 0.5},
]


def assert_same_rows(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def whole(labels, nodes, copy=0, **spec):
    return TokenSampler(labels, threads=1, progress=False, **spec).packed_rows(nodes, copy)


def in_parts(rows, nodes, copy=0, *, batch=None, keep=False, threads=1, **spec):
    """The rows; `keep` decodes all labels once, where there are more slots than twice the nodes."""
    sampler = RangeSampler(rows, threads=threads, **spec)
    sampler._may_keep = keep
    if batch is not None:
        sampler._batch_rows = batch
    return sampler.packed_rows(nodes, copy)


# ---- the same rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("block", range(4))
def test_rows_of_random_graphs(directed, block):
    for seed in range(10 * block, 10 * block + 10):
        labels = labels_of(random_graph(seed, directed))
        rows, nodes = rows_of(labels), np.arange(labels.num_nodes)
        for spec in SPECS:
            for copy in (0, 7):
                expected = whole(labels, nodes, copy, **spec)
                assert_same_rows(in_parts(rows, nodes, copy, **spec), expected)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("spec", [{}, *SPECS], ids=str)
def test_rows_of_generated_graphs(directed, spec):
    labels = generated_labels(directed)
    rows = rows_of(labels, [0, 10, 100, 400], [0, 3, 400])
    nodes = np.random.default_rng(2).integers(0, 400, 300)  # in any order, some twice
    expected = whole(labels, nodes, **spec)
    assert_same_rows(in_parts(rows, nodes, **spec), expected)
    assert_same_rows(in_parts(rows, nodes, keep=True, **spec), expected)


@given(
    seed=st.integers(0, 10**6),
    directed=st.booleans(),
    spec=st.sampled_from(SPECS),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    batch=st.integers(1, 50),
    keep=st.booleans(),
    threads=st.integers(1, 3),
)
@settings(deadline=None, max_examples=40)
def test_neither_parts_nor_batches_nor_threads_matter(
    seed, directed, spec, cuts, batch, keep, threads
):
    labels = labels_of(random_graph(seed, directed))
    n = labels.num_nodes
    bounds = sorted({0, n, *(cut for cut in cuts if cut < n)})
    rows, nodes = rows_of(labels, bounds, bounds[:1] + bounds[-1:]), np.arange(n)
    drawn = in_parts(rows, nodes, batch=batch, keep=keep, threads=threads, **spec)
    assert_same_rows(drawn, whole(labels, nodes, **spec))


@pytest.mark.parametrize("size", [32, 80])
def test_long_distances(size):
    labels = landmark_path(700)
    nodes = np.arange(0, 700, 3)
    assert_same_rows(in_parts(rows_of(labels), nodes, size=size), whole(labels, nodes, size=size))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("radius", [1, 2, 50])
def test_labels_with_a_radius(directed, radius):
    graph = generated(directed)
    labels = HubLabels.build(graph, radius=radius, progress=False)
    nodes = np.arange(graph.num_nodes)
    drawn = in_parts(rows_of(labels), nodes, size=8)
    assert_same_rows(drawn, whole(labels, nodes, size=8))
    assert_same_rows(drawn, in_parts(rows_of(labels), nodes, keep=True, size=8))
    assert (tokens_store.FAR in drawn.spd) == (radius < 50)


@pytest.mark.full
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_rows_of_many_random_graphs(directed):
    for seed in range(1000, 2500):
        labels = labels_of(random_graph(seed, directed))
        rows, nodes = rows_of(labels), np.arange(labels.num_nodes)
        for spec in SPECS:
            expected = whole(labels, nodes, seed, **spec)
            assert_same_rows(in_parts(rows, nodes, seed, **spec), expected)


# ---- memory and traffic ------------------------------------------------------------------------


def test_a_limit_makes_batches_smaller_and_changes_nothing():
    labels, nodes = generated_labels(), np.arange(400)
    sampler = RangeSampler(rows_of(labels), threads=1, max_memory="30kB")
    assert_same_rows(sampler.packed_rows(nodes), whole(labels, nodes))
    assert 1 <= sampler._batch_rows < 100
    sampler._batch_rows = 400  # more than fits: refused by the core, then tried with fewer
    assert_same_rows(sampler.packed_rows(nodes), whole(labels, nodes))
    assert sampler._batch_rows < 400
    with pytest.raises(MemoryLimitError, match=r"a token row needs .* 1 kB are allowed; raise max"):
        RangeSampler(rows_of(labels), threads=1, max_memory="1kB").packed_rows(nodes)


def test_small_labels_are_decoded_once_where_most_are_needed():
    labels = generated_labels()
    sampler = RangeSampler(rows_of(labels), threads=1)
    sampler.packed_rows(np.arange(20))  # 640 slots for 400 nodes
    assert sampler._whole is None
    read = sampler.traffic
    sampler.packed_rows(np.arange(100))
    kept = sampler._whole
    assert kept is not None
    assert_same_rows(sampler.packed_rows(np.arange(20)), whole(labels, np.arange(20)))
    assert sampler._whole is kept
    batches = RangeSampler(rows_of(labels), threads=1)
    batches._may_keep = False
    batches.packed_rows(np.arange(20))
    assert read._replace(seconds=0) == batches.traffic._replace(seconds=0)
    # Kept labels are counted as if they were read for each batch.
    batches.packed_rows(np.arange(100))
    counted = sampler.traffic - read - read
    assert counted._replace(seconds=0) == (batches.traffic - read)._replace(seconds=0)


def test_labels_that_do_not_fit_when_decoded_are_read_in_batches():
    labels, nodes = generated_labels(), np.arange(400)
    sampler = RangeSampler(rows_of(labels), threads=1, max_memory="30kB")
    sampler._may_keep = True
    assert_same_rows(sampler.packed_rows(nodes), whole(labels, nodes))
    assert sampler._whole is None


def test_what_is_read_is_counted():
    # 0 - 1 - 2: node 1 is the hub of both others. A label or list with one entry takes 4 bytes, one
    # with two entries of the same distance 5, an empty one 1; each is fetched with 8 for its place.
    labels = labels_of(Graph.from_edges([0, 1], [1, 2]))
    sampler = RangeSampler(rows_of(labels), size=2, threads=1)
    assert sampler.packed_rows([0, 1]).ids.tolist() == [[0, 1], [1, -1]]
    egos, members = (4 + 1) + (1 + 5), 4 + 1  # labels and holders of 0 and 1, then their labels
    assert sampler.traffic._replace(seconds=0) == Traffic(2, 3, 6, egos + members + 6 * 8)
    assert sampler.traffic.seconds > 0
    sampler.packed_rows([0, 1])
    assert sampler.traffic._replace(seconds=0) == Traffic(4, 6, 12, 2 * (egos + members + 6 * 8))


# ---- damage ------------------------------------------------------------------------------------


def test_an_order_without_a_node_is_named():
    rows = rows_of(generated_labels())
    other = rows.node_at.copy()
    other[other == 17] = 18
    damaged = dataclasses.replace(rows, node_at=other)
    with pytest.raises(ArtifactError, match="does not list node 17; build again"):
        in_parts(damaged, [3, 17])
    assert damaged.ranks_of(np.array([3, 3])).tolist() == [generated_labels().ranks[3]] * 2
    assert damaged.ranks_of(np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize("kind", ["labels", "holders"])
def test_damaged_rows_are_refused(kind):
    labels = generated_labels()
    rows = rows_of(labels)
    parts = getattr(rows, kind)
    ((offsets, records),) = parts.sides[0]
    damaged = PackedLabelRows(offsets, np.full_like(records, 255))
    bad = dataclasses.replace(parts, sides=[[damaged]])
    with pytest.raises(ArtifactError, match=r"packed labels are damaged: label of rank \d+"):
        in_parts(dataclasses.replace(rows, **{kind: bad}), [3])


def test_the_core_checks_its_arguments():
    empty = (np.array([0, 1], np.uint64), np.zeros(1, np.uint8))
    one = np.zeros(1, np.uint32)
    shape = (4, 1, 1, 0.0, 0.0, 0, 0, False, False, 1)
    draw, number, decoded = _native.draw_members, _native.distinct_members, _native.DecodedRows
    rows = decoded(1, False, False, one, empty, 1, 10**9)
    assert rows.distances(2, np.array([0, 2**32 - 1], np.uint32), 1).tolist() == [255]
    assert draw(1, False, one, one, empty, empty, *shape)[0].tolist() == [0] + [2**32 - 1] * 3
    for bad in [
        lambda: draw(1, True, one, one, empty, empty, *shape),
        lambda: draw(1, False, one + 1, one, empty, empty, *shape),
        lambda: draw(1, False, one, one + 1, empty, empty, *shape),
        lambda: draw(1, False, one, np.zeros(2, np.uint32), empty, empty, *shape),
        lambda: draw(1, False, one, one, (empty[0][:1], empty[1]), empty, *shape),
        lambda: number(1, one + 1),
        lambda: decoded(1, True, False, one, empty, 1, 10**9),
        lambda: decoded(1, False, False, one + 1, empty, 1, 10**9),
        lambda: rows.distances(0, one, 1),
        lambda: rows.distances(2, one, 1),
        lambda: rows.distances(1, one + 1, 1),
    ]:
        with pytest.raises(ValueError):
            bad()
    outside = (np.array([0, 9], np.uint64), empty[1])
    with pytest.raises(ArtifactError, match="run outside the data"):
        draw(1, False, one, one, outside, empty, *shape)


# ---- stored tokens -----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def cut_labels(request, tmp_path_factory):
    graph = generated(request.param)
    path = tmp_path_factory.mktemp("parts") / "labels"
    return labels_of(graph), build_sharded(graph, path, num_ranges=3)


@pytest.mark.parametrize(
    "options",
    [{}, {"copies": 3, "bits": 4, "size": 7}, {"nodes": [5, 399, 0], "fill": "neighbors"}],
    ids=str,
)
def test_tokens_of_labels_in_parts_have_the_same_files(tmp_path, monkeypatch, cut_labels, options):
    monkeypatch.setattr(tokens_store, "_SHARD_ROWS", 150)
    plain, cut = cut_labels
    options = {**options, "progress": False}
    Tokens.build(plain, path=tmp_path / "plain", **options)
    tokens = Tokens.build(cut, path=tmp_path / "cut", **options)
    assert contents(tmp_path / "cut") == contents(tmp_path / "plain")
    assert tokens.traffic.num_rows == len(tokens)
    assert cut._native.packed  # nothing was decoded for good
    in_memory = Tokens.build(cut, **options)
    nodes = options.get("nodes", range(400))
    assert_same_rows(in_memory.packed_rows(nodes), tokens.packed_rows(nodes))
    assert in_memory.traffic.num_bytes == tokens.traffic.num_bytes
    assert Tokens.load(tmp_path / "cut").traffic is None
    assert Tokens.build(plain, **options).traffic is None


@pytest.mark.parametrize("radius", [2, 50])
def test_tokens_of_parts_with_a_radius(tmp_path, radius):
    graph = generated(True)
    plain = HubLabels.build(graph, radius=radius, progress=False)
    cut = build_sharded(graph, tmp_path / "labels", num_ranges=3, radius=radius)
    Tokens.build(plain, path=tmp_path / "plain", size=9, progress=False)
    Tokens.build(cut, path=tmp_path / "cut", size=9, progress=False)
    assert contents(tmp_path / "cut") == contents(tmp_path / "plain")


def test_large_labels_are_checked_before_the_first_row(tmp_path, monkeypatch):
    monkeypatch.setattr("dhilgt.store.checksums.WHOLE_BYTES", 1000)
    build_sharded(generated(False), tmp_path / "labels", num_ranges=2)
    file = tmp_path / "labels" / "in_records_00001.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    monkeypatch.setattr("dhilgt.store.artifact.sampled_blocks", lambda count: [])
    file.write_bytes(data)
    labels = HubLabels.load(tmp_path / "labels")
    assert not labels.is_checked
    with pytest.raises(ArtifactError, match=r"in_records_00001\.npy is damaged"):
        Tokens.build(labels, progress=False)
