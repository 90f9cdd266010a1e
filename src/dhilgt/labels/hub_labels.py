"""Hub labels: an exact index of shortest-path distances, from which tokens are drawn."""

import copy
import hashlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ConfigError, GraphError, argument
from dhilgt.graph.checks import IdArray
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import NodeIds
from dhilgt.labels import sharded_store
from dhilgt.labels import store as labels_store
from dhilgt.labels.build import build_native
from dhilgt.labels.orders import order_name
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.labels.sharded_store import ShardedLabels
from dhilgt.store.manifest import find_artifact, read_manifest
from dhilgt.utils.checks import choice, num_threads
from dhilgt.utils.memory import UNLIMITED
from dhilgt.utils.progress import progress_bar

UNREACHABLE = -1
"""The distance between nodes without a path."""

BEYOND = -2
"""The distance of nodes that labels with a radius say nothing about: beyond it, or no path."""

IN, OUT = 0, 1  # the two label sets of a directed graph; the same one when undirected
_NONE = 0xFFFFFFFF  # the native core's value for "no hub" and "no path"


class Witness(NamedTuple):
    """A distance and the hub on a shortest path.

    Attributes:
        distance: Number of edges of a shortest path, or UNREACHABLE, or BEYOND.
        hub: Id of the best ranked node on any shortest path; None if there is no path.
    """

    distance: int
    hub: Any


class LabelGraph(NamedTuple):
    """The label graph as compressed rows over node indices, self entries left out.

    Attributes:
        out_offsets: Where the hubs of each node begin; num_nodes + 1 numbers.
        out_hubs: Hubs each node points to, nearest first.
        out_distances: Their distances.
        in_offsets: Where the holders of each node begin.
        in_holders: Nodes that point to each node, nearest first.
        in_distances: Their distances.
    """

    out_offsets: NDArray[np.int64]
    out_hubs: NDArray[np.int64]
    out_distances: NDArray[np.int32]
    in_offsets: NDArray[np.int64]
    in_holders: NDArray[np.int64]
    in_distances: NDArray[np.int32]


