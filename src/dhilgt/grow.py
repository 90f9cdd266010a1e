"""Labels of a graph that has grown: the old labels stay, only new nodes are labelled."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native, errors
from dhilgt.errors import GraphError
from dhilgt.graph import Graph
from dhilgt.label_rows import PackedLabelRows, empty_rows, joined, only_rows, pack_rows
from dhilgt.labels import IN, OUT, HubLabels
from dhilgt.memory import UNLIMITED
from dhilgt.node_ids import find, plain_value
from dhilgt.validate import num_threads

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
    at = find(grown.ids.names, grown.num_nodes, graph.nodes)
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
    before = _arc_keys(graph, at, grown.num_nodes)
    after = _arc_keys(grown, np.arange(grown.num_nodes), grown.num_nodes)
    is_old = np.zeros(grown.num_nodes, bool)
    is_old[at] = True
    after = after[is_old[after // grown.num_nodes] & is_old[after % grown.num_nodes]]
    arcs_an_edge = 1 if graph.directed else 2
    gone = np.setdiff1d(before, after, assume_unique=True)
    if gone.size:
        ends = grown.ids_of(np.array(divmod(int(gone[0]), grown.num_nodes))).tolist()
        raise GraphError(
            f"{gone.size // arcs_an_edge:,} old edges are not in the grown graph, such as "
            f"{ends[0]!r} - {ends[1]!r}; labels cannot shrink: use HubLabels.build(grown)"
        )
    unseen = (len(after) - len(before)) // arcs_an_edge
    if unseen:
        errors.warn(
            f"{unseen:,} new edges join two old nodes; quick labels do not see them, so some "
            "distances may be too long: HubLabels.build(grown) gives exact ones"
        )


def _arc_keys(graph: Graph, at: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    sources, targets = at[graph.to_edge_index()]
    keys: NDArray[np.int64] = sources * num_nodes + targets
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

        Hubs that a better one makes needless are dropped in every round: what they would still
        bring to others, the better one brings as well. A row is judged whenever it changes, and
        that is enough: a new node comes to a row as a hub in the round of its distance, and what
        could make it needless is nearer to both and so has come to both before.
        """
        everyone = range(self._num_new)
        for side in self._rows:
            self._update(side, everyone, (self._through_old(side, x) for x in everyone))
        changed = {side: set(everyone) for side in self._rows}
        while any(changed.values()):
            before = {side: list(rows) for side, rows in self._rows.items()}
            changed = {side: self._spread(side, before[side], changed[side]) for side in before}

    def packed(self, side: int) -> PackedLabelRows:
        """Gives the rows found."""
        return self._pack(self._rows[side])

    def _through_old(self, side: int, x: int) -> Row:
        neighbors = self._arcs[side].old[x].tolist()
        return self._merged([self._rows[side][x], *(self._old_row(side, u) + 1 for u in neighbors)])

    def _old_row(self, side: int, rank: int) -> Row:
        hubs, distances = self._old.label(rank, side)
        return hubs.astype(np.int64) << self._bits | distances

    def _spread(self, side: int, before: list[Row], changed: set[int]) -> set[int]:
        """Takes over the hubs of new neighbours that have changed; gives who changed by that."""
        nodes, sources = [], []
        for x, neighbors in enumerate(self._arcs[side].new):
            news = [y for y in neighbors.tolist() if y in changed]
            if news:
                nodes.append(x)
                sources.append(news)
        candidates = (
            # Only better ranked nodes can be hubs: others have this node as theirs.
            self._ranked_above(x, self._merged([before[x], *(before[y] + 1 for y in news)]))
            for x, news in zip(nodes, sources, strict=True)
        )
        return self._update(side, nodes, candidates)

    def _merged(self, rows: list[Row]) -> Row:
        entries = np.sort(np.concatenate(rows))
        hubs = entries >> self._bits
        nearest = np.ones(len(entries), bool)
        nearest[1:] = hubs[1:] != hubs[:-1]
        return entries[nearest]

    def _ranked_above(self, x: int, row: Row) -> Row:
        return row[: np.searchsorted(row, (self._num_old + x + 1) << self._bits)]

    def _update(self, side: int, nodes: Sequence[int], candidates: Iterable[Row]) -> set[int]:
        """Sets rows to what is needed of their candidates; gives the nodes that changed."""
        changed: set[int] = set()
        batch: dict[int, Row] = {}
        size = 0
        for x, row in zip(nodes, candidates, strict=True):
            batch[x] = row
            size += len(row)
            if size >= _BATCH_ENTRIES:
                changed |= self._judge(side, batch)
                batch, size = {}, 0
        return changed | self._judge(side, batch) if batch else changed

    def _judge(self, side: int, batch: dict[int, Row]) -> set[int]:
        """Keeps an entry exactly if its hub is the best ranked one that gives its distance."""
        sizes = np.array([len(row) for row in batch.values()])
        hubs = (np.concatenate(list(batch.values())) >> self._bits).astype(np.uint32)
        holders = np.repeat(np.fromiter(batch, np.uint32) + np.uint32(self._num_old), sizes)
        _, best = self._asked(side, batch, hubs).pairs(holders, hubs, True, self._workers, None)
        needed = np.split(best == hubs, np.cumsum(sizes)[:-1])
        changed = set()
        for (x, row), keep in zip(batch.items(), needed, strict=True):
            if not np.array_equal(row[keep], self._rows[side][x]):
                self._rows[side][x] = row[keep]
                changed.add(x)
        return changed

    def _asked(self, side: int, batch: dict[int, Row], hubs: NDArray[np.uint32]) -> _native.Labels:
        """Gives labels that answer from the batch to its hubs: only their rows are filled."""
        other = side if not self._old.directed else IN + OUT - side
        wanted = np.zeros(self._num_old + self._num_new, bool)
        wanted[hubs] = True
        nothing = np.empty(0, np.int64)
        news = zip(wanted[self._num_old :], self._rows[other], strict=True)
        targets = joined(
            only_rows(self._packed[other], wanted[: self._num_old]),
            self._pack([row if asked else nothing for asked, row in news]),
        )
        sources = joined(
            empty_rows(self._num_old),
            self._pack([batch.get(x, nothing) for x in range(self._num_new)]),
        )
        # Two sides even if undirected: what is asked about and what answers differ.
        return _native.labels_from_packed(True, len(wanted), (*targets, *sources)).unpack(
            self._workers, UNLIMITED
        )

    def _pack(self, rows: list[Row]) -> PackedLabelRows:
        nearest_first, lengths = [], np.zeros(len(rows), np.int64)
        for at, row in enumerate(rows):
            # Distance above hub; the self entry, alone at distance 0, comes first and is left out.
            turned = np.sort((row & (1 << self._bits) - 1) << 32 | row >> self._bits)[1:]
            nearest_first.append(turned)
            lengths[at] = len(turned)
        entries = np.concatenate(nearest_first) if rows else np.empty(0, np.int64)
        return pack_rows(lengths, entries & 0xFFFFFFFF, entries >> 32)
