"""Attention over one short row of slots: a program per row and head, the bias looked up inside.

A pair of slots has a code of 16 bits: a distance, one of the codes of virtual nodes, `NO_BIAS`, or
-1 where the query or the key is padding. Codes are made once per forward and shared by all layers
and heads; the bias itself is never held. Scores are in powers of two: the table comes multiplied by
log2(e).
"""

import triton
import triton.language as tl

from dhilgt.fused.random_kernels import dropped, row_key, stream_key

PLACES = tl.constexpr(256)  # a row of places that no block exceeds, so that no mask depends on it
FIRST_VIRTUAL = tl.constexpr(258)
NO_BIAS = tl.constexpr(256)
NEAR = tl.constexpr(32)  # sums of bias gradients kept on the chip: no path, far, distances to 29
LOWEST = tl.constexpr(-1.0e30)
FIXED_POINT = tl.constexpr(1099511627776.0)  # 2 ** 40


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """Gives a b in float32; Triton's interpreter knows no products of bfloat16."""
    if PRECISION == "interpreted":
        return tl.dot(a.to(tl.float32), b.to(tl.float32))
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit(do_not_specialize=["level"])
def pair_codes_kernel(
    spd,  # [B, S, S] uint8
    real,  # [B, S] uint8
    codes,  # [B, T, T] int16, out
    farthest,  # [B] int32, out: the last place of the sums of bias gradients that is needed
    seed,
    level,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK: tl.constexpr,
    DROP: tl.constexpr,
):
    T: tl.constexpr = S + M
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)[None, :]
    key_real = tl.load(real + row * S + j, mask=j < S, other=0) != 0
    key_real = key_real | ((j >= S) & (j < T))
    last = tl.zeros([BLOCK_I], tl.int32)
    for start in range(0, T, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)[:, None]
        query_real = tl.load(real + row * S + i, mask=i < S, other=0) != 0
        query_real = query_real | ((i >= S) & (i < T))
        distance = tl.load(spd + (row * S + i) * S + j, mask=(i < S) & (j < S), other=0)
        code = distance.to(tl.int32)
        if M > 0:
            seen = FIRST_VIRTUAL + (j - S)
            seeing = FIRST_VIRTUAL + M + (i - S)
            among = FIRST_VIRTUAL + 2 * M + M * (i - S) + (j - S)
            code = tl.where(j >= S, seen, code)
            code = tl.where(i >= S, tl.where(j >= S, among, seeing), code)
        if DROP:
            key = row_key(stream_key(seed, tl.full([], 0, tl.int32)), row)
            code = tl.where(dropped(key, i * PLACES + j, level), NO_BIAS, code)
        code = tl.where(query_real & key_real, code, -1)
        tl.store(codes + (row * T + i) * T + j, code.to(tl.int16), mask=(i < T) & (j < T))
        place = tl.where((code >= 0) & (code < NO_BIAS), (code + 2) & 255, 0)
        last = tl.maximum(last, tl.max(place, 1))
    tl.store(farthest + row, tl.max(last, 0))


