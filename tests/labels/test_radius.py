"""Labels with a radius: the nearer entries and no others, exact within it, honest beyond."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import (
    BEYOND,
    UNREACHABLE,
    ArtifactError,
    ConfigError,
    Graph,
    GraphWarning,
    HubLabels,
    MemoryLimitError,
    estimate,
)
from dhilgt.labels import label_block, store
from dhilgt.labels.grow import quick_labels
from dhilgt.labels.orders import node_order
from dhilgt.labels.radius import RadiusChoice, first_that_fits, radius_choices
from dhilgt.store.artifact import Artifact
from tests.labels.cases import ALGORITHMS, build, label, packed, path, random_graph, rows_of
from tests.oracle import FAR, all_distances, bfs, canonical_labels, degree_order

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


def within(labels, radius):
    """The entries of labels up to a distance, as dicts per node."""
    return [{hub: d for hub, d in entries.items() if d <= radius} for entries in labels]


def entries(labels, side="out"):
    return [label(labels, node, side) for node in range(labels.num_nodes)]


def all_pairs(labels):
    return labels.distance_matrix(np.arange(labels.num_nodes))


# ---- the definition ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first_seed",
    [0, 500, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1000, 6000, 500))],
)
def test_a_radius_keeps_the_canonical_entries_within_it(first_seed):
    for seed in range(first_seed, first_seed + 500):
        graph = random_graph(seed)
        radius = 1 + seed % 4
        reached, reaching = canonical_labels(rows_of(graph), degree_order(graph))
        for algorithm in ALGORITHMS:
            labels = build(graph, radius=radius, algorithm=algorithm, threads=1 + seed % 3)
            case = f"seed {seed}, radius {radius}, {algorithm}"
            assert entries(labels) == within(reached, radius), case
            assert entries(labels, "in") == within(reaching, radius), case


@pytest.mark.parametrize(
    "first_seed",
    [0, 1000, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2000, 9000, 1000))],
)
def test_distances_are_exact_within_the_radius_and_bounds_beyond(first_seed):
    for seed in range(first_seed, first_seed + 1000):
        graph = random_graph(seed, most_nodes=24)
        radius = 1 + seed % 4
        labels = build(graph, radius=radius)
        true = all_distances(rows_of(graph))
        found = all_pairs(labels)
        case = f"seed {seed}, radius {radius}"
        near = true <= radius
        assert (found[near] == true[near]).all(), case
        exact = labels.is_exact(found)
        assert exact[near].all(), case
        if labels.radius is None:  # nothing was left out
            assert exact.all(), case
            assert (found == np.where(true == FAR, UNREACHABLE, true)).all(), case
            continue
        bound = found[~near]
        assert ((bound == BEYOND) | ((bound > radius) & (bound <= 2 * radius))).all(), case
        assert (bound[bound != BEYOND] >= true[~near][bound != BEYOND]).all(), case
        assert (found[exact] == true[exact]).all(), case
        assert (exact == ((found >= 0) & (found <= radius + 1))).all(), case


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=50),
    st.booleans(),
    st.integers(1, 6),
)
def test_every_algorithm_and_number_of_threads_gives_the_same_bytes(n, edges, directed, radius):
    ends = np.array(edges, np.int64).reshape(-1, 2) % n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        graph = Graph.from_edges(*ends.T, num_nodes=n, directed=directed)
    expected = packed(build(graph, radius=radius, algorithm="pll", threads=1).native)
    for algorithm in ALGORITHMS:
        for threads in (1, 3):
            labels = build(graph, radius=radius, algorithm=algorithm, threads=threads)
            assert packed(labels.native) == expected


@pytest.mark.parametrize("radius", [1, 2, 3, 70])
@pytest.mark.parametrize("directed", [False, True])
def test_larger_graphs_too(radius, directed):
    ends = np.random.default_rng(3).integers(0, 3000, (2, 7000))
    graph = Graph.from_edges(*ends, num_nodes=3000, directed=directed)
    made = [build(graph, radius=radius, algorithm=algorithm, threads=2) for algorithm in ALGORITHMS]
    assert len({b"".join(packed(labels.native)) for labels in made}) == 1
    full = build(graph)
    kept = full.distance_histogram()[: radius + 1]
    assert made[0].distance_histogram().tolist() == kept.tolist()


def test_a_block_of_hubs_ends_at_the_radius_too():
    graph, _ = path(40, seed=1)
    whole, near = (label_block(graph, 0, 40, radius=r) for r in (None, 2))
    keep = whole.distances <= 2
    assert 0 < keep.sum() < len(keep)
    for ours, theirs in zip(near, whole, strict=True):
        assert ours.tolist() == theirs[keep].tolist()


# ---- what labels say of themselves -------------------------------------------------------------


@pytest.fixture
def line():
    """A path of 9 nodes, whose middle is ranked best: labels of radius 2."""
    graph, _ = path(9)
    order = [4, 2, 6, 1, 3, 5, 7, 0, 8]
    return graph, build(graph, order=order), build(graph, order=order, radius=2)


def test_nodes_that_share_no_hub_are_beyond_and_not_unreachable(line):
    _, full, near = line
    assert full.distance(0, 8) == 8
    assert near.distance(0, 8) == BEYOND
    assert near.witness(0, 8) == (BEYOND, None)
    distances, hubs = near.witnesses([0, 0], [8, 2])
    assert distances.tolist() == [BEYOND, 2]
    assert distances.dtype == np.int32
    assert hubs.tolist() == [None, 2]


def test_longer_distances_are_upper_bounds():
    # Two ways from 0 to 3: over 1 and 2, and over 4, 5 and 6, whose middle is ranked best.
    graph = Graph.from_edges([0, 1, 2, 0, 4, 5, 6], [1, 2, 3, 4, 5, 6, 3])
    labels = build(graph, radius=2, order=[5, 0, 3, 1, 2, 4, 6])
    assert build(graph).distance(0, 3) == 3
    assert labels.distance(0, 3) == 4
    assert not labels.is_exact(labels.distance(0, 3))
    assert labels.is_exact(labels.distance(0, 5))


def test_labels_name_their_radius(line):
    _, full, near = line
    assert (full.radius, near.radius) == (None, 2)
    assert (full.exact, near.exact) == (True, False)
    assert near.fingerprint != full.fingerprint
    assert ", radius 2)" in repr(near)
    assert near.max_distance == 2


def test_a_radius_that_leaves_nothing_out_gives_full_labels(line):
    graph, full, _ = line
    wide = build(graph, order=full.order, radius=full.max_distance + 1)
    assert wide.radius is None
    assert wide.exact
    assert wide.fingerprint == full.fingerprint


def test_the_fingerprint_of_full_labels_is_that_of_earlier_versions(line):
    _, full, _ = line
    assert full.fingerprint.startswith("9559cd")


def test_rows_of_the_label_graph_are_the_entries(line):
    _, _, near = line
    rows = near.label_graph()
    assert rows.out_distances.max() == 2
    assert len(rows.out_hubs) == near.num_entries - near.num_nodes
    assert near.holders(4)[1].max() == 2


# ---- on disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_saved_labels_keep_their_radius(tmp_path, directed):
    graph = random_graph(8, most_nodes=30, directed=directed)
    labels = build(graph, radius=1)
    labels.save(tmp_path / "a")
    again = HubLabels.load(tmp_path / "a")
    assert labels.radius == again.radius == 1
    assert again.fingerprint == labels.fingerprint
    assert (all_pairs(again) == all_pairs(labels)).all()
    assert again.distance(0, 1) == labels.distance(0, 1)


def test_only_labels_with_a_radius_have_the_new_format(tmp_path, line):
    _, full, near = line
    for name, labels, number in (("full", full, 1), ("near", near, 2)):
        labels.save(tmp_path / name)
        assert Artifact.open(tmp_path / name).format_version == number
    assert "radius" not in Artifact.open(tmp_path / "full").params
    with pytest.raises(ArtifactError, match="format"):  # as an earlier version opens it
        Artifact.open(tmp_path / "near", kind=store.KIND, max_format=store.FORMAT)


# ---- labels that grow --------------------------------------------------------------------------


def test_quick_labels_of_near_labels_are_the_near_quick_labels():
    compared = 0
    for seed in range(150):
        grown = random_graph(seed, most_nodes=30)
        rng = np.random.default_rng(seed)
        stays = rng.random(grown.num_nodes) < 0.7
        if not stays.any():
            continue
        ends = grown.to_edge_index()
        inside = stays[ends[0]] & stays[ends[1]]
        graph = Graph.from_edges(
            *ends[:, inside], nodes=np.flatnonzero(stays), directed=grown.directed
        )
        radius = 1 + seed % 3
        full = quick_labels(build(graph), graph, grown)
        near = quick_labels(build(graph, radius=radius), graph, grown)
        if near.radius is None or near.grown_from is None:
            continue
        compared += 1
        for side in ("out", "in"):
            assert entries(near, side) == within(entries(full, side), radius), f"seed {seed}"
        assert not near.is_exact(all_pairs(near)).any()
    assert compared > 50


# ---- the largest radius that fits --------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    ends = np.random.default_rng(1).integers(0, 2000, (2, 4000))
    graph = Graph.from_edges(*ends, num_nodes=2000)
    return graph, build(graph)


def test_one_search_predicts_the_sizes_of_all_radii(wide):
    graph, full = wide
    predicted = estimate(graph, num_probes=graph.num_nodes)
    kept = np.cumsum(full.distance_histogram())
    assert predicted.num_entries == full.num_entries
    assert [one.radius for one in predicted.by_radius] == list(range(1, full.max_distance))
    assert [one.num_entries for one in predicted.by_radius] == kept[1:-1].tolist()
    assert predicted.within(2).num_entries == kept[2]
    assert predicted.within(99) is predicted
    for radius in range(1, full.max_distance):
        one = estimate(graph, num_probes=graph.num_nodes, radius=radius)
        assert (one.num_entries, one.radius) == (kept[radius], radius)
        actual = build(graph, radius=radius).native.num_bytes
        assert one.num_bytes == pytest.approx(actual, rel=0.1)
        assert predicted.within(radius).num_bytes == pytest.approx(actual, rel=0.1)


def test_long_paths_have_a_short_table():
    graph, _ = path(2000, seed=1)
    assert len(estimate(graph).by_radius) <= 254


def test_max_entries_takes_the_largest_radius_that_fits(wide):
    graph, full = wide
    sizes = estimate(graph).by_radius
    for one in sizes:
        with pytest.warns(GraphWarning, match=f"within a radius of {one.radius}: about"):
            labels = build(graph, max_entries=one.num_entries)
        assert labels.radius == one.radius
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build(graph, max_entries=2 * full.num_entries).radius is None


def test_max_memory_takes_a_radius_only_where_auto_asks_for_it(wide):
    graph, _ = wide
    predicted = estimate(graph)
    limit = predicted.within(1).peak_bytes
    assert predicted.num_bytes > 2 * limit
    with pytest.raises(MemoryLimitError, match="pass radius='auto' for labels of the largest"):
        build(graph, max_memory=limit)
    choices = radius_choices(graph, node_order(graph, "degree"), limit)
    assert [one.radius for one in choices] == [1]
    assert "full labels would take about" in choices[0].note


def test_auto_builds_what_fits_the_memory():
    ends = np.random.default_rng(1).integers(0, 20_000, (2, 40_000))
    graph = Graph.from_edges(*ends, num_nodes=20_000)
    with pytest.warns(GraphWarning, match=r"the limit is 40 MB. The labels keep hubs within a rad"):
        labels = build(graph, radius="auto", max_memory="40MB")
    assert labels.radius is not None
    assert labels.radius >= 4
    assert labels.native.num_bytes < 40e6
    nodes = np.random.default_rng(2).integers(0, 20_000, 5)
    rows = rows_of(graph)
    for node in nodes.tolist():
        near = {other: d for other, d in bfs(rows, node).items() if d <= labels.radius}
        found = labels.distances(np.full(len(near), node), list(near))
        assert found.tolist() == list(near.values())


def test_auto_keeps_all_hubs_where_they_fit(wide):
    graph, full = wide
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = build(graph, radius="auto")
    assert packed(labels.native) == packed(full.native)
    assert labels.fingerprint == full.fingerprint


def test_a_build_that_outgrows_its_prediction_takes_the_next_radius():
    choices = [RadiusChoice(None), RadiusChoice(3, 10, "three"), RadiusChoice(2, 5, "two")]

    def make(one):
        if one.radius != 2:
            raise MemoryLimitError("too large")
        return one.radius

    with pytest.warns(GraphWarning) as seen:
        assert first_that_fits(choices, make) == 2
    assert [str(one.message) for one in seen] == ["three", "two"]
    with pytest.raises(MemoryLimitError, match="too large"):
        first_that_fits(choices[:1], make)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"radius": 0}, r'radius = 0; pass a whole number from 1 to .* or None, or "auto"'),
        ({"radius": "all"}, "radius = 'all'"),
        ({"radius": 1.5}, "radius = 1.5"),
        ({"max_entries": 0}, "max_entries = 0"),
        ({"radius": 2, "max_entries": 10}, "pass one of the two"),
    ],
)
def test_values_of_no_use_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        build(Graph.from_edges([0, 1], [1, 2]), **options)


def test_an_error_tells_that_not_even_neighbours_fit(wide):
    graph, _ = wide
    with pytest.raises(MemoryLimitError, match=r"with a radius of 1 about .* limit is 100 entries"):
        build(graph, max_entries=100)


def test_a_radius_that_does_not_fit_is_refused_before_the_work(wide):
    graph, _ = wide
    with pytest.raises(MemoryLimitError, match=r"labels would take .*lower radius"):
        build(graph, radius=3, max_memory="100kB")
