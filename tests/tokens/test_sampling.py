"""The law of the draw, by chi-square against exact probabilities; and what it depends on.

Every draw is fixed by its seed, so these tests pass or fail for good: none can flicker.
"""

import hashlib
import itertools
from functools import cache

import numpy as np
import pytest
import scipy.stats

from dhilgt import Graph, HubLabels, TokenSampler, generate
from tests.tokens.cases import generated_labels

EXPONENTS = [-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0]
LEAST_P = 1e-4

# Small trees, as the parent of each node from 1 on; the root is 0.
TREE = (0, 0, 1, 2, 3, 5)  # distances 1, 1, 2, 2, 3, 4 from the root
SMALL = (0, 1)  # distances 1, 2
WIDE = (0,) * 12


def depths(parents):
    actual = [0]
    for parent in parents:
        actual.append(actual[parent] + 1)
    return actual


@cache
def forest(parents, trees, side):
    """Labels of many equal trees in which all other nodes are on one side of each root.

    With roots ranked first every node of a tree holds its root; with nodes ranked from the deepest
    up every node is a hub of its root.
    """
    size = len(parents) + 1
    base = np.repeat(np.arange(trees) * size, size - 1)
    child = base + np.tile(np.arange(1, size), trees)
    parent = base + np.tile(np.array(parents), trees)
    graph = Graph.from_edges(child, parent, num_nodes=trees * size)
    by_depth = np.argsort(depths(parents), kind="stable")
    ranked = by_depth if side == "in" else by_depth[::-1]
    order = (ranked[:, None] + np.arange(trees) * size).ravel()
    return HubLabels.build(graph, order=order, progress=False)


def draw(parents, trees, copies, side, quota, exponent, seed=0):
    """[trees * copies, quota] nodes of a tree, the rows of its root."""
    size = len(parents) + 1
    labels = forest(parents, trees, side)
    sampler = TokenSampler(
        labels,
        size=quota + 1,
        num_out=quota if side == "out" else 0,
        num_in=quota if side == "in" else 0,
        out_exponent=exponent if side == "out" else 3.0,
        in_exponent=exponent if side == "in" else 3.0,
        seed=seed,
        progress=False,
    )
    roots = np.arange(trees) * size
    rows = [sampler.ids(roots, copy)[:, 1:] - roots[:, None] for copy in range(copies)]
    return np.sort(np.concatenate(rows), axis=1)


def set_probabilities(weights, quota):
    """Probability of each set of items, summed over all orders in which it can be drawn."""
    actual = {}

    def step(drawn, probability, left):
        if len(drawn) == quota:
            key = tuple(sorted(drawn))
            actual[key] = actual.get(key, 0.0) + probability
            return
        for item, weight in enumerate(weights):
            if item not in drawn:
                step((*drawn, item), probability * weight / left, left - weight)

    step((), 1.0, sum(weights))
    return actual


def p_value(counts, probabilities):
    """Chi-square of counts per outcome; rare outcomes are put together."""
    total = sum(counts.values())
    assert set(counts) <= set(probabilities)
    observed = np.array([counts.get(key, 0) for key in probabilities])
    expected = np.array(list(probabilities.values())) * total
    rare = expected < 10
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1e-3:
        assert observed[-1] <= 3
        observed, expected = observed[:-1], expected[:-1]
    if len(expected) == 1:
        return 1.0
    statistic = ((observed - expected) ** 2 / expected).sum()
    return scipy.stats.chi2.sf(statistic, len(expected) - 1)


def count_rows(rows):
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return dict(zip(map(tuple, values.tolist()), counts.tolist(), strict=True))


# ---- the law -----------------------------------------------------------------------------------


def test_the_exact_probabilities_are_right():
    """By hand: items of weight 1 and 1/2 and 1/2, two drawn."""
    actual = set_probabilities([1.0, 0.5, 0.5], 2)
    assert actual[1, 2] == pytest.approx(0.25 * 1 / 3 * 2)
    assert actual[0, 1] == pytest.approx(0.5 * 0.5 + 0.25 * 2 / 3)
    assert sum(actual.values()) == pytest.approx(1)


@pytest.mark.parametrize("side", ["out", "in"])
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("quota", [1, 2, 3, 5])
def test_sets_are_drawn_with_the_probability_of_a_sequential_draw(side, exponent, quota):
    rows = draw(TREE, 4000, 10, side, quota, exponent, seed=quota)
    weights = [float(depth) ** exponent for depth in depths(TREE)[1:]]
    exact = {
        tuple(item + 1 for item in key): value
        for key, value in set_probabilities(weights, quota).items()
    }
    assert p_value(count_rows(rows), exact) > LEAST_P


