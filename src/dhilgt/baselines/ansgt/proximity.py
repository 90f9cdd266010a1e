"""Proximities of nodes, by which ANS-GT draws nodes, and powers of Â, which bias attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.ansgt.row_table import RowTable
from dhilgt.baselines.shared.message_graph import row_offsets
from dhilgt.baselines.shared.sparse import SparseMatrix

KINDS = ("ppr", "one_hop", "two_hops", "features")
"""Kinds of proximity, in the order of a table's values."""

_STEPS = 5  # steps of a truncated personalised PageRank
_EPS = 1e-5
_BLOCK = 1 << 24  # entries of a dense block of similarities
_ROWS = 128  # rows of which the best entries are found at once


def proximities(
    adjacency: SparseMatrix, x: Tensor, *, restart: float, exact_nodes: int, candidates: int
) -> RowTable:
    """Return four scores of pairs: PageRank, Â, Â^2 and cosine similarity of features.

    Scores of a node with itself are 0, negative ones are set to 0, and rows sum to 1.

    Args:
        adjacency: Â, symmetric.
        x: Features, [n, F0].
        restart: Restart probability c; PageRank is c (I - (1 - c) Â)^-1.
        exact_nodes: Up to so many nodes all pairs are stored; above, the best of each row.
        candidates: Number of pairs stored per row and kind.
    """
    if adjacency.shape[0] <= exact_nodes:
        hat = adjacency.to_dense()
        cosine = _unit_rows(x) @ _unit_rows(x).T
        parts = [page_rank(hat, restart), hat, adjacency @ hat, cosine]
        return RowTable.full(_probabilities(part) for part in parts)
    one = _best(_scipy_rows(adjacency), candidates)
    parts = [
        _truncated_page_rank(one, restart, candidates),
        one,
        _product(one, one, candidates),
        _nearest_rows(x, candidates),
    ]
    return RowTable.union(_sparse_probabilities(part) for part in parts)


def page_ranks(
    adjacency: SparseMatrix, *, restart: float, exact_nodes: int, candidates: int
) -> RowTable:
    """Return only PageRank, with the same limits as `proximities`."""
    if adjacency.shape[0] <= exact_nodes:
        return RowTable.full([_probabilities(page_rank(adjacency.to_dense(), restart))])
    one = _best(_scipy_rows(adjacency), candidates)
    rank = _truncated_page_rank(one, restart, candidates)
    return RowTable.union([_sparse_probabilities(rank)])


def powers(adjacency: SparseMatrix, count: int, *, exact_nodes: int, candidates: int) -> RowTable:
    """Return Â^1 ... Â^count for pairs of nodes; the best of each row on large graphs."""
    if adjacency.shape[0] <= exact_nodes:
        return RowTable.full(part.numpy() for part in _dense_powers(adjacency, count))
    one = _best(_scipy_rows(adjacency), candidates)
    parts = [one]
    for _ in range(count - 1):
        parts.append(_product(parts[-1], one, candidates))
    return RowTable.union(parts)


def page_rank(hat: Tensor, restart: float) -> Tensor:
    """Return c (I - (1 - c) Â)^-1 for a dense symmetric Â with eigenvalues of at most 1.

    Example:
        >>> page_rank(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), 0.5).round(decimals=3).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
    """
    matrix = torch.eye(len(hat), dtype=torch.float64) - (1 - restart) * hat.double()
    # The matrix is positive definite: a Cholesky factor takes half the work of an inversion. Its
    # threads wait for each other column by column, for seconds where other processes run beside.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rank: Tensor = restart * torch.cholesky_inverse(torch.linalg.cholesky(matrix))
    finally:
        torch.set_num_threads(threads)
    return rank


# ---- dense -------------------------------------------------------------------------------------


def _dense_powers(adjacency: SparseMatrix, count: int) -> Iterator[Tensor]:
    power = adjacency.to_dense()
    yield power
    for _ in range(count - 1):
        power = adjacency @ power
        yield power


def _probabilities(scores: Tensor) -> NDArray[np.float32]:
    scores = scores.clone().fill_diagonal_(0).clamp_min_(0)
    rows: NDArray[np.float32] = (scores / (scores.sum(1, keepdim=True) + _EPS)).float().numpy()
    return rows


def _unit_rows(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=1)


# ---- sparse, for large graphs ------------------------------------------------------------------


def _scipy_rows(adjacency: SparseMatrix) -> Any:
    try:
        from scipy import sparse
    except ModuleNotFoundError as error:
        raise ImportError(
            "sampling on large graphs needs scipy; install it with pip install 'dhilgt[io]'"
        ) from error
    parts = (adjacency.values.numpy(), adjacency.columns.numpy(), adjacency.offsets.numpy())
    return sparse.csr_array(parts, shape=adjacency.shape)


