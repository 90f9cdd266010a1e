"""Eigenvectors of the Laplacian, reproducible from run to run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.errors import TrainingWarning, warn

_DENSE = 200  # up to so many nodes a dense solver is as fast
_TOLERANCE = 1e-4


def laplacian_vectors(graph: CleanGraph, count: int) -> NDArray[np.float32]:
    """Return eigenvectors of I - D^-1/2 A D^-1/2 of the smallest eigenvalues, without the first.

    They are those of the largest eigenvalues of I + D^-1/2 A D^-1/2, which is symmetric with
    eigenvalues from 0 to 2. A symmetric solver from a fixed start returns the same vectors in every
    run, up to their sign, which is chosen so that the largest entry is positive. If the graph has
    fewer eigenvectors, the last columns are 0.

    Args:
        graph: A graph without loops.
        count: Number of vectors.

    Returns:
        [n, count].

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1], [1, 2]), self_loops=False)
        >>> laplacian_vectors(path, 1).round(3).T.tolist()  # the ends on opposite sides
        [[0.7070000171661377, 0.0, -0.7070000171661377]]
    """
    n = graph.num_nodes
    out = np.zeros((n, count), np.float32)
    solved = min(count + 1, n)
    if solved < 2:
        return out
    vectors = _dense(graph) if n <= max(_DENSE, 2 * solved) else _sparse(graph, solved)
    vectors = vectors[:, 1:solved]
    # The first of the nearly largest entries sets the sign, so that rounding cannot change it.
    size = np.abs(vectors)
    first = (size >= size.max(axis=0, keepdims=True) * (1 - 1e-6)).argmax(axis=0)
    signs = np.sign(vectors[first, np.arange(vectors.shape[1])])
    out[:, : vectors.shape[1]] = vectors * np.where(signs == 0, 1, signs)
    return out


def _roots(graph: CleanGraph) -> NDArray[np.float64]:
    roots: NDArray[np.float64] = np.maximum(graph.degrees, 1).astype(np.float64) ** -0.5
    return roots


def _dense(graph: CleanGraph) -> NDArray[np.float64]:
    roots, sources = _roots(graph), graph.sources()
    matrix = np.eye(graph.num_nodes)
    matrix[sources, graph.targets] -= roots[sources] * roots[graph.targets]
    vectors: NDArray[np.float64] = np.linalg.eigh(matrix).eigenvectors
    return vectors


def _sparse(graph: CleanGraph, count: int) -> NDArray[np.float64]:
    try:
        from scipy import sparse
        from scipy.sparse import linalg
    except ModuleNotFoundError as error:
        raise ImportError(
            "eigenvectors of large graphs need scipy; install it with pip install 'dhilgt[io]'"
        ) from error
    n, roots = graph.num_nodes, _roots(graph)
    values = roots[graph.sources()] * roots[graph.targets]
    matrix = sparse.csr_array((values, graph.targets, graph.offsets), shape=(n, n))
    shifted = matrix + sparse.eye_array(n, format="csr")
    start = np.random.default_rng(0).standard_normal(n)
    try:
        values, vectors = linalg.eigsh(
            shifted, k=count, which="LA", v0=start, tol=_TOLERANCE, ncv=min(n, 4 * count + 20)
        )
    except linalg.ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
        warn(
            f"only {vectors.shape[1]} of {count} eigenvectors of the Laplacian converged; the "
            "encoding has zeros in place of the others",
            TrainingWarning,
        )
    ordered: NDArray[np.float64] = np.asarray(vectors)[:, np.argsort(-np.asarray(values))]
    return ordered
