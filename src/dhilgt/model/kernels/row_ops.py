"""Launches of the kernels that work slot by slot, and the readout with its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.model.kernels import block_kernels, row_kernels
from dhilgt.model.kernels.attention import Draw, power_of_two, product_precision

_MOST_HELD = 1 << 15
_PROGRAMS = 1056  # eight per multiprocessor of a large GPU
_FEWEST = 528
_AT_ONCE = 2048  # numbers of a tensor that a program works on
_AT_ONCE_BACK = 1024
_EACH = 512  # of these for a warp


def _row_blocks(rows: int, width: int, at_once: int) -> tuple[int, int, int, int]:
    """Gives block of rows, block of channels, programs and warps."""
    block_f = power_of_two(width)
    block_r = max(1, at_once // block_f)
    blocks = -(-rows // block_r)
    # The programs' sums are added up afterwards: of few rows by fewer programs.
    programs = max(1, min(_PROGRAMS, blocks, max(_FEWEST, blocks // 8)))
    return block_r, block_f, programs, max(1, min(8, block_r * block_f // _EACH))


def add_norm(
    stream: Tensor,
    branch: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    draw: Draw,
) -> tuple[Tensor, Tensor]:
    """Gives stream + dropout(branch), and its layer norm.

    Args:
        stream: [R, F], contiguous.
        branch: [R, F], contiguous; None adds nothing.
        weight: Of the norm, [F].
        bias: Of the norm, [F].
        eps: Of the norm.
        draw: What is dropped of the branch.
    """
    rows, width = stream.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width, _AT_ONCE)
    out = stream if branch is None else torch.empty_like(stream)
    normed = torch.empty_like(stream)
    row_kernels.add_norm_forward_kernel[(programs,)](
        stream,
        stream if branch is None else branch,
        out,
        normed,
        weight,
        bias,
        draw.seed,
        draw.stream,
        draw.level,
        draw.kept,
        eps,
        rows,
        F=width,
        BLOCK_R=block_r,
        BLOCK_F=block_f,
        ADD=branch is not None,
        DROP=draw.share > 0.0,
        num_warps=warps,
    )
    return out, normed


class NormSlopes(NamedTuple):
    """What the backward pass of `add_norm` gives."""

    stream: Tensor  # [R, F]
    branch: Tensor | None  # [R, F]
    sums: Tensor  # [programs, 3, F] float32: to be added up, slopes of weight, bias and branch
    normed: Tensor | None  # [R, F]


def empty_sums(
    layers: int, rows: int, width: int, inner: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Gives room for the sums of all norms and of GELU in all layers, to be added up at once.

    Args:
        layers: Number of layers; each has two norms, and one stands behind the last.
        rows: Rows of the tensors.
        width: Channels.
        inner: Channels of the feed-forward blocks.
        like: Has the device.
    """
    norms, gelus = (_row_blocks(rows, each, _AT_ONCE_BACK)[2] for each in (width, inner))
    return (
        like.new_empty((2 * layers + 1, norms, 3, width), dtype=torch.float32),
        like.new_empty((layers, gelus, inner), dtype=torch.float32),
    )


def add_norm_backward(
    h: Tensor,
    slope: Tensor,
    carried: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    draw: Draw | None,
    again: bool,
    reuse: bool = False,
    room: Tensor | None = None,
) -> NormSlopes:
    """Gives the slopes of what `add_norm` took, and the norm once more.

    Args:
        h: What was normed.
        slope: Of the norm's output.
        carried: Slope of the sum from elsewhere; it is overwritten.
        weight: Of the norm.
        bias: Of the norm.
        eps: Of the norm.
        draw: What was dropped of the branch; None where there was none.
        again: Whether the norm's output is wanted.
        reuse: Whether the branch's slope may take the place of `slope`, and the norm that of `h`.
        room: For the sums: a norm's part of `empty_sums`.
    """
    rows, width = h.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width, _AT_ONCE_BACK)
    out = torch.empty_like(h) if carried is None else carried
    branch = None if draw is None else slope if reuse else torch.empty_like(h)
    normed = None if not again else h if reuse else torch.empty_like(h)
    sums = h.new_empty((programs, 3, width), dtype=torch.float32) if room is None else room
    row_kernels.add_norm_backward_kernel[(programs,)](
        h,
        slope,
        out,
        weight,
        bias,
        out,
        h if branch is None else branch,
        h if normed is None else normed,
        sums,
        sums if draw is None else draw.seed,
        0 if draw is None else draw.stream,
        0 if draw is None else draw.level,
        1.0 if draw is None else draw.kept,
        eps,
        rows,
        F=width,
        BLOCK_R=block_r,
        BLOCK_F=block_f,
        CARRY=carried is not None,
        ADD=draw is not None,
        DROP=draw is not None and draw.share > 0.0,
        AGAIN=again,
        num_warps=warps,
    )
    return NormSlopes(out, branch, sums, normed)


