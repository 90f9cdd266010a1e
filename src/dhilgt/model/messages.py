"""Message passing over all edges of the graph, below the first layer of the transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from dhilgt.model.dropout import dropout
from dhilgt.model.sparse_product import CsrParts, symmetric_product

_EPSILON = 1e-5  # added to variances


class GraphNorm(nn.Module):
    """Bring each channel to mean 0 and variance 1 over all nodes, then scale and shift it.

    As the whole graph is always at hand, the statistics are those of the input in evaluation too:
    there are no running ones that lag behind the weights. After the training, those of its graph
    are held: what a node gets then depends on the nodes around it alone, in other graphs, too.

    Args:
        width: Channels.

    Example:
        >>> norm = GraphNorm(1).eval()
        >>> norm(torch.tensor([[1.0], [3.0]])).detach().round(decimals=2).tolist()
        [[-1.0], [1.0]]
        >>> norm.hold(torch.tensor([[1.0], [3.0]]))
        >>> norm(torch.tensor([[1.0]])).detach().round(decimals=2).tolist()
        [[-1.0]]
    """

    held: Tensor
    held_mean: Tensor
    held_variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))
        self.register_buffer("held", torch.zeros((), dtype=torch.bool))
        self.register_buffer("held_mean", torch.zeros(width))
        self.register_buffer("held_variance", torch.ones(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all scales to 1 and all shifts to 0, and hold no statistics."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.held.zero_()

    def train(self, mode: bool = True) -> GraphNorm:
        """Begin or end training; statistics of earlier weights are not held in training."""
        if mode:
            self.held.zero_()
        return super().train(mode)

    def hold(self, h: Tensor) -> None:
        """Use the statistics of some rows for all rows from now on, until it is trained again."""
        mean, variance = _statistics(h)
        self.held_mean.copy_(mean)
        self.held_variance.copy_(variance)
        self.held.fill_(True)

    def forward(self, h: Tensor) -> Tensor:
        """Return the normalised rows, [n, F]."""
        if self.training and h.shape[0] > 1:  # the same in one kernel, which refuses a single row
            return F.batch_norm(h, None, None, self.weight, self.bias, training=True, eps=_EPSILON)
        mean, variance = _statistics(h)
        if not self.training:
            # Not by a branch: a program that is exported knows no values.
            mean = torch.where(self.held, self.held_mean, mean)
            variance = torch.where(self.held, self.held_variance, variance)
        return (h - mean) * (self.weight * torch.rsqrt(variance + _EPSILON)) + self.bias


def _statistics(h: Tensor) -> tuple[Tensor, Tensor]:
    mean = h.mean(0)
    return mean, (h - mean).square().mean(0)


class MessageRound(nn.Module):
    """A round: ReLU(norm(h W + A h V)) with dropout, for every node of the graph."""

    def __init__(self, width: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.own = nn.Linear(width, width, bias=False)  # the norm would take a bias away
        self.neighbors = nn.Linear(width, width, bias=False)
        self.norm = GraphNorm(width)

    def forward(
        self, h: Tensor, adjacency: Tensor | CsrParts, hold_statistics: bool = False
    ) -> Tensor:
        """Return the representations after the round, [n, F]."""
        received = symmetric_product(adjacency, self.neighbors(h))
        summed = self.own(h) + received
        if hold_statistics:
            self.norm.hold(summed)
        normed: Tensor = self.norm(summed)
        return dropout(F.relu(normed), self.rate, self.training)


class Messages(nn.Module):
    """Rounds of message passing: each node sees the nodes up to as many edges away.

    Args:
        width: Channels.
        rounds: How many.
        rate: Dropout before the first round and after each one.

    Example:
        >>> adjacency = torch.tensor([[0.0, 0.5], [0.5, 0.0]]).to_sparse_csr()
        >>> Messages(width=8, rounds=2, rate=0.0)(torch.randn(2, 8), adjacency).shape
        torch.Size([2, 8])
    """

    def __init__(self, width: int, rounds: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.rounds = nn.ModuleList(MessageRound(width, rate) for _ in range(rounds))

    def reset_parameters(self) -> None:
        """Set the scales and shifts of all norms anew; linear layers are `reset_linear`'s."""
        for part in self.modules():
            if isinstance(part, GraphNorm):
                part.reset_parameters()

    def forward(
        self, h: Tensor, adjacency: Tensor | CsrParts, hold_statistics: bool = False
    ) -> Tensor:
        """Return the representations of all nodes, [n, F].

        Args:
            h: Those before the first round, [n, F].
            adjacency: Weights of the edges, a symmetric CSR matrix, [n, n].
            hold_statistics: Whether the norms use the statistics of these nodes from now on.
        """
        h = dropout(F.relu(h), self.rate, self.training)
        for step in self.rounds:
            h = step(h, adjacency, hold_statistics)
        return h
