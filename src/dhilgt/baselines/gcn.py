"""GCN: features averaged over neighbours, layer by layer."""

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
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.model.dropout import dropout


@dataclass(frozen=True)
class GCNSettings(Settings):
    """Settings of `GCN`; the defaults are those of the paper.

    Attributes:
        hidden_channels: Width of the inner layers.
        num_layers: Graph convolutions.
        dropout: Dropout before each convolution, or after each with `linear_head`.
        norm: Normalisation after each inner convolution: "none", "batch" or "layer".
        residual: Add a linear map of a layer's input to its output.
        linear_head: End in a linear layer, after `num_layers` inner convolutions; features have no
            dropout.
        batch_size: Largest number of nodes of a random block in training; None for the whole graph.
    """

    hidden_channels: int = count(16)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    norm: str = choice("none", "batch", "layer")
    residual: bool = switch(False)
    linear_head: bool = switch(False)
    batch_size: int | None = count(None, optional=True)


class GCN(GraphBaseline):
    """Layers h <- ReLU(Â h W), the last one without ReLU, or a linear layer after them."""

    about: ClassVar = About("GCN", "Kipf and Welling, ICLR 2017", "graph")
    settings_type: ClassVar[type[Settings]] = GCNSettings
    settings: GCNSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 200,
        "lr": 0.01,
        "weight_decay": 5e-4,
        **CONSTANT_ADAM,
        "patience": None,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", and "tuned": wider, deeper, with norm, residual and a linear head."""
        tuned = {
            "hidden_channels": 256,
            "num_layers": 3,
            "norm": "batch",
            "residual": True,
            "linear_head": True,
        }
        return {"paper": {}, "tuned": tuned}

    def build(self) -> None:
        """Create the layers."""
        s = self.settings
        num_inner = s.num_layers if s.linear_head else s.num_layers - 1
        widths = [self.shape.in_channels, *[s.hidden_channels] * num_inner]
        inner = list(itertools.pairwise(widths))
        self.layers = nn.ModuleList(GraphConv(a, b) for a, b in inner)
        last = nn.Linear if s.linear_head else GraphConv
        self.layers.append(last(widths[-1], self.shape.out_channels))
        self.skips = nn.ModuleList(nn.Linear(a, b) for a, b in inner) if s.residual else None
        self.norms = nn.ModuleList(make_norm(s.norm, b) for _, b in inner)

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Return [B, C] from x [n, F0], the n x n matrix and rows [B]."""
        s = self.settings
        for number, norm in enumerate(self.norms):
            if number or not s.linear_head:
                x = dropout(x, s.dropout, self.training)
            h = self.layers[number](x, adjacency)
            if self.skips is not None:
                h = h + self.skips[number](x)
            x = functional.relu(norm(h))
        x = dropout(x, s.dropout, self.training)
        out: Tensor = (
            self.layers[-1](x[rows]) if s.linear_head else self.layers[-1](x, adjacency)[rows]
        )
        return out