def gelu(inner: Tensor) -> Tensor:
    """Gives GELU by the error function."""
    out = torch.empty_like(inner)
    count, block = inner.numel(), 1024
    row_kernels.gelu_forward_kernel[(-(-count // block),)](inner, out, count, BLOCK=block)
    return out


def gelu_backward(inner: Tensor, slope: Tensor, room: Tensor | None = None) -> Tensor:
    """Replaces `slope` by that of the input, `inner` by GELU's output.

    Gives the sums of slopes, [programs, F], to be added up.

    Args:
        inner: GELU's input, [R, F].
        slope: Of its output, [R, F].
        room: For the sums: a layer's part of `empty_sums`.
    """
    rows, width = inner.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width, _AT_ONCE_BACK)
    sums = inner.new_empty((programs, width), dtype=torch.float32) if room is None else room
    row_kernels.gelu_backward_kernel[(programs,)](
        inner,
        slope,
        inner,
        sums,
        rows,
        F=width,
        BLOCK_R=block_r,
        BLOCK_F=block_f,
        num_warps=warps,
    )
    return sums


def reads_out(slots: int, width: int) -> bool:
    """Says whether a program of the readout can hold a row of so many slots and channels."""
    return power_of_two(slots) * power_of_two(width) <= _MOST_HELD


def readout(
    normed: Tensor, real: Tensor, weight: Tensor, virtual: int, offsets: Tensor | None = None
) -> Tensor:
    """Gives the ego plus the weighted members, [B, F] float32.

    Args:
        normed: [B, t, F], or packed [rows, F]; contiguous.
        real: [B, s] bool.
        weight: Of the scores, [F].
        virtual: Number of virtual nodes behind the slots.
        offsets: Of packed rows, see `packing`.
    """
    (batch, slots), width = real.shape, normed.shape[-1]
    out = normed.new_empty((batch, width), dtype=torch.float32)
    row_kernels.readout_forward_kernel[(batch,)](
        normed,
        real.view(torch.uint8),
        weight,
        out if offsets is None else offsets,
        out,
        batch,
        S=slots,
        T=slots + virtual,
        F=width,
        BLOCK=power_of_two(slots + virtual),
        BLOCK_F=power_of_two(width),
        PACKED=offsets is not None,
        num_warps=4,
    )
    return out


def readout_backward(
    slope: Tensor,
    normed: Tensor,
    real: Tensor,
    weight: Tensor,
    virtual: int,
    offsets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gives the slopes of `normed` and of the weight.

    Args:
        slope: Of the output, [B, F] float32.
        normed: As in the forward pass.
        real: As in the forward pass.
        weight: As in the forward pass.
        virtual: As in the forward pass.
        offsets: As in the forward pass.
    """
    (batch, slots), width = real.shape, normed.shape[-1]
    tokens = batch if offsets is None else len(offsets) - 1
    programs = max(1, min(_PROGRAMS, tokens))
    out = torch.empty_like(normed)
    sums = normed.new_empty((programs, width), dtype=torch.float32)
    row_kernels.readout_backward_kernel[(programs,)](
        normed,
        real.view(torch.uint8),
        weight,
        sums if offsets is None else offsets,
        slope,
        out,
        sums,
        batch,
        tokens,
        S=slots,
        T=slots + virtual,
        F=width,
        BLOCK=power_of_two(slots + virtual),
        BLOCK_F=power_of_two(width),
        PACKED=offsets is not None,
        num_warps=4,
    )
    return out, sums.sum(0)


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
        return readout(normed, real, weight, virtual, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        normed, real, weight, offsets = ctx.saved_tensors
        down, own = readout_backward(
            slope.float().contiguous(), normed, real, weight, ctx.virtual, offsets
        )
        return down, None, own.view(weight.shape).to(weight.dtype), None, None
