"""What the model saw of one node, and which of it mattered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.errors import ConfigError
from dhilgt.explanation import Distance, Explanation, Member
from dhilgt.graph import Graph
from dhilgt.inference import evaluating
from dhilgt.loader import TokenLoader
from dhilgt.model import DHILGT
from dhilgt.token_sampler import TokenSampler
from dhilgt.token_spec import FAR, NO_PATH, PADDING
from dhilgt.tokens import Tokens

if TYPE_CHECKING:
    from dhilgt.estimator import NodeClassifier

_PAIRS_AT_ONCE = 1 << 20  # pairs of slots per forward: a few hundred megabytes at most
EGO, HUB, HOLDER, NEIGHBOR = ("ego", "hub", "holder", "neighbor")


def explain(clf: NodeClassifier, node: Any) -> Explanation:
    """Tells what a fitted classifier saw of a node and what each part of it did to the prediction.

    Every other member of the node's token is left out in turn, as if its slot were empty. Its
    effect is how much the probability of the predicted class falls: above 0 it speaks for the
    prediction, below 0 against it. Where the classifier averages several tokens per node, all of
    this is averaged in the same way, and a member that some of them lack counts as 0 there.

    Args:
        clf: A fitted classifier.
        node: Id of a node of its graph.

    Raises:
        GraphError: If there is no such node; the message names the nearest ids.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(60, 4, seed=1, num_features=8)
        >>> clf = dhilgt.NodeClassifier(
        ...     size=6, hidden_channels=16, heads=2, epochs=2, cache=False, progress=False
        ... ).fit(graph)
        >>> found = explain(clf, 7)
        >>> found.members[0].node, found.members[0].kind, found.members[0].distance
        (7, 'ego', 0)
        >>> round(sum(member.share for member in found.members), 6)
        1.0
    """
    clf._check_fitted("predictions to explain")
    return explain_token(
        clf.model_,
        clf.tokens_,
        clf.graph_,
        node,
        features=clf.features_,
        copies=clf.settings_.copies,
        classes=clf.classes_.tolist(),
        known=clf._pipeline.known,
    )


def explain_token(
    model: DHILGT,
    tokens: Tokens | TokenSampler,
    graph: Graph,
    node: Any,
    *,
    features: Any = None,
    copies: int = 1,
    classes: Sequence[Any] | None = None,
    known: Any = None,
) -> Explanation:
    """Does what `explain` does, for a model that was trained without a classifier.

    Args:
        model: On any device; left as it was.
        tokens: Where the model's rows come from.
        graph: The graph they were made from.
        node: Id of a node.
        features: What the model was trained on, one row per node; the graph's when None.
        copies: Rows per node to average over.
        classes: Names of the classes in the order of the logits; the graph's, or numbers.
        known: With `label_inputs`, the class of each node that the model may see, -1 = it may not.

    Raises:
        GraphError: If there is no such node; the message names the nearest ids.
        ConfigError: If the model has another number of classes.
    """
    at = int(graph.index_of(node))
    if classes is None:
        classes = graph.class_names or range(model.config.out_channels)
    wanted, given = model.config.out_channels, max(len(classes), graph.num_classes)
    if given != wanted:
        raise ConfigError(
            f"the model tells {wanted} classes apart, {given} are named; use the graph and the "
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
    )
    seen = [
        _Seen(model, batch.inputs, *_slots(tokens, at, copy))
        for copy, batch in enumerate(next(loader.iterate_copies()))
    ]
    return _joined(seen, at, graph, list(classes))


def _slots(
    tokens: Tokens | TokenSampler, at: int, copy: int
) -> tuple[NDArray[np.int64], list[str]]:
    """Gives what stands in each slot of a token: node index and kind."""
    ids, _, parts = tokens.packed_rows([at], copy)
    hubs, holders = parts[0].tolist()
    rest = ids.shape[1] - 1 - hubs - holders
    return ids[0].astype(np.int64), [EGO] + [HUB] * hubs + [HOLDER] * holders + [NEIGHBOR] * rest


class _Seen:
    """One token of the node: its members, and the probabilities with and without each."""

    def __init__(
        self,
        model: DHILGT,
        inputs: tuple[Tensor, ...],
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
            found = _probabilities(model, inputs, empty.to(index.device))
            shares = _shares(model, inputs)
        self.whole, self.alone, self.without = found[0], found[1], found[2:]
        self.shares = [float(shares[slots].sum()) for slots in self.slots]


def _probabilities(model: DHILGT, inputs: tuple[Tensor, ...], empty: Tensor) -> NDArray[np.float64]:
    """Gives the probabilities with some slots left empty, a row for each row of `empty`."""
    x, index, spd, *known = inputs
    rows = index.masked_fill(empty, PADDING)  # [rows, s]
    step = max(1, _PAIRS_AT_ONCE // (index.shape[1] + model.config.num_virtual) ** 2)
    parts = [
        model(x, part, spd.expand(len(part), -1, -1), *known) for part in torch.split(rows, step)
    ]
    return np.asarray(torch.softmax(torch.cat(parts).double(), -1).cpu().numpy())


def _shares(model: DHILGT, inputs: tuple[Tensor, ...]) -> NDArray[np.float64]:
    """Gives the share of each slot in the readout; the ego's is 1 where nothing else is read."""
    if model.readout is None:
        return np.eye(1, inputs[1].shape[1]).reshape(-1)
    return np.asarray(model.readout_weights(*inputs)[0].double().cpu().numpy())


def _distance(code: int) -> Distance:
    return {FAR: "far", NO_PATH: None}.get(int(code), int(code))


# ---- putting tokens together -------------------------------------------------------------------


def _joined(seen: Sequence[_Seen], at: int, graph: Graph, classes: list[Any]) -> Explanation:
    whole = np.mean([token.whole for token in seen], axis=0)
    predicted = int(whole.argmax())
    known = graph.labels if graph.labels is not None else np.full(graph.num_nodes, -1)
    parts: dict[int, dict[str, Any]] = {}
    for token in seen:
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
            part["share"] += token.shares[place] / len(seen)
            if node != at:
                part["effect"] += effects[place] / len(seen)
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
        alone=float(np.mean([token.alone[predicted] for token in seen])),
        members=members,
        edges=_edges(graph, order),
        copies=len(seen),
        directed=graph.directed,
    )


def _name(classes: list[Any], label: int) -> Any:
    return classes[label] if label >= 0 else None


def _edges(graph: Graph, nodes: list[int]) -> tuple[tuple[int, int], ...]:
    """Gives the edges between nodes by their places in the list; an undirected one once."""
    place = {node: at for at, node in enumerate(nodes)}
    ascending = np.sort(np.array(nodes))
    found = []
    for at, node in enumerate(nodes):
        row = graph.targets[graph.offsets[node] : graph.offsets[node + 1]]
        # Rows may be long and are sorted; the members are few.
        spot = np.minimum(np.searchsorted(row, ascending), max(0, len(row) - 1))
        near = ascending[row[spot] == ascending].tolist() if len(row) else []
        found += [(at, place[other]) for other in near if graph.directed or at < place[other]]
    return tuple(found)
