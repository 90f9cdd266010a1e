"""LINKX: a node's features and its row of the adjacency matrix, each through an MLP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import About, NodeBaseline
from dhilgt.baselines.loaders import RowStore
from dhilgt.baselines.settings import Settings, count, rate
from dhilgt.baselines.shared.layers import MLPBlock, SafeBatchNorm, SparseLinear
from dhilgt.baselines.shared.message_graph import dense_features, rows_of
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout


@dataclass(frozen=True)
class LINKXSettings(Settings):
    """Settings of `LINKX`.

    Attributes:
        hidden_channels: Width of all inner layers.
        edge_layers: Layers of the MLP over rows of the adjacency matrix.
        node_layers: Layers of the MLP over features.
        num_layers: Layers of the MLP over both.
        dropout: Dropout after each inner layer.
        batch_size: Nodes per batch; None for all at once.
    """

    hidden_channels: int = count(128)
    edge_layers: int = count(1)
    node_layers: int = count(1)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    batch_size: int | None = count(None, optional=True)


class LINKX(NodeBaseline):
    """logits = MLP(ReLU(W [a || x] + a + x)) with a = MLP(row of A), x = MLP(features)."""

    about: ClassVar = About("LINKX", "Lim et al., NeurIPS 2021", "nodes")
    settings_type: ClassVar[type[Settings]] = LINKXSettings
    settings: LINKXSettings
    needs_same_nodes: ClassVar[bool] = True
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 0.01,
        "weight_decay": 0.001,
        "optimizer": "adamw",
        "warmup_epochs": 0,
        "decay": "none",
        "patience": None,
    }

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.edge_input = SparseLinear(self.shape.num_nodes, width)
        more = s.edge_layers > 1
        self.edge_norm = SafeBatchNorm(width) if more else None
        self.edge_mlp = _mlp([width] * s.edge_layers, s.dropout) if more else None
        self.node_mlp = _mlp([self.shape.in_channels, *[width] * s.node_layers], s.dropout)
        self.mix = nn.Linear(2 * width, width)
        self.output = _mlp([*[width] * s.num_layers, self.shape.out_channels], s.dropout)

    def _prepare(self, graph: Graph) -> None:
        # A directed graph stays directed: a row lists the targets of a node.
        self._offsets, self._targets = graph.offsets, graph.targets
        self._features = RowStore(dense_features(graph))

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        offsets, targets = rows_of(self._offsets, self._targets, nodes)
        ones = np.ones(len(targets), np.float32)
        matrix = SparseMatrix.from_numpy(offsets, targets, ones, self.shape.num_nodes)
        return matrix, self._features.rows(nodes)

    def logits(self, edges: SparseMatrix, x: Tensor) -> Tensor:
        """Return [B, C] from rows of the adjacency matrix B x n and x [B, F0]."""
        a = self.edge_input(edges)  # [B, F]
        if self.edge_mlp is not None and self.edge_norm is not None:
            a = dropout(self.edge_norm(functional.relu(a)), self.settings.dropout, self.training)
            a = self.edge_mlp(a)
        x = self.node_mlp(x)  # [B, F]
        h = functional.linear(a, self.mix.weight[:, : a.shape[1]], self.mix.bias)
        h = h + functional.linear(x, self.mix.weight[:, a.shape[1] :]) + a + x
        logits: Tensor = self.output(functional.relu(h))
        return logits


def _mlp(widths: list[int], dropout: float) -> MLPBlock:
    return MLPBlock(widths, dropout, norm="batch", norm_last=True)
