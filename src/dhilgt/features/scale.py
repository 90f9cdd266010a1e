"""Scaling of feature columns, by statistics that are stored with the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError, ConfigError, GraphError
from dhilgt.utils.checks import choice

NONE, STANDARD, RANK = FEATURE_SCALES = ("none", "standard", "rank")

_MOST_POINTS = 1001  # values kept of a column
_BLOCK = 1 << 22  # numbers processed at a time: bounds the memory beside the result
_LARGEST = float(np.finfo(np.float32).max)
_TYPES: dict[str, dict[str, Any]] = {
    STANDARD: {"shift": np.float64, "scale": np.float64},
    RANK: {"values": np.float32, "scores": np.float32, "offsets": np.int64},
}


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """A scaling of feature columns: fitted on one graph, applied to any.

    - "standard": (value - mean) / standard deviation of the column. A column of one value is only
      centred. Sparse features stay sparse: they are divided by the standard deviation (zeros
      included) and not centred. `fit` decides whether to centre: features that were dense then and
      are sparse later become dense.
    - "rank": normal scores. A value becomes the quantile of the standard normal distribution for
      the fraction of the column below it; equal values get the mean of their ranks. Of a column up
      to 1,001 values with their scores are kept. Others are interpolated linearly, those beyond the
      ends get the score of the end. A column of one value becomes 0. Not for sparse features.

    Attributes:
        kind: "standard" or "rank".
        arrays: The statistics, for a file. "standard": shift and scale, one number per column.
            "rank": values, ascending in each column, their scores, and offsets: the positions in
            both at which columns begin and end.

    Example:
        >>> x = np.array([[1.0, 5.0], [3.0, 5.0], [900.0, 5.0]], np.float32)
        >>> scale = FeatureScale.fit(x, "rank")
        >>> scale.apply(x).astype(float).round(2).tolist()
        [[-0.97, 0.0], [0.0, 0.0], [0.97, 0.0]]
        >>> FeatureScale.from_arrays("rank", scale.arrays).apply(x[:1] - 7).shape
        (1, 2)
    """

    kind: str
    arrays: dict[str, NDArray[Any]]

    # ---- fit -----------------------------------------------------------------------------------

    @classmethod
    def fit(cls, features: Any, kind: str) -> Self:
        """Compute the statistics of features.

        Args:
            features: One row per node: an array or a SciPy sparse matrix; not changed.
            kind: "standard" or "rank".

        Raises:
            ConfigError: If the kind is unknown, or not for sparse features.
            GraphError: If there are no rows, or a value is not finite.
        """
        choice("kind", kind, _TYPES)
        check_scalable(features, kind)
        if not features.shape[0]:
            raise GraphError("features without a row have no scale; pass at least one node")
        if kind == RANK:
            return cls(kind, _rank_points(features))
        moments = _sparse_moments if hasattr(features, "tocsr") else _moments
        return cls(kind, dict(zip(_TYPES[kind], moments(features), strict=True)))

    @classmethod
    def from_arrays(cls, kind: Any, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the scale that `kind` and `arrays` of another one describe.

        Args:
            kind: "standard" or "rank".
            arrays: Its arrays, as read from a file.

        Raises:
            ArtifactError: If they are not the arrays of such a scale.
        """
        if kind not in _TYPES or set(arrays) != set(_TYPES[kind]):
            raise ArtifactError(f"{kind!r} with {sorted(arrays)} is not a scale of features")
        checked = {name: np.asarray(arrays[name]) for name in _TYPES[kind]}
        for name, dtype in _TYPES[kind].items():
            array = checked[name]
            if array.ndim != 1 or array.dtype != dtype or not np.isfinite(array).all():
                raise ArtifactError(f"{name} of a scale is not a row of finite {dtype.__name__}")
        if not (_are_moments(**checked) if kind == STANDARD else _are_points(**checked)):
            raise ArtifactError(f"the arrays of a scale of kind {kind!r} do not fit together")
        return cls(kind, checked)

    @property
    def num_channels(self) -> int:
        """Number of columns."""
        return (
            len(self.arrays["shift"]) if self.kind == STANDARD else len(self.arrays["offsets"]) - 1
        )

    # ---- apply ---------------------------------------------------------------------------------

    def apply(self, features: Any) -> Any:
        """Return the scaled features, float32 and finite; the input is not changed.

        Args:
            features: An array or, with "standard", a SciPy sparse matrix, as wide as those of
                `fit`.

        Raises:
            ConfigError: If they have another width, or are sparse and the kind is "rank".
        """
        check_scalable(features, self.kind)
        if features.shape[1] != self.num_channels:
            raise ConfigError(
                f"features have {features.shape[1]} columns, the scale was fitted on "
                f"{self.num_channels}; pass the same columns"
            )
        if self.kind == RANK:
            return self._ranked(features)
        if hasattr(features, "tocsr"):
            if not self.arrays["shift"].any():
                return self._divided(_canonical(features))
            features = features.toarray()
        return self._standardised(features)

    def _standardised(self, features: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty(features.shape, np.float32)
        rows = max(1, _BLOCK // max(1, features.shape[1]))
        for start in range(0, len(features), rows):
            block = features[start : start + rows].astype(np.float64)
            block -= self.arrays["shift"]
            block /= self.arrays["scale"]
            # In another graph a value can be too large for float32.
            out[start : start + rows] = np.clip(block, -_LARGEST, _LARGEST, out=block)
        return out

    def _divided(self, matrix: Any) -> Any:
        data = np.empty(len(matrix.data), np.float32)
        for start in range(0, len(data), _BLOCK):
            part = slice(start, start + _BLOCK)
            block = matrix.data[part] / self.arrays["scale"][matrix.indices[part]]
            data[part] = np.clip(block, -_LARGEST, _LARGEST, out=block)
        return type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    def _ranked(self, features: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty(features.shape, np.float32)
        values, scores, offsets = (self.arrays[name] for name in _TYPES[RANK])
        for columns, block in _column_blocks(features):
            for column, row in zip(columns, block, strict=True):
                points = slice(offsets[column], offsets[column + 1])
                row[:] = np.interp(row, values[points], scores[points])
            out[:, columns.start : columns.stop] = block.T
        return out


def check_scalable(features: Any, kind: str) -> None:
    """Raise an error for ranks of sparse features: nearly all of a column would be one tie.

    Args:
        features: An array or a SciPy sparse matrix.
        kind: One of `FEATURE_SCALES`.

    Raises:
        ConfigError: If they are sparse and the kind is "rank".
    """
    if kind == RANK and hasattr(features, "tocsr"):
        raise ConfigError(
            f"feature_scale = {RANK!r}, but the features are sparse ({features.shape[1]:,} "
            f"columns); choose {STANDARD!r}, or pass dense features (features.toarray())"
        )


# ---- statistics --------------------------------------------------------------------------------


def _column_blocks(features: NDArray[Any]) -> Iterator[tuple[range, NDArray[np.float32]]]:
    """Yield some columns at a time, as rows of a copy."""
    count, width = features.shape
    step = max(1, _BLOCK // max(1, count))
    for start in range(0, width, step):
        columns = range(start, min(start + step, width))
        block = features[:, columns.start : columns.stop].T
        yield columns, np.array(block, np.float32, order="C")


def _moments(features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each column; 1 for a column of one value."""
    mean, deviation = np.empty(features.shape[1]), np.ones(features.shape[1])
    for columns, block in _column_blocks(features):
        low, high = block.min(axis=1), block.max(axis=1)
        _check_finite(low, high, columns)
        at = slice(columns.start, columns.stop)
        # A computed mean of equal values can differ from them, and the deviation be tiny noise.
        wide = block.astype(np.float64)
        mean[at] = np.where(low == high, low, wide.mean(axis=1))
        deviation[at] = np.where(low == high, 1.0, wide.std(axis=1))
    return mean, deviation


def _sparse_moments(features: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return zeros, and the standard deviation of each column; 1 for a column of one value."""
    matrix = _canonical(features)
    count, width = matrix.shape
    low, high = (np.asarray(side.toarray()).ravel() for side in (matrix.min(0), matrix.max(0)))
    _check_finite(low, high, range(width))
    filled = np.bincount(matrix.indices, minlength=width)
    mean = np.bincount(matrix.indices, matrix.data, minlength=width) / count
    squares = np.zeros(width)
    for start in range(0, len(matrix.data), _BLOCK):
        at = matrix.indices[start : start + _BLOCK]
        deviations = matrix.data[start : start + _BLOCK] - mean[at]
        squares += np.bincount(at, deviations * deviations, minlength=width)
    squares += (count - filled) * mean * mean
    return np.zeros(width), np.where(low == high, 1.0, np.sqrt(squares / count))


def _canonical(features: Any) -> Any:
    """Return a CSR matrix without duplicate entries."""
    matrix = features.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _rank_points(features: NDArray[Any]) -> dict[str, NDArray[Any]]:
    import torch

    values, ranks = [np.empty(0, np.float32)], [np.empty(0)]
    for columns, block in _column_blocks(features):
        block.sort(axis=1)  # values that are not finite come first or last
        _check_finite(block[:, 0], block[:, -1], columns)
        for row in block:
            kept, mean_ranks = _points(row)
            values.append(kept)
            ranks.append(mean_ranks)
    scores = torch.special.ndtri(torch.from_numpy(np.concatenate(ranks))).numpy()
    return {
        "values": np.concatenate(values),
        "scores": scores.astype(np.float32),
        "offsets": np.cumsum([len(part) for part in values]),
    }


def _points(ordered: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return distinct values of an ascending column, ends included, and their mean ranks."""
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))  # of equal values
    ends = np.append(begins[1:], len(ordered))
    if len(begins) > _MOST_POINTS:
        spaced = np.linspace(0, len(ordered) - 1, _MOST_POINTS).round()
        kept = np.unique(np.searchsorted(begins, spaced, side="right") - 1)
        begins, ends = begins[kept], ends[kept]
    # At least half a rank from 0 and 1, where the quantiles of the normal distribution diverge.
    return ordered[begins], (begins + ends) / (2 * len(ordered))


def _check_finite(low: NDArray[Any], high: NDArray[Any], columns: range) -> None:
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if bad.size:
        raise GraphError(
            f"column {columns[bad[0]]} of the features has values that are not finite as float32; "
            "fill them first, for example with numpy.nan_to_num"
        )


# ---- checks of arrays from a file --------------------------------------------------------------


def _are_moments(shift: NDArray[Any], scale: NDArray[Any]) -> bool:
    return len(shift) == len(scale) and bool((scale > 0).all())


def _are_points(values: NDArray[Any], scores: NDArray[Any], offsets: NDArray[Any]) -> bool:
    """Return whether every column has points, ascending by value, with scores never falling."""
    if len(values) != len(scores) or not len(offsets) or offsets[0] or offsets[-1] != len(values):
        return False
    if not (np.diff(offsets) > 0).all():
        return False
    inside = np.ones(max(0, len(values) - 1), np.bool_)
    inside[offsets[1:-1] - 1] = False  # steps from one column to the next
    rises = (np.diff(values) > 0) & (np.diff(scores) >= 0)
    return bool(rises[inside].all())
