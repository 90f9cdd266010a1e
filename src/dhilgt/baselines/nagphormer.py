"""NAGphormer: a transformer over the features of a node averaged over 0 to K hops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import About, TokenBaseline
from dhilgt.baselines.settings import Settings, count, rate
from dhilgt.baselines.shared.encoder import TokenEncoder, draw_small
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.baselines.shared.spectral import laplacian_vectors
from dhilgt.graph.graph import Graph


@dataclass(frozen=True)
class NAGphormerSettings(Settings):
    """Settings of `NAGphormer`; the defaults are the released ones.

    Attributes:
        hidden_channels: Width, a multiple of `heads`.
        num_layers: Transformer layers.
        heads: Attention heads.
        hops: Propagations K; a node has K + 1 tokens.
        encoding_channels: Eigenvectors of the Laplacian, concatenated to the features.
        dropout: Dropout of the output of each part of a layer.
        attention_dropout: Dropout of the attention weights.
        batch_size: Nodes per batch; None for all at once.
    """

    hidden_channels: int = count(512)
    num_layers: int = count(1)
    heads: int = count(8)
    hops: int = count(7, low=0)
    encoding_channels: int = count(15, low=0)
    dropout: float = rate(0.1)
    attention_dropout: float = rate(0.1)
    batch_size: int | None = count(1000, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()


class NAGphormer(TokenBaseline):
    """A transformer over hops, and a readout that weights them by attention from hop 0."""

    about: ClassVar = About("NAGphormer", "Chen et al., ICLR 2023", "tokens")
    settings_type: ClassVar[type[Settings]] = NAGphormerSettings
    settings: NAGphormerSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 2000,
        "lr": 1e-3,
        "weight_decay": 1e-5,
        "warmup_steps": 400,
        "decay_steps": 1000,
        "end_lr": 1e-4,
        "patience": 50,
    }

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels + s.encoding_channels, width)
        self.encoder = TokenEncoder(
            width,
            num_layers=s.num_layers,
            heads=s.heads,
            ffn=2 * width,
            dropout=s.dropout,
            attention_dropout=s.attention_dropout,
        )
        self.score = nn.Linear(2 * width, 1)
        self.narrow = nn.Linear(width, max(1, width // 2))
        self.output = nn.Linear(max(1, width // 2), self.shape.out_channels)
        draw_small(self, s.num_layers)

    def tokens(self, graph: Graph) -> tuple[Tensor, ...]:
        """Return [n, K + 1, F0 + p]: the features and eigenvectors, propagated 0 to K times."""
        x = dense_features(graph)
        if self.settings.encoding_channels:
            bare = CleanGraph.of(graph, self_loops=False)
            vectors = laplacian_vectors(bare, self.settings.encoding_channels)
            x = torch.cat([x, torch.from_numpy(vectors)], 1)
        adjacency = CleanGraph.of(graph).adjacency("symmetric")
        return (hop_tokens(adjacency, x, self.settings.hops),)

    def logits(self, tokens: Tensor) -> Tensor:
        """Return [B, C] from [B, K + 1, F0 + p]."""
        h = self.encoder(self.input(tokens))  # [B, K + 1, F]
        ego, hops = h[:, :1], h[:, 1:]
        scores = self.score(torch.cat([ego.expand_as(hops), hops], -1))  # [B, K, 1]
        z = (ego + (torch.softmax(scores, 1) * hops).sum(1, keepdim=True)).squeeze(1)  # [B, F]
        logits: Tensor = self.output(functional.relu(self.narrow(z)))
        return logits


def hop_tokens(adjacency: SparseMatrix, x: Tensor, hops: int) -> Tensor:
    """Return x, A x, ..., A^K x side by side, [n, K + 1, F].

    Example:
        >>> ring = SparseMatrix(torch.arange(3), torch.tensor([1, 0]), torch.ones(2))
        >>> hop_tokens(ring, torch.tensor([[1.0], [2.0]]), 2).squeeze(-1).tolist()
        [[1.0, 2.0, 1.0], [2.0, 1.0, 2.0]]
    """
    out = torch.empty(x.shape[0], hops + 1, x.shape[1])
    out[:, 0] = x
    for hop in range(1, hops + 1):
        x = adjacency @ x
        out[:, hop] = x
    return out
