"""Labels of a graph that has grown: the old labels stay, only new nodes are labelled."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native, errors
from dhilgt.errors import GraphError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find, plain_value
from dhilgt.labels.hub_labels import IN, OUT, HubLabels
from dhilgt.labels.packed import PackedLabelRows, empty_rows, joined, only_rows, pack_rows
from dhilgt.utils.checks import num_threads
from dhilgt.utils.memory import UNLIMITED

_BATCH_ENTRIES = 4_000_000  # candidates judged at a time: bounds the memory beyond the labels

Row = NDArray[np.int64]  # entries of one label, each a hub's rank above the bits of its distance


def quick_labels(
    labels: HubLabels, graph: Graph, grown: Graph, *, threads: int | None = None
) -> HubLabels:
    """Gives labels of a grown graph without labelling it again.

    Old nodes keep their labels and their ranks. New nodes come last in rank (by degree, then by
    index), and get the hubs of their neighbours one step further, less those that a better hub
    makes needless. Distances from these labels are the lengths of the shortest paths that visit old
    nodes in a single run, over old edges: never too short, and exact for every pair where no new
    path between two old nodes is shorter than the old ones were. `HubLabels.build` sees every path.

    Args:
        labels: The labels of `graph`.
        graph: The graph before.
        grown: The graph after: all nodes and edges of `graph`, and more. Nodes are matched by id.
        threads: Threads to use; None for every core.

    Returns:
        Labels of all nodes of `grown`, with `exact` False; `labels` itself if nothing is new.

    Raises:
        GraphError: If `labels` are of another graph, or nodes or edges of `graph` are gone.

    Warns:
        GraphWarning: If there are new edges between old nodes, which are not seen.

    Example:
        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
        >>> labels = HubLabels.build(graph, progress=False)
        >>> more = quick_labels(labels, graph, Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4]))
        >>> more.distance(0, 4), more.exact
        (4, False)
    """
    workers = num_threads(threads)
    at = _old_indices(labels, graph, grown)
    _check_edges(graph, grown, at)
    if grown.fingerprint == graph.fingerprint:
        return labels
    order = _grown_order(labels, grown, at)
    sides = (IN, OUT) if labels.directed else (IN,)
    old = labels.native
    rows = {side: PackedLabelRows(*old.pack(side, workers)) for side in sides}
    growth = _Growth(old, rows, grown, order, workers)
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
        grown_from=labels.fingerprint,
    )


# ---- what has changed ----------------------------------------------------------------------------


def _old_indices(labels: HubLabels, graph: Graph, grown: Graph) -> NDArray[np.int64]:
    """Gives the index in the grown graph of every old node; ascending, as ids are in both."""
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
    at = find(grown.node_ids, grown.num_nodes, graph.nodes)
    gone = np.flatnonzero(at < 0)
    if gone.size:
        raise GraphError(
            f"{gone.size:,} of {graph.num_nodes:,} old nodes are not in the grown graph, such as "
            f"{plain_value(graph.nodes[gone[0]])!r}; labels cannot shrink: "
            "use HubLabels.build(grown)"
        )
    return at


def _check_edges(graph: Graph, grown: Graph, at: NDArray[np.int64]) -> None:
    """Refuses edges that are gone, and tells of new ones between old nodes."""
    is_old = np.zeros(grown.num_nodes, bool)
    is_old[at] = True
    ends = grown.to_edge_index()
    after = _arc_keys(ends[:, is_old[ends[0]] & is_old[ends[1]]], grown.num_nodes)
    before = _arc_keys(at[graph.to_edge_index()], grown.num_nodes)
    if np.array_equal(before, after):  # both ascend
        return
    arcs_an_edge = 1 if graph.directed else 2
    gone = np.setdiff1d(before, after, assume_unique=True)
    if gone.size:
        pair = grown.ids_of(np.array(divmod(int(gone[0]), grown.num_nodes))).tolist()
        raise GraphError(
            f"{gone.size // arcs_an_edge:,} old edges are not in the grown graph, such as "
            f"{pair[0]!r} - {pair[1]!r}; labels cannot shrink: use HubLabels.build(grown)"
        )
    unseen = (len(after) - len(before)) // arcs_an_edge
    errors.warn(
        f"{unseen:,} new edges join two old nodes; quick labels do not see them, so some "
        "distances may be too long: HubLabels.build(grown) gives exact ones"
    )


def _arc_keys(ends: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = ends[0] * num_nodes + ends[1]
    return keys


def _grown_order(labels: HubLabels, grown: Graph, at: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Gives indices from most to least important: old ones as they were, then new by degree."""
    degrees = grown.degrees + (np.diff(grown.in_offsets) if grown.directed else 0)
    is_new = np.ones(grown.num_nodes, bool)
    is_new[at] = False
    new = np.flatnonzero(is_new)
    new = new[np.argsort(-degrees[new], kind="stable")]
    return np.concatenate([at[labels.order], new]).astype(np.uint32)


