"""The labels are the canonical ones: the definition, the paper's properties, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, _native, generate
from dhilgt.labels.sizes import native_arrays
from tests.labels.cases import (
    ALGORITHMS,
    UNLIMITED,
    build,
    label,
    native_labels,
    packed,
    random_graph,
    rows_of,
)
from tests.oracle import FAR, all_distances, best_on_paths, canonical_labels, degree_order

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


@pytest.fixture(params=["portable", "avx2", "avx512"])
def simd(request):
    levels = ["portable", "avx2", "avx512"]
    before = _native.simd_level()
    if levels.index(request.param) > levels.index(_native.simd_supported()):
        pytest.skip(f"this processor has no {request.param}")
    _native.set_simd_level(request.param)
    yield request.param
    _native.set_simd_level(before)


# ---- the definition ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first_seed",
    [0, 300, 600, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(900, 9000, 300))],
)
def test_a_hub_is_the_best_ranked_node_on_all_shortest_paths(first_seed):
    for seed in range(first_seed, first_seed + 300):
        graph = random_graph(seed)
        order = degree_order(graph)
        reached, reaching = canonical_labels(rows_of(graph), order)
        entries = sum(map(len, reached)) + (sum(map(len, reaching)) if graph.directed else 0)
        for algorithm in ALGORITHMS:
            labels = build(graph, algorithm=algorithm, threads=1 + seed % 3)
            case = f"seed {seed}, {algorithm}"
            assert labels.order.tolist() == order.tolist(), case
            assert [label(labels, v) for v in range(graph.num_nodes)] == reached, case
            assert [label(labels, v, "in") for v in range(graph.num_nodes)] == reaching, case
            assert labels.num_entries == entries, case


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=80),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from(ALGORITHMS),
)
@settings(max_examples=150, deadline=None)
def test_the_definition_holds_for_any_order(n, edges, directed, shuffle, algorithm):
    ends = [(u % n, v % n) for u, v in edges if u % n != v % n]
    u, v = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    graph = Graph.from_edges(u, v, num_nodes=n, directed=directed)
    order = list(range(n))
    shuffle.shuffle(order)
    labels = build(graph, order=order, algorithm=algorithm)
    reached, reaching = canonical_labels(rows_of(graph), order)
    assert [label(labels, node) for node in range(n)] == reached
    assert [label(labels, node, "in") for node in range(n)] == reaching


# ---- what follows from it, checked on its own --------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_the_papers_three_properties(directed):
    for seed in range(300):
        graph = random_graph(seed, most_nodes=12, directed=directed)
        labels = build(graph)
        rank = np.argsort(labels.order)
        distance = all_distances(rows_of(graph))
        best = best_on_paths(distance, rank)
        hubs = [set(label(labels, node)) for node in range(graph.num_nodes)]
        for u, v in zip(*graph.to_edge_index(), strict=True):
            if rank[v] < rank[u]:
                assert v in hubs[u], "1: an edge points from the worse rank to the better"
        for u, v in zip(*np.nonzero(distance < FAR), strict=True):
            if best[u, v] == rank[v]:
                assert v in hubs[u], "2: a node sees the best ranked end of its shortest paths"
            elif rank[v] < rank[u]:
                assert v not in hubs[u], "3: a better node on the way hides what lies behind it"


def test_the_papers_running_example():
    #       3
    #       |          ranks 1 to 6 by id
    #   4 - 1 - 2 - 5
    #       |
    #       6
    graph = Graph.from_edges([1, 1, 2, 1, 1], [4, 2, 5, 6, 3])
    labels = build(graph, order=[1, 2, 3, 4, 5, 6])
    assert label(labels, 4) == {4: 0, 1: 1}  # 1-4 is an edge: 4 -> 1
    assert label(labels, 2) == {2: 0, 1: 1}  # the path 1-2-5: 2 -> 1 and 5 -> 1
    assert label(labels, 5) == {5: 0, 2: 1, 1: 2}
    assert label(labels, 6) == {6: 0, 1: 1}  # 5 and 6 meet through 1: no edge between them
    assert labels.witness(5, 6) == (3, 1)


@pytest.mark.parametrize("directed", [False, True])
def test_no_entry_can_be_left_out(directed):
    for seed in range(200):
        graph = random_graph(seed, most_nodes=12, directed=directed)
        labels = build(graph)
        out = [label(labels, v) for v in range(graph.num_nodes)]
        into = [label(labels, v, "in") for v in range(graph.num_nodes)]
        for v, hubs in enumerate(out):
            for hub, distance in hubs.items():
                # The pair (v, hub) has no other answer: without the entry it would be wrong.
                others = [d + into[hub][w] for w, d in hubs.items() if w in into[hub] and w != hub]
                assert distance < min(others, default=FAR), f"seed {seed}: {v} -> {hub}"


# ---- the same bytes, however they are made -----------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_every_algorithm_and_thread_count_gives_the_same_bytes(directed):
    graph = generate(4000, 3 if directed else 7, seed=11, directed=directed, num_features=0)
    expected = packed(native_labels(graph, algorithm="pll"))
    for algorithm in ("auto", "planes", "psl"):
        for threads in (1, 2, 3, 7):
            actual = packed(native_labels(graph, algorithm=algorithm, threads=threads))
            assert actual == expected, f"{algorithm}, {threads} threads"


@pytest.mark.parametrize("directed", [False, True])
def test_any_number_of_hubs_by_planes_gives_the_same_bytes(directed):
    graph = generate(2600, 4, seed=12, directed=directed, num_features=0)
    expected = packed(native_labels(graph, algorithm="pll"))
    for plane_hubs in (0, 1, 511, 512, 513, 1024, 2047, 2048, 2049, 2599, 2600, 9999):
        actual = packed(native_labels(graph, plane_hubs=plane_hubs, threads=2))
        assert actual == expected, f"{plane_hubs} hubs by planes"


@pytest.mark.parametrize("directed", [False, True])
def test_every_simd_level_gives_the_same_bytes(simd, directed):
    graph = generate(3000, 5, seed=13, directed=directed, num_features=0)
    expected = packed(native_labels(graph, algorithm="pll"))
    for algorithm in ("auto", "planes"):
        assert packed(native_labels(graph, algorithm=algorithm, threads=2)) == expected


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("width", [512, 300])
def test_plane_blocks_together_are_the_labels(directed, width):
    graph = generate(2500, 5, seed=14, directed=directed, num_features=0)
    labels = build(graph)
    order = labels.order.astype(np.uint32)
    for side in (0, 1):
        starts = range(0, 2500, width)
        blocks = [
            _native.plane_block(
                *native_arrays(graph), order, side, at, min(2500, at + width), UNLIMITED, None
            )
            for at in starts
        ]
        nodes, hubs, distances = map(np.concatenate, zip(*blocks, strict=True))
        offsets, all_hubs, all_distances = labels.native.flat_arrays(side)
        all_nodes = np.repeat(np.arange(2500), np.diff(offsets))
        other = all_nodes != all_hubs  # blocks leave a hub's entry for itself implicit
        by_entry = np.lexsort((hubs, distances, nodes))
        assert np.array_equal(nodes[by_entry], all_nodes[other])
        assert np.array_equal(hubs[by_entry], all_hubs[other])
        assert np.array_equal(distances[by_entry], all_distances[other])


@pytest.mark.parametrize(("first", "last"), [(0, 513), (5, 5), (7, 3), (0, 601)])
def test_a_block_is_one_to_512_hubs_of_the_graph(first, last):
    graph = generate(600, 4, seed=1)
    order = np.arange(600, dtype=np.uint32)
    with pytest.raises(ValueError, match="1 to 512 ranks below 600"):
        _native.plane_block(*native_arrays(graph), order, 0, first, last, UNLIMITED, None)
