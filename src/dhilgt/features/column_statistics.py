"""Statistics of feature columns, computed a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError

MOST_POINTS = 1001  # values kept of a column
BLOCK = 1 << 22  # numbers processed at a time: bounds the memory beside the result
_CACHED = 1 << 16  # numbers that stay in a core's cache between two passes over them
_WIDE = 512  # from here on NumPy reduces rows at full speed


class Sizes(NamedTuple):
    """The size of the numbers in each column.

    Attributes:
        low: Smallest value.
        high: Largest value.
        typical: Root of the mean square.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    typical: NDArray[np.float64]


def column_sizes(features: NDArray[Any]) -> Sizes:
    """Return the size of the numbers in each column, in one pass over the rows in their order.

    Raises:
        GraphError: If a value is not finite.
    """
    count, width = features.shape
    # Narrow rows are taken several at a time, side by side: one row of the block is then wide.
    beside = max(1, _WIDE // max(1, width))
    step = beside * max(1, _CACHED // max(1, beside * width))
    low, high = np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)
    squares = np.zeros(width)
    for start in range(0, count, step):
        block = np.ascontiguousarray(features[start : start + step], np.float32)
        if len(block) % beside == 0:
            block = block.reshape(-1, beside * width)
        np.minimum(low, block.min(axis=0).reshape(-1, width).min(axis=0), out=low)
        np.maximum(high, block.max(axis=0).reshape(-1, width).max(axis=0), out=high)
        with np.errstate(over="ignore"):  # the square of a huge number: infinite is large enough
            of_block = np.einsum("ij,ij->j", block, block)
        squares += of_block.reshape(-1, width).sum(axis=0, dtype=np.float64)
    check_finite(low, high, range(width))
    return Sizes(low, high, np.sqrt(squares / count))


def column_blocks(
    features: NDArray[Any], columns: NDArray[np.int64] | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield some columns at a time, as rows of a copy.

    Args:
        features: One row per node.
        columns: Ascending positions of the columns; None for all.
    """
    count, width = features.shape
    columns = np.arange(width) if columns is None else columns
    step = max(1, BLOCK // max(1, count))
    for start in range(0, len(columns), step):
        some = columns[start : start + step]
        first, behind = int(some[0]), int(some[-1]) + 1
        side_by_side = behind - first == len(some)
        block = features[:, first:behind] if side_by_side else features[:, some]
        yield some, np.array(block.T, np.float32, order="C")


def moments(features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each column; 1 for a column of one value."""
    mean, deviation = np.empty(features.shape[1]), np.ones(features.shape[1])
    for columns, block in column_blocks(features):
        low, high = block.min(axis=1), block.max(axis=1)
        check_finite(low, high, columns)
        # A computed mean of equal values can differ from them, and the deviation be tiny noise.
        wide = block.astype(np.float64)
        mean[columns] = np.where(low == high, low, wide.mean(axis=1))
        deviation[columns] = np.where(low == high, 1.0, wide.std(axis=1))
    return mean, deviation


def sparse_limits(matrix: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the smallest and the largest value of each column, zeros included.

    Raises:
        GraphError: If a value is not finite.
    """
    low, high = (np.asarray(side.toarray()).ravel() for side in (matrix.min(0), matrix.max(0)))
    check_finite(low, high, range(matrix.shape[1]))
    return low, high


def sparse_moments(features: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return zeros, and the standard deviation of each column; 1 for a column of one value."""
    matrix = canonical(features)
    count, width = matrix.shape
    low, high = sparse_limits(matrix)
    filled = np.bincount(matrix.indices, minlength=width)
    mean = np.bincount(matrix.indices, matrix.data, minlength=width) / count
    squares = np.zeros(width)
    for start in range(0, len(matrix.data), BLOCK):
        at = matrix.indices[start : start + BLOCK]
        deviations = matrix.data[start : start + BLOCK] - mean[at]
        squares += np.bincount(at, deviations * deviations, minlength=width)
    squares += (count - filled) * mean * mean
    return np.zeros(width), np.where(low == high, 1.0, np.sqrt(squares / count))


def canonical(features: Any) -> Any:
    """Return a CSR matrix without duplicate entries."""
    matrix = features.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def rank_points(features: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return values of each column with their normal scores; see `FeatureScale`."""
    values, ranks = [np.empty(0, np.float32)], [np.empty(0)]
    for columns, block in column_blocks(features):
        block.sort(axis=1)  # values that are not finite come first or last
        check_finite(block[:, 0], block[:, -1], columns)
        for row in block:
            kept, mean_ranks = points(row)
            values.append(kept)
            ranks.append(mean_ranks)
    return {
        "values": np.concatenate(values),
        "scores": normal_quantiles(np.concatenate(ranks)),
        "offsets": np.cumsum([len(part) for part in values]),
    }


def normal_quantiles(fractions: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the quantiles of the standard normal distribution."""
    if not fractions.size:
        return np.empty(0, np.float32)
    import torch

    quantiles = torch.special.ndtri(torch.from_numpy(fractions))
    return np.asarray(quantiles.numpy(), np.float32)


def points(ordered: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return distinct values of an ascending column, ends included, and their mean ranks."""
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))  # of equal values
    ends = np.append(begins[1:], len(ordered))
    if len(begins) > MOST_POINTS:
        spaced = np.linspace(0, len(ordered) - 1, MOST_POINTS).round()
        kept = np.unique(np.searchsorted(begins, spaced, side="right") - 1)
        begins, ends = begins[kept], ends[kept]
    # At least half a rank from 0 and 1, where the quantiles of the normal distribution diverge.
    return ordered[begins], (begins + ends) / (2 * len(ordered))


def check_finite(
    low: NDArray[Any], high: NDArray[Any], columns: Sequence[int] | NDArray[np.int64]
) -> None:
    """Raise for a column whose smallest or largest value is not finite."""
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if bad.size:
        raise GraphError(
            f"column {columns[bad[0]]} of the features has values that are not finite as float32; "
            "fill them first, for example with numpy.nan_to_num"
        )
