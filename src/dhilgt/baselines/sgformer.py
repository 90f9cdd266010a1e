"""SGFormer: linear attention over all nodes and a shallow GCN, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, GraphBaseline
from dhilgt.baselines.settings import Settings, choice, count, number, rate
from dhilgt.baselines.shared.layers import GraphConv, SafeBatchNorm
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.model.dropout import dropout

_EPS = 1e-6


@dataclass(frozen=True)
class SGFormerSettings(Settings):
    """Settings of `SGFormer`.

    Attributes:
        hidden_channels: Width.
        attention_layers: Layers of global attention; the paper uses one.
        heads: Attention heads, each of full width; their outputs are averaged.
        attention_dropout: Dropout in the attention branch.
        graph_layers: Graph convolutions.
        graph_dropout: Dropout in the graph branch.
        graph_weight: Weight of the graph branch in the sum of both.
        aggregate: "add" the branches weighted by `graph_weight`, or "cat" them.
        batch_size: Largest number of nodes of a random block in training; None for the whole graph.
    """

    hidden_channels: int = count(64)
    attention_layers: int = count(1)
    heads: int = count(1)
    attention_dropout: float = rate(0.5)
    graph_layers: int = count(3, low=0)
    graph_dropout: float = rate(0.5)
    graph_weight: float = number(0.8, 0, 1)
    aggregate: str = choice("add", "cat")
    batch_size: int | None = count(None, optional=True)


class SGFormer(GraphBaseline):
    """Linear attention and a GCN side by side, then one linear layer."""

    about: ClassVar = About("SGFormer", "Wu et al., NeurIPS 2023", "graph")
    settings_type: ClassVar[type[Settings]] = SGFormerSettings
    settings: SGFormerSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 0.01,
        "weight_decay": 0.0005,
        **CONSTANT_ADAM,
        "patience": 200,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", and "pyg" with the defaults of PyG's model."""
        return {"paper": {}, "pyg": {"attention_layers": 2, "graph_weight": 0.5}}

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.attention = AttentionBranch(
            self.shape.in_channels, width, s.attention_layers, s.heads, s.attention_dropout
        )
        self.convolution = GraphBranch(
            self.shape.in_channels, width, s.graph_layers, s.graph_dropout
        )
        self.output = nn.Linear(
            2 * width if s.aggregate == "cat" else width, self.shape.out_channels
        )

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Return [B, C] from x [n, F0], the n x n matrix and rows [B]."""
        far = self.attention(x)[rows]
        near = self.convolution(x, adjacency)[rows]
        if self.settings.aggregate == "cat":
            both = torch.cat([far, near], 1)
        else:
            weight = self.settings.graph_weight
            both = weight * near + (1 - weight) * far
        logits: Tensor = self.output(both)
        return logits


class LinearAttention(nn.Module):
    """Attention over all pairs without softmax, in time linear in the number of nodes.

    With rows of q and k scaled to length 1: out_i = (n v_i + q_i sum_j k_j^T v_j) /
    (n + q_i . sum_j k_j), averaged over heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, heads * width, bias=False)
        self.key = nn.Linear(width, heads * width, bias=False)
        self.value = nn.Linear(width, heads * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, F] from [n, F]."""
        n = x.shape[0]
        query, key, value = (
            part(x).view(n, self.heads, -1) for part in (self.query, self.key, self.value)
        )
        query = functional.normalize(query, dim=-1, eps=_EPS)
        key = functional.normalize(key, dim=-1, eps=_EPS)
        summary = torch.einsum("nhm,nhd->hmd", key, value)
        numerator = torch.einsum("nhm,hmd->nhd", query, summary) + n * value
        denominator = torch.einsum("nhm,hm->nh", query, key.sum(0)) + n
        mixed: Tensor = (numerator / denominator[..., None]).mean(1)
        return mixed


class AttentionBranch(nn.Module):
    """Input layer, then attention layers, each averaged with its input."""

    def __init__(self, inputs: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(LinearAttention(width, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers + 1))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, F] from [n, F0]."""
        x = _activate(self, self.norms[0](self.input(x)))
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            x = _activate(self, norm((layer(x) + x) / 2))
        return x


class GraphBranch(nn.Module):
    """Input layer, then graph convolutions, each with the input layer's output added."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(GraphConv(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(SafeBatchNorm(width) for _ in range(layers + 1))
        self.dropout = dropout

    def forward(self, x: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return [n, F] from [n, F0]."""
        first = x = _activate(self, self.norms[0](self.input(x)))
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            x = _activate(self, norm(layer(x, adjacency))) + first
        return x


def _activate(branch: AttentionBranch | GraphBranch, x: Tensor) -> Tensor:
    return dropout(functional.relu(x), branch.dropout, branch.training)
