"""Packed label rows, built and joined in NumPy in the format of native/core/labels/pack.h.

A row holds the label of one rank: the number of segments, then the step in distance and the number
of hubs of each, then the hubs as steps inside their segment, all as varints. The self entry is not
written. Rows do not depend on the number of nodes, so rows of old ranks stay valid when ranks are
added.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_VARINT_BITS = 7


class PackedLabelRows(NamedTuple):
    """Packed labels of some ranks.

    Attributes:
        offsets: Where each row begins in `records`, and where the last one ends.
        records: The bytes of all rows.
    """

    offsets: NDArray[np.uint64]
    records: NDArray[np.uint8]


def pack_rows(
    lengths: NDArray[np.int64], hubs: NDArray[np.int64], distances: NDArray[np.int64]
) -> PackedLabelRows:
    """Pack rows of entries.

    Args:
        lengths: Entries of each row, self entries left out.
        hubs: Ranks of the hubs of all rows; by distance, then rank, inside each row.
        distances: Their distances, 1 or more.

    Example:
        >>> pack_rows(np.array([2, 0]), np.array([4, 9]), np.array([1, 1])).records.tolist()
        [1, 1, 2, 4, 4, 0]
    """
    num_entries = len(hubs)
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    is_first = np.ones(num_entries, bool)  # of its segment
    is_first[1:] = (row_of[1:] != row_of[:-1]) | (distances[1:] != distances[:-1])
    segment_at = np.flatnonzero(is_first)
    segment_row, segment_distance = row_of[segment_at], distances[segment_at]
    in_same_row = segment_row[1:] == segment_row[:-1]
    distance_steps = segment_distance.copy()
    distance_steps[1:] -= np.where(in_same_row, segment_distance[:-1], 0)
    hub_steps = hubs.copy()
    hub_steps[1:] -= np.where(is_first[1:], 0, hubs[:-1] + 1)

    num_segments = np.bincount(segment_row, minlength=len(lengths))
    starts = _offsets(1 + 2 * num_segments + lengths)
    numbers = np.empty(starts[-1], np.int64)
    numbers[starts[:-1]] = num_segments
    at = _ranges(starts[:-1] + 1, num_segments, step=2)
    numbers[at], numbers[at + 1] = distance_steps, np.diff(np.append(segment_at, num_entries))
    numbers[_ranges(starts[:-1] + 1 + 2 * num_segments, lengths)] = hub_steps
    offsets, records = _varints(numbers)
    return PackedLabelRows(offsets[starts].astype(np.uint64), records)


def only_rows(packed: PackedLabelRows, kept: NDArray[np.bool_]) -> PackedLabelRows:
    """Return the same number of rows, those not kept emptied."""
    changes = np.flatnonzero(kept[1:] != kept[:-1]) + 1  # copied run by run, not byte by byte
    runs = np.concatenate([[0], changes, [len(kept)]])
    bounds = packed.offsets[runs].tolist()
    pieces = [
        packed.records[begin:end] if kept[first] else np.zeros(last - first, np.uint8)
        for (begin, end), (first, last) in zip(pairwise(bounds), pairwise(runs), strict=True)
    ]
    sizes = np.diff(packed.offsets.astype(np.int64))
    offsets = _offsets(np.where(kept, sizes, 1))  # an empty row is the number 0
    return PackedLabelRows(offsets.astype(np.uint64), np.concatenate(pieces))


def joined(first: PackedLabelRows, second: PackedLabelRows) -> PackedLabelRows:
    """Return the rows of both, one after the other."""
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    return PackedLabelRows(offsets, np.concatenate([first.records, second.records]))


def empty_rows(count: int) -> PackedLabelRows:
    """Return rows that hold nothing but their self entry."""
    return PackedLabelRows(np.arange(count + 1, dtype=np.uint64), np.zeros(count, np.uint8))


def _varints(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where each number begins (and the last one ends), and the bytes."""
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(_VARINT_BITS, 32, _VARINT_BITS):
        sizes += numbers >> bits > 0
    offsets = _offsets(sizes)
    records = np.empty(offsets[-1], np.uint8)
    for at in range(int(sizes.max(initial=0))):
        longer = sizes > at
        low = numbers[longer] >> (_VARINT_BITS * at) & 0x7F
        records[offsets[:-1][longer] + at] = low | np.where(sizes[longer] > at + 1, 0x80, 0)
    return offsets, records


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _ranges(
    begins: NDArray[np.int64], counts: NDArray[np.int64], step: int = 1
) -> NDArray[np.int64]:
    """Return begins[i], begins[i] + step, ... counts[i] times, for all i one after the other."""
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(begins, counts) + step * (np.arange(len(before)) - before)
