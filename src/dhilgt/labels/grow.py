"""Labels of a graph that has grown: old nodes keep their labels, new nodes get theirs."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native, errors
from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find, plain_value
from dhilgt.labels.hub_labels import IN, OUT, HubLabels
from dhilgt.labels.orders import BY_ID, node_order
from dhilgt.labels.packed import PackedLabelRows, empty_rows, joined, only_rows, pack_rows
from dhilgt.utils.checks import num_threads
from dhilgt.utils.memory import UNLIMITED

_BATCH_ENTRIES = 4_000_000  # candidates checked at a time: bounds the memory beyond the labels

# Entries of one label in one integer each: the hub's rank in the high bits, its distance below.
Row = NDArray[np.int64]


def quick_labels(
    labels: HubLabels, graph: Graph, grown: Graph, *, threads: int | None = None
) -> HubLabels:
    """Return labels of a grown graph without building them again.

    Old nodes keep their labels and their ranks. New nodes come last in rank (by degree, ties as in
    the order of the labels) and get the hubs of their neighbours one step further, except those
    that a better ranked hub makes redundant. Distances from these labels are the lengths of the
    shortest paths that visit old nodes in a single run, over old edges: never too short, and exact
    for every pair where no new path between two old nodes is shorter than the old ones.
    `HubLabels.build` considers every path. Labels with a radius keep it: new nodes get the hubs
    within it.

    Args:
        labels: The labels of `graph`.
        graph: The graph before.
        grown: The graph after: all nodes and edges of `graph`, and more. Nodes are matched by id.
        threads: Threads to use; None for every core.

    Returns:
        Labels of all nodes of `grown`, with `exact` False; `labels` itself if nothing is new.

    Raises:
        GraphError: If `labels` are of another graph, or `grown` lacks nodes or edges of `graph`.

    Warns:
        GraphWarning: If there are new edges between old nodes, which are ignored.

    Example:
        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
        >>> labels = HubLabels.build(graph, progress=False)
        >>> more = quick_labels(labels, graph, Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4]))
        >>> more.distance(0, 4), more.exact
        (4, False)
    """
    workers = num_threads(threads)
    old_indices = _old_indices(labels, graph, grown)
    _check_edges(graph, grown, old_indices)
    if grown.fingerprint == graph.fingerprint:
        return labels
    order = _grown_order(labels, grown, old_indices)
    sides = (IN, OUT) if labels.directed else (IN,)
    old = labels.native
    rows = {side: PackedLabelRows(*old.pack(side, workers)) for side in sides}
    growth = _Growth(old, rows, grown, order, workers, labels.radius)
    growth.run()
    packed = {side: joined(rows[side], growth.packed(side)) for side in sides}
    native = _native.labels_from_packed(
        labels.directed, grown.num_nodes, tuple(array for side in sides for array in packed[side])
    ).unpack(workers, UNLIMITED)
    return HubLabels(
        native,
        order,
        grown.ids,
        grown.fingerprint,
        (native.num_entries, native.max_distance),
        order_name=labels.order_name,
        radius=labels.radius,
        grown_from=labels.fingerprint,
    )


# ---- the change of the graph ---------------------------------------------------------------------


def _old_indices(labels: HubLabels, graph: Graph, grown: Graph) -> NDArray[np.int64]:
    """Return the index in the grown graph of every old node; ascending, as ids are in both."""
    if labels.graph_fingerprint != graph.fingerprint:
        raise GraphError(
            f"the labels ({labels.num_nodes:,} nodes) are not of the graph given as the old one "
            f"({graph.num_nodes:,} nodes); pass the graph they were made from"
        )
    if graph.directed != grown.directed:
        kinds = ["undirected", "directed"]
        raise GraphError(
            f"the old graph is {kinds[graph.directed]}, the grown one {kinds[grown.directed]}; "
            "make both alike"
        )
    if graph.ids.are_text != grown.ids.are_text:
        kinds = ["integers", "strings"]
        raise GraphError(
            f"ids of the old graph are {kinds[graph.ids.are_text]}, those of the grown one "
            f"{kinds[grown.ids.are_text]}; nodes are matched by id, so make both alike"
        )
    indices = find(grown.node_ids, grown.num_nodes, graph.nodes)
    missing = np.flatnonzero(indices < 0)
    if missing.size:
        raise GraphError(
            f"{missing.size:,} of {graph.num_nodes:,} old nodes are not in the grown graph, such "
            f"as {plain_value(graph.nodes[missing[0]])!r}; labels cannot shrink: "
            "use HubLabels.build(grown)"
        )
    return indices


def _check_edges(graph: Graph, grown: Graph, old_indices: NDArray[np.int64]) -> None:
    """Raise an error for missing edges, and warn of new ones between old nodes."""
    is_old = np.zeros(grown.num_nodes, bool)
    is_old[old_indices] = True
    ends = grown.to_edge_index()
    after = _arc_keys(ends[:, is_old[ends[0]] & is_old[ends[1]]], grown.num_nodes)
    before = _arc_keys(old_indices[graph.to_edge_index()], grown.num_nodes)
    if np.array_equal(before, after):  # both ascend
        return
    arcs_per_edge = 1 if graph.directed else 2
    missing = np.setdiff1d(before, after, assume_unique=True)
    if missing.size:
        pair = grown.ids_of(np.array(divmod(int(missing[0]), grown.num_nodes))).tolist()
        raise GraphError(
            f"{missing.size // arcs_per_edge:,} old edges are not in the grown graph, such as "
            f"{pair[0]!r} - {pair[1]!r}; labels cannot shrink: use HubLabels.build(grown)"
        )
    num_ignored = (len(after) - len(before)) // arcs_per_edge
    errors.warn(
        f"{num_ignored:,} new edges join two old nodes; quick labels ignore them, so some "
        "distances may be too long: HubLabels.build(grown) gives exact ones"
    )


def _arc_keys(ends: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = ends[0] * num_nodes + ends[1]
    return keys


def _grown_order(
    labels: HubLabels, grown: Graph, old_indices: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return indices from most to least important: old nodes as before, then new ones by degree."""
    # Labels of earlier versions do not name their order: its ties were broken by id.
    by_id = labels.order_name is None or labels.order_name.endswith(BY_ID)
    by_degree = node_order(grown, f"degree{BY_ID}" if by_id else "degree")
    is_new = np.ones(grown.num_nodes, bool)
    is_new[old_indices] = False
    new = by_degree[is_new[by_degree]]
    return np.concatenate([old_indices[labels.order], new]).astype(np.uint32)


