"""Explain a prediction: what the model saw of a node, and the effect of leaving each part out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.classifier.connections import connections, repeated
from dhilgt.classifier.explanation import (
    EGO,
    HOLDER,
    HUB,
    NEIGHBOR,
    Connection,
    Distance,
    Explanation,
    Member,
)
from dhilgt.classifier.received import received
from dhilgt.errors import ConfigError
from dhilgt.features.ego_vocabulary import CLASSES, HUBS, NEIGHBORS, EgoVocabulary
from dhilgt.graph.graph import Graph
from dhilgt.loader.batch import all_inputs
from dhilgt.loader.loader import TokenLoader
from dhilgt.model.dhilgt import DHILGT
from dhilgt.tokens.single import TokenSource
from dhilgt.tokens.spec import FAR, NO_PATH, PADDING
from dhilgt.training.scoring import evaluating

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_PAIRS_AT_ONCE = 1 << 20  # pairs of slots per forward: a few hundred megabytes at most


def explain(clf: NodeClassifier, node: Any) -> Explanation:
    """Return what a classifier saw of a node, and the effect of each member on the prediction.

    Every other member of the node's token is left out in turn, as if its slot were empty. Its
    effect is how much the probability of the predicted class falls: above 0 it supports the
    prediction, below 0 it opposes it. Where the classifier averages several tokens per node, the
    effects are averaged too, and a member counts as 0 in tokens that lack it.

    Where neighbours, hubs or classes are inputs of the node, the most important of them are left
    out in turn as well. Where the model passes messages, so are the edges of the node.

    Args:
        clf: A fitted classifier.
        node: Id of a node of its graph.

    Raises:
        GraphError: If there is no such node; the message names the nearest ids.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(60, 4, seed=1, num_features=8)
        >>> clf = dhilgt.NodeClassifier(
        ...     recipe="paper", size=6, hidden_channels=16, heads=2, epochs=2, progress=False
        ... ).fit(graph)
        >>> ego, *others = explain(clf, 7).members
        >>> ego.node, ego.kind, ego.distance
        (7, 'ego', 0)
        >>> round(sum(member.share for member in (ego, *others)), 6)
        1.0
    """
    clf._check_fitted("predictions to explain")
    return explain_token(
        clf.model_,
        clf.tokens_,
        clf.graph_,
        node,
        features=clf.features_,
        copies=clf._pipeline.copies,
        classes=clf.classes_.tolist(),
        known=clf._pipeline.known,
        ego=clf._pipeline.ego,
        vocabulary=clf._pipeline.vocabulary,
        adjacency=clf._pipeline.adjacency,
    )


def explain_token(
    model: DHILGT,
    tokens: TokenSource,
    graph: Graph,
    node: Any,
    *,
    features: Any = None,
    copies: int = 1,
    classes: Sequence[Any] | None = None,
    known: Any = None,
    ego: Any = None,
    vocabulary: EgoVocabulary | None = None,
    adjacency: Any = None,
) -> Explanation:
    """Return what `explain` returns, for a model that was trained without a classifier.

    Args:
        model: On any device; not changed.
        tokens: The model's token rows.
        graph: The graph they were made from.
        node: Id of a node.
        features: The features the model was trained on, one row per node; the graph's when None.
        copies: Rows per node to average over.
        classes: Names of the classes in the order of the logits; the graph's, or numbers.
        known: With `label_inputs`, the class of each node that the model may see, -1 = it may not.
        ego: With neighbours, hubs or classes as inputs, the rows of all nodes (see `ego_rows`).
        vocabulary: The columns of these rows.
        adjacency: With `message_layers`, the weights of the edges (see `adjacency`).

    Raises:
        GraphError: If there is no such node; the message names the nearest ids.
        ConfigError: If the model has another number of classes.
    """
    at = int(graph.index_of(node))
    if classes is None:
        classes = graph.class_names or range(model.config.out_channels)
    expected, named = model.config.out_channels, max(len(classes), graph.num_classes)
    if named != expected:
        raise ConfigError(
            f"the model tells {expected} classes apart, {named} are named; use the graph and the "
            "classes it was trained on"
        )
    loader = TokenLoader(
        tokens,
        graph.features if features is None else features,
        nodes=[at],
        batch_size=1,
        device=model.norm.weight.device,
        resident=False,
        copies=copies,
        prefetch=0,
        rank=0,
        world_size=1,
        known=known,
        ego=ego,
        adjacency=adjacency,
    )
    batches = next(loader.iterate_copies())
    analysed = [
        _Token(model, batch.inputs, *_slots(tokens, at, copy)) for copy, batch in enumerate(batches)
    ]
    found = _averaged(analysed, at, graph, list(classes))
    inputs = [batch.inputs for batch in batches]
    predicted = list(classes).index(found.prediction)
    names: dict[str, Any] = {"graph": graph, "classes": list(classes)}
    parts: dict[str, tuple[Connection, ...]] = {}
    if ego is not None and vocabulary is not None:
        parts = connections(model, inputs, predicted, vocabulary=vocabulary, **names)
    neighbors = parts.get(NEIGHBORS, ())
    if adjacency is not None:
        neighbors += received(model, inputs, at, predicted, **names)
    return replace(
        found,
        connected=bool(parts) or adjacency is not None,
        neighbors=tuple(sorted(neighbors, key=lambda one: -abs(one.effect))),
        hubs=parts.get(HUBS, ()),
        classes=parts.get(CLASSES, ()),
    )


def _slots(tokens: TokenSource, at: int, copy: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return the node index and the kind of each slot of a token."""
    ids, _, parts = tokens.packed_rows([at], copy)
    hubs, holders = parts[0].tolist()
    rest = ids.shape[1] - 1 - hubs - holders
    return ids[0].astype(np.int64), [EGO] + [HUB] * hubs + [HOLDER] * holders + [NEIGHBOR] * rest


