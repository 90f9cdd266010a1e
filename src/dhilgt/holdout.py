"""Nodes held out of training, each class by its share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)


def stratified_holdout(
    classes: NDArray[np.int64], nodes: NDArray[np.int64], share: float, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gives the nodes to keep and those to hold out, both ascending.

    About ``share`` of the nodes are held out, in every class as near to that share as whole nodes
    allow. A class of two nodes or more has at least one on each side, a class of one is kept. Who
    is held out depends on the seed and the numbers of the nodes alone: it is the same on every
    platform, and for the same nodes in any order.

    Args:
        classes: Class of every node of the graph.
        nodes: Nodes to choose from, all of them with a class.
        share: Above 0 and below 1.
        seed: Another seed holds out others.

    Example:
        >>> classes = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
        >>> kept, held = stratified_holdout(classes, np.arange(9), 0.25)
        >>> classes[held].tolist(), len(kept)
        ([0, 1], 7)
    """
    known, member = np.unique(classes[nodes], return_inverse=True)
    sizes = np.bincount(member, minlength=len(known))
    quotas = _quotas(sizes, share)
    # Within a class by a drawn key; a key can occur twice, a node cannot.
    order = np.lexsort((nodes, _keys(nodes, seed), member))
    firsts = np.cumsum(sizes) - sizes
    place = np.arange(len(nodes)) - np.repeat(firsts, sizes)  # place of each within its class
    taken = place < np.repeat(quotas, sizes)
    return np.sort(nodes[order[~taken]]), np.sort(nodes[order[taken]])


def _quotas(sizes: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Gives how many of each class are held out: whole numbers nearest to their shares."""
    exact = sizes * share
    quotas = np.floor(exact).astype(np.int64)
    missing = round(share * int(sizes.sum())) - int(quotas.sum())
    largest_remainders = np.argsort(-(exact - quotas), kind="stable")
    quotas[largest_remainders[: max(0, missing)]] += 1
    limited: NDArray[np.int64] = np.clip(quotas, np.minimum(sizes - 1, 1), np.maximum(sizes - 1, 0))
    return limited


def _keys(nodes: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Gives a drawn number per node: splitmix64, exact in 64-bit integers everywhere."""
    with np.errstate(over="ignore"):
        start = _mixed(np.asarray([seed], np.uint64) + _STEP)
        return _mixed(start + (nodes.astype(np.uint64) + np.uint64(1)) * _STEP)


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
