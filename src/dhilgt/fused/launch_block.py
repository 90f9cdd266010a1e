"""Launch of the kernel that takes a layer from its attention to its end."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dhilgt.fused import block_kernels
from dhilgt.fused.launch import Draw, power_of_two, product_precision

_WIDEST = 128  # channels for which three weights and a block of slots fit on the chip
ROWS, WARPS = 64, 4
FEW_ROWS, FEW_WARPS = 32, 4  # where the other blocks would not fill a GPU
_FEW = 132 * 64 * 4


class Block(NamedTuple):
    """What a layer gives behind its attention."""

    middle: Tensor | None  # [R, F]: the sum behind attention
    inner: Tensor | None  # [R, ffn]: the input of GELU
    h: Tensor  # [R, F]
    normed: Tensor  # [R, F]


def fits(h: Tensor, inner: int) -> bool:
    """Says whether one kernel does it all: for narrow layers in bfloat16.

    Args:
        h: The sum along the layers, [R, F].
        inner: Channels of the feed-forward block.
    """
    return h.dtype == torch.bfloat16 and max(h.shape[1], inner) <= _WIDEST


def run_block(
    mixed: Tensor,
    h: Tensor,
    projection: tuple[Tensor, Tensor],
    ffn_norm: tuple[Tensor, Tensor],
    ffn_in: tuple[Tensor, Tensor],
    ffn_out: tuple[Tensor, Tensor],
    next_norm: tuple[Tensor, Tensor],
    eps: float,
    draws: tuple[Draw, Draw],
    keep: bool,
) -> Block:
    """Adds what attention and the feed-forward block give, and gives the next norm.

    Args:
        mixed: What attention gave, [R, F], contiguous.
        h: The sum so far, [R, F], contiguous.
        projection: Weight and bias.
        ffn_norm: Weight and bias of the norm before the feed-forward block.
        ffn_in: Weight and bias.
        ffn_out: Weight and bias.
        next_norm: Weight and bias of the norm behind the layer.
        eps: Of the norms.
        draws: What is dropped of the two sums.
        keep: Whether a backward pass may follow.
    """
    (rows, width), inner_width = h.shape, len(ffn_in[0])
    out, normed = torch.empty_like(h), torch.empty_like(h)
    middle = torch.empty_like(h) if keep else None
    inner = h.new_empty((rows, inner_width)) if keep else None
    first, second = draws
    block, warps = (FEW_ROWS, FEW_WARPS) if rows < _FEW else (ROWS, WARPS)
    block_kernels.block_kernel[(-(-rows // block),)](
        mixed,
        h,
        out if middle is None else middle,
        out if inner is None else inner,
        out,
        normed,
        *projection,
        *ffn_norm,
        *ffn_in,
        *ffn_out,
        *next_norm,
        first.seed,
        first.stream,
        second.stream,
        first.level,
        first.kept,
        eps,
        rows,
        F=width,
        INNER=inner_width,
        BLOCK_R=block,
        BLOCK_F=power_of_two(width),
        BLOCK_INNER=power_of_two(inner_width),
        DROP=first.share > 0.0,
        KEEP=keep,
        PRECISION=product_precision(h),
        num_warps=warps,
        num_stages=1,
    )
    return Block(middle, inner, out, normed)