def _best(matrix: Any, size: int) -> Any:
    """Return the largest entries of each row, with columns ascending."""
    lengths = np.diff(matrix.indptr)
    longer = np.flatnonzero(lengths > size)
    longer = longer[np.argsort(-lengths[longer], kind="stable")]
    kept, at = np.repeat(lengths <= size, lengths), 0
    while at < len(longer):
        width = int(lengths[longer[at]])
        rows = longer[at : at + max(1, _BLOCK // width)]
        kept[_best_places(matrix, rows, width, size)] = True
        at += len(rows)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, size))])
    best = type(matrix)((matrix.data[kept], matrix.indices[kept], offsets), shape=matrix.shape)
    best.sort_indices()
    return best


def _best_places(
    matrix: Any, rows: NDArray[np.int64], width: int, size: int
) -> NDArray[np.integer[Any]]:
    """Return where the `size` largest entries of rows are; rows are longer, longest first."""
    found = []
    for at in range(0, len(rows), _ROWS):  # rows of similar length together: little padding
        part = rows[at : at + _ROWS]
        values, places = _padded(matrix, part, int(np.diff(matrix.indptr)[part[0]]))
        limits = np.partition(values, size - 1, axis=1)[:, size - 1 : size]
        best = values <= limits
        tied = np.count_nonzero(best, axis=1) > size
        found.append(places[best & ~tied[:, None]])
        if tied.any():
            # Which of equal entries are kept depends on the width, that of the longest row.
            values, places = _padded(matrix, part[tied], width)
            first = np.argpartition(values, size - 1, axis=1)[:, :size]
            found.append(np.take_along_axis(places, first, 1).ravel())
    return np.concatenate(found)


def _padded(
    matrix: Any, rows: NDArray[np.int64], width: int
) -> tuple[NDArray[np.float32], NDArray[np.integer[Any]]]:
    """Return the negative values of rows, infinite after their ends, and their places."""
    starts, within = matrix.indptr[rows], np.arange(width, dtype=matrix.indptr.dtype)
    places = starts[:, None] + within
    values = -matrix.data.take(places, mode="clip")
    values[within >= (matrix.indptr[rows + 1] - starts)[:, None]] = np.inf
    return values, places


def _by_rows(matrix: Any, size: int, step: Callable[[Any, int], Any]) -> Any:
    """Return the best entries of a matrix that is computed some rows at a time."""
    from scipy import sparse

    rows = max(1, _BLOCK // (size * size))
    parts = [
        _best(step(matrix[at : at + rows], at), size) for at in range(0, matrix.shape[0], rows)
    ]
    return sparse.vstack(parts, format="csr")


def _product(left: Any, right: Any, size: int) -> Any:
    return _by_rows(left, size, lambda part, at: part @ right)


def _truncated_page_rank(one: Any, restart: float, size: int) -> Any:
    from scipy import sparse

    n = one.shape[0]
    start = sparse.csr_array(restart * sparse.eye_array(n, format="csr", dtype=np.float32))
    rank = start
    for _ in range(_STEPS):
        rank = _by_rows(
            rank,
            size,
            lambda part, at: (1 - restart) * (part @ one) + start[at : at + part.shape[0]],
        )
    return rank


def _nearest_rows(x: Tensor, size: int) -> Any:
    from scipy import sparse

    n, unit = len(x), _unit_rows(x)
    size = min(size, n - 1)
    step, values, columns = max(1, _BLOCK // n), [], []
    for at in range(0, n, step):
        scores = unit[at : at + step] @ unit.T
        own = torch.arange(len(scores))
        scores[own, at + own] = -torch.inf
        best = scores.topk(size, dim=1)
        values.append(best.values.clamp_min_(0))
        columns.append(best.indices)
    offsets = np.arange(n + 1) * size
    parts = (torch.cat(values).flatten().numpy(), torch.cat(columns).flatten().numpy(), offsets)
    matrix = sparse.csr_array(parts, shape=(n, n))
    matrix.eliminate_zeros()
    return matrix


def _sparse_probabilities(matrix: Any) -> Any:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    kept = (rows != matrix.indices) & (matrix.data > 0)
    rows, values = rows[kept], matrix.data[kept]
    total = np.bincount(rows, values, minlength=matrix.shape[0]) + _EPS
    parts = (values / total[rows], matrix.indices[kept], row_offsets(rows, matrix.shape[0]))
    return type(matrix)(parts, shape=matrix.shape)
