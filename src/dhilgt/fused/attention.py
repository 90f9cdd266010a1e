"""Attention alone, as an operation with a gradient."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.attention import FIRST_VIRTUAL, MASKED, NO_BIAS, Pairs
from dhilgt.fused import launch
from dhilgt.fused.launch import Codes, Draw


def draw_seed(device: torch.device) -> Tensor:
    """Gives a seed for one forward pass, [1] int64, from PyTorch's generator of the device."""
    return torch.randint(-(2**63), 2**63 - 1, (1,), dtype=torch.int64, device=device)


def fused_attention(
    qkv: Tensor, codes: Codes, table: Tensor, dropout: Draw, distances: bool = True
) -> Tensor:
    """Gives softmax(query key^T / sqrt(d) + bias) value, [B, t, F]; zeros for queries of padding.

    Args:
        qkv: Queries, keys and values as the projection gives them, [B, t, 3 F].
        codes: See `launch.make_codes`.
        table: Bias of each code and head, [codes, H]; see `dhilgt.attention.bias_table`.
        dropout: Attention weights to drop.
        distances: Whether the bias of distances is learned.
    """
    out: Tensor = _Attend.apply(qkv, table, codes, dropout, distances)  # type: ignore[no-untyped-call]
    return out


def attend_by_codes(
    query: Tensor, key: Tensor, value: Tensor, pairs: Pairs, table: Tensor, dropout_p: float
) -> Tensor:
    """Gives what `dhilgt.attention.attend` asks a path for, [B, H, t, d].

    Args:
        query: [B, H, t, d].
        key: [B, H, t, d].
        value: [B, H, t, d].
        pairs: Codes as int64; the model's own way makes short ones in the kernels.
        table: Bias of each code and head, [codes, H].
        dropout_p: Share of attention weights to drop.
    """
    batch, heads, t, width = query.shape
    virtual = math.isqrt(1 + table.shape[0] - FIRST_VIRTUAL) - 1  # 2 m + m * m of them
    seen = (pairs.codes != MASKED) & pairs.real[:, :, None]
    order = launch.code_order(virtual, query.device)
    values = order.argsort()[pairs.codes.masked_fill(~seen, MASKED)]
    last = values.masked_fill(values >= len(order) - 2, 0).amax((1, 2))
    codes = Codes(values.short().contiguous(), last.int(), t - virtual, virtual)
    qkv = torch.stack([query, key, value]).permute(1, 3, 0, 2, 4).reshape(batch, t, -1)
    draw = Draw(draw_seed(query.device), 1, dropout_p)
    out = fused_attention(qkv, codes, table, draw)
    return out.view(batch, t, heads, width).transpose(1, 2)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, table: Tensor, codes: Codes, draw: Draw, distances: bool
    ) -> Tensor:
        qkv, flat = qkv.contiguous(), launch.flat_tables([table])[0]
        out, lse = launch.attend_forward(qkv, codes, flat, table.shape[1], draw)
        ctx.save_for_backward(qkv, flat, lse, codes.values, codes.farthest, draw.seed)
        ctx.rest = (codes.slots, codes.virtual, draw.stream, draw.share, distances, table.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        qkv, flat, lse, values, farthest, seed = ctx.saved_tensors
        slots, virtual, stream, share, distances, dtype = ctx.rest
        codes, draw = Codes(values, farthest, slots, virtual), Draw(seed, stream, share)
        found = launch.attend_backward(slope.contiguous(), qkv, codes, flat, lse, draw, distances)
        table = _whole_table(found.parts, codes, flat.shape[1], distances)
        return found.qkv, table.to(dtype), None, None, None


def _whole_table(parts: Tensor, codes: Codes, size: int, distances: bool) -> Tensor:
    """Gives the slopes of a table in the reference's order, [size, H].

    Args:
        parts: See `launch.AttendSlopes`.
        codes: Of the pairs.
        size: Places of the table.
        distances: Whether distances have a bias that is learned.
    """
    whole = parts.new_zeros((size, parts.shape[-1]))
    if distances or codes.virtual:
        found = parts.sum(0)  # [places, H]
        whole[launch.code_order(codes.virtual, parts.device)[: len(found)]] = found
        if not distances:
            whole[:NO_BIAS] = 0.0
    return whole
