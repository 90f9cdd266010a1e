"""Launches of the kernels, with their block sizes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dhilgt.fused import attention_kernels, row_kernels

LOG2_E = math.log2(math.e)
NEAR = 32
_LEVELS = 2.0**31
_PROGRAMS = 1056  # eight per multiprocessor of a large GPU


class Draw(NamedTuple):
    """Decisions of one site: the seed, which stream of it, and the share that is dropped."""

    seed: Tensor  # [1] int64, on the device
    stream: int
    share: float

    @property
    def level(self) -> int:
        """The share in units of 2 ** -31."""
        return min(round(self.share * _LEVELS), int(_LEVELS) - 1)

    @property
    def kept(self) -> float:
        """Factor on what is kept."""
        return 1.0 / (1.0 - self.share)


class Codes(NamedTuple):
    """The codes of all pairs of a batch; see `attention_kernels`."""

    values: Tensor  # [B, t, t] int16
    farthest: Tensor  # [B] int32
    slots: int
    virtual: int


def power_of_two(value: int, least: int = 16) -> int:
    """Gives the next power of two."""
    return max(least, 1 << (value - 1).bit_length())


def query_block(slots: int) -> tuple[int, int]:
    """Gives queries per pass and warps of an attention program."""
    return (16, 1) if slots <= 64 else (16, 2)


def make_codes(spd: Tensor, real: Tensor, virtual: int, draw: Draw) -> Codes:
    """Gives the codes of all pairs; `draw` says which lose their bias.

    Args:
        spd: [B, s, s] uint8.
        real: [B, s] bool.
        virtual: Number of virtual nodes.
        draw: Share of pairs that lose their bias.
    """
    batch, slots, _ = spd.shape
    t = slots + virtual
    values = spd.new_empty((batch, t, t), dtype=torch.int16)
    farthest = spd.new_empty(batch, dtype=torch.int32)
    attention_kernels.pair_codes_kernel[(batch,)](
        spd.contiguous(),
        real.contiguous().view(torch.uint8),
        values,
        farthest,
        draw.seed,
        draw.level,
        S=slots,
        M=virtual,
        BLOCK_I=16,
        BLOCK=power_of_two(t),
        DROP=draw.share > 0.0,
        num_warps=2,
    )
    return Codes(values, farthest, slots, virtual)


def flat_table(table: Tensor) -> Tensor:
    """Gives a bias table as the kernels read it: [H, codes] float32, in powers of two."""
    return (table.detach().float() * LOG2_E).t().contiguous()


def _precision(like: Tensor) -> str:
    # As PyTorch's own products: exact unless told otherwise.
    fast = like.is_cuda and torch.backends.cuda.matmul.allow_tf32
    return "tf32" if fast else "ieee"


def attend_forward(
    qkv: Tensor, codes: Codes, table: Tensor, heads: int, draw: Draw
) -> tuple[Tensor, Tensor]:
    """Gives the mixed values [B, t, F] and the logarithms of the softmax's sums [B, H, t].

    Args:
        qkv: [B, t, 3 F], contiguous.
        codes: Of the pairs.
        table: See `flat_table`.
        heads: Number of heads.
        draw: Attention weights to drop.
    """
    batch, t, triple = qkv.shape
    width = triple // 3
    out = qkv.new_empty((batch, t, width))
    lse = qkv.new_empty((batch, heads, t), dtype=torch.float32)
    per_head = width // heads
    block, warps = query_block(t)
    attention_kernels.attend_forward_kernel[(batch * heads,)](
        qkv,
        codes.values,
        table,
        out,
        lse,
        draw.seed,
        draw.stream,
        draw.level,
        draw.kept,
        LOG2_E * per_head**-0.5,
        T=t,
        H=heads,
        D=per_head,
        CODES=table.shape[1],
        BLOCK_I=block,
        BLOCK=power_of_two(t),
        BLOCK_D=power_of_two(per_head),
        DROP=draw.share > 0.0,
        PRECISION=_precision(qkv),
        num_warps=warps,
    )
    return out, lse


class AttendSlopes(NamedTuple):
    """What the backward pass of attention gives."""

    qkv: Tensor  # [B, t, 3 F]
    bias: Tensor  # [3 F] float32: summed over rows and slots
    table: Tensor  # [codes, H] float32


def attend_backward(
    slope: Tensor,
    qkv: Tensor,
    codes: Codes,
    table: Tensor,
    lse: Tensor,
    draw: Draw,
    distances: bool = True,
) -> AttendSlopes:
    """Gives the slopes of qkv and of the bias table.

    Args:
        slope: Of the output, [B, t, F], contiguous.
        qkv: As in the forward pass.
        codes: As in the forward pass.
        table: As in the forward pass.
        lse: What the forward pass gave.
        draw: As in the forward pass.
        distances: Whether distances have a bias that is learned.
    """
    batch, t, width = slope.shape
    heads, size = table.shape
    virtual = codes.virtual
    out = torch.empty_like(qkv)
    sums = qkv.new_empty((batch, 3 * width), dtype=torch.float32)
    pairs = 2 * virtual + virtual * virtual
    near = qkv.new_empty((batch, heads, NEAR + pairs), dtype=torch.float32)
    beyond = qkv.new_zeros((heads, 256), dtype=torch.int64)
    per_head = width // heads
    block, warps = query_block(t)
    attention_kernels.attend_backward_kernel[(batch * heads,)](
        qkv,
        codes.values,
        codes.farthest,
        table,
        slope,
        lse,
        out,
        sums,
        near,
        beyond,
        draw.seed,
        draw.stream,
        draw.level,
        draw.kept,
        LOG2_E * per_head**-0.5,
        per_head**-0.5,
        S=codes.slots,
        M=virtual,
        H=heads,
        D=per_head,
        CODES=size,
        BLOCK_I=block,
        BLOCK=power_of_two(t),
        BLOCK_D=power_of_two(per_head),
        DROP=draw.share > 0.0,
        DISTANCES=distances,
        PRECISION=_precision(qkv),
        num_warps=warps,
    )
    found = near.sum(0)  # [H, NEAR + pairs]
    if distances:
        spread = beyond.double().mul_(2.0**-40).float()
        spread[:, :NEAR] = found[:, :NEAR]
        spread = spread.roll(-2, 1)  # the kernel counts no path and far as 1 and 0
    else:
        spread = found.new_zeros(heads, 256)
    whole = torch.cat([spread, found.new_zeros(heads, 2), found[:, NEAR:]], 1)
    return AttendSlopes(out, sums.sum(0), whole.t())


def _row_blocks(rows: int, width: int) -> tuple[int, int, int, int]:
    """Gives block of rows, block of channels, programs and warps."""
    block_f = power_of_two(width)
    block_r = max(1, 2048 // block_f)
    programs = max(1, min(_PROGRAMS, -(-rows // block_r)))
    return block_r, block_f, programs, 4 if block_f <= 2048 else 8


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
    block_r, block_f, programs, warps = _row_blocks(rows, width)
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
    weight: Tensor  # [F] float32
    bias: Tensor  # [F] float32
    branch_sum: Tensor  # [F] float32
    normed: Tensor | None  # [R, F]


def add_norm_backward(
    h: Tensor,
    slope: Tensor,
    carried: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    draw: Draw | None,
    again: bool,
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
    """
    rows, width = h.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width)
    out = torch.empty_like(h) if carried is None else carried
    branch = None if draw is None else torch.empty_like(h)
    normed = torch.empty_like(h) if again else None
    sums = h.new_empty((programs, 3, width), dtype=torch.float32)
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
    weight_sum, bias_sum, branch_sum = sums.sum(0)
    return NormSlopes(out, branch, weight_sum, bias_sum, branch_sum, normed)


