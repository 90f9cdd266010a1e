"""Rows of nodes around each node, and the exact distances inside them.

A row begins with its node, the ego; unused slots hold -1. Rows are drawn on the cleaned graph,
every edge in both directions; distances are those in the whole graph, answered by its hub labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.baselines.ansgt.proximity import page_ranks
from dhilgt.baselines.shared.message_graph import CleanGraph, rows_of
from dhilgt.errors import MemoryLimitError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import NodeIds
from dhilgt.labels.hub_labels import UNREACHABLE, HubLabels
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.tokens.spec import FAR, NO_PATH, PADDING
from dhilgt.utils.checks import choice
from dhilgt.utils.hashes import hashed
from dhilgt.utils.memory import available_bytes, format_bytes

SAMPLERS = ("hubs", "khop", "ppr")
"""How the nodes of a row are chosen."""

_RESTART = 0.15  # of PageRank
_EXACT_NODES = 4096  # up to so many nodes PageRank is computed for all pairs
_CANDIDATES = 64  # nodes of largest PageRank that are followed on larger graphs
_EGOS = 1 << 14  # rows that grow by a level at once
_STEPS = 1 << 21  # neighbours visited at once
_SPARE = 4  # neighbours sorted for each free slot of a level that does not fit
_PAIRS = 1 << 22  # distances asked for at once
_ROW_BYTES = 4  # at the peak, per pair of slots: distance, code and two masks
_MATRIX_BYTES = 14  # at the peak, per pair of nodes: three 32-bit numbers, distance and code
_BLOCK = 1 << 24  # entries of a dense block of PageRanks


def undirected_labels(graph: Graph) -> HubLabels:
    """Return the hub labels of the cleaned graph, with indices as ids."""
    if graph.directed:
        clean = CleanGraph.of(graph, self_loops=False)
        graph = Graph.from_edges(clean.sources(), clean.targets, num_nodes=graph.num_nodes)
    labels = HubLabels.build(graph, progress=False)
    return labels.with_ids(NodeIds(None, graph.num_nodes))


class EgoRows(NamedTuple):
    """A row per node.

    Attributes:
        ids: Nodes, [n, size] int32; the ego first, -1 = none.
        distances: Of all pairs of slots, [n, size, size] uint8; see `row_distances`.
    """

    ids: NDArray[np.int32]
    distances: NDArray[np.uint8]


def ego_rows(graph: Graph, sampler: str, size: int, seed: int) -> EgoRows:
    """Return the rows of all nodes.

    Args:
        graph: The graph.
        sampler: "hubs" for the token rows of DHIL-GT, "khop" for the nearest nodes, "ppr" for those
            of largest personalised PageRank.
        size: Slots of a row, the ego's included.
        seed: Seed of all draws.

    Raises:
        MemoryLimitError: If the distances do not fit in memory.

    Example:
        >>> rows = ego_rows(Graph.from_edges([0, 1, 2], [1, 2, 3]), "khop", 3, seed=0)
        >>> rows.ids[3].tolist(), rows.distances[3].tolist()
        ([3, 2, 1], [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    """
    choice("sampler", sampler, SAMPLERS)
    n = graph.num_nodes
    _refuse_too_large(_ROW_BYTES * n * size * size, f"distances inside {n:,} rows of {size} nodes")
    labels = undirected_labels(graph)
    if sampler == "hubs":
        tokens = TokenSampler(labels, size=size, seed=seed, progress=False)
        return EgoRows(*tokens.rows(np.arange(n)))
    if sampler == "khop":
        ids = nearest_rows(CleanGraph.of(graph, self_loops=False), size, seed)
    else:
        ids = page_rank_rows(CleanGraph.of(graph), size)
    return EgoRows(ids, row_distances(labels, ids))


def nearest_rows(graph: CleanGraph, size: int, seed: int) -> NDArray[np.int32]:
    """Return the nearest nodes of each node, in the order of distance, [n, size].

    Nodes at the same distance are in the order of random numbers that depend on (seed, ego, node).

    Args:
        graph: A graph without loops.
        size: Slots of a row.
        seed: Seed of these numbers.

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1, 2], [1, 2, 3]), self_loops=False)
        >>> nearest_rows(path, 3, seed=0).tolist()
        [[0, 1, 2], [1, 0, 2], [2, 1, 3], [3, 2, 1]]
    """
    n = graph.num_nodes
    ids = np.full((n, size), PADDING, np.int32)
    ids[:, 0] = np.arange(n)
    # Slots that are filled, and the first slot of the outermost level among them.
    filled, border = np.ones(n, np.int64), np.zeros(n, np.int64)
    growing = np.arange(n if size > 1 else 0)
    while growing.size:
        for egos in _pieces(graph, growing, ids, border):
            _add_level(graph, egos, ids, filled, border, seed)
        growing = growing[(filled[growing] > border[growing]) & (filled[growing] < size)]
    return ids


def _pieces(
    graph: CleanGraph, egos: NDArray[np.int64], ids: NDArray[np.int32], border: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Return groups of egos whose next levels visit about `_STEPS` neighbours each."""
    for at in range(0, len(egos), _EGOS):
        some = egos[at : at + _EGOS]
        nodes = _border_nodes(some, ids, border)
        visited = np.where(nodes >= 0, graph.degrees[nodes], 0).sum(1)
        yield from np.split(some, np.flatnonzero(np.diff(np.cumsum(visited) // _STEPS)) + 1)


def _border_nodes(
    egos: NDArray[np.int64], ids: NDArray[np.int32], border: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the outermost level of each row, [len(egos), size]; -1 in all other slots."""
    outer = np.arange(ids.shape[1]) >= border[egos][:, None]
    return np.where(outer, ids[egos], PADDING)


def _add_level(
    graph: CleanGraph,
    egos: NDArray[np.int64],
    ids: NDArray[np.int32],
    filled: NDArray[np.int64],
    border: NDArray[np.int64],
    seed: int,
) -> None:
    nodes = _border_nodes(egos, ids, border)
    row, slot = np.nonzero(nodes >= 0)
    starts, reached = rows_of(graph.offsets, graph.targets, nodes[row, slot].astype(np.int64))
    row = np.repeat(row, np.diff(starts))  # of each neighbour visited
    ties = hashed(_streams(seed, egos)[row] ^ reached.astype(np.uint64))
    free = ids.shape[1] - filled[egos]
    border[egos] = filled[egos]
    # Only the smallest numbers of a level that does not fit are wanted: a few times as many as
    # there are slots are sorted, and all of them where too few of these are new.
    share = _SPARE * free / np.maximum(np.bincount(row, minlength=len(egos)), 1)
    waiting = np.ones(len(egos), np.bool_)
    while waiting.any():
        limit = (np.minimum(share, 1) * 2.0**53).astype(np.uint64)
        few = np.flatnonzero(waiting[row] & (ties >> np.uint64(11) <= limit[row]))
        owner, node = _new_nodes(ids[egos], row[few], reached[few], ties[few])
        counts = np.bincount(owner, minlength=len(egos))
        done = waiting & ((counts >= free) | (share >= 1))
        place = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
        fits = done[owner] & (place < free[owner])
        ego = egos[owner[fits]]
        ids[ego, border[ego] + place[fits]] = node[fits]
        filled[egos[done]] += np.minimum(free, counts)[done]
        waiting &= ~done
        share = np.ones(len(egos))


def _new_nodes(
    known: NDArray[np.int32],
    row: NDArray[np.int64],
    node: NDArray[np.int64],
    ties: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and nodes in the order of (row, tie), each once and none that its row has."""
    order = np.lexsort((ties, row))
    row, node = row[order], node[order]
    new = np.ones(len(row), np.bool_)  # the same node has the same tie, so copies are adjacent
    new[1:] = (row[1:] != row[:-1]) | (node[1:] != node[:-1])
    row, node = row[new], node[new]
    new = (known[row] != node[:, None]).all(1)
    return row[new], node[new]


def _streams(seed: int, egos: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the start of the random numbers of each ego, chained as for token rows."""
    return hashed(hashed(np.array([seed], np.uint64)) ^ egos.astype(np.uint64))


def page_rank_rows(graph: CleanGraph, size: int) -> NDArray[np.int32]:
    """Return the nodes of largest personalised PageRank of each node, largest first, [n, size].

    Above 4,096 nodes the ranks are those of five steps in which every row keeps its largest ones.

    Args:
        graph: A graph with loops.
        size: Slots of a row.
    """
    n = graph.num_nodes
    table = page_ranks(
        graph.adjacency("symmetric"),
        restart=_RESTART,
        exact_nodes=_EXACT_NODES,
        candidates=max(_CANDIDATES, 2 * size),
    )
    out = np.full((n, size), PADDING, np.int32)
    out[:, 0] = np.arange(n)
    lengths = np.diff(table.offsets)
    width = max(1, int(lengths.max(initial=0)))
    step = max(1, _BLOCK // width)
    for at in range(0, n if size > 1 and len(table.values) else 0, step):
        rows = slice(at, at + step)
        inside = np.arange(width) < lengths[rows][:, None]
        places = np.where(inside, table.offsets[:-1][rows][:, None] + np.arange(width), 0)
        ranks = np.where(inside, table.values[places, 0], 0)
        best = np.argsort(-ranks, axis=1, kind="stable")[:, : size - 1]
        entries = np.take_along_axis(places, best, 1)
        nodes = (entries if table.keys is None else table.keys[entries]) % n
        nodes[np.take_along_axis(ranks, best, 1) <= 0] = PADDING
        out[rows, 1 : 1 + nodes.shape[1]] = nodes
    return out


# ---- distances ---------------------------------------------------------------------------------


def row_distances(labels: HubLabels, ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return the distances of all pairs of slots, [rows, size, size].

    0 to 253 are exact, 254 is 254 or more, 255 no path or a slot without a node.

    Args:
        labels: From `undirected_labels`.
        ids: Nodes, [rows, size]; -1 = none.
    """
    rows, size = ids.shape
    out = np.full((rows, size, size), NO_PATH, np.uint8)
    out[:, np.arange(size), np.arange(size)] = np.where(ids >= 0, 0, NO_PATH)
    first, second = np.tril_indices(size, -1)
    step = max(1, _PAIRS // max(1, len(first)))
    for at in range(0, rows, step):
        part = ids[at : at + step]
        row, pair = np.nonzero((part[:, first] >= 0) & (part[:, second] >= 0))
        i, j = first[pair], second[pair]
        found = _as_codes(labels.distances(part[row, i], part[row, j]))
        out[at + row, i, j] = found
        out[at + row, j, i] = found
    return out


def all_distances(labels: HubLabels) -> NDArray[np.uint8]:
    """Return the distances of all pairs of nodes, [n, n]; values as for `row_distances`."""
    n = labels.num_nodes
    _refuse_too_large(_MATRIX_BYTES * n * n, f"distances of all pairs of {n:,} nodes")
    return _as_codes(labels.distance_matrix(np.arange(n)))


def _as_codes(distances: NDArray[np.int32]) -> NDArray[np.uint8]:
    return np.where(distances == UNREACHABLE, NO_PATH, np.minimum(distances, FAR)).astype(np.uint8)


def _refuse_too_large(needed: int, what: str) -> None:
    free = available_bytes()
    if free is not None and needed > free:
        raise MemoryLimitError(
            f"the {what} take {format_bytes(needed)}, {format_bytes(free)} are free; choose a "
            "smaller size, or another sampler than full"
        )
