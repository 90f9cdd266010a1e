"""Attention over one short row of slots, the bias looked up inside.

A pair of slots has a code of 16 bits. With V pairs of virtual nodes these are, in this order: no
path, far and the first distances, NEAR in all; the V pairs with virtual nodes; the other distances;
256 + V for a pair that lost its bias; 257 + V where the query or the key is padding. What occurs
often comes first. Codes are made once per forward and shared by all layers and heads; the bias
itself is never held. Scores are in powers of two: the table comes multiplied by log2(e), with a
very low number for padding, so that nothing else has to be masked.

Keys are taken in two blocks, so that a row of 36 slots is 32 + 16 and not 64.
"""

import triton
import triton.language as tl

from dhilgt.fused.random_kernels import dropped, row_key, stream_key

PLACES = tl.constexpr(256)  # a row of places that no block exceeds, so that no mask depends on it
NEAR = tl.constexpr(32)
FAR_OFF = tl.constexpr(1.0e30)  # as the table's entry for padding, with the other sign


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
    farthest,  # [B] int32, out: the largest code that has a bias
    seed,
    level,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK: tl.constexpr,
    DROP: tl.constexpr,
):
    T: tl.constexpr = S + M
    V: tl.constexpr = 2 * M + M * M
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
        code = (distance.to(tl.int32) + 2) & 255
        if M > 0:
            code = tl.where(code < NEAR, code, code + V)
            seen = NEAR + (j - S)
            seeing = NEAR + M + (i - S)
            among = NEAR + 2 * M + M * (i - S) + (j - S)
            code = tl.where(j >= S, seen, code)
            code = tl.where(i >= S, tl.where(j >= S, among, seeing), code)
        if DROP:
            key = row_key(stream_key(seed, tl.full([], 0, tl.int32)), row)
            code = tl.where(dropped(key, i * PLACES + j, level), 256 + V, code)
        code = tl.where(query_real & key_real, code, 257 + V)
        tl.store(codes + (row * T + i) * T + j, code.to(tl.int16), mask=(i < T) & (j < T))
        last = tl.maximum(last, tl.max(tl.where(code < 256 + V, code, 0), 1))
    tl.store(farthest + row, tl.max(last, 0))


