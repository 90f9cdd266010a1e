"""Polynomials of a graph's matrix, times rows of numbers: the tokens of PolyFormer.

With P = D^-1/2 A D^-1/2 and the Laplacian L = I - P, whose eigenvalues lie between 0 and 2:

- monomial: Â^k, where Â has loops;
- chebyshev: T_k(L - I) = T_k(-P);
- bernstein: C(K, k) (I - L/2)^(K - k) (L/2)^k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.graph.graph import Graph

MONOMIAL, CHEBYSHEV, BERNSTEIN = "monomial", "chebyshev", "bernstein"
_BLOCK = 1 << 25  # numbers of one token computed at a time: 128 MiB


def basis_matrix(graph: Graph, basis: str) -> SparseMatrix:
    """Return the matrix that a basis is a polynomial of: Â for monomials, P for the others."""
    return CleanGraph.of(graph, self_loops=basis == MONOMIAL).adjacency("symmetric")


def terms(basis: str, matrix: SparseMatrix, x: Tensor, order: int) -> list[Tensor]:
    """Return the polynomials of order 0 to K, each times x: K + 1 tensors [n, F], with gradients.

    Args:
        basis: "monomial", "chebyshev" or "bernstein".
        matrix: Of `basis_matrix`.
        x: [n, F].
        order: K.

    Example:
        >>> swap = SparseMatrix(torch.arange(3), torch.tensor([1, 0]), torch.ones(2))
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> [term.flatten().tolist() for term in terms("monomial", swap, x, 2)]
        [[1.0, 3.0], [3.0, 1.0], [1.0, 3.0]]
        >>> [term.flatten().tolist() for term in terms("bernstein", swap, x, 1)]
        [[2.0, 2.0], [-1.0, 1.0]]
    """
    return _BASES[basis](matrix, x, order)


def _monomial(matrix: SparseMatrix, x: Tensor, order: int) -> list[Tensor]:
    found = [x]
    for _ in range(order):
        found.append(matrix @ found[-1])
    return found


def _chebyshev(matrix: SparseMatrix, x: Tensor, order: int) -> list[Tensor]:
    found = [x, -(matrix @ x)][: order + 1]
    while len(found) <= order:
        found.append(-2 * (matrix @ found[-1]) - found[-2])
    return found


def _bernstein(matrix: SparseMatrix, x: Tensor, order: int) -> list[Tensor]:
    # Polynomials of one degree from those of the degree below: no large numbers cancel, as they
    # would if powers of L were added up.
    found = [x]
    for degree in range(order):
        moved = (matrix @ torch.stack(found, 1)).unbind(1)  # one product for all
        low = [(b + p) / 2 for b, p in zip(found, moved, strict=True)]  # times I - L/2
        high = [(b - p) / 2 for b, p in zip(found, moved, strict=True)]  # times L/2
        inner = [low[k] + high[k - 1] for k in range(1, degree + 1)]
        found = [low[0], *inner, high[-1]]
    return found


_BASES: dict[str, Callable[[SparseMatrix, Tensor, int], list[Tensor]]] = {
    MONOMIAL: _monomial,
    CHEBYSHEV: _chebyshev,
    BERNSTEIN: _bernstein,
}


def token_rows(basis: str, matrix: SparseMatrix, features: Any, order: int) -> Tensor:
    """Return the tokens of all nodes, [n, K + 1, F0].

    Some columns are computed at a time, so that sparse features never are a dense array, and
    little more than the result is in memory.

    Args:
        basis: As for `terms`.
        matrix: As for `terms`.
        features: An array or a SciPy sparse matrix, [n, F0].
        order: K.
    """
    count, width = features.shape
    rows = torch.empty(count, order + 1, width)
    for start, block in _column_blocks(features, max(1, _BLOCK // max(1, count))):
        for k, term in enumerate(terms(basis, matrix, torch.from_numpy(block), order)):
            rows[:, k, start : start + block.shape[1]] = term
    return rows


def _column_blocks(features: Any, step: int) -> Iterator[tuple[int, Any]]:
    is_sparse = hasattr(features, "tocsc")
    columns = features.tocsc() if is_sparse else features
    for start in range(0, features.shape[1], step):
        block = columns[:, start : start + step]
        yield start, np.array(block.toarray() if is_sparse else block, np.float32, order="C")
