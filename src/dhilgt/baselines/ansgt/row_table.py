"""Tables of several values per pair of nodes, to look up and to draw nodes by."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_BLOCK = 1 << 22  # entries that are drawn from at once
_CACHED = 1 << 17  # of them, those that are sorted at once
_MOST_THREADS = 8  # each has a block


class RowTable:
    """K values for each pair (row, column), stored for all pairs or for some; others are zero.

    Args:
        values: [entries, K] float32.
        num_nodes: Number of rows, and of columns.
        offsets: Where each row begins; None if all pairs are stored.
        columns: Column of each entry, ascending in a row; None if all pairs are stored.

    Attributes:
        keys: row * num_nodes + column of each entry, ascending; None if all pairs are stored.

    Example:
        >>> table = RowTable.full([np.eye(2), np.ones((2, 2))])
        >>> table.lookup(np.array([0, 0]), np.array([0, 1])).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        values: NDArray[np.float32],
        num_nodes: int,
        offsets: NDArray[np.int64] | None = None,
        columns: NDArray[np.int64] | None = None,
    ) -> None:
        self.values, self.num_nodes = values, num_nodes
        if offsets is None or columns is None:
            self.offsets = np.arange(num_nodes + 1, dtype=np.int64) * num_nodes
            self.keys: NDArray[np.int64] | None = None
        else:
            self.offsets = offsets
            sources = np.repeat(np.arange(num_nodes, dtype=np.int64), np.diff(offsets))
            self.keys = sources * num_nodes + columns

    @classmethod
    def full(cls, matrices: Iterable[NDArray[Any]]) -> RowTable:
        """Return the table of dense matrices, n x n each."""
        parts = [torch.from_numpy(np.asarray(part, np.float32)) for part in matrices]
        values = torch.stack(parts, -1).numpy()  # twice as fast as NumPy's
        return cls(values.reshape(-1, values.shape[-1]), len(values))

    @classmethod
    def union(cls, matrices: Iterable[Any]) -> RowTable:
        """Return the table of SciPy's sparse matrices, with all pairs that any of them has."""
        parts = [part.tocsr() for part in matrices]
        union: Any = None
        for kind, part in enumerate(parts):
            part.sort_indices()
            bits = np.full(len(part.data), 1 << kind, np.int64)
            has = type(part)((bits, part.indices, part.indptr), shape=part.shape)
            union = has if union is None else union + has
        # Entry by entry, the bits of the kinds that have it; each kind's are in the same order.
        values = np.zeros((len(union.data), len(parts)), np.float32)
        for kind, part in enumerate(parts):
            values[(union.data >> kind) & 1 == 1, kind] = part.data
        return cls(values, union.shape[0], union.indptr.astype(np.int64), union.indices)

    @property
    def kinds(self) -> int:
        """Values per pair, K."""
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of values and keys."""
        return self.values.nbytes + (0 if self.keys is None else self.keys.nbytes)

    def lookup(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the values of some pairs, [..., K]; rows and columns have one shape."""
        keys = rows * np.int64(self.num_nodes) + columns
        if self.keys is None:
            values: NDArray[np.float32] = self.values[keys]
            return values
        if len(self.keys) == 0:
            return np.zeros((*keys.shape, self.kinds), np.float32)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        stored: NDArray[np.float32] = self.values[at]
        stored[self.keys[at] != keys] = 0
        return stored

    def draw(
        self,
        rows: NDArray[np.int64],
        mixture: NDArray[np.floating[Any]],
        size: int,
        seed: list[int],
    ) -> NDArray[np.int32]:
        """Return columns drawn for each row without replacement, by a mixture of the K values.

        Args:
            rows: Rows to draw for, [B]; a repeated row has independent draws.
            mixture: Weight of each value, [K].
            size: Columns per row.
            seed: Seed of the draws.

        Returns:
            [B, size], in the order drawn; -1 where a row has no more columns of positive weight.

        Example:
            >>> table = RowTable.full([np.array([[0, 1], [0, 0]])])
            >>> table.draw(np.array([0, 1]), np.ones(1), 2, [0]).tolist()
            [[1, -1], [-1, -1]]
        """
        out = np.full((len(rows), size), -1, np.int32)
        if size == 0 or len(self.values) == 0:
            return out
        weights = self.values @ np.asarray(mixture, np.float32)
        lengths = np.diff(self.offsets)[rows]
        step = max(1, _BLOCK // max(1, int(lengths.max(initial=1))))

        def draw_block(number: int) -> None:
            begin, end = number * step, min((number + 1) * step, len(rows))
            rng = np.random.default_rng([*seed, number])
            width = max(size, int(lengths[begin:end].max()))
            each = max(1, _CACHED // width)
            for at in range(begin, end, each):
                part = slice(at, min(at + each, end))
                out[part] = self._draw(rows[part], weights, size, width, rng)

        # Blocks have generators of their own, and NumPy leaves the interpreter to other threads.
        with ThreadPoolExecutor(min(_MOST_THREADS, torch.get_num_threads())) as pool:
            list(pool.map(draw_block, range(-(-len(rows) // step))))
        return out

    def _draw(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float32],
        size: int,
        width: int,
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        # The order of exponential times with these rates has the distribution of successive draws
        # without replacement.
        new = np.concatenate([[True], rows[1:] != rows[:-1]])  # rows are often repeated
        distinct, which = rows[new], np.cumsum(new) - 1
        starts, within = self.offsets[distinct], np.arange(width)
        rates = weights.take(starts[:, None] + within, mode="clip")
        rates[within >= (self.offsets[distinct + 1] - starts)[:, None]] = 0
        times = rng.standard_exponential((len(rows), width), dtype=np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            times /= rates[which]
        first = _earliest(times, size)
        entries = starts[which][:, None] + first
        columns = entries if self.keys is None else self.keys.take(entries, mode="clip")
        nodes: NDArray[np.int64] = columns % self.num_nodes
        nodes[rates[which[:, None], first] == 0] = -1
        return nodes


def _earliest(times: NDArray[np.float32], size: int) -> NDArray[np.int64]:
    """Return the columns of the `size` least times of each row, in ascending order of time."""
    least = times <= np.partition(times, size - 1, axis=1)[:, size - 1 : size]
    clear = np.count_nonzero(least, axis=1) == size
    least &= clear[:, None]
    first = np.zeros((len(times), size), np.int64)
    first[clear] = (np.flatnonzero(least) % times.shape[1]).reshape(-1, size)
    first, is_distinct = _in_order(times, first)
    # The indices take several times as long, and are needed only where times are equal: the
    # order of these, mostly infinite ones, is that of a partition.
    tied = np.flatnonzero(~(clear & is_distinct))
    if len(tied):
        others = times[tied]
        first[tied], _ = _in_order(others, np.argpartition(others, size - 1, axis=1)[:, :size])
    return first


def _in_order(
    times: NDArray[np.float32], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the columns of each row in the order of their times, and if all times differ."""
    of_columns = np.take_along_axis(times, columns, 1)
    order = np.argsort(of_columns, axis=1, kind="stable")
    ascending = np.take_along_axis(of_columns, order, 1)
    is_distinct: NDArray[np.bool_] = (ascending[:, 1:] != ascending[:, :-1]).all(1)
    return np.take_along_axis(columns, order, 1), is_distinct
