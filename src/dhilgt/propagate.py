"""Features averaged over neighbours, hop by hop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dhilgt.graph import Graph


def with_hops(graph: Graph, features: Any, hops: int) -> Any:
    """Gives the features followed by ``hops`` copies, each the mean over neighbours of the last.

    The mean goes over outgoing edges and counts every neighbour once (D^-1 A); a node without
    neighbours gets zeros. Sparse features stay sparse (CSR), others become a float32 array in
    memory, ``hops + 1`` times as wide.

    Args:
        graph: Whose neighbours.
        features: One row per node: an array or a SciPy sparse matrix.
        hops: How many times; 0 gives the features as they are.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2])
        >>> with_hops(graph, np.array([[2.0], [0.0], [4.0]], np.float32), 1).tolist()
        [[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]]
    """
    if hops == 0:
        return features
    degrees = graph.degrees
    shares = np.repeat(1.0 / np.maximum(degrees, 1), degrees).astype(np.float32)
    if hasattr(features, "tocsr"):
        return _sparse(graph, features, hops, shares)
    return _dense(graph, features, hops, shares)


def _sparse(graph: Graph, features: Any, hops: int, shares: Any) -> Any:
    import scipy.sparse

    shape = (graph.num_nodes, graph.num_nodes)
    mean = scipy.sparse.csr_array((shares, graph.targets, graph.offsets), shape=shape)
    blocks = [scipy.sparse.csr_array(features)]
    for _ in range(hops):
        blocks.append(mean @ blocks[-1])
    joined = scipy.sparse.hstack(blocks, format="csr", dtype=np.float32)
    joined.sort_indices()
    return joined


def _dense(graph: Graph, features: Any, hops: int, shares: Any) -> Any:
    import torch

    width = features.shape[1]
    out = np.empty((graph.num_nodes, width * (hops + 1)), np.float32)
    out[:, :width] = features
    # torch says once per process that this layout is in beta; it would only puzzle users.
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support", module="dhilgt")
    # Copied: the graph's arrays are read-only, which torch does not know of.
    mean = torch.sparse_csr_tensor(
        torch.tensor(graph.offsets),
        torch.tensor(graph.targets, dtype=torch.int64),
        torch.from_numpy(shares),
        size=(graph.num_nodes, graph.num_nodes),
        check_invariants=False,
    )
    for hop in range(hops):
        last = torch.from_numpy(np.ascontiguousarray(out[:, hop * width : (hop + 1) * width]))
        out[:, (hop + 1) * width : (hop + 2) * width] = (mean @ last).numpy()
    return out
