"""The size of the rows of neighbours, hubs and classes before they are made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhilgt.features.ego_vocabulary import (
    CLASS_STEPS,
    HUB_DISTANCES,
    MOST_HUBS,
    MOST_NEIGHBORS,
    EgoVocabulary,
)
from dhilgt.graph.graph import Graph

_ENTRY_BYTES = 8  # a column and a value
_LABEL_BYTES = 24  # per entry of the labels, while the near ones are picked out
_SECONDS_OF_ARC, _SECONDS_OF_LABEL_ENTRY = 3e-7, 1.5e-7


@dataclass(frozen=True)
class EgoEstimate:
    """What the rows of all nodes take at most.

    Attributes:
        num_channels: Columns, each with a learned vector.
        num_groups: Rows of a node.
        num_entries: Entries of all rows.
        num_bytes: Memory of the rows.
        peak_bytes: Memory while they are made.
        seconds: Time to make them, within a factor of 3.
        summary: The tables and the limits of the rows, in words.
    """

    num_channels: int
    num_groups: int
    num_entries: int
    num_bytes: int
    peak_bytes: int
    seconds: float
    summary: str


def estimate_ego_rows(
    graph: Graph,
    num_label_entries: int,
    *,
    neighbors: bool,
    hubs: bool,
    num_classes: int,
    table_rows: int,
) -> EgoEstimate:
    """Return bounds on the rows; exact for neighbours while all of them have a column.

    Args:
        graph: The graph.
        num_label_entries: Entries of its hub labels, as estimated.
        neighbors: As for `EgoVocabulary.of`.
        hubs: Likewise.
        num_classes: Likewise.
        table_rows: Likewise.

    Example:
        >>> star = Graph.from_edges([0, 0, 0], [1, 2, 3])
        >>> bounds = estimate_ego_rows(
        ...     star, 7, neighbors=True, hubs=True, num_classes=0, table_rows=100
        ... )
        >>> bounds.num_channels, bounds.num_groups, bounds.num_entries
        (8, 5, 9)
    """
    count = graph.num_nodes
    exact = EgoVocabulary.of(
        graph, None, neighbors=neighbors, num_classes=num_classes, table_rows=table_rows
    )
    sides = [graph.degrees, np.diff(graph.in_offsets)][: 1 + graph.directed]
    table = None
    entries = 0
    if neighbors:
        entries += sum(int(np.minimum(degrees, MOST_NEIGHBORS).sum()) for degrees in sides)
    if hubs:
        table = np.arange(min(table_rows, count if graph.num_edges else 0))
        at_most = len(sides) * len(HUB_DISTANCES) * MOST_HUBS * count
        entries += min(at_most, max(0, num_label_entries - len(sides) * count))
    if num_classes:
        entries += len(CLASS_STEPS) * count * num_classes
    whole = EgoVocabulary(
        exact.neighbors, table, num_classes, graph.directed, (exact.num_candidates[0], count)
    )
    groups = len(whole.groups)
    num_bytes = _ENTRY_BYTES * entries + 4 * count * groups
    read = num_label_entries if hubs else 0
    return EgoEstimate(
        num_channels=whole.num_channels,
        num_groups=groups if whole.num_channels else 0,
        num_entries=entries,
        num_bytes=num_bytes,
        peak_bytes=2 * num_bytes + _LABEL_BYTES * read,
        seconds=_SECONDS_OF_ARC * graph.num_edges + _SECONDS_OF_LABEL_ENTRY * read,
        summary=whole.summary(),
    )
