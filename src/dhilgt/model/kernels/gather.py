"""Gather node rows into slots, followed by the virtual nodes, as a differentiable operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.model.kernels import gather_kernels
from dhilgt.model.kernels.attention import power_of_two, product_precision
from dhilgt.model.kernels.packing import Packing

_BLOCK = 32  # slots, sorted by node, that a program sums
_STEP = 16  # blocks that are added up at once
_CHANNELS = 128


def gather(
    h: Tensor, index: Tensor, virtual: Tensor | None, packing: Packing | None = None
) -> Tensor:
    """Return the rows of `h` at `index`, zeros for -1, then the virtual nodes.

    The result is [B, t, F], or packed [rows, F].

    Args:
        h: [n, F], in the precision of the computation.
        index: [B, s] int32 or int64.
        virtual: [m, F], or None.
        packing: Where packed rows lie; None for all slots of all tokens.
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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        index, places, offsets = ctx.saved_tensors
        nodes, extra, dtype = ctx.rest
        grad, slots = grad.contiguous(), index.shape[1]
        packed = offsets is not None
        virtual_grad = None
        if extra and packed:
            each = torch.arange(-extra, 0, device=index.device)
            rows = offsets[1 : len(index) + 1, None] + each  # [B, m]
            virtual_grad = grad[rows].sum(0, dtype=torch.float32).to(dtype)
        elif extra:
            virtual_grad = grad[:, slots:].sum(0, dtype=torch.float32).to(dtype)
        node_grad = sum_by_node(grad, index, nodes, places if packed else None)
        return node_grad, None, virtual_grad, None


def sum_by_node(grad: Tensor, index: Tensor, nodes: int, places: Tensor | None = None) -> Tensor:
    """Return the sum over each node's slots, [nodes, F], in a fixed order.

    Args:
        grad: [B, t, F], contiguous; slots after those of `index` are left out.
        index: [B, s], -1 for no node.
        nodes: Number of nodes.
        places: The row of each slot in a packed `grad`, [rows, F]; [B, s] int32.
    """
    width, slots = grad.shape[-1], index.shape[1]
    t = slots if places is not None else grad.shape[1]
    ids, order = torch.sort(index.reshape(-1).to(torch.int32), stable=True)
    out = grad.new_zeros((nodes, width))
    blocks = -(-len(ids) // _BLOCK)
    parts = grad.new_empty((blocks, 2, width), dtype=torch.float32)
    block_f = min(_CHANNELS, power_of_two(width))
    grid = (blocks, -(-width // block_f))
    gather_kernels.sum_blocks_kernel[grid](
        grad,
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
        PRECISION=product_precision(grad),
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
