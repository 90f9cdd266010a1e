"""Attention over all nodes of a graph: exact, or in linear time by random features (FAVOR+)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from dhilgt.model.dropout import dropout

_PAIRS = 1 << 26  # weights of pairs in memory at a time on the host: 256 MB
_LEAST = 1e-4  # added to every random feature, so that no sum of weights is 0


class GlobalAttention(nn.Module):
    """Attention of all nodes to all nodes, softmax(q k^T / sqrt(d)) v for each head.

    Args:
        width: F, a multiple of ``heads``.
        heads: H, each of width d = F / H.
        dropout: Dropout of the attention weights. With random features, which never compute the
            weights, of the output.
        random_features: None for exact attention, else the number of features that estimate it.

    Example:
        >>> GlobalAttention(8, 2, 0.0, None)(torch.ones(5, 8)).shape
        torch.Size([5, 8])
    """

    directions: Tensor | None

    def __init__(self, width: int, heads: int, dropout: float, random_features: int | None) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.output.bias)
        # A buffer, so that a loaded model has the directions that it was trained with.
        drawn = None
        if random_features is not None:
            drawn = orthogonal_directions(random_features, width // heads)
        self.register_buffer("directions", drawn)

    def forward(self, h: Tensor) -> Tensor:
        """Return [n, F] from [n, F]."""
        n, width = h.shape
        qkv = self.qkv(h).view(n, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(1, 2, 0, 3)  # each [H, n, d]
        if self.directions is None:
            mixed = exact_attention(query, key, value, self.dropout if self.training else 0.0)
        else:
            mixed = favor_attention(query, key, value, self.directions)
        out: Tensor = self.output(mixed.transpose(0, 1).reshape(n, width))
        return out if self.directions is None else dropout(out, self.dropout, self.training)


def exact_attention(query: Tensor, key: Tensor, value: Tensor, p: float = 0.0) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v with dropout of the weights; all are [H, n, d].

    Memory is linear in n: kernels of PyTorch never hold all weights, and where there is none, on
    the host with dropout, queries are taken in parts whose weights are computed again for the
    gradient.
    """
    heads, n, _ = query.shape
    if p == 0.0 or query.is_cuda or heads * n * n <= _PAIRS:
        return _attend(query, key, value, p)
    parts = []
    for part in torch.split(query, max(1, _PAIRS // (heads * n)), 1):
        if torch.is_grad_enabled():
            mixed = checkpoint(_attend, part, key, value, p, use_reentrant=False)
        else:
            mixed = _attend(part, key, value, p)
        parts.append(mixed)
    return torch.cat(parts, 1)


def _attend(query: Tensor, key: Tensor, value: Tensor, p: float) -> Tensor:
    if p == 0.0 or query.is_cuda:
        # The kernels without all weights in memory take batches only.
        mixed = functional.scaled_dot_product_attention(
            query[None], key[None], value[None], dropout_p=p
        )
        return mixed[0]
    scale = query.shape[-1] ** -0.5
    weights = torch.softmax((query * scale) @ key.transpose(1, 2), -1)  # [H, part, n]
    return dropout(weights, p) @ value


def favor_attention(query: Tensor, key: Tensor, value: Tensor, directions: Tensor) -> Tensor:
    """Return an estimate of softmax(q k^T / sqrt(d)) v, in time and memory linear in n.

    exp(q . k) is the mean over random w of exp(w . q - |q|^2 / 2) exp(w . k - |k|^2 / 2), a product
    of features of both, so that the sums over keys are computed once for all queries.

    Args:
        query: [H, n, d].
        key: [H, n, d].
        value: [H, n, d].
        directions: [M, d].

    Example:
        >>> q, v = torch.zeros(1, 3, 2), torch.tensor([[[0.0], [1.0], [5.0]]])
        >>> favor_attention(q, q, v, orthogonal_directions(4, 2)).round(decimals=4).tolist()
        [[[2.0], [2.0], [2.0]]]
    """
    with torch.autocast(query.device.type, enabled=False):  # exponents need single precision
        query, key, value = query.float(), key.float(), value.float()
        scale = query.shape[-1] ** -0.25
        # A factor on all features of a query cancels, and so does one on all features of all keys.
        seen = _features(query * scale, directions, over_nodes=False)  # [H, n, M]
        shown = _features(key * scale, directions, over_nodes=True)
        summary = shown.transpose(1, 2) @ value  # [H, M, d]
        total = seen @ shown.sum(1)[..., None]  # [H, n, 1]
        return (seen @ summary) / total


def _features(x: Tensor, directions: Tensor, *, over_nodes: bool) -> Tensor:
    powers = x @ directions.T - x.square().sum(-1, keepdim=True) / 2
    most = powers.detach().amax((1, 2) if over_nodes else 2, keepdim=True)
    return (powers - most).exp() + _LEAST


def orthogonal_directions(count: int, width: int) -> Tensor:
    """Return random directions, [count, width]: orthogonal in blocks, as long as Gaussian ones.

    Orthogonal directions cover a space more evenly than independent ones, which makes estimates
    better for the same number.
    """
    blocks = [_rotation(width) for _ in range(math.ceil(count / width))]
    lengths = torch.randn(count, width).norm(dim=1, keepdim=True)
    directions: Tensor = torch.cat(blocks)[:count] * lengths
    return directions


def _rotation(width: int) -> Tensor:
    rotation, rest = torch.linalg.qr(torch.randn(width, width))
    # The solver chooses signs, which favours some directions; these signs make all equally likely.
    signed: Tensor = rotation * rest.diagonal().sign()
    return signed.T


def usual_features(width: int) -> int:
    """Return d ln d random features for heads of width d, the common choice.

    Example:
        >>> usual_features(64)
        266
    """
    return max(1, int(width * math.log(width)))
