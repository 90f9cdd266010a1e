"""Node vectors from random walks: nodes that are near on walks get similar vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.loader.prefetch import Prefetcher

_AHEAD = 4  # steps whose walks are drawn before they are needed
_BLOCK = 32  # first nodes of windows that are processed at once


def node2vec(
    graph: CleanGraph,
    channels: int,
    *,
    walk_length: int = 80,
    context: int = 20,
    walks: int = 10,
    epochs: int = 5,
    lr: float = 0.01,
    batch: int = 64,
    seed: int = 0,
) -> Tensor:
    """Return a vector per node by skip-gram over uniform walks, with one negative per positive.

    A node of a walk and those up to `context - 1` steps after it get a large inner product, nodes
    of rows drawn at random a small one. A node has one vector for both roles.

    Args:
        graph: A graph without loops; walks from a node without neighbours stay there.
        channels: Width of the vectors.
        walk_length: Nodes of a walk.
        context: Nodes of a window.
        walks: Walks from each node in an epoch.
        epochs: Passes over all nodes.
        lr: Learning rate of Adam, which updates the rows of a batch only.
        batch: Nodes whose walks make up one step.
        seed: Seed of walks, negatives and initial vectors.

    Returns:
        [n, channels] float32, on the host.

    Example:
        >>> import dhilgt
        >>> pairs = CleanGraph.of(dhilgt.Graph.from_edges([0, 2], [1, 3]), self_loops=False)
        >>> vectors = node2vec(pairs, 8, epochs=20)
        >>> bool(vectors[0] @ vectors[1] > vectors[0] @ vectors[2])
        True
    """
    n, rng = graph.num_nodes, np.random.default_rng([seed, 0])
    walk_length = max(walk_length, 2)
    context = min(context, walk_length)
    # Products of small dense blocks: a GPU takes a tenth of the time.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = torch.from_numpy(rng.standard_normal((n, channels)).astype(np.float32))
    table = start.to(device)
    adam = _RowAdam(table, lr)

    def steps() -> Iterator[tuple[Tensor, Tensor]]:
        """Return for each step the nodes of its walks, and the places of walks in them."""
        for _ in range(epochs):
            order = rng.permutation(n)
            for begin in range(0, n, batch):
                roots = np.repeat(order[begin : begin + batch], walks)
                rows = np.empty((2, len(roots), walk_length), np.int64)
                rows[0] = random_walks(graph, roots, walk_length, rng)
                rows[1] = rng.integers(0, n, rows[1].shape)
                rows[1, :, 0] = roots
                is_used = np.zeros(n, np.bool_)
                is_used[rows] = True
                places = np.cumsum(is_used) - 1
                yield torch.from_numpy(np.flatnonzero(is_used)), torch.from_numpy(places[rows])

    for used, places in Prefetcher(steps, _AHEAD):
        rows, at = used.to(device), places.to(device)
        vectors = table[rows]
        walked, drawn = vectors[at]
        grads = torch.cat(
            [window_gradient(walked, context, 1.0), window_gradient(drawn, context, -1.0)]
        )
        gradient = torch.zeros_like(vectors)
        gradient.index_add_(0, at.flatten(), grads.flatten(0, 1))
        adam.step(rows, gradient)
    return table.cpu()


class _RowAdam:
    """Adam that updates only the rows of a table that have a gradient, and their averages."""

    def __init__(self, table: Tensor, lr: float) -> None:
        self.table, self.lr, self.steps = table, lr, 0
        self.mean, self.square = torch.zeros_like(table), torch.zeros_like(table)

    def step(self, rows: Tensor, gradient: Tensor) -> None:
        self.steps += 1
        mean = self.mean[rows].lerp_(gradient, 0.1)
        square = self.square[rows].lerp_(gradient**2, 0.001)
        self.mean[rows], self.square[rows] = mean, square
        size = self.lr * math.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        self.table[rows] -= size * mean / (square.sqrt() + 1e-8)


def random_walks(
    graph: CleanGraph, roots: NDArray[np.int64], length: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return walks of `length` nodes, [walks, length], each step to a neighbour drawn uniformly.

    Example:
        >>> import dhilgt
        >>> edge = CleanGraph.of(dhilgt.Graph.from_edges([0], [1]), self_loops=False)
        >>> random_walks(edge, np.array([0]), 4, np.random.default_rng(0)).tolist()
        [[0, 1, 0, 1]]
    """
    out = np.empty((len(roots), length), np.int64)
    out[:, 0] = current = roots
    degrees = graph.degrees
    all_move = bool((degrees > 0).all())
    for step in range(1, length):
        degree = degrees[current]
        if all_move:
            at = rng.integers(0, degree)
            out[:, step] = current = graph.targets[graph.offsets[current] + at]
            continue
        moving = np.flatnonzero(degree)
        following = current.copy()
        at = rng.integers(0, degree[moving])
        following[moving] = graph.targets[graph.offsets[current[moving]] + at]
        out[:, step] = current = following
    return out


def window_gradient(vectors: Tensor, context: int, sign: float) -> Tensor:
    """Return the gradient of the mean of -log sigmoid(sign x product) over pairs of all windows.

    A window is `context` nodes in a row; its pairs are the first node with each of the others.

    Args:
        vectors: Vectors of the nodes of walks, [walks, length, d].
        context: Nodes of a window.
        sign: 1 for walks, -1 for random rows.

    Returns:
        [walks, length, d].

    Example:
        >>> window_gradient(torch.tensor([[[1.0], [0.0]]]), 2, 1.0).flatten().tolist()
        [0.0, -0.5]
    """
    walks, length, _ = vectors.shape
    windows = length - context + 1
    out = torch.zeros_like(vectors)
    for begin in range(0, windows, _BLOCK):
        end = min(begin + _BLOCK, windows)
        starts, others = vectors[:, begin:end], vectors[:, begin + 1 : end + context - 1]
        after = torch.arange(others.shape[1], device=vectors.device)[None, :]
        after = after - torch.arange(end - begin, device=vectors.device)[:, None]
        inside = ((after >= 0) & (after < context - 1)).to(vectors.dtype)
        grad = (starts @ others.transpose(1, 2)).mul_(-sign).sigmoid_().mul_(-sign * inside)
        out[:, begin:end] += grad @ others
        out[:, begin + 1 : end + context - 1] += grad.transpose(1, 2) @ starts
    return out / (walks * windows * (context - 1))
