"""What a layer does to each slot by itself: residual sum, dropout, norm, GELU.

A program goes over blocks of slots in steps of the number of programs. Sums over all slots (slopes
of weights and biases) are kept per program and place of the block, where no thread waits for
another, and added up afterwards, in one order.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import token_rows
from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key


@triton.jit(do_not_specialize=["stream", "level"])
def add_norm_forward_kernel(
    stream_in,  # [R, F]: the sum so far
    branch,  # [R, F]: what a block adds to it
    stream_out,  # [R, F]
    normed,  # [R, F]
    weight,
    bias,
    seed,
    stream,
    level,
    kept,
    eps,
    rows,
    F: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
    ADD: tl.constexpr,
    DROP: tl.constexpr,
):
    channel = tl.arange(0, BLOCK_F)
    scale = tl.load(weight + channel, mask=channel < F, other=0.0).to(tl.float32)
    shift = tl.load(bias + channel, mask=channel < F, other=0.0).to(tl.float32)
    for start in range(tl.program_id(0) * BLOCK_R, rows, tl.num_programs(0) * BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < rows)[:, None] & (channel < F)[None, :]
        at = row.to(tl.int64)[:, None] * F + channel[None, :]
        h = tl.load(stream_in + at, mask=inside, other=0.0).to(tl.float32)
        if ADD:
            added = tl.load(branch + at, mask=inside, other=0.0).to(tl.float32)
            if DROP:
                key = row_key(stream_key(seed, stream), row)
                gone = dropped(key[:, None], channel[None, :], level)
                added = tl.where(gone, 0.0, added * kept)
            # Rounded as it is stored, so that the backward pass sees the same numbers.
            rounded = (h + added).to(stream_out.dtype.element_ty)
            tl.store(stream_out + at, rounded, mask=inside)
            h = rounded.to(tl.float32)
        mean = tl.sum(h, 1) / F
        centred = tl.where(inside, h - mean[:, None], 0.0)
        spread = tl.rsqrt(tl.sum(centred * centred, 1) / F + eps)
        y = centred * spread[:, None] * scale[None, :] + shift[None, :]
        tl.store(normed + at, y.to(normed.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["stream", "level"])
def add_norm_backward_kernel(
    h_in,  # [R, F]: what was normed
    normed_slope,  # [R, F]
    stream_slope,  # [R, F]: from the sum's own way on
    weight,
    bias,
    out,  # [R, F]: slope of the sum
    branch_slope,  # [R, F]
    normed,  # [R, F]: the norm once more, for the weights behind it
    sums,  # [programs, 3, F] float32: slopes of weight, bias, and the branch's own bias
    seed,
    stream,
    level,
    kept,
    eps,
    rows,
    F: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
    CARRY: tl.constexpr,
    ADD: tl.constexpr,
    DROP: tl.constexpr,
    AGAIN: tl.constexpr,
):
    channel = tl.arange(0, BLOCK_F)
    scale = tl.load(weight + channel, mask=channel < F, other=0.0).to(tl.float32)
    shift = tl.load(bias + channel, mask=channel < F, other=0.0).to(tl.float32)
    weight_sum = tl.zeros([BLOCK_R, BLOCK_F], tl.float32)
    bias_sum = tl.zeros([BLOCK_R, BLOCK_F], tl.float32)
    branch_sum = tl.zeros([BLOCK_R, BLOCK_F], tl.float32)
    for start in range(tl.program_id(0) * BLOCK_R, rows, tl.num_programs(0) * BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < rows)[:, None] & (channel < F)[None, :]
        at = row.to(tl.int64)[:, None] * F + channel[None, :]
        h = tl.load(h_in + at, mask=inside, other=0.0).to(tl.float32)
        above = tl.load(normed_slope + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(h, 1) / F
        centred = tl.where(inside, h - mean[:, None], 0.0)
        spread = tl.rsqrt(tl.sum(centred * centred, 1) / F + eps)
        unit = centred * spread[:, None]
        if AGAIN:
            y = unit * scale[None, :] + shift[None, :]
            tl.store(normed + at, y.to(normed.dtype.element_ty), mask=inside)
        weight_sum += above * unit
        bias_sum += above
        through = above * scale[None, :]
        first = tl.sum(through, 1) / F
        second = tl.sum(through * unit, 1) / F
        slope = (through - first[:, None] - unit * second[:, None]) * spread[:, None]
        if CARRY:
            slope += tl.load(stream_slope + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + at, slope.to(out.dtype.element_ty), mask=inside)
        if ADD:
            if DROP:
                key = row_key(stream_key(seed, stream), row)
                gone = dropped(key[:, None], channel[None, :], level)
                slope = tl.where(gone, 0.0, slope * kept)
            slope = tl.where(inside, slope, 0.0)
            tl.store(branch_slope + at, slope.to(branch_slope.dtype.element_ty), mask=inside)
            branch_sum += slope
    found = sums + tl.program_id(0) * (3 * F) + channel
    tl.store(found, tl.sum(weight_sum, 0), mask=channel < F)
    tl.store(found + F, tl.sum(bias_sum, 0), mask=channel < F)
    if ADD:
        tl.store(found + 2 * F, tl.sum(branch_sum, 0), mask=channel < F)


@triton.jit
def gelu_forward_kernel(inner, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(inner + at, mask=at < count, other=0.0).to(tl.float32)
    below = 0.5 * (1.0 + tl.erf(u * 0.7071067811865476))
    tl.store(out + at, (u * below).to(out.dtype.element_ty), mask=at < count)


@triton.jit
def gelu_backward_kernel(
    inner,  # [R, F]
    slope,  # [R, F]: of GELU's output; replaced by that of its input
    again,  # [R, F]: GELU's output once more; may be its input
    sums,  # [programs, F] float32: slopes of the inner layer's bias
    rows,
    F: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
):
    channel = tl.arange(0, BLOCK_F)
    total = tl.zeros([BLOCK_R, BLOCK_F], tl.float32)
    for start in range(tl.program_id(0) * BLOCK_R, rows, tl.num_programs(0) * BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < rows)[:, None] & (channel < F)[None, :]
        at = row.to(tl.int64)[:, None] * F + channel[None, :]
        u = tl.load(inner + at, mask=inside, other=0.0).to(tl.float32)
        above = tl.load(slope + at, mask=inside, other=0.0).to(tl.float32)
        below = 0.5 * (1.0 + tl.erf(u * 0.7071067811865476))
        density = 0.3989422804014327 * tl.exp(-0.5 * u * u)
        under = above * (below + u * density)
        tl.store(again + at, (u * below).to(again.dtype.element_ty), mask=inside)
        tl.store(slope + at, under.to(slope.dtype.element_ty), mask=inside)
        total += under
    tl.store(sums + tl.program_id(0) * F + channel, tl.sum(total, 0), mask=channel < F)


@triton.jit
def members_of(
    real, offsets, row, batch, i, S: tl.constexpr, T: tl.constexpr, PACKED: tl.constexpr
):
    """Gives the first row of a token, its rows, and which of places `i` are nodes and slots."""
    first, length = token_rows(offsets, row, T, PACKED)
    if PACKED:
        # All slots hold nodes but that of an ego that is padding.
        slot = i < tl.where(row < batch, length - (T - S), 0)
        ego = tl.load(real + row * S + i, mask=slot & (i == 0), other=0) != 0
        present = slot & ((i > 0) | ego)
    else:
        slot = i < S
        present = tl.load(real + row * S + i, mask=slot, other=0) != 0
    return first, length, present, slot


@triton.jit
def readout_forward_kernel(
    normed,  # [R, F]
    real,  # [B, S] uint8
    weight,  # [F]
    offsets,  # see `packing`
    out,  # [B, F]
    batch,
    S: tl.constexpr,
    T: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_F: tl.constexpr,
    PACKED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    channel = tl.arange(0, BLOCK_F)
    first, _, present, slot = members_of(real, offsets, row, batch, i, S, T, PACKED)
    inside = slot[:, None] & (channel < F)[None, :]
    h = tl.load(normed + (first + i[:, None]) * F + channel[None, :], mask=inside, other=0.0)
    h = h.to(tl.float32)
    w = tl.load(weight + channel, mask=channel < F, other=0.0).to(tl.float32)
    scores = tl.where(present, tl.sum(h * w[None, :], 1), -1.0e30)
    power = tl.where(present, tl.exp(scores - tl.max(scores, 0)), 0.0)
    total = tl.sum(power, 0)
    share = power / tl.where(total > 0.0, total, 1.0)
    share += tl.where(i == 0, 1.0, 0.0)  # the ego itself
    mixed = tl.sum(h * share[:, None], 0)
    tl.store(out + row * F + channel, mixed.to(out.dtype.element_ty), mask=channel < F)


@triton.jit
def readout_backward_kernel(
    normed,
    real,
    weight,
    offsets,
    above,  # [B, F]
    out,  # [R, F]: slope of normed, zeros behind the slots
    sums,  # [programs, F] float32: slope of the weight
    batch,
    tokens,
    S: tl.constexpr,
    T: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_F: tl.constexpr,
    PACKED: tl.constexpr,
):
    i = tl.arange(0, BLOCK)
    channel = tl.arange(0, BLOCK_F)
    w = tl.load(weight + channel, mask=channel < F, other=0.0).to(tl.float32)
    total_slope = tl.zeros([BLOCK_F], tl.float32)
    for at in range(tl.program_id(0), tokens, tl.num_programs(0)):
        row = tl.zeros([], tl.int64) + at
        first, length, present, slot = members_of(real, offsets, row, batch, i, S, T, PACKED)
        inside = slot[:, None] & (channel < F)[None, :]
        place = (first + i[:, None]) * F + channel[None, :]
        h = tl.load(normed + place, mask=inside, other=0.0).to(tl.float32)
        scores = tl.where(present, tl.sum(h * w[None, :], 1), -1.0e30)
        power = tl.where(present, tl.exp(scores - tl.max(scores, 0)), 0.0)
        total = tl.sum(power, 0)
        share = power / tl.where(total > 0.0, total, 1.0)
        z = tl.load(
            above + row * F + channel, mask=channel < tl.where(row < batch, F, 0), other=0.0
        )
        z = z.to(tl.float32)
        share_slope = tl.sum(h * z[None, :], 1)
        score_slope = share * (share_slope - tl.sum(share * share_slope, 0))
        total_slope += tl.sum(score_slope[:, None] * h, 0)
        share += tl.where(i == 0, 1.0, 0.0)
        slope = share[:, None] * z[None, :] + score_slope[:, None] * w[None, :]
        behind = (i < length)[:, None] & (channel < F)[None, :]
        slope = tl.where(slot[:, None], slope, 0.0)
        tl.store(out + place, slope.to(out.dtype.element_ty), mask=behind)
    tl.store(sums + tl.program_id(0) * F + channel, total_slope, mask=channel < F)
