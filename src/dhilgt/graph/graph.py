"""The graph: compressed rows of neighbours, the user's ids, and the data of the nodes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, argument
from dhilgt.graph import checks
from dhilgt.graph.build import Cleaning, Parts, assemble, checked_data
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.node_ids import NodeIds, rank_all, ranks
from dhilgt.graph.table import holds_frames
from dhilgt.utils.checks import num_threads

if TYPE_CHECKING:
    import networkx
    import scipy.sparse


class Graph:
    """An immutable graph without self-loops or duplicate edges.

    Nodes are numbered 0 to `num_nodes - 1`. Ids that are not these numbers are kept in `node_ids`
    in ascending order, and the index of a node is the position of its id there: the same graph
    gets the same numbers whatever the order of its file.

    Create one with `from_edges`, `from_edge_index`, `from_scipy`, `from_networkx`, `from_pyg` or
    `read`. Rows of features, classes and masks follow `nodes=` if it is passed, otherwise the
    ascending ids.

    Example:
        >>> graph = Graph.from_edges(["ann", "bob"], ["bob", "cid"])
        >>> graph
        Graph(nodes=3, edges=2, undirected, ids=str)
        >>> graph.index_of("cid"), graph.neighbors("bob").tolist()
        (2, ['ann', 'cid'])
    """

    __slots__ = ("_fingerprint", "_ids", "_parts", "_transposed")

    def __init__(self, parts: Parts, *more: Any, **options: Any) -> None:
        """Take parts that are clean and checked; users call a `from_` method."""
        if more or options or not isinstance(parts, Parts):
            from dhilgt.graph.convert import creation_hint

            hint = "Graph.from_edges(src, dst)" if more else creation_hint(parts)
            raise GraphError(f"Graph(...) is not called with data; call {hint}")
        self._parts = parts
        self._transposed: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None
        self._fingerprint: str | None = None
        self._ids = NodeIds(parts.node_ids, len(parts.offsets) - 1)

    # ---- creation ------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        src: Any,
        dst: Any,
        *,
        num_nodes: int | None = None,
        nodes: Any = None,
        directed: bool = False,
        weights: Any = None,
        features: Any = None,
        labels: Any = None,
        masks: Any = None,
        threads: int | None = None,
    ) -> "Graph":
        """Return the graph of the edges src[i] - dst[i].

        Args:
            src: Ids of the first ends of the edges: integers (64 bits) or strings.
            dst: Ids of the other ends.
            num_nodes: If passed, the ends are indices 0 to num_nodes - 1 and are not mapped.
            nodes: All ids, to keep nodes without an edge. Rows of features, classes and masks
                then follow this list.
            directed: Keep the direction; otherwise missing reverse edges are added.
            weights: Refused unless all ones; "ignore" counts every edge as one hop.
            features: (num_nodes, channels), an array or SciPy sparse matrix; stored as float32. Or
                a frame of pandas, Polars or Arrow: a column or index of ids is found as by `read`,
                and rows without ids follow the nodes in order.
            labels: One class per node, or a dict or pandas series from id to class; see
                `checks.labels`. Or a frame of id and class.
            masks: Any of train, val, test: booleans per node, or indices. Or a frame of id and
                part.
            threads: Number of threads; None for all.
        """
        if holds_frames(features, labels, masks):
            from dhilgt.readers import node_data

            return node_data.from_edges(
                lambda ids, arrays: cls.from_edges(
                    src,
                    dst,
                    num_nodes=num_nodes,
                    nodes=nodes if ids is None else ids,
                    directed=directed,
                    weights=weights,
                    threads=threads,
                    **arrays,
                ),
                features=features,
                labels=labels,
                masks=masks,
                nodes=nodes,
                may_add=num_nodes is None and nodes is None,
            )
        sources, targets = checks.edges(src, dst)
        checks.weights(weights, weights, "weights")
        if num_nodes is not None and nodes is not None:
            raise GraphError(
                f"{argument('num_nodes')} and {argument('nodes')} are both given; "
                f"{argument('nodes')} alone says how many"
            )
        workers = num_threads(threads)
        rows: NDArray[np.int64] | None = None
        if num_nodes is not None:
            count = checks.num_nodes(num_nodes)
            checks.indices(sources, count, "src")
            checks.indices(targets, count, "dst")
            node_ids = None
        else:
            if nodes is not None:
                listed = checks.node_list(nodes)
                rows = np.argsort(listed, kind="stable")
                node_ids = listed[rows]
                sources = ranks(node_ids, len(node_ids), sources, "src")
                targets = ranks(node_ids, len(node_ids), targets, "dst")
            else:
                node_ids, sources, targets = rank_all(sources, targets, workers)
            count = checks.num_nodes(len(node_ids), name="number of ids")
        return cls(
            assemble(
                sources,
                targets,
                count,
                directed=directed,
                node_ids=node_ids,
                rows=rows,
                features=features,
                labels=labels,
                masks=masks,
                threads=workers,
            )
        )

    @classmethod
    def from_edge_index(
        cls, edge_index: Any, num_nodes: int | None = None, **options: Any
    ) -> "Graph":
        """Return the graph of a (2, E) array of indices, sources above targets (as in PyG).

        A (2, 2) array looks the same transposed: row 0 is taken as sources, with a warning if the
        transposed array would be another graph.

        Args:
            edge_index: NumPy array or torch tensor.
            num_nodes: Number of nodes; the largest index + 1 when None.
            **options: As for `from_edges`, without `nodes`.
        """
        array = checks.edge_index(edge_index)
        sources, targets = checks.edges(array[0], array[1])
        if num_nodes is None:
            checks.indices(sources[:1], _native.NODE_LIMIT, "src")
            largest = max(sources.max(), targets.max()) if sources.size else -1
            num_nodes = max(int(largest) + 1, int(sources.size > 0))
        return cls.from_edges(sources, targets, num_nodes=num_nodes, **options)

    @classmethod
    def from_scipy(cls, matrix: Any, **options: Any) -> "Graph":
        """Return the graph of a square sparse adjacency matrix; stored zeros are not edges.

        Args:
            matrix: Any SciPy sparse matrix or array; entry (u, v) is an edge from u to v.
            **options: As for `from_edges`, without `num_nodes` and `nodes`.
        """
        from dhilgt.graph import convert

        return convert.from_scipy(matrix, **options)

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph", **options: Any) -> "Graph":
        """Return the graph of a NetworkX graph; a DiGraph stays directed.

        Nodes that are neither all integers nor all strings get the ids `str(node)`.

        Args:
            graph: Any NetworkX graph. Rows of features and classes follow `graph.nodes`.
            **options: As for `from_edges`, without `num_nodes`, `nodes` and `directed`. Features
                and classes may be names of node attributes instead: ``features=["age", "income"]``
                (numbers, vectors or words, of every node), ``labels="club"`` (None where missing).
        """
        from dhilgt.graph import convert

        return convert.from_networkx(graph, **options)

    @classmethod
    def from_pyg(cls, data: Any, split: int = 0, **options: Any) -> "Graph":
        """Return the graph of a PyG `Data`, with its x, y and masks.

        Args:
            data: `torch_geometric.data.Data`. `edge_attr` is not used.
            split: Column to take of masks with several splits.
            **options: `directed`, `weights` and `threads` as for `from_edges`.
        """
        from dhilgt.graph import convert

        return convert.from_pyg(data, split, **options)

    @classmethod
    def read(
        cls,
        path: Any,
        *,
        format: str | None = None,
        separator: str | None = None,
        header: bool | None = None,
        comment: str | None = None,
        columns: Sequence[str | int] | None = None,
        weights: str | None = None,
        nodes: Any = None,
        num_nodes: int | None = None,
        directed: bool = False,
        features: Any = None,
        labels: Any = None,
        masks: Any = None,
        id_column: str | int | None = None,
        label_column: str | int | None = None,
        split_column: str | int | None = None,
        feature_columns: Any = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> "Graph":
        """Return the graph of a file of edges: text, Parquet, NPZ or MatrixMarket, plain or .gz.

        Text holds one edge per line; blank lines are skipped, and so are lines before the first
        edge that begin with # or %. Ids are 64-bit integers, or strings if any of them is not an
        integer (with a warning if the first line has integers). A first line of words is a header
        if the next line has integers. Among ids that are words, its words tell: names of columns
        (from and to, user_id and friend_id, buyer and seller, ...) do not occur on other lines; a
        file that can be read in two ways is refused. What was decided is in `notes`.

        Args:
            path: The file, or a pipe; "-" for standard input. The content decides the format, not
                the name. Or a frame of pandas, Polars or Arrow.
            format: "text", "csv", "tsv", "parquet", "npz" or "mtx" to require that format.
            separator: "," or tab or ";" or "|" or " " (any run of blanks); detected if None.
            header: Whether the first line is a header; detected if None.
            comment: A sign like "#": skip the lines that begin with it, wherever they are. "" for
                no comments at all, also before the first edge.
            columns: The two columns to use, by name or position, if there are more.
            weights: "ignore" to skip further columns.
            nodes: All ids, or a file with one id per line, to keep nodes without an edge.
            num_nodes: If passed, the ends are indices 0 to num_nodes - 1.
            directed: Keep the direction of edges.
            features: An array, a .npy or .npz file, or a table (CSV, TSV, Parquet, frame) with a
                column of ids, whose nodes become part of the graph.
            labels: An array, a dict from id to class, a .npy file, a table of id and class, or text
                with one class per line (in the order of `nodes`).
            masks: As for `from_edges`, or a table of id and part (train, val or test).
            id_column: Column of ids in the tables that have it, by name or position. By default the
                one whose values are nodes of the graph; the choice is in `notes`.
            label_column: Column of classes; by default one called label, class, y, ..., or the only
                one beside the ids.
            split_column: Column of parts; by default one called split, part, ..., or the only one
                that holds nothing else.
            feature_columns: Columns of features: names and patterns, in a list or separated by
                commas. "gene_*" takes all that match, "!age" leaves one out, "zip:category" says
                what it is (number, category, boolean or date). By default all but ids, classes
                and parts. Or the columns of a model, to encode as in its training.
            threads: Number of threads; None for all.
            progress: Show a progress bar on standard error.
        """
        from dhilgt.readers import graph_files
        from dhilgt.readers.node_tables import ColumnOptions

        return graph_files.read_graph(
            path,
            format=format,
            separator=separator,
            columns=columns,
            weights=weights,
            nodes=nodes,
            num_nodes=num_nodes,
            directed=directed,
            features=features,
            labels=labels,
            masks=masks,
            options=ColumnOptions(
                id_column, label_column, split_column, feature_columns, header, comment
            ),
            threads=threads,
            progress=progress,
        )

    def named(self, name: str | None) -> "Graph":
        """Return the same graph with a name; arrays are shared."""
        return Graph(replace(self._parts, name=name))

    def with_notes(self, *notes: str) -> "Graph":
        """Return the same graph with further `notes`; arrays are shared."""
        return self.with_nodes(notes=(*self._parts.notes, *notes))

    # ---- structure -----------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """Name of the graph; that of generated data contains "generated stand-in"."""
        return self._parts.name

    @property
    def num_nodes(self) -> int:
        """Number of nodes, including those without edges."""
        return len(self._parts.offsets) - 1

    @property
    def num_edges(self) -> int:
        """Number of entries of `targets`: an undirected edge counts in both directions.

        PyG counts so. Whatever is printed counts `num_distinct_edges`.
        """
        return len(self._parts.targets)

    @property
    def num_distinct_edges(self) -> int:
        """Number of edges as they are printed everywhere: an undirected edge counts once."""
        return self.num_edges if self._parts.directed else self.num_edges // 2

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return self._parts.directed

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Position of each node's first neighbour in `targets`; num_nodes + 1 numbers."""
        return self._parts.offsets

    @property
    def targets(self) -> NDArray[np.int32]:
        """Neighbours of all nodes, ascending for each node."""
        return self._parts.targets

    @property
    def in_offsets(self) -> NDArray[np.int64]:
        """Like `offsets`, for incoming edges; the same array if undirected."""
        return self._incoming()[0]

    @property
    def in_targets(self) -> NDArray[np.int32]:
        """Like `targets`, for incoming edges; the same array if undirected."""
        return self._incoming()[1]

    def _incoming(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        if not self._parts.directed:
            return self._parts.offsets, self._parts.targets
        if self._transposed is None:
            offsets, targets = _native.transpose(self._parts.offsets, self._parts.targets)
            offsets.flags.writeable = targets.flags.writeable = False
            self._transposed = offsets, targets
        return self._transposed

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node (of outgoing edges if directed)."""
        return np.diff(self._parts.offsets)

    @property
    def cleaning(self) -> Cleaning:
        """Counts of the changes made to the input."""
        return self._parts.cleaning

    @property
    def notes(self) -> tuple[str, ...]:
        """Decisions made while the files were read: headers, columns, types, skipped lines."""
        return self._parts.notes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the structure: equal for equal graphs, whatever their ids and features."""
        if self._fingerprint is None:
            digest = hashlib.sha256(b"dhilgt graph 1")
            digest.update(self.num_nodes.to_bytes(8, "little") + bytes([self._parts.directed]))
            digest.update(self._parts.offsets.astype("<i8", copy=False).data)
            digest.update(self._parts.targets.astype("<i4", copy=False).data)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    # ---- nodes ---------------------------------------------------------------------------------

    @property
    def features(self) -> Any:
        """Float32 features, (num_nodes, channels), as NumPy array or SciPy CSR; or None."""
        return self._parts.features

    @property
    def feature_columns(self) -> FeatureColumns | None:
        """Columns of the table that the features were encoded from; None for arrays."""
        return self._parts.feature_columns

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Class of each node, -1 where unknown; or None."""
        return self._parts.labels

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes if they were passed as strings; or None."""
        return self._parts.class_names

    @property
    def num_classes(self) -> int:
        """Number of class names, or the largest class + 1; 0 without classes."""
        if self._parts.class_names is not None:
            return len(self._parts.class_names)
        return 0 if self._parts.labels is None else int(self._parts.labels.max(initial=-1)) + 1

    @property
    def masks(self) -> Mapping[str, NDArray[np.bool_]] | None:
        """Boolean masks by name (train, val, test); or None."""
        return self._parts.masks

    @property
    def node_ids(self) -> checks.IdArray | None:
        """Ids in ascending order (int64, or object holding str); None if they are 0 to n - 1."""
        return self._parts.node_ids

    @property
    def nodes(self) -> checks.IdArray:
        """Ids of all nodes by index."""
        return self._ids.all

    @property
    def ids(self) -> NodeIds:
        """The map between ids and indices."""
        return self._ids

    def ids_of(self, indices: Any) -> Any:
        """Return the ids of nodes by index: an array for an array, one id for one index."""
        return self._ids.ids_of(indices)

    def index_of(self, ids: Any) -> Any:
        """Return the indices of nodes by id: an array for many ids, an int for one."""
        return self._ids.index_of(ids)

    def neighbors(self, node: Any) -> checks.IdArray:
        """Return the ids of the neighbours of one node, which is named by its id."""
        index = self.index_of(node)
        start, stop = self._parts.offsets[index : index + 2]
        ids: checks.IdArray = self.ids_of(self._parts.targets[start:stop])
        return ids

    def with_data(self, *, features: Any = None, labels: Any = None, masks: Any = None) -> "Graph":
        """Return the same graph with other features, classes or masks; those left out are kept.

        Args:
            features: As for `from_edges`; rows follow `nodes`.
            labels: As for `from_edges`.
            masks: As for `from_edges`.
        """
        if holds_frames(features, labels, masks):
            from dhilgt.readers import node_data

            return node_data.with_data(self, features, labels, masks)
        return self.with_nodes(**checked_data(self._parts, features, labels, masks))

    def with_nodes(self, **parts: Any) -> "Graph":
        """Return the same structure with other data of its nodes, which must be checked.

        Args:
            **parts: Any of features, feature_columns, labels, class_names, masks and notes, as
                `Parts` holds them.
        """
        other = Graph(replace(self._parts, **parts))
        other._fingerprint, other._transposed = self._fingerprint, self._transposed
        return other

    # ---- conversion ----------------------------------------------------------------------------

    def to_edge_index(self) -> NDArray[np.int64]:
        """Return a (2, num_edges) array, sources above targets."""
        sources = np.repeat(np.arange(self.num_nodes), self.degrees)
        return np.stack([sources, self._parts.targets.astype(np.int64)])

    def to_scipy(self) -> "scipy.sparse.csr_array":
        """Return the adjacency matrix as a SciPy CSR array of float32 ones."""
        from dhilgt.graph import convert

        return convert.to_scipy(self)

    def to_networkx(self) -> "networkx.Graph":
        """Return a NetworkX Graph or DiGraph whose nodes are the ids."""
        from dhilgt.graph import convert

        return convert.to_networkx(self)

    def to_pyg(self, *, sparse: bool = False) -> Any:
        """Return a PyG `Data` with edge_index and, if known, x, y and masks.

        Args:
            sparse: Keep sparse features sparse (a torch COO tensor); otherwise x is dense.
        """
        from dhilgt.graph import convert

        return convert.to_pyg(self, sparse)

    def __repr__(self) -> str:
        parts = [f"nodes={self.num_nodes:,}", f"edges={self.num_distinct_edges:,}"]
        parts.append("directed" if self._parts.directed else "undirected")
        if self._parts.node_ids is not None:
            parts.append("ids=str" if self._parts.node_ids.dtype == object else "ids=int64")
        if self._parts.features is not None:
            parts.append(f"features={self._parts.features.shape[1]:,}")
        if self._parts.labels is not None:
            parts.append(f"classes={self.num_classes}")
        for name, mask in (self._parts.masks or {}).items():
            parts.append(f"{name}={int(mask.sum()):,}")
        if self._parts.name is not None:
            parts.insert(0, self._parts.name)
        return f"Graph({', '.join(parts)})"
