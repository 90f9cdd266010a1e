"""Inputs offered to every baseline: what they hold, and that a node's own class is not in them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dhilgt
from dhilgt import baselines
from dhilgt.benchmark.running.cell import run_cell
from dhilgt.benchmark.running.grid import Cell, check
from dhilgt.benchmark.running.inputs import Inputs, class_fractions, neighbor_directions
from dhilgt.benchmark.running.recipe import Changes
from dhilgt.datasets import random_split
from dhilgt.errors import ConfigError

ALL = {"feature_scale": "rank", "feature_hops": 1, "neighbor_directions": 4, "class_inputs": True}


def graph(seed=0, nodes=40):
    made = dhilgt.generate(nodes, 4, seed=seed, num_features=3, num_classes=3)
    return made.with_data(masks=random_split(made.labels, seed))


@given(st.integers(0, 20))
def test_classes_near_a_node_are_those_that_counting_finds(seed):
    one = graph(seed, 24)
    neighbours = [
        one.targets[one.offsets[v] : one.offsets[v + 1]].tolist() for v in range(one.num_nodes)
    ]
    wanted = np.zeros((24, 2, one.num_classes))
    for v in range(24):
        for u in neighbours[v]:
            if one.masks["train"][u]:
                wanted[v, 0, one.labels[u]] += 1
            for w in neighbours[u]:
                if w != v and one.masks["train"][w]:
                    wanted[v, 1, one.labels[w]] += 1
    wanted /= np.maximum(wanted.sum(axis=2, keepdims=True), 1)
    assert class_fractions(one) == pytest.approx(wanted.reshape(24, -1))


def test_the_class_of_a_node_does_not_change_its_own_inputs():
    one = graph()
    node = int(np.flatnonzero(one.masks["train"])[0])
    labels = one.labels.copy()
    labels[node] = (labels[node] + 1) % 3
    other = one.with_data(labels=labels, masks=one.masks)
    assert (class_fractions(one)[node] == class_fractions(other)[node]).all()


def test_neighbours_that_are_the_same_have_the_same_directions():
    star = dhilgt.Graph.from_edges([0, 0, 0, 3], [1, 2, 3, 4])
    rows = neighbor_directions(star, 2)
    assert rows.shape == (5, 2)
    assert rows[1] == pytest.approx(rows[2], abs=1e-5)
    assert neighbor_directions(star, 8).shape == (5, 8)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_all_inputs_are_columns_beside_the_features(kind):
    one = graph()
    if kind == "sparse":  # which is never ranked
        one = one.with_data(features=sparse.csr_matrix(one.features))
    made = Inputs(**ALL).of(one)
    assert made.features.shape == (40, 2 * 3 + 4 + 2 * 3)
    assert made.fingerprint or made.num_edges == one.num_edges
    assert Inputs().of(one) is one


@pytest.mark.parametrize("system", baselines.names())
def test_every_baseline_takes_them(system):
    check(Cell(system, "cora", 0, changes=Changes(ALL)))


def test_they_reach_the_training_and_the_line():
    changes = Changes(ALL, {"epochs": 1, "weight_average": 0.9})
    line = run_cell(Cell("mlp", "generated:40", 0, changes=changes), device="cpu")
    assert line["status"] == "ok", line["message"]
    plain = run_cell(
        Cell("mlp", "generated:40", 0, changes=Changes(training={"epochs": 1})), device="cpu"
    )
    assert {name: line["settings"][name] for name in ALL} == ALL
    assert not ALL.keys() & plain["settings"].keys()
    assert line["num_parameters"] > plain["num_parameters"]
    assert line["split_hash"] == plain["split_hash"]


def test_wrong_ones_are_named():
    with pytest.raises(ConfigError, match="feature_hops"):
        check(Cell("gcn", "cora", 0, changes=Changes({"feature_hops": -1})))
