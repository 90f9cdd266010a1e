"""DIFFormer: layers are steps of a diffusion over all pairs of nodes and along edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from dhilgt.baselines.base import CONSTANT_ADAM, About, GraphBaseline
from dhilgt.baselines.settings import Settings, choice, count, number, rate, switch
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.model.dropout import dropout

_LEAST = 1e-6  # lower bound of mean weights, which are 0 where all keys are opposite to a query
_PAIRS = 1 << 26  # weights of pairs in memory at a time: 256 MB


@dataclass(frozen=True)
class DIFFormerSettings(Settings):
    """Settings of `DIFFormer`; the defaults are those of the paper on cora.

    Attributes:
        hidden_channels: Width.
        num_layers: Steps of the diffusion.
        heads: Attention heads, each of full width; their outputs are averaged.
        dropout: Dropout after the input layer and after each step.
        kernel: "simple" (linear in the nodes) or "sigmoid" (quadratic).
        row_norm: Scale each query and key to length 1, as the paper's formula reads. False: scale
            the tensor of all queries and that of all keys as a whole, as for its figures.
        use_graph: Add the term along the edges.
        graph_weight: Weight of that term in the sum of both; 0 for the plain sum.
        value_weight: Whether values have a linear map; if not, they are the inputs.
        source: Add the output of the input layer after each step.
        residual: Average a step's output with its input.
        alpha: Weight of the output in that average.
        layer_norm: Layer normalisation after the input layer and after each step.
        batch_size: Largest number of nodes of a random block in training; None for the whole graph.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(8)
    heads: int = count(1)
    dropout: float = rate(0.2)
    kernel: str = choice("simple", "sigmoid")
    row_norm: bool = switch(True)
    use_graph: bool = switch(True)
    graph_weight: float = number(0.0, 0, 1)
    value_weight: bool = switch(False)
    source: bool = switch(False)
    residual: bool = switch(True)
    alpha: float = number(0.5, 0, 1)
    layer_norm: bool = switch(True)
    batch_size: int | None = count(None, optional=True)


