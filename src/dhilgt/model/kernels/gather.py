"""The rows of nodes at their slots, with the virtual nodes behind them; with a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.model.kernels import gather_kernels
from dhilgt.model.kernels.attention import power_of_two, product_precision
from dhilgt.model.kernels.packing import Packing

_BLOCK = 32  # slots, in the order of their nodes, that a program sums
_STEP = 16  # blocks that are put together at once
_CHANNELS = 128


def gather(
    h: Tensor, index: Tensor, virtual: Tensor | None, packing: Packing | None = None
) -> Tensor:
    """Gives the rows of `h` that `index` names, zeros for -1, then the virtual nodes.

    These are [B, t, F], or packed [rows, F].

    Args:
        h: [n, F], in the precision to compute in.
        index: [B, s] int32 or int64.
        virtual: [m, F], or None.
        packing: Where the rows of tokens lie; None for all slots of all tokens.
    """
    out: Tensor = _Gather.apply(h, index, virtual, packing)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, index: Tensor, virtual: Tensor | None, packing: Packing | None
    ) -> Tensor:
        h, index = h.contiguous(), index.contiguous()
        batch, slots = index.shape
        extra, width = (0 if virtual is None else len(virtual)), h.shape[1]
        if packing is None:
            tokens, offsets, places = batch, None, index
            out = h.new_empty((batch, slots + extra, width))
        else:
            tokens, offsets = len(packing.offsets) - 1, packing.offsets
            places = index.new_empty(index.shape, dtype=torch.int32)
            out = h.new_empty((packing.rows, width))
        block_f = min(_CHANNELS, power_of_two(width))
        gather_kernels.gather_kernel[(tokens, -(-width // block_f))](
            h,
            index,
            h if virtual is None else virtual.detach().contiguous(),
            index if offsets is None else offsets,
            out,
            places,
            batch,
            S=slots,
            M=extra,
            F=width,
            BLOCK_T=power_of_two(slots + extra),
            BLOCK_F=block_f,
            PACKED=packing is not None,
            num_warps=4,
        )
        ctx.save_for_backward(index, places, offsets)
        ctx.rest = (len(h), extra, None if virtual is None else virtual.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        index, places, offsets = ctx.saved_tensors
        nodes, extra, dtype = ctx.rest
        slope, slots = slope.contiguous(), index.shape[1]
        packed = offsets is not None
        of_virtual = None
        if extra and packed:
            each = torch.arange(-extra, 0, device=index.device)
            behind = offsets[1 : len(index) + 1, None] + each  # [B, m]
            of_virtual = slope[behind].sum(0, dtype=torch.float32).to(dtype)
        elif extra:
            of_virtual = slope[:, slots:].sum(0, dtype=torch.float32).to(dtype)
        found = sum_by_node(slope, index, nodes, places if packed else None)
        return found, None, of_virtual, None


def sum_by_node(slope: Tensor, index: Tensor, nodes: int, places: Tensor | None = None) -> Tensor:
    """Gives the sum over each node's slots, [nodes, F]; the same bits every time.

    Args:
        slope: [B, t, F], contiguous; slots behind those of `index` are left out.
        index: [B, s], -1 for no node.
        nodes: Number of nodes.
        places: The row of each slot in a packed `slope`, [rows, F]; [B, s] int32.
    """
    width, slots = slope.shape[-1], index.shape[1]
    t = slots if places is not None else slope.shape[1]
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
        order if places is None else places,
        out,
        parts,
        len(ids),
        S=slots,
        T=t,
        F=width,
        BLOCK=_BLOCK,
        BLOCK_F=block_f,
        PACKED=places is not None,
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