class HubLabels:
    """The canonical hub labels of a graph.

    The label of a node lists hubs with their distances, so that any two connected nodes share a hub
    on a shortest path between them. A node `h` is a hub of `v` exactly if `h` is the best ranked of
    all nodes on all shortest paths between the two, `v` being its own hub at distance 0. The result
    depends on the graph and the order alone: every algorithm and every number of threads gives the
    same bytes.

    On a directed graph a node has two labels: hubs that it reaches (`side="out"`) and hubs that
    reach it (`side="in"`).

    Labels with a `radius` r keep the entries up to distance r. Nodes at most r apart still get
    their exact distance; for others it is an upper bound, from r + 1 to 2 r, or BEYOND if the two
    share no hub (see `is_exact`).

    Example:
        >>> graph = Graph.from_edges(["ann", "bob", "cid"], ["bob", "cid", "dan"])
        >>> labels = HubLabels.build(graph, progress=False)
        >>> labels
        HubLabels(nodes=4, entries=8, 2.0 per node, longest distance 2)
        >>> labels.distance("ann", "dan"), labels.witness("ann", "dan")
        (3, Witness(distance=3, hub='cid'))
    """

    __slots__ = (
        "_check",
        "_fingerprint",
        "_graph_fingerprint",
        "_grown_from",
        "_holders",
        "_ids",
        "_native",
        "_order",
        "_order_name",
        "_parts",
        "_radius",
        "_ranks",
        "_sizes",
    )

    def __init__(
        self,
        native: _native.Labels,
        order: NDArray[np.uint32],
        ids: NodeIds,
        graph_fingerprint: str,
        sizes: tuple[int, int],
        *,
        order_name: str | None = None,
        radius: int | None = None,
        grown_from: str | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Take finished parts; users call `build`, `load` or `quick_labels`."""
        self._native = native
        self._order = order
        self._order_name = order_name
        self._ids = ids
        self._graph_fingerprint = graph_fingerprint
        self._sizes = sizes
        # Distances in labels have no gaps: where they end before the radius, nothing was left out.
        self._radius = None if radius is None or sizes[1] < radius else radius
        self._grown_from = grown_from
        self._check = check  # of the mapped files, before all of them are decoded
        self._ranks = np.empty(len(order), np.uint32)
        self._ranks[order] = np.arange(len(order), dtype=np.uint32)
        self._holders: _native.Labels | None = None
        self._parts: ShardedLabels | None = None
        self._fingerprint: str | None = None

    # ---- build, save, load ---------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        graph: Graph,
        *,
        threads: int | None = None,
        order: Any = None,
        seed: int = 0,
        progress: bool = True,
        algorithm: str = "auto",
        max_memory: int | str | None = None,
        preflight: bool = True,
        radius: int | str | None = None,
        max_entries: int | None = None,
        cluster: str | None = None,
        path: "str | PathLike[str] | None" = None,
        overwrite: bool = False,
    ) -> "HubLabels":
        """Build the labels of a graph.

        Args:
            graph: The graph.
            threads: Threads to use; None for every core.
            order: Ids of all nodes from most to least important, or the name of an order
                (`dhilgt.labels.ORDERS`). None is "degree": both directions counted, largest first,
                ties by a fixed hash of the id. "degree-id" breaks them by ascending id.
            seed: Seed of the orders "closeness" and "random".
            progress: Show a progress bar when standard error is a terminal.
            algorithm: "auto" takes the fastest method; "pll" is sequential pruned landmark
                labeling, the reference; "planes" and "psl" are the two parts of "auto" alone.
            max_memory: Limit on the memory beyond the graph, as bytes or like "4GB". None takes
                what the machine or its container has free.
            preflight: Predict the memory first and refuse a build that clearly will not fit.
            radius: Leave out hubs farther away than this: smaller labels, built faster, exact for
                all pairs within the radius. "auto" keeps all hubs where that fits `max_memory`,
                else takes the largest radius that fits, and says so in a warning.
            max_entries: With `radius` "auto", which it stands for, the largest predicted number of
                entries.
            cluster: Build on a Ray cluster: "auto", or its address. The labels are the same, in
                parts at `path`, and no machine holds all of them. `threads` (None: 1) and
                `max_memory` are then those of each unit of work.
            path: With `cluster`, the folder to create, best on a disk that all machines share. The
                same call goes on with a build that was stopped.
            overwrite: With `cluster`, replace older labels at `path`.

        Raises:
            GraphError: If the graph has no nodes, or the order does not list each node once.
            MemoryLimitError: If the build does not fit `max_memory`. Nothing is left behind.
            ConfigError: If `path` and `cluster` are not given together.

        Warns:
            GraphWarning: If "auto" chose a radius.
        """
        if (cluster is None) != (path is None):
            given, other = ("path", "cluster") if cluster is None else ("cluster", "path")
            raise ConfigError(
                f"{argument(given)} goes with {argument(other)}: labels from a cluster are "
                "written to a folder, others are kept with save"
            )
        if cluster is not None and path is not None:
            from dhilgt.cluster.labels import build_labels

            choice("algorithm", algorithm, ("auto",))
            return build_labels(
                graph,
                path,
                cluster=cluster,
                order=order,
                seed=seed,
                radius=radius,
                max_entries=max_entries,
                threads=threads,
                max_memory=max_memory,
                progress=progress,
                overwrite=overwrite,
            )
        native, node_at, used = build_native(
            graph,
            threads=threads,
            order=order,
            seed=seed,
            progress=progress,
            algorithm=algorithm,
            max_memory=max_memory,
            preflight=preflight,
            radius=radius,
            max_entries=max_entries,
        )
        sizes = native.num_entries, native.max_distance
        name = order_name(order)
        return cls(
            native, node_at, graph.ids, graph.fingerprint, sizes, order_name=name, radius=used
        )

    def save(
        self, path: "str | PathLike[str]", *, overwrite: bool = False, threads: int | None = None
    ) -> None:
        """Write the labels to a folder, all or nothing, with checksums.

        Args:
            path: The folder to create.
            overwrite: Replace existing labels; they stay intact until the new ones are complete.
            threads: Threads for packing; None for every core.
        """
        workers = num_threads(threads)
        native = self._unpacked()
        sides = [native.pack(side, workers) for side in range(2 if self.directed else 1)]
        labels_store.save(
            path,
            labels_store.StoredLabels(
                sides=sides,
                order=self._order,
                order_name=self._order_name,
                ids=self._ids,
                num_entries=self.num_entries,
                max_distance=self.max_distance,
                graph_fingerprint=self._graph_fingerprint,
                grown_from=self._grown_from,
                radius=self._radius,
            ),
            overwrite=overwrite,
        )

    @classmethod
    def load(
        cls,
        path: "str | PathLike[str]",
        *,
        mmap: bool = True,
        verify: bool = False,
        threads: int | None = None,
    ) -> "HubLabels":
        """Read labels that `save` wrote.

        Every byte is compared with its checksum, except in files above 100 MB that stay on disk:
        of these a sample of blocks is, and the rest before tokens are drawn from the labels.

        Args:
            path: The folder.
            mmap: Leave the packed labels on disk and decode a label when it is queried: opens at
                once and takes no memory. False decodes all of them now, for faster queries.
            verify: Check every byte now, however large the files are.
            threads: Threads for decoding; None for every core.

        Raises:
            ArtifactError: If the folder does not hold complete labels of a known format.
        """
        parts = None
        if read_manifest(find_artifact(Path(path))).kind == sharded_store.KIND:
            parts = sharded_store.load(path, verify=verify)
        stored = labels_store.load(path, verify=verify) if parts is None else parts.stored
        if parts is None:
            arrays = tuple(array for side in stored.sides for array in side)
            native = _native.labels_from_packed(len(stored.sides) == 2, len(stored.order), arrays)
        else:
            native = parts.labels.native()
        labels = cls(
            native,
            stored.order,
            stored.ids,
            stored.graph_fingerprint,
            (stored.num_entries, stored.max_distance),
            order_name=stored.order_name,
            radius=stored.radius,
            grown_from=stored.grown_from,
            check=stored.check,
        )
        labels._parts = parts
        if not mmap:
            labels._unpacked(threads)
        return labels

    @property
    def is_sharded(self) -> bool:
        """Whether the labels lie in parts on disk, as `build_sharded` or a cluster wrote them."""
        return self._parts is not None

    @property
    def path(self) -> Path | None:
        """The folder that labels in parts are mapped from; None for other labels."""
        return None if self._parts is None else self._parts.path

    @property
    def is_checked(self) -> bool:
        """Whether every byte of the files was compared with its checksum."""
        return self._check is None

    def check_files(self) -> None:
        """Compare every byte of mapped files with its checksum, unless `load` has done it.

        Raises:
            ArtifactError: If a file is damaged; the message names it.
        """
        if self._check is not None:
            self._check()
            self._check = None

    @property
    def num_parts(self) -> int:
        """Number of ranges of ranks that the labels are cut into; 1 if they are not in parts."""
        return 1 if self._parts is None else len(self._parts.labels.bounds) - 1

    def gather(self) -> "HubLabels":
        """Return labels in parts as ordinary ones, packed in memory.

        Their `save` writes the bytes that it writes for labels built on one machine. Labels that
        are not in parts are returned as they are.
        """
        if self._parts is None:
            return self
        arrays = tuple(array for rows in self._parts.labels.joined() for array in rows)
        other = copy.copy(self)
        other._native = _native.labels_from_packed(self.directed, self.num_nodes, arrays)
        other._parts = other._holders = None
        return other

    def packed_rows(self, ranks: NDArray[Any], side: str) -> PackedLabelRows:
        """Return the packed labels of some ranks of labels in parts, read from the mapped files.

        Args:
            ranks: Ranks, in any order.
            side: "in" or "out".
        """
        return self._sharded().labels.rows_of(ranks, side_number(side))

    def packed_holders(self, ranks: NDArray[Any], side: str) -> PackedLabelRows:
        """Return the packed inverted labels of some ranks of labels in parts.

        Args:
            ranks: Ranks, in any order.
            side: "in" or "out".
        """
        return self._sharded().holders.rows_of(ranks, side_number(side))

    def _sharded(self) -> ShardedLabels:
        if self._parts is None:
            raise ValueError("these labels are not in parts; build them with build_sharded")
        return self._parts

    def with_ids(self, ids: NodeIds) -> "HubLabels":
        """Return the same labels under other ids; nothing is copied.

        Args:
            ids: Ids by index, such as `Graph.ids` of a graph of the same structure.
        """
        if ids.count != self.num_nodes:
            raise GraphError(
                f"{ids.count} ids do not name the {self.num_nodes} nodes of the labels"
            )
        other = copy.copy(self)
        other._ids = ids
        return other

    # ---- properties and entries ----------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return len(self._order)

    @property
    def num_entries(self) -> int:
        """Number of label entries, self entries included; both label sets when directed."""
        return self._sizes[0]

    @property
    def max_distance(self) -> int:
        """Longest distance in any label. Distances between nodes can be up to twice this."""
        return self._sizes[1]

    @property
    def directed(self) -> bool:
        """Whether distances depend on the direction."""
        return bool(self._native.directed)

    @property
    def exact(self) -> bool:
        """Whether all distances are exact.

        False for `quick_labels`, which may give longer ones, and for labels with a `radius`, of
        which `is_exact` tells the exact ones.
        """
        return self._grown_from is None and self._radius is None

    @property
    def radius(self) -> int | None:
        """Largest distance of a hub that was kept; None if none was left out.

        None too if the radius asked for turned out to leave nothing out.
        """
        return self._radius

    def is_exact(self, distances: Any) -> NDArray[np.bool_]:
        """Return which distances from these labels are known to be exact.

        With a radius r these are all up to r, and also those of r + 1: a pair that near is never
        given a longer distance, so r + 1 is no bound for a shorter one.

        Args:
            distances: From `distance`, `distances` or `distance_matrix`.

        Example:
            >>> graph = Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
            >>> labels = HubLabels.build(graph, radius=1, order=[1, 2, 3, 4, 0, 5], progress=False)
            >>> found = labels.distances([0, 0, 0], [1, 2, 5])
            >>> found.tolist(), labels.is_exact(found).tolist()
            ([1, 2, -2], [True, True, False])
        """
        values = np.asarray(distances)
        if self._grown_from is not None:
            return np.zeros(values.shape, np.bool_)
        if self._radius is None:
            return np.ones(values.shape, np.bool_)
        return np.asarray((values >= 0) & (values <= self._radius + 1))

    @property
    def grown_from(self) -> str | None:
        """Fingerprint of the labels that `quick_labels` extended; None if none were."""
        return self._grown_from

    @property
    def nbytes(self) -> int:
        """Bytes of the labels: in memory, or of the mapped files."""
        return int(self._native.num_bytes) + self._order.nbytes + self._ranks.nbytes

    @property
    def ids(self) -> NodeIds:
        """The nodes' ids."""
        return self._ids

    @property
    def order(self) -> NDArray[np.int64]:
        """Node indices from most to least important."""
        return self._order.astype(np.int64)

    @property
    def order_name(self) -> str | None:
        """Name of the order, "given" for one that was passed as ids; None if it was not noted.

        Labels that earlier versions saved do not say it: theirs is "degree-id", unless another one
        was asked for.
        """
        return self._order_name

    @property
    def graph_fingerprint(self) -> str:
        """Fingerprint of the graph these labels were made from."""
        return self._graph_fingerprint

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what determines the labels: graph, order, radius, labels they grew from."""
        if self._fingerprint is None:
            digest = hashlib.sha256(b"dhilgt labels 1" + self._graph_fingerprint.encode())
            digest.update(self._order.astype("<u4", copy=False).tobytes())
            digest.update((self._grown_from or "").encode())
            if self._radius is not None:
                digest.update(f"radius {self._radius}".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def hubs(self, node: Any, *, side: str = "out") -> tuple[IdArray, NDArray[np.int32]]:
        """Return the hubs of a node with their distances, nearest first, itself included.

        Args:
            node: The node's id.
            side: On a directed graph, "out" for hubs the node reaches, "in" for hubs that reach it.
        """
        return self._entries(self._native, node, side)

    def holders(self, node: Any, *, side: str = "out") -> tuple[IdArray, NDArray[np.int32]]:
        """Return the nodes whose label holds this node, with their distances, nearest first.

        The node itself is one of them. The first call transposes all labels, which takes as much
        memory again.

        Args:
            node: The hub's id.
            side: On a directed graph, "out" for nodes that reach this one, "in" for nodes it
                reaches.
        """
        return self._entries(self._transposed(), node, side)

    def distance_histogram(self) -> NDArray[np.int64]:
        """Return the number of label entries at each distance, index = distance."""
        return self._native.histogram().astype(np.int64)

    def label_graph(self) -> LabelGraph:
        """Return the label graph: an edge from every node to each of its hubs.

        On a directed graph these are the hubs a node reaches.
        """
        return LabelGraph(
            *self._rows_by_index(self._unpacked()), *self._rows_by_index(self._transposed())
        )

    def __repr__(self) -> str:
        kind = ", directed" if self.directed else ""
        kind += "" if self._radius is None else f", radius {self._radius}"
        kind += "" if self._grown_from is None else ", grown"
        if self._parts is not None:
            kind += f", in {self.num_parts} part{'s' if self.num_parts > 1 else ''}"
        per_node = self.num_entries / self.num_nodes
        return (
            f"HubLabels(nodes={self.num_nodes}, entries={self.num_entries}, "
            f"{per_node:.1f} per node, longest distance {self.max_distance}{kind})"
        )

    # ---- distances -----------------------------------------------------------------------------

    def distance(self, source: Any, target: Any) -> int:
        """Return the number of edges on a shortest path, or UNREACHABLE (-1).

        With a `radius`, it is exact up to there, else an upper bound or BEYOND (-2).

        Args:
            source: Id of the node where paths start.
            target: Id of the node where they end.
        """
        return self.witness(source, target).distance

    def witness(self, source: Any, target: Any) -> Witness:
        """Return the distance and the best ranked node on any shortest path.

        Args:
            source: Id of the node where paths start.
            target: Id of the node where they end.
        """
        distance, hub = self._native.ask(
            int(self._ranks[self._ids.index_of(source)]),
            int(self._ranks[self._ids.index_of(target)]),
        )
        if distance == _NONE:
            return Witness(self._no_hub, None)
        return Witness(distance, self._ids.ids_of(int(self._order[hub])))

    def distances(
        self, sources: Any, targets: Any, *, threads: int | None = None, progress: bool = False
    ) -> NDArray[np.int32]:
        """Return the distances of many pairs, as `distance` does.

        Args:
            sources: Ids, one per pair.
            targets: Ids, one per pair.
            threads: Threads to use; None for every core.
            progress: Show a progress bar when standard error is a terminal.
        """
        return self._pairs(sources, targets, False, threads, progress)[0]

    def witnesses(
        self, sources: Any, targets: Any, *, threads: int | None = None, progress: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        """Return the distances of many pairs and the hubs on their paths, None without a path.

        Args:
            sources: Ids, one per pair.
            targets: Ids, one per pair.
            threads: Threads to use; None for every core.
            progress: Show a progress bar when standard error is a terminal.
        """
        distances, ranks = self._pairs(sources, targets, True, threads, progress)
        hubs = np.full(len(ranks), None, dtype=object)
        connected = ranks != _NONE
        hubs[connected] = self._ids.ids_of(self._order[ranks[connected]].astype(np.int64)).tolist()
        return distances, hubs

    def distance_matrix(self, nodes: Any, *, threads: int | None = None) -> NDArray[np.int32]:
        """Return all distances among some nodes, [k, k]; row = source, column = target.

        Args:
            nodes: Ids.
            threads: Threads to use; None for every core.
        """
        ranks = self._ranks_of(nodes)
        flat = self._native.matrix(ranks, num_threads(threads), None)
        return self._distances(flat).reshape(len(ranks), len(ranks))

    # ---- by rank, for the stages that follow ---------------------------------------------------

    @property
    def ranks(self) -> NDArray[np.uint32]:
        """Rank of each node by index, 0 being the most important."""
        return self._ranks

    @property
    def native(self) -> _native.Labels:
        """The native labels, in memory, over ranks."""
        return self._unpacked()

    def _pairs(
        self, sources: Any, targets: Any, with_hubs: bool, threads: int | None, progress: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        source_ranks, target_ranks = self._ranks_of(sources), self._ranks_of(targets)
        if len(source_ranks) != len(target_ranks):
            raise ValueError(
                f"{len(source_ranks)} sources and {len(target_ranks)} targets; "
                "give one of each per pair"
            )
        with progress_bar("distances", unit="pairs", enabled=progress) as update:
            distances, hubs = self._native.pairs(
                source_ranks,
                target_ranks,
                with_hubs,
                num_threads(threads),
                lambda done, total, *_: update(done, total),
            )
        return self._distances(distances), hubs

    @property
    def _no_hub(self) -> int:
        """The distance of nodes that share no hub."""
        return UNREACHABLE if self._radius is None else BEYOND

    def _distances(self, native: NDArray[np.uint32]) -> NDArray[np.int32]:
        distances = _signed(native)
        if self._radius is not None:
            distances[distances == UNREACHABLE] = BEYOND
        return distances

    def _ranks_of(self, ids: Any) -> NDArray[np.uint32]:
        ranks: NDArray[np.uint32] = self._ranks[self._ids.index_of(np.atleast_1d(ids))]
        return ranks

    def _entries(
        self, native: _native.Labels, node: Any, side: str
    ) -> tuple[IdArray, NDArray[np.int32]]:
        ranks, distances = native.label(
            int(self._ranks[self._ids.index_of(node)]), side_number(side)
        )
        return self._ids.ids_of(self._order[ranks].astype(np.int64)), _signed(distances)

    def _unpacked(self, threads: int | None = None) -> _native.Labels:
        if self._native.packed:
            self.check_files()
            self._native = self._native.unpack(num_threads(threads), UNLIMITED)
        return self._native

    def _transposed(self) -> _native.Labels:
        if self._holders is None and self._parts is not None:
            self._holders = self._parts.holders.native()
        if self._holders is None:
            self._holders = self._unpacked().holders(num_threads(None), UNLIMITED, None)
        return self._holders

    def _rows_by_index(
        self, native: _native.Labels
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Return rows by node index instead of rank, without the self entry, the first in each."""
        if native.packed:  # the inverted labels of labels in parts
            native = native.unpack(num_threads(None), UNLIMITED)
        offsets, ranks, distances = native.flat_arrays(OUT)
        lengths = np.diff(offsets)[self._ranks] - 1
        starts = offsets[:-1][self._ranks] + 1
        row_offsets = np.concatenate([[0], np.cumsum(lengths)])
        take = np.repeat(starts - row_offsets[:-1], lengths) + np.arange(row_offsets[-1])
        return row_offsets, self._order[ranks[take]].astype(np.int64), _signed(distances[take])


def _signed(distances: NDArray[np.uint32]) -> NDArray[np.int32]:
    return distances.view(np.int32)  # the native "unreachable", all bits set, reads as -1


def side_number(side: str) -> int:
    """Return the native number of a side."""
    return IN if choice("side", side, ("in", "out")) == "in" else OUT
