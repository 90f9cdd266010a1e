"""Laws of splits: disjoint, complete, of the right sizes, the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhilgt import datasets
from dhilgt.datasets.splits import official_split, random_split, split_hash
from dhilgt.errors import DatasetError, GraphError

labels = st.lists(st.integers(-1, 3), max_size=300).map(lambda x: np.array(x, dtype=np.int64))
seeds = st.integers(0, 2**64 - 1)
shares = st.sampled_from([(60, 20, 20), (50, 25, 25), (85.5, 8.8, 5.7), (100, 0, 0), (0, 0, 100)])


@given(labels, seeds, shares)
def test_every_labelled_node_is_in_exactly_one_part(labels, seed, shares):
    masks = random_split(labels, seed, shares)
    assert list(masks) == ["train", "val", "test"]
    assert np.array_equal(sum(mask.astype(int) for mask in masks.values()), labels >= 0)


@given(labels, seeds, shares)
def test_sizes_are_the_shares_rounded_down_and_the_rest_tests(labels, seed, shares):
    masks = random_split(labels, seed, shares)
    count = int((labels >= 0).sum())
    train, val = (count * round(10 * share) // 1000 for share in shares[:2])
    sizes = [int(mask.sum()) for mask in masks.values()]
    assert sizes == [train, val, count - train - val]


@given(labels, seeds)
def test_a_seed_gives_one_split(labels, seed):
    assert split_hash(random_split(labels, seed)) == split_hash(random_split(labels, seed))


def test_seeds_give_different_splits():
    everyone = np.zeros(100, dtype=np.int64)
    hashes = {split_hash(random_split(everyone, seed)) for seed in range(200)}
    assert len(hashes) == 200


def test_the_class_of_a_node_does_not_matter_only_whether_it_has_one():
    one = np.array([0, 1, -1, 2, 0, 1] * 20)
    other = np.where(one >= 0, 0, -1)
    assert split_hash(random_split(one, 5)) == split_hash(random_split(other, 5))


def test_chance_is_even():
    """Each node trains in 60 % of the splits, and neighbours in number are not tied together."""
    everyone = np.zeros(50, dtype=np.int64)
    train = np.stack([random_split(everyone, seed)["train"] for seed in range(2000)])
    share = train.mean(axis=0)
    assert np.abs(share - 0.6).max() < 0.05  # 4.5 standard deviations
    together = (train[:, :-1] & train[:, 1:]).mean(axis=0)
    assert np.abs(together - 30 * 29 / (50 * 49)).max() < 0.05


@pytest.mark.parametrize(
    ("count", "seed", "expected"),
    [
        (10, 0, "1733334d5ab7f44d"),
        (10, 1, "817079b041ed788c"),
        (2708, 0, "2c0a3313f0909bf0"),
        (2708, 9, "ec09bb25d50ece9b"),
        (1000, 2**64 - 1, "e83dcedb775f04d2"),
    ],
)
def test_splits_are_pinned(count, seed, expected):
    # Published scores name splits by these: they must never change.
    assert split_hash(random_split(np.zeros(count, dtype=np.int64), seed)) == expected


def test_keys_are_those_of_splitmix64():
    """The generator of the docstring, step by step in plain integers."""
    modulus = 2**64

    def mixed(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % modulus
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % modulus
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    for seed in (0, 7, 2**64 - 1):
        start = mixed((seed + golden) % modulus)
        key = {v: mixed((start + (v + 1) * golden) % modulus) for v in range(25)}
        order = sorted(key, key=key.get)
        masks = random_split(np.zeros(25, dtype=np.int64), seed)
        assert np.flatnonzero(masks["train"]).tolist() == sorted(order[:15])
        assert np.flatnonzero(masks["val"]).tolist() == sorted(order[15:20])


def test_hashes_tell_parts_apart():
    nodes = np.eye(3, dtype=bool)
    masks = dict(zip(("train", "val", "test"), nodes, strict=True))
    turned = dict(zip(("val", "train", "test"), nodes, strict=True))
    assert split_hash(masks) != split_hash(turned)
    assert split_hash(None) == split_hash({})
    assert split_hash(masks) != split_hash({"train": nodes[0], "val": nodes[1]})


@pytest.mark.parametrize("shares", [(60, 20), (60, 20, 30), (120, -20, 0), (50, 25, 25, 0)])
def test_shares_that_make_no_sense_are_refused(shares):
    with pytest.raises(DatasetError, match="add up to 100"):
        random_split(np.zeros(5, dtype=np.int64), 0, shares)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(DatasetError, match="pass 0 to 2"):
        random_split(np.zeros(5, dtype=np.int64), seed)


def test_official_splits_go_around():
    splits = [{"train": [k], "val": [k + 1], "test": [9]} for k in range(3)]
    actual = [official_split(splits, 10, seed, "toy")["train"].argmax() for seed in range(5)]
    assert actual == [0, 1, 2, 0, 1]


def test_official_splits_outside_the_graph_are_refused():
    with pytest.raises(GraphError, match="outside 0 to 2"):
        official_split([{"train": [3], "val": [0], "test": [1]}], 3, 0, "toy")


@pytest.mark.parametrize("name", ["physics", "genius-like", "reed98"])
def test_a_dataset_without_official_split_says_so(name, tmp_path):
    with pytest.raises(DatasetError, match="has no official split"):
        datasets.load(name, tmp_path, "official", download=False)


def test_a_split_that_is_none_is_refused_before_any_work(tmp_path):
    with pytest.raises(DatasetError, match="pass 'paper', 'random', 'official'"):
        datasets.load("cora", tmp_path, "offical", download=False)
