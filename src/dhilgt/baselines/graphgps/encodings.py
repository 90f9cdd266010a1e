"""Positions of nodes as inputs: eigenvectors of the Laplacian, or returns of a random walk."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.shared.layers import SafeBatchNorm
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import multiply
from dhilgt.baselines.shared.spectral import laplacian_vectors

_BLOCK_BYTES = 1 << 26  # of one power of a walk, for some of the nodes


def laplacian_pairs(graph: CleanGraph, count: int) -> NDArray[np.float32]:
    """Return each node's entries of the first eigenvectors, with their eigenvalues.

    Args:
        graph: A graph without loops.
        count: Number of eigenvectors, of the smallest eigenvalues, without the first.

    Returns:
        [n, count, 2]: the entry of the eigenvector of length 1, and its eigenvalue.

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1], [1, 2]), self_loops=False)
        >>> laplacian_pairs(path, 1)[0].round(3).tolist()
        [[0.7070000171661377, 1.0]]
    """
    vectors = laplacian_vectors(graph, count)
    matrix = graph.adjacency("symmetric")
    moved = (matrix @ torch.from_numpy(vectors)).numpy()
    # v . L v with L = I - D^-1/2 A D^-1/2; 0 for a column of zeros, where there is no vector.
    values = np.maximum((vectors * (vectors - moved)).sum(0), 0)
    return np.stack([vectors, np.broadcast_to(values, vectors.shape)], 2)


def walk_returns(graph: CleanGraph, steps: int) -> NDArray[np.float32]:
    """Return the probabilities that a random walk is back where it began after 1, 2, ... steps.

    These are the diagonals of P, P^2, ... for P = D^-1 A. They equal those of powers of
    S = D^-1/2 A D^-1/2, which is symmetric: the diagonal of S^(a + b) is in the columns of S^a and
    S^b, so that half of the powers is enough. Time is n m steps / 2.

    Args:
        graph: A graph without loops.
        steps: K.

    Returns:
        [n, steps].

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1], [1, 2]), self_loops=False)
        >>> walk_returns(path, 4).round(3).tolist()
        [[0.0, 0.5, 0.0, 0.5], [0.0, 1.0, 0.0, 1.0], [0.0, 0.5, 0.0, 0.5]]
    """
    # Products with blocks of many columns: a GPU takes a small part of the time.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n, matrix = graph.num_nodes, graph.adjacency("symmetric").to(device)
    out = torch.zeros(n, steps, device=device)
    size = max(1, _BLOCK_BYTES // (4 * n))
    for start in range(0, n, size):
        nodes = torch.arange(start, min(start + size, n), device=device)
        before = torch.zeros(n, len(nodes), device=device)
        before[nodes, nodes - start] = 1.0  # columns of S^0
        for step in range(0, steps, 2):
            power = multiply(matrix.offsets, matrix.columns, matrix.values, before)
            out[nodes, step] = (before * power).sum(0)
            if step + 1 < steps:
                out[nodes, step + 1] = power.square().sum(0)
            before = power
    return out.cpu().numpy()


class LaplacianEncoder(nn.Module):
    """A sum over eigenvectors of a small network of a node's entry and the eigenvalue.

    An eigenvector is as good with the opposite sign: in training each one's sign is drawn at every
    step, so that the network cannot depend on it.

    Args:
        channels: Width of the output.
        count: Number of eigenvectors.
    """

    def __init__(self, channels: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.first = nn.Linear(2, 2 * channels)
        self.second = nn.Linear(2 * channels, channels)

    def forward(self, pairs: Tensor) -> Tensor:
        """Return [n, channels] from [n, 2 count]."""
        pairs = pairs.view(-1, self.count, 2)
        if self.training:
            signs = torch.randint(0, 2, (self.count, 1), device=pairs.device) * 2 - 1
            pairs = torch.cat([pairs[..., :1] * signs, pairs[..., 1:]], -1)
        inner = functional.relu(self.first(pairs))
        return functional.relu(self.second(inner)).sum(1)


class WalkEncoder(nn.Module):
    """Batch normalisation of the returns of a walk, then a linear layer."""

    def __init__(self, channels: int, steps: int) -> None:
        super().__init__()
        self.norm = SafeBatchNorm(steps)
        self.linear = nn.Linear(steps, channels)

    def forward(self, returns: Tensor) -> Tensor:
        """Return [n, channels] from [n, steps]."""
        out: Tensor = self.linear(self.norm(returns))
        return out
