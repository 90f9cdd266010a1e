"""Checksums of stored arrays: of all bytes, and of blocks where a file is large.

A file up to `WHOLE_BYTES` is compared whole whenever it is opened. A larger one has a checksum for
each of its blocks too; where it is mapped and not read, a sample of the blocks is compared.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE_BYTES = 100_000_000  # a tenth of a second
SAMPLED_BLOCKS = 24
_BLOCK_BYTES = 1 << 22
_MOST_BLOCKS = 4096  # of one file: their sums take a quarter of a megabyte in the manifest


def block_bytes(num_bytes: int) -> int:
    """Return the size of the blocks of a file.

    Example:
        >>> block_bytes(200_000_000), block_bytes(100_000_000_000)
        (4194304, 33554432)
    """
    size = _BLOCK_BYTES
    while size * _MOST_BLOCKS < num_bytes:
        size *= 2
    return size


def num_blocks(num_bytes: int) -> int:
    """Return the number of blocks of a file."""
    return -(-num_bytes // block_bytes(num_bytes))


class StoredBytes:
    """The bytes of the file of an array, header and data, without a copy.

    Args:
        header: The bytes before the data.
        array: In C order; it may be mapped.

    Example:
        >>> stored = StoredBytes(b"head", np.arange(3, dtype=np.uint8))
        >>> stored.sha256() == hashlib.sha256(b"head" + bytes([0, 1, 2])).hexdigest()
        True
    """

    def __init__(self, header: bytes, array: NDArray[Any]) -> None:
        self._header = header
        # An array without elements cannot be viewed as bytes.
        self._data = array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self._header) + self._data.size

    def sha256(self) -> str:
        """Return the SHA-256 of all bytes."""
        digest = hashlib.sha256(self._header)
        digest.update(self._data.data)
        return digest.hexdigest()

    def block_sha256(self, number: int) -> str:
        """Return the SHA-256 of one block."""
        size, skipped = block_bytes(len(self)), len(self._header)
        start, stop = number * size, (number + 1) * size
        digest = hashlib.sha256(self._header[start:stop])
        digest.update(self._data[max(0, start - skipped) : max(0, stop - skipped)].data)
        return digest.hexdigest()

    def blocks(self) -> tuple[str, ...]:
        """Return the SHA-256 of each block of a large file, none of a small one."""
        if len(self) <= WHOLE_BYTES:
            return ()
        return tuple(self.block_sha256(number) for number in range(num_blocks(len(self))))


def sampled_blocks(count: int) -> Iterator[int]:
    """Yield the first block, the last one, and one at random of each equal part of the file.

    Another sample each time: damage that one opening misses, another may find.
    """
    draw = random.SystemRandom()
    yield from {0, count - 1}
    bounds = np.linspace(0, count, min(count, SAMPLED_BLOCKS - 2) + 1).astype(int).tolist()
    for start, stop in itertools.pairwise(bounds):
        yield draw.randrange(start, stop)
