"""Places of nodes by random walks: nodes that meet on walks get similar vectors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.shared.clean import CleanGraph

_BLOCK = 20  # starts of windows that are compared at once


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
    """Gives a vector per node by skip-gram over uniform walks, one negative for each positive.

    A node of a walk and those up to `context - 1` steps after it are to have a large product, nodes
    of rows drawn at random a small one. Both roles of a node share one vector.

    Args:
        graph: Without loops; a node without neighbours stays where it is.
        channels: Width of the vectors.
        walk_length: Nodes of a walk.
        context: Nodes of a window.
        walks: Walks from each node in an epoch.
        epochs: Passes over all nodes.
        lr: Learning rate of Adam, over the rows that a batch touches.
        batch: Nodes whose walks make one step.
        seed: Of walks, negatives and first vectors.

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
    # The work is products of small dense blocks; a GPU does them in a tenth of the time.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = torch.from_numpy(rng.standard_normal((n, channels)).astype(np.float32))
    table = nn.Embedding(n, channels, sparse=True, _weight=start.to(device))
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=lr)
    for _ in range(epochs):
        order = rng.permutation(n)
        for begin in range(0, n, batch):
            roots = np.repeat(order[begin : begin + batch], walks)
            real = random_walks(graph, roots, walk_length, rng)
            drawn = rng.integers(0, n, real.shape)
            drawn[:, 0] = roots
            ids = torch.from_numpy(np.concatenate([real, drawn])).to(device)
            optimizer.zero_grad(set_to_none=True)
            found = table(ids)
            loss = window_loss(found[: len(real)], context, 1.0)
            loss = loss + window_loss(found[len(real) :], context, -1.0)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()  # type: ignore[no-untyped-call]
    vectors: Tensor = table.weight.detach().cpu()
    return vectors


def random_walks(
    graph: CleanGraph, roots: NDArray[np.int64], length: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Gives walks of `length` nodes, [walks, length], each step to a neighbour drawn uniformly.

    Example:
        >>> import dhilgt
        >>> edge = CleanGraph.of(dhilgt.Graph.from_edges([0], [1]), self_loops=False)
        >>> random_walks(edge, np.array([0]), 4, np.random.default_rng(0)).tolist()
        [[0, 1, 0, 1]]
    """
    out = np.empty((len(roots), length), np.int64)
    out[:, 0] = here = roots
    degrees = graph.degrees
    for step in range(1, length):
        degree = degrees[here]
        moving = np.flatnonzero(degree)
        there = here.copy()
        at = rng.integers(0, degree[moving])
        there[moving] = graph.targets[graph.offsets[here[moving]] + at]
        out[:, step] = here = there
    return out


def window_loss(vectors: Tensor, context: int, sign: float) -> Tensor:
    """Gives the mean of -log sigmoid(sign x product) over the pairs of all windows.

    A window is `context` nodes in a row; its pairs are the first node with each of the others.

    Args:
        vectors: Those of walks, [walks, length, d].
        context: Nodes of a window.
        sign: 1 for walks, -1 for random rows.

    Example:
        >>> window_loss(torch.zeros(1, 3, 4), 2, 1.0)  # log 2
        tensor(0.6931)
    """
    walks, length, _ = vectors.shape
    windows = length - context + 1
    total = vectors.new_zeros(())
    for begin in range(0, windows, _BLOCK):
        end = min(begin + _BLOCK, windows)
        starts = vectors[:, begin:end]
        others = vectors[:, begin + 1 : end + context - 1]
        products = starts @ others.transpose(1, 2)  # [walks, starts, others]
        after = torch.arange(others.shape[1], device=vectors.device)[None, :]
        after = after - torch.arange(end - begin, device=vectors.device)[:, None]
        inside = (after >= 0) & (after < context - 1)
        total = total - (functional.logsigmoid(sign * products) * inside).sum()
    return total / (walks * windows * (context - 1))
