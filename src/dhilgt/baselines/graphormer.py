"""Graphormer: attention with a learned bias per distance, and embeddings of degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from dhilgt.baselines.base import About
from dhilgt.baselines.settings import Settings, count
from dhilgt.baselines.shared.encoder import TokenEncoder, draw_small
from dhilgt.baselines.shared.row_model import ROW_RECIPE, RowBaseline, RowSettings, row_variants
from dhilgt.graph.graph import Graph
from dhilgt.model.attention import code_bias


@dataclass(frozen=True)
class GraphormerSettings(RowSettings):
    """Settings of `Graphormer`; the others are those of `RowSettings`.

    Attributes:
        max_degree: Degrees from this one on share an embedding.
    """

    max_degree: int = count(512)


class Graphormer(RowBaseline):
    """A transformer over nodes whose scores have a bias per distance and head."""

    about: ClassVar = About("Graphormer", "Ying et al., NeurIPS 2021", "tokens")
    settings_type: ClassVar[type[Settings]] = GraphormerSettings
    settings: GraphormerSettings
    recipe: ClassVar[Mapping[str, Any]] = ROW_RECIPE

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", one variant per sampler, and "slim", the size used on molecules."""
        return row_variants()

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels, width)
        self.in_degree = nn.Embedding(s.max_degree + 1, width)
        self.out_degree = nn.Embedding(s.max_degree + 1, width)
        self.distance_bias = nn.Embedding(s.num_codes, s.heads)  # shared by all layers
        self.encoder = TokenEncoder(
            width,
            num_layers=s.num_layers,
            heads=s.heads,
            ffn=width,
            dropout=s.dropout,
            attention_dropout=s.attention_dropout,
        )
        self.output = nn.Linear(width, self.shape.out_channels)
        draw_small(self, s.num_layers)

    def node_inputs(self, graph: Graph) -> tuple[Tensor, ...]:
        """Return features [n, F0] and clipped degrees, incoming and outgoing, [n, 2]."""
        degrees = np.stack([np.diff(graph.in_offsets), np.diff(graph.offsets)], 1)
        clipped = np.minimum(degrees, self.settings.max_degree).astype(np.int64)
        return (*super().node_inputs(graph), torch.from_numpy(clipped))

    def embed(self, *parts: Tensor) -> Tensor:
        """Return W x + z_in[degree in] + z_out[degree out]."""
        x, degrees = parts
        h: Tensor = self.input(x) + self.in_degree(degrees[:, 0]) + self.out_degree(degrees[:, 1])
        return h

    def encode(self, h: Tensor, codes: Tensor) -> Tensor:
        """Return the last representation of all slots, [B, s, F]."""
        s, learned = self.settings, self.distance_bias.weight
        masked = learned.new_full((1, s.heads), -torch.inf)
        bias = code_bias(codes, torch.cat([learned, masked]), h.dtype).transpose(0, 1)
        bias = bias.contiguous()  # [B, H, s, s]; the layers read it many times
        out: Tensor = self.encoder(h, [bias] * s.num_layers)
        return out
