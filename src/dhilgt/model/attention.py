"""Attention with a learned bias per distance, and the choice of its implementation.

`attend` takes queries, keys, values, a code for every pair of slots and the table that maps a code
to its bias. The path is chosen once per forward pass, by the model (`choose_path`), and handed to
every layer: a layer that chose again could take kernels that the model knows cannot run. "fused" is
not among the paths of `attend`: its kernels cover the whole encoder (`dhilgt.model.kernels`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from dhilgt.errors import TrainingWarning, warn
from dhilgt.model.codes import FIRST_VIRTUAL, MASKED, NO_BIAS, NUM_DISTANCES, Pairs
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dropout import drop_mask, dropout
from dhilgt.model.kernels import compute_dtype, obstacle


def pair_codes(spd: Tensor, real: Tensor, num_virtual: int = 0, dropout_p: float = 0.0) -> Pairs:
    """Return the codes of all pairs; virtual nodes follow the slots.

    Args:
        spd: Distance codes, [B, s, s] uint8.
        real: Which slots hold a node, [B, s] bool; `spd` of other slots is ignored.
        num_virtual: Number of virtual nodes; they are never padding.
        dropout_p: Probability that a pair loses its bias, drawn anew by each call.
    """
    codes = spd.long()  # [B, s, s]
    batch, size, _ = codes.shape
    if num_virtual:
        m, first = num_virtual, FIRST_VIRTUAL
        each = torch.arange(m, device=spd.device)
        to_virtual, from_virtual = first + each, first + m + each
        among = first + 2 * m + m * each[:, None] + each  # [m, m]
        codes = torch.cat([codes, to_virtual.expand(batch, size, m)], 2)
        below = torch.cat([from_virtual[:, None].expand(m, size), among], 1)  # [m, s + m]
        codes = torch.cat([codes, below.expand(batch, m, size + m)], 1)
        real = torch.cat([real, real.new_ones(batch, m)], 1)
    if dropout_p > 0.0:
        codes = codes.masked_fill(drop_mask(codes.shape, dropout_p, codes.device), NO_BIAS)
    codes = codes.masked_fill(~real[:, None, :], MASKED)
    # The softmax of a query that sees nothing is undefined: padding sees all slots instead, and
    # `attend` sets its result to zero.
    codes = codes.masked_fill(~real[:, :, None], NO_BIAS)
    return Pairs(codes, real)


def ego_codes(spd: Tensor, real: Tensor, num_virtual: int = 0, dropout_p: float = 0.0) -> Tensor:
    """Return the codes of the pairs whose query is the ego: row 0 of `pair_codes`, [B, t].

    Args:
        spd: As for `pair_codes`.
        real: As for `pair_codes`.
        num_virtual: As for `pair_codes`.
        dropout_p: As for `pair_codes`.
    """
    codes = spd[:, 0].long()  # [B, s]
    if num_virtual:
        batch = codes.shape[0]
        virtual = FIRST_VIRTUAL + torch.arange(num_virtual, device=spd.device)
        codes = torch.cat([codes, virtual.expand(batch, num_virtual)], 1)
        real = torch.cat([real, real.new_ones(batch, num_virtual)], 1)
    if dropout_p > 0.0:
        codes = codes.masked_fill(drop_mask(codes.shape, dropout_p, codes.device), NO_BIAS)
    return codes.masked_fill(~real, MASKED).masked_fill(~real[:, :1], NO_BIAS)


def bias_table(
    heads: int, like: Tensor, spd: Tensor | None, virtual: Tensor | None, scale: float = 1.0
) -> Tensor:
    """Return the bias of every code and head, [codes, heads].

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
    path: str,
    dropout_p: float = 0.0,
) -> Tensor:
    """Return softmax(query key^T / sqrt(d) + bias) value; zeros for queries that are padding.

    Args:
        query: [B, H, t, d].
        key: [B, H, t, d].
        value: [B, H, t, d].
        pairs: See `pair_codes`.
        table: Bias of each code and head, [codes, H]; see `bias_table`.
        path: A key of `PATHS`.
        dropout_p: Probability that an attention weight is dropped; 0 when not training.
    """
    out = PATHS[path](query, key, value, pairs, table, dropout_p)
    return out.masked_fill(~pairs.real[:, None, :, None], 0.0)  # [B, H, t, d]


