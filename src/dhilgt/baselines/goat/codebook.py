"""Centroids that represent all nodes, updated by moving averages and not by gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dhilgt.baselines.shared.layers import SafeBatchNorm

_EPS = 1e-5
_CHUNK = 1 << 24  # entries of a matrix of distances computed at once


class Codebook(nn.Module):
    """Centroids of moving averages, and the centroid that each node was last assigned to.

    Nodes and centroids are compared in coordinates in which nodes have mean 0 and variance 1;
    `points` returns the centroids in the original coordinates of nodes.

    Args:
        count: Number of centroids.
        channels: Width of nodes and centroids.
        num_nodes: Nodes of the graph.
        decay: Weight of the old value in each average.

    Example:
        >>> book = Codebook(3, 2, 10)
        >>> book.points().shape, int(book.members().sum())
        (torch.Size([3, 2]), 10)
    """

    centroids: Tensor
    sums: Tensor
    sizes: Tensor
    assigned: Tensor

    def __init__(self, count: int, channels: int, num_nodes: int, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.norm = SafeBatchNorm(channels, affine=False)
        first = torch.randn(count, channels)
        self.register_buffer("centroids", first)
        self.register_buffer("sums", first.clone())
        self.register_buffer("sizes", torch.zeros(count))
        self.register_buffer("assigned", torch.randint(0, count, (num_nodes,)))

    @torch.no_grad()
    def begin_at(self, nodes: Tensor, chosen: Tensor) -> None:
        """Set the centroids to some nodes, each of size 1, and the scale to that of all nodes.

        Args:
            nodes: All nodes, [n, d].
            chosen: Index of a node for each centroid.
        """
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None, "kept by default"  # noqa: PT018
        mean.copy_(nodes.mean(0))
        variance.copy_(nodes.var(0, unbiased=False))
        self.centroids.copy_(self._scaled(nodes[chosen]))
        self.sums.copy_(self.centroids)
        self.sizes.fill_(1)

    def members(self) -> Tensor:
        """Return the number of nodes assigned to each centroid, [B]."""
        # Unlike a bincount, a GPU does not wait for it.
        counts = torch.zeros(len(self.sizes), dtype=torch.int64, device=self.assigned.device)
        return counts.scatter_add_(0, self.assigned, torch.ones_like(self.assigned))

    def points(self) -> Tensor:
        """Return the centroids in the original coordinates of nodes, [B, d]."""
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None, "kept by default"  # noqa: PT018
        return self.centroids * (variance + self.norm.eps).sqrt() + mean

    @torch.no_grad()
    def assign(self, nodes: Tensor, ids: Tensor) -> None:
        """Assign some nodes to their nearest centroids, by the current scale.

        Args:
            nodes: [b, d].
            ids: Indices of the nodes in the graph, [b].
        """
        self.assigned[ids] = self._nearest(self._scaled(nodes.float()))

    @torch.no_grad()
    def update(self, nodes: Tensor, ids: Tensor) -> None:
        """Assign the nodes of a training batch and move the averages towards them.

        size <- decay size + (1 - decay) hits, then smoothed: (size + e) / (N + B e) N with N the
        sum of all sizes; sum <- decay sum + (1 - decay) sum of the nodes; centroid = sum / size.
        """
        # Half precision is too coarse for averages over many steps.
        with torch.autocast(nodes.device.type, enabled=False):
            self._move(nodes.float(), ids)

    def _move(self, nodes: Tensor, ids: Tensor) -> None:
        scaled: Tensor = self.norm(nodes)
        nearest = self._nearest(scaled)
        count = len(self.sizes)
        # A product with a matrix of 0 and 1, because a scatter sums in no fixed order.
        one_hot = torch.zeros(len(nodes), count, device=nodes.device)
        one_hot[torch.arange(len(nodes), device=nodes.device), nearest] = 1
        self.sizes.mul_(self.decay).add_(one_hot.sum(0), alpha=1 - self.decay)
        total = self.sizes.sum()
        self.sizes.copy_((self.sizes + _EPS) / (total + count * _EPS) * total)
        self.sums.mul_(self.decay).add_(one_hot.T @ scaled, alpha=1 - self.decay)
        self.centroids.copy_(self.sums / self.sizes[:, None])
        self.assigned[ids] = nearest

    def _scaled(self, nodes: Tensor) -> Tensor:
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None, "kept by default"  # noqa: PT018
        return (nodes - mean) / (variance + self.norm.eps).sqrt()

    def _nearest(self, scaled: Tensor) -> Tensor:
        step = max(1, _CHUNK // len(self.sizes))
        lengths = (self.centroids**2).sum(1)
        parts = [
            (lengths - 2 * part @ self.centroids.T).argmin(1) for part in torch.split(scaled, step)
        ]
        return torch.cat(parts)
