"""Counter-based random numbers: dropout masks are recomputed, not stored.

Each number is a hash of (seed, stream, row, place). The forward and the backward pass compute the
same ones, in any order and from any program: masks take no memory and results are reproducible.
"""

import triton
import triton.language as tl


@triton.jit
def scramble(x):
    """Return 32 bits each of which depends on all bits of `x`, uint32 to uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def stream_key(seed, stream):
    """Return the key of a stream of random numbers from the int64 at `seed`."""
    bits = tl.load(seed)
    low = bits.to(tl.uint32)
    high = (bits >> 32).to(tl.uint32)
    return scramble(scramble(low + stream.to(tl.uint32) * 0x9E3779B9) ^ high)


@triton.jit
def row_key(key, row):
    """Return the key of a row of a stream."""
    return scramble(key ^ scramble(row.to(tl.uint32) + 0x9E3779B9))


@triton.jit
def dropped(key, place, level):
    """Return which places of a row are dropped, each with probability level / 2 ** 31."""
    x = key ^ (place.to(tl.uint32) * 0x9E3779B9)
    # As `scramble`, without the last step, which changes only bits too low to matter.
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return (x >> 1).to(tl.int32) < level
