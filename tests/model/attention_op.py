"""The attention kernels alone as an operation with a gradient, to compare with plain PyTorch."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.model.codes import NO_BIAS
from dhilgt.model.kernels.attention import (
    Codes,
    Draw,
    attend_backward,
    attend_forward,
    code_order,
    flat_tables,
)


def fused_attention(
    qkv: Tensor, codes: Codes, table: Tensor, dropout: Draw, distances: bool = True
) -> Tensor:
    """Return softmax(query key^T / sqrt(d) + bias) value, [B, t, F]; zeros for padding queries.

    Args:
        qkv: Queries, keys and values, [B, t, 3 F].
        codes: See `make_codes`.
        table: Bias of each code and head, [codes, H]; see `dhilgt.model.attention.bias_table`.
        dropout: Dropout of attention weights.
        distances: Whether the bias of distances is learned.
    """
    out: Tensor = _Attend.apply(qkv, table, codes, dropout, distances)  # type: ignore[no-untyped-call]
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, table: Tensor, codes: Codes, draw: Draw, distances: bool
    ) -> Tensor:
        qkv, flat = qkv.contiguous(), flat_tables([table])[0]
        out, lse = attend_forward(qkv, codes, flat, table.shape[1], draw)
        ctx.save_for_backward(qkv, flat, lse, codes.values, codes.farthest, draw.seed)
        ctx.rest = (codes.slots, codes.virtual, draw[1:], distances, table.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        qkv, flat, lse, values, farthest, seed = ctx.saved_tensors
        slots, virtual, site, distances, dtype = ctx.rest
        codes, draw = Codes(values, farthest, slots, virtual), Draw(seed, *site)
        grads = attend_backward(grad.contiguous(), qkv, codes, flat, lse, draw, distances)
        table = _whole_table(grads.parts, codes, flat.shape[1], distances)
        return grads.qkv, table.to(dtype), None, None, None


def _whole_table(parts: Tensor, codes: Codes, size: int, distances: bool) -> Tensor:
    """Return the gradients of a table in the order of `dhilgt.model.attention`, [size, H].

    Args:
        parts: See `AttentionGradients`.
        codes: Codes of the pairs.
        size: Places of the table.
        distances: Whether distances have a learned bias.
    """
    whole = parts.new_zeros((size, parts.shape[-1]))
    if distances or codes.virtual:
        grads = parts.sum(0)  # [places, H]
        whole[code_order(codes.virtual, parts.device)[: len(grads)]] = grads
        if not distances:
            whole[:NO_BIAS] = 0.0
    return whole