@pytest.mark.parametrize("side", ["out", "in"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_one_of_two(side, exponent):
    rows = draw(SMALL, 20000, 2, side, 1, exponent)
    weights = np.array([1.0, 2.0**exponent])
    exact = {(1,): weights[0] / weights.sum(), (2,): weights[1] / weights.sum()}
    assert p_value(count_rows(rows), exact) > LEAST_P


@pytest.mark.parametrize("side", ["out", "in"])
def test_a_wrong_law_would_be_noticed(side):
    """The same counts against an exponent that is off by a tenth."""
    rows = draw(TREE, 4000, 10, side, 2, -1.0)
    weights = [float(depth) ** -1.1 for depth in depths(TREE)[1:]]
    exact = {
        tuple(item + 1 for item in key): value
        for key, value in set_probabilities(weights, 2).items()
    }
    assert p_value(count_rows(rows), exact) < LEAST_P


@pytest.mark.parametrize("side", ["out", "in"])
def test_nodes_at_one_distance_are_alike(side):
    quota, leaves = 5, len(WIDE)
    rows = draw(WIDE, 4000, 10, side, quota, -1.0)
    counts = np.bincount(rows.ravel(), minlength=leaves + 1)[1:]
    expected = len(rows) * quota / leaves
    # Without replacement counts of one row hold each other back.
    spread = (1 - quota / leaves) * leaves / (leaves - 1)
    statistic = ((counts - expected) ** 2 / expected).sum() / spread
    assert scipy.stats.chi2.sf(statistic, leaves - 1) > LEAST_P


def class_counts(sizes, weights, quota):
    """Probability of each way to take `quota` items from classes of equal items."""
    states = {(0,) * len(sizes): 1.0}
    for _ in range(quota):
        later = {}
        for state, probability in states.items():
            masses = [(n - k) * w for n, k, w in zip(sizes, state, weights, strict=True)]
            for at, mass in enumerate(masses):
                if mass > 0:
                    key = tuple(k + (i == at) for i, k in enumerate(state))
                    later[key] = later.get(key, 0.0) + probability * mass / sum(masses)
        states = later
    return states


@pytest.mark.parametrize("side", ["out", "in"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_large_sets_keep_the_law(side, exponent):
    """Ninety nodes at three distances, sixteen drawn: how many come from each distance."""
    parents = (
        (0,) * 30
        + tuple(range(1, 31))
        + tuple(1 + i % 10 for i in range(10))
        + tuple(range(31, 51))
    )
    depth = np.array(depths(parents))
    sizes = np.bincount(depth)[1:].tolist()
    assert sizes == [30, 40, 20]
    rows = depth[draw(parents, 400, 50, side, 16, exponent)]
    actual = np.stack([(rows == distance).sum(1) for distance in (1, 2, 3)], axis=1)
    exact = class_counts(sizes, [1.0, 2.0**exponent, 3.0**exponent], 16)
    assert p_value(count_rows(actual), exact) > LEAST_P


# ---- very many distances -----------------------------------------------------------------------


def line(length):
    """The parents of a path that begins at its root."""
    return tuple(range(length - 1))


@pytest.mark.parametrize("side", ["out", "in"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_one_of_ninety_nine_distances(side, exponent):
    """More than 64 distances are kept in ranges, and an entry is accepted by its own weight."""
    rows = draw(line(100), 200, 150, side, 1, exponent)
    weights = np.arange(1.0, 100.0) ** exponent
    exact = {(i + 1,): w / weights.sum() for i, w in enumerate(weights)}
    assert p_value(count_rows(rows), exact) > LEAST_P


@pytest.mark.parametrize("side", ["out", "in"])
@pytest.mark.parametrize("exponent", [-2.0, -0.5, 1.0, 4.0])
def test_two_of_seventy_distances(side, exponent):
    rows = draw(line(71), 200, 300, side, 2, exponent, seed=8)
    weights = (np.arange(1.0, 71.0) ** exponent).tolist()
    exact = {
        tuple(item + 1 for item in key): value
        for key, value in set_probabilities(weights, 2).items()
    }
    assert p_value(count_rows(rows), exact) > LEAST_P


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 2.0])
def test_distances_beyond_any_table(exponent):
    rows = draw(line(401), 20, 1000, "in", 1, exponent)
    weights = np.arange(1.0, 401.0) ** exponent
    groups = (rows.ravel() - 1) // 20  # twenty distances an outcome
    grouped = np.add.reduceat(weights, np.arange(0, 400, 20)) / weights.sum()
    values, counts = np.unique(groups, return_counts=True)
    exact = {(i,): p for i, p in enumerate(grouped)}
    observed = {(int(v),): int(c) for v, c in zip(values, counts, strict=True)}
    assert p_value(observed, exact) > LEAST_P


# ---- independence ------------------------------------------------------------------------------


def independent(one, other):
    table = np.zeros((max(one) + 1, max(other) + 1))
    np.add.at(table, (one, other), 1)
    return scipy.stats.chi2_contingency(table).pvalue > LEAST_P


def outcomes(copy=0, seed=0):
    """Which pair of the tree's nodes each root drew, as a number."""
    labels = forest(TREE, 4000, "in")
    sampler = TokenSampler(
        labels, size=3, num_out=0, num_in=2, in_exponent=0, seed=seed, progress=False
    )
    roots = np.arange(4000) * 7
    pairs = np.sort(sampler.ids(roots, copy)[:, 1:] - roots[:, None], axis=1)
    number = {pair: i for i, pair in enumerate(itertools.combinations(range(1, 7), 2))}
    return np.array([number[tuple(pair)] for pair in pairs.tolist()])


def test_copies_are_independent():
    assert independent(outcomes(copy=0), outcomes(copy=1))
    assert independent(outcomes(copy=1), outcomes(copy=2))


def test_seeds_are_independent():
    assert independent(outcomes(seed=0), outcomes(seed=1))
    assert independent(outcomes(seed=0, copy=1), outcomes(seed=1, copy=0))


def test_nodes_are_independent():
    actual = outcomes()
    assert independent(actual[:-1], actual[1:])


def test_the_two_sides_of_a_node_are_independent():
    """A star whose centre ranks between its leaves: three hubs, three holders."""
    stars = 4000
    centre = np.arange(stars) * 7
    leaves = centre[:, None] + np.arange(1, 7)
    graph = Graph.from_edges(np.repeat(centre, 6), leaves.ravel(), num_nodes=7 * stars)
    order = np.concatenate([leaves[:, :3].ravel(), centre, leaves[:, 3:].ravel()])
    labels = HubLabels.build(graph, order=order, progress=False)
    sampler = TokenSampler(labels, size=3, num_out=1, num_in=1, progress=False)
    rows = sampler.ids(centre) - centre[:, None]
    assert set(rows[:, 1]) == {1, 2, 3}
    assert set(rows[:, 2]) == {4, 5, 6}
    assert independent(rows[:, 1] - 1, rows[:, 2] - 4)


# ---- what a draw depends on --------------------------------------------------------------------


SPEC = {"size": 12, "out_exponent": -0.5, "in_exponent": 1.5}


def test_seed_and_copy_change_the_draw():
    labels = generated_labels()
    made = TokenSampler(labels, **SPEC, progress=False)
    nodes = np.arange(400)
    rows = {
        made.with_seed(seed).ids(nodes, copy).tobytes()
        for seed in (0, 1, 2, 2**64 - 1)
        for copy in (0, 1, 2, 2**63 - 1)
    }
    assert len(rows) == 16


def test_a_new_seed_is_a_new_sampler():
    labels = generated_labels()
    made = TokenSampler(labels, **SPEC, progress=False)
    fresh = TokenSampler(labels, seed=9, **SPEC, progress=False)
    np.testing.assert_array_equal(made.with_seed(9).ids([1, 2]), fresh.ids([1, 2]))
    assert made.spec.seed == 0


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_rows_do_not_depend_on_threads_batches_or_order(directed):
    labels = generated_labels(directed)
    nodes = np.arange(400)
    reference = TokenSampler(labels, **SPEC, threads=1, progress=False).packed_rows(nodes, 3)
    for threads in (1, 2, 3, 7):
        made = TokenSampler(labels, **SPEC, threads=threads, progress=False)
        shuffled = np.random.default_rng(threads).permutation(400)
        for batch in (nodes, shuffled, np.concatenate([nodes, nodes])):
            for actual, expected in zip(made.packed_rows(batch, 3), reference, strict=True):
                np.testing.assert_array_equal(actual, expected[batch])
        for node in (0, 17, 399):
            for actual, expected in zip(made.packed_rows([node], 3), reference, strict=True):
                np.testing.assert_array_equal(actual[0], expected[node])
        np.testing.assert_array_equal(made.ids(nodes, 3), reference.ids)


def test_rows_do_not_depend_on_how_labels_are_held(tmp_path):
    labels = generated_labels()
    labels.save(tmp_path / "labels")
    expected = TokenSampler(labels, **SPEC, progress=False).rows(range(400))
    for mmap in (True, False):
        loaded = HubLabels.load(tmp_path / "labels", mmap=mmap)
        actual = TokenSampler(loaded, **SPEC, progress=False).rows(range(400))
        np.testing.assert_array_equal(actual.ids, expected.ids)
        np.testing.assert_array_equal(actual.spd, expected.spd)


GOLDEN = [
    (
        {"size": 32},
        "b10fb6b85ca2da941601ec5fb6b8eec6565b417c8b14673b8e6ec6630273b66c",
    ),
    (
        {"size": 20, "out_exponent": -1.7, "in_exponent": 0.3, "seed": 12345, "spill": True},
        "9673525998f674d319fc218358884dba367e1ec4d3548a3775d953f5dcaad406",
    ),
    (
        {"size": 20, "num_out": 3, "num_in": 3, "in_exponent": 2.0, "fill": "neighbors"},
        "76dbfdae589173cfb4b6c9c53ae1e52b6bb528844ecda175b5d662d6818bb3b5",
    ),
]


@pytest.mark.parametrize(("spec", "digest"), GOLDEN, ids=["default", "spill", "fill"])
def test_the_draw_is_the_same_on_every_platform_and_in_every_version(spec, digest):
    """Stored tokens and those drawn on the fly must not part ways: a change of the law is a new
    format."""
    graph = generate(2000, 8, seed=1, num_features=0)
    labels = HubLabels.build(graph, order="degree-id", progress=False)
    ids = TokenSampler(labels, **spec, progress=False).ids(range(2000), copy=1)
    assert hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest() == digest