# ---- the labels of new nodes ---------------------------------------------------------------------


class _Neighbors:
    """Neighbours of the new nodes in one direction: ranks of old ones, numbers of new ones."""

    def __init__(
        self,
        offsets: NDArray[np.int64],
        targets: NDArray[np.int32],
        order: NDArray[np.uint32],
        num_old: int,
    ) -> None:
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        self.old: list[NDArray[np.int64]] = []
        self.new: list[NDArray[np.int64]] = []
        for node in order[num_old:].tolist():
            neighbors = ranks[targets[offsets[node] : offsets[node + 1]]]
            self.old.append(neighbors[neighbors < num_old])
            self.new.append(neighbors[neighbors >= num_old] - num_old)


class _Candidates(NamedTuple):
    """A row of a new node with every possible entry, and those of its entries to be checked."""

    node: int
    row: Row
    entries: Row


class _Growth:
    """The rows of new nodes during the search, by side; new node x has the rank num_old + x."""

    def __init__(
        self,
        old: _native.Labels,
        packed: dict[int, PackedLabelRows],
        grown: Graph,
        order: NDArray[np.uint32],
        workers: int,
        radius: int | None,
    ) -> None:
        self._old, self._packed, self._workers = old, packed, workers
        self._num_old, self._num_new = old.num_nodes, len(order) - old.num_nodes
        self._bits = len(order).bit_length()  # of a distance; see `Row`
        self._radius = radius
        self._neighbors = {OUT: _Neighbors(grown.offsets, grown.targets, order, self._num_old)}
        self._neighbors[IN] = self._neighbors[OUT]
        if old.directed:
            self._neighbors[IN] = _Neighbors(
                grown.in_offsets, grown.in_targets, order, self._num_old
            )
        self_entries = np.arange(self._num_old, len(order)) << self._bits
        self._rows: dict[int, list[Row]] = {
            side: [self_entries[x : x + 1] for x in range(self._num_new)] for side in packed
        }

    def run(self) -> None:
        """Search all rows: first through old neighbours, then through new ones until none changes.

        Hubs that a better ranked one makes redundant are dropped during the search: every path
        that they could still shorten, the better one shortens as well. For a new node as hub one
        check is enough: it reaches a row in the round of its distance, and the hub that makes it
        redundant is nearer to both ends, so it came earlier. An old hub can become redundant later,
        so rows that new neighbours extended are checked again at the end.
        """
        new_nodes = range(self._num_new)
        added: dict[int, dict[int, Row]] = {}  # by side and node: entries not yet passed on
        for side, rows in self._rows.items():
            for x, kept in self._needed(side, (self._through_old(side, x) for x in new_nodes)):
                rows[x] = kept
            added[side] = dict(enumerate(rows))
        extended: dict[int, set[int]] = {side: set() for side in self._rows}
        while any(added.values()):
            added = {side: self._pass_on(side, entries) for side, entries in added.items()}
            for side, entries in added.items():
                extended[side].update(entries)
        for side, rows in self._rows.items():
            again = (_Candidates(x, rows[x], rows[x]) for x in sorted(extended[side]))
            for x, kept in self._needed(side, again):
                rows[x] = kept

    def packed(self, side: int) -> PackedLabelRows:
        """Return the finished rows."""
        return self._pack(dict(enumerate(self._rows[side])))

    def _through_old(self, side: int, x: int) -> _Candidates:
        neighbors = self._neighbors[side].old[x].tolist()
        row = self._merged([self._rows[side][x], *(self._old_row(side, u) + 1 for u in neighbors)])
        return _Candidates(x, row, row)

    def _old_row(self, side: int, rank: int) -> Row:
        hubs, distances = self._old.label(rank, side)
        return hubs.astype(np.int64) << self._bits | distances

    def _pass_on(self, side: int, entries: dict[int, Row]) -> dict[int, Row]:
        """Pass entries of new nodes on to their new neighbours; return what that adds to these."""
        rows = self._rows[side]
        added = {}
        for x, kept in self._needed(side, self._through_new(side, entries)):
            if kept.size:
                rows[x] = self._merged([rows[x], kept])
                added[x] = kept
        return added

    def _through_new(self, side: int, entries: dict[int, Row]) -> Iterator[_Candidates]:
        for x, neighbors in enumerate(self._neighbors[side].new):
            received = [entries[y] + 1 for y in neighbors.tolist() if y in entries]
            if not received:
                continue
            row = self._rows[side][x]
            offered = self._merged(received)
            # Only better ranked nodes can be hubs of x; of the others, x is a hub.
            offered = offered[: np.searchsorted(offered, (self._num_old + x) << self._bits)]
            # Never past the end: the self entry of x comes last and is larger than all offered.
            at = np.searchsorted(row, offered >> self._bits << self._bits)
            nearer = (row[at] >> self._bits != offered >> self._bits) | (row[at] > offered)
            if nearer.any():
                yield _Candidates(x, self._merged([row, offered[nearer]]), offered[nearer])

    def _merged(self, rows: list[Row]) -> Row:
        """Return the entries of all rows by hub, of each hub the nearest, up to the radius."""
        entries = np.sort(np.concatenate(rows))
        if self._radius is not None:
            entries = entries[entries & (1 << self._bits) - 1 <= self._radius]
        hubs = entries >> self._bits
        nearest = np.ones(len(entries), bool)
        nearest[1:] = hubs[1:] != hubs[:-1]
        return entries[nearest]

    def _needed(self, side: int, candidates: Iterable[_Candidates]) -> Iterator[tuple[int, Row]]:
        """Yield each node with those of its entries that are needed."""
        batch: list[_Candidates] = []
        size = 0
        for item in candidates:
            batch.append(item)
            size += len(item.row)
            if size >= _BATCH_ENTRIES:
                yield from self._needed_of_batch(side, batch)
                batch, size = [], 0
        if batch:
            yield from self._needed_of_batch(side, batch)

    def _needed_of_batch(self, side: int, batch: list[_Candidates]) -> Iterator[tuple[int, Row]]:
        """Keep an entry exactly if its hub is the best ranked one on any shortest path to it."""
        ends = np.cumsum([len(item.entries) for item in batch])
        hubs = (np.concatenate([item.entries for item in batch]) >> self._bits).astype(np.uint32)
        nodes = np.array([item.node + self._num_old for item in batch], np.uint32)
        holders = np.repeat(nodes, np.diff(ends, prepend=0))
        labels = self._query_labels(side, batch, hubs)
        _, best = labels.pairs(holders, hubs, True, self._workers, None)
        for item, keep in zip(batch, np.split(best == hubs, ends[:-1]), strict=True):
            yield item.node, item.entries[keep]

    def _query_labels(
        self, side: int, batch: list[_Candidates], hubs: NDArray[np.uint32]
    ) -> _native.Labels:
        """Return labels for queries from the batch to its hubs: only their rows are filled."""
        other = IN + OUT - side if self._old.directed else side
        is_hub = np.zeros(self._num_old + self._num_new, bool)
        is_hub[hubs] = True
        new_hubs = np.flatnonzero(is_hub[self._num_old :]).tolist()
        targets = joined(
            only_rows(self._packed[other], is_hub[: self._num_old]),
            self._pack({x: self._rows[other][x] for x in new_hubs}),
        )
        sources = joined(
            empty_rows(self._num_old), self._pack({item.node: item.row for item in batch})
        )
        # Two sides even if undirected: the rows of sources and of targets differ.
        return _native.labels_from_packed(True, len(is_hub), (*targets, *sources)).unpack(
            self._workers, UNLIMITED
        )

    def _pack(self, rows: dict[int, Row]) -> PackedLabelRows:
        """Pack rows of new nodes, passed in ascending order; all others are empty."""
        lengths = np.zeros(self._num_new, np.int64)
        nearest_first = [np.empty(0, np.int64)]
        for x, row in rows.items():
            # Distance above hub; the self entry, alone at distance 0, comes first and is left out.
            by_distance = np.sort((row & (1 << self._bits) - 1) << 32 | row >> self._bits)[1:]
            nearest_first.append(by_distance)
            lengths[x] = len(by_distance)
        entries = np.concatenate(nearest_first)
        return pack_rows(lengths, entries & 0xFFFFFFFF, entries >> 32)
