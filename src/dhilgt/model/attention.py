"""Attention with a learned bias per distance, and the choice of its implementation.

`attend` takes queries, keys, values, a code for every pair of slots and the table that maps a
code to its bias. Implementations differ in how the bias is formed: a kernel that looks the table
up while it computes, and never stores a bias for all pairs, is one more entry of `PATHS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from dhilgt.errors import TrainingWarning, warn
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dropout import drop_mask, dropout
from dhilgt.model.kernels import obstacle

NUM_DISTANCES = 256
"""Rows of a distance table: 0 to 253 exact, 254 far, 255 no path."""

NO_BIAS = NUM_DISTANCES
"""The code of pairs that are attended to without a bias."""

MASKED = NUM_DISTANCES + 1
"""The code of pairs that are not attended to."""

FIRST_VIRTUAL = NUM_DISTANCES + 2
"""From here: each virtual node seen by a node, seeing a node, and each pair of virtual nodes."""


class Pairs(NamedTuple):
    """What attention must know about the pairs of slots; the same for every layer and head.

    Attributes:
        codes: Row of the bias table for each pair, [B, t, t] int64, row = query.
        real: Which slots hold a node, [B, t].
    """

    codes: Tensor
    real: Tensor


def pair_codes(spd: Tensor, real: Tensor, num_virtual: int = 0, dropout_p: float = 0.0) -> Pairs:
    """Gives the codes of all pairs, virtual nodes standing behind the slots.

    Args:
        spd: Distance codes, [B, s, s] uint8.
        real: Which slots hold a node, [B, s] bool. What `spd` says of other slots is not looked at.
        num_virtual: Number of virtual nodes; they are never padding.
        dropout_p: Share of pairs that lose their bias, drawn anew by each call.
    """
    codes = spd.long()  # [B, s, s]
    batch, size, _ = codes.shape
    if num_virtual:
        m, first = num_virtual, FIRST_VIRTUAL
        each = torch.arange(m, device=spd.device)
        seen, seeing = first + each, first + m + each  # by a node; a node
        among = first + 2 * m + m * each[:, None] + each  # [m, m]
        codes = torch.cat([codes, seen.expand(batch, size, m)], 2)
        below = torch.cat([seeing[:, None].expand(m, size), among], 1)  # [m, s + m]
        codes = torch.cat([codes, below.expand(batch, m, size + m)], 1)
        real = torch.cat([real, real.new_ones(batch, m)], 1)
    if dropout_p > 0.0:
        codes = codes.masked_fill(drop_mask(codes.shape, dropout_p, codes.device), NO_BIAS)
    codes = codes.masked_fill(~real[:, None, :], MASKED)
    # A query that sees nothing has no softmax: padding may see all, and `attend` zeroes the result.
    codes = codes.masked_fill(~real[:, :, None], NO_BIAS)
    return Pairs(codes, real)


def bias_table(
    heads: int, like: Tensor, spd: Tensor | None, virtual: Tensor | None, scale: float = 1.0
) -> Tensor:
    """Gives the bias of every code and head, [codes, heads].

    Args:
        heads: Number of heads.
        like: A tensor with the device and dtype of the table.
        spd: Learned bias of each distance code, [256, heads]; None for no bias.
        virtual: Learned bias of pairs with virtual nodes, [2 m + m * m, heads]; None without any.
        scale: Factor on the learned entries.
    """
    distances = like.new_zeros(NUM_DISTANCES, heads) if spd is None else spd * scale
    fixed = [like.new_zeros(1, heads), like.new_full((1, heads), -torch.inf)]
    return torch.cat([distances, *fixed, *([] if virtual is None else [virtual * scale])])


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pairs: Pairs,
    table: Tensor,
    *,
    dropout_p: float = 0.0,
    path: str = "auto",
) -> Tensor:
    """Gives softmax(query key^T / sqrt(d) + bias) value; zeros for queries that are padding.

    Args:
        query: [B, H, t, d].
        key: [B, H, t, d].
        value: [B, H, t, d].
        pairs: See `pair_codes`.
        table: Bias of each code and head, [codes, H]; see `bias_table`.
        dropout_p: Share of attention weights to drop; 0 when not training.
        path: "auto", or a key of `PATHS`.
    """
    chosen = PATHS[default_path(query.device) if path == "auto" else path]
    out = chosen(query, key, value, pairs, table, dropout_p)
    return out.masked_fill(~pairs.real[:, None, :, None], 0.0)  # [B, H, t, d]


def default_path(device: torch.device) -> str:
    """Gives the path that "auto" stands for where the fused kernels do not run."""
    # With a bias that is learned the CPU has no fused kernel, and the wrapping costs a little.
    return "reference" if device.type == "cpu" else "sdpa"


def gathered_bias(pairs: Pairs, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Gives the bias of all pairs, [B, H, t, t]."""
    batch, size, _ = pairs.codes.shape
    table = table.to(dtype)
    if pairs.codes.device.type == "cpu":
        # Its backward sums along a row: several times as fast here as that of embedding.
        heads = table.shape[1]
        flat = pairs.codes.reshape(1, batch * size * size).expand(heads, -1)
        return table.t().gather(1, flat).view(heads, batch, size, size).transpose(0, 1)
    # On a GPU those sums would be contended atomics; the backward of embedding sorts, and repeats.
    return F.embedding(pairs.codes, table).permute(0, 3, 1, 2).contiguous()


