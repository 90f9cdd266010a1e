"""The way back through attention: weights are computed again from what the forward pass kept."""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import (
    PLACES,
    load_block,
    load_codes,
    product,
    token_rows,
)
from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key


@triton.jit
def weights_again(query, key, above, value, bias, height, scale, PRECISION: tl.constexpr):
    """Gives the softmax's weights, and the slopes of the weights as they were used."""
    scores = product(query, tl.trans(key), PRECISION) * scale + bias
    weight = tl.exp2(scores - height[:, None])
    return weight, product(above, tl.trans(value), PRECISION)


@triton.jit
def slopes_of_head(
    qkv,
    codes,
    table,
    slope,
    lse,
    out,
    sums,
    score_slopes,
    seed,
    stream,
    level,
    kept,
    scale,
    plain_scale,
    row,
    head,
    first,
    length,
    T: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CODES: tl.constexpr,
    BLOCK_I: tl.constexpr,
    KEYS: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    LEARNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Goes back through one head of a token; reads all of its q, k and v before it writes there."""
    STEP: tl.constexpr = 3 * H * D
    j = tl.arange(0, KEYS)
    channel = tl.arange(0, BLOCK_D)
    at = first * STEP + head * D
    key = load_block(qkv + at + H * D, 0, length, D, STEP, KEYS, BLOCK_D)
    value = load_block(qkv + at + 2 * H * D, 0, length, D, STEP, KEYS, BLOCK_D)
    key_slope = tl.zeros([KEYS, BLOCK_D], tl.float32)
    value_slope = tl.zeros([KEYS, BLOCK_D], tl.float32)
    if REST > 0:
        j_rest = KEYS + tl.arange(0, REST)
        key_rest = load_block(qkv + at + H * D, KEYS, length, D, STEP, REST, BLOCK_D)
        value_rest = load_block(qkv + at + 2 * H * D, KEYS, length, D, STEP, REST, BLOCK_D)
        key_slope_rest = tl.zeros([REST, BLOCK_D], tl.float32)
        value_slope_rest = tl.zeros([REST, BLOCK_D], tl.float32)
    query_sum = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
    biases = table + head * CODES
    pairs = score_slopes + tl.program_id(0).to(tl.int64) * (T * T)
    for start in range(0, length, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)
        own = (i < length)[:, None] & (channel < D)[None, :]
        mine = at + i[:, None] * STEP + channel[None, :]
        query = tl.load(qkv + mine, mask=own, other=0.0)
        place = first * (H * D) + i[:, None] * (H * D) + head * D + channel[None, :]
        above = tl.load(slope + place, mask=own, other=0.0)
        height = tl.load(lse + (row * H + head) * T + i, mask=i < length, other=1.0e30)
        bias = tl.load(biases + load_codes(codes, row, i, 0, length, T, KEYS, CODES))
        weight, weight_slope = weights_again(
            query, key, above, value, bias, height, scale, PRECISION
        )
        used = weight
        if DROP:
            mask_key = row_key(stream_key(seed, stream), row * H + head)
            gone = dropped(mask_key, i[:, None] * PLACES + j[None, :], level)
            used = tl.where(gone, 0.0, weight * kept)
            weight_slope = tl.where(gone, 0.0, weight_slope * kept)
        mean = tl.sum(weight * weight_slope, 1)
        if REST > 0:
            bias = tl.load(biases + load_codes(codes, row, i, KEYS, length, T, REST, CODES))
            weight_rest, weight_slope_rest = weights_again(
                query, key_rest, above, value_rest, bias, height, scale, PRECISION
            )
            used_rest = weight_rest
            if DROP:
                mask_key = row_key(stream_key(seed, stream), row * H + head)
                gone = dropped(mask_key, i[:, None] * PLACES + j_rest[None, :], level)
                used_rest = tl.where(gone, 0.0, weight_rest * kept)
                weight_slope_rest = tl.where(gone, 0.0, weight_slope_rest * kept)
            mean += tl.sum(weight_rest * weight_slope_rest, 1)
        score_slope = (weight * (weight_slope - mean[:, None])).to(query.dtype)
        query_slope = product(score_slope, key, PRECISION)
        key_slope += product(tl.trans(score_slope), query, PRECISION)
        value_slope += product(tl.trans(used.to(above.dtype)), above, PRECISION)
        if LEARNED:
            inside = (i < length)[:, None] & (j < length)[None, :]
            tl.store(pairs + i[:, None] * T + j[None, :], score_slope, mask=inside)
        if REST > 0:
            score_slope = (weight_rest * (weight_slope_rest - mean[:, None])).to(query.dtype)
            query_slope += product(score_slope, key_rest, PRECISION)
            key_slope_rest += product(tl.trans(score_slope), query, PRECISION)
            value_slope_rest += product(tl.trans(used_rest.to(above.dtype)), above, PRECISION)
            if LEARNED:
                inside = (i < length)[:, None] & (j_rest < length)[None, :]
                tl.store(pairs + i[:, None] * T + j_rest[None, :], score_slope, mask=inside)
        query_slope = query_slope * plain_scale
        query_sum += query_slope
        tl.store(out + mine, query_slope.to(out.dtype.element_ty), mask=own)
    key_slope = key_slope * plain_scale
    key_sum = tl.sum(key_slope, 0)
    value_sum = tl.sum(value_slope, 0)
    inside = (j < length)[:, None] & (channel < D)[None, :]
    theirs = at + j[:, None] * STEP + channel[None, :]
    tl.store(out + H * D + theirs, key_slope.to(out.dtype.element_ty), mask=inside)
    tl.store(out + 2 * H * D + theirs, value_slope.to(out.dtype.element_ty), mask=inside)
    if REST > 0:
        key_slope_rest = key_slope_rest * plain_scale
        key_sum += tl.sum(key_slope_rest, 0)
        value_sum += tl.sum(value_slope_rest, 0)
        inside = (j_rest < length)[:, None] & (channel < D)[None, :]
        theirs = at + j_rest[:, None] * STEP + channel[None, :]
        tl.store(out + H * D + theirs, key_slope_rest.to(out.dtype.element_ty), mask=inside)
        tl.store(out + 2 * H * D + theirs, value_slope_rest.to(out.dtype.element_ty), mask=inside)
    total = sums + row * STEP + head * D + channel
    tl.store(total, tl.sum(query_sum, 0), mask=channel < D)
    tl.store(total + H * D, key_sum, mask=channel < D)
    tl.store(total + 2 * H * D, value_sum, mask=channel < D)


@triton.jit(do_not_specialize=["stream", "level", "first_row"])
def attend_backward_kernel(
    qkv,
    codes,
    table,
    offsets,
    slope,  # [R, H, D]: of the output
    lse,
    out,  # [R, 3, H, D]: slope of qkv; may be qkv itself
    sums,  # [tokens, 3, H, D] float32: the same summed over the slots
    score_slopes,  # [tokens of this launch, H, T, T]
    seed,
    stream,
    level,
    first_row,
    kept,
    scale,  # with log2(e)
    plain_scale,
    T: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CODES: tl.constexpr,
    BLOCK_I: tl.constexpr,
    KEYS: tl.constexpr,
    REST: tl.constexpr,
    SHORT: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    LEARNED: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A program takes a token and a head."""
    row = (tl.program_id(0) // H + first_row).to(tl.int64)
    head = tl.program_id(0) % H
    first, length = token_rows(offsets, row, T, PACKED)
    if PACKED:
        if length <= SHORT:
            slopes_of_head(
                qkv,
                codes,
                table,
                slope,
                lse,
                out,
                sums,
                score_slopes,
                seed,
                stream,
                level,
                kept,
                scale,
                plain_scale,
                row,
                head,
                first,
                length,
                T,
                H,
                D,
                CODES,
                BLOCK_I,
                SHORT,
                0,
                BLOCK_D,
                DROP,
                LEARNED,
                PRECISION,
            )
        else:
            slopes_of_head(
                qkv,
                codes,
                table,
                slope,
                lse,
                out,
                sums,
                score_slopes,
                seed,
                stream,
                level,
                kept,
                scale,
                plain_scale,
                row,
                head,
                first,
                length,
                T,
                H,
                D,
                CODES,
                BLOCK_I,
                KEYS,
                REST,
                BLOCK_D,
                DROP,
                LEARNED,
                PRECISION,
            )
    else:
        slopes_of_head(
            qkv,
            codes,
            table,
            slope,
            lse,
            out,
            sums,
            score_slopes,
            seed,
            stream,
            level,
            kept,
            scale,
            plain_scale,
            row,
            head,
            first,
            length,
            T,
            H,
            D,
            CODES,
            BLOCK_I,
            KEYS,
            REST,
            BLOCK_D,
            DROP,
            LEARNED,
            PRECISION,
        )
