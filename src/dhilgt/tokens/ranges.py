"""Token rows of a range of nodes, from packed labels of just the nodes that occur in them."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import MemoryLimitError, advice
from dhilgt.labels.mapped_rows import MappedRows
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.tokens.sampler import PackedRows, checked_nodes
from dhilgt.tokens.spec import PADDING, TokenSpec
from dhilgt.utils.checks import num_threads, whole_number
from dhilgt.utils.memory import format_bytes, memory_limit

_NO_MEMBER = 0xFFFFFFFF  # the native core's value for a slot without a member
# Of packed labels fetched at once: about 200 MB decoded, while most nodes of a graph of a million
# are fetched once for all rows of a shard.
_BATCH_BYTES = 48 << 20
_MOST_ROWS = 32_768
# Labels of no more packed bytes are decoded once for all batches, in about four times the memory.
_WHOLE_BYTES = 128 << 20
_BYTES_PER_ENTRY = 1.5  # of packed labels, about


class Traffic(NamedTuple):
    """What the batches needed of the labels, counted as if nothing were kept from one to the next.

    Attributes:
        num_rows: Token rows drawn.
        num_slots: Slots of these rows that hold a node.
        num_fetched: Labels and lists of holders that were read.
        num_bytes: Their packed bytes, with 8 for the place of each.
        seconds: Of drawing, added over all processes.
    """

    num_rows: int = 0
    num_slots: int = 0
    num_fetched: int = 0
    num_bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: object) -> "Traffic":
        """Return the sums."""
        if not isinstance(other, Traffic):
            return NotImplemented
        return Traffic(*(a + b for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]

    def __sub__(self, other: object) -> "Traffic":
        """Return the differences."""
        if not isinstance(other, Traffic):
            return NotImplemented
        return Traffic(*(a - b for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]


class RangeSampler:
    """Draws the same token rows as a `TokenSampler`, from labels of which it never holds all.

    For each batch of rows it reads the labels and holders of the egos, draws the members, then
    reads the labels of the members, each once. Its memory is that of a batch, whatever the size of
    the labels. Small labels are decoded once for all batches where rows have far more slots than
    there are labels.

    Args:
        labels: Rows of labels in parts.
        threads: Threads per call; None for every core.
        max_memory: Limit on the memory of a batch; None for what is free.
        **spec: Fields of `TokenSpec`.

    Attributes:
        traffic: What was read of the labels so far.

    Example:
        >>> import tempfile
        >>> from dhilgt import Graph
        >>> from dhilgt.labels.sharding import build_sharded
        >>> folder = tempfile.mkdtemp() + "/labels"
        >>> labels = build_sharded(Graph.from_edges([0, 1, 2], [1, 2, 3]), folder, num_ranges=2)
        >>> sampler = RangeSampler(MappedRows.open(folder), size=4)
        >>> sampler.packed_rows([0, 3]).ids.tolist()
        [[0, 1, -1, -1], [3, 2, 1, -1]]
        >>> sampler.traffic.num_rows, sampler.traffic.num_slots
        (2, 5)
    """

    def __init__(
        self,
        labels: MappedRows,
        *,
        threads: int | None = None,
        max_memory: int | str | None = None,
        **spec: Any,
    ) -> None:
        self.spec = TokenSpec(**spec)
        self.traffic = Traffic()
        self._labels = labels
        self._sides = ("in", "out") if labels.directed else ("in",)
        self._threads = num_threads(threads)
        self._limit = memory_limit(max_memory)
        self._batch_bytes = max(1, min(_BATCH_BYTES, self._limit // 8))
        label_bytes = 1 + _BYTES_PER_ENTRY * labels.num_entries / max(1, labels.num_nodes)
        self._batch_rows = _rows_within(self._batch_bytes / (label_bytes * self.spec.size))
        # Without a limit, other processes of the machine may decode as much.
        share = self._limit // (8 if max_memory is not None else 8 * num_threads(None))
        self._may_keep = labels.labels.num_bytes <= min(_WHOLE_BYTES, share)
        self._whole: _WholeLabels | None = None

    def packed_rows(
        self, nodes: Any, copy: int = 0, *, update: Callable[[int, int], None] | None = None
    ) -> PackedRows:
        """Return the rows of nodes with packed distances.

        Args:
            nodes: Node indices.
            copy: Number of the draw.
            update: Called with (done, total) after each batch.
        """
        copy = whole_number("copy", copy, 0, 2**63 - 1)
        egos = checked_nodes(nodes, self._labels.num_nodes).astype(np.uint32)
        ranks = self._labels.ranks_of(egos)
        count, size = len(egos), self.spec.size
        pairs = self.spec.num_pairs(self._labels.directed)
        rows = PackedRows(
            np.empty((count, size), np.int32),
            np.empty((count, pairs), np.uint8),
            np.empty((count, 2), np.uint16),
        )
        started = time.perf_counter()
        if self._may_keep and rows.ids.size > 2 * self._labels.num_nodes:
            self._keep_whole()
        done = 0
        while done < count:
            here = slice(done, min(count, done + self._batch_rows))
            try:
                drawn, traffic = self._draw(egos[here], ranks[here], copy)
            except _native.OutOfBudget as error:
                self._take_fewer(here.stop - done, error)
                continue
            rows.ids[here], rows.spd[here], rows.parts[here] = drawn
            done = here.stop
            if self._whole is None:
                self._adapt(traffic.num_bytes)
            self.traffic += traffic
            if update is not None:
                update(done, count)
        self.traffic += Traffic(seconds=time.perf_counter() - started)
        return rows

    def __repr__(self) -> str:
        return f"RangeSampler(nodes={self._labels.num_nodes}, {self.spec})"

    # ---- a batch -------------------------------------------------------------------------------

    def _draw(
        self, egos: NDArray[np.uint32], ranks: NDArray[np.uint32], copy: int
    ) -> tuple[PackedRows, Traffic]:
        labels, spec = self._labels, self.spec
        members, parts, traffic = self._members(egos, ranks, copy)
        distinct, slots = _native.distinct_members(labels.num_nodes, members)
        if self._whole is not None:
            packed = self._whole.rows.distances(spec.size, members, self._threads)
            traffic += self._whole.traffic(distinct)
        else:
            fetched = self._fetch(labels.packed_rows, distinct)
            packed = self._decoded(distinct, fetched).distances(spec.size, slots, self._threads)
            traffic += _traffic(fetched)
        padding = members == _NO_MEMBER
        members[padding] = 0
        ids = labels.node_at[members].astype(np.int32)
        ids[padding] = PADDING
        rows = len(egos)
        traffic += Traffic(rows, int(ids.size - np.count_nonzero(padding)))
        drawn = PackedRows(
            ids.reshape(rows, spec.size), packed.reshape(rows, -1), parts.reshape(rows, 2)
        )
        return drawn, traffic

    def _members(
        self, egos: NDArray[np.uint32], ranks: NDArray[np.uint32], copy: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint16], Traffic]:
        """Return the members of the rows as ranks, the parts of the rows, and what was read."""
        labels, spec = self._labels, self.spec
        hub_lists = self._fetch(labels.packed_rows, ranks)
        holder_lists = self._fetch(labels.packed_holders, ranks)
        members, parts = _native.draw_members(
            labels.num_nodes,
            labels.directed,
            ranks,
            egos,
            hub_lists,
            holder_lists,
            spec.size,
            spec.hubs_wanted,
            spec.holders_wanted,
            spec.out_exponent,
            spec.in_exponent,
            spec.seed,
            copy,
            spec.spill,
            spec.fill == "neighbors",
            self._threads,
        )
        return members, parts, _traffic(hub_lists) + _traffic(holder_lists)

    def _keep_whole(self) -> None:
        """Decode all labels for this and the batches to come, if there is memory for them."""
        self._may_keep = False  # it is kept, or does not fit
        ranks = np.arange(self._labels.num_nodes, dtype=np.uint32)
        fetched = self._fetch(self._labels.packed_rows, ranks)
        with contextlib.suppress(_native.OutOfBudget):
            sizes = [np.diff(offsets) for offsets in fetched[0::2]]
            self._whole = _WholeLabels(self._decoded(ranks, fetched), sizes)
            self._batch_rows = _MOST_ROWS

    def _decoded(
        self, ranks: NDArray[np.uint32], fetched: tuple[NDArray[Any], ...]
    ) -> _native.DecodedRows:
        labels = self._labels
        return _native.DecodedRows(
            labels.num_nodes,
            labels.directed,
            labels.bounded,
            ranks,
            fetched,
            self._threads,
            self._limit,
        )

    def _fetch(
        self, fetch: Callable[[NDArray[Any], str], PackedLabelRows], ranks: NDArray[np.uint32]
    ) -> tuple[NDArray[Any], ...]:
        """Return (offsets, records) of every side."""
        return tuple(array for side in self._sides for array in fetch(ranks, side))

    # ---- the size of batches; rows do not depend on it ------------------------------------------

    def _adapt(self, num_bytes: int) -> None:
        if num_bytes > self._batch_bytes:
            self._batch_rows = _rows_within(self._batch_rows / 2)
        elif num_bytes < self._batch_bytes / 2:
            self._batch_rows = _rows_within(self._batch_rows * 2)

    def _take_fewer(self, rows: int, error: MemoryError) -> None:
        if rows == 1:
            needed, allowed, _ = error.args
            raise MemoryLimitError(
                f"a token row needs {format_bytes(needed)} for the labels of its members, "
                f"{format_bytes(allowed)} are allowed; "
                f"{advice('raise {}, or ', 'max_memory')}use a smaller size"
            ) from None
        self._batch_rows = _rows_within(rows / 2)
        self._batch_bytes = max(1, self._batch_bytes // 2)


class _WholeLabels(NamedTuple):
    """All labels, decoded.

    Attributes:
        rows: By rank.
        sizes: Packed bytes of each, of every side.
    """

    rows: _native.DecodedRows
    sizes: list[NDArray[np.uint64]]

    def traffic(self, ranks: NDArray[np.uint32]) -> Traffic:
        """Return what it would be to read the labels of some ranks."""
        fetched = len(ranks) * len(self.sizes)
        return Traffic(0, 0, fetched, 8 * fetched + sum(int(of[ranks].sum()) for of in self.sizes))


def _rows_within(rows: float) -> int:
    return int(min(max(1.0, rows), _MOST_ROWS))


def _traffic(arrays: tuple[NDArray[Any], ...]) -> Traffic:
    fetched = sum(len(offsets) - 1 for offsets in arrays[0::2])
    return Traffic(0, 0, fetched, 8 * fetched + sum(records.nbytes for records in arrays[1::2]))
