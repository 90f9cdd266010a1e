"""The graphs of nodes within one, two, four, ... steps of each other."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dhilgt.baselines.shared.message_graph import CleanGraph

_PATHS = 1 << 24  # paths of two steps that are followed at a time


def graphs_in_reach(graph: CleanGraph, orders: int, most_entries: int) -> list[CleanGraph]:
    """Return the graph and its repeated squares: an edge joins nodes within 1, 2, 4, ... steps.

    Args:
        graph: With one loop at each node.
        orders: How many graphs to return, at least one.
        most_entries: A square with more entries is left out, with all that follow it.

    Example:
        >>> import dhilgt
        >>> path = CleanGraph.of(dhilgt.Graph.from_edges([0, 1, 2], [1, 2, 3]))
        >>> [one.degrees.tolist() for one in graphs_in_reach(path, 3, 100)]
        [[2, 3, 3, 2], [3, 4, 4, 3], [4, 4, 4, 4]]
        >>> len(graphs_in_reach(path, 3, 13))
        1
    """
    found = [graph]
    while len(found) < orders:
        square = _square(found[-1], most_entries)
        if square is None:
            break
        found.append(square)
    return found


def _square(graph: CleanGraph, most_entries: int) -> CleanGraph | None:
    n = graph.num_nodes
    ones = np.ones(len(graph.targets), np.bool_)
    matrix = sparse.csr_matrix((ones, graph.targets, graph.offsets), shape=(n, n))
    # Rows are taken in parts, so that a square that is too large is given up early.
    paths = np.concatenate([[0], np.cumsum(graph.degrees[graph.targets])])[graph.offsets]
    offsets, targets, entries, row = [np.zeros(1, np.int64)], [], 0, 0
    while row < n:
        end = max(row + 1, int(np.searchsorted(paths, paths[row] + _PATHS, side="right")) - 1)
        part = matrix[row:end] @ matrix
        part.sort_indices()
        offsets.append(part.indptr[1:].astype(np.int64) + entries)
        targets.append(part.indices.astype(np.int64))
        entries, row = entries + part.nnz, end
        if entries > most_entries:
            return None
    return CleanGraph(np.concatenate(offsets), np.concatenate(targets))