class _Token:
    """One token of the node: its members, and the probabilities with and without each."""

    def __init__(
        self,
        model: DHILGT,
        inputs: tuple[Any, ...],
        ids: NDArray[np.int64],
        kinds: list[str],
    ) -> None:
        index, spd = inputs[1:3]
        self.nodes = list(dict.fromkeys(ids[ids != PADDING].tolist()))  # the ego first
        self.slots = [np.flatnonzero(ids == node) for node in self.nodes]
        self.kinds = [kinds[slots[0]] for slots in self.slots]
        codes = spd[0].cpu().numpy()
        self.away = [_distance(codes[0, slots[0]]) for slots in self.slots]
        self.back = [_distance(codes[slots[0], 0]) for slots in self.slots]
        # Rows of slots to leave empty: none, all but the ego, then each other member.
        empty = torch.zeros(len(self.nodes) + 1, index.shape[1], dtype=torch.bool)
        empty[1, 1:] = True
        for row, slots in enumerate(self.slots[1:], start=2):
            empty[row, slots] = True
        with evaluating(model):
            rows = _probabilities(model, inputs, empty.to(index.device))
            weights = _readout_weights(model, inputs)
        self.whole, self.alone, self.without = rows[0], rows[1], rows[2:]
        self.weights = [float(weights[slots].sum()) for slots in self.slots]


def _probabilities(model: DHILGT, inputs: tuple[Any, ...], empty: Tensor) -> NDArray[np.float64]:
    """Return the probabilities with some slots left empty, a row for each row of `empty`."""
    x, index, spd, known, ego, adjacency = all_inputs(inputs)
    rows = index.masked_fill(empty, PADDING)  # (rows, s)
    step = max(1, _PAIRS_AT_ONCE // (index.shape[1] + model.config.num_virtual) ** 2)
    parts = []
    for part in torch.split(rows, step):
        own = None if ego is None else repeated(ego, len(part))
        parts.append(model(x, part, spd.expand(len(part), -1, -1), known, own, adjacency))
    return np.asarray(torch.softmax(torch.cat(parts).double(), -1).cpu().numpy())


def _readout_weights(model: DHILGT, inputs: tuple[Any, ...]) -> NDArray[np.float64]:
    """Return the weight of each slot in the readout; 1 for the ego where it alone is read out."""
    if model.readout is None:
        return np.eye(1, inputs[1].shape[1]).reshape(-1)
    return np.asarray(model.readout_weights(*inputs)[0].double().cpu().numpy())


def _distance(code: int) -> Distance:
    return {FAR: "far", NO_PATH: None}.get(int(code), int(code))


def _averaged(tokens: Sequence[_Token], at: int, graph: Graph, classes: list[Any]) -> Explanation:
    """Return the explanation from all tokens of a node."""
    whole = np.mean([token.whole for token in tokens], axis=0)
    predicted = int(whole.argmax())
    known = graph.labels if graph.labels is not None else np.full(graph.num_nodes, -1)
    parts: dict[int, dict[str, Any]] = {}
    for token in tokens:
        effects = [None, *(token.whole - token.without)[:, predicted].tolist()]
        for place, node in enumerate(token.nodes):
            part = parts.setdefault(
                node,
                {
                    "kind": token.kinds[place],
                    "distance": token.away[place],
                    "distance_back": token.back[place],
                    "share": 0.0,
                    "effect": None if node == at else 0.0,
                    "copies": 0,
                },
            )
            part["copies"] += 1
            part["share"] += token.weights[place] / len(tokens)
            if node != at:
                part["effect"] += effects[place] / len(tokens)
    order = sorted(parts, key=lambda node: (node != at, -abs(parts[node]["effect"] or 0.0), node))
    ids = graph.ids_of(np.array(order)).tolist()
    members = tuple(
        Member(node=name, label=_name(classes, known[node]), **parts[node])
        for name, node in zip(ids, order, strict=True)
    )
    return Explanation(
        node=ids[0],
        prediction=classes[predicted],
        label=members[0].label,
        probabilities=dict(zip(classes, whole.tolist(), strict=True)),
        alone=float(np.mean([token.alone[predicted] for token in tokens])),
        members=members,
        edges=_edges(graph, order),
        copies=len(tokens),
        directed=graph.directed,
    )


def _name(classes: list[Any], label: int) -> Any:
    return classes[label] if label >= 0 else None


def _edges(graph: Graph, nodes: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the edges between nodes by their places in the list; an undirected one once."""
    place = {node: at for at, node in enumerate(nodes)}
    ascending = np.sort(np.array(nodes))
    edges = []
    for at, node in enumerate(nodes):
        row = graph.targets[graph.offsets[node] : graph.offsets[node + 1]]
        # Rows are sorted and may be long, while the members are few: search for each member.
        spot = np.minimum(np.searchsorted(row, ascending), max(0, len(row) - 1))
        near = ascending[row[spot] == ascending].tolist() if len(row) else []
        edges += [(at, place[other]) for other in near if graph.directed or at < place[other]]
    return tuple(edges)