def attend_from_ego(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    codes: Tensor,
    table: Tensor,
    *,
    dropout_p: float = 0.0,
) -> Tensor:
    """Return what `attend` returns for the ego's query alone, with all heads in a row, [B, F].

    The result is not set to zero where the ego is padding.

    Args:
        query: Of the egos, [B, F].
        key: [B, t, F].
        value: [B, t, F].
        codes: Of the pairs of the ego with all slots, [B, t]; see `ego_codes`.
        table: As for `attend`.
        dropout_p: As for `attend`.
    """
    # One query per row: as products of matrices this would copy keys and values into another
    # order, which takes longer than the sums.
    batch, slots, width = key.shape
    heads = table.shape[1]
    channels = width // heads
    scaled = (query * channels**-0.5).view(batch, 1, heads, channels)
    scores = (key.view(batch, slots, heads, channels) * scaled).sum(-1)  # [B, t, H]
    weights = torch.softmax(scores + code_bias(codes, table, scores.dtype).movedim(0, 2), 1)
    weights = dropout(weights, dropout_p)[..., None]  # [B, t, H, 1]
    return (weights * value.view(batch, slots, heads, channels)).sum(1).reshape(batch, width)


def gathered_bias(pairs: Pairs, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias of all pairs, [B, H, t, t]."""
    bias = code_bias(pairs.codes, table, dtype).transpose(0, 1)
    return bias if pairs.codes.device.type == "cpu" else bias.contiguous()


def code_bias(codes: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias of each code and head, [H, *codes.shape]."""
    table = table.to(dtype)
    if codes.device.type == "cpu":
        # Its backward sums along a row: on the CPU several times as fast as that of embedding.
        heads = table.shape[1]
        flat = codes.reshape(1, codes.numel()).expand(heads, -1)
        return table.t().gather(1, flat).view(heads, *codes.shape)
    # On a GPU those sums would be contended atomics; the backward of embedding sorts, and repeats.
    return F.embedding(codes, table).movedim(-1, 0)


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


PATHS: dict[str, Callable[[Tensor, Tensor, Tensor, Pairs, Tensor, float], Tensor]] = {
    "reference": _reference,
    "sdpa": _sdpa,
}
"""Implementations of attention in one layer, by name."""


# ---- the choice --------------------------------------------------------------------------------


def choose_path(config: DHILGTConfig, slots: int, device: torch.device, dtype: torch.dtype) -> str:
    """Return the path of attention that a model takes: "reference", "sdpa" or "fused".

    Where `config.attention` asks for kernels that cannot run, the path is the one for plain
    operations, and a warning gives the reason, once for each reason.

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
    setting = config.attention
    if setting in PATHS:
        return setting
    if setting == "auto" and device.type != "cuda":
        return plain_path(device)
    # The compiler fuses plain operations itself and cannot look into the kernels' launches.
    if setting == "auto" and torch.compiler.is_compiling():
        return plain_path(device)
    reason = obstacle(config, slots, device, compute_dtype(device, dtype))
    if reason is None:
        return "fused"
    _warn_once(reason, plain_path(device))
    return plain_path(device)


def plain_path(device: torch.device) -> str:
    """Return the path that "auto" stands for where the fused kernels do not run."""
    # With a learned bias the CPU has no fused kernel, and the wrapping costs a little.
    return "reference" if device.type == "cpu" else "sdpa"


@cache
def _warn_once(reason: str, instead: str) -> None:
    warn(f'attention="fused" cannot run: {reason}; "{instead}" is used instead', TrainingWarning)
