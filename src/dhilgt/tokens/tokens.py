"""Stored token rows: in memory, or in memory-mapped shards on disk."""

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import (
    ArtifactError,
    ConfigError,
    GraphError,
    MemoryLimitError,
    advice,
    argument,
)
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.mapped_rows import MappedRows
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.ranges import RangeSampler, Traffic
from dhilgt.tokens.sampler import (
    PackedRows,
    TokenRows,
    TokenSampler,
    checked_nodes,
    unpack_distances,
)
from dhilgt.tokens.spec import TokenSpec, exact_codes
from dhilgt.tokens.store import Shard, ShardPlace, TokenLayout
from dhilgt.utils.checks import num_threads, whole_number
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar


class Tokens:
    """The token rows of a graph's nodes, drawn once and stored.

    `rows` returns the same bytes as a `TokenSampler` with the same settings.

    Example:
        >>> from dhilgt import Graph, HubLabels
        >>> labels = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]), progress=False)
        >>> tokens = Tokens.build(labels, size=4, progress=False)
        >>> tokens
        Tokens(rows=4, size=4, copies=1, 26 bytes per row)
        >>> tokens.rows([3]).ids.tolist()
        [[3, 2, 1, -1]]
    """

    def __init__(
        self, layout: TokenLayout, shards: list[Shard], nodes: NDArray[np.int64] | None
    ) -> None:
        """Take finished parts; users call `build` or `load`."""
        self._layout = layout
        self._shards = shards
        self._nodes = nodes  # None: every node has rows
        self._sorted: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._path: Path | None = None  # that the rows are mapped from
        self._traffic: Traffic | None = None

    # ---- build, load ---------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        labels: HubLabels,
        *,
        size: int = 32,
        num_out: int | None = None,
        num_in: int | None = None,
        out_exponent: float = -1.0,
        in_exponent: float = -1.0,
        copies: int = 1,
        seed: int = 0,
        spill: bool = False,
        fill: str | None = None,
        nodes: Any = None,
        bits: int = 8,
        threads: int | None = None,
        path: "str | PathLike[str] | None" = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: bool = True,
        max_memory: int | str | None = None,
        cluster: str | None = None,
    ) -> "Tokens":
        """Draw the token rows of all nodes, or of some.

        Args:
            labels: The hub labels of the graph. Of labels in parts no more is read than the rows
                of a batch need (see `traffic`).
            size: Slots of a row, the ego's included.
            num_out: Hubs to draw; half of the slots when None (16 of 32).
            num_in: Holders to draw; the rest when None (15 of 32).
            out_exponent: A hub at distance d has weight d ** out_exponent.
            in_exponent: A holder at distance d has weight d ** in_exponent.
            copies: Rows to draw per node.
            seed: Seed of all draws.
            spill: Give slots that hubs or holders cannot use to the other side.
            fill: "neighbors" gives slots still free to neighbours not drawn.
            nodes: Indices or a mask; None for every node.
            bits: 8 keeps distances up to 253; 4 halves the store and keeps distances up to 13,
                longer ones becoming "far" (254).
            threads: Threads to use; None for every core.
            path: Folder to write to, shard by shard; None keeps the rows in memory.
            resume: Continue a build that was interrupted; the result is the same byte for byte.
            overwrite: Replace existing tokens.
            progress: Show a progress bar when standard error is a terminal.
            max_memory: Limit on the memory beyond the labels; None for what is free.
            cluster: Draw on a Ray cluster: "auto", or its address. The bytes are the same. It
                needs a `path` and labels in parts, both in folders that the machines share. The
                same call goes on with a build that was stopped. `threads` (None: 1) and
                `max_memory` are then those of each unit of work.

        Raises:
            ConfigError: If a setting is out of range, or `cluster` comes without a `path` or with
                labels that are not in parts.
        """
        spec = TokenSpec(
            size=size,
            num_out=num_out,
            num_in=num_in,
            out_exponent=out_exponent,
            in_exponent=in_exponent,
            seed=seed,
            spill=spill,
            fill=fill,
        )
        chosen = None if nodes is None else _distinct_nodes(nodes, labels.num_nodes)
        layout = _layout_of(labels, spec, copies, bits, chosen)
        if cluster is not None:
            from dhilgt.cluster.tokens import build_tokens

            if path is None:
                raise ConfigError(
                    f"{argument('cluster')} goes with {argument('path')}: the machines write the "
                    "rows to a folder"
                )
            read = build_tokens(
                labels,
                layout,
                chosen,
                path,
                cluster=cluster,
                threads=threads,
                max_memory=max_memory,
                resume=resume,
                overwrite=overwrite,
                progress=progress,
            )
            return cls.load(path)._with(read)

        def draw(places: list[ShardPlace], keep: Callable[[Shard], None]) -> Traffic | None:
            sampler = _sampler_of(labels, spec, threads, max_memory, progress)
            with progress_bar("tokens", unit="rows", enabled=progress) as update:
                for place in places:
                    keep(place.draw(sampler, chosen, layout, update))
            return sampler.traffic if isinstance(sampler, RangeSampler) else None

        if path is None:
            _refuse_too_large(layout, memory_limit(max_memory))
            shards: list[Shard] = []
            traffic = draw(layout.shards(), shards.append)
            return cls(layout, shards, chosen)._with(traffic)
        # Opened before the heavy work, so that a bad path or a full disk is an error at once.
        with tokens_store.open_writer(
            path, layout, chosen, resume=resume, overwrite=overwrite
        ) as writer:
            remaining = [place for place in layout.shards() if not place.is_done(writer)]
            traffic = draw(remaining, lambda shard: shard.write(writer))
            writer.commit()
        return cls.load(path)._with(traffic)

    @classmethod
    def load(
        cls,
        path: "str | PathLike[str]",
        *,
        labels: HubLabels | None = None,
        verify: bool = False,
    ) -> "Tokens":
        """Open tokens that `build` wrote; the rows stay on disk and are mapped.

        Every byte is checked before it is used: at once where all rows take at most 100 MB, else
        file by file, when a row of it is first asked for.

        Args:
            path: The folder.
            labels: The labels they must have been drawn from; None for any.
            verify: Check every file now, however large.

        Raises:
            ArtifactError: If the folder does not hold complete tokens of a known format, or they
                were drawn from other labels.
        """
        tokens = cls(*tokens_store.load(path, verify=verify))
        tokens._path = Path(path).absolute()
        if labels is not None and tokens.labels_fingerprint != labels.fingerprint:
            raise ArtifactError(
                f"{tokens._path}: drawn from other labels, with fingerprint "
                f"{tokens.labels_fingerprint}; that of the labels given is {labels.fingerprint}; "
                "use the labels they were drawn from or build them again"
            )
        return tokens

    # ---- properties ----------------------------------------------------------------------------

    @property
    def plan(self) -> TokenLayout:
        """The layout: everything that determines the bytes of the rows."""
        return self._layout

    @property
    def spec(self) -> TokenSpec:
        """Shape of the rows and how their nodes are drawn."""
        return self._layout.spec

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self._layout.num_nodes

    @property
    def copies(self) -> int:
        """Rows per node."""
        return self._layout.copies

    @property
    def directed(self) -> bool:
        """Whether distances depend on the direction."""
        return self._layout.directed

    @property
    def bits(self) -> int:
        """Bits per stored distance."""
        return self._layout.bits

    @property
    def radius(self) -> int | None:
        """Radius of the labels these tokens were made from; None for full ones."""
        return self._layout.radius

    def is_exact(self, codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which distances of rows are exact; others are upper bounds, far or no path.

        Args:
            codes: `spd` of rows, square or packed.
        """
        return exact_codes(codes, self.radius)

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Indices of the nodes that have rows."""
        return np.arange(self.num_nodes) if self._nodes is None else self._nodes

    @property
    def graph_fingerprint(self) -> str:
        """Fingerprint of the graph these tokens were made from."""
        return self._layout.graph_fingerprint

    @property
    def labels_fingerprint(self) -> str:
        """Fingerprint of the labels these tokens were made from."""
        return self._layout.labels_fingerprint

    def check_fingerprint(self, graph_fingerprint: str) -> None:
        """Check that these tokens belong to the graph with this fingerprint.

        Args:
            graph_fingerprint: The `Graph.fingerprint` of the graph.

        Raises:
            ArtifactError: If they do not, with both fingerprints.
        """
        if graph_fingerprint != self.graph_fingerprint:
            raise ArtifactError(
                f"{self._path or 'these tokens'}: made from another graph, with fingerprint "
                f"{self.graph_fingerprint}; that of the graph given is {graph_fingerprint}; use "
                "the graph they were made from or build them again"
            )

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(shard.nbytes for shard in self._shards)

    @property
    def traffic(self) -> Traffic | None:
        """What `build` read of labels in parts; None for other labels and after `load`."""
        return self._traffic

    def __len__(self) -> int:
        return self._layout.num_rows

    def __reduce__(self) -> "str | tuple[Any, ...]":
        """Pickle the path instead of rows on disk: a worker process maps them again."""
        if self._path is not None:
            return Tokens.load, (self._path,)
        return Tokens, (self._layout, self._shards, self._nodes)

    def __repr__(self) -> str:
        return (
            f"Tokens(rows={len(self)}, size={self.spec.size}, copies={self.copies}, "
            f"{self.nbytes / max(1, len(self)):.0f} bytes per row"
            f"{'' if self.radius is None else f', radius {self.radius}'})"
        )

    # ---- rows ----------------------------------------------------------------------------------

    def rows(self, nodes: Any, copy: int = 0) -> TokenRows:
        """Return the rows of nodes.

        Args:
            nodes: Node indices (see `Graph.index_of`).
            copy: Which of the node's rows, 0 to copies - 1.
        """
        ids, packed, _ = self.packed_rows(nodes, copy)
        return TokenRows(ids, unpack_distances(ids, packed, self.directed, num_threads(None)))

    def packed_rows(self, nodes: Any, copy: int = 0) -> PackedRows:
        """Return the rows of nodes with packed distances.

        Args:
            nodes: Node indices.
            copy: Which of the node's rows.
        """
        copy = whole_number("copy", copy, 0, self.copies - 1)
        at = self._positions(checked_nodes(nodes, self.num_nodes)) + copy * self._layout.num_egos
        return tokens_store.gather(self._layout, self._shards, at)

    def each_shard(self) -> "Iterator[Shard]":
        """Yield the shards in order, to read all rows once."""
        return (shard.checked() for shard in self._shards)

    def _with(self, traffic: Traffic | None) -> "Tokens":
        self._traffic = traffic
        return self

    def _positions(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._nodes is None:
            return nodes
        if self._sorted is None:
            order = np.argsort(self._nodes)
            self._sorted = self._nodes[order], order
        known, order = self._sorted
        at = np.minimum(np.searchsorted(known, nodes), max(0, len(known) - 1))
        missing = np.flatnonzero(known[at] != nodes) if len(known) else np.arange(len(nodes))
        if missing.size:
            raise GraphError(
                f"node {nodes[missing[0]]} has no row: these tokens cover {len(known)} of "
                f"{self.num_nodes} nodes; build them for this node too, or use a TokenSampler"
            )
        positions: NDArray[np.int64] = order[at]
        return positions


def _distinct_nodes(nodes: Any, num_nodes: int) -> NDArray[np.int64]:
    checked = checked_nodes(nodes, num_nodes)
    values, counts = np.unique(checked, return_counts=True)
    if counts.size and counts.max() > 1:
        node = values[counts.argmax()]
        raise GraphError(f"nodes lists {node} {counts.max()} times; list each node once")
    return checked


def _sampler_of(
    labels: HubLabels,
    spec: TokenSpec,
    threads: int | None,
    max_memory: int | str | None,
    progress: bool,
) -> TokenSampler | RangeSampler:
    if labels.path is None:
        return TokenSampler(
            labels, threads=threads, progress=progress, max_memory=max_memory, **spec.to_dict()
        )
    labels.check_files()
    rows = MappedRows.open(labels.path)
    return RangeSampler(rows, threads=threads, max_memory=max_memory, **spec.to_dict())


def _layout_of(
    labels: HubLabels, spec: TokenSpec, copies: int, bits: int, nodes: NDArray[np.int64] | None
) -> TokenLayout:
    return TokenLayout(
        spec=spec,
        copies=copies,
        bits=bits,
        directed=labels.directed,
        num_nodes=labels.num_nodes,
        num_egos=labels.num_nodes if nodes is None else len(nodes),
        graph_fingerprint=labels.graph_fingerprint,
        labels_fingerprint=labels.fingerprint,
        nodes_fingerprint=None if nodes is None else tokens_store.fingerprint_of(nodes),
        radius=labels.radius,
    )


def _refuse_too_large(layout: TokenLayout, limit: int) -> None:
    needed = layout.num_rows * layout.row_bytes
    if needed > limit:
        raise MemoryLimitError(
            f"the rows take {format_bytes(needed)}, {format_bytes(limit)} are allowed; give a path "
            f"to keep them on disk, {advice('raise {}, ', 'max_memory')}or draw them on the fly "
            "with a TokenSampler"
        )
