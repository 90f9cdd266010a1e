"""Token rows drawn on the fly, from hub labels."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, MemoryLimitError, advice
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.tokens.spec import TokenSpec, exact_codes
from dhilgt.utils.checks import num_threads, whole_number
from dhilgt.utils.memory import format_bytes, memory_limit
from dhilgt.utils.progress import progress_bar


class TokenRows(NamedTuple):
    """Rows of some nodes.

    Attributes:
        ids: Node indices, [b, size] int32; the ego first, then hubs, holders and padding (-1).
        spd: Distances of all pairs, [b, size, size] uint8, row = source: 0 to 253 exact, 254 far,
            255 no path or padding. From labels with a radius the longer distances are upper bounds
            (see `TokenSampler.is_exact`), and nodes that share no hub are far.
    """

    ids: NDArray[np.int32]
    spd: NDArray[np.uint8]


class PackedRows(NamedTuple):
    """Rows of some nodes, distances packed.

    Attributes:
        ids: Node indices, [b, size] int32; -1 = padding.
        spd: [b, pairs] uint8: the distance from slot j to slot i > j stands at
            i * (i - 1) / 2 + j; on directed graphs the distances from i to j follow in the same
            order.
        parts: Numbers of hubs and of holders that follow the ego, [b, 2] uint16.
    """

    ids: NDArray[np.int32]
    spd: NDArray[np.uint8]
    parts: NDArray[np.uint16]


class TokenSampler:
    """Draws the token rows of any nodes on request, storing nothing.

    The row of a node depends on (seed, copy, node) alone: not on the batch, the threads or the
    machine. A new `copy` is a new draw, so every epoch can use new tokens.

    Args:
        labels: The hub labels of the graph; kept in memory, decoded if they were mapped.
        threads: Threads per call; None for every core.
        progress: Show a progress bar while the holders are gathered.
        max_memory: Limit on the memory beyond the labels; None for what is free.
        **spec: Fields of `TokenSpec`.

    Example:
        >>> from dhilgt import Graph, HubLabels
        >>> labels = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]), progress=False)
        >>> rows = TokenSampler(labels, size=4).rows([0, 3])
        >>> rows.ids.tolist(), rows.spd[0, 0].tolist()
        ([[0, 1, -1, -1], [3, 2, 1, -1]], [0, 1, 255, 255])
    """

    def __init__(
        self,
        labels: HubLabels,
        *,
        threads: int | None = None,
        progress: bool = True,
        max_memory: int | str | None = None,
        **spec: Any,
    ) -> None:
        self.spec = TokenSpec(**spec)
        self.num_nodes = labels.num_nodes
        self.directed = labels.directed
        self.graph_fingerprint = labels.graph_fingerprint
        self.labels_fingerprint = labels.fingerprint
        self.radius = labels.radius
        self._threads = num_threads(threads)
        self._ranks = labels.ranks
        limit = memory_limit(max_memory)
        with progress_bar("holders", unit="nodes", enabled=progress) as update:
            try:
                self._native = _native.Tokens(
                    labels.native,
                    labels.order.astype(np.uint32),
                    self._threads,
                    limit,
                    lambda done, total, *_: update(done, total or None),
                    bounded=labels.radius is not None,
                )
            except _native.OutOfBudget as error:
                way_out = f"{advice('raise {} or ', 'max_memory')}use a larger machine"
                raise _outgrown(error, way_out) from None
            update(self.num_nodes, self.num_nodes)

    @property
    def nbytes(self) -> int:
        """Memory beyond the labels."""
        return self._native.num_bytes

    def rows(self, nodes: Any, copy: int = 0) -> TokenRows:
        """Return the rows of nodes.

        Args:
            nodes: Node indices (see `Graph.index_of`).
            copy: Number of the draw, 0 to 2**63 - 1.
        """
        ids, packed, _ = self.packed_rows(nodes, copy)
        return TokenRows(ids, unpack_distances(ids, packed, self.directed, self._threads))

    def packed_rows(self, nodes: Any, copy: int = 0, *, update: Any = None) -> PackedRows:
        """Return the rows of nodes with packed distances: half the bytes, no unpacking.

        Args:
            nodes: Node indices.
            copy: Number of the draw.
            update: Called with (done, total) during the work.
        """
        ids, parts, packed = self._draw(nodes, copy, True, update)
        return PackedRows(ids, packed, parts)

    def ids(self, nodes: Any, copy: int = 0) -> NDArray[np.int32]:
        """Return the ids of the rows alone, which is much faster than with distances.

        Args:
            nodes: Node indices.
            copy: Number of the draw.
        """
        return self._draw(nodes, copy, False, None)[0]

    def is_exact(self, codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which distances of rows are exact; others are upper bounds, far or no path.

        Args:
            codes: `spd` of rows, square or packed.
        """
        return exact_codes(codes, self.radius)

    def with_seed(self, seed: int) -> "TokenSampler":
        """Return a sampler over the same labels with another seed; nothing is copied.

        Args:
            seed: The new seed of all draws.
        """
        other = object.__new__(TokenSampler)
        other.__dict__.update(self.__dict__)
        other.spec = replace(self.spec, seed=seed)
        return other

    def __repr__(self) -> str:
        return f"TokenSampler(nodes={self.num_nodes}, {self.spec})"

    def _draw(
        self, nodes: Any, copy: int, with_distances: bool, update: Any
    ) -> tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.uint8]]:
        spec = self.spec
        copy = whole_number("copy", copy, 0, 2**63 - 1)
        ranks = self._ranks[checked_nodes(nodes, self.num_nodes)]
        try:
            ids, parts, packed = self._native.rows(
                ranks,
                spec.size,
                spec.hubs_wanted,
                spec.holders_wanted,
                spec.out_exponent,
                spec.in_exponent,
                spec.seed,
                copy,
                spec.spill,
                spec.fill == "neighbors",
                with_distances,
                self._threads,
                None if update is None else lambda done, total, *_: update(done, total),
            )
        except _native.OutOfBudget as error:
            way_out = f"{advice('raise {}, or ', 'max_memory')}use fewer threads or a smaller size"
            raise _outgrown(error, way_out) from None
        rows, pairs = len(ranks), spec.num_pairs(self.directed) if with_distances else 0
        return ids.reshape(rows, spec.size), parts.reshape(rows, 2), packed.reshape(rows, pairs)


