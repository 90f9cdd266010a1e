"""Codes of pairs of slots, and the gradients of scores summed by code.

See `attention_kernels` for the codes. Where rows are packed (see `packing`), a token's nodes are
contiguous and followed by the virtual nodes; matrices of pairs keep their full size in memory, and
the upper left corner of each is used.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import PLACES, product, token_rows
from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key

NEAR = tl.constexpr(32)


@triton.jit
def offsets_kernel(
    filled,  # [B] int32: cumulative number of slots after the ego that hold a node
    offsets,  # [tokens + 1] int32, out: first row of each token
    batch,
    tokens,
    rows,
    T: tl.constexpr,
    LEAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute where tokens begin; those after the batch are fillers of at most T rows each."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_batch = tl.minimum(number, batch)
    start = tl.load(filled + in_batch - 1, mask=in_batch > 0, other=0) + in_batch * LEAST
    start = tl.minimum(start + (number - in_batch) * T, rows)
    tl.store(offsets + number, start, mask=number <= tokens)


@triton.jit(do_not_specialize=["level", "batch"])
def pair_codes_kernel(
    spd,  # [B, S, S] uint8
    real,  # [B, S] uint8
    codes,  # [tokens, T, T] int16, out
    farthest,  # [tokens] int32, out: the largest code that has a bias; -1 where there is no node
    seed,
    level,
    batch,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK: tl.constexpr,
    DROP: tl.constexpr,
    PACKED: tl.constexpr,
):
    T: tl.constexpr = S + M
    V: tl.constexpr = 2 * M + M * M
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)[None, :]
    # A filler has no slots and no virtual nodes.
    slots = tl.where(row < batch, S, 0)
    last_place = tl.where(row < batch, T, 0)
    key_real = tl.load(real + row * S + j, mask=j < slots, other=0) != 0
    key_real = key_real | ((j >= S) & (j < last_place))
    if PACKED:
        # Padding has no row, except that of an ego; fillers keep all rows and attend to nothing.
        key_there = (key_real | (j == 0) | (j >= last_place)) & (j < T)
        key_place = tl.cumsum(key_there.to(tl.int32), 1) - 1
    last = tl.full([BLOCK_I], -1, tl.int32)
    for start in range(0, T, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)[:, None]
        query_real = tl.load(real + row * S + i, mask=i < slots, other=0) != 0
        query_real = query_real | ((i >= S) & (i < last_place))
        both_slots = (i < slots) & (j < S)
        distance = tl.load(spd + (row * S + i) * S + j, mask=both_slots, other=0)
        code = (distance.to(tl.int32) + 2) & 255
        if M > 0:
            code = tl.where(code < NEAR, code, code + V)
            to_virtual = NEAR + (j - S)
            from_virtual = NEAR + M + (i - S)
            within_virtual = NEAR + 2 * M + M * (i - S) + (j - S)
            code = tl.where(j >= S, to_virtual, code)
            code = tl.where(i >= S, tl.where(j >= S, within_virtual, from_virtual), code)
        if DROP:
            key = row_key(stream_key(seed, tl.full([], 0, tl.int32)), row)
            code = tl.where(dropped(key, i * PLACES + j, level), 256 + V, code)
        code = tl.where(query_real & key_real, code, 257 + V)
        if PACKED:
            query_there = (query_real | (i == 0) | (i >= last_place)) & (i < T)
            query_place = tl.sum((key_there & (j < i)).to(tl.int32), 1)[:, None]
            at = query_place * T + key_place
            inside = query_there & key_there
        else:
            at = i * T + j
            inside = (i < T) & (j < T)
        tl.store(codes + row * (T * T) + at, code.to(tl.int16), mask=inside)
        last = tl.maximum(last, tl.max(tl.where(code < 256 + V, code, -1), 1))
    tl.store(farthest + row, tl.max(last, 0))


@triton.jit
def quotient(number, by):
    """Return number // by for numbers below 2 ** 15, faster than integer division."""
    return ((number.to(tl.float32) + 0.5) * (1.0 / by.to(tl.float32))).to(tl.int32)


