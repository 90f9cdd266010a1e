"""Random numbers by position: a decision that was drawn once can be drawn again, not stored.

Each number is a hash of (seed, stream, row, place). Forward and backward ask for the same ones, in
any order and from any program, so that masks cost no memory and results repeat bit for bit.
"""

import triton
import triton.language as tl


@triton.jit
def scramble(x):
    """Gives 32 bits each of which depends on all bits of `x`, uint32 to uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def stream_key(seed, stream):
    """Gives the key of a stream of decisions from the int64 at `seed`."""
    bits = tl.load(seed)
    low = bits.to(tl.uint32)
    high = (bits >> 32).to(tl.uint32)
    return scramble(scramble(low + stream.to(tl.uint32) * 0x9E3779B9) ^ high)


@triton.jit
def row_key(key, row):
    """Gives the key of a row of a stream."""
    return scramble(key ^ scramble(row.to(tl.uint32) + 0x9E3779B9))


@triton.jit
def dropped(key, place, level):
    """Says which places of a row are dropped: a share of level / 2 ** 31 of them."""
    x = key ^ (place.to(tl.uint32) * 0x9E3779B9)
    # As `scramble`, without the last step: it changes lower bits than a share can tell apart.
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return (x >> 1).to(tl.int32) < level