def unpack_distances(
    ids: NDArray[np.int32], packed: NDArray[np.uint8], directed: bool, threads: int = 1
) -> NDArray[np.uint8]:
    """Return [b, size, size] distances from packed ones: 0 on the diagonal, 255 for padding.

    Args:
        ids: [b, size], -1 = padding.
        packed: [b, pairs]; see `PackedRows`.
        directed: Whether both directions are packed.
        threads: Threads to use.
    """
    rows, size = ids.shape
    flat = _native.unpack_distances(
        np.ascontiguousarray(ids).reshape(-1),
        np.ascontiguousarray(packed).reshape(-1),
        size,
        directed,
        threads,
    )
    return flat.reshape(rows, size, size)


def checked_nodes(nodes: Any, num_nodes: int) -> NDArray[np.int64]:
    """Return node indices as an array, from indices or a boolean mask of all nodes."""
    array = np.atleast_1d(np.asarray(nodes))
    if array.ndim != 1:
        raise GraphError(f"nodes has shape {array.shape}; pass indices or one boolean per node")
    if array.dtype == np.bool_:
        if len(array) != num_nodes:
            raise GraphError(f"the mask covers {len(array)} nodes, the graph has {num_nodes}")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise GraphError(f"nodes holds {array.dtype}; pass node indices (see Graph.index_of)")
    outside = np.flatnonzero((array < 0) | (array >= num_nodes))
    if outside.size:
        raise GraphError(
            f"nodes[{outside[0]}] = {array[outside[0]]}; indices run from 0 to {num_nodes - 1}"
        )
    return array.astype(np.int64)


def _outgrown(error: MemoryError, way_out: str) -> MemoryLimitError:
    needed, allowed, _ = error.args
    return MemoryLimitError(
        f"tokens need {format_bytes(needed)} beyond the labels, "
        f"{format_bytes(allowed)} are allowed; {way_out}"
    )
