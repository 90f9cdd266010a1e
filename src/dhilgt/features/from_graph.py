"""Features computed from the graph: averages over neighbours, hop by hop, and degrees."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph.graph import Graph

APPEND, SMOOTH, STACK = HOP_KINDS = ("append", "smooth", "stack")


def with_hops(
    graph: Graph, features: Any, hops: int, kind: str = APPEND, restart: float = 0.0
) -> Any:
    """Return features that include averages over neighbourhoods.

    With "append" the features are followed by ``hops`` copies, each the mean over neighbours of the
    last (D^-1 A); a node without neighbours gets zeros. With "smooth" they are replaced by the
    result of ``hops`` rounds of averaging over neighbours and the node itself, weighted as in a
    GCN: (D + I)^-1/2 (A + I) (D + I)^-1/2. With "stack" they are followed by the results of all
    these rounds.

    With a restart each round gives (1 - restart) times the average plus restart times the original
    features: many rounds of smoothing tend to personalised PageRank, and not to equal features
    everywhere.

    Averages go over outgoing edges and count every neighbour once. Sparse features stay sparse
    (CSR) as long as that takes less memory, others become a float32 array, `num_copies` times as
    wide.

    Args:
        graph: The graph whose edges are followed.
        features: One row per node: an array or a SciPy sparse matrix.
        hops: Number of rounds; 0 returns the features unchanged.
        kind: "append", "smooth" or "stack".
        restart: Fraction of the original features in each round, from 0 to below 1.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2])
        >>> x = np.array([[2.0], [0.0], [4.0]], np.float32)
        >>> with_hops(graph, x, 1).tolist()
        [[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]
        >>> with_hops(graph, x, 1, "smooth").astype(float).round(2).tolist()
        [[1.0], [2.45], [2.0]]
        >>> with_hops(graph, x, 1, "stack").astype(float).round(2).tolist()
        [[2.0, 1.0], [0.0, 2.45], [4.0, 2.0]]
        >>> with_hops(graph, x, 1, "smooth", 0.5).astype(float).round(2).tolist()
        [[1.5], [1.22], [3.0]]
    """
    if hops == 0:
        return features
    if hasattr(features, "tocsr"):
        return _sparse(graph, features, hops, kind, restart)
    return _dense(graph, features, hops, kind, restart)


def num_copies(hops: int, kind: str) -> int:
    """Return how many times as wide as the features the result of `with_hops` is.

    Example:
        >>> num_copies(3, "append"), num_copies(3, "smooth"), num_copies(3, "stack")
        (4, 1, 4)
    """
    return 1 if kind == SMOOTH else 1 + hops


def _weights(graph: Graph, kind: str) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return the weight of each edge, and of each node's own features where they count."""
    degrees = graph.degrees
    if kind == APPEND:
        return np.repeat(1.0 / np.maximum(degrees, 1), degrees).astype(np.float32), None
    scale = 1.0 / np.sqrt(degrees + 1.0)
    edges = np.repeat(scale, degrees) * scale[graph.targets]
    return edges.astype(np.float32), (scale * scale).astype(np.float32)


def _sparse(graph: Graph, features: Any, hops: int, kind: str, restart: float) -> Any:
    import scipy.sparse

    shape = (graph.num_nodes, graph.num_nodes)
    edges, own = _weights(graph, kind)
    weights = scipy.sparse.csr_array((edges, graph.targets, graph.offsets), shape=shape)
    if own is not None:
        weights = (weights + scipy.sparse.diags_array(own)).tocsr()
    start = scipy.sparse.csr_array(features, dtype=np.float32)
    blocks = [start]
    for hop in range(hops):
        if kind == SMOOTH and _smaller_dense(blocks[-1]):
            return _dense(graph, blocks[-1].toarray(), hops - hop, kind, restart, start.toarray())
        block = weights @ blocks[-1]
        if restart:
            block = block * np.float32(1 - restart) + start * np.float32(restart)
        blocks = [block] if kind == SMOOTH else [*blocks, block]
    joined = scipy.sparse.hstack(blocks, format="csr", dtype=np.float32)
    if _smaller_dense(joined):
        return joined.toarray()
    joined.sort_indices()
    return joined


def _smaller_dense(matrix: Any) -> bool:
    """Return whether a matrix has so many entries that an array takes less memory."""
    return bool(2 * matrix.nnz > matrix.shape[0] * matrix.shape[1])


def _dense(
    graph: Graph, features: Any, hops: int, kind: str, restart: float, original: Any = None
) -> Any:
    """Return `with_hops` of an array; `original` are the features to restart from, if others."""
    import torch

    # torch warns once per process that this layout is in beta, which users can do nothing about.
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support", module="dhilgt")
    edges, own = _weights(graph, kind)
    # Copied: the graph's arrays are read-only, which torch does not support.
    weights = torch.sparse_csr_tensor(
        torch.tensor(graph.offsets),
        torch.tensor(graph.targets, dtype=torch.int64),
        torch.from_numpy(edges),
        size=(graph.num_nodes, graph.num_nodes),
        check_invariants=False,
    )
    width, copies = features.shape[1], num_copies(hops, kind)
    out = np.empty((graph.num_nodes, width * copies), np.float32)
    out[:, :width] = features
    # A copy: with "smooth" these columns of the result are overwritten.
    start = torch.tensor(out[:, :width] if original is None else original) if restart else None
    for hop in range(hops):
        last, following = (hop, hop + 1) if copies > 1 else (0, 0)
        block = torch.from_numpy(np.ascontiguousarray(out[:, last * width : (last + 1) * width]))
        averages = weights @ block
        if own is not None:
            averages.addcmul_(torch.from_numpy(own)[:, None], block)
        if start is not None:
            averages.mul_(1 - restart).add_(start, alpha=restart)
        out[:, following * width : (following + 1) * width] = averages.numpy()
    return out


_BUCKETS = 32  # one per power of two; the same width for every graph


def degree_features(graph: Graph) -> NDArray[np.float32]:
    """Return features of the degree: its logarithm, and its power of two as a one-hot vector.

    A directed graph has them for outgoing edges, then for incoming ones. The width depends on
    nothing else, so that a model still fits the graph when it has grown.

    Args:
        graph: The graph.

    Example:
        >>> x = degree_features(Graph.from_edges([0, 0, 0], [1, 2, 3]))
        >>> x.shape, x[0, 1:5].tolist(), x[1, 1:5].tolist()
        ((4, 33), [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0])
    """
    directions = [graph.degrees]
    if graph.directed:
        directions.append(np.diff(graph.in_offsets))
    blocks = []
    for degrees in directions:
        bucket = np.minimum(np.log2(degrees + 1).astype(np.int64), _BUCKETS - 1)
        one_hot = bucket[:, None] == np.arange(_BUCKETS)
        blocks += [np.log1p(degrees)[:, None], one_hot]
    return np.concatenate(blocks, axis=1, dtype=np.float32)
