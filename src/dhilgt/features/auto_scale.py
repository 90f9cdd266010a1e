"""Which columns of the features need another scale, and which one: `feature_scale="auto"`.

A column is left as it is, to the last bit, unless its numbers are far from those that a model
learns from: words counted or weighted, embeddings and standardised columns stay; years, codes,
amounts and day numbers do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.features.column_statistics import (
    BLOCK,
    canonical,
    column_blocks,
    column_sizes,
    normal_quantiles,
    points,
    sparse_limits,
)

LARGE = 10.0  # typical size (root mean square) from which on a column is scaled
HUGE = 100.0  # size of a single value from which on it is
TINY = 1e-3  # span of a column below which it is
FARTHEST = 20.0  # deviations from the mean beyond which a column is ranked
_SAMPLE = 1 << 16  # values of a column, evenly spaced, that tell where its middle half lies
NARROWEST = 0.2  # deviations that the middle half of a column spans at least, or it is ranked


def auto_arrays(features: Any) -> dict[str, NDArray[Any]]:
    """Return the statistics of the columns that need a scale; see `FeatureScale`.

    Args:
        features: One row per node: an array or a SciPy sparse matrix.

    Raises:
        GraphError: If a value is not finite.
    """
    if hasattr(features, "tocsr"):
        return _sparse_arrays(canonical(features))
    width = features.shape[1]
    shift, scale = np.zeros(width), np.ones(width)
    values: list[NDArray[np.float32]] = [np.empty(0, np.float32)]
    ranks: list[NDArray[np.float64]] = [np.empty(0)]
    lengths = np.zeros(width, np.int64)
    needed = np.flatnonzero(_needed(*column_sizes(features)))
    for columns, block in column_blocks(features, needed):
        for at, column in zip(columns.tolist(), block, strict=True):
            wide = column.astype(np.float64)
            mean = float(wide.mean())
            wide -= mean
            deviation = float(np.sqrt(wide @ wide / len(wide)))
            if column.min() == column.max():
                shift[at] = column[0]  # a computed mean of equal values can differ from them
            elif _has_heavy_tails(column, mean, deviation):
                column.sort()
                kept, mean_ranks = points(column)
                values.append(kept)
                ranks.append(mean_ranks)
                lengths[at] = len(kept)
            else:
                shift[at], scale[at] = mean, deviation
    return {
        "shift": shift,
        "scale": scale,
        "values": np.concatenate(values),
        "scores": normal_quantiles(np.concatenate(ranks)),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
    }


def _needed(
    low: NDArray[np.float32], high: NDArray[np.float32], typical: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which columns need a scale."""
    largest = np.maximum(np.abs(low), np.abs(high))
    is_tiny = (high > low) & (high.astype(np.float64) - low < TINY)
    needed: NDArray[np.bool_] = (typical > LARGE) | (largest > HUGE) | is_tiny
    return needed


def _has_heavy_tails(column: NDArray[np.float32], mean: float, deviation: float) -> bool:
    """Return whether division by the deviation would leave most values next to each other.

    A few amounts in millions do that, and so does 9999 for "not known" among years.
    """
    farthest = max(column.max() - mean, mean - column.min())
    if farthest > FARTHEST * deviation:
        return True
    some = column[:: max(1, len(column) // _SAMPLE)]
    quarter = len(some) // 4
    ordered = np.partition(some, (quarter, len(some) - 1 - quarter))
    middle = float(ordered[len(some) - 1 - quarter]) - float(ordered[quarter])
    return 0 < middle < NARROWEST * deviation


def _sparse_arrays(matrix: Any) -> dict[str, NDArray[Any]]:
    """Return divisors alone, so that zeros stay zeros: the typical size of the other values."""
    count, width = matrix.shape
    low, high = sparse_limits(matrix)
    squares = np.zeros(width)
    filled = np.zeros(width, np.int64)
    for start in range(0, len(matrix.data), BLOCK):
        data = matrix.data[start : start + BLOCK].astype(np.float64)
        at = matrix.indices[start : start + BLOCK]
        squares += np.bincount(at, data * data, minlength=width)
        filled += np.bincount(at, data != 0, minlength=width).astype(np.int64)
    needed = _needed(low, high, np.sqrt(squares / count))
    own = np.sqrt(squares / np.maximum(filled, 1))
    return {
        "shift": np.zeros(width),
        "scale": np.where(needed & (own > 0), own, 1.0),
        "values": np.empty(0, np.float32),
        "scores": np.empty(0, np.float32),
        "offsets": np.zeros(width + 1, np.int64),
    }
