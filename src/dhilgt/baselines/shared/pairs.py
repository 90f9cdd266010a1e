"""Attention over selected pairs of nodes, such as neighbours, or parents and children."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor, nn

from dhilgt.baselines.shared.message_graph import (
    CleanGraph,
    ascending,
    first_of_each,
    row_offsets,
    rows_of,
)
from dhilgt.baselines.shared.sparse import SparseMatrix, pair_products, segment_softmax
from dhilgt.errors import MemoryLimitError
from dhilgt.model.dropout import dropout
from dhilgt.utils.memory import available_bytes, format_bytes

_STEPS = 1 << 23  # neighbours visited at once in the search for pairs
_BITS = 8  # of a distance
_FEW_BYTES = 1 << 26  # below that, asking for the free memory takes longer than the pairs
_PAIR_BYTES = 40  # per pair in training: column, distance, score and weight


class NearPairs(NamedTuple):
    """Pairs in compressed rows: row offsets [n + 1], columns [p], distances [p]."""

    offsets: NDArray[np.int64]
    columns: NDArray[np.int64]
    distances: NDArray[np.int64]


def near_pairs(graph: CleanGraph, most: int) -> NearPairs:
    """Return all pairs at most `most` hops apart, including each node with itself.

    Args:
        graph: A graph without loops.
        most: The largest distance.

    Raises:
        MemoryLimitError: If the pairs do not fit in memory.

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1], [1, 2]), self_loops=False)
        >>> near_pairs(path, 1).columns.tolist()
        [0, 1, 0, 1, 2, 1, 2]
        >>> near_pairs(path, 2).distances.tolist()
        [0, 1, 2, 1, 0, 1, 2, 1, 0]
    """
    n = graph.num_nodes
    if most == 1:
        _check_memory(n + len(graph.targets), n, graph, most)
        near = graph.with_loops()
        return NearPairs(
            near.offsets, near.targets, (near.targets != near.sources()).astype(np.int64)
        )
    parts: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    total = 0
    for nodes in _pieces(graph, most):
        parts.append(_pairs_of(graph, nodes, most))
        total += len(parts[-1])
        _check_memory(total, int(nodes[-1]) + 1, graph, most)
    tagged = np.concatenate(parts)
    keys = tagged >> _BITS
    rows = keys // max(n, 1)
    return NearPairs(row_offsets(rows, n), keys - rows * n, tagged & (1 << _BITS) - 1)


def _check_memory(total: int, done: int, graph: CleanGraph, most: int) -> None:
    need = total * _PAIR_BYTES
    free = available_bytes() if need > _FEW_BYTES else None
    if free is not None and need > free:
        raise MemoryLimitError(
            f"{done:,} of {graph.num_nodes:,} nodes have {total:,} nodes within {most} hops, "
            f"which takes {format_bytes(need)}, {format_bytes(free)} are free; choose a smaller "
            "max_distance"
        )


def _pieces(graph: CleanGraph, most: int) -> list[NDArray[np.int64]]:
    """Return ranges of nodes whose search visits about `_STEPS` neighbours each."""
    reach = graph.degrees.astype(np.float64) + 1
    for _ in range(most - 1):
        total = np.concatenate([[0.0], np.cumsum(reach[graph.targets])])
        reach = reach + total[graph.offsets[1:]] - total[graph.offsets[:-1]]
    steps = np.cumsum(reach) // _STEPS
    cuts = np.flatnonzero(np.diff(steps)) + 1
    return [part for part in np.split(np.arange(graph.num_nodes), cuts) if len(part)]


def _pairs_of(graph: CleanGraph, nodes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return row, column and distance of each pair of some rows as one integer, ascending."""
    n = graph.num_nodes
    border = nodes * n + nodes
    tagged = border << _BITS
    for distance in range(1, most + 1):
        rows = border // n
        starts, reached = rows_of(graph.offsets, graph.targets, border - rows * n)
        reached += np.repeat(rows * n, np.diff(starts))
        # A pair that was reached before is before its copy with a larger distance.
        tagged = ascending(np.concatenate([tagged, (reached << _BITS) + distance]))
        tagged = first_of_each(tagged, _BITS)
        border = tagged[(tagged & (1 << _BITS) - 1) == distance] >> _BITS
        if len(border) == 0:
            break
    return tagged


class _PairScores(torch.autograd.Function):
    """Products of queries and keys, a part of the pairs at a time, without keeping the factors.

    PyTorch's own gradient would keep two rows per pair; here both gradients are sparse products.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(query, key)
        return pair_products(query, key, matrix)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        query, key = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        order, transpose = matrix.transposing_order(), matrix.transposed()
        gradient = gradient.float()
        query_grad = matrix.multiply_heads(gradient, key.float())
        key_grad = transpose.multiply_heads(gradient[order], query.float())
        return query_grad.to(query.dtype), key_grad.to(key.dtype), None


def pair_scores(query: Tensor, key: Tensor, matrix: SparseMatrix) -> Tensor:
    """Return query_i . key_j for each entry (i, j) of a matrix, per head.

    Args:
        query: [rows, H, d].
        key: [columns, H, d].
        matrix: Its entries are the pairs; its values are not used.

    Returns:
        [entries, H].
    """
    scores: Tensor = _PairScores.apply(query, key, matrix)  # type: ignore[no-untyped-call]
    return scores


class PairAttention(nn.Module):
    """A pre-norm transformer layer in which a row attends to the entries of its row in a matrix.

    y_i = x_i + Drop(W_o Σ_j a_ij v_j), out = y + Drop(W_2 GELU(W_1 LN y)), where a_ij is the
    softmax over the entries j of row i of q_i . k_j / sqrt(d) + bias_ij. In a row without entries
    the sum is 0.

    Args:
        width: Width of the representations, a multiple of `heads`.
        heads: Attention heads.
        ffn: Inner width of the feed-forward part.
        dropout: Dropout of the output of each part.
        attention_dropout: Dropout of the attention weights.

    Example:
        >>> layer = PairAttention(8, 2, 16)
        >>> pairs = SparseMatrix(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), torch.ones(3))
        >>> layer(torch.ones(2, 8), torch.ones(2, 8), pairs).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ffn: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.attention_dropout = heads, dropout, attention_dropout
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.projection = nn.Linear(width, width)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn_in = nn.Linear(width, ffn)
        self.ffn_out = nn.Linear(ffn, width)

    def forward(
        self, x: Tensor, others: Tensor, pairs: SparseMatrix, bias: Tensor | None = None
    ) -> Tensor:
        """Return the next representation, [rows, F].

        Args:
            x: Representations that attend, [rows, F].
            others: Representations attended to, [columns, F]; may be `x`.
            pairs: Matrix whose entry (i, j) means that row i attends to row j of `others`.
            bias: Added to the scores, [entries, H].
        """
        normed = self.attention_norm(x)
        attended = normed if others is x else self.attention_norm(others)
        query = self.query(normed).unflatten(1, (self.heads, -1))  # [rows, H, d]
        key, value = self.key_value(attended).unflatten(1, (2, self.heads, -1)).unbind(1)
        scores = pair_scores(query * query.shape[-1] ** -0.5, key, pairs)  # [entries, H]
        if bias is not None:
            scores = scores + bias
        weights = dropout(segment_softmax(scores, pairs), self.attention_dropout, self.training)
        mixed = self.projection(pairs.weighted(weights, value).flatten(1).to(x.dtype))
        x = x + dropout(mixed, self.dropout, self.training)
        inner = F.gelu(self.ffn_in(self.ffn_norm(x)))
        return x + dropout(self.ffn_out(inner), self.dropout, self.training)
