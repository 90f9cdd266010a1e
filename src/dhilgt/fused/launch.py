"""Launches of the attention kernels, with their block sizes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dhilgt.fused import attention_kernels

LOG2_E = math.log2(math.e)
NEAR = 32
_LEVELS = 2.0**31

QUERY_BLOCKS = {
    (2, 16): (16, 1),
    (2, 32): (32, 2),
    (2, 64): (64, 4),
    (2, 128): (16, 8),
    (4, 16): (16, 2),
    (4, 32): (16, 4),
    (4, 64): (16, 4),
    (4, 128): (16, 8),
}
"""Queries per pass and warps of a program, by bytes per number and slots (a power of two).

The compiler reports no spilled registers for these at 16 channels per head, backward included.
"""


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
    if not like.is_cuda:
        return "interpreted"
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


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
    block, warps = QUERY_BLOCKS[qkv.element_size(), power_of_two(t)]
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
    block, warps = QUERY_BLOCKS[qkv.element_size(), power_of_two(t)]
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
