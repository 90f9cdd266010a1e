"""Softmax attention over all pairs of nodes in linear time, by positive random features.

For directions w of a standard Gaussian, exp(q . k) is the mean of f(q) f(k) over w, where
f(x) = exp(w . x - |x|^2 / 2). With M directions, sums over all pairs become products of [n, M].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dhilgt.baselines.shared.sparse import SparseMatrix, multiply

_LEAST = 1e-6  # added to each feature, so that no sum of weights is 0
_GATHERED = 1 << 27  # numbers in memory at a time for products at edges: 512 MB


def random_directions(copies: int, count: int, width: int) -> Tensor:
    """Return directions as of a standard Gaussian, orthogonal to each other in groups of `width`.

    Args:
        copies: Independent sets of directions.
        count: M, directions of a set.
        width: F, numbers of a direction.

    Returns:
        [copies, M, F].

    Example:
        >>> one = random_directions(1, 3, 4)[0]
        >>> torch.allclose(one @ one.T, torch.diag(one.square().sum(1)), atol=1e-5)
        True
    """
    groups = -(-count // width)
    turned, upper = torch.linalg.qr(torch.randn(copies, groups, width, width))
    # Signs of the diagonal make the columns uniform on the sphere: without them the features would
    # be biased.
    turned = turned * upper.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    units = turned.mT.reshape(copies, groups * width, width)[:, :count]
    lengths = torch.randn(copies, count, width).norm(dim=-1, keepdim=True)
    directions: Tensor = units * lengths
    return directions


def query_features(x: Tensor, directions: Tensor) -> Tensor:
    """Return the features of queries, each row up to a factor: [H, n, F] to [H, n, M]."""
    power = _power(x, directions)
    return (power - power.detach().amax(-1, keepdim=True)).exp() + _LEAST


def key_features(x: Tensor, directions: Tensor) -> Tensor:
    """Return the features of keys, each head up to a factor: [H, n, F] to [H, n, M]."""
    power = _power(x, directions)
    return (power - power.detach().amax((-2, -1), keepdim=True)).exp() + _LEAST


def _power(x: Tensor, directions: Tensor) -> Tensor:
    x = x * x.shape[-1] ** -0.25  # products of two are then divided by the root of F
    return x @ directions.mT - x.square().sum(-1, keepdim=True) / 2


def gumbel_factors(heads: int, nodes: int, samples: int, temperature: float, device: Any) -> Tensor:
    """Return exp(g / temperature) for Gumbel noise g, each sample up to a factor: [H, n, K]."""
    # Minus the logarithm of an exponential variable is Gumbel noise.
    drawn = torch.empty(heads, nodes, samples, device=device).exponential_()
    power = drawn.clamp_min_(torch.finfo(drawn.dtype).tiny).log_().div_(-temperature)
    return power.sub_(power.amax(1, keepdim=True)).exp_()


def mix(queries: Tensor, keys: Tensor, values: Tensor, factors: Tensor | None = None) -> Tensor:
    """Return the means of all nodes' values, weighted by the products of features.

    Args:
        queries: Features, [H, n, M].
        keys: Features, [H, n, M].
        values: [H, n, F].
        factors: Factors of the keys for each of K samples, [H, n, K]; the result is the mean over
            samples. None for no factors.

    Returns:
        [H, n, F].

    Example:
        >>> q, k = torch.ones(1, 2, 1), torch.tensor([[[1.0], [3.0]]])
        >>> mix(q, k, torch.tensor([[[0.0], [4.0]]])).flatten().tolist()
        [3.0, 3.0]
    """
    if factors is None:
        totals = queries @ keys.sum(1)[..., None]  # [H, n, 1]
        return (queries / totals) @ (keys.mT @ values)
    totals = queries @ (keys.mT @ factors)  # [H, n, K]
    # Samples and features are one dimension, so that the mean over samples is one product.
    drawn = (factors[..., None] * keys[..., None, :]).flatten(2)  # [H, n, K M]
    shares = (factors.shape[2] * totals).reciprocal()
    scaled = (shares[..., None] * queries[..., None, :]).flatten(2)  # [H, n, K M]
    return scaled @ (drawn.mT @ values)


def edge_loss(queries: Tensor, keys: Tensor, edges: SparseMatrix) -> Tensor:
    """Return minus the mean of log a_uv / degree(u) over edges (u, v) and heads.

    a_uv is the weight of node v in the mean of node u, without noise.

    Args:
        queries: Features, [H, n, M].
        keys: Features, [H, n, M].
        edges: One entry per direction of an edge, with one loop at each node; rows ascending.
    """
    products: Tensor = _EntryProducts.apply(queries, keys, edges)  # type: ignore[no-untyped-call]
    shares = (1.0 / edges.offsets.diff())[edges.rows()]  # [m]
    totals = (queries @ keys.sum(1)[..., None]).squeeze(-1)  # [H, n]
    # The shares of a row sum to 1, so the sum over its edges has each total once.
    kept = (products.log() * shares).sum() - totals.log().sum()
    return -kept / products.numel()


class _EntryProducts(torch.autograd.Function):
    """left_u . right_v for each entry (u, v) of a symmetric pattern, [H, n, M] to [H, entries].

    The gradients are sparse products: they sum in a fixed order and keep no gathered rows.
    """

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(left, right)
        rows, columns = matrix.rows(), matrix.columns
        step = max(1, _GATHERED // (left.shape[0] * left.shape[2]))
        parts = [
            (left[:, rows[at : at + step]] * right[:, columns[at : at + step]]).sum(-1)
            for at in range(0, len(rows), step)
        ]
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        turned = gradient[:, matrix.transposing_order()]
        return (
            _head_products(matrix, gradient, right),
            _head_products(matrix.transposed(), turned, left),
            None,
        )


def _head_products(matrix: SparseMatrix, values: Tensor, dense: Tensor) -> Tensor:
    """Return the product of each head: values [H, entries], dense [H, n, M], to [H, n, M].

    All heads are one product, with a matrix that has the heads on its diagonal.
    """
    heads, nodes, _ = dense.shape
    number = torch.arange(heads, device=dense.device)[:, None]
    starts = (matrix.offsets[:-1] + number * values.shape[1]).flatten()
    end = starts.new_full((1,), values.numel())
    columns = (matrix.columns + number * nodes).flatten()
    flat = multiply(torch.cat([starts, end]), columns, values.flatten(), dense.flatten(0, 1))
    return flat.view_as(dense)