def gelu(inner: Tensor) -> Tensor:
    """Gives GELU by the error function."""
    out = torch.empty_like(inner)
    count, block = inner.numel(), 1024
    row_kernels.gelu_forward_kernel[(-(-count // block),)](inner, out, count, BLOCK=block)
    return out


def gelu_backward(inner: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Replaces `slope` by that of the input; gives GELU's output and the sum of slopes.

    Args:
        inner: GELU's input, [R, F].
        slope: Of its output, [R, F].
    """
    rows, width = inner.shape
    block_r, block_f, programs, warps = _row_blocks(rows, width)
    again = torch.empty_like(inner)
    sums = inner.new_empty((programs, width), dtype=torch.float32)
    row_kernels.gelu_backward_kernel[(programs,)](
        inner,
        slope,
        again,
        sums,
        rows,
        F=width,
        BLOCK_R=block_r,
        BLOCK_F=block_f,
        num_warps=warps,
    )
    return again, sums.sum(0)


def readout(normed: Tensor, real: Tensor, weight: Tensor) -> Tensor:
    """Gives the ego plus the weighted members, [B, F] float32.

    Args:
        normed: [B, t, F], contiguous.
        real: [B, s] bool.
        weight: Of the scores, [F].
    """
    batch, t, width = normed.shape
    out = normed.new_empty((batch, width), dtype=torch.float32)
    row_kernels.readout_forward_kernel[(batch,)](
        normed,
        real.view(torch.uint8),
        weight,
        out,
        S=real.shape[1],
        T=t,
        F=width,
        BLOCK=power_of_two(t),
        BLOCK_F=power_of_two(width),
        num_warps=4,
    )
    return out


def readout_backward(
    slope: Tensor, normed: Tensor, real: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Gives the slopes of `normed` and of the weight.

    Args:
        slope: Of the output, [B, F] float32.
        normed: As in the forward pass.
        real: As in the forward pass.
        weight: As in the forward pass.
    """
    batch, t, width = normed.shape
    programs = max(1, min(_PROGRAMS, batch))
    out = torch.empty_like(normed)
    sums = normed.new_empty((programs, width), dtype=torch.float32)
    row_kernels.readout_backward_kernel[(programs,)](
        normed,
        real.view(torch.uint8),
        weight,
        slope,
        out,
        sums,
        batch,
        S=real.shape[1],
        T=t,
        F=width,
        BLOCK=power_of_two(t),
        BLOCK_F=power_of_two(width),
        num_warps=4,
    )
    return out, sums.sum(0)
