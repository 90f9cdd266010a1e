"""Token rows kept: in memory, or in shards on disk that are mapped, not read."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError, GraphError, MemoryLimitError, argument
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.sampler import (
    PackedRows,
    TokenRows,
    TokenSampler,
    checked_nodes,
    unpack_distances,
)
from dhilgt.tokens.spec import TokenSpec
from dhilgt.tokens.store import Plan, Shard
from dhilgt.utils.checks import num_threads, whole_number
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar


class Tokens:
    """The token rows of a graph's nodes, made once.

    `rows` gives what a `TokenSampler` with the same settings would, byte for byte.

    Example:
        >>> from dhilgt import Graph, HubLabels
        >>> labels = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]), progress=False)
        >>> tokens = Tokens.build(labels, size=4, progress=False)
        >>> tokens
        Tokens(rows=4, size=4, copies=1, 26 bytes per row)
        >>> tokens.rows([3]).ids.tolist()
        [[3, 2, 1, -1]]
    """

    def __init__(self, plan: Plan, shards: list[Shard], nodes: NDArray[np.int64] | None) -> None:
        """Takes finished parts; users call `build` or `load`."""
        self._plan = plan
        self._shards = shards
        self._nodes = nodes  # None: every node has rows
        self._sorted: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._path: Path | None = None  # where the rows are mapped from

    # ---- making and keeping --------------------------------------------------------------------

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
    ) -> "Tokens":
        """Gives the token rows of all nodes, or of some.

        Args:
            labels: The labels of the graph.
            size: Slots of a row, the ego's included.
            num_out: Hubs to draw; half of the slots when None (16 of 32).
            num_in: Holders to draw; the rest when None (15 of 32).
            out_exponent: A hub at distance d has weight d ** out_exponent.
            in_exponent: A holder at distance d has weight d ** in_exponent.
            copies: Rows to draw per node.
            seed: Key of all draws.
            spill: Give slots that one side cannot use to the other.
            fill: "neighbors" gives slots still free to neighbours not drawn.
            nodes: Indices or a mask; None for every node.
            bits: 8 keeps distances to 253; 4 halves the store and keeps distances to 13, anything
                longer becoming "far" (254).
            threads: Threads to use; None for every core.
            path: Folder to write to, shard by shard; None keeps the rows in memory.
            resume: Go on with a build that was interrupted; the result is the same byte for byte.
            overwrite: Replace tokens that are there.
            progress: Show a progress bar when standard error is a terminal.
            max_memory: Most memory the build may take beyond the labels; None for what is free.
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
        chosen = None if nodes is None else checked_nodes(nodes, labels.num_nodes)
        if chosen is not None:
            _refuse_repeats(chosen)
        plan = Plan(
            spec=spec,
            copies=copies,
            bits=bits,
            directed=labels.directed,
            num_nodes=labels.num_nodes,
            num_egos=labels.num_nodes if chosen is None else len(chosen),
            graph_fingerprint=labels.graph_fingerprint,
            labels_fingerprint=labels.fingerprint,
            nodes_fingerprint=None if chosen is None else tokens_store.fingerprint_of(chosen),
        )
        if path is None:
            _refuse_too_large(plan, memory_limit(max_memory))
        egos = np.arange(labels.num_nodes) if chosen is None else chosen
        # Bad paths and full disks are found here, before the heavy work.
        writer = None
        if path is not None:
            writer = tokens_store.open_writer(
                path, plan, chosen, resume=resume, overwrite=overwrite
            )
        try:
            sampler = TokenSampler(
                labels, threads=threads, progress=progress, max_memory=max_memory, **spec.to_dict()
            )
            shards = []
            with progress_bar("tokens", unit="rows", enabled=progress) as update:
                for shard in plan.shards():
                    if writer is not None and shard.is_done(writer):
                        continue
                    made = shard.make(sampler, egos, plan, update)
                    if writer is None:
                        shards.append(made)
                    else:
                        made.write(writer)
            if writer is None:
                return cls(plan, shards, chosen)
            writer.commit()
        finally:
            if writer is not None:
                writer.close()
        assert path is not None
        return cls.load(path)

    @classmethod
    def load(cls, path: "str | PathLike[str]", *, verify: bool = False) -> "Tokens":
        """Opens tokens that `build` wrote; the rows stay on disk and are mapped.

        Args:
            path: The folder.
            verify: Check every byte against its checksum first.

        Raises:
            ArtifactError: If the folder does not hold whole tokens of a known format.
        """
        tokens = cls(*tokens_store.load(path, verify=verify))
        tokens._path = Path(path).absolute()
        return tokens

    # ---- what there is -------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """Everything that determines the bytes of the rows."""
        return self._plan

    @property
    def spec(self) -> TokenSpec:
        """Shape and law of the rows."""
        return self._plan.spec

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self._plan.num_nodes

    @property
    def copies(self) -> int:
        """Rows per node."""
        return self._plan.copies

    @property
    def directed(self) -> bool:
        """Whether distances depend on the direction."""
        return self._plan.directed

    @property
    def bits(self) -> int:
        """Bits per stored distance."""
        return self._plan.bits

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Indices of the nodes that have rows."""
        return np.arange(self.num_nodes) if self._nodes is None else self._nodes

    @property
    def graph_fingerprint(self) -> str:
        """Fingerprint of the graph these tokens were made from."""
        return self._plan.graph_fingerprint

    @property
    def labels_fingerprint(self) -> str:
        """Fingerprint of the labels these tokens were made from."""
        return self._plan.labels_fingerprint

    def check_fingerprint(self, graph_fingerprint: str) -> None:
        """Makes sure that these tokens belong to the graph with this fingerprint.

        Args:
            graph_fingerprint: As `Graph.fingerprint` gives it.

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

    def __len__(self) -> int:
        return self._plan.num_rows

    def __reduce__(self) -> "str | tuple[Any, ...]":
        """Rows on disk are mapped again by whoever gets a copy, such as a worker process."""
        if self._path is not None:
            return Tokens.load, (self._path,)
        return Tokens, (self._plan, self._shards, self._nodes)

    def __repr__(self) -> str:
        return (
            f"Tokens(rows={len(self)}, size={self.spec.size}, copies={self.copies}, "
            f"{self.nbytes / max(1, len(self)):.0f} bytes per row)"
        )

    # ---- rows ----------------------------------------------------------------------------------

    def rows(self, nodes: Any, copy: int = 0) -> TokenRows:
        """Gives the rows of nodes.

        Args:
            nodes: Node indices (see `Graph.index_of`).
            copy: Which of the node's rows, 0 to copies - 1.
        """
        ids, packed, _ = self.packed_rows(nodes, copy)
        return TokenRows(ids, unpack_distances(ids, packed, self.directed, num_threads(None)))

    def packed_rows(self, nodes: Any, copy: int = 0) -> PackedRows:
        """Gives the rows of nodes with packed distances.

        Args:
            nodes: Node indices.
            copy: Which of the node's rows.
        """
        copy = whole_number("copy", copy, 0, self.copies - 1)
        at = self._positions(checked_nodes(nodes, self.num_nodes)) + copy * self._plan.num_egos
        return tokens_store.gather(self._plan, self._shards, at)

    def each_shard(self) -> "list[Shard]":
        """Gives the shards in order, for those who read everything once."""
        return self._shards

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
        found: NDArray[np.int64] = order[at]
        return found


def _refuse_repeats(nodes: NDArray[np.int64]) -> None:
    values, counts = np.unique(nodes, return_counts=True)
    if counts.size and counts.max() > 1:
        twice = values[counts.argmax()]
        raise GraphError(f"nodes lists {twice} {counts.max()} times; list each node once")


def _refuse_too_large(plan: Plan, limit: int) -> None:
    wanted = plan.num_rows * plan.row_bytes
    if wanted > limit:
        raise MemoryLimitError(
            f"the rows take {format_bytes(wanted)}, {format_bytes(limit)} are allowed; give a path "
            f"to keep them on disk, raise {argument('max_memory')}, or draw them on the fly with a "
            "TokenSampler"
        )
