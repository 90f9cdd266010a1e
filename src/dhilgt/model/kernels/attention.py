"""Launch the attention kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from dhilgt.model.codes import FIRST_VIRTUAL, MASKED, NO_BIAS, NUM_DISTANCES
from dhilgt.model.kernels import attention_backward_kernels, attention_kernels, pair_kernels

LOG2_E = math.log2(math.e)
NEAR = 32
LOWEST = -1e30
_LEVELS = 2.0**31

_SCRATCH = 96 << 20  # bytes of score gradients between two kernels; most of them stay in the cache
SUMMED = 64  # pairs that a program sums at once
SUMMING_WARPS = 2
_SUMMING = 1056  # programs that sum pairs: eight per multiprocessor of a large GPU


class Blocks(NamedTuple):
    """Block sizes of the attention kernels.

    Attributes:
        queries: Queries of a block.
        warps: Warps of a program.
        heads: Largest number of heads of a program, in the forward pass.
        registers: Largest number per thread; None leaves it to the compiler.
    """

    queries: int
    warps: int
    heads: int = 1
    registers: int | None = None


TUNED: dict[tuple[str, int], Blocks] = {}
"""Blocks that replace the default ones, by direction and bytes per number."""


def choose_blocks(direction: str, t: int, per_head: int, size: int) -> Blocks:
    """Return blocks for which a program's numbers fit into its registers.

    Args:
        direction: "forward" or "backward".
        t: Slots, virtual nodes included.
        per_head: Channels of a head.
        size: Bytes per number.
    """
    if (direction, size) in TUNED:
        return TUNED[direction, size]
    key_bytes = sum(key_blocks(t)) * power_of_two(per_head) * size  # values take as many
    warps = 1
    while warps < 8 and key_bytes > 2048 * warps:
        warps *= 2
    # Measured: more programs at once outweigh fewer registers.
    registers = 168 if direction == "backward" and size == 2 and key_bytes <= 2048 else None
    return Blocks(16, warps, 8, registers)


def key_blocks(t: int) -> tuple[int, int]:
    """Return two block sizes, powers of two from 16 on or 0, that hold `t` keys.

    Example:
        >>> key_blocks(36), key_blocks(60), key_blocks(16)
        ((32, 16), (64, 0), (16, 0))
    """
    whole = power_of_two(t)
    half = whole // 2
    rest = power_of_two(t - half) if t > half >= 16 else half
    return (half, rest) if rest < half else (whole, 0)


def short_keys(t: int) -> int:
    """Return the size of one block for the keys of most packed tokens; the rest use `key_blocks`.

    Example:
        >>> short_keys(36), short_keys(60), short_keys(16)
        (32, 32, 16)
    """
    keys, rest = key_blocks(t)
    return keys if rest else max(16, keys // 2)


class Draw(NamedTuple):
    """One dropout site: the seed, the stream of random numbers and the dropout probability."""

    seed: Tensor  # [1] int64, on the device
    stream: int
    probability: float

    @property
    def level(self) -> int:
        """The probability in units of 2 ** -31."""
        return min(round(self.probability * _LEVELS), int(_LEVELS) - 1)

    @property
    def keep_scale(self) -> float:
        """Factor on the entries that are kept."""
        return 1.0 / (1.0 - self.probability)


class Codes(NamedTuple):
    """Codes of all pairs of a batch; see `attention_kernels`."""

    values: Tensor  # [tokens, t, t] int16
    farthest: Tensor  # [tokens] int32
    slots: int
    virtual: int
    offsets: Tensor | None = None  # first row of each token where rows are packed, see `packing`


def power_of_two(value: int, least: int = 16) -> int:
    """Return the smallest power of two that is not below `value` or `least`."""
    return max(least, 1 << (value - 1).bit_length())


def num_pairs(virtual: int) -> int:
    """Return the number of codes of pairs with virtual nodes."""
    return 2 * virtual + virtual * virtual


@cache
def code_order(virtual: int, device: torch.device) -> Tensor:
    """Return the code in `dhilgt.model.attention` of every code of the kernels, [258 + V] int64.

    Args:
        virtual: Number of virtual nodes.
        device: Device of the result.
    """
    distances = [(place - 2) % NUM_DISTANCES for place in range(NUM_DISTANCES)]
    pairs = [FIRST_VIRTUAL + pair for pair in range(num_pairs(virtual))]
    order = distances[:NEAR] + pairs + distances[NEAR:] + [NO_BIAS, MASKED]
    return torch.tensor(order, device=device)


def make_codes(
    spd: Tensor, real: Tensor, virtual: int, draw: Draw, offsets: Tensor | None = None
) -> Codes:
    """Return the codes of all pairs.

    Args:
        spd: [B, s, s] uint8.
        real: [B, s] bool.
        virtual: Number of virtual nodes.
        draw: Dropout of the biases of pairs.
        offsets: First row of each token where rows are packed; None if they are not.
    """
    batch, slots, _ = spd.shape
    tokens = batch if offsets is None else len(offsets) - 1
    t = slots + virtual
    values = spd.new_empty((tokens, t, t), dtype=torch.int16)
    farthest = spd.new_empty(tokens, dtype=torch.int32)
    pair_kernels.pair_codes_kernel[(tokens,)](
        spd.contiguous(),
        real.contiguous().view(torch.uint8),
        values,
        farthest,
        draw.seed,
        draw.level,
        batch,
        S=slots,
        M=virtual,
        BLOCK_I=16,
        BLOCK=power_of_two(t),
        DROP=draw.probability > 0.0,
        PACKED=offsets is not None,
        num_warps=2,
    )
    return Codes(values, farthest, slots, virtual, offsets)


def flat_tables(tables: Sequence[Tensor]) -> Tensor:
    """Return bias tables in the kernels' layout: [tables, H, codes] float32, times log2(e)."""
    joined = torch.stack(tuple(tables)).detach().float()  # [tables, codes, H]
    virtual = math.isqrt(1 + joined.shape[1] - FIRST_VIRTUAL) - 1  # 2 m + m * m pairs
    ours = joined.index_select(1, code_order(virtual, joined.device))
    flat = ours.transpose(1, 2).mul(LOG2_E).contiguous()
    flat[:, :, -1] = LOWEST
    return flat


