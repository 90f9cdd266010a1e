"""Hashes in 64-bit integers: the same on every platform and with every version of NumPy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_WORD_BYTES = 8
# Of a word of eight bytes, the first 0 to 8.
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.uint64)


def finalized(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the values mixed by the finaliser of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the first number that SplitMix64 draws from each value as its seed.

    Example:
        >>> [f"{number:016x}" for number in hashed(np.array([0, 1], np.uint64)).tolist()]
        ['e220a8397b1dcdaf', '910a2dec89025cc1']
    """
    return finalized(values + GOLDEN)


def hashed_texts(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return a hash of the UTF-8 bytes of each text.

    Begin with the hash of the number of bytes. Then, for every eight bytes as a little-endian
    number, the last ones filled up with zeros, hash the exclusive or of that number and the hash
    so far.

    Example:
        >>> [f"{number:016x}" for number in hashed_texts(["ann", "bob"]).tolist()]
        ['381d69e38085e6a3', 'cf266479b1f0b41c']
    """
    joined = "".join(texts)
    # Text that cannot be written to a file, such as half of a pair of surrogates, is hashed too.
    data = joined.encode("utf-8", "surrogatepass")
    whole = len(data) == len(joined)  # ASCII only: lengths are known without encoding each
    sizes = (len(one if whole else one.encode("utf-8", "surrogatepass")) for one in texts)
    lengths = np.fromiter(sizes, np.int64, len(texts))
    # A word begins at every byte; zeros after the last one.
    words: NDArray[np.uint64] = np.ndarray(
        (len(data) + 1,), "<u8", data + bytes(_WORD_BYTES), strides=(1,)
    )
    hashes = hashed(lengths.astype(np.uint64))
    active = np.flatnonzero(lengths > 0)
    at, left = (np.cumsum(lengths) - lengths)[active], lengths[active]
    while active.size:
        word = words[at] & _FIRST_BYTES[np.minimum(left, _WORD_BYTES)]
        hashes[active] = hashed(hashes[active] ^ word)
        goes_on = left > _WORD_BYTES
        active, at, left = active[goes_on], at[goes_on] + _WORD_BYTES, left[goes_on] - _WORD_BYTES
    return hashes
