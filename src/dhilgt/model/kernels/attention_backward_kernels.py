"""The backward pass of attention; weights are recomputed from what the forward pass kept."""

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
def recompute_weights(query, key, grad, value, bias, log_total, scale, PRECISION: tl.constexpr):
    """Return the softmax's weights, and the gradients of the weights after dropout."""
    scores = product(query, tl.trans(key), PRECISION) * scale + bias
    weight = tl.exp2(scores - log_total[:, None])
    return weight, product(grad, tl.trans(value), PRECISION)


@triton.jit
def head_backward(
    qkv,
    codes,
    table,
    out_grad,
    lse,
    out,
    sums,
    score_grads,
    seed,
    stream,
    level,
    keep_scale,
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
    """Backward pass of one head of a token; reads all of its q, k and v before overwriting them."""
    STEP: tl.constexpr = 3 * H * D
    j = tl.arange(0, KEYS)
    channel = tl.arange(0, BLOCK_D)
    at = first * STEP + head * D
    key = load_block(qkv + at + H * D, 0, length, D, STEP, KEYS, BLOCK_D)
    value = load_block(qkv + at + 2 * H * D, 0, length, D, STEP, KEYS, BLOCK_D)
    key_grad = tl.zeros([KEYS, BLOCK_D], tl.float32)
    value_grad = tl.zeros([KEYS, BLOCK_D], tl.float32)
    if REST > 0:
        j_rest = KEYS + tl.arange(0, REST)
        key_rest = load_block(qkv + at + H * D, KEYS, length, D, STEP, REST, BLOCK_D)
        value_rest = load_block(qkv + at + 2 * H * D, KEYS, length, D, STEP, REST, BLOCK_D)
        key_grad_rest = tl.zeros([REST, BLOCK_D], tl.float32)
        value_grad_rest = tl.zeros([REST, BLOCK_D], tl.float32)
    query_sum = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
    biases = table + head * CODES
    pairs = score_grads + tl.program_id(0).to(tl.int64) * (T * T)
    for start in range(0, length, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)
        own = (i < length)[:, None] & (channel < D)[None, :]
        at_query = at + i[:, None] * STEP + channel[None, :]
        query = tl.load(qkv + at_query, mask=own, other=0.0)
        place = first * (H * D) + i[:, None] * (H * D) + head * D + channel[None, :]
        grad = tl.load(out_grad + place, mask=own, other=0.0)
        log_total = tl.load(lse + (row * H + head) * T + i, mask=i < length, other=1.0e30)
        bias = tl.load(biases + load_codes(codes, row, i, 0, length, T, KEYS, CODES))
        weight, weight_grad = recompute_weights(
            query, key, grad, value, bias, log_total, scale, PRECISION
        )
        used = weight
        if DROP:
            mask_key = row_key(stream_key(seed, stream), row * H + head)
            drop = dropped(mask_key, i[:, None] * PLACES + j[None, :], level)
            used = tl.where(drop, 0.0, weight * keep_scale)
            weight_grad = tl.where(drop, 0.0, weight_grad * keep_scale)
        mean = tl.sum(weight * weight_grad, 1)
        if REST > 0:
            bias = tl.load(biases + load_codes(codes, row, i, KEYS, length, T, REST, CODES))
            weight_rest, weight_grad_rest = recompute_weights(
                query, key_rest, grad, value_rest, bias, log_total, scale, PRECISION
            )
            used_rest = weight_rest
            if DROP:
                mask_key = row_key(stream_key(seed, stream), row * H + head)
                drop = dropped(mask_key, i[:, None] * PLACES + j_rest[None, :], level)
                used_rest = tl.where(drop, 0.0, weight_rest * keep_scale)
                weight_grad_rest = tl.where(drop, 0.0, weight_grad_rest * keep_scale)
            mean += tl.sum(weight_rest * weight_grad_rest, 1)
        score_grad = (weight * (weight_grad - mean[:, None])).to(query.dtype)
        query_grad = product(score_grad, key, PRECISION)
        key_grad += product(tl.trans(score_grad), query, PRECISION)
        value_grad += product(tl.trans(used.to(grad.dtype)), grad, PRECISION)
        if LEARNED:
            inside = (i < length)[:, None] & (j < length)[None, :]
            tl.store(pairs + i[:, None] * T + j[None, :], score_grad, mask=inside)
        if REST > 0:
            score_grad = (weight_rest * (weight_grad_rest - mean[:, None])).to(query.dtype)
            query_grad += product(score_grad, key_rest, PRECISION)
            key_grad_rest += product(tl.trans(score_grad), query, PRECISION)
            value_grad_rest += product(tl.trans(used_rest.to(grad.dtype)), grad, PRECISION)
            if LEARNED:
                inside = (i < length)[:, None] & (j_rest < length)[None, :]
                tl.store(pairs + i[:, None] * T + j_rest[None, :], score_grad, mask=inside)
        query_grad = query_grad * plain_scale
        query_sum += query_grad
        tl.store(out + at_query, query_grad.to(out.dtype.element_ty), mask=own)
    key_grad = key_grad * plain_scale
    key_sum = tl.sum(key_grad, 0)
    value_sum = tl.sum(value_grad, 0)
    inside = (j < length)[:, None] & (channel < D)[None, :]
    at_key = at + j[:, None] * STEP + channel[None, :]
    tl.store(out + H * D + at_key, key_grad.to(out.dtype.element_ty), mask=inside)
    tl.store(out + 2 * H * D + at_key, value_grad.to(out.dtype.element_ty), mask=inside)
    if REST > 0:
        key_grad_rest = key_grad_rest * plain_scale
        key_sum += tl.sum(key_grad_rest, 0)
        value_sum += tl.sum(value_grad_rest, 0)
        inside = (j_rest < length)[:, None] & (channel < D)[None, :]
        at_key = at + j_rest[:, None] * STEP + channel[None, :]
        tl.store(out + H * D + at_key, key_grad_rest.to(out.dtype.element_ty), mask=inside)
        tl.store(out + 2 * H * D + at_key, value_grad_rest.to(out.dtype.element_ty), mask=inside)
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
    out_grad,  # [R, H, D]: gradient of the output
    lse,
    out,  # [R, 3, H, D]: gradient of qkv; may be qkv itself
    sums,  # [tokens, 3, H, D] float32: the gradient of qkv summed over the slots
    score_grads,  # [tokens of this launch, H, T, T]
    seed,
    stream,
    level,
    first_row,
    keep_scale,
    scale,  # includes log2(e)
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
    """Run one program per token and head."""
    row = (tl.program_id(0) // H + first_row).to(tl.int64)
    head = tl.program_id(0) % H
    first, length = token_rows(offsets, row, T, PACKED)
    if PACKED:
        if length <= SHORT:
            head_backward(
                qkv,
                codes,
                table,
                out_grad,
                lse,
                out,
                sums,
                score_grads,
                seed,
                stream,
                level,
                keep_scale,
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
            head_backward(
                qkv,
                codes,
                table,
                out_grad,
                lse,
                out,
                sums,
                score_grads,
                seed,
                stream,
                level,
                keep_scale,
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
        head_backward(
            qkv,
            codes,
            table,
            out_grad,
            lse,
            out,
            sums,
            score_grads,
            seed,
            stream,
            level,
            keep_scale,
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
