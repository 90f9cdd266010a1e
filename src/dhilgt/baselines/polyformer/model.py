"""PolyFormer: attention over the polynomials of the graph, of each node by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, NodeBaseline
from dhilgt.baselines.loaders import DeviceCopy, RowStore
from dhilgt.baselines.polyformer import published
from dhilgt.baselines.polyformer.bases import (
    BERNSTEIN,
    CHEBYSHEV,
    MONOMIAL,
    basis_matrix,
    terms,
    token_rows,
)
from dhilgt.baselines.settings import Settings, choice, count, number, rate
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.errors import MemoryLimitError
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout
from dhilgt.training.optimizer import ParameterGroup
from dhilgt.utils.memory import available_bytes, format_bytes

AUTO, FEATURES, HIDDEN = "auto", "features", "hidden"
_WIDE = 8  # times the width of the layers
_MOST_BYTES = 1 << 29  # of hidden tokens; a step keeps about twenty tensors of this size


@dataclass(frozen=True)
class PolyFormerSettings(Settings):
    """Settings of `PolyFormer`; the defaults are the released ones.

    Attributes:
        basis: Polynomials: "monomial", "chebyshev" or "bernstein".
        order: Highest order K; a node has K + 1 tokens.
        hidden_channels: Width, a multiple of `heads`.
        num_layers: Blocks of attention and feed-forward layer.
        heads: Attention heads.
        ffn_channels: Inner width of the feed-forward layers.
        expansion: Inner width of the MLP of an order, as a multiple of the width.
        falloff: Power q: attention to order k is divided by (k + 1)^q.
        dropout: Dropout of the output of each part of a block, and in the head.
        attention_dropout: Dropout of the attention.
        attention_rate: Learning rate of the attention, as a multiple of that of all other weights.
        attention_decay: Weight decay of the attention.
        propagation: What polynomials are multiplied with, for the same result: the "features",
            once, or the "hidden" rows after the first layer, at every step. "auto" for the latter
            where features are eight times as wide, and hidden tokens take at most 512 MiB.
        batch_size: Nodes per batch; None for all at once, as always with "hidden".
    """

    basis: str = choice(MONOMIAL, CHEBYSHEV, BERNSTEIN)
    order: int = count(10, low=0)
    hidden_channels: int = count(64)
    num_layers: int = count(1)
    heads: int = count(1)
    ffn_channels: int = count(128)
    expansion: float = number(1.0, above=True)
    falloff: float = number(1.0)
    dropout: float = rate(0.2)
    attention_dropout: float = rate(0.5)
    attention_rate: float = number(1.0, above=True)
    attention_decay: float = number(1e-4)
    propagation: str = choice(AUTO, FEATURES, HIDDEN)
    batch_size: int | None = count(20_000, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()


class PolyFormer(NodeBaseline):
    """Blocks of `PolyAttention` and feed-forward layers over K + 1 tokens, and their sum."""

    about: ClassVar = About("PolyFormer", "Ma, He and Wei, KDD 2024", "tokens")
    settings_type: ClassVar[type[Settings]] = PolyFormerSettings
    settings: PolyFormerSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 2000,
        "lr": 5e-4,
        "weight_decay": 5e-5,
        **CONSTANT_ADAM,
        "patience": 250,
    }

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper" with monomials, each other basis, and what is published for graphs."""
        return {
            "paper": {},
            CHEBYSHEV: {"basis": CHEBYSHEV},
            BERNSTEIN: {"basis": BERNSTEIN},
            **published.models(),
        }

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Return learning rates and decays that are published for single graphs."""
        return published.recipes()

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels, width)
        self.blocks = nn.ModuleList(PolyBlock(s) for _ in range(s.num_layers))
        self.inner = nn.Linear(width, width)
        self.output = nn.Linear(width, self.shape.out_channels)

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return the weights that have a learning rate and a decay of their own: the attention."""
        attention = [
            weight
            for part in self.modules()
            if isinstance(part, PolyAttention)
            for weight in part.parameters()
        ]
        s = self.settings
        return [ParameterGroup(attention, s.attention_rate, s.attention_decay)]

    # ---- inputs --------------------------------------------------------------------------------

    @property
    def propagates_features(self) -> bool:
        """Whether tokens of the features are made once, so that batches need no graph."""
        s = self.settings
        if s.propagation != AUTO:
            return s.propagation == FEATURES
        is_wide = self.shape.in_channels > _WIDE * s.hidden_channels
        hidden = self._token_bytes(self.shape.num_nodes, s.hidden_channels)
        return not is_wide or hidden > _MOST_BYTES

    def _token_bytes(self, num_nodes: int, width: int) -> int:
        return 4 * num_nodes * (self.settings.order + 1) * width

    def _prepare(self, graph: Graph) -> None:
        s = self.settings
        matrix = basis_matrix(graph, s.basis)
        if not self.propagates_features:
            self._whole = DeviceCopy(_as_factor(graph.features)), DeviceCopy(matrix)
            return
        need = self._token_bytes(graph.num_nodes, self.shape.in_channels)
        free = available_bytes()
        if free is not None and need > free:
            raise MemoryLimitError(
                f"tokens of {self.shape.in_channels:,} features take {format_bytes(need)}, "
                f'{format_bytes(free)} are free; lower order, or pass propagation="hidden"'
            )
        self._store = RowStore(token_rows(s.basis, matrix, graph.features, s.order))

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        if self.propagates_features:
            return (self._store.rows(nodes),)
        return (*self._whole, torch.from_numpy(nodes))

    def _batch_size(self) -> int | None:
        # Several batches would each propagate over the whole graph.
        return self.settings.batch_size if self.propagates_features else None

    # ---- model ---------------------------------------------------------------------------------

    def logits(self, *inputs: Any) -> Tensor:
        """Return [B, C] from tokens [B, K + 1, F0], or from features, matrix and rows."""
        s = self.settings
        h = self.input(inputs[0]) if self.propagates_features else self._hidden_tokens(*inputs)
        for block in self.blocks:
            h = block(h)
        z = dropout(h.sum(1), s.dropout, self.training)  # [B, F]
        z = dropout(functional.relu(self.inner(z)), s.dropout, self.training)
        logits: Tensor = self.output(z)
        return logits

    def _hidden_tokens(
        self, x: SparseMatrix | Tensor, matrix: SparseMatrix, rows: Tensor
    ) -> Tensor:
        # The first layer acts on columns, polynomials on rows: either may come first.
        s = self.settings
        hidden = x @ self.input.weight.T  # [n, F]
        tokens = torch.stack(terms(s.basis, matrix, hidden, s.order), 1)  # [n, K + 1, F]
        return tokens.index_select(0, rows) + self.input.bias


