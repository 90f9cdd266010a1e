"""Attention over one short row of slots; the bias is looked up in the kernel.

A pair of slots has a 16-bit code. With V pairs of virtual nodes the codes are, in this order: no
path, far and the first distances, NEAR in all; the V pairs with virtual nodes; the other distances;
256 + V for a pair whose bias is dropped; 257 + V where the query or the key is padding. Frequent
codes come first. Codes are computed once per forward pass and used by all layers and heads; the
bias matrix is never stored. Scores are base-2 exponents: the table is multiplied by log2(e) and
has a very low number for padding, so that no other mask is needed.

Keys are read in two blocks, so that a row of 36 slots takes 32 + 16 places and not 64.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key

PLACES = tl.constexpr(256)  # no block is larger, so that dropout masks do not depend on block sizes
FAR_OFF = tl.constexpr(1.0e30)  # minus the table's entry for padding


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """Return a b in float32; Triton's interpreter cannot multiply bfloat16."""
    if PRECISION == "interpreted":
        return tl.dot(a.to(tl.float32), b.to(tl.float32))
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def token_rows(offsets, token, T: tl.constexpr, PACKED: tl.constexpr):
    """Return the first row of a token and its number of rows; see `packing`."""
    if PACKED:
        first = tl.load(offsets + token)
        return first.to(tl.int64), tl.load(offsets + token + 1) - first
    else:
        return token * T, tl.full([], T, tl.int32)