@triton.jit
def load_block(
    at,
    first,
    T: tl.constexpr,
    D: tl.constexpr,
    STEP: tl.constexpr,
    N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Gives slots `first` to `first` + N of one head, [N, BLOCK_D], zeros behind the last."""
    slot = first + tl.arange(0, N)
    channel = tl.arange(0, BLOCK_D)
    inside = (slot < T)[:, None] & (channel < D)[None, :]
    return tl.load(at + slot[:, None] * STEP + channel[None, :], mask=inside, other=0.0)


@triton.jit
def load_codes(codes, row, i, first, T: tl.constexpr, N: tl.constexpr, CODES: tl.constexpr):
    """Gives the codes of queries `i` and keys `first` to `first` + N, [queries, N]."""
    j = first + tl.arange(0, N)
    both = (i < T)[:, None] & (j < T)[None, :]
    at = codes + row * (T * T) + i[:, None] * T + j[None, :]
    return tl.load(at, mask=both, other=CODES - 1).to(tl.int32)


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
    HEADS: tl.constexpr,
    BLOCK_I: tl.constexpr,
    KEYS: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A program takes a block of queries and HEADS heads: codes are loaded once for these."""
    TILES: tl.constexpr = (T + BLOCK_I - 1) // BLOCK_I
    GROUPS: tl.constexpr = H // HEADS
    STEP: tl.constexpr = 3 * H * D
    row = (tl.program_id(0) // (TILES * GROUPS)).to(tl.int64)
    i = tl.program_id(0) // GROUPS % TILES * BLOCK_I + tl.arange(0, BLOCK_I)
    group = tl.program_id(0) % GROUPS
    channel = tl.arange(0, BLOCK_D)
    own = (i < T)[:, None] & (channel < D)[None, :]
    code = load_codes(codes, row, i, 0, T, KEYS, CODES)
    if REST > 0:
        code_rest = load_codes(codes, row, i, KEYS, T, REST, CODES)
    for head in range(group * HEADS, (group + 1) * HEADS):
        at = qkv + row * (T * STEP) + head * D
        biases = table + head * CODES
        query = tl.load(at + i[:, None] * STEP + channel[None, :], mask=own, other=0.0)
        key = load_block(at + H * D, 0, T, D, STEP, KEYS, BLOCK_D)
        value = load_block(at + 2 * H * D, 0, T, D, STEP, KEYS, BLOCK_D)
        scores = product(query, tl.trans(key), PRECISION) * scale + tl.load(biases + code)
        top = tl.max(scores, 1)
        if REST > 0:
            key_rest = load_block(at + H * D, KEYS, T, D, STEP, REST, BLOCK_D)
            value_rest = load_block(at + 2 * H * D, KEYS, T, D, STEP, REST, BLOCK_D)
            scores_rest = product(query, tl.trans(key_rest), PRECISION) * scale
            scores_rest += tl.load(biases + code_rest)
            top = tl.maximum(top, tl.max(scores_rest, 1))
            power_rest = tl.exp2(scores_rest - top[:, None])
        power = tl.exp2(scores - top[:, None])
        total = tl.sum(power, 1)
        if REST > 0:
            total += tl.sum(power_rest, 1)
        seeing = top > -0.5 * FAR_OFF  # padding sees nothing and gets zeros
        height = tl.where(seeing, top + tl.log2(total), FAR_OFF)
        tl.store(lse + (row * H + head) * T + i, height, mask=i < T)
        if DROP:
            mask_key = row_key(stream_key(seed, stream), row * H + head)
            j = tl.arange(0, KEYS)
            gone = dropped(mask_key, i[:, None] * PLACES + j[None, :], level)
            power = tl.where(gone, 0.0, power * kept)
            if REST > 0:
                j_rest = KEYS + tl.arange(0, REST)
                gone = dropped(mask_key, i[:, None] * PLACES + j_rest[None, :], level)
                power_rest = tl.where(gone, 0.0, power_rest * kept)
        mixed = product(power.to(value.dtype), value, PRECISION)
        if REST > 0:
            mixed += product(power_rest.to(value.dtype), value_rest, PRECISION)
        mixed = mixed * tl.where(seeing, 1.0 / total, 0.0)[:, None]
        place = row * (T * H * D) + i[:, None] * (H * D) + head * D + channel[None, :]
        tl.store(out + place, mixed.to(out.dtype.element_ty), mask=own)


@triton.jit
def weights_again(query, key, above, value, bias, height, scale, PRECISION: tl.constexpr):
    """Gives the softmax's weights, and the slopes of the weights as they were used."""
    scores = product(query, tl.trans(key), PRECISION) * scale + bias
    weight = tl.exp2(scores - height[:, None])
    return weight, product(above, tl.trans(value), PRECISION)


@triton.jit(do_not_specialize=["stream", "level", "first_row"])
def attend_backward_kernel(
    qkv,
    codes,
    table,
    slope,  # [B, T, H, D]: of the output
    lse,
    out,  # [B, T, 3, H, D]: slope of qkv; may be qkv itself
    sums,  # [B, 3, H, D] float32: the same summed over the slots
    score_slopes,  # [rows of this launch, H, T, T]
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
    BLOCK_D: tl.constexpr,
    DROP: tl.constexpr,
    LEARNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A program takes a row and a head; it reads all of its q, k and v before it writes there."""
    STEP: tl.constexpr = 3 * H * D
    row = (tl.program_id(0) // H + first_row).to(tl.int64)
    head = tl.program_id(0) % H
    j = tl.arange(0, KEYS)
    channel = tl.arange(0, BLOCK_D)
    at = row * (T * STEP) + head * D
    key = load_block(qkv + at + H * D, 0, T, D, STEP, KEYS, BLOCK_D)
    value = load_block(qkv + at + 2 * H * D, 0, T, D, STEP, KEYS, BLOCK_D)
    key_slope = tl.zeros([KEYS, BLOCK_D], tl.float32)
    value_slope = tl.zeros([KEYS, BLOCK_D], tl.float32)
    if REST > 0:
        j_rest = KEYS + tl.arange(0, REST)
        key_rest = load_block(qkv + at + H * D, KEYS, T, D, STEP, REST, BLOCK_D)
        value_rest = load_block(qkv + at + 2 * H * D, KEYS, T, D, STEP, REST, BLOCK_D)
        key_slope_rest = tl.zeros([REST, BLOCK_D], tl.float32)
        value_slope_rest = tl.zeros([REST, BLOCK_D], tl.float32)
    query_sum = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
    biases = table + head * CODES
    pairs = score_slopes + tl.program_id(0).to(tl.int64) * (T * T)
    for start in range(0, T, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)
        own = (i < T)[:, None] & (channel < D)[None, :]
        mine = at + i[:, None] * STEP + channel[None, :]
        query = tl.load(qkv + mine, mask=own, other=0.0)
        place = row * (T * H * D) + i[:, None] * (H * D) + head * D + channel[None, :]
        above = tl.load(slope + place, mask=own, other=0.0)
        height = tl.load(lse + (row * H + head) * T + i, mask=i < T, other=1.0e30)
        bias = tl.load(biases + load_codes(codes, row, i, 0, T, KEYS, CODES))
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
            bias = tl.load(biases + load_codes(codes, row, i, KEYS, T, REST, CODES))
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
            inside = (i < T)[:, None] & (j < T)[None, :]
            tl.store(pairs + i[:, None] * T + j[None, :], score_slope, mask=inside)
        if REST > 0:
            score_slope = (weight_rest * (weight_slope_rest - mean[:, None])).to(query.dtype)
            query_slope += product(score_slope, key_rest, PRECISION)
            key_slope_rest += product(tl.trans(score_slope), query, PRECISION)
            value_slope_rest += product(tl.trans(used_rest.to(above.dtype)), above, PRECISION)
            if LEARNED:
                inside = (i < T)[:, None] & (j_rest < T)[None, :]
                tl.store(pairs + i[:, None] * T + j_rest[None, :], score_slope, mask=inside)
        query_slope = query_slope * plain_scale
        query_sum += query_slope
        tl.store(out + mine, query_slope.to(out.dtype.element_ty), mask=own)
    key_slope = key_slope * plain_scale
    key_sum = tl.sum(key_slope, 0)
    value_sum = tl.sum(value_slope, 0)
    inside = (j < T)[:, None] & (channel < D)[None, :]
    theirs = at + j[:, None] * STEP + channel[None, :]
    tl.store(out + H * D + theirs, key_slope.to(out.dtype.element_ty), mask=inside)
    tl.store(out + 2 * H * D + theirs, value_slope.to(out.dtype.element_ty), mask=inside)
    if REST > 0:
        key_slope_rest = key_slope_rest * plain_scale
        key_sum += tl.sum(key_slope_rest, 0)
        value_sum += tl.sum(value_slope_rest, 0)
        inside = (j_rest < T)[:, None] & (channel < D)[None, :]
        theirs = at + j_rest[:, None] * STEP + channel[None, :]
        tl.store(out + H * D + theirs, key_slope_rest.to(out.dtype.element_ty), mask=inside)
        tl.store(out + 2 * H * D + theirs, value_slope_rest.to(out.dtype.element_ty), mask=inside)
    total = sums + row * STEP + head * D + channel
    tl.store(total, tl.sum(query_sum, 0), mask=channel < D)
    tl.store(total + H * D, key_sum, mask=channel < D)
    tl.store(total + 2 * H * D, value_sum, mask=channel < D)


@triton.jit
def slopes_by_code(
    total,
    score_slopes,
    codes,
    pair,
    inside,
    place,
    T: tl.constexpr,
    H: tl.constexpr,
    BLOCK_H: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Adds the slopes of some pairs to the sums of their codes, [places, BLOCK_H]."""
    head = tl.arange(0, BLOCK_H)
    one = tl.full([], 1.0, score_slopes.dtype.element_ty)
    zero = tl.full([], 0.0, score_slopes.dtype.element_ty)
    code = tl.load(codes + pair, mask=inside, other=-1)
    slopes = tl.load(
        score_slopes + head[:, None] * (T * T) + pair[None, :],
        mask=(head < H)[:, None] & inside[None, :],
        other=0.0,
    )
    chosen = tl.where(place[:, None] == code[None, :], one, zero)
    return total + product(chosen, tl.trans(slopes), PRECISION)


@triton.jit(do_not_specialize=["first_row", "rows"])
def bias_slopes_kernel(
    score_slopes,  # [rows, H, T, T]
    codes,
    farthest,
    parts,  # [programs, WIDTH, H] float32, out
    first_row,
    rows,
    S: tl.constexpr,
    M: tl.constexpr,
    H: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_P: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Sums the slopes of scores by code: a product with a matrix of zeros and ones.

    The first programs of the second axis take the NEAR first codes, and those of virtual nodes of
    the pairs that have some. Each of the others takes BLOCK_P codes of larger distances, and leaves
    rows out that have none of them.
    """
    T: tl.constexpr = S + M
    V: tl.constexpr = 2 * M + M * M
    head = tl.arange(0, BLOCK_H)
    far = tl.program_id(1) > 0
    first = tl.where(far, NEAR + V + (tl.program_id(1) - 1) * BLOCK_P, 0)
    place = first + tl.arange(0, BLOCK_P)
    total = tl.zeros([BLOCK_P, BLOCK_H], tl.float32)
    virtual = NEAR + tl.arange(0, BLOCK_V)
    of_virtual = tl.zeros([BLOCK_V, BLOCK_H], tl.float32)
    for at in range(tl.program_id(0), rows, tl.num_programs(0)):
        row = (at + first_row).to(tl.int64)
        if tl.load(farthest + row) >= first:
            of_row = score_slopes + (tl.zeros([], tl.int64) + at) * (H * T * T)
            own = codes + row * (T * T)
            for start in range(0, S * S, BLOCK_K):
                number = start + tl.arange(0, BLOCK_K)
                pair = number // S * T + number % S
                total = slopes_by_code(
                    total, of_row, own, pair, number < S * S, place, T, H, BLOCK_H, PRECISION
                )
            if M > 0:  # noqa: SIM102  known when compiling, unlike the other
                if first == 0:
                    for start in range(0, V + 2 * M * (S - 1), BLOCK_K):
                        number = start + tl.arange(0, BLOCK_K)
                        seen = number // M * T + S + number % M
                        pair = tl.where(number < S * M, seen, number - S * M + S * T)
                        inside = pair < T * T
                        of_virtual = slopes_by_code(
                            of_virtual, of_row, own, pair, inside, virtual, T, H, BLOCK_H, PRECISION
                        )
    found = parts + tl.program_id(0).to(tl.int64) * (WIDTH * H) + head[None, :]
    fits = tl.where(far, place < WIDTH, place < NEAR)
    tl.store(found + place[:, None] * H, total, mask=fits[:, None] & (head < H)[None, :])
    if M > 0:  # noqa: SIM102
        if first == 0:
            fits = virtual < NEAR + V
            at_virtual = found + virtual[:, None] * H
            tl.store(at_virtual, of_virtual, mask=fits[:, None] & (head < H)[None, :])
