"""What a node is connected to, as sparse rows: neighbours, hubs by distance, classes near it.

A node has a row per group of `EgoVocabulary`. Its own class is in none of them, so that a model
sees of a training node what it sees of any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.features.ego_vocabulary import (
    CLASSES,
    HUB_DISTANCES,
    HUBS,
    MOST_HUBS,
    MOST_NEIGHBORS,
    NEIGHBORS,
    EgoVocabulary,
    hub_entries,
)
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import IN, OUT, HubLabels

Rows = Any  # a SciPy CSR array; SciPy is imported where it is used


def ego_rows(
    vocabulary: EgoVocabulary,
    graph: Graph,
    labels: HubLabels | None = None,
    known: NDArray[np.int64] | None = None,
) -> Rows:
    """Return the rows of all nodes: row v * K + k is that of node v and group k of K.

    An entry of a row of neighbours or hubs is 1 / sqrt(number of entries of the row). A row of
    classes holds the fraction of each class among the training nodes one step away, or at the ends
    of all paths of two steps that do not return to the node; edges count in both directions.

    Args:
        vocabulary: The columns, for this graph; see `EgoVocabulary.carried_over`.
        graph: The graph.
        labels: Its hub labels, exact or grown; needed where hubs are inputs.
        known: The class of each training node, -1 for all others; needed where classes are inputs.

    Returns:
        A float32 matrix of shape (num_nodes * K, num_channels), columns ascending in every row.

    Example:
        >>> path = Graph.from_edges([0, 1, 2], [1, 2, 3])
        >>> vocabulary = EgoVocabulary.of(path, None, neighbors=True, num_classes=2)
        >>> rows = ego_rows(vocabulary, path, known=np.array([0, 1, -1, 1]))
        >>> vocabulary.groups, rows.shape
        (('neighbors', 'classes at 1', 'classes at 2'), (12, 6))
        >>> rows[[6, 7, 8], 4:].toarray().tolist()  # node 2: next to 1 and 3, two steps from 0
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    parts: list[Rows] = []
    kinds = {group.kind for group in vocabulary.kinds}
    sides = (OUT, IN) if vocabulary.directed else (OUT,)
    if NEIGHBORS in kinds:
        parts += [_neighbor_rows(vocabulary, graph, side) for side in sides]
    if HUBS in kinds:
        assert labels is not None, "hubs come from labels"
        for side in sides:
            parts += _hub_rows(vocabulary, labels, side)
    if CLASSES in kinds:
        assert known is not None, "classes as inputs are known ones"
        parts += class_fractions(graph, known, vocabulary.num_classes, vocabulary.first_class)
    return _interleaved(parts, graph.num_nodes, vocabulary.num_channels)


# ---- neighbours and hubs -------------------------------------------------------------------------


def _neighbor_rows(vocabulary: EgoVocabulary, graph: Graph, side: int) -> Rows:
    import scipy.sparse

    assert vocabulary.neighbors is not None, "one of the groups"
    offsets, targets = graph.offsets, graph.targets
    if side == IN:
        offsets, targets = graph.in_offsets, graph.in_targets
    columns = _columns_of_nodes(vocabulary.neighbors, graph.num_nodes)[targets]
    has_one = columns >= 0
    kept = np.zeros(len(targets) + 1, np.int64)  # entries before each place
    np.cumsum(has_one, out=kept[1:])
    columns = columns[has_one]
    rows = scipy.sparse.csr_array(
        (np.ones(len(columns), np.float32), columns, kept[offsets]),
        shape=(graph.num_nodes, len(vocabulary.neighbors)),
    )
    return _weighted(rows, MOST_NEIGHBORS, 0)


def _hub_rows(vocabulary: EgoVocabulary, labels: HubLabels, side: int) -> list[Rows]:
    """Return the rows of hubs at each distance."""
    import scipy.sparse

    assert vocabulary.hubs is not None, "one of the groups"
    entries = hub_entries(labels, side)
    columns = _columns_of_nodes(vocabulary.hubs, labels.num_nodes)[entries.hubs]
    parts = []
    for distance in HUB_DISTANCES:
        here = (entries.distances == distance) & (columns >= 0)
        rows = scipy.sparse.coo_array(
            (np.ones(np.count_nonzero(here), np.float32), (entries.nodes[here], columns[here])),
            shape=(labels.num_nodes, len(vocabulary.hubs)),
        ).tocsr()
        parts.append(_weighted(rows, MOST_HUBS, vocabulary.first_hub))
    return parts