def _reference(
    query: Tensor, key: Tensor, value: Tensor, pairs: Pairs, table: Tensor, dropout_p: float
) -> Tensor:
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)  # [B, H, t, t]
    weights = torch.softmax(scores + gathered_bias(pairs, table, scores.dtype), -1)
    return dropout(weights, dropout_p) @ value


def _sdpa(
    query: Tensor, key: Tensor, value: Tensor, pairs: Pairs, table: Tensor, dropout_p: float
) -> Tensor:
    bias = gathered_bias(pairs, table, query.dtype)
    return F.scaled_dot_product_attention(query, key, value, bias, dropout_p)


def _fused(
    query: Tensor, key: Tensor, value: Tensor, pairs: Pairs, table: Tensor, dropout_p: float
) -> Tensor:
    from dhilgt.model.kernels.attention import attend_by_codes

    return attend_by_codes(query, key, value, pairs, table, dropout_p)


PATHS: dict[str, Callable[[Tensor, Tensor, Tensor, Pairs, Tensor, float], Tensor]] = {
    "reference": _reference,
    "sdpa": _sdpa,
    "fused": _fused,
}
"""Implementations of attention by name; "fused" covers the whole model: `dhilgt.model.kernels`."""


def choose_path(config: DHILGTConfig, slots: int, device: torch.device, dtype: torch.dtype) -> str:
    """Gives "reference", "sdpa" or "fused".

    Args:
        config: Settings of the model.
        slots: Slots of a row, virtual nodes not counted.
        device: Where the model is.
        dtype: Of its parameters; under autocast the kernels compute in autocast's.

    Example:
        >>> config = DHILGTConfig(in_channels=4, hidden_channels=16, out_channels=2)
        >>> choose_path(config, 32, torch.device("cpu"), torch.float32)
        'reference'
    """
    wanted = config.attention
    if wanted in ("reference", "sdpa"):
        return wanted
    if wanted == "auto" and device.type != "cuda":
        return default_path(device)
    # The compiler fuses plain operations itself and cannot look into the kernels' launches.
    if wanted == "auto" and torch.compiler.is_compiling():
        return default_path(device)
    reason = obstacle(config, slots, device, compute_dtype(device, dtype))
    if reason is None:
        return "fused"
    _tell(reason, default_path(device))
    return default_path(device)


def compute_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Gives the precision of products: that of autocast where it is on."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return dtype


@cache
def _tell(reason: str, instead: str) -> None:
    warn(f'attention="fused" cannot run: {reason}; "{instead}" is used instead', TrainingWarning)
