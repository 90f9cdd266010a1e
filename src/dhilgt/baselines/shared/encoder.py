"""A pre-norm transformer over short rows of tokens, with an optional attention bias."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from dhilgt.model.dropout import dropout

_STD = 0.02


class Attention(NamedTuple):
    """Attention of one layer: weights [B, H, queries, keys] and values [B, H, t, d]."""

    weights: Tensor
    values: Tensor


class TokenEncoderLayer(nn.Module):
    """y = x + Drop(MHA(LN x)); x' = y + Drop(W2 GELU(W1 LN y))."""

    def __init__(
        self, width: int, ffn: int, heads: int, dropout: float, attention_dropout: float
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(
                f"hidden_channels = {width} is not a multiple of heads = {heads}; change one"
            )
        self.heads, self.dropout, self.attention_dropout = heads, dropout, attention_dropout
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn_in = nn.Linear(width, ffn)
        self.ffn_out = nn.Linear(ffn, width)

    def forward(self, h: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the next representation, [B, t, F] to [B, t, F].

        Args:
            h: [B, t, F].
            bias: Added to the scores, broadcast to [B, H, t, t]; -inf masks a pair.
        """
        query, key, value = self._heads(h)
        mixed = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if bias is None else bias.to(query.dtype),
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        return self._after_attention(h, mixed)

    def _after_attention(self, h: Tensor, mixed: Tensor) -> Tensor:
        """Return the next representation from the mixed values of all heads, [B, H, t, d]."""
        mixed = self.projection(mixed.transpose(1, 2).flatten(2))
        h = h + dropout(mixed, self.dropout, self.training)
        inner = F.gelu(self.ffn_in(self.ffn_norm(h)))
        return h + dropout(self.ffn_out(inner), self.dropout, self.training)

    def attention(self, h: Tensor, bias: Tensor | None = None) -> Attention:
        """Return the attention of `forward` for the same input, without dropout."""
        query, key, value = self._heads(h)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if bias is not None:
            scores = scores + bias
        return Attention(torch.softmax(scores, -1), value)

    def _heads(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, slots, width = h.shape
        qkv = self.qkv(self.attention_norm(h)).view(
            batch, slots, 3, self.heads, width // self.heads
        )
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each [B, H, t, d]
        return query, key, value


class TokenEncoder(nn.Module):
    """Several `TokenEncoderLayer` and a last norm.

    Args:
        width: Width of the representations, a multiple of `heads`.
        num_layers: Number of layers.
        heads: Attention heads.
        ffn: Inner width of the feed-forward part.
        dropout: Dropout of the output of each part of a layer.
        attention_dropout: Dropout of the attention weights.

    Example:
        >>> encoder = TokenEncoder(8, num_layers=2, heads=2, ffn=16)
        >>> encoder(torch.ones(3, 4, 8)).shape
        torch.Size([3, 4, 8])
    """

    def __init__(
        self,
        width: int,
        *,
        num_layers: int,
        heads: int,
        ffn: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TokenEncoderLayer(width, ffn, heads, dropout, attention_dropout)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, h: Tensor, biases: list[Tensor] | None = None) -> Tensor:
        """Return [B, t, F]; `biases` has one tensor per layer."""
        for number, layer in enumerate(self.layers):
            h = layer(h, None if biases is None else biases[number])
        out: Tensor = self.norm(h)
        return out

    def last_attention(self, h: Tensor, biases: list[Tensor] | None = None) -> Attention:
        """Return the attention of the last layer for these inputs, without dropout."""
        for number, layer in enumerate(self.layers[:-1]):
            h = layer(h, None if biases is None else biases[number])
        last = self.layers[-1]
        assert isinstance(last, TokenEncoderLayer)
        return last.attention(h, None if biases is None else biases[-1])


def draw_small(module: nn.Module, num_layers: int) -> None:
    """Draw linear weights from N(0, 0.02 / sqrt(L)), embeddings from N(0, 0.02); zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=_STD / math.sqrt(num_layers))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=_STD)