def _columns_of_nodes(table: NDArray[np.int64], num_nodes: int) -> NDArray[np.int32]:
    """Return the place of each node in a table, -1 for nodes that are not in it."""
    columns = np.full(num_nodes, -1, np.int32)
    here = np.flatnonzero(table >= 0)
    columns[table[here]] = here
    return columns


def _weighted(rows: Rows, most: int, first_column: int) -> Rows:
    """Return rows with their first entries alone, the most frequent ones, scaled to length 1."""
    import scipy.sparse

    rows.sort_indices()  # columns are ranks
    offsets = rows.indptr.astype(np.int64)
    counts = np.diff(offsets)
    columns, few = rows.indices, np.minimum(counts, most)
    if (counts > most).any():
        place = np.arange(len(columns)) - np.repeat(offsets[:-1], counts)
        columns = columns[place < most]
    values = np.repeat((1 / np.sqrt(np.maximum(few, 1))).astype(np.float32), few)
    offsets = np.concatenate([[0], np.cumsum(few)])
    shape = (rows.shape[0], first_column + rows.shape[1])
    return scipy.sparse.csr_array((values, columns + first_column, offsets), shape=shape)


# ---- classes -------------------------------------------------------------------------------------


def class_fractions(
    graph: Graph, known: NDArray[np.int64], num_classes: int, first_column: int = 0
) -> list[Rows]:
    """Return the fractions of known classes around each node, one step away and two steps away.

    Args:
        graph: The graph.
        known: The class of each training node, -1 for all others.
        num_classes: Number of classes.
        first_column: The column of class 0.
    """
    import scipy.sparse

    count = graph.num_nodes
    joined = scipy.sparse.csr_array(
        (np.ones(len(graph.targets)), graph.targets, graph.offsets), shape=(count, count)
    )
    if graph.directed:
        joined = (joined + joined.T).tocsr()
        joined.data[:] = 1  # an edge in each direction is one neighbour
    nodes = np.flatnonzero(known >= 0)
    own = scipy.sparse.csr_array(
        (np.ones(len(nodes)), (nodes, known[nodes])), shape=(count, num_classes)
    )
    near = joined @ own
    returning = scipy.sparse.diags_array(np.diff(joined.indptr).astype(np.float64)) @ own
    return [_fractions(part, first_column) for part in (near, joined @ near - returning)]


def _fractions(counts: Rows, first_column: int) -> Rows:
    """Return counts divided by the sums of their rows."""
    import scipy.sparse

    counts = counts.tocsr()
    counts.eliminate_zeros()  # counts are whole numbers: what cancels is exactly 0
    counts.sort_indices()
    lengths = np.diff(counts.indptr)
    values = counts.data / np.repeat(counts.sum(axis=1), lengths)
    parts = values.astype(np.float32), counts.indices + first_column, counts.indptr
    shape = (counts.shape[0], first_column + counts.shape[1])
    return scipy.sparse.csr_array(parts, shape=shape)


# ---- one matrix ----------------------------------------------------------------------------------


def _interleaved(parts: list[Rows], num_nodes: int, num_channels: int) -> Rows:
    """Return the rows of all parts in one matrix, those of a node one after the other."""
    import scipy.sparse

    lengths = np.stack([np.diff(part.indptr) for part in parts], axis=1)  # (n, K)
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths.reshape(-1), out=offsets[1:])
    small = max(int(offsets[-1]), num_channels) < 2**31
    columns = np.empty(offsets[-1], np.int32 if small else np.int64)
    values = np.empty(offsets[-1], np.float32)
    for group in range(len(parts)):
        part = parts[group]
        starts = offsets[:-1].reshape(lengths.shape)[:, group] - part.indptr[:-1]
        places = np.repeat(starts, lengths[:, group]) + np.arange(part.nnz)
        columns[places], values[places] = part.indices, part.data
    shape = (num_nodes * lengths.shape[1], num_channels)
    offsets = offsets.astype(np.int32) if small else offsets
    return scipy.sparse.csr_array((values, columns, offsets), shape=shape)
