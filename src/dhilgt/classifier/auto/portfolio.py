"""The candidates of `recipe="auto"`, by what is known of the graph and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FEATURES_ALONE = "features alone"
WITHOUT_CHOICE = "propagated"
"""The candidate that is trained where there are no validation nodes to choose by."""

_SEVERAL_SEEDS = 5_000  # nodes below which the choice by one seed is mostly noise
_FEW_VALIDATION_NODES = 100
_MOST_AVERAGED = 100_000  # nodes up to which several seeds of the finalists are averaged
_NUM_SEEDS = 3

_FULL_BATCH = 4096  # training nodes up to which a step takes all of them
_MOST_EGOS = 2_000_000  # training nodes that one training sees, repeats included
_FEWEST_EPOCHS = 9
_WIDE = 512  # columns above which features are averaged over two steps, not three
_FEW = 64  # columns up to which features are taken for measurements, which ranks suit
_MOST_HOP_BYTES = 512 << 20  # of averaged features; wider ones are projected first
_HOP_CHANNELS = 256
_FEW_STEPS, _MANY_STEPS = 200, 300  # of a training with messages, on a small graph and a large one
_LONG = 100.0  # seconds of a training above which a candidate with messages is left out
_FLOPS = {"cpu": 3e10, "cuda": 5e12}  # a second, of such a step
_FILLED = 0.1  # fraction of wide features that is not 0, as a guess
_KEPT_BYTES = 24  # per node, channel and round, for the backward pass
_MOST_KEPT_BYTES = 4 << 30


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
    "message_layers": 0,
}
"""What makes a model one of the features alone, beside the settings of that candidate."""

_SLOTS = {"size": 16, "readout": "ego", "num_virtual": 0}
_NODE = _SLOTS | {"num_layers": 0, "input_activation": True}
_ROW = _SLOTS | {"num_layers": 1, "input_layers": 2, "bias_slope": 2.0}
_NEIGHBORS, _HUBS, _CLASSES = ({f"{kind}_inputs": True} for kind in ("neighbor", "hub", "class"))


def portfolio(facts: GraphFacts) -> tuple[Candidate, ...]:
    """Return the candidates for a graph, from simple to complex: of equal scores the first wins.

    Example:
        >>> facts = GraphFacts(100, 0, 8, 60, 20, 3, "cpu")
        >>> [one.name for one in portfolio(facts)]
        ['features alone', 'standardized features']
    """
    common, hops = _common(facts), _hops(facts)
    steady = {"lr": 3e-3, "weight_decay": 0.1, "dropout": 0.7}
    # Vectors of single nodes are learned from few examples each, in larger steps.
    quick = {"lr": 1e-2, "weight_decay": 0.01, "dropout": 0.5}
    row = _ROW | hops | {"batch_size": _FULL_BATCH}
    listed = [
        Candidate(FEATURES_ALONE, "the node's own features", _NODE | steady),
        Candidate(
            "standardized features", "the node's own features, all columns of equal deviation",
            _NODE | steady | {"feature_scale": "standard"},
        ),
        Candidate(WITHOUT_CHOICE, "features averaged over neighbours", _NODE | hops),
        Candidate(
            "classes nearby", "averaged features, and the known classes near the node",
            _NODE | hops | _CLASSES,
        ),
        Candidate(
            "neighbours", "its own features, and who its neighbours are",
            _NODE | _NEIGHBORS | quick,
        ),
        Candidate(
            "propagated, neighbours", "averaged features, and who its neighbours are",
            _NODE | hops | _NEIGHBORS | quick,
        ),
        Candidate(
            "propagated, hubs", "averaged features, and which hubs are near",
            _NODE | hops | _HUBS,
        ),
        Candidate(
            "neighbours and classes",
            "averaged features, who its neighbours are, and the known classes near the node",
            _NODE | hops | _NEIGHBORS | _CLASSES,
        ),
        Candidate("token row", "averaged features, also of near nodes and hubs", row),
        Candidate(
            "token row, classes",
            "averaged features, also of near nodes and hubs, and the known classes near the node",
            row | _CLASSES,
        ),
    ]  # fmt: skip
    listed += _message_candidates(facts)
    if facts.device != "cpu":  # there, the layers before the last take most of the time
        listed.append(
            Candidate(
                "deeper token row",
                "averaged features of near nodes and hubs through two layers, who its neighbours "
                "are, and the known classes near the node",
                row | _NEIGHBORS | _CLASSES | {"num_layers": 2},
            )
        )
    if facts.num_features <= _FEW:
        listed.insert(
            4,
            Candidate(
                "ranks", "averaged features as ranks, and the known classes near the node",
                _NODE | hops | _CLASSES | {"feature_scale": "rank"} | quick,
            ),
        )  # fmt: skip
    if not facts.num_edges:
        listed = listed[:2]
    return tuple(Candidate(one.name, one.about, {**common, **one.settings}) for one in listed)


def _message_candidates(facts: GraphFacts) -> list[Candidate]:
    """Return the candidates that pass messages, as far as time and memory allow."""
    common = _common(facts)
    small = facts.num_train <= _FULL_BATCH
    node = _SLOTS | _CLASSES | {"num_layers": 0}
    # Each step computes all nodes, whatever its batch: fewer and larger batches than for others, in
    # half of the epochs, so that a rung, a part of the epochs, sees a larger part of the training.
    half = _schedule(max(_FEWEST_EPOCHS, common["epochs"] // 2))
    steps = -(-(_FEW_STEPS if small else _MANY_STEPS) // half["epochs"])
    brief = half | {"batch_size": -(-facts.num_train // steps)}
    if small:
        steady = {"message_layers": 4, "dropout": 0.5, "lr": 5e-3}
    else:
        steady = {"message_layers": 2, "hidden_channels": 64} | brief
    # Narrow layers with little dropout learn functions of many nodes, and take less time.
    far = {
        "message_layers": 5, "hidden_channels": 64, "dropout": 0.2, "input_dropout": 0.0,
        "lr": 1e-2, "weight_decay": 0.01,
    } | brief  # fmt: skip
    about = (
        "what nodes up to {message_layers} edges away pass on, and the known classes near the node"
    )
    listed = [
        Candidate("messages", about.format(**steady), node | steady),
        Candidate("messages, far", about.format(**far), node | far),
    ]
    return [one for one in listed if _can_pass_messages(facts, common | dict(one.settings))]


def _can_pass_messages(facts: GraphFacts, settings: Mapping[str, Any]) -> bool:
    """Return whether a training on the whole graph takes neither long nor much memory."""
    width, layers = settings["hidden_channels"], settings["message_layers"]
    of_node = 12 * width**2 * layers + 6 * width * facts.num_features * _FILLED
    of_edge = 8 * width * layers
    of_step = facts.num_nodes * of_node + 2 * facts.num_edges * of_edge
    steps = settings["epochs"] * -(-facts.num_train // settings["batch_size"])
    seconds = steps * of_step / _FLOPS["cpu" if facts.device == "cpu" else "cuda"]
    num_bytes = _KEPT_BYTES * facts.num_nodes * width * layers
    return bool(seconds < _LONG and num_bytes < _MOST_KEPT_BYTES)


def num_seeds(facts: GraphFacts) -> int:
    """Return the trainings of each candidate; several where one score is mostly noise."""
    noisy = facts.num_nodes < _SEVERAL_SEEDS or facts.num_val < _FEW_VALIDATION_NODES
    return _NUM_SEEDS if noisy and facts.num_val else 1


def num_last_seeds(facts: GraphFacts) -> int:
    """Return the trainings of each candidate of the last rung: their models are averaged."""
    seeds = num_seeds(facts)
    return _NUM_SEEDS if facts.num_val and facts.num_nodes <= _MOST_AVERAGED else seeds


def _hops(facts: GraphFacts) -> dict[str, Any]:
    """Return the settings of averages over neighbours."""
    hops = 3 if facts.num_features <= _WIDE else 2
    num_bytes = 4 * facts.num_nodes * facts.num_features * (1 + hops)
    hop_channels = None
    if num_bytes > _MOST_HOP_BYTES and facts.num_features > _HOP_CHANNELS:
        hops, hop_channels = 3, _HOP_CHANNELS
    return {"hops": hops, "hop_kind": "stack", "hop_channels": hop_channels}


def _common(facts: GraphFacts) -> dict[str, Any]:
    """Return the settings that all candidates share."""
    small = facts.num_train <= _FULL_BATCH
    epochs = min(200 if small else 100, _MOST_EGOS // max(1, facts.num_train))
    epochs = max(_FEWEST_EPOCHS, epochs)
    return {
        "hidden_channels": 128,
        "lr": 3e-3 if small else 5e-3,
        "weight_decay": 0.1 if small else 0.01,
        "dropout": 0.7 if small else 0.5,
        "input_dropout": 0.2 if small else 0.0,
        "bias_dropout": 0.0,
        "batch_size": _FULL_BATCH if small else 1024,
        **_schedule(epochs),
    }


def _schedule(epochs: int) -> dict[str, Any]:
    """Return the settings that follow from the number of epochs."""
    return {
        "epochs": epochs,
        "warmup_epochs": max(1.0, epochs / 40),
        "patience": max(10, epochs // 4),
    }
