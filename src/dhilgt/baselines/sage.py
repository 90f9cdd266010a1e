"""GraphSAGE with the mean aggregator, on the whole graph."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, GraphBaseline
from dhilgt.baselines.settings import Settings, choice, count, rate, switch
from dhilgt.baselines.shared.layers import GraphConv, make_norm
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout


@dataclass(frozen=True)
class SAGESettings(Settings):
    """Settings of `SAGE`; the defaults are those of the paper.

    Attributes:
        hidden_channels: Width of the layers.
        num_layers: Rounds of aggregation.
        dropout: Dropout before each round and before the last linear layer.
        norm: Normalisation in each round: "none", "batch" or "layer".
        residual: Add a round's input to its output (through a linear map in the first).
        unit_length: Scale every representation to length 1, as the paper does.
        feature_dropout: Apply dropout to the features, too.
        batch_size: Largest number of nodes of a random block in training; None for the whole graph.
    """

    hidden_channels: int = count(256)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    norm: str = choice("none", "batch", "layer")
    residual: bool = switch(False)
    unit_length: bool = switch(True)
    feature_dropout: bool = switch(True)
    batch_size: int | None = count(None, optional=True)


class SAGE(GraphBaseline):
    """Rounds h <- ReLU(W_1 h + W_2 mean of the neighbours' h), then a linear layer."""

    about: ClassVar = About("GraphSAGE", "Hamilton, Ying and Leskovec, NeurIPS 2017", "graph")
    settings_type: ClassVar[type[Settings]] = SAGESettings
    settings: SAGESettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 0.01,
        "weight_decay": 0.0005,
        **CONSTANT_ADAM,
        "patience": 100,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", and "tuned": deeper, with norm and residual, without unit length."""
        tuned = {"num_layers": 3, "norm": "batch", "residual": True, "unit_length": False}
        return {"paper": {}, "tuned": tuned}

    def build(self) -> None:
        """Create the layers."""
        s = self.settings
        pairs = list(
            itertools.pairwise([self.shape.in_channels, *[s.hidden_channels] * s.num_layers])
        )
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.others = nn.ModuleList(GraphConv(a, b, bias=False) for a, b in pairs)
        self.norms = nn.ModuleList(make_norm(s.norm, b) for _, b in pairs)
        self.skips = nn.ModuleList(
            nn.Identity() if a == b or not s.residual else nn.Linear(a, b) for a, b in pairs
        )
        self.head = nn.Linear(s.hidden_channels, self.shape.out_channels)

    def clean(self, graph: Graph) -> CleanGraph:
        """Return the edges in both directions, without self-loops."""
        return CleanGraph.of(graph, self_loops=False)

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Return D^-1 A, which averages over neighbours."""
        return (part.adjacency("row"),)

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Return [B, C] from x [n, F0], the n x n matrix and rows [B]."""
        s = self.settings
        rounds = zip(self.own, self.others, self.norms, self.skips, strict=True)
        for number, (own, others, norm, skip) in enumerate(rounds):
            if number or s.feature_dropout:
                x = dropout(x, s.dropout, self.training)
            h = own(x) + others(x, adjacency)
            if s.residual:
                h = h + skip(x)
            x = functional.relu(norm(h))
            if s.unit_length:
                x = functional.normalize(x)
        out: Tensor = self.head(dropout(x[rows], s.dropout, self.training))
        return out
