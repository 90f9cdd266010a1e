"""The rows of nodes at their slots, with the virtual nodes behind them; with a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.fused import gather_kernels
from dhilgt.fused.launch import power_of_two, product_precision

_BLOCK = 32  # slots, in the order of their nodes, that a program sums
_STEP = 16  # blocks that are put together at once
_CHANNELS = 128


def gather(h: Tensor, index: Tensor, virtual: Tensor | None) -> Tensor:
    """Gives the rows of `h` that `index` names, zeros for -1, then the virtual nodes: [B, t, F].

    Args:
        h: [n, F], in the precision to compute in.
        index: [B, s] int32 or int64.
        virtual: [m, F], or None.
    """
    out: Tensor = _Gather.apply(h, index, virtual)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, index: Tensor, virtual: Tensor | None) -> Tensor:
        h, index = h.contiguous(), index.contiguous()
        batch, slots = index.shape
        extra, width = (0 if virtual is None else len(virtual)), h.shape[1]
        out = h.new_empty((batch, slots + extra, width))
        block_f = min(_CHANNELS, power_of_two(width))
        gather_kernels.gather_kernel[(batch, -(-width // block_f))](
            h,
            index,
            h if virtual is None else virtual.detach().contiguous(),
            out,
            S=slots,
            M=extra,
            F=width,
            BLOCK_T=power_of_two(slots + extra),
            BLOCK_F=block_f,
            num_warps=4,
        )
        ctx.save_for_backward(index)
        ctx.rest = (len(h), extra, None if virtual is None else virtual.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        nodes, extra, dtype = ctx.rest
        slope, slots = slope.contiguous(), index.shape[1]
        of_virtual = slope[:, slots:].sum(0, dtype=torch.float32).to(dtype) if extra else None
        return sum_by_node(slope, index, nodes), None, of_virtual


def sum_by_node(slope: Tensor, index: Tensor, nodes: int) -> Tensor:
    """Gives the sum over each node's slots, [nodes, F]; the same bits every time.

    Args:
        slope: [B, t, F], contiguous; slots behind those of `index` are left out.
        index: [B, s], -1 for no node.
        nodes: Number of nodes.
    """
    (_, t, width), slots = slope.shape, index.shape[1]
    ids, order = torch.sort(index.reshape(-1).to(torch.int32), stable=True)
    out = slope.new_zeros((nodes, width))
    blocks = -(-len(ids) // _BLOCK)
    parts = slope.new_empty((blocks, 2, width), dtype=torch.float32)
    block_f = min(_CHANNELS, power_of_two(width))
    grid = (blocks, -(-width // block_f))
    gather_kernels.sum_blocks_kernel[grid](
        slope,
        ids,
        order,
        out,
        parts,
        len(ids),
        S=slots,
        T=t,
        F=width,
        BLOCK=_BLOCK,
        BLOCK_F=block_f,
        PRECISION=product_precision(slope),
        num_warps=4,
    )
    gather_kernels.join_blocks_kernel[grid](
        ids,
        parts,
        out,
        len(ids),
        F=width,
        BLOCK=_BLOCK,
        STEP=_STEP,
        BLOCK_F=block_f,
        num_warps=4,
    )
    return out
