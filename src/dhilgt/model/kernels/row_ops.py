"""Launch the slot-wise kernels; the readout as a differentiable operation."""

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
_AT_ONCE = 2048  # numbers of a tensor that a program holds
_AT_ONCE_BACK = 1024
_EACH = 512  # of these per warp


def _row_blocks(rows: int, width: int, at_once: int) -> tuple[int, int, int, int]:
    """Return the block of rows, the block of channels, programs and warps."""
    block_f = power_of_two(width)
    block_r = max(1, at_once // block_f)
    blocks = -(-rows // block_r)
    # Each program leaves sums to be added up, hence fewer programs for few rows.
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
    """Return stream + dropout(branch), and its layer norm.

    Args:
        stream: [R, F], contiguous.
        branch: [R, F], contiguous; None adds nothing.
        weight: Weight of the norm, [F].
        bias: Bias of the norm, [F].
        eps: Epsilon of the norm.
        draw: Dropout of the branch.
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
        draw.keep_scale,
        eps,
        rows,
        F=width,
        BLOCK_R=block_r,
        BLOCK_F=block_f,
        ADD=branch is not None,
        DROP=draw.probability > 0.0,
        num_warps=warps,
    )
    return out, normed


class NormGradients(NamedTuple):
    """Gradients of the inputs of `add_norm`, and its recomputed output."""

    stream: Tensor  # [R, F]
    branch: Tensor | None  # [R, F]
    sums: Tensor  # [programs, 3, F] float32: gradients of weight, bias and branch, to be added up
    normed: Tensor | None  # [R, F]


def empty_sums(
    layers: int, rows: int, width: int, inner: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return empty tensors for the sums of all norms and of GELU in all layers.

    Args:
        layers: Number of layers; each has two norms, and one follows the last.
        rows: Rows of the tensors.
        width: Channels.
        inner: Channels of the feed-forward blocks.
        like: A tensor on the device.
    """
    norms, gelus = (_row_blocks(rows, each, _AT_ONCE_BACK)[2] for each in (width, inner))
    return (
        like.new_empty((2 * layers + 1, norms, 3, width), dtype=torch.float32),
        like.new_empty((layers, gelus, inner), dtype=torch.float32),
    )


def add_norm_backward(
    h: Tensor,
    grad: Tensor,
    carried: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    draw: Draw | None,
    recompute: bool,
    reuse: bool = False,
    room: Tensor | None = None,
) -> NormGradients:
    """Return the gradients of the inputs of `add_norm`, and the recomputed norm.

    Args:
        h: Input of the norm.
        grad: Gradient of the norm's output.
        carried: Gradient that reaches the sum past the norm; overwritten.
        weight: Weight of the norm.
        bias: Bias of the norm.
        eps: Epsilon of the norm.
        draw: Dropout of the branch; None where there was no branch.
        recompute: Whether to compute the norm's output again.
        reuse: Whether the branch's gradient may overwrite `grad`, and the norm `h`.
        room: A tensor for the sums: a norm's part of `empty_sums`.
    """
    rows, width = h.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width, _AT_ONCE_BACK)
    out = torch.empty_like(h) if carried is None else carried
    branch = None if draw is None else grad if reuse else torch.empty_like(h)
    normed = None if not recompute else h if reuse else torch.empty_like(h)
    sums = h.new_empty((programs, 3, width), dtype=torch.float32) if room is None else room
    row_kernels.add_norm_backward_kernel[(programs,)](
        h,
        grad,
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
        1.0 if draw is None else draw.keep_scale,
        eps,
        rows,
        F=width,
        BLOCK_R=block_r,
        BLOCK_F=block_f,
        CARRY=carried is not None,
        ADD=draw is not None,
        DROP=draw is not None and draw.probability > 0.0,
        RECOMPUTE=recompute,
        num_warps=warps,
    )
    return NormGradients(out, branch, sums, normed)


def gelu(inner: Tensor) -> Tensor:
    """Return GELU, computed by the error function."""
    out = torch.empty_like(inner)
    count, block = inner.numel(), 1024
    row_kernels.gelu_forward_kernel[(-(-count // block),)](inner, out, count, BLOCK=block)
    return out


def gelu_backward(inner: Tensor, grad: Tensor, room: Tensor | None = None) -> Tensor:
    """Overwrite `grad` with the gradient of the input, and `inner` with GELU's output.

    Args:
        inner: GELU's input, [R, F].
        grad: Gradient of its output, [R, F].
        room: A tensor for the sums: a layer's part of `empty_sums`.

    Returns:
        Sums of gradients, [programs, F], to be added up.
    """
    rows, width = inner.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width, _AT_ONCE_BACK)
    sums = inner.new_empty((programs, width), dtype=torch.float32) if room is None else room
    row_kernels.gelu_backward_kernel[(programs,)](
        inner,
        grad,
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
    """Return whether a program of the readout can hold so many slots and channels."""
    return power_of_two(slots) * power_of_two(width) <= _MOST_HELD


def readout(
    normed: Tensor, real: Tensor, weight: Tensor, virtual: int, offsets: Tensor | None = None
) -> Tensor:
    """Return the ego plus the weighted members, [B, F] float32.

    Args:
        normed: [B, t, F], or packed [rows, F]; contiguous.
        real: [B, s] bool.
        weight: Weight of the scores, [F].
        virtual: Number of virtual nodes after the slots.
        offsets: First row of each token where rows are packed, see `packing`.
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
    grad: Tensor,
    normed: Tensor,
    real: Tensor,
    weight: Tensor,
    virtual: int,
    offsets: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `normed` and of the weight.

    Args:
        grad: Gradient of the output, [B, F] float32.
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
        grad,
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
    """Results of a layer after its attention."""

    middle: Tensor | None  # [R, F]: residual stream after attention
    inner: Tensor | None  # [R, ffn]: input of GELU
    h: Tensor  # [R, F]
    normed: Tensor  # [R, F]


def fits(h: Tensor, inner: int) -> bool:
    """Return whether `run_block` can run: for narrow layers in bfloat16.

    Args:
        h: The residual stream, [R, F].
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
    """Run a layer after its attention, and the next norm, as one kernel.

    Args:
        mixed: Output of attention, [R, F], contiguous.
        h: The residual stream, [R, F], contiguous.
        projection: Weight and bias.
        ffn_norm: Weight and bias of the norm before the feed-forward block.
        ffn_in: Weight and bias.
        ffn_out: Weight and bias.
        next_norm: Weight and bias of the norm after the layer.
        eps: Epsilon of the norms.
        draws: Dropout of the two branches.
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
        first.keep_scale,
        eps,
        rows,
        F=width,
        INNER=inner_width,
        BLOCK_R=block,
        BLOCK_F=power_of_two(width),
        BLOCK_INNER=power_of_two(inner_width),
        DROP=first.probability > 0.0,
        KEEP=keep,
        PRECISION=product_precision(h),
        num_warps=warps,
        num_stages=1,
    )
    return Block(middle, inner, out, normed)


def read_out(
    normed: Tensor, real: Tensor, weight: Tensor, virtual: int, offsets: Tensor | None = None
) -> Tensor:
    """Return the ego plus the weighted members of its row, [B, F] float32.

    Args:
        normed: [B, t, F], or packed [rows, F]; virtual nodes are left out.
        real: [B, s] bool.
        weight: Weight of the scores, [1, F].
        virtual: Number of virtual nodes after the slots.
        offsets: First row of each token where rows are packed, see `packing`.
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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        normed, real, weight, offsets = ctx.saved_tensors
        normed_grad, weight_grad = readout_backward(
            grad.float().contiguous(), normed, real, weight, ctx.virtual, offsets
        )
        return normed_grad, None, weight_grad.view(weight.shape).to(weight.dtype), None, None