def product_precision(like: Tensor) -> str:
    """Return the precision of products in kernels: that of PyTorch's own products."""
    if not like.is_cuda:
        return "interpreted"
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


def attend_forward(
    qkv: Tensor, codes: Codes, table: Tensor, heads: int, draw: Draw
) -> tuple[Tensor, Tensor]:
    """Return the mixed values [..., F] and the log2 of the softmax's sums [tokens, H, t].

    Args:
        qkv: [B, t, 3 F] or [rows, 3 F], contiguous.
        codes: Codes of the pairs.
        table: See `flat_tables`.
        heads: Number of heads.
        draw: Dropout of attention weights.
    """
    batch, t, _ = codes.values.shape
    width = qkv.shape[-1] // 3
    out = qkv.new_empty((*qkv.shape[:-1], width))
    lse = qkv.new_empty((batch, heads, t), dtype=torch.float32)
    per_head = width // heads
    blocks = choose_blocks("forward", t, per_head, qkv.element_size())
    keys, rest = key_blocks(t)
    together = math.gcd(heads, blocks.heads)
    programs = batch * -(-t // blocks.queries) * (heads // together)
    attention_kernels.attend_forward_kernel[(programs,)](
        qkv,
        codes.values,
        table,
        codes.farthest if codes.offsets is None else codes.offsets,
        out,
        lse,
        draw.seed,
        draw.stream,
        draw.level,
        draw.keep_scale,
        LOG2_E * per_head**-0.5,
        T=t,
        H=heads,
        D=per_head,
        CODES=table.shape[1],
        HEADS=together,
        BLOCK_I=blocks.queries,
        KEYS=keys,
        REST=rest,
        SHORT=short_keys(t),
        BLOCK_D=power_of_two(per_head),
        DROP=draw.probability > 0.0,
        PACKED=codes.offsets is not None,
        PRECISION=product_precision(qkv),
        num_warps=blocks.warps,
        num_stages=1,
        maxnreg=blocks.registers,
    )
    return out, lse


class AttentionGradients(NamedTuple):
    """Gradients of attention; sums are those of single programs or tokens, still to be added up."""

    qkv: Tensor  # in the shape of qkv
    sums: Tensor  # [tokens, 3 F] float32: gradients of qkv summed over the slots
    parts: Tensor  # [programs, places, H] float32: gradients of the table's first places


def table_places(codes: Codes, distances: bool) -> int:
    """Return how many of the first places of a table have a gradient.

    Args:
        codes: Codes of the pairs.
        distances: Whether distances have a learned bias.
    """
    return (NUM_DISTANCES if distances else NEAR) + num_pairs(codes.virtual)


class _Chunks(NamedTuple):
    """Parts of a batch, such that the score gradients of one part fit into `_SCRATCH`."""

    starts: range
    each: int
    summing: int  # programs that sum gradients by code


def _chunks(codes: Codes, heads: int, size: int) -> _Chunks:
    batch, t, _ = codes.values.shape
    row = heads * t * t * size  # bytes of a row's score gradients
    each = -(-batch // max(1, -(-batch * row // _SCRATCH)))
    return _Chunks(range(0, batch, each), each, max(1, min(_SUMMING, each)))


def empty_sums(
    codes: Codes, layers: int, width: int, heads: int, like: Tensor, learned: bool
) -> tuple[Tensor, Tensor]:
    """Return empty tensors for the sums of `attend_backward` of all layers.

    Args:
        codes: Codes of the pairs.
        layers: Number of layers.
        width: Channels.
        heads: Number of heads.
        like: A tensor with the device and precision of qkv.
        learned: Whether distances have a learned bias.
    """
    chunks = _chunks(codes, heads, like.element_size())
    programs = len(chunks.starts) * chunks.summing
    places = table_places(codes, learned)
    sums = like.new_empty((layers, len(codes.values), 3 * width), dtype=torch.float32)
    return sums, like.new_empty((layers, programs, places, heads), dtype=torch.float32)


def attend_backward(
    grad: Tensor,
    qkv: Tensor,
    codes: Codes,
    table: Tensor,
    lse: Tensor,
    draw: Draw,
    distances: bool = True,
    in_place: bool = False,
    room: tuple[Tensor, Tensor] | None = None,
) -> AttentionGradients:
    """Return the gradients of qkv and of the bias table.

    Args:
        grad: Gradient of the output, contiguous.
        qkv: As in the forward pass.
        codes: As in the forward pass.
        table: As in the forward pass.
        lse: Second result of the forward pass.
        draw: As in the forward pass.
        distances: Whether distances have a learned bias.
        in_place: Whether the gradient of qkv may overwrite it.
        room: Tensors for the sums: a layer's part of `empty_sums`.
    """
    batch, t, _ = codes.values.shape
    width, (heads, size) = grad.shape[-1], table.shape
    per_head = width // heads
    out = qkv if in_place else torch.empty_like(qkv)
    if room is None:
        rooms = empty_sums(codes, 1, width, heads, qkv, distances)
        room = (rooms[0][0], rooms[1][0])
    sums, parts = room
    learned = distances or codes.virtual > 0
    pairs, places = num_pairs(codes.virtual), parts.shape[1]
    chunks = _chunks(codes, heads, qkv.element_size())
    scratch = qkv.new_empty((chunks.each if learned else 1, heads, t, t))
    blocks = choose_blocks("backward", t, per_head, qkv.element_size())
    keys, rest = key_blocks(t)
    offsets = codes.farthest if codes.offsets is None else codes.offsets
    for number, first in enumerate(chunks.starts):
        rows = min(chunks.each, batch - first)
        attention_backward_kernels.attend_backward_kernel[(rows * heads,)](
            qkv,
            codes.values,
            table,
            offsets,
            grad,
            lse,
            out,
            sums,
            scratch,
            draw.seed,
            draw.stream,
            draw.level,
            first,
            draw.keep_scale,
            LOG2_E * per_head**-0.5,
            per_head**-0.5,
            T=t,
            H=heads,
            D=per_head,
            CODES=size,
            BLOCK_I=blocks.queries,
            KEYS=keys,
            REST=rest,
            SHORT=short_keys(t),
            BLOCK_D=power_of_two(per_head),
            DROP=draw.probability > 0.0,
            LEARNED=learned,
            PACKED=codes.offsets is not None,
            PRECISION=product_precision(qkv),
            num_warps=blocks.warps,
            num_stages=1,
            maxnreg=blocks.registers,
        )
        if learned:
            further = -(-(places - pairs - NEAR) // NEAR)
            pair_kernels.bias_gradients_kernel[(chunks.summing, 1 + further)](
                scratch,
                codes.values,
                codes.farthest,
                offsets,
                parts[number * chunks.summing :],
                first,
                rows,
                S=codes.slots,
                M=codes.virtual,
                H=heads,
                WIDTH=places,
                BLOCK_H=power_of_two(heads),
                BLOCK_K=SUMMED,
                BLOCK_V=power_of_two(pairs),
                BLOCK_P=NEAR,
                PACKED=codes.offsets is not None,
                PRECISION=product_precision(qkv),
                num_warps=SUMMING_WARPS,
                num_stages=1,
            )
    return AttentionGradients(out, sums, parts)


def draw_seed(device: torch.device) -> Tensor:
    """Return a seed for one forward pass, [1] int64, from PyTorch's generator of the device."""
    return torch.randint(-(2**63), 2**63 - 1, (1,), dtype=torch.int64, device=device)
