"""Message passing inside a layer: a graph convolution, GraphSAGE, or a gated convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.shared.layers import GraphConv, SafeBatchNorm
from dhilgt.baselines.shared.sparse import SparseMatrix

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
        rows, columns = adjacency.rows(), adjacency.columns
        gates = torch.sigmoid(  # [entries, F]
            self.gate_target(h).index_select(0, rows) + self.gate_source(h).index_select(0, columns)
        )
        sums = _row_sums(adjacency)
        total = sums @ (gates * self.others(h).index_select(0, columns))
        mixed = self.own(h) + total / (sums @ gates + _LEAST)
        return functional.relu(self.norm(mixed))


def _row_sums(matrix: SparseMatrix) -> SparseMatrix:
    """Return the matrix whose product with [entries, F] has the sums over the entries of rows."""
    entries = torch.arange(len(matrix.columns), device=matrix.device)
    return SparseMatrix(matrix.offsets, entries, torch.ones_like(matrix.values), len(entries))