@triton.jit
def add_by_code(
    total,
    score_grads,
    codes,
    pair,
    inside,
    place,
    T: tl.constexpr,
    H: tl.constexpr,
    BLOCK_H: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return the sums by code, [places, BLOCK_H], with the gradients of some pairs added."""
    head = tl.arange(0, BLOCK_H)
    one = tl.full([], 1.0, score_grads.dtype.element_ty)
    zero = tl.full([], 0.0, score_grads.dtype.element_ty)
    code = tl.load(codes + pair, mask=inside, other=-1)
    grads = tl.load(
        score_grads + head[:, None] * (T * T) + pair[None, :],
        mask=(head < H)[:, None] & inside[None, :],
        other=0.0,
    )
    chosen = tl.where(place[:, None] == code[None, :], one, zero)
    return total + product(chosen, tl.trans(grads), PRECISION)


@triton.jit(do_not_specialize=["first_row", "rows"])
def bias_gradients_kernel(
    score_grads,  # [rows, H, T, T]
    codes,
    farthest,
    offsets,  # see `packing`
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
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Sum the gradients of scores by code: a product with a matrix of zeros and ones.

    The first programs of the second axis sum the first NEAR codes and the codes of virtual nodes.
    Each of the others sums BLOCK_P codes of larger distances, and skips rows without any of them.
    """
    T: tl.constexpr = S + M
    V: tl.constexpr = 2 * M + M * M
    head = tl.arange(0, BLOCK_H)
    far = tl.program_id(1) > 0
    first = tl.where(far, NEAR + V + (tl.program_id(1) - 1) * BLOCK_P, 0)
    place = first + tl.arange(0, BLOCK_P)
    total = tl.zeros([BLOCK_P, BLOCK_H], tl.float32)
    place_v = NEAR + tl.arange(0, BLOCK_V)
    total_v = tl.zeros([BLOCK_V, BLOCK_H], tl.float32)
    for at in range(tl.program_id(0), rows, tl.num_programs(0)):
        row = (at + first_row).to(tl.int64)
        if tl.load(farthest + row) >= first:
            grads = score_grads + (tl.zeros([], tl.int64) + at) * (H * T * T)
            at_codes = codes + row * (T * T)
            if PACKED:
                _, length = token_rows(offsets, row, T, PACKED)
                slots = length - M
            else:
                slots = S
            for start in range(0, slots * slots, BLOCK_K):
                number = start + tl.arange(0, BLOCK_K)
                if PACKED:
                    line = quotient(number, slots)
                    pair = line * T + (number - line * slots)
                else:
                    pair = number // S * T + number % S
                inside = number < slots * slots
                total = add_by_code(
                    total, grads, at_codes, pair, inside, place, T, H, BLOCK_H, PRECISION
                )
            if M > 0:  # noqa: SIM102  a compile-time condition, unlike the other
                if first == 0:
                    for start in range(0, M * M + 2 * M * slots, BLOCK_K):
                        number = start + tl.arange(0, BLOCK_K)
                        to_virtual = number // M * T + slots + number % M
                        below = number - slots * M  # in the rows of virtual nodes
                        if PACKED:
                            line = quotient(below, length)
                            below = (slots + line) * T + (below - line * length)
                        else:
                            below = below + S * T
                        pair = tl.where(number < slots * M, to_virtual, below)
                        inside = number < M * M + 2 * M * slots
                        total_v = add_by_code(
                            total_v,
                            grads,
                            at_codes,
                            pair,
                            inside,
                            place_v,
                            T,
                            H,
                            BLOCK_H,
                            PRECISION,
                        )
    partial = parts + tl.program_id(0).to(tl.int64) * (WIDTH * H) + head[None, :]
    fits = tl.where(far, place < WIDTH, place < NEAR)
    tl.store(partial + place[:, None] * H, total, mask=fits[:, None] & (head < H)[None, :])
    if M > 0:  # noqa: SIM102
        if first == 0:
            fits_v = place_v < NEAR + V
            at_virtual = partial + place_v[:, None] * H
            tl.store(at_virtual, total_v, mask=fits_v[:, None] & (head < H)[None, :])
