"""What there is to know of pairs of slots: their codes, and the slopes of scores summed by code.

See `attention_kernels` for the codes. Where rows are packed (see `packing`), a token's slots stand
close together, the virtual nodes behind them; the squares of pairs keep their full size in memory,
and of each the upper left corner is used.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import PLACES, product, token_rows
from dhilgt.model.kernels.random_kernels import dropped, row_key, stream_key

NEAR = tl.constexpr(32)


@triton.jit
def offsets_kernel(
    filled,  # [B] int32: slots behind the ego that hold a node, summed up to and with each token
    offsets,  # [tokens + 1] int32, out: first row of each token
    batch,
    tokens,
    rows,
    T: tl.constexpr,
    LEAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Tokens behind the batch are fillers: they take the rows that are left, T at most each."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = tl.minimum(number, batch)
    start = tl.load(filled + known - 1, mask=known > 0, other=0) + known * LEAST
    start = tl.minimum(start + (number - known) * T, rows)
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
        # Padding but that of an ego has no place; fillers keep all of theirs, and see nothing.
        key_there = (key_real | (j == 0) | (j >= last_place)) & (j < T)
        key_place = tl.cumsum(key_there.to(tl.int32), 1) - 1
    last = tl.full([BLOCK_I], -1, tl.int32)
    for start in range(0, T, BLOCK_I):
        i = start + tl.arange(0, BLOCK_I)[:, None]
        query_real = tl.load(real + row * S + i, mask=i < slots, other=0) != 0
        query_real = query_real | ((i >= S) & (i < last_place))
        there = (i < slots) & (j < S)
        distance = tl.load(spd + (row * S + i) * S + j, mask=there, other=0)
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
    """Gives number // by for numbers below 2 ** 15: a division of whole numbers takes longer."""
    return ((number.to(tl.float32) + 0.5) * (1.0 / by.to(tl.float32))).to(tl.int32)


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
            if PACKED:
                _, length = token_rows(offsets, row, T, PACKED)
                slots = length - M
            else:
                slots = S
            for start in range(0, slots * slots, BLOCK_K):
                number = start + tl.arange(0, BLOCK_K)
                if PACKED:
                    over = quotient(number, slots)
                    pair = over * T + (number - over * slots)
                else:
                    pair = number // S * T + number % S
                inside = number < slots * slots
                total = slopes_by_code(
                    total, of_row, own, pair, inside, place, T, H, BLOCK_H, PRECISION
                )
            if M > 0:  # noqa: SIM102  known when compiling, unlike the other
                if first == 0:
                    for start in range(0, M * M + 2 * M * slots, BLOCK_K):
                        number = start + tl.arange(0, BLOCK_K)
                        seen = number // M * T + slots + number % M
                        below = number - slots * M  # in the rows of virtual nodes
                        if PACKED:
                            over = quotient(below, length)
                            below = (slots + over) * T + (below - over * length)
                        else:
                            below = below + S * T
                        pair = tl.where(number < slots * M, seen, below)
                        inside = number < M * M + 2 * M * slots
                        of_virtual = slopes_by_code(
                            of_virtual, of_row, own, pair, inside, virtual, T, H, BLOCK_H, PRECISION
                        )
    found = parts + tl.program_id(0).to(tl.int64) * (WIDTH * H) + head[None, :]
    fits = tl.where(far, place < WIDTH, place < NEAR)
    tl.store(found + place[:, None] * H, total, mask=fits[:, None] & (head < H)[None, :])
    if M > 0:  # noqa: SIM102
        if first == 0:
            fits_too = virtual < NEAR + V
            at_virtual = found + virtual[:, None] * H
            tl.store(at_virtual, of_virtual, mask=fits_too[:, None] & (head < H)[None, :])
