"""Fewer columns for wide features: their main directions, kept with the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError, ConfigError, GraphError
from dhilgt.features.column_statistics import canonical

_BLOCK = 1 << 24  # numbers of an array read at a time: bounds the memory beside the result
_MOST_ROWS = 1 << 16  # rows of an array that `fit` reads; a sparse matrix is cheap to read whole
_TOGETHER = 32  # vectors that a sparse matrix is multiplied by at a time
_SPARE = 16  # directions computed beyond those that are kept, which makes the last of these good
_ROUNDS = 4  # multiplications by X^T X: each makes small directions smaller beside large ones
_ROWS_PER_AXIS = 16  # drawn rows that determine where each axis lies among the directions
_TURNS = 8  # steps of varimax; the first few do most
_TINIEST = 1e-30  # features below are zeros to a model, and have no inverse in float32
_NOISE = 1e-12  # eigenvalues of a Gram matrix, relative to the largest, that are rounding errors


@dataclass(frozen=True, eq=False)
class Projection:
    """A linear map of wide features to fewer columns: fitted on one graph, applied to any.

    The result lies in the main directions of the features X, its first right singular vectors V (X
    is not centred, so that it may stay sparse). Distances and products of rows are those of X, as
    far as that many columns can keep them; where the rank of X is no larger, they are kept exactly,
    and columns beyond the rank are 0.

    Within these directions the axes are turned (varimax) so that each row has few large numbers, as
    words have: X V R with an orthogonal R. A model that learns from single columns, as any does
    that is trained with Adam, scores better on them. The largest column comes first.

    One factor brings the result to a root mean square of 1 over all of its numbers, the size of
    standardised features, from which a model learns at the usual rates. It is one for all columns:
    division by a factor for each would raise the small directions, which are mostly noise, to the
    size of the large ones.

    Attributes:
        weights: V R times the factor, (columns of the features, columns of the result), float32.

    Example:
        >>> x = np.outer([1.0, 2.0, 3.0], [3.0, 0.0, 4.0, 0.0]).astype(np.float32)
        >>> projection = Projection.fit(x, 1)
        >>> projection.apply(x).astype(float).round(3).tolist()
        [[0.463], [0.926], [1.389]]
        >>> projection.weights.shape
        (4, 1)
    """

    weights: NDArray[np.float32]

    # ---- fit -----------------------------------------------------------------------------------

    @classmethod
    def fit(cls, features: Any, num_channels: int, seed: int = 0) -> Self:
        """Find the main directions of features, by a few rounds of subspace iteration.

        Of an array with many rows, 65,536 drawn ones are used.

        Args:
            features: One row per node: an array or a SciPy sparse matrix; not changed.
            num_channels: Columns of the result, fewer than the features have.
            seed: Of the directions to begin with, and of the rows drawn.

        Raises:
            ConfigError: If the features have no more columns than that.
            GraphError: If there are no rows, or a value is not finite.
        """
        count, width = features.shape
        if not 0 < num_channels < width:
            raise ConfigError(
                f"features of {width:,} columns are not projected to {num_channels:,}; pass a "
                f"number from 1 to {width - 1:,}"
            )
        if not count:
            raise GraphError("features without a row have no directions; pass at least one node")
        rng = np.random.default_rng(seed)
        products = _Products(_rows_to_fit(features, rng))
        weights = np.zeros((width, num_channels), np.float32)
        if products.largest > _TINIEST:
            vectors = rng.standard_normal((width, min(num_channels + _SPARE, count, width)))
            for _ in range(_ROUNDS):
                vectors = _orthonormal(products.twice(vectors))
            values, turn = np.linalg.eigh(products.gram(vectors))  # ascending
            kept = min(num_channels, int((values > _NOISE * values[-1]).sum()))
            vectors, values = vectors @ turn[:, ::-1][:, :kept], values[::-1][:kept]
            axes = _sparse_axes(products.some_rows(vectors, _ROWS_PER_AXIS * kept, rng))
            order = np.argsort(-(values @ axes**2), kind="stable")
            vectors = vectors @ axes[:, order]
            # A direction has no sign of its own; its largest part is made positive.
            largest = np.abs(vectors).argmax(axis=0)
            vectors *= np.where(vectors[largest, np.arange(kept)] < 0, -1.0, 1.0)
            mean_square = values.sum() / (products.num_rows * num_channels)
            weights[:, :kept] = vectors / (np.sqrt(mean_square) * products.largest)
        return cls(weights)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the projection that the `arrays` of another one describe.

        Args:
            arrays: Its arrays, as read from a file.

        Raises:
            ArtifactError: If they are not the arrays of a projection.
        """
        if set(arrays) != {"weights"}:
            raise ArtifactError(f"{sorted(arrays)} are not the arrays of a projection")
        weights = np.asarray(arrays["weights"])
        if weights.ndim != 2 or weights.dtype != np.float32 or not np.isfinite(weights).all():
            raise ArtifactError("weights of a projection are not a matrix of finite float32")
        if not 0 < weights.shape[1] < weights.shape[0]:
            raise ArtifactError(f"{weights.shape} is not the shape of a projection")
        return cls(weights)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file holds of it."""
        return {"weights": self.weights}

    # ---- apply ---------------------------------------------------------------------------------

    def apply(self, features: Any) -> NDArray[np.float32]:
        """Return the projected features, a float32 array; the input is not changed.

        Args:
            features: An array or a SciPy sparse matrix, as wide as those of `fit`.

        Raises:
            ConfigError: If they have another width.
        """
        if features.shape[1] != len(self.weights):
            raise ConfigError(
                f"features have {features.shape[1]} columns, the projection was fitted on "
                f"{len(self.weights)}; pass the same columns"
            )
        if hasattr(features, "tocsr"):
            return np.asarray(features.tocsr().astype(np.float32, copy=False) @ self.weights)
        projected = np.empty((len(features), self.weights.shape[1]), np.float32)
        for rows in _row_blocks(features):
            np.matmul(_float32(features[rows]), self.weights, out=projected[rows])
        return projected


def is_projected(features: Any, num_channels: int | None) -> bool:
    """Return whether the setting `hop_channels` asks for a projection of these features.

    Args:
        features: An array or a SciPy sparse matrix.
        num_channels: The setting; None for features as wide as they are.
    """
    return num_channels is not None and num_channels < features.shape[1]


def projected_width(width: int, num_channels: int | None) -> int:
    """Return how many columns features have after a projection, where there is one.

    Example:
        >>> projected_width(500, None), projected_width(500, 256), projected_width(100, 256)
        (500, 256, 100)
    """
    return width if num_channels is None else min(width, num_channels)


class _Products:
    """Products of features and vectors, a block at a time.

    Features are divided by their largest value on the way: squares of huge ones, and of tiny ones,
    are beyond float32.
    """

    def __init__(self, features: Any) -> None:
        self._features = features
        self.num_rows: int = features.shape[0]
        values = features.data if hasattr(features, "tocsr") else features
        self.largest = max(float(np.max(values, initial=0)), -float(np.min(values, initial=0)))
        if not np.isfinite(self.largest):
            raise GraphError(
                "the features have values that are not finite; fill them first, for example with "
                "numpy.nan_to_num"
            )

    def twice(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X^T X times vectors."""
        scaled = (vectors / self.largest).astype(np.float32)
        if hasattr(self._features, "tocsr"):
            # Some vectors at a time, side by side: these products use one core each.
            starts = range(0, scaled.shape[1], _TOGETHER)
            parts = [np.ascontiguousarray(scaled[:, at : at + _TOGETHER]) for at in starts]
            with ThreadPoolExecutor() as pool:
                made = pool.map(lambda part: self._block_twice(self._features, part), parts)
                return np.concatenate(list(made), axis=1, dtype=np.float64)
        # Some rows at a time, each read once: an array may be a mapped file.
        result = np.zeros(vectors.shape)
        for rows in _row_blocks(self._features):
            result += self._block_twice(_float32(self._features[rows]), scaled)
        return result

    def _block_twice(self, block: Any, scaled: NDArray[np.float32]) -> NDArray[np.float32]:
        product = block @ scaled
        product /= np.float32(self.largest)
        return np.asarray(block.T @ product)

    def some_rows(
        self, vectors: NDArray[np.float64], most: int, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return drawn rows of X times vectors, at most so many; all where there are no more."""
        features = self._features
        if self.num_rows > most:
            features = features[np.sort(rng.choice(self.num_rows, most, replace=False))]
        return np.asarray(features @ (vectors / self.largest).astype(np.float32), np.float32)

    def gram(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Gram matrix of X times vectors."""
        gram = vectors.T @ self.twice(vectors)
        return np.asarray((gram + gram.T) / 2)


def _orthonormal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis of the span of columns, without directions of rounding errors."""
    values, turn = np.linalg.eigh(vectors.T @ vectors)
    kept = values > _NOISE * values[-1]
    return np.asarray(vectors @ (turn[:, kept] / np.sqrt(values[kept])))


def _sparse_axes(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the orthogonal turn that makes the numbers of rows few and large: varimax.

    Args:
        rows: Along the main directions; these count alike, whatever their size.
    """
    sizes = np.sqrt(np.square(rows, dtype=np.float64).mean(axis=0))
    rows = np.asarray(rows / np.where(sizes > 0, sizes, 1), np.float32)
    axes = np.eye(rows.shape[1])
    for _ in range(_TURNS):
        turned = rows @ axes.astype(np.float32)
        squares = np.square(turned)
        turned *= squares - squares.mean(axis=0)
        left, _, right = np.linalg.svd((rows.T @ turned).astype(np.float64))
        axes = left @ right
    return axes


def _rows_to_fit(features: Any, rng: np.random.Generator) -> Any:
    if hasattr(features, "tocsr"):
        return canonical(features.tocsr().astype(np.float32, copy=False))
    if len(features) <= _MOST_ROWS:
        return features
    return features[np.sort(rng.choice(len(features), _MOST_ROWS, replace=False))]


def _row_blocks(features: NDArray[Any]) -> Iterator[slice]:
    count, width = features.shape
    step = max(1, _BLOCK // width)
    return (slice(start, start + step) for start in range(0, count, step))


def _float32(rows: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows, np.float32)
