"""GRPE: encodings of distance and adjacency that meet queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from dhilgt.baselines.base import About
from dhilgt.baselines.settings import Settings, choice, count
from dhilgt.baselines.shared.encoder import TokenEncoderLayer, draw_small
from dhilgt.baselines.shared.row_model import ROW_RECIPE, RowBaseline, RowSettings, row_variants
from dhilgt.model.dropout import dropout

_SELF, _NEIGHBOUR, _NO_EDGE = 0, 1, 2  # kinds of pairs by edge
_KINDS = 3


@dataclass(frozen=True)
class GRPESettings(RowSettings):
    """Settings of `GRPE`; the others are those of `RowSettings`.

    Attributes:
        key_of: Whose key the encodings meet: that of the "column", the node attended to, as in the
            paper, or that of the "row", the node that attends, as in the released code.
    """

    max_distance: int = count(5, 2, 250)
    key_of: str = choice("column", "row")


class GRPE(RowBaseline):
    """A transformer over nodes with relative encodings on queries, keys and values."""

    about: ClassVar = About("GRPE", "Park et al., 2022", "tokens")
    settings_type: ClassVar[type[Settings]] = GRPESettings
    settings: GRPESettings
    recipe: ClassVar[Mapping[str, Any]] = ROW_RECIPE

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", "released", one per sampler, and "slim", the size used on molecules."""
        return row_variants() | {"released": {"key_of": "row"}}

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels, width)
        # For queries, keys and values side by side; shared by all layers.
        self.distances = nn.Embedding(s.num_codes, 3 * width)
        self.edges = nn.Embedding(_KINDS, 3 * width)
        self.layers = nn.ModuleList(
            RelativeLayer(width, width, s.heads, s.dropout, s.attention_dropout)
            for _ in range(s.num_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, self.shape.out_channels)
        draw_small(self, s.num_layers)

    def embed(self, *parts: Tensor) -> Tensor:
        """Return W x."""
        (x,) = parts
        h: Tensor = self.input(x)
        return h

    def encode(self, h: Tensor, codes: Tensor) -> Tensor:
        """Return the last representation of all slots, [B, s, F]."""
        tables = self.tables()
        for layer in self.layers:
            h = layer(h, codes, tables, self.settings.key_of)
        out: Tensor = self.norm(h)
        return out

    def tables(self) -> Tables:
        """Return the sum of both encodings of each code.

        Without features of edges, the code determines the edge: distance 0 is the node itself,
        distance 1 a neighbour. So the two encodings of a pair are looked up as one.
        """
        kinds = torch.full_like(self.distances.weight[:, 0], _NO_EDGE, dtype=torch.long)
        kinds[0], kinds[1] = _SELF, _NEIGHBOUR
        both = self.distances.weight + self.edges(kinds)  # [codes, 3 F]
        split = both.unflatten(1, (3, self.settings.heads, -1)).permute(1, 2, 0, 3)
        return Tables(*split)


class Tables(NamedTuple):
    """Encoding of each code per head, [H, codes, d]: what queries, keys and values meet."""

    query: Tensor
    key: Tensor
    value: Tensor


class RelativeLayer(TokenEncoderLayer):
    """A pre-norm layer whose attention has encodings of the pair in scores and values.

    With ψ the code of the pair (i, j), score_ij = (q_i · k_j + q_i · T^q_ψ + k_j · T^k_ψ) / √d, and
    slot i gets Σ_j a_ij (v_j + T^v_ψ), where a is the softmax of the scores.
    """

    def forward(  # type: ignore[override]
        self, h: Tensor, codes: Tensor, tables: Tables, key_of: str = "column"
    ) -> Tensor:
        """Return the next representation, [B, s, F].

        Args:
            h: [B, s, F].
            codes: [B, s, s]; pairs with the code after the last one of the tables are left out.
            tables: Encodings of all codes.
            key_of: As in `GRPESettings`.
        """
        query, key, value = self._heads(h)  # [B, H, s, d]
        num_codes = tables.query.shape[1]
        absent = codes == num_codes  # [B, s, s]
        codes = codes.masked_fill(absent, 0)
        scores = query @ key.transpose(-1, -2)
        by_query, by_key = query @ tables.query.mT, key @ tables.key.mT  # [B, H, s, codes]
        if key_of == "row":
            scores = scores + spread(by_query + by_key, codes)
        else:
            scores = scores + spread(by_query, codes) + spread(by_key, codes.mT).mT
        scores = (scores * query.shape[-1] ** -0.5).masked_fill(absent[:, None], -torch.inf)
        weights = torch.softmax(scores.float(), -1)
        weights = dropout(weights, self.attention_dropout, self.training)
        encodings = collect(weights, codes, num_codes).to(value.dtype) @ tables.value
        return self._after_attention(h, weights.to(value.dtype) @ value + encodings)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, codes: Tensor) -> Tensor:
        ctx.save_for_backward(codes)
        ctx.num_codes = values.shape[-1]
        return _gathered(values, codes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (codes,) = ctx.saved_tensors
        return _summed(gradient, codes, ctx.num_codes).to(gradient.dtype), None


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, codes: Tensor, num_codes: int) -> Tensor:
        ctx.save_for_backward(codes)
        return _summed(weights, codes, num_codes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (codes,) = ctx.saved_tensors
        return _gathered(gradient, codes), None, None


def spread(values: Tensor, codes: Tensor) -> Tensor:
    """Return the value of slot i for the code of each pair (i, j), [B, H, s, s].

    Args:
        values: [B, H, s, codes].
        codes: [B, s, s] int64.
    """
    out: Tensor = _Spread.apply(values, codes)  # type: ignore[no-untyped-call]
    return out


def collect(weights: Tensor, codes: Tensor, num_codes: int) -> Tensor:
    """Return the sum over j of the weights of pairs (i, j) for each code, [B, H, s, codes].

    The transpose of `spread`. Sums are float32: there may be thousands of terms.

    Args:
        weights: [B, H, s, s].
        codes: [B, s, s] int64.
        num_codes: Number of codes.
    """
    out: Tensor = _Collect.apply(weights, codes, num_codes)  # type: ignore[no-untyped-call]
    return out


def _gathered(values: Tensor, codes: Tensor) -> Tensor:
    heads = values.shape[1]
    return values.gather(-1, codes[:, None].expand(-1, heads, -1, -1))


def _summed(weights: Tensor, codes: Tensor, num_codes: int) -> Tensor:
    weights = weights.float()
    if weights.device.type != "cpu":
        return _summed_by_code(weights, codes, num_codes)
    out = weights.new_zeros(*weights.shape[:-1], num_codes)
    return out.scatter_add_(-1, codes[:, None].expand_as(weights), weights)


def _summed_by_code(weights: Tensor, codes: Tensor, num_codes: int) -> Tensor:
    # On a GPU, sums into a few places are contended atomics, in an order that varies.
    others = ((codes != code)[:, None] for code in range(num_codes))
    return torch.stack([weights.masked_fill(other, 0.0).sum(-1) for other in others], -1)
