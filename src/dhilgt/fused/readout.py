"""The readout as an operation with a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.fused import launch_rows


def read_out(
    normed: Tensor, real: Tensor, weight: Tensor, virtual: int, offsets: Tensor | None = None
) -> Tensor:
    """Gives the ego plus the weighted members of its row, [B, F] float32.

    Args:
        normed: [B, t, F], or packed [rows, F]; virtual nodes are left out.
        real: [B, s] bool.
        weight: Of the scores, [1, F].
        virtual: Number of virtual nodes behind the slots.
        offsets: Of packed rows, see `packing`.
    """
    out: Tensor = _ReadOut.apply(normed, real, weight, virtual, offsets)  # type: ignore[no-untyped-call]
    return out


class _ReadOut(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, normed: Tensor, real: Tensor, weight: Tensor, virtual: int, offsets: Tensor | None
    ) -> Tensor:
        normed, real = normed.contiguous(), real.contiguous()
        ctx.save_for_backward(normed, real, weight, offsets)
        ctx.virtual = virtual
        return launch_rows.readout(normed, real, weight, virtual, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        normed, real, weight, offsets = ctx.saved_tensors
        down, own = launch_rows.readout_backward(
            slope.float().contiguous(), normed, real, weight, ctx.virtual, offsets
        )
        return down, None, own.view(weight.shape).to(weight.dtype), None, None
