"""The layers of the model."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from dhilgt.model.attention import attend, attend_from_ego, bias_table
from dhilgt.model.codes import NUM_DISTANCES, Pairs
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dropout import drop_mask, dropout
from dhilgt.model.sparse_product import sparse_product

# Small compared with 1: layer norm and attention decide how much virtual nodes count.
_VIRTUAL_STD = 0.02


class MLP(nn.Module):
    """Linear layers with GELU and dropout between them."""

    def __init__(self, widths: list[int], dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, h: Tensor) -> Tensor:
        """Return the last layer's output, [..., widths[-1]] from [..., widths[0]]."""
        return self.rest(self.layers[0](h))

    def rest(self, h: Tensor) -> Tensor:
        """Return the last layer's output from that of the first."""
        for layer in self.layers[1:]:
            h = layer(dropout(F.gelu(h), self.dropout, self.training))
        return h


class InputMLP(MLP):
    """The MLP on features: dense or sparse, with dropout on the features themselves."""

    def __init__(self, widths: list[int], dropout: float, input_dropout: float) -> None:
        super().__init__(widths, dropout)
        self.input_dropout = input_dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, widths[-1]] from [n, widths[0]]."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        dtype = first.weight.dtype
        if x.layout == torch.sparse_csr:
            values = dropout(x.values().to(dtype), self.input_dropout, self.training)
            return self.rest(sparse_linear(x, values, first.weight, first.bias))
        return super().forward(dropout(x.to(dtype), self.input_dropout, self.training))