@triton.jit
def load_block(
    at,
    first,
    length,
    D: tl.constexpr,
    STEP: tl.constexpr,
    N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Return slots `first` to `first` + N of one head, [N, BLOCK_D], zeros after the last."""
    slot = first + tl.arange(0, N)
    channel = tl.arange(0, BLOCK_D)
    inside = (slot < length)[:, None] & (channel < D)[None, :]
    return tl.load(at + slot[:, None] * STEP + channel[None, :], mask=inside, other=0.0)


@triton.jit
def load_codes(codes, row, i, first, length, T: tl.constexpr, N: tl.constexpr, CODES: tl.constexpr):
    """Return the codes of queries `i` and keys `first` to `first` + N, [queries, N]."""
    j = first + tl.arange(0, N)
    both = (i < length)[:, None] & (j < length)[None, :]
    at = codes + row * (T * T) + i[:, None] * T + j[None, :]
    return tl.load(at, mask=both, other=CODES - 1).to(tl.int32)


@triton.jit
def attend_queries(
    qkv,
    codes,
    table,
    out,
    lse,
    seed,
    stream,
    level,
    keep_scale,
    scale,
    row,
    first,
    length,
    i,
    first_head,
    last_head,
    T: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CODES: tl.constexpr,
    KEYS: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Attend from queries `i` of a token to all of its keys; codes are loaded once."""
    STEP: tl.constexpr = 3 * H * D
    channel = tl.arange(0, BLOCK_D)
    own = (i < length)[:, None] & (channel < D)[None, :]
    code = load_codes(codes, row, i, 0, length, T, KEYS, CODES)
    if REST > 0:
        code_rest = load_codes(codes, row, i, KEYS, length, T, REST, CODES)
    for head in range(first_head, last_head):
        at = qkv + first * STEP + head * D
        biases = table + head * CODES
        query = tl.load(at + i[:, None] * STEP + channel[None, :], mask=own, other=0.0)
        key = load_block(at + H * D, 0, length, D, STEP, KEYS, BLOCK_D)
        value = load_block(at + 2 * H * D, 0, length, D, STEP, KEYS, BLOCK_D)
        scores = product(query, tl.trans(key), PRECISION) * scale + tl.load(biases + code)
        top = tl.max(scores, 1)
        if REST > 0:
            key_rest = load_block(at + H * D, KEYS, length, D, STEP, REST, BLOCK_D)
            value_rest = load_block(at + 2 * H * D, KEYS, length, D, STEP, REST, BLOCK_D)
            scores_rest = product(query, tl.trans(key_rest), PRECISION) * scale
            scores_rest += tl.load(biases + code_rest)
            top = tl.maximum(top, tl.max(scores_rest, 1))
            power_rest = tl.exp2(scores_rest - top[:, None])
        power = tl.exp2(scores - top[:, None])
        total = tl.sum(power, 1)
        if REST > 0:
            total += tl.sum(power_rest, 1)
        attends = top > -0.5 * FAR_OFF  # padding attends to nothing and gets zeros
        log_total = tl.where(attends, top + tl.log2(total), FAR_OFF)
        tl.store(lse + (row * H + head) * T + i, log_total, mask=i < length)
        if DROP:
            mask_key = row_key(stream_key(seed, stream), row * H + head)
            j = tl.arange(0, KEYS)
            drop = dropped(mask_key, i[:, None] * PLACES + j[None, :], level)
            power = tl.where(drop, 0.0, power * keep_scale)
            if REST > 0:
                j_rest = KEYS + tl.arange(0, REST)
                drop = dropped(mask_key, i[:, None] * PLACES + j_rest[None, :], level)
                power_rest = tl.where(drop, 0.0, power_rest * keep_scale)
        mixed = product(power.to(value.dtype), value, PRECISION)
        if REST > 0:
            mixed += product(power_rest.to(value.dtype), value_rest, PRECISION)
        mixed = mixed * tl.where(attends, 1.0 / total, 0.0)[:, None]
        place = first * (H * D) + i[:, None] * (H * D) + head * D + channel[None, :]
        tl.store(out + place, mixed.to(out.dtype.element_ty), mask=own)


@triton.jit(do_not_specialize=["stream", "level"])
def attend_forward_kernel(
    qkv,  # [R, 3, H, D]
    codes,
    table,  # [H, CODES] float32
    offsets,  # see `packing`
    out,  # [R, H, D]
    lse,  # [tokens, H, T] float32: log2 of the sum of powers
    seed,
    stream,
    level,
    keep_scale,
    scale,
    T: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CODES: tl.constexpr,
    HEADS: tl.constexpr,
    BLOCK_I: tl.constexpr,
    KEYS: tl.constexpr,
    REST: tl.constexpr,
    SHORT: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Run one program per block of queries and HEADS heads."""
    TILES: tl.constexpr = (T + BLOCK_I - 1) // BLOCK_I
    GROUPS: tl.constexpr = H // HEADS
    row = (tl.program_id(0) // (TILES * GROUPS)).to(tl.int64)
    start = tl.program_id(0) // GROUPS % TILES * BLOCK_I
    i = start + tl.arange(0, BLOCK_I)
    group = tl.program_id(0) % GROUPS
    first, length = token_rows(offsets, row, T, PACKED)
    if PACKED:
        if (start < length) & (length <= SHORT):
            attend_queries(
                qkv,
                codes,
                table,
                out,
                lse,
                seed,
                stream,
                level,
                keep_scale,
                scale,
                row,
                first,
                length,
                i,
                group * HEADS,
                (group + 1) * HEADS,
                T,
                H,
                D,
                CODES,
                SHORT,
                0,
                BLOCK_D,
                DROP,
                PRECISION,
            )
        if (start < length) & (length > SHORT):
            attend_queries(
                qkv,
                codes,
                table,
                out,
                lse,
                seed,
                stream,
                level,
                keep_scale,
                scale,
                row,
                first,
                length,
                i,
                group * HEADS,
                (group + 1) * HEADS,
                T,
                H,
                D,
                CODES,
                KEYS,
                REST,
                BLOCK_D,
                DROP,
                PRECISION,
            )
    else:
        attend_queries(
            qkv,
            codes,
            table,
            out,
            lse,
            seed,
            stream,
            level,
            keep_scale,
            scale,
            row,
            first,
            length,
            i,
            group * HEADS,
            (group + 1) * HEADS,
            T,
            H,
            D,
            CODES,
            KEYS,
            REST,
            BLOCK_D,
            DROP,
            PRECISION,
        )
