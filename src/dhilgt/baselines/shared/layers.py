"""Small layers that several systems use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.model.dropout import dropout


class SafeBatchNorm(nn.BatchNorm1d):
    """Batch normalisation that uses the running statistics for a batch of one row."""

    def forward(self, x: Tensor) -> Tensor:
        """Return normalised rows, [B, F]."""
        if self.training and x.shape[0] == 1:
            return functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(x)


def make_norm(kind: str, width: int) -> nn.Module:
    """Return a normalisation of rows: "none", "batch" or "layer"."""
    if kind == "batch":
        return SafeBatchNorm(width)
    return nn.LayerNorm(width) if kind == "layer" else nn.Identity()


class GraphConv(nn.Linear):
    """A x W^T + b for a sparse A, with Glorot's initial weights."""

    def reset_parameters(self) -> None:
        """Draw initial weights."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, adjacency: SparseMatrix) -> Tensor:  # type: ignore[override]
        """Return [n, out] from [n, in], with the sparse product on the narrower side."""
        if self.out_features <= self.in_features:
            out = adjacency @ functional.linear(x, self.weight)
        else:
            out = functional.linear(adjacency @ x, self.weight)
        return out if self.bias is None else out + self.bias


class SparseLinear(nn.Module):
    """A linear layer whose input is a sparse matrix."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(in_features, out_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, matrix: SparseMatrix) -> Tensor:
        """Return [B, out] from B x in."""
        return matrix @ self.weight + self.bias


class MLPBlock(nn.Module):
    """Linear layers with normalisation, ReLU and dropout between them.

    Args:
        widths: Widths of input, inner layers and output.
        dropout: Dropout after each inner layer.
        norm: "none", "batch" or "layer".
        norm_last: Whether to normalise after ReLU, not before it.

    Example:
        >>> MLPBlock([4, 8, 2], 0.5)(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self, widths: Sequence[int], dropout: float, norm: str = "none", norm_last: bool = False
    ) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.norms = nn.ModuleList(make_norm(norm, b) for _, b in pairs[:-1])
        self.dropout = dropout
        self.norm_last = norm_last

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, widths[-1]]."""
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = layer(x)
            x = norm(functional.relu(x)) if self.norm_last else functional.relu(norm(x))
            x = dropout(x, self.dropout, self.training)
        out: Tensor = self.layers[-1](x)
        return out