class PolyBlock(nn.Module):
    """x + Drop(attention of LN x), then x + Drop(W2 GELU(W1 LN x)), over tokens of any nodes."""

    def __init__(self, settings: PolyFormerSettings) -> None:
        super().__init__()
        width, self.dropout = settings.hidden_channels, settings.dropout
        self.attention_norm = nn.LayerNorm(width)
        self.attention = PolyAttention(
            width,
            settings.order,
            heads=settings.heads,
            inner=max(1, round(settings.expansion * width)),
            falloff=settings.falloff,
            dropout=settings.attention_dropout,
        )
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn_in = nn.Linear(width, settings.ffn_channels)
        self.ffn_out = nn.Linear(settings.ffn_channels, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, K + 1, F] from [B, K + 1, F]."""
        x = x + dropout(self.attention(self.attention_norm(x)), self.dropout, self.training)
        inner = functional.gelu(self.ffn_in(self.ffn_norm(x)))
        return x + dropout(self.ffn_out(inner), self.dropout, self.training)


class PolyAttention(nn.Module):
    """Signed attention among the orders of a node: tanh in place of a softmax.

    Queries and keys come from an MLP that each order has for itself; values are the input. What
    order k gives to any other is multiplied by r_k (k + 1)^-q, with a trained r_k in each head.

    Args:
        width: Width of tokens, a multiple of `heads`.
        order: Highest order K.
        heads: Attention heads.
        inner: Inner width of the MLPs.
        falloff: The power q.
        dropout: Dropout of the attention.

    Example:
        >>> PolyAttention(8, 3, heads=2, inner=8, falloff=1.0)(torch.ones(5, 4, 8)).shape
        torch.Size([5, 4, 8])
    """

    def __init__(
        self,
        width: int,
        order: int,
        *,
        heads: int,
        inner: int,
        falloff: float,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.falloff, self.dropout = heads, falloff, dropout
        self.first = OrderLinear(order + 1, width, inner)
        self.second = OrderLinear(order + 1, inner, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.order_weight = nn.Parameter(torch.ones(heads, order + 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, K + 1, F] from [B, K + 1, F]."""
        own = self.second(functional.relu(self.first(x)))
        size = x.shape[-1] // self.heads
        query, key, value = map(
            self._in_heads, (self.query(own) / math.sqrt(size), self.key(own), x)
        )
        attention = torch.tanh(query @ key.transpose(-1, -2))  # [B, H, K + 1, K + 1]
        # The weight of an order is that of a column; values have fewer numbers than the attention.
        scale = torch.arange(1.0, x.shape[1] + 1, device=x.device) ** -self.falloff  # [K + 1]
        weighted = value * (self.order_weight * scale)[..., None]
        mixed = dropout(attention, self.dropout, self.training) @ weighted
        return mixed.transpose(1, 2).flatten(2)

    def _in_heads(self, h: Tensor) -> Tensor:
        return h.reshape(*h.shape[:2], self.heads, -1).transpose(1, 2)  # [B, H, K + 1, F / H]


class OrderLinear(nn.Module):
    """A linear layer for each order, with the usual initial weights."""

    def __init__(self, orders: int, in_channels: int, out_channels: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_channels)
        weight = torch.empty(orders, in_channels, out_channels)
        self.weight = nn.Parameter(weight.uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(orders, 1, out_channels).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, orders, out] from [B, orders, in]."""
        return torch.baddbmm(self.bias, x.transpose(0, 1), self.weight).transpose(0, 1)


def _as_factor(features: Any) -> SparseMatrix | Tensor:
    """Return features to multiply weights with, sparse if they are."""
    if hasattr(features, "tocsr"):
        kept = features.tocsr()
        return SparseMatrix.from_numpy(kept.indptr, kept.indices, kept.data, kept.shape[1])
    return torch.from_numpy(np.array(features, np.float32))
