"""The sparse rows of the egos of a batch: a few per node, from memory or from a device."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.loader.feature_rows import DeviceFeatures, FeatureRows, Features, open_features


@dataclass(frozen=True)
class EgoRows:
    """The sparse rows of all nodes on the host, `groups` per node."""

    rows: Features
    groups: int

    @property
    def nbytes(self) -> int:
        """Bytes that they take on a device."""
        return self.rows.nbytes

    def take(self, nodes: NDArray[np.int64]) -> FeatureRows:
        """Return the rows of nodes: those of the first node, then those of the second."""
        return self.rows.take((nodes[:, None] * self.groups + np.arange(self.groups)).reshape(-1))

    def to(self, device: torch.device) -> "DeviceEgoRows":
        """Return all rows on a device."""
        return DeviceEgoRows(self.rows.to(device), self.groups)


@dataclass(frozen=True)
class DeviceEgoRows:
    """The sparse rows of all nodes on a device."""

    rows: DeviceFeatures
    groups: int

    def take(self, nodes: torch.Tensor, stored: int | None = None) -> torch.Tensor:
        """Return the rows of nodes.

        Args:
            nodes: Indices on the device, int64.
            stored: As for `DeviceFeatures.take`.
        """
        groups = torch.arange(self.groups, device=nodes.device)
        return self.rows.take((nodes[:, None] * self.groups + groups).reshape(-1), stored)


def open_ego_rows(values: Any, num_nodes: int) -> EgoRows:
    """Open the sparse rows of all nodes.

    Args:
        values: A SciPy sparse matrix; the rows of node v are v * groups to (v + 1) * groups - 1.
        num_nodes: Nodes of the graph.

    Raises:
        GraphError: If it is no sparse matrix, or its rows cannot be shared out among the nodes.

    Example:
        >>> import scipy.sparse
        >>> rows = open_ego_rows(scipy.sparse.eye(6, format="csr"), 3)
        >>> rows.groups, rows.take(np.array([1])).shape
        (2, (2, 6))
    """
    if not hasattr(values, "tocsr"):
        raise GraphError(f"ego is a {type(values).__name__}; pass a SciPy sparse matrix")
    count = values.shape[0]
    if count == 0 or count % num_nodes:
        raise GraphError(
            f"ego has {count} rows, but the graph has {num_nodes} nodes; pass the same number of "
            "rows for every node"
        )
    return EgoRows(open_features(values, count), count // num_nodes)
