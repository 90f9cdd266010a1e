"""A few centroids that stand for all nodes, kept by moving averages and not by gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dhilgt.baselines.shared.layers import SafeBatchNorm

_EPS = 1e-5
_CHUNK = 1 << 24  # entries of a matrix of distances made at once


class Codebook(nn.Module):
    """Centroids of moving averages, and which of them each node was last assigned to.

    Nodes and centroids are compared where every coordinate of the nodes has mean 0 and variance 1;
    `points` gives the centroids in the coordinates that nodes come in.

    Args:
        count: Number of centroids.
        channels: Width of nodes and centroids.
        num_nodes: Nodes of the graph.
        decay: Share of the old in each average.

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
        """Sets the centroids to some nodes, each of weight 1, and the scale to that of all nodes.

        Args:
            nodes: All nodes, [n, d].
            chosen: Which of them to begin at, one for each centroid.
        """
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None, "kept by default"  # noqa: PT018
        mean.copy_(nodes.mean(0))
        variance.copy_(nodes.var(0, unbiased=False))
        self.centroids.copy_(self._scaled(nodes[chosen]))
        self.sums.copy_(self.centroids)
        self.sizes.fill_(1)

    def members(self) -> Tensor:
        """Gives how many nodes are assigned to each centroid, [B]."""
        return torch.bincount(self.assigned, minlength=len(self.sizes))

    def points(self) -> Tensor:
        """Gives the centroids in the coordinates of the nodes, [B, d]."""
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None, "kept by default"  # noqa: PT018
        return self.centroids * (variance + self.norm.eps).sqrt() + mean

    @torch.no_grad()
    def assign(self, nodes: Tensor, ids: Tensor) -> None:
        """Notes the nearest centroid of some nodes, by the scale known so far.

        Args:
            nodes: [b, d].
            ids: Their numbers, [b].
        """
        self.assigned[ids] = self._nearest(self._scaled(nodes.float()))

    @torch.no_grad()
    def update(self, nodes: Tensor, ids: Tensor) -> None:
        """Assigns the nodes of a training batch and moves the averages towards them.

        size <- decay size + (1 - decay) hits, then smoothed: (size + e) / (N + B e) N with N the
        sum of all sizes; sum <- decay sum + (1 - decay) sum of the nodes; centroid = sum / size.
        """
        # Averages over many steps are not left to half precision.
        with torch.autocast(nodes.device.type, enabled=False):
            self._move(nodes.float(), ids)

    def _move(self, nodes: Tensor, ids: Tensor) -> None:
        scaled: Tensor = self.norm(nodes)
        nearest = self._nearest(scaled)
        count = len(self.sizes)
        # A product with a matrix of 0 and 1 in place of a scatter, whose order of sums varies.
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
