"""The portfolio as it comes on generated graphs of four kinds: each is won by what must win."""

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.classifier.auto.portfolio import FEATURES_ALONE
from tests.classifier.auto_cases import searching

torch.set_num_threads(1)
NODES, CLASSES, DEGREE = 360, 3, 8
SMALL = {"hidden_channels": 16, "heads": 2, "epochs": 27, "batch_size": 64, "lr": 0.01}


def drawn(partner, signal):
    """Return a graph whose edges lead to a class, and whose features hint at the own one.

    Args:
        partner: The class of a neighbour by the class of the node; None for any class.
        signal: How far apart the features of the classes are, in standard deviations.
    """
    rng = np.random.default_rng(5)
    classes = np.arange(NODES) % CLASSES
    src = np.repeat(np.arange(NODES), DEGREE // 2)
    dst = rng.integers(0, NODES, len(src))
    if partner is not None:
        lost = rng.random(len(src)) < 0.1  # edges that lead anywhere
        wanted = np.where(lost, dst % CLASSES, partner(classes[src]))
        dst = dst - dst % CLASSES + wanted
    keep = src != dst
    x = rng.normal(size=(NODES, 6)).astype(np.float32)
    x[np.arange(NODES), classes] += signal
    part = rng.permutation(NODES) % 5
    masks = {"train": part < 3, "val": part == 3, "test": part == 4}
    return dhilgt.Graph.from_edges(
        src[keep], dst[keep], num_nodes=NODES, features=x, labels=classes, masks=masks
    )


def searched(graph, **changes):
    clf = searching(**(SMALL | changes)).fit(graph)
    return clf, clf.search_.trial(clf.search_.chosen[0]["name"])


@pytest.mark.filterwarnings("ignore:the input was cleaned")
def test_alike_neighbours():
    clf, winner = searched(drawn(lambda own: own, 1.0), epochs=9)
    assert winner.name != FEATURES_ALONE
    assert clf.scores_["test"]["accuracy"] > clf.search_.references["mlp"]["test"] + 0.05
    assert "the graph is worth" in clf.search_.sentence


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:the input was cleaned")
def test_unalike_neighbours():
    clf, winner = searched(drawn(lambda own: (own + 1) % CLASSES, 1.0))
    assert winner.name != FEATURES_ALONE
    assert clf.scores_["test"]["accuracy"] > clf.search_.references["mlp"]["test"] + 0.05


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:the input was cleaned")
def test_features_useless():
    clf, winner = searched(drawn(lambda own: own, 0.0))
    assert winner.settings["class_inputs"]  # with alike neighbours, their classes say it all
    assert clf.scores_["test"]["accuracy"] > clf.search_.references["mlp"]["test"] + 0.2


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:the input was cleaned")
def test_graph_useless():
    clf, winner = searched(drawn(None, 2.5))
    alone = np.mean(clf.search_.trial(FEATURES_ALONE).rungs[-1].scores)
    # What wins against the features alone, if anything does, wins by chance.
    assert winner.name == FEATURES_ALONE or np.mean(winner.rungs[-1].scores) < alone + 0.02
    assert clf.scores_["test"]["accuracy"] >= clf.search_.references["mlp"]["test"] - 0.05


def sizes_nearby():
    """Nodes on a ring, joined to the three on either side; whether the numbers there are large.

    Their signs are random: the mean of the numbers tells little of the mean of their sizes.
    """
    rng, ring = np.random.default_rng(0), np.arange(NODES)
    numbers = rng.normal(size=NODES).astype(np.float32)
    near = ring[:, None] + np.array([-3, -2, -1, 1, 2, 3])
    sizes = np.abs(numbers[near % NODES]).mean(1)
    part = rng.permutation(NODES) % 5
    return dhilgt.Graph.from_edges(
        np.repeat(ring, 3), (near[:, 3:] % NODES).reshape(-1), num_nodes=NODES,
        features=numbers[:, None], labels=(sizes > np.median(sizes)).astype(np.int64),
        masks={"train": part < 3, "val": part == 3, "test": part == 4},
    )  # fmt: skip


@pytest.mark.full
def test_a_function_of_single_neighbours_that_no_average_shows():
    options = {"batch_size": 4096, "epochs": 81, "dropout": 0.1, "hidden_channels": 32}
    clf, winner = searched(sizes_nearby(), **options)
    assert winner.settings.get("message_layers")
    assert clf.scores_["test"]["accuracy"] > 0.8
