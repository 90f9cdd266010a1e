"""Which neighbours, hubs and classes in a node's own rows its prediction rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.classifier.explanation import Connection
from dhilgt.features.ego_vocabulary import CLASSES, HUBS, NEIGHBORS, EgoVocabulary
from dhilgt.graph.graph import Graph
from dhilgt.loader.batch import all_inputs
from dhilgt.model.dhilgt import DHILGT
from dhilgt.training.scoring import evaluating

MOST_TRIED = 20
"""Neighbours, hubs and classes that are left out in turn, the most important ones by gradient."""


def connections(
    model: DHILGT,
    tokens: Sequence[tuple[Any, ...]],
    predicted: int,
    *,
    vocabulary: EgoVocabulary,
    graph: Graph,
    classes: Sequence[Any],
) -> dict[str, tuple[Connection, ...]]:
    """Return what a node is connected to with its effect, largest first, by kind of connection.

    The change of the prediction without a connection is estimated by the gradient for all of them,
    and computed for the `MOST_TRIED` largest.

    Args:
        model: The model, which takes such rows.
        tokens: The inputs of the model for each token of the node, which share their rows.
        predicted: Number of the predicted class.
        vocabulary: The columns of the rows.
        graph: The graph they are of.
        classes: The names of the classes.
    """
    rows = tokens[0][4]  # (K, T), the same for every token
    columns, groups, values = _entries(rows)
    distinct = np.unique(columns)
    estimates = np.zeros(len(distinct))
    for inputs in tokens:
        slopes = _contributions(model, inputs, predicted)  # by entry
        np.add.at(estimates, np.searchsorted(distinct, columns), slopes)
    order = np.argsort(-np.abs(estimates), kind="stable")[:MOST_TRIED]
    tried = distinct[order]
    effects = _effects(model, tokens, predicted, tried)
    names = vocabulary.groups
    found: dict[str, list[Connection]] = {NEIGHBORS: [], HUBS: [], CLASSES: []}
    for column, effect in sorted(
        zip(tried.tolist(), effects.tolist(), strict=True), key=lambda one: (-abs(one[1]), one[0])
    ):
        kind, name, label = _named(column, vocabulary, graph, classes)
        here = columns == column
        found[kind].append(
            Connection(
                name=name,
                label=label,
                rows=tuple(names[group] for group in groups[here]),
                values=tuple(values[here].tolist()),
                effect=effect,
            )
        )
    return {kind: tuple(ones) for kind, ones in found.items()}


def repeated(rows: Tensor, count: int) -> Tensor:
    """Return the rows of one node as those of several nodes, (count * K, T) CSR.

    Args:
        rows: Of one node, (K, T) CSR.
        count: How many times.
    """
    offsets, columns, values = rows.crow_indices(), rows.col_indices(), rows.values()
    starts = torch.arange(count, device=offsets.device)[:, None] * len(columns)
    return torch.sparse_csr_tensor(
        torch.cat([(starts + offsets[:-1]).reshape(-1), starts.new_tensor([count * len(columns)])]),
        columns.repeat(count),
        values.repeat(count),
        (count * rows.shape[0], rows.shape[1]),
        check_invariants=False,
    )


def _entries(rows: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return column, group and value of each entry."""
    groups = np.repeat(np.arange(len(rows)), rows.crow_indices().diff().cpu().numpy())
    return rows.col_indices().long().cpu().numpy(), groups, rows.values().float().cpu().numpy()


def _contributions(model: DHILGT, inputs: tuple[Any, ...], predicted: int) -> NDArray[np.float64]:
    """Return, to first order, by how much each entry raises the predicted probability."""
    part, rows = model.ego_input, inputs[4]
    assert part is not None, "the model takes such rows"
    shift = torch.zeros(1, part.weight.shape[1], device=rows.device, requires_grad=True)
    handle = part.register_forward_hook(lambda _part, _inputs, out: out + shift)
    training = model.training
    model.eval()
    try:
        with torch.enable_grad():
            chance = torch.softmax(model(*inputs).double(), -1)[0, predicted]
            (slope,) = torch.autograd.grad(chance, shift)  # (1, F)
    finally:
        handle.remove()
        model.train(training)
    with torch.no_grad():
        _, groups, _ = _entries(rows)
        along = part.weight[rows.col_indices().long()].double() @ slope[0].double()
        weighted = along * rows.values().double()
        scales = part.scale.double().cpu().numpy()[groups]
    return np.asarray(weighted.cpu().numpy() * scales)


def _effects(
    model: DHILGT, tokens: Sequence[tuple[Any, ...]], predicted: int, tried: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return by how much the predicted probability falls without each column, on average."""
    effects = np.zeros(len(tried))
    with evaluating(model):
        for inputs in tokens:
            x, index, spd, known, rows, adjacency = all_inputs(inputs)
            many = repeated(rows, len(tried) + 1)
            columns = many.col_indices().view(len(tried) + 1, -1)
            values = many.values().view(len(tried) + 1, -1).clone()
            left_out = torch.as_tensor(tried, device=rows.device)[:, None]
            values[1:][columns[1:] == left_out] = 0  # the first node keeps all
            many = torch.sparse_csr_tensor(
                many.crow_indices(),
                many.col_indices(),
                values.reshape(-1),
                many.shape,
                check_invariants=False,
            )
            count = len(tried) + 1
            same = index.expand(count, -1), spd.expand(count, -1, -1)
            logits = model(x, *same, known, many, adjacency)
            chances = torch.softmax(logits.double(), -1)[:, predicted]
            effects += (chances[0] - chances[1:]).cpu().numpy() / len(tokens)
    return effects


def _named(
    column: int, vocabulary: EgoVocabulary, graph: Graph, classes: Sequence[Any]
) -> tuple[str, Any, Any]:
    """Return the kind of a column, the id or class it stands for, and the class of a node."""
    if column >= vocabulary.first_class:
        return CLASSES, classes[(column - vocabulary.first_class) % vocabulary.num_classes], None
    kind, table, first = NEIGHBORS, vocabulary.neighbors, 0
    if column >= vocabulary.first_hub:
        kind, table, first = HUBS, vocabulary.hubs, vocabulary.first_hub
    assert table is not None, "it has this column"
    node = int(table[column - first])
    code = -1 if graph.labels is None else int(graph.labels[node])
    return kind, graph.ids_of(node), classes[code] if code >= 0 else None
