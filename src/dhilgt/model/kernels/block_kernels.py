"""A layer after its attention as one kernel: two residual sums, their norms and three products.

A program computes all steps for a block of slots; intermediate results stay on the chip.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import product
from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key


@triton.jit
def times_weight(
    a,
    weight,
    bias,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return a weight^T + bias in float32, [rows, BLOCK_OUT]."""
    column = tl.arange(0, BLOCK_IN)
    out_row = tl.arange(0, BLOCK_OUT)
    inside = (out_row < OUT)[:, None] & (column < IN)[None, :]
    w = tl.load(weight + out_row[:, None] * IN + column[None, :], mask=inside, other=0.0)
    shift = tl.load(bias + out_row, mask=out_row < OUT, other=0.0).to(tl.float32)
    return product(a, tl.trans(w), PRECISION) + shift[None, :]


@triton.jit
def normalise(h, weight, bias, eps, F: tl.constexpr, BLOCK_F: tl.constexpr):
    """Return the layer norm of float32 rows whose channels from F on are zero."""
    channel = tl.arange(0, BLOCK_F)
    scale = tl.load(weight + channel, mask=channel < F, other=0.0).to(tl.float32)
    shift = tl.load(bias + channel, mask=channel < F, other=0.0).to(tl.float32)
    mean = tl.sum(h, 1) / F
    centred = tl.where((channel < F)[None, :], h - mean[:, None], 0.0)
    spread = tl.rsqrt(tl.sum(centred * centred, 1) / F + eps)
    return centred * spread[:, None] * scale[None, :] + shift[None, :]


@triton.jit(do_not_specialize=["first_stream", "second_stream", "level"])
def block_kernel(
    mixed,  # [R, F]: output of attention
    h,  # [R, F]: residual stream
    middle,  # [R, F], out: residual stream after attention
    inner,  # [R, INNER], out: input of GELU
    out,  # [R, F], out: residual stream after the layer
    normed,  # [R, F], out: its norm
    projection,
    projection_bias,
    ffn_norm,
    ffn_shift,
    ffn_in,
    ffn_in_bias,
    ffn_out,
    ffn_out_bias,
    next_norm,
    next_shift,
    seed,
    first_stream,
    second_stream,
    level,
    keep_scale,
    eps,
    rows,
    F: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_INNER: tl.constexpr,
    DROP: tl.constexpr,
    KEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    channel = tl.arange(0, BLOCK_F)
    inside = (row < rows)[:, None] & (channel < F)[None, :]
    at = row.to(tl.int64)[:, None] * F + channel[None, :]
    a = tl.load(mixed + at, mask=inside, other=0.0)
    added = times_weight(a, projection, projection_bias, F, F, BLOCK_F, BLOCK_F, PRECISION)
    if DROP:
        key = row_key(stream_key(seed, first_stream), row)
        drop = dropped(key[:, None], channel[None, :], level)
        added = tl.where(drop, 0.0, added * keep_scale)
    # Rounded to the stored precision, so that the backward pass uses the same numbers.
    total = (tl.load(h + at, mask=inside, other=0.0).to(tl.float32) + added).to(a.dtype)
    if KEEP:
        tl.store(middle + at, total, mask=inside)
    y = normalise(total.to(tl.float32), ffn_norm, ffn_shift, eps, F, BLOCK_F).to(a.dtype)
    u = times_weight(y, ffn_in, ffn_in_bias, F, INNER, BLOCK_F, BLOCK_INNER, PRECISION).to(a.dtype)
    if KEEP:
        place = tl.arange(0, BLOCK_INNER)
        where = row.to(tl.int64)[:, None] * INNER + place[None, :]
        tl.store(inner + where, u, mask=(row < rows)[:, None] & (place < INNER)[None, :])
    u = u.to(tl.float32)
    g = (u * (0.5 * (1.0 + tl.erf(u * 0.7071067811865476)))).to(a.dtype)
    added = times_weight(g, ffn_out, ffn_out_bias, INNER, F, BLOCK_INNER, BLOCK_F, PRECISION)
    if DROP:
        key = row_key(stream_key(seed, second_stream), row)
        drop = dropped(key[:, None], channel[None, :], level)
        added = tl.where(drop, 0.0, added * keep_scale)
    total = (total.to(tl.float32) + added).to(a.dtype)
    tl.store(out + at, total, mask=inside)
    y = normalise(total.to(tl.float32), next_norm, next_shift, eps, F, BLOCK_F)
    tl.store(normed + at, y.to(a.dtype), mask=inside)
