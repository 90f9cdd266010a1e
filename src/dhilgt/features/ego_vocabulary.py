"""The neighbours, hubs and classes that a model knows as inputs of a node: its columns by rank."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.features.known_classes import matched_nodes
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import IN, OUT, HubLabels
from dhilgt.labels.orders import node_order

MOST_NEIGHBORS = 512
"""Neighbours of a node that count, the most frequent ones first."""

MOST_HUBS = 64
"""Hubs of a node that count at each distance, the most frequent ones first."""

HUB_DISTANCES = (1, 2, 3, 4)
CLASS_STEPS = (1, 2)

NEIGHBORS, HUBS, CLASSES = ("neighbors", "hubs", "classes")
_SIDE_NAMES = {OUT: "out", IN: "in"}


class EgoGroup(NamedTuple):
    """One kind of entry in the rows of a node.

    Attributes:
        kind: "neighbors", "hubs" or "classes".
        distance: How far away they are.
        side: `OUT` or `IN` on a directed graph, None where edges have no direction.
    """

    kind: str
    distance: int
    side: int | None

    @property
    def name(self) -> str:
        """Its name, as in "hubs at distance 2" or "neighbors in"."""
        words = [self.kind]
        if self.kind == HUBS:
            words.append(f"at distance {self.distance}")
        if self.kind == CLASSES:
            words.append(f"at {self.distance}")
        if self.side is not None:
            words.append(_SIDE_NAMES[self.side])
        return " ".join(words)


@dataclass(frozen=True)
class EgoVocabulary:
    """The columns of the rows that `ego_rows` makes, for one graph.

    There is a column for each of the most frequent neighbours, then for each of the most frequent
    hubs, then for each class one step away and for each class two steps away. Nodes without a
    column are left out of the rows.

    Attributes:
        neighbors: Node index of each column of neighbours, -1 where this graph has no such node;
            None for a model that does not see them.
        hubs: Likewise for hubs.
        num_classes: Classes that have columns; 0 for a model that does not see them.
        directed: Whether rows tell outgoing from incoming.
        num_candidates: Distinct neighbours and distinct hubs that could have had a column.
        neighbor_weight: The value of a neighbour in a row: 1 / sqrt(mean degree), the same for all
            nodes, so that a sum over many neighbours is larger than one over few.

    Example:
        >>> star = Graph.from_edges([0, 0, 0], [1, 2, 3])
        >>> vocabulary = EgoVocabulary.of(star, None, neighbors=True, table_rows=2)
        >>> vocabulary.neighbors[:1].tolist(), vocabulary.num_channels, vocabulary.groups
        ([0], 2, ('neighbors',))
    """

    neighbors: NDArray[np.int64] | None
    hubs: NDArray[np.int64] | None
    num_classes: int
    directed: bool
    num_candidates: tuple[int, int] = (0, 0)
    neighbor_weight: float = 1.0

    @classmethod
    def of(
        cls,
        graph: Graph,
        labels: HubLabels | None,
        *,
        neighbors: bool = False,
        hubs: bool = False,
        num_classes: int = 0,
        table_rows: int = 65_536,
    ) -> EgoVocabulary:
        """Return the vocabulary of a graph that a model is to be trained on.

        Neighbours are ranked by how many nodes have them, hubs by how many labels hold them at a
        distance in `HUB_DISTANCES`; ties as in the order of the nodes. One that no row would hold
        has no column.

        Args:
            graph: The graph.
            labels: Its hub labels; needed for hubs alone.
            neighbors: Whether neighbours are inputs.
            hubs: Whether hubs are.
            num_classes: Number of classes, where classes of other nodes are inputs; else 0.
            table_rows: The most columns of neighbours, and the most of hubs.
        """
        near, far, counts = None, None, [0, 0]
        if neighbors:
            by_degree = node_order(graph, "degree")
            degrees = graph.degrees + np.diff(graph.in_offsets) if graph.directed else graph.degrees
            counts[0] = int(np.count_nonzero(degrees))
            near = by_degree[: min(counts[0], table_rows)].astype(np.int64)
        if hubs:
            assert labels is not None, "hubs come from labels"
            times = np.zeros(graph.num_nodes, np.int64)
            for side in _sides(graph.directed):
                times += np.bincount(hub_entries(labels, side).hubs, minlength=graph.num_nodes)
            counts[1] = int(np.count_nonzero(times))
            order = labels.order
            order = order[np.argsort(-times[order], kind="stable")]
            far = order[: min(counts[1], table_rows)]
        mean_degree = len(graph.targets) / max(1, graph.num_nodes)
        weight = 1 / math.sqrt(max(1.0, mean_degree))
        return cls(near, far, num_classes, graph.directed, (counts[0], counts[1]), weight)

    @property
    def num_channels(self) -> int:
        """Number of columns."""
        return self.first_class + len(CLASS_STEPS) * self.num_classes

    @property
    def first_hub(self) -> int:
        """Number of the first column of a hub."""
        return 0 if self.neighbors is None else len(self.neighbors)

    @property
    def first_class(self) -> int:
        """Number of the first column of a class."""
        return self.first_hub + (0 if self.hubs is None else len(self.hubs))

    @property
    def kinds(self) -> tuple[EgoGroup, ...]:
        """What each row of a node holds, in order."""
        sides = (OUT, IN) if self.directed else (None,)
        found = []
        if self.neighbors is not None:
            found += [EgoGroup(NEIGHBORS, 1, side) for side in sides]
        if self.hubs is not None:
            found += [EgoGroup(HUBS, away, side) for side in sides for away in HUB_DISTANCES]
        if self.num_classes:
            found += [EgoGroup(CLASSES, steps, None) for steps in CLASS_STEPS]
        return tuple(found)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the rows of a node, in order."""
        return tuple(group.name for group in self.kinds)

    @property
    def digest(self) -> str:
        """SHA-256 of the columns: a model fits those it was trained with alone."""
        digest = hashlib.sha256(f"dhilgt inputs 1 {self.groups} {self.num_classes}".encode())
        for table in (self.neighbors, self.hubs):
            if table is not None:
                digest.update(len(table).to_bytes(8, "little") + table.astype("<i8").tobytes())
        return digest.hexdigest()

    def carried_over(self, trained: Graph, other: Graph) -> EgoVocabulary:
        """Return the same columns for another graph, whose nodes are matched by id.

        Args:
            trained: The graph of this vocabulary.
            other: The graph to predict on; see `matched_nodes` for which of its nodes are the same.
        """
        near, far = (
            None if table is None else matched_nodes(trained, other, table)
            for table in (self.neighbors, self.hubs)
        )
        return replace(self, neighbors=near, hubs=far)

    def summary(self) -> str:
        """Return how many neighbours and hubs have a column, and what is left out of rows."""
        parts, limits = [], []
        tables = ((self.neighbors, "neighbours", ""), (self.hubs, "hubs", " per distance"))
        caps = (MOST_NEIGHBORS, MOST_HUBS)
        for (table, name, per), count, most in zip(tables, self.num_candidates, caps, strict=True):
            if table is not None:
                of_all = f" of {count:,}" if len(table) < count else ""
                parts.append(f"{len(table):,}{of_all} {name}")
                limits.append(f"{most} {name}{per}")
        if self.num_classes:
            parts.append(f"{self.num_classes:,} classes of training nodes")
        kept = f"; of each node at most {' and '.join(limits)}, the most frequent" if limits else ""
        return f"a learned vector for {', '.join(parts)}{kept}"


class HubEntries(NamedTuple):
    """Label entries at a distance in `HUB_DISTANCES`.

    Attributes:
        nodes: Node index of each entry.
        hubs: Index of the hub.
        distances: Their distance.
    """

    nodes: NDArray[np.int32]
    hubs: NDArray[np.int32]
    distances: NDArray[np.uint8]


def hub_entries(labels: HubLabels, side: int) -> HubEntries:
    """Return the near entries of all labels.

    Args:
        labels: Of the graph.
        side: `OUT` for hubs that nodes reach, `IN` for hubs that reach them.
    """
    offsets, ranks, distances = labels.native.flat_arrays(side)
    near = (distances >= HUB_DISTANCES[0]) & (distances <= HUB_DISTANCES[-1])
    order = labels.order.astype(np.int32)
    holders = np.repeat(order, np.diff(offsets))
    return HubEntries(holders[near], order[ranks[near]], distances[near].astype(np.uint8))


def _sides(directed: bool) -> tuple[int, ...]:
    return (OUT, IN) if directed else (OUT,)
