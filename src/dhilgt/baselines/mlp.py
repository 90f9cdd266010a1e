"""MLP: classifies a node by its own features, without the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from dhilgt.baselines.base import CONSTANT_ADAM, About, TokenBaseline
from dhilgt.baselines.settings import Settings, choice, count, rate
from dhilgt.baselines.shared.layers import MLPBlock
from dhilgt.baselines.shared.message_graph import dense_features
from dhilgt.graph.graph import Graph


@dataclass(frozen=True)
class MLPSettings(Settings):
    """Settings of `MLP`.

    Attributes:
        hidden_channels: Width of the inner layers.
        num_layers: Linear layers.
        dropout: Dropout after each inner layer.
        norm: Normalisation of the inner layers: "none", "batch" or "layer".
        batch_size: Nodes per batch; None for all at once.
    """

    hidden_channels: int = count(256)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    norm: str = choice("none", "batch", "layer")
    batch_size: int | None = count(None, optional=True)


class MLP(TokenBaseline):
    """Linear layers over the features: the reference without a graph."""

    about: ClassVar = About("MLP", "no paper: the reference without a graph", "nodes")
    settings_type: ClassVar[type[Settings]] = MLPSettings
    settings: MLPSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 0.01,
        "weight_decay": 0.0005,
        **CONSTANT_ADAM,
        "patience": 100,
    }

    def build(self) -> None:
        """Create the layers."""
        s = self.settings
        inner = [s.hidden_channels] * (s.num_layers - 1)
        widths = [self.shape.in_channels, *inner, self.shape.out_channels]
        self.mlp = MLPBlock(widths, s.dropout, s.norm)

    def tokens(self, graph: Graph) -> tuple[Tensor, ...]:
        """Return the features, [n, F0]."""
        return (dense_features(graph),)

    def logits(self, x: Tensor) -> Tensor:
        """Return [B, C] from [B, F0]."""
        logits: Tensor = self.mlp(x)
        return logits