# ---- the labels of new nodes ---------------------------------------------------------------------


class _Arcs:
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
            found = ranks[targets[offsets[node] : offsets[node + 1]]]
            self.old.append(found[found < num_old])
            self.new.append(found[found >= num_old] - num_old)


class _Case(NamedTuple):
    """A row of a new node with all that may be in it, and the entries of it to be judged."""

    node: int
    row: Row
    entries: Row


class _Growth:
    """The rows of new nodes while they are found, by side; new node x has the rank num_old + x."""

    def __init__(
        self,
        old: _native.Labels,
        packed: dict[int, PackedLabelRows],
        grown: Graph,
        order: NDArray[np.uint32],
        workers: int,
    ) -> None:
        self._old, self._packed, self._workers = old, packed, workers
        self._num_old, self._num_new = old.num_nodes, len(order) - old.num_nodes
        self._bits = len(order).bit_length()  # of a distance; the hub's rank stands above
        self._arcs = {OUT: _Arcs(grown.offsets, grown.targets, order, self._num_old)}
        self._arcs[IN] = self._arcs[OUT]
        if old.directed:
            self._arcs[IN] = _Arcs(grown.in_offsets, grown.in_targets, order, self._num_old)
        itself = np.arange(self._num_old, len(order)) << self._bits
        self._rows: dict[int, list[Row]] = {
            side: [itself[x : x + 1] for x in range(self._num_new)] for side in packed
        }

    def run(self) -> None:
        """Finds all rows: first through old neighbours, then through new ones until all is quiet.

        Hubs that a better one makes needless are dropped on the way: what they would still bring to
        others, the better one brings as well. Of new nodes as hubs this is settled at once: one
        comes to a row in the round of its distance, and what makes it needless is nearer to both
        ends, so came before. An old hub can become needless later: rows that new neighbours added
        to are looked through again at the end.
        """
        everyone = range(self._num_new)
        fresh: dict[int, dict[int, Row]] = {}  # by side and node: entries no neighbour has heard of
        for side, rows in self._rows.items():
            for x, kept in self._needed(side, (self._through_old(side, x) for x in everyone)):
                rows[x] = kept
            fresh[side] = dict(enumerate(rows))
        touched: dict[int, set[int]] = {side: set() for side in self._rows}
        while any(fresh.values()):
            fresh = {side: self._spread(side, told) for side, told in fresh.items()}
            for side, told in fresh.items():
                touched[side].update(told)
        for side, rows in self._rows.items():
            again = (_Case(x, rows[x], rows[x]) for x in sorted(touched[side]))
            for x, kept in self._needed(side, again):
                rows[x] = kept

    def packed(self, side: int) -> PackedLabelRows:
        """Gives the rows found."""
        return self._pack(dict(enumerate(self._rows[side])))

    def _through_old(self, side: int, x: int) -> _Case:
        neighbors = self._arcs[side].old[x].tolist()
        row = self._merged([self._rows[side][x], *(self._old_row(side, u) + 1 for u in neighbors)])
        return _Case(x, row, row)

    def _old_row(self, side: int, rank: int) -> Row:
        hubs, distances = self._old.label(rank, side)
        return hubs.astype(np.int64) << self._bits | distances

    def _spread(self, side: int, told: dict[int, Row]) -> dict[int, Row]:
        """Lets nodes hear what is new at their new neighbours; gives what that adds to them."""
        rows = self._rows[side]
        added = {}
        for x, kept in self._needed(side, self._heard(side, told)):
            if kept.size:
                rows[x] = self._merged([rows[x], kept])
                added[x] = kept
        return added

    def _heard(self, side: int, told: dict[int, Row]) -> Iterator[_Case]:
        for x, neighbors in enumerate(self._arcs[side].new):
            news = [told[y] + 1 for y in neighbors.tolist() if y in told]
            if not news:
                continue
            row = self._rows[side][x]
            heard = self._merged(news)
            # Only better ranked nodes can be hubs: others have this node as theirs.
            heard = heard[: np.searchsorted(heard, (self._num_old + x) << self._bits)]
            at = np.searchsorted(
                row, heard >> self._bits << self._bits
            )  # the row's own entry ends it
            nearer = (row[at] >> self._bits != heard >> self._bits) | (row[at] > heard)
            if nearer.any():
                yield _Case(x, self._merged([row, heard[nearer]]), heard[nearer])

    def _merged(self, rows: list[Row]) -> Row:
        """Gives the entries of all rows by hub, of each hub the nearest."""
        entries = np.sort(np.concatenate(rows))
        hubs = entries >> self._bits
        nearest = np.ones(len(entries), bool)
        nearest[1:] = hubs[1:] != hubs[:-1]
        return entries[nearest]

    def _needed(self, side: int, cases: Iterable[_Case]) -> Iterator[tuple[int, Row]]:
        """Gives (node, entries that are needed) of each case."""
        batch: list[_Case] = []
        size = 0
        for case in cases:
            batch.append(case)
            size += len(case.row)
            if size >= _BATCH_ENTRIES:
                yield from self._judged(side, batch)
                batch, size = [], 0
        if batch:
            yield from self._judged(side, batch)

    def _judged(self, side: int, batch: list[_Case]) -> Iterator[tuple[int, Row]]:
        """An entry is needed exactly if its hub is the best ranked one that gives its distance."""
        ends = np.cumsum([len(case.entries) for case in batch])
        hubs = (np.concatenate([case.entries for case in batch]) >> self._bits).astype(np.uint32)
        nodes = np.array([case.node + self._num_old for case in batch], np.uint32)
        holders = np.repeat(nodes, np.diff(ends, prepend=0))
        asked = self._labels_to_ask(side, batch, hubs)
        _, best = asked.pairs(holders, hubs, True, self._workers, None)
        for case, keep in zip(batch, np.split(best == hubs, ends[:-1]), strict=True):
            yield case.node, case.entries[keep]

    def _labels_to_ask(
        self, side: int, batch: list[_Case], hubs: NDArray[np.uint32]
    ) -> _native.Labels:
        """Gives labels that answer from the batch to its hubs: only their rows are filled."""
        other = IN + OUT - side if self._old.directed else side
        wanted = np.zeros(self._num_old + self._num_new, bool)
        wanted[hubs] = True
        new_hubs = np.flatnonzero(wanted[self._num_old :]).tolist()
        targets = joined(
            only_rows(self._packed[other], wanted[: self._num_old]),
            self._pack({x: self._rows[other][x] for x in new_hubs}),
        )
        sources = joined(
            empty_rows(self._num_old), self._pack({case.node: case.row for case in batch})
        )
        # Two sides even if undirected: the rows that ask and those that answer differ.
        return _native.labels_from_packed(True, len(wanted), (*targets, *sources)).unpack(
            self._workers, UNLIMITED
        )

    def _pack(self, rows: dict[int, Row]) -> PackedLabelRows:
        """Packs rows of new nodes, given in ascending order; all others are empty."""
        lengths = np.zeros(self._num_new, np.int64)
        nearest_first = [np.empty(0, np.int64)]
        for x, row in rows.items():
            # Distance above hub; the self entry, alone at distance 0, comes first and is left out.
            turned = np.sort((row & (1 << self._bits) - 1) << 32 | row >> self._bits)[1:]
            nearest_first.append(turned)
            lengths[x] = len(turned)
        entries = np.concatenate(nearest_first)
        return pack_rows(lengths, entries & 0xFFFFFFFF, entries >> 32)
