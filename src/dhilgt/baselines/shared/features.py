"""Features as one dense tensor."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dhilgt.errors import MemoryLimitError
from dhilgt.graph import Graph
from dhilgt.memory import available_bytes, format_bytes


def dense_features(graph: Graph, *, normalize_rows: bool = False) -> Tensor:
    """Gives the features of a graph as float32, [n, F0], sparse ones filled up with zeros.

    Args:
        graph: A graph with features.
        normalize_rows: Divide each row by the sum of its absolute values; rows of zeros stay.

    Raises:
        MemoryLimitError: If the dense form of sparse features does not fit.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.Graph.from_edges([0], [1], num_nodes=2, features=[[1, 3], [0, 0]])
        >>> dense_features(graph, normalize_rows=True).tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    values = graph.features
    if hasattr(values, "toarray"):
        need, free = 4 * values.shape[0] * values.shape[1], available_bytes()
        if free is not None and need > free:
            raise MemoryLimitError(
                f"dense features take {format_bytes(need)}, {format_bytes(free)} are free; "
                "reduce the features first, for example with a truncated SVD"
            )
        values = values.toarray()
    x = torch.from_numpy(np.array(values, np.float32))
    return row_normalized(x) if normalize_rows else x


def row_normalized(x: Tensor) -> Tensor:
    """Gives rows whose absolute values sum to 1; rows of zeros stay zeros.

    Example:
        >>> row_normalized(torch.tensor([[2.0, -2.0], [0.0, 0.0]])).tolist()
        [[0.5, -0.5], [0.0, 0.0]]
    """
    total = x.abs().sum(1, keepdim=True)
    return x / total.where(total > 0, torch.ones_like(total))