class DIFFormer(GraphBaseline):
    """Steps h <- alpha (G + P) + (1 - alpha) h: G from all nodes by attention, P along edges."""

    about: ClassVar = About("DIFFormer", "Wu et al., ICLR 2023", "graph")
    settings_type: ClassVar[type[Settings]] = DIFFormerSettings
    settings: DIFFormerSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 0.001,
        "weight_decay": 0.01,
        **CONSTANT_ADAM,
        "patience": None,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", "rows", "sigmoid" and the released settings for heterophily.

        The published figures are of "paper", which older results call "released"; "rows" is scaled
        as the formula of the paper reads.
        """
        plain = {"hidden_channels": 128, "layer_norm": False, "residual": False}
        published = {"row_norm": False}
        return {
            "paper": published,
            "released": published,
            "rows": {"row_norm": True},
            "sigmoid": {"kernel": "sigmoid", "dropout": 0.0},
            "heterophily": {**plain, "num_layers": 2, "graph_weight": 0.7, "row_norm": False},
            "heterophily-sigmoid": {
                **plain,
                "num_layers": 3,
                "graph_weight": 0.8,
                "kernel": "sigmoid",
                "value_weight": True,
                "dropout": 0.3,
            },
        }

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Return the released learning rates and weight decays of the variants."""
        return {
            "sigmoid": {"weight_decay": 0.1},
            "heterophily": {"epochs": 300, "lr": 0.01, "weight_decay": 1e-4},
            "heterophily-sigmoid": {"epochs": 300, "lr": 0.01, "weight_decay": 1e-3},
        }

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels, width)
        self.layers = nn.ModuleList(
            DiffusionAttention(width, s.heads, s.kernel, s.row_norm, s.value_weight)
            for _ in range(s.num_layers)
        )
        self.norms = nn.ModuleList(
            nn.LayerNorm(width) if s.layer_norm else nn.Identity() for _ in range(s.num_layers + 1)
        )
        self.output = nn.Linear(width, self.shape.out_channels)

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Return [B, C] from x [n, F0], the n x n matrix and rows [B]."""
        s = self.settings
        h = functional.relu(self.norms[0](self.input(x)))
        first = h = dropout(h, s.dropout, self.training)
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            moved = self._step(layer, h, adjacency)
            if s.source:
                moved = moved + first
            if s.residual:
                moved = s.alpha * moved + (1 - s.alpha) * h
            # No activation: only norm and attention are nonlinear.
            h = dropout(norm(moved), s.dropout, self.training)
        logits: Tensor = self.output(h[rows])
        return logits

    def _step(self, layer: nn.Module, h: Tensor, adjacency: SparseMatrix) -> Tensor:
        s = self.settings
        far: Tensor
        value: Tensor
        far, value = layer(h)  # [n, F] each, averaged over heads
        if not s.use_graph:
            return far
        # The product with the edges is linear: one with the mean over heads replaces H of them.
        near = adjacency @ value
        if s.graph_weight == 0:
            return far + near
        return (1 - s.graph_weight) * far + s.graph_weight * near


class DiffusionAttention(nn.Module):
    """Attention over all pairs without softmax.

    "simple": w_ij = 1 + q_i . k_j for scaled q and k, in time linear in the nodes.
    "sigmoid": w_ij = sigmoid(q_i . k_j), in quadratic time and linear memory.

    Args:
        width: F.
        heads: H, each of width F.
        kernel: "simple" or "sigmoid".
        row_norm: For "simple": scale rows rather than the whole tensor.
        value_weight: Whether values have a linear map.

    Example:
        >>> mixed, values = DiffusionAttention(4, 1, "simple", True, False)(torch.ones(3, 4))
        >>> mixed.tolist() == values.tolist()  # the mean of equal rows
        True
    """

    def __init__(
        self, width: int, heads: int, kernel: str, row_norm: bool, value_weight: bool
    ) -> None:
        super().__init__()
        self.heads, self.kernel, self.row_norm = heads, kernel, row_norm
        self.query = nn.Linear(width, heads * width)
        self.key = nn.Linear(width, heads * width)
        self.value = nn.Linear(width, heads * width) if value_weight else None

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed values and the values, each [n, F] and averaged over heads."""
        shape = (h.shape[0], self.heads, h.shape[1])
        query, key = self.query(h).view(shape), self.key(h).view(shape)
        if self.value is None:
            value, mean_value = h[:, None].expand(shape), h
        else:
            value = self.value(h).view(shape)
            mean_value = value.mean(1)
        mix = self._linear if self.kernel == "simple" else self._quadratic
        return mix(query, key, value).mean(1), mean_value

    def _linear(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        n = query.shape[0]
        scale = _unit_rows if self.row_norm else _unit_tensor
        query, key = scale(query), scale(key)
        summary = torch.einsum("nhm,nhd->hmd", key, value)
        numerator = value.sum(0) + torch.einsum("nhm,hmd->nhd", query, summary)
        denominator = n + torch.einsum("nhm,hm->nh", query, key.sum(0))
        return numerator / denominator.clamp_min(_LEAST * n)[..., None]

    def _quadratic(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        n, heads, _ = query.shape
        step = max(1, _PAIRS // (n * heads))
        if n <= step:
            return _sigmoid_mix(query, key, value)
        parts = []
        for start in range(0, n, step):
            inputs = (query[start : start + step], key, value)
            if torch.is_grad_enabled():
                # Recompute weights for the gradient instead of keeping n x n of them.
                part = checkpoint(
                    _sigmoid_mix, *inputs, use_reentrant=False, preserve_rng_state=False
                )
            else:
                part = _sigmoid_mix(*inputs)
            parts.append(part)
        return torch.cat(parts)


def _unit_rows(x: Tensor) -> Tensor:
    return functional.normalize(x, dim=-1)


def _unit_tensor(x: Tensor) -> Tensor:
    return functional.normalize(x.flatten(), dim=0).view_as(x)


def _sigmoid_mix(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = torch.einsum("nhm,lhm->hnl", query, key).sigmoid()
    total = weights.sum(-1).T  # [n, H]
    mixed = torch.einsum("hnl,lhd->nhd", weights, value)
    # All weights round to 0 where scores are very negative; the result is then 0.
    return mixed / total.clamp_min(torch.finfo(total.dtype).tiny)[..., None]
