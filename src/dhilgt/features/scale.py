"""Scaling of feature columns, by statistics that are stored with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError, ConfigError, GraphError
from dhilgt.features import column_statistics as statistics
from dhilgt.features.auto_scale import auto_arrays
from dhilgt.utils.checks import choice

AUTO, NONE, STANDARD, RANK = FEATURE_SCALES = ("auto", "none", "standard", "rank")

_LARGEST = float(np.finfo(np.float32).max)
_NOTHING = np.empty(0)
_SHOWN = 8  # columns named in a message
_MOMENTS: dict[str, Any] = {"shift": np.float64, "scale": np.float64}
_POINTS: dict[str, Any] = {"values": np.float32, "scores": np.float32, "offsets": np.int64}
_TYPES = {AUTO: _MOMENTS | _POINTS, STANDARD: _MOMENTS, RANK: _POINTS}


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """A scaling of feature columns: fitted on one graph, applied to any.

    - "auto": scale the columns that need it and leave the others as they are, to the last bit. A
      column needs it if its root mean square is above 10 or a value is beyond 100 (years, codes,
      amounts), or if its values differ by less than 0.001. It is treated as with "standard", or
      with "rank" where a few values lie so far out that all others would end up side by side: one
      of them beyond 20 standard deviations, or half of the values within a fifth of one. Sparse
      features stay sparse: a column is divided by the root mean square of its values that are not
      0. Unlike the others it is applied before averages over neighbours are made, so that a node
      without neighbours, which has zeros there, is an average one.
    - "standard": (value - mean) / standard deviation of the column. A column of one value is only
      centred. Sparse features stay sparse: they are divided by the standard deviation (zeros
      included) and not centred. `fit` decides whether to centre: features that were dense then and
      are sparse later become dense.
    - "rank": normal scores. A value becomes the quantile of the standard normal distribution for
      the fraction of the column below it; equal values get the mean of their ranks. Of a column up
      to 1,001 values with their scores are kept. Others are interpolated linearly, those beyond the
      ends get the score of the end. A column of one value becomes 0. Not for sparse features.

    Attributes:
        kind: "auto", "standard" or "rank".
        arrays: The statistics, for a file. "standard": shift and scale, one number per column.
            "rank": values, ascending in each column, their scores, and offsets: the positions in
            both at which columns begin and end. "auto": all of these; a column that is not
            standardised has shift 0 and scale 1, one that is not ranked has no values.

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
            kind: "auto", "standard" or "rank".

        Raises:
            ConfigError: If the kind is unknown, or not for sparse features.
            GraphError: If there are no rows, or a value is not finite.
        """
        choice("kind", kind, _TYPES)
        check_scalable(features, kind)
        if not features.shape[0]:
            raise GraphError("features without a row have no scale; pass at least one node")
        if kind == AUTO:
            return cls(kind, auto_arrays(features))
        if kind == RANK:
            return cls(kind, statistics.rank_points(features))
        is_sparse = hasattr(features, "tocsr")
        moments = statistics.sparse_moments if is_sparse else statistics.moments
        return cls(kind, dict(zip(_TYPES[kind], moments(features), strict=True)))

    @classmethod
    def unchanged(cls, num_channels: int) -> Self:
        """Return the scale of kind "auto" of features in which no column needs one.

        Args:
            num_channels: Number of columns.
        """
        none = np.empty(0, np.float32)
        shift, scale = np.zeros(num_channels), np.ones(num_channels)
        offsets = np.zeros(num_channels + 1, np.int64)
        return cls(AUTO, dict(zip(_TYPES[AUTO], (shift, scale, none, none, offsets), strict=True)))

    @classmethod
    def from_arrays(cls, kind: Any, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the scale that `kind` and `arrays` of another one describe.

        Args:
            kind: "auto", "standard" or "rank".
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
        if not _fit_together(kind, checked):
            raise ArtifactError(f"the arrays of a scale of kind {kind!r} do not fit together")
        return cls(kind, checked)

    @property
    def num_channels(self) -> int:
        """Number of columns."""
        return len(self.arrays["offsets"]) - 1 if self.kind == RANK else len(self.arrays["shift"])

    @property
    def columns(self) -> NDArray[np.int64]:
        """Positions of the columns that it changes."""
        if self.kind != AUTO:
            return np.arange(self.num_channels)
        return np.flatnonzero(self._moved | self._is_ranked)

    def summary(self, names: Sequence[str] | None = None) -> str:
        """Return which columns it changes, in a few words; "" for none.

        Args:
            names: Of all columns; None shows positions.

        Example:
            >>> x = np.array([[0.5, 1990.0], [0.1, 2010.0], [0.9, 2003.0]], np.float32)
            >>> FeatureScale.fit(x, "auto").summary(["price", "year"])
            '1 of 2 columns scaled (year)'
        """
        columns = self.columns.tolist()
        if not columns:
            return ""
        shown = [str(at) if names is None else names[at] for at in columns[:_SHOWN]]
        if len(columns) > _SHOWN:
            shown.append(f"{len(columns) - _SHOWN:,} more")
        return f"{len(columns):,} of {self.num_channels:,} columns scaled ({', '.join(shown)})"

    @property
    def _moved(self) -> NDArray[np.bool_]:
        moved: NDArray[np.bool_] = (self.arrays["shift"] != 0) | (self.arrays["scale"] != 1)
        return moved

    @property
    def _is_ranked(self) -> NDArray[np.bool_]:
        ranked: NDArray[np.bool_] = np.diff(self.arrays["offsets"]) > 0
        return ranked

    # ---- apply ---------------------------------------------------------------------------------

    def apply(self, features: Any) -> Any:
        """Return the scaled features, float32 and finite; the input is not changed.

        Where no column is scaled, they are returned as they are: a mapped file stays one.

        Args:
            features: An array or, but with "rank", a SciPy sparse matrix, as wide as those of
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
        if not len(self.columns):
            return features
        if self.kind == RANK:
            return self._ranked(features)
        if hasattr(features, "tocsr"):
            if not self.arrays["shift"].any() and not self.arrays.get("values", _NOTHING).size:
                return self._divided(statistics.canonical(features))
            features = features.toarray()
        return self._standardised(features) if self.kind == STANDARD else self._mixed(features)

    def _standardised(self, features: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty(features.shape, np.float32)
        self._standardise(features, slice(None), out)
        return out

    def _standardise(self, features: NDArray[Any], columns: Any, out: NDArray[np.float32]) -> None:
        shift, scale = self.arrays["shift"][columns], self.arrays["scale"][columns]
        rows = max(1, statistics.BLOCK // max(1, features.shape[1]))
        for start in range(0, len(features), rows):
            block = features[start : start + rows, columns].astype(np.float64)
            block -= shift
            block /= scale
            # In another graph a value can be too large for float32.
            out[start : start + rows, columns] = np.clip(block, -_LARGEST, _LARGEST, out=block)

    def _mixed(self, features: NDArray[Any]) -> NDArray[np.float32]:
        moved = np.flatnonzero(self._moved)
        if len(moved) == self.num_channels:
            return self._standardised(features)
        out = np.array(features, np.float32, order="C")
        if len(moved):
            self._standardise(features, moved, out)
        self._rank(features, np.flatnonzero(self._is_ranked), out)
        return out

    def _divided(self, matrix: Any) -> Any:
        data = np.empty(len(matrix.data), np.float32)
        for start in range(0, len(data), statistics.BLOCK):
            part = slice(start, start + statistics.BLOCK)
            block = matrix.data[part] / self.arrays["scale"][matrix.indices[part]]
            data[part] = np.clip(block, -_LARGEST, _LARGEST, out=block)
        return type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    def _ranked(self, features: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty(features.shape, np.float32)
        self._rank(features, None, out)
        return out

    def _rank(
        self, features: NDArray[Any], columns: NDArray[np.int64] | None, out: NDArray[np.float32]
    ) -> None:
        values, scores, offsets = (self.arrays[name] for name in _POINTS)
        for some, block in statistics.column_blocks(features, columns):
            for column, row in zip(some, block, strict=True):
                points = slice(offsets[column], offsets[column + 1])
                row[:] = np.interp(row, values[points], scores[points])
            out[:, some] = block.T


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


# ---- checks of arrays from a file --------------------------------------------------------------


def _fit_together(kind: str, arrays: Mapping[str, NDArray[Any]]) -> bool:
    moments = [arrays[name] for name in _MOMENTS if name in arrays]
    points = [arrays[name] for name in _POINTS if name in arrays]
    if moments and not _are_moments(*moments):
        return False
    if points and not _are_points(*points, each=kind == RANK):
        return False
    if kind != AUTO:
        return True
    (shift, scale), offsets = moments, points[-1]
    if len(offsets) != len(shift) + 1:
        return False
    ranked = np.diff(offsets) > 0  # and so not standardised
    return not shift[ranked].any() and bool((scale[ranked] == 1).all())


def _are_moments(shift: NDArray[Any], scale: NDArray[Any]) -> bool:
    return len(shift) == len(scale) and bool((scale > 0).all())


def _are_points(
    values: NDArray[Any], scores: NDArray[Any], offsets: NDArray[Any], *, each: bool
) -> bool:
    """Return whether points of columns ascend by value, with scores never falling.

    Args:
        values: Values of all columns.
        scores: Their scores.
        offsets: Positions at which columns begin and end.
        each: Whether every column must have some.
    """
    if len(values) != len(scores) or not len(offsets) or offsets[0] or offsets[-1] != len(values):
        return False
    if not (np.diff(offsets) >= int(each)).all():
        return False
    inside = np.ones(max(0, len(values) - 1), np.bool_)
    borders = offsets[(offsets > 0) & (offsets < len(values))]
    inside[borders - 1] = False  # steps from one column to the next
    rises = (np.diff(values) > 0) & (np.diff(scores) >= 0)
    return bool(rises[inside].all())
