"""SGFormer: one linear attention over all nodes beside a shallow GCN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import About, GraphBaseline
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
        attention_layers: Layers of global attention; the paper's point is that one is enough.
        heads: Attention heads, each of full width; their outputs are averaged.
        attention_dropout: Dropout in the attention branch.
        graph_layers: Graph convolutions.
        graph_dropout: Dropout in the graph branch.
        graph_weight: Share of the graph branch in the sum of both.
        aggregate: "add" the branches by `graph_weight`, or "cat" them.
        batch_size: Most nodes of a random block in training; None for the whole graph.
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
        "optimizer": "adam",
        "warmup_epochs": 0,
        "decay": "none",
        "patience": 200,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Gives "paper", and "pyg": the defaults of PyG's model."""
        return {"paper": {}, "pyg": {"attention_layers": 2, "graph_weight": 0.5}}

    def build(self) -> None:
        """Makes the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.attention = AttentionBranch(
            self.shape.in_channels, width, s.attention_layers, s.heads, s.attention_dropout
        )
        self.convolution = GraphBranch(
            self.shape.in_channels, width, s.graph_layers, s.graph_dropout
        )
        together = 2 * width if s.aggregate == "cat" else width
        self.output = nn.Linear(together, self.shape.out_channels)

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Gives [B, C]: x [n, F0], the matrix n x n, rows [B]."""
        far = self.attention(x)[rows]
        near = self.convolution(x, adjacency)[rows]
        if self.settings.aggregate == "cat":
            both = torch.cat([far, near], 1)
        else:
            share = self.settings.graph_weight
            both = share * near + (1 - share) * far
        found: Tensor = self.output(both)
        return found


class LinearAttention(nn.Module):
    """All-pair attention without softmax, in time linear in the number of nodes.

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
        """Gives [n, F] from [n, F]."""
        n = x.shape[0]
        query, key, value = (
            part(x).view(n, self.heads, -1) for part in (self.query, self.key, self.value)
        )
        query = functional.normalize(query, dim=-1, eps=_EPS)
        key = functional.normalize(key, dim=-1, eps=_EPS)
        summary = torch.einsum("nhm,nhd->hmd", key, value)
        above = torch.einsum("nhm,hmd->nhd", query, summary) + n * value
        below = torch.einsum("nhm,hm->nh", query, key.sum(0)) + n
        mixed: Tensor = (above / below[..., None]).mean(1)
        return mixed


class AttentionBranch(nn.Module):
    """Input layer, then attention layers that are averaged with their input."""

    def __init__(self, inputs: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(LinearAttention(width, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers + 1))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Gives [n, F] from [n, F0]."""
        x = self._end(self.norms[0](self.input(x)))
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            x = self._end(norm((layer(x) + x) / 2))
        return x

    def _end(self, x: Tensor) -> Tensor:
        return dropout(functional.relu(x), self.dropout, self.training)


class GraphBranch(nn.Module):
    """Input layer, then graph convolutions that each add the input layer's output."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(GraphConv(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(SafeBatchNorm(width) for _ in range(layers + 1))
        self.dropout = dropout

    def forward(self, x: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Gives [n, F] from [n, F0]."""
        first = x = self._end(self.norms[0](self.input(x)))
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            x = self._end(norm(layer(x, adjacency))) + first
        return x

    def _end(self, x: Tensor) -> Tensor:
        return dropout(functional.relu(x), self.dropout, self.training)