class LabelInput(nn.Module):
    """Adds the known classes of nodes to the slots of a row, except that of its own ego.

    A learned vector per class is added to a node's output of the input MLP. Nodes of unknown class
    stay as they are, and so does the ego in every slot of its row.
    """

    def __init__(self, classes: int, width: int, hidden: float) -> None:
        super().__init__()
        self.hidden = hidden
        self.weight = nn.Parameter(torch.empty(classes, width))
        draw_virtual(self.weight)

    def forward(self, h: Tensor, index: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return each node without and with its class, [2 n, F], and the slots' rows in it.

        Args:
            h: Representations of the distinct nodes, [n, F].
            index: [B, s], -1 = padding.
            known: Class + 1 of each of them, 0 = not known, [n].
        """
        if self.training and self.hidden > 0:  # the same in all rows of the batch
            known = known.masked_fill(drop_mask(known.shape, self.hidden, h.device), 0)
        table = torch.cat([self.weight.new_zeros(1, self.weight.shape[1]), self.weight])
        labelled = h + F.embedding(known, table, padding_idx=0).to(h.dtype)
        plain = (index == index[:, :1]) | (index < 0)  # directed rows can hold the ego twice
        return torch.cat([h, labelled]), torch.where(plain, index, index + h.shape[0])


def sparse_linear(x: Tensor, values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x weight^T + bias for CSR `x`, [n, out].

    Args:
        x: [n, in] CSR; its values are ignored.
        values: The values to use, [stored].
        weight: [out, in].
        bias: [out].
    """
    return bias + sparse_product(x, values, weight.t())


class EncoderLayer(nn.Module):
    """A pre-norm layer: attention with a learned bias, then a feed-forward network."""

    def __init__(self, config: DHILGTConfig) -> None:
        super().__init__()
        width, heads = config.hidden_channels, config.heads
        self.config = config
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.ffn_norm = nn.LayerNorm(width)
        inner = config.ffn_channels or width
        self.ffn_in = nn.Linear(width, inner)
        self.ffn_out = nn.Linear(inner, width)
        m = config.num_virtual
        self.spd_bias = nn.Parameter(torch.empty(NUM_DISTANCES, heads)) if config.spd_bias else None
        # Pairs with virtual nodes: node to virtual, virtual to node, virtual to virtual.
        self.to_virtual_bias = nn.Parameter(torch.empty(m, heads)) if m else None
        self.from_virtual_bias = nn.Parameter(torch.empty(m, heads)) if m else None
        self.virtual_bias = nn.Parameter(torch.empty(m, m, heads)) if m else None
        self.reset_bias()

    def reset_bias(self) -> None:
        """Set every bias to 0 or, where `bias_slope` is set, to fall with the distance."""
        for table in (self.from_virtual_bias, self.virtual_bias):
            if table is not None:
                nn.init.zeros_(table)
        slope = self.config.bias_slope
        with torch.no_grad():
            if self.to_virtual_bias is not None:
                self.to_virtual_bias.fill_(-slope)
            if self.spd_bias is not None:
                distances = torch.arange(NUM_DISTANCES, dtype=self.spd_bias.dtype)
                self.spd_bias.copy_((-slope * distances)[:, None])

    def forward(self, h: Tensor, pairs: Pairs, path: str, qkv: Tensor | None = None) -> Tensor:
        """Return the next representation, [B, t, F].

        Args:
            h: [B, t, F].
            pairs: See `pair_codes`.
            path: Of attention, as the model chose it: a key of `attention.PATHS`.
            qkv: What `queries_keys_values` returns for `h`, where it is at hand.
        """
        if qkv is None:
            qkv = self.queries_keys_values(h)
        return self._after_attention(h, self._attention(qkv, pairs, path))

    def queries_keys_values(self, h: Tensor) -> Tensor:
        """Return queries, keys and values of representations, [..., 3 F].

        Args:
            h: [..., F].
        """
        qkv: Tensor = self.qkv(self.attention_norm(h))
        return qkv

    def keys_and_values(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of representations, each [..., F] with all heads in a row.

        Args:
            h: [..., F].
        """
        normed = self.attention_norm(h)
        _, *parts = self._qkv_parts()
        key, value = (F.linear(normed, weight, bias) for weight, bias in parts)
        return key, value

    def egos(self, h: Tensor, key: Tensor, value: Tensor, codes: Tensor, real: Tensor) -> Tensor:
        """Return the next representation of the egos alone, [B, F].

        It is slot 0 of what `forward` returns. The other slots count by their keys and values.

        Args:
            h: Representations of the egos, [B, F].
            key: Of all slots, [B, t, F]; see `keys_and_values`.
            value: Likewise.
            codes: See `attention.ego_codes`, [B, t].
            real: Which egos are not padding, [B].
        """
        (weight, bias), *_ = self._qkv_parts()
        mixed = attend_from_ego(
            F.linear(self.attention_norm(h), weight, bias),
            key,
            value,
            codes,
            self.bias_table(),
            dropout_p=self.config.attention_dropout if self.training else 0.0,
        )
        return self._after_attention(h, self.projection(mixed.masked_fill(~real[:, None], 0.0)))

    def _after_attention(self, h: Tensor, mixed: Tensor) -> Tensor:
        p = self.config.dropout
        h = h + dropout(mixed, p, self.training)
        inner = F.gelu(self.ffn_in(self.ffn_norm(h)))  # [..., ffn]
        return h + dropout(self.ffn_out(inner), p, self.training)

    def _qkv_parts(self) -> list[tuple[Tensor, Tensor]]:
        """Return weight and bias of queries, of keys and of values."""
        return list(zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3), strict=True))

    def bias_table(self) -> Tensor:
        """Return the bias of every code and head, [codes, H]."""
        virtual = None
        if self.to_virtual_bias is not None:
            assert self.from_virtual_bias is not None
            assert self.virtual_bias is not None
            among = self.virtual_bias.flatten(0, 1)
            virtual = torch.cat([self.to_virtual_bias, self.from_virtual_bias, among])
        # Dropped pairs lose their bias in `pair_codes`; the others are scaled up to keep the mean.
        scale = 1.0 / (1.0 - self.config.bias_dropout) if self.training else 1.0
        return bias_table(self.config.heads, self.qkv.weight, self.spd_bias, virtual, scale)

    def _attention(self, qkv: Tensor, pairs: Pairs, path: str) -> Tensor:
        batch, slots, _ = qkv.shape
        width, heads = self.config.hidden_channels, self.config.heads
        split = qkv.view(batch, slots, 3, heads, width // heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each [B, H, t, d]
        out = attend(
            query,
            key,
            value,
            pairs,
            self.bias_table(),
            dropout_p=self.config.attention_dropout if self.training else 0.0,
            path=path,
        )
        mixed: Tensor = self.projection(out.transpose(1, 2).reshape(batch, slots, width))
        return mixed  # [B, t, F]


class AttentionReadout(nn.Module):
    """Adds a weighted sum of a token's members to its ego."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # The score of u is [H(v) ‖ H(u)] W_E. The half of W_E that multiplies the ego adds the same
        # number to every score of a row, which does not change the softmax: it is left out.
        self.score = nn.Linear(width, 1, bias=False)

    def weights(self, h: Tensor, real: Tensor) -> Tensor:
        """Return the weight of each slot, [B, s]; 0 for padding."""
        scores = self.score(h).squeeze(-1)  # [B, s]
        # The lowest finite number, so that a row of padding alone results in zeros, not in NaN.
        scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, -1).masked_fill(~real, 0.0)

    def forward(self, h: Tensor, real: Tensor) -> Tensor:
        """Return the ego plus the weighted members, [B, F]."""
        weights = self.weights(h, real).to(h.dtype)
        return h[:, 0] + (weights[:, None, :] @ h).squeeze(1)


def reset_linear(module: nn.Module) -> None:
    """Initialize the linear layers and layer norms inside `module`, as PyTorch does."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.LayerNorm)):
            part.reset_parameters()
        elif isinstance(part, EncoderLayer):
            part.reset_bias()


def draw_virtual(features: Tensor) -> None:
    """Initialize the features of virtual nodes."""
    nn.init.normal_(features, std=_VIRTUAL_STD)