@triton.jit(do_not_specialize=["stream", "level"])
def attend_forward_kernel(
    qkv,  # [B, T, 3, H, D]
    codes,
    table,  # [H, CODES] float32
    out,  # [B, T, H, D]
    lse,  # [B, H, T] float32: log2 of the sum of powers
    seed,
    stream,
    level,
    kept,
    scale,
    T: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CODES: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = (tl.program_id(0) // H).to(tl.int64)
    head = tl.program_id(0) % H
    j = tl.arange(0, BLOCK)
    channel = tl.arange(0, BLOCK_D)
    inside = (j < T)[:, None] & (channel < D)[None, :]
    at = qkv + row * (T * 3 * H * D) + head * D
    theirs = j[:, None] * (3 * H * D) + channel[None, :]
    key = tl.load(at + H * D + theirs, mask=inside, other=0.0)
    value = tl.load(at + 2 * H * D + theirs, mask=inside, other=0.0)
    for start in range(0, T, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)
        own = (i < T)[:, None] & (channel < D)[None, :]
        query = tl.load(at + i[:, None] * (3 * H * D) + channel[None, :], mask=own, other=0.0)
        scores = product(query, tl.trans(key), PRECISION) * scale
        both = (i < T)[:, None] & (j < T)[None, :]
        code = tl.load(codes + (row * T + i[:, None]) * T + j[None, :], mask=both, other=-1)
        code = code.to(tl.int32)
        seen = code >= 0
        bias = tl.load(table + head * CODES + code, mask=seen, other=0.0)
        scores = tl.where(seen, scores + bias, LOWEST)
        top = tl.max(scores, 1)
        power = tl.where(seen, tl.exp2(scores - top[:, None]), 0.0)
        total = tl.sum(power, 1)
        total = tl.where(total > 0.0, total, 1.0)  # padding sees nothing and gets zeros
        tl.store(lse + (row * H + head) * T + i, top + tl.log2(total), mask=i < T)
        weight = power / total[:, None]
        if DROP:
            mask_key = row_key(stream_key(seed, stream), row * H + head)
            gone = dropped(mask_key, i[:, None] * PLACES + j[None, :], level)
            weight = tl.where(gone, 0.0, weight * kept)
        mixed = product(weight.to(value.dtype), value, PRECISION)
        place = (row * T + i[:, None]) * (H * D) + head * D + channel[None, :]
        tl.store(out + place, mixed.to(out.dtype.element_ty), mask=own)


@triton.jit(do_not_specialize=["stream", "level"])
def attend_backward_kernel(
    qkv,
    codes,
    farthest,
    table,
    slope,  # [B, T, H, D]: of the output
    lse,
    out,  # [B, T, 3, H, D]: slope of qkv
    sums,  # [B, 3, H, D] float32: the same summed over the slots
    near,  # [B, H, NEAR + 2 M + M * M] float32: slopes of the bias
    beyond,  # [H, 256] int64 in fixed point: those of larger distances
    seed,
    stream,
    level,
    kept,
    scale,  # with log2(e)
    plain_scale,
    S: tl.constexpr,
    M: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CODES: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    DISTANCES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    T: tl.constexpr = S + M
    row = (tl.program_id(0) // H).to(tl.int64)
    head = tl.program_id(0) % H
    j = tl.arange(0, BLOCK)
    channel = tl.arange(0, BLOCK_D)
    inside = (j < T)[:, None] & (channel < D)[None, :]
    at = row * (T * 3 * H * D) + head * D
    theirs = at + j[:, None] * (3 * H * D) + channel[None, :]
    key = tl.load(qkv + H * D + theirs, mask=inside, other=0.0)
    value = tl.load(qkv + 2 * H * D + theirs, mask=inside, other=0.0)
    key_slope = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    value_slope = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    query_sum = tl.zeros([BLOCK_D], tl.float32)
    place = tl.arange(0, NEAR)[None, :]
    by_place = tl.zeros([BLOCK_I, NEAR], tl.float32)
    seen_virtual = tl.zeros([BLOCK], tl.float32)
    found = near + (row * H + head) * (NEAR + 2 * M + M * M)
    last = tl.load(farthest + row)
    for start in range(0, T, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)
        own = (i < T)[:, None] & (channel < D)[None, :]
        mine = at + i[:, None] * (3 * H * D) + channel[None, :]
        query = tl.load(qkv + mine, mask=own, other=0.0)
        above = tl.load(
            slope + (row * T + i[:, None]) * (H * D) + head * D + channel[None, :],
            mask=own,
            other=0.0,
        )
        scores = product(query, tl.trans(key), PRECISION) * scale
        both = (i < T)[:, None] & (j < T)[None, :]
        code = tl.load(codes + (row * T + i[:, None]) * T + j[None, :], mask=both, other=-1)
        code = code.to(tl.int32)
        seen = code >= 0
        bias = tl.load(table + head * CODES + code, mask=seen, other=0.0)
        height = tl.load(lse + (row * H + head) * T + i, mask=i < T, other=0.0)
        weight = tl.exp2(tl.where(seen, scores + bias - height[:, None], LOWEST))
        used = weight
        weight_slope = product(above, tl.trans(value), PRECISION)
        if DROP:
            mask_key = row_key(stream_key(seed, stream), row * H + head)
            gone = dropped(mask_key, i[:, None] * PLACES + j[None, :], level)
            used = tl.where(gone, 0.0, weight * kept)
            weight_slope = tl.where(gone, 0.0, weight_slope * kept)
        value_slope += product(tl.trans(used.to(above.dtype)), above, PRECISION)
        mean = tl.sum(weight * weight_slope, 1)
        score_slope = weight * (weight_slope - mean[:, None])  # 0 where not seen
        rounded = score_slope.to(query.dtype)
        query_slope = product(rounded, key, PRECISION) * plain_scale
        tl.store(out + mine, query_slope.to(out.dtype.element_ty), mask=own)
        query_sum += tl.sum(query_slope, 0)
        key_slope += product(tl.trans(rounded), query, PRECISION)
        if DISTANCES:
            spot = tl.where(seen & (code < NO_BIAS), (code + 2) & 255, -1)
            for k in range(0, tl.minimum(last + 1, NEAR)):
                part = tl.sum(tl.where(spot == k, score_slope, 0.0), 1)
                by_place += tl.where(place == k, part[:, None], 0.0)
            for k in range(NEAR, last + 1):
                part = tl.sum(tl.sum(tl.where(spot == k, score_slope, 0.0), 1), 0)
                # Whole numbers add up to the same in any order.
                tl.atomic_add(beyond + head * 256 + k, (part * FIXED_POINT).to(tl.int64))
        if M > 0:
            biased = tl.where(code == NO_BIAS, 0.0, score_slope)
            seen_virtual += tl.sum(tl.where((i < S)[:, None], biased, 0.0), 0)
            if start + BLOCK_I > S:
                seeing = tl.sum(tl.where((j < S)[None, :], biased, 0.0), 1)
                tl.store(found + NEAR + M + (i - S), seeing, mask=(i >= S) & (i < T))
                among = found + NEAR + 2 * M + (i[:, None] - S) * M + (j[None, :] - S)
                tl.store(among, biased, mask=both & (i >= S)[:, None] & (j >= S)[None, :])
    key_slope = key_slope * plain_scale
    tl.store(out + H * D + theirs, key_slope.to(out.dtype.element_ty), mask=inside)
    tl.store(out + 2 * H * D + theirs, value_slope.to(out.dtype.element_ty), mask=inside)
    total = sums + row * (3 * H * D) + head * D + channel
    tl.store(total, query_sum, mask=channel < D)
    tl.store(total + H * D, tl.sum(key_slope, 0), mask=channel < D)
    tl.store(total + 2 * H * D, tl.sum(value_slope, 0), mask=channel < D)
    if DISTANCES:
        tl.store(found + tl.arange(0, NEAR), tl.sum(by_place, 0))
    if M > 0:
        tl.store(found + NEAR + (j - S), seen_virtual, mask=(j >= S) & (j < T))
