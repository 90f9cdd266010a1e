"""The inputs of message passing: the features of all nodes, and the adjacency matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dhilgt.errors import GraphError
from dhilgt.loader.feature_rows import DeviceFeatures, Features, open_features


@dataclass(frozen=True)
class WholeGraph:
    """What every batch of a model with message passing has in common, on a device.

    Attributes:
        features: Of all nodes.
        weights: Of all edges.
    """

    features: DeviceFeatures
    weights: DeviceFeatures

    @property
    def x(self) -> torch.Tensor:
        """Features of all nodes, [n, channels]."""
        return self.features.whole()

    @property
    def adjacency(self) -> torch.Tensor:
        """Weights of the edges, [n, n] CSR."""
        return self.weights.whole()


def open_adjacency(values: Any, num_nodes: int) -> Features:
    """Open an adjacency matrix; one that is open stays as it is.

    Args:
        values: A symmetric SciPy sparse matrix, as `dhilgt.features.adjacency` returns it.
        num_nodes: Nodes of the graph.

    Raises:
        GraphError: If it is no sparse matrix of this size, or not symmetric.

    Example:
        >>> import scipy.sparse
        >>> open_adjacency(scipy.sparse.eye(3, format="csr"), 3).num_nodes
        3
    """
    if isinstance(values, Features):
        return values
    if not hasattr(values, "tocsr"):
        raise GraphError(f"adjacency is a {type(values).__name__}; pass a SciPy sparse matrix")
    if tuple(values.shape) != (num_nodes, num_nodes):
        raise GraphError(
            f"adjacency has shape {tuple(values.shape)}, but the graph has {num_nodes:,} nodes; "
            "pass a row and a column per node"
        )
    if (values != values.T).nnz:
        raise GraphError(
            "adjacency is not symmetric, and gradients go back along the edges; pass weights that "
            "are the same in both directions, as dhilgt.features.adjacency makes them"
        )
    return open_features(values, num_nodes)
