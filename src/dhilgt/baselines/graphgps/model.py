"""GraphGPS: layers of message passing and attention side by side, after encodings of positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, GraphBaseline
from dhilgt.baselines.graphgps.attention import GlobalAttention, usual_features
from dhilgt.baselines.graphgps.encodings import (
    LaplacianEncoder,
    WalkEncoder,
    laplacian_pairs,
    walk_returns,
)
from dhilgt.baselines.graphgps.messages import ADJACENCY, NEEDS_LOOPS, message_passing
from dhilgt.baselines.settings import Settings, choice, count, rate
from dhilgt.baselines.shared.layers import make_norm
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.errors import ConfigError
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout

EXACT_NODES = 20_000
"""Nodes up to which the attention "auto" is exact."""


@dataclass(frozen=True)
class GraphGPSSettings(Settings):
    """Settings of `GraphGPS`; the defaults are those of the authors on chameleon.

    Attributes:
        hidden_channels: Width of all layers, all heads included; a multiple of ``heads``.
        num_layers: Number of layers.
        heads: Attention heads.
        dropout: Dropout after message passing, after attention and in the feed-forward part.
        attention_dropout: Dropout of the attention weights; with Performer, of its output.
        local: Message passing: "gcn", "sage" or "gated".
        attention: "exact" (quadratic in the nodes), "performer" (linear), or "auto": exact for
            graphs of up to 20,000 nodes.
        random_features: Random features of Performer; None for d ln d with heads of width d.
        norm: Normalisation after each part of a layer: "none", "batch" or "layer".
        encoding: Positions: "laplacian" eigenvectors, "random-walk" returns, or "none".
        encoding_channels: Width of the encoded positions, part of ``hidden_channels``.
        frequencies: Eigenvectors, for "laplacian".
        walk_steps: Steps, for "random-walk".
        batch_size: Largest number of nodes of a random block in training; None for the whole graph.
    """

    hidden_channels: int = count(96)
    num_layers: int = count(3)
    heads: int = count(4)
    dropout: float = rate(0.2)
    attention_dropout: float = rate(0.5)
    local: str = choice("gcn", "sage", "gated")
    attention: str = choice("auto", "exact", "performer")
    random_features: int | None = count(None, optional=True)
    norm: str = choice("none", "batch", "layer")
    encoding: str = choice("laplacian", "random-walk", "none")
    encoding_channels: int = count(4)
    frequencies: int = count(4)
    walk_steps: int = count(16)
    batch_size: int | None = count(None, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()
        if self.encoding != "none" and self.encoding_channels >= self.hidden_channels:
            raise ConfigError(
                f"encoding_channels = {self.encoding_channels} leave no room for the features in "
                f"hidden_channels = {self.hidden_channels}; change one of them, or pass "
                'encoding="none"'
            )


class GraphGPS(GraphBaseline):
    """Features beside encoded positions, then layers, then one linear layer."""

    about: ClassVar = About("GraphGPS", "Rampášek et al., NeurIPS 2022", "graph")
    settings_type: ClassVar[type[Settings]] = GraphGPSSettings
    settings: GraphGPSSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 200,
        "lr": 5e-4,
        "weight_decay": 1e-5,
        "warmup_epochs": 10,
        "decay": "cosine",
        "clip_norm": 1.0,
        "patience": None,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", two choices of the article, and "tuned" of later work."""
        tuned = {
            "hidden_channels": 256,
            "num_layers": 2,
            "dropout": 0.5,
            "attention_dropout": 0.5,
            "norm": "batch",
            "encoding": "none",
        }
        return {
            "paper": {},
            "batch-norm": {"norm": "batch"},
            "performer": {"attention": "performer"},
            "tuned": tuned,
        }

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Return the recipe of the later work: Adam with a constant rate, and more epochs."""
        tuned = {
            "epochs": 1000,
            "lr": 0.001,
            "weight_decay": 5e-4,
            **CONSTANT_ADAM,
            "clip_norm": None,
        }
        return {"tuned": tuned}

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.encoder: LaplacianEncoder | WalkEncoder | None = None
        if s.encoding == "laplacian":
            self.encoder = LaplacianEncoder(s.encoding_channels, s.frequencies)
        elif s.encoding == "random-walk":
            self.encoder = WalkEncoder(s.encoding_channels, s.walk_steps)
        room = width if self.encoder is None else width - s.encoding_channels
        self.input = nn.Linear(self.shape.in_channels, room)
        is_exact = s.attention == "exact" or (
            s.attention == "auto" and self.shape.num_nodes <= EXACT_NODES
        )
        features = None if is_exact else s.random_features or usual_features(width // s.heads)
        self.layers = nn.ModuleList(GPSLayer(s, features) for _ in range(s.num_layers))
        self.output = nn.Linear(width, self.shape.out_channels)

    def clean(self, graph: Graph) -> CleanGraph:
        """Return the edges in both directions, with loops for graph convolutions."""
        return CleanGraph.of(graph, self_loops=self.settings.local in NEEDS_LOOPS)

    def features(self, graph: Graph) -> Tensor:
        """Return the features and, beside them, what positions are encoded from."""
        s, x = self.settings, super().features(graph)
        if s.encoding == "none":
            return x
        plain = CleanGraph.of(graph, self_loops=False)
        if s.encoding == "laplacian":
            positions = laplacian_pairs(plain, s.frequencies).reshape(len(x), -1)
        else:
            positions = walk_returns(plain, s.walk_steps)
        return torch.cat([x, torch.from_numpy(positions)], 1)

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Return the matrix of the message passing."""
        return (part.adjacency(ADJACENCY[self.settings.local]),)

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Return [B, C] from x [n, F0 + positions], the n x n matrix and rows [B]."""
        given = self.shape.in_channels
        h = self.input(x[:, :given])
        if self.encoder is not None:
            h = torch.cat([h, self.encoder(x[:, given:])], 1)
        for layer in self.layers:
            h = layer(h, adjacency)
        logits: Tensor = self.output(h[rows])
        return logits


class GPSLayer(nn.Module):
    """Message passing and attention from the same input, then a feed-forward part.

    z = N(h + Drop(local(h))) + N(h + Drop(attention(h))); h <- N(z + W_2 GELU(W_1 z)), each N a
    normalisation of its own.

    Args:
        settings: Of the model.
        random_features: As for `GlobalAttention`.
    """

    def __init__(self, settings: GraphGPSSettings, random_features: int | None) -> None:
        super().__init__()
        s, width = settings, settings.hidden_channels
        self.dropout = s.dropout
        self.local = message_passing(s.local, width)
        self.attention = GlobalAttention(width, s.heads, s.attention_dropout, random_features)
        self.local_norm, self.attention_norm, self.norm = (
            make_norm(s.norm, width) for _ in range(3)
        )
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, h: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return [n, F] from [n, F] and the n x n matrix."""
        near = self.local_norm(h + self._drop(self.local(h, adjacency)))
        far = self.attention_norm(h + self._drop(self.attention(h)))
        both = near + far
        inner = self._drop(functional.gelu(self.inner(both)))
        out: Tensor = self.norm(both + self._drop(self.outer(inner)))
        return out

    def _drop(self, h: Tensor) -> Tensor:
        return dropout(h, self.dropout, self.training)
