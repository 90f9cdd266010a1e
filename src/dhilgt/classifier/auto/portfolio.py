"""The candidates of `recipe="auto"`, by what is known of the graph and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EPOCHS = 270
FEATURES_ALONE = "features alone"
WITHOUT_CHOICE = "propagated"
"""The candidate that is trained where there are no validation nodes to choose by."""

_MOST_EGOS = EPOCHS * 20_000  # training nodes that one training sees, repeats included
_FEWEST_EPOCHS = 27
_SEVERAL_SEEDS = 5_000  # nodes below which the choice by one seed is mostly noise
_FEW_VALIDATION_NODES = 100
_NUM_SEEDS = 3


@dataclass(frozen=True)
class GraphFacts:
    """What the choice of candidates depends on.

    Attributes:
        num_nodes: Nodes of the graph.
        num_edges: Its edges.
        num_features: Columns of its features.
        num_train: Training nodes.
        num_val: Validation nodes.
        num_classes: Classes.
        device: "cpu", "cuda" or another type of device.
    """

    num_nodes: int
    num_edges: int
    num_features: int
    num_train: int
    num_val: int
    num_classes: int
    device: str


@dataclass(frozen=True)
class Candidate:
    """Settings to try.

    Attributes:
        name: A few words, unique in the portfolio.
        about: What it learns from, for a table.
        settings: Settings that differ from the defaults.
    """

    name: str
    about: str
    settings: Mapping[str, Any]


WITHOUT_GRAPH = {
    "hops": 0,
    "neighbor_inputs": False,
    "hub_inputs": False,
    "class_inputs": False,
    "label_inputs": False,
}
"""What makes a model one of the features alone, beside the settings of that candidate."""

# A node's own slot is all that a row of one slot has: no neighbour and no hub.
_ALONE = {"size": 1, "num_layers": 1, "readout": "ego", "num_virtual": 0}
_ROW = {"size": 16, "readout": "ego", "bias_slope": 2.0}
_HOPS = {"hops": 3, "hop_kind": "stack"}

# From simple to complex: of equal scores the first one wins.
_PORTFOLIO = (
    Candidate(FEATURES_ALONE, "the node's own features", _ALONE),
    Candidate(WITHOUT_CHOICE, "features averaged over neighbours", _ALONE | _HOPS),
    Candidate("token row", "features of near nodes and hubs", _ROW | {"num_layers": 1}),
    Candidate(
        "propagated, token row", "averaged features, also of near nodes and hubs",
        _ROW | _HOPS | {"num_layers": 1},
    ),
    Candidate(
        "known classes", "averaged features, and the known classes of near nodes and hubs",
        _ROW | _HOPS | {"num_layers": 1, "label_inputs": True},
    ),
    Candidate(
        "deeper", "averaged features of near nodes and hubs, through three layers",
        _ROW | _HOPS | {"num_layers": 3},
    ),
)  # fmt: skip


def portfolio(facts: GraphFacts) -> tuple[Candidate, ...]:
    """Return the candidates for a graph, from simple to complex.

    Example:
        >>> facts = GraphFacts(100, 0, 8, 60, 20, 3, "cpu")
        >>> [one.name for one in portfolio(facts)]
        ['features alone']
    """
    common = _common(facts)
    listed = _PORTFOLIO if facts.num_edges else _PORTFOLIO[:1]
    return tuple(Candidate(one.name, one.about, {**common, **one.settings}) for one in listed)


def num_seeds(facts: GraphFacts) -> int:
    """Return the trainings of each candidate; several where one score is mostly noise."""
    noisy = facts.num_nodes < _SEVERAL_SEEDS or facts.num_val < _FEW_VALIDATION_NODES
    return _NUM_SEEDS if noisy and facts.num_val else 1


def _common(facts: GraphFacts) -> dict[str, Any]:
    """Return the settings that all candidates share."""
    small = facts.num_train < _SEVERAL_SEEDS
    epochs = min(EPOCHS, max(_FEWEST_EPOCHS, _MOST_EGOS // max(1, facts.num_train)))
    return {
        "hidden_channels": 128,
        "epochs": epochs,
        "lr": 3e-3,
        "weight_decay": 0.1 if small else 0.01,
        "warmup_epochs": max(1.0, epochs / 27),
        "dropout": 0.5,
        "output_dropout": 0.5,
        "input_dropout": 0.3 if small else 0.1,
        "patience": None,
        "batch_size": 512 if small else 1024,
    }
