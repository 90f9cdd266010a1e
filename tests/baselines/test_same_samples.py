"""Samples of a seed stay the same: digests recorded before the samplers were made faster."""

import hashlib

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.baselines.goat.node2vec import random_walks
from dhilgt.baselines.goat.rings import integers_below, sample_rings
from dhilgt.baselines.hsgt.hierarchy import hierarchy, sampled_levels
from dhilgt.baselines.shared.message_graph import CleanGraph


@pytest.fixture(scope="module")
def graph():
    made = dhilgt.generate(2000, 20, seed=5, num_features=4)
    return CleanGraph.of(made, self_loops=False)


@pytest.fixture(scope="module")
def levels(graph):
    return hierarchy(graph, torch.arange(8000.0).view(2000, 4), (10, 10))


def digest(*arrays):
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array, np.int64).tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((20, 10, 5), "a1b2b27a3122e954"),
        ((3,), "39b5fb9ba2322235"),
        ((4, 7), "12b6957df901809d"),
    ],
)
def test_rings(graph, sizes, expected):
    rings = sample_rings(graph, np.arange(0, 2000, 7), sizes, np.random.default_rng((0, 1, 2)))
    assert digest(*rings) == expected


def test_walks(graph):
    walks = random_walks(graph, np.arange(300), 20, np.random.default_rng(4))
    assert digest(walks) == "36b2c1f2a39f34ec"


def test_clusters(levels):
    assert digest(levels[0].parents, levels[1].parents) == "a60e60eb0f0fdfc7"


@pytest.mark.parametrize(
    ("max_distance", "expected"), [(1, "ed58e3aa8cd0b339"), (2, "50bc8eb5f64175cd")]
)
def test_levels_of_a_batch(levels, max_distance, expected):
    rng = np.random.default_rng((0, 1, 2))
    parts, places = sampled_levels(levels, np.arange(0, 2000, 9), (5, 3), 5, max_distance, rng)
    arrays = [places]
    for part in parts:
        pairs = part.pairs
        arrays += [part.nodes, part.degrees, pairs.offsets, pairs.columns, part.distances]
        arrays += [part.child_offsets, part.children, part.places] if len(arrays) > 6 else []
    assert digest(*arrays) == expected


@pytest.mark.parametrize("odd", [0, 1])  # NumPy keeps the second half of 64 random bits
@pytest.mark.parametrize("most", [3, 1000, 2**31])
def test_numbers_below_limits_are_those_of_numpy(odd, most):
    for seed in range(5):
        fast, slow = np.random.default_rng(seed), np.random.default_rng(seed)
        highs = np.random.default_rng(9).integers(2, most, (4, 501))
        for rng in (fast, slow):
            rng.integers(0, 5, odd, dtype=np.uint32)
        assert (integers_below(highs, fast) == slow.integers(0, highs)).all()
        assert fast.bit_generator.state == slow.bit_generator.state
