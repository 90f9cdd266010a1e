"""Slot-wise operations of a layer: residual sum, dropout, norm, GELU; and the readout.

A program goes through blocks of slots with a stride of the number of programs. Sums over all slots
(gradients of weights and biases) are kept per program and place of the block, without
synchronisation, and added up afterwards in a fixed order.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import token_rows
from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key


@triton.jit(do_not_specialize=["stream", "level"])
def add_norm_forward_kernel(
    stream_in,  # [R, F]: residual stream
    branch,  # [R, F]: output of a block, added to it
    stream_out,  # [R, F]
    normed,  # [R, F]
    weight,
    bias,
    seed,
    stream,
    level,
    keep_scale,
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
                drop = dropped(key[:, None], channel[None, :], level)
                added = tl.where(drop, 0.0, added * keep_scale)
            # Rounded to the stored precision, so that the backward pass uses the same numbers.
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
    h_in,  # [R, F]: input of the norm
    normed_grad,  # [R, F]
    stream_grad,  # [R, F]: gradient that reaches the sum past the norm
    weight,
    bias,
    out,  # [R, F]: gradient of the sum
    branch_grad,  # [R, F]
    normed,  # [R, F], out: output of the norm, recomputed for the gradients of weights
    sums,  # [programs, 3, F] float32: gradients of weight, bias, and the branch's bias
    seed,
    stream,
    level,
    keep_scale,
    eps,
    rows,
    F: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
    CARRY: tl.constexpr,
    ADD: tl.constexpr,
    DROP: tl.constexpr,
    RECOMPUTE: tl.constexpr,
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
        grad_in = tl.load(normed_grad + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(h, 1) / F
        centred = tl.where(inside, h - mean[:, None], 0.0)
        spread = tl.rsqrt(tl.sum(centred * centred, 1) / F + eps)
        unit = centred * spread[:, None]
        if RECOMPUTE:
            y = unit * scale[None, :] + shift[None, :]
            tl.store(normed + at, y.to(normed.dtype.element_ty), mask=inside)
        weight_sum += grad_in * unit
        bias_sum += grad_in
        through = grad_in * scale[None, :]
        first = tl.sum(through, 1) / F
        second = tl.sum(through * unit, 1) / F
        grad = (through - first[:, None] - unit * second[:, None]) * spread[:, None]
        if CARRY:
            grad += tl.load(stream_grad + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + at, grad.to(out.dtype.element_ty), mask=inside)
        if ADD:
            if DROP:
                key = row_key(stream_key(seed, stream), row)
                drop = dropped(key[:, None], channel[None, :], level)
                grad = tl.where(drop, 0.0, grad * keep_scale)
            grad = tl.where(inside, grad, 0.0)
            tl.store(branch_grad + at, grad.to(branch_grad.dtype.element_ty), mask=inside)
            branch_sum += grad
    total = sums + tl.program_id(0) * (3 * F) + channel
    tl.store(total, tl.sum(weight_sum, 0), mask=channel < F)
    tl.store(total + F, tl.sum(bias_sum, 0), mask=channel < F)
    if ADD:
        tl.store(total + 2 * F, tl.sum(branch_sum, 0), mask=channel < F)


@triton.jit
def gelu_forward_kernel(inner, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(inner + at, mask=at < count, other=0.0).to(tl.float32)
    cdf = 0.5 * (1.0 + tl.erf(u * 0.7071067811865476))
    tl.store(out + at, (u * cdf).to(out.dtype.element_ty), mask=at < count)


@triton.jit
def gelu_backward_kernel(
    inner,  # [R, F]
    grad,  # [R, F]: gradient of the output; overwritten by that of the input
    out,  # [R, F]: GELU's output, recomputed; may be `inner`
    sums,  # [programs, F] float32: gradients of the inner layer's bias
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
        out_grad = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
        cdf = 0.5 * (1.0 + tl.erf(u * 0.7071067811865476))
        density = 0.3989422804014327 * tl.exp(-0.5 * u * u)
        inner_grad = out_grad * (cdf + u * density)
        tl.store(out + at, (u * cdf).to(out.dtype.element_ty), mask=inside)
        tl.store(grad + at, inner_grad.to(grad.dtype.element_ty), mask=inside)
        total += inner_grad
    tl.store(sums + tl.program_id(0) * F + channel, tl.sum(total, 0), mask=channel < F)


@triton.jit
def members_of(
    real, offsets, row, batch, i, S: tl.constexpr, T: tl.constexpr, PACKED: tl.constexpr
):
    """Return a token's first row, its rows, and which of places `i` are nodes and slots."""
    first, length = token_rows(offsets, row, T, PACKED)
    if PACKED:
        # All slots hold nodes, except that of an ego that is padding.
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
    probability = power / tl.where(total > 0.0, total, 1.0)
    probability += tl.where(i == 0, 1.0, 0.0)  # the ego itself
    mixed = tl.sum(h * probability[:, None], 0)
    tl.store(out + row * F + channel, mixed.to(out.dtype.element_ty), mask=channel < F)


@triton.jit
def readout_backward_kernel(
    normed,
    real,
    weight,
    offsets,
    out_grad,  # [B, F]
    out,  # [R, F]: gradient of normed, zeros after the slots
    sums,  # [programs, F] float32: gradient of the weight
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
    weight_grad = tl.zeros([BLOCK_F], tl.float32)
    for at in range(tl.program_id(0), tokens, tl.num_programs(0)):
        row = tl.zeros([], tl.int64) + at
        first, length, present, slot = members_of(real, offsets, row, batch, i, S, T, PACKED)
        inside = slot[:, None] & (channel < F)[None, :]
        place = (first + i[:, None]) * F + channel[None, :]
        h = tl.load(normed + place, mask=inside, other=0.0).to(tl.float32)
        scores = tl.where(present, tl.sum(h * w[None, :], 1), -1.0e30)
        power = tl.where(present, tl.exp(scores - tl.max(scores, 0)), 0.0)
        total = tl.sum(power, 0)
        probability = power / tl.where(total > 0.0, total, 1.0)
        z = tl.load(
            out_grad + row * F + channel, mask=channel < tl.where(row < batch, F, 0), other=0.0
        )
        z = z.to(tl.float32)
        probability_grad = tl.sum(h * z[None, :], 1)
        score_grad = probability * (probability_grad - tl.sum(probability * probability_grad, 0))
        weight_grad += tl.sum(score_grad[:, None] * h, 0)
        probability += tl.where(i == 0, 1.0, 0.0)
        grad = probability[:, None] * z[None, :] + score_grad[:, None] * w[None, :]
        in_token = (i < length)[:, None] & (channel < F)[None, :]
        grad = tl.where(slot[:, None], grad, 0.0)
        tl.store(out + place, grad.to(out.dtype.element_ty), mask=in_token)
    tl.store(sums + tl.program_id(0) * F + channel, weight_grad, mask=channel < F)
