"""Message passing inside a layer: a graph convolution, GraphSAGE, or a gated convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.shared.layers import GraphConv, SafeBatchNorm
from dhilgt.baselines.shared.sparse import SparseMatrix, multiply

_LEAST = 1e-6

ADJACENCY = {"gcn": "symmetric", "sage": "row", "gated": "ones"}
"""Kind of adjacency matrix of each kind of message passing."""
NEEDS_LOOPS = ("gcn",)
"""Kinds that reach a node itself by a loop; the others have weights of their own for it."""


def message_passing(kind: str, width: int) -> nn.Module:
    """Return one of "gcn", "sage" and "gated": called with [n, F] and a matrix, it gives [n, F]."""
    if kind == "gcn":
        return GraphConv(width, width)
    return MeanConv(width) if kind == "sage" else GatedConv(width)


class MeanConv(nn.Module):
    """W_1 h_i + W_2 times the mean over the neighbours of i, as in GraphSAGE."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.others = GraphConv(width, width, bias=False)

    def forward(self, h: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return [n, F] from [n, F] and D^-1 A."""
        out: Tensor = self.own(h) + self.others(h, adjacency)
        return out


class GatedConv(nn.Module):
    """ReLU(BN(W_1 h_i + sum_j g_ij * W_2 h_j / (sum_j g_ij + eps))), for each channel.

    The gates are g_ij = sigmoid(W_3 h_i + W_4 h_j), for each edge and channel.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.others = nn.Linear(width, width)
        self.gate_target = nn.Linear(width, width)
        self.gate_source = nn.Linear(width, width, bias=False)
        self.norm = SafeBatchNorm(width)

    def forward(self, h: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return [n, F] from [n, F]; the values of the matrix are not used."""
        mixed: Tensor = _GatedMean.apply(  # type: ignore[no-untyped-call]
            self.gate_target(h), self.gate_source(h), self.others(h), adjacency
        )
        return functional.relu(self.norm(self.own(h) + mixed))


class _GatedMean(torch.autograd.Function):
    """sum_j g_ij * v_j / (sum_j g_ij + eps) with g_ij = sigmoid(t_i + s_j), over entries of a row.

    Gates are computed again for the gradient, as they take more memory than all else, and sums over
    entries are products, which add up in a fixed order.
    """

    @staticmethod
    def forward(
        ctx: Any, target: Tensor, source: Tensor, value: Tensor, matrix: SparseMatrix
    ) -> Tensor:
        rows, columns = matrix.rows(), matrix.columns
        target, source, value = target.float(), source.float(), value.float()
        gates = torch.sigmoid(target[rows] + source[columns])  # [entries, F]
        total = _row_sums(matrix, gates) + _LEAST
        mean = _row_sums(matrix, gates * value[columns]) / total
        ctx.matrix = matrix
        ctx.save_for_backward(target, source, value, total, mean)
        return mean

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        target, source, value, total, mean = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        rows, columns = matrix.rows(), matrix.columns
        gates = torch.sigmoid(target[rows] + source[columns])
        share = gradient / total  # of the weighted sum in its row
        of_value = _column_sums(matrix, gates * share[rows])
        # mean = sum / total, so that a gate g_ij changes it by (v_j - mean_i) / total_i.
        of_score = share[rows] * (value[columns] - mean[rows]) * gates * (1 - gates)
        return _row_sums(matrix, of_score), _column_sums(matrix, of_score), of_value, None


def _row_sums(matrix: SparseMatrix, entries: Tensor) -> Tensor:
    """Return sums over the entries of each row, [entries, F] to [rows, F]."""
    places = torch.arange(len(entries), device=entries.device)
    return multiply(matrix.offsets, places, torch.ones_like(matrix.values), entries)


def _column_sums(matrix: SparseMatrix, entries: Tensor) -> Tensor:
    """Return sums over the entries of each column, [entries, F] to [columns, F]."""
    offsets = matrix.transposed().offsets
    return multiply(offsets, matrix.transposing_order(), torch.ones_like(matrix.values), entries)
