"""Which neighbours' messages a prediction rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.classifier.connections import MOST_TRIED
from dhilgt.classifier.explanation import Connection
from dhilgt.graph.graph import Graph
from dhilgt.loader.batch import all_inputs
from dhilgt.model.dhilgt import DHILGT
from dhilgt.training.scoring import evaluating

MESSAGES = "messages"


def received(
    model: DHILGT,
    tokens: Sequence[tuple[Any, ...]],
    at: int,
    predicted: int,
    *,
    graph: Graph,
    classes: Sequence[Any],
) -> tuple[Connection, ...]:
    """Return the neighbours of a node with the effect of their messages, largest first.

    The edge to each neighbour is left out in turn, in both directions, and the messages of all
    nodes are computed again; of more than `MOST_TRIED` neighbours those whose edges weigh most are
    tried.

    Args:
        model: The model, which passes messages.
        tokens: The inputs of the model for each token of the node.
        at: Index of the node.
        predicted: Number of the predicted class.
        graph: The graph.
        classes: The names of the classes.
    """
    adjacency = all_inputs(tokens[0])[5]
    columns, weights = _row(adjacency, at)
    tried = np.argsort(-weights, kind="stable")[:MOST_TRIED]
    with evaluating(model):
        whole = _probability(model, tokens, adjacency, predicted)
        effects = [
            whole - _probability(model, tokens, _without(adjacency, at, node), predicted)
            for node in columns[tried].tolist()
        ]
    ids = graph.ids_of(columns[tried]).tolist()
    found = [
        Connection(
            name=name,
            label=None if graph.labels is None else _class(classes, graph.labels[node]),
            rows=(MESSAGES,),
            values=(float(weight),),
            effect=effect,
        )
        for name, node, weight, effect in zip(
            ids, columns[tried], weights[tried], effects, strict=True
        )
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.effect)))


def _row(adjacency: Tensor, node: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the neighbours of a node and the weights of the edges to them."""
    first, end = adjacency.crow_indices()[node : node + 2].tolist()
    columns = adjacency.col_indices()[first:end].long().cpu().numpy()
    return columns, adjacency.values()[first:end].cpu().numpy()


def _without(adjacency: Tensor, node: int, other: int) -> Tensor:
    """Return the weights with that of one edge 0, in both directions."""
    values = adjacency.values().clone()
    for source, target in ((node, other), (other, node)):
        first, end = adjacency.crow_indices()[source : source + 2].tolist()
        values[first:end][adjacency.col_indices()[first:end] == target] = 0
    return torch.sparse_csr_tensor(
        adjacency.crow_indices(),
        adjacency.col_indices(),
        values,
        adjacency.shape,
        check_invariants=False,
    )


def _probability(
    model: DHILGT, tokens: Sequence[tuple[Any, ...]], adjacency: Tensor, predicted: int
) -> float:
    """Return the probability of a class, mean over the tokens."""
    shares = [
        torch.softmax(model(*all_inputs(inputs)[:5], adjacency).double(), -1)[0, predicted]
        for inputs in tokens
    ]
    return float(torch.stack(shares).mean())


def _class(classes: Sequence[Any], code: int) -> Any:
    return classes[code] if code >= 0 else None
