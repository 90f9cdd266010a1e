"""Batches of a baseline: whole graphs, random blocks, rows of tokens, sampled neighbourhoods.

Every input of a batch has a method ``to(device)``, which the trainer calls through the batch.
Tensors and sparse matrices have it; two classes here add to it: a `DeviceCopy` is moved once and
kept, for inputs that all batches use; `LazyRows` are read from a `RowStore` when they are moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.errors import ConfigError, GraphError
from dhilgt.graph.checks import node_mask
from dhilgt.loader.checks import refuse_unlabelled
from dhilgt.loader.prefetch import Prefetcher
from dhilgt.utils.checks import as_array, whole_number
from dhilgt.utils.devices import free_bytes, this_process

Key = tuple[int, int, int]
"""Seed, epoch and index of a batch: all that the random draws for it depend on."""

Make = Callable[[NDArray[np.int64], Key], tuple[Any, ...]]
"""A function that returns the model's inputs for some nodes."""

_AHEAD = 2  # batches prepared before they are needed
_KEPT_BYTES = 1 << 30  # of inputs that a loader keeps between epochs


@dataclass(frozen=True)
class GraphBatch:
    """Some nodes with the inputs that a model classifies them by.

    Attributes:
        inputs: Arguments of the model, after `to`.
        labels: Classes of the nodes, [B] int64; None where unknown.
        nodes: Node indices, [B] int64.
        may_stay: Whether the inputs stay on the host if they do not fit on the device; the model
            then runs there.

    Example:
        >>> batch = GraphBatch((torch.ones(2, 3),), None, torch.tensor([4, 5]))
        >>> len(batch), batch.to("cpu").inputs[0].shape
        (2, torch.Size([2, 3]))
    """

    inputs: tuple[Any, ...]
    labels: Tensor | None
    nodes: Tensor
    may_stay: bool = False

    def __len__(self) -> int:
        return len(self.nodes)

    def to(self, device: Any, non_blocking: bool = False) -> GraphBatch:
        """Return the batch on a device."""
        labels = self.labels
        return GraphBatch(
            self._moved(device, non_blocking),
            None if labels is None else labels.to(device, non_blocking=non_blocking),
            self.nodes.to(device, non_blocking=non_blocking),
            self.may_stay,
        )

    def _moved(self, device: Any, non_blocking: bool) -> tuple[Any, ...]:
        """Return the inputs on a device, or on the host where they do not fit and may stay."""
        try:
            return tuple(part.to(device, non_blocking=non_blocking) for part in self.inputs)
        except torch.OutOfMemoryError:
            if not self.may_stay:
                raise
            return tuple(part.to("cpu") for part in self.inputs)


@dataclass(frozen=True)
class KeptBatch(GraphBatch):
    """A batch of every epoch: what it has is moved to a device once, except rows of a store.

    Example:
        >>> batch = KeptBatch.of(GraphBatch((torch.ones(2, 3),), None, torch.tensor([4, 5])))
        >>> batch.to("cpu").inputs[0] is batch.to("cpu").inputs[0]
        True
    """

    copies: dict[torch.device, GraphBatch] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: GraphBatch) -> KeptBatch:
        """Return the same batch, to be used more than once."""
        kept = (LazyRows, DeviceCopy)
        inputs = tuple(
            part if isinstance(part, kept) else DeviceCopy(part) for part in batch.inputs
        )
        return cls(inputs, batch.labels, batch.nodes, batch.may_stay)

    def to(self, device: Any, non_blocking: bool = False) -> GraphBatch:
        """Return the batch on a device."""
        device = torch.device(device)
        if device not in self.copies:
            bare = GraphBatch((), self.labels, self.nodes, self.may_stay)
            # Training cannot use a tensor created in inference mode.
            with torch.inference_mode(False):
                self.copies[device] = bare.to(device, non_blocking)
        return replace(self.copies[device], inputs=self._moved(device, non_blocking))


class DeviceCopy:
    """An input that is moved to a device once, and kept there and on the host.

    Example:
        >>> kept = DeviceCopy(torch.ones(2))
        >>> kept.to("cpu") is kept.to("cpu")
        True
    """

    @classmethod
    def of(cls, part: Any) -> DeviceCopy:
        """Return an input as one that is kept, if it is not one."""
        return part if isinstance(part, cls) else cls(part)

    def __init__(self, part: Any) -> None:
        self._host = part
        self._copies: dict[torch.device, Any] = {}

    def to(self, device: Any, non_blocking: bool = False) -> Any:
        """Return the input on a device."""
        device = torch.device(device)
        if device not in self._copies:
            # Training cannot use a tensor created in inference mode.
            with torch.inference_mode(False):
                self._copies[device] = self._host.to(device, non_blocking=non_blocking)
        return self._copies[device]


class RowStore:
    """One row per node on the host, and a copy on a GPU that has twice that memory free.

    Args:
        rows: [n, ...].

    Example:
        >>> store = RowStore(torch.eye(3))
        >>> store.rows(np.array([2])).to("cpu").tolist()
        [[0.0, 0.0, 1.0]]
    """

    def __init__(self, rows: Tensor) -> None:
        self.host = rows
        self._resident: dict[torch.device, Tensor | None] = {}

    def rows(self, nodes: NDArray[np.int64]) -> LazyRows:
        """Return the rows of some nodes, which are read when they are moved."""
        return LazyRows(self, torch.from_numpy(nodes))

    def take(self, nodes: Tensor, device: torch.device, non_blocking: bool) -> Tensor:
        """Return the rows of some nodes on a device."""
        if device.type != "cuda":
            return self.host.index_select(0, nodes).to(device)
        if device not in self._resident:
            fits = 2 * self.host.nbytes < (free_bytes(device) or 0)
            with torch.inference_mode(False):
                self._resident[device] = self.host.to(device) if fits else None
        resident = self._resident[device]
        if resident is not None:
            return resident.index_select(0, nodes.to(device, non_blocking=non_blocking))
        taken = self.host.index_select(0, nodes).pin_memory()
        return taken.to(device, non_blocking=non_blocking)


@dataclass(frozen=True)
class LazyRows:
    """Rows of a store that are not read yet."""

    store: RowStore
    nodes: Tensor

    def to(self, device: Any, non_blocking: bool = False) -> Tensor:
        """Return the rows on a device."""
        return self.store.take(self.nodes, torch.device(device), non_blocking)


def chosen_nodes(nodes: Any, count: int) -> NDArray[np.int64]:
    """Return node indices from a mask or from indices; all nodes from None."""
    if nodes is None:
        return np.arange(count)
    array = as_array(nodes)
    mask = node_mask(array, count, "nodes")
    chosen = np.flatnonzero(mask) if array.dtype == np.bool_ else array.astype(np.int64)
    if chosen.size == 0:
        raise GraphError("nodes selects no node; check the mask, or pass None for all")
    return chosen


class _EpochLoader:
    """The part of the trainer's loader protocol that does not depend on how batches are made."""

    def __init__(
        self,
        nodes: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        seed: int,
        on_epoch: Callable[[int], None] | None,
    ) -> None:
        processes = this_process().world_size
        if processes > 1:
            raise ConfigError(
                f"baselines train in one process, not in {processes}; start without torchrun, "
                "one per GPU"
            )
        if labels is not None:
            refuse_unlabelled(nodes, labels)
        self._nodes, self._labels = nodes, labels
        self.seed, self.epoch = seed, 0
        self._on_epoch = on_epoch

    @property
    def num_nodes(self) -> int:
        """Nodes of an epoch that have a loss or a score."""
        return len(self._nodes)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next batches."""
        self.epoch = epoch
        if self._on_epoch is not None:
            self._on_epoch(epoch)

    def _as_batch(
        self, inputs: tuple[Any, ...], nodes: NDArray[np.int64], may_stay: bool = False
    ) -> GraphBatch:
        labels = None if self._labels is None else torch.from_numpy(self._labels[nodes])
        return GraphBatch(inputs, labels, torch.from_numpy(nodes), may_stay)


class NodeLoader(_EpochLoader):
    """Batches of nodes whose inputs a function makes.

    Args:
        make: Returns the inputs of some nodes; depends only on the nodes and the key. Runs in a
            thread, ahead of the model.
        nodes: The nodes, [B] int64.
        labels: Class of each node of the graph; None if unknown.
        batch_size: Nodes per batch; None for all at once.
        shuffle: Whether to permute the nodes in each epoch.
        seed: Seed of the permutations and of the keys.
        fixed: Whether the inputs of a node never change. A single batch, and several in a fixed
            order that take no more than 1 GiB, are then made once, and stay on the device.
        on_epoch: Called with the number of each epoch that begins.
        may_stay: As for `GraphBatch`.
        threads: Batches that are made at once; more than one if `make` can run in several threads.

    Example:
        >>> loader = NodeLoader(lambda nodes, key: (torch.from_numpy(nodes),), np.arange(5),
        ...                     batch_size=2)
        >>> [batch.nodes.tolist() for batch in loader.iterate(1)]
        [[2, 3], [4]]
    """

    def __init__(
        self,
        make: Make,
        nodes: NDArray[np.int64],
        labels: NDArray[np.int64] | None = None,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        fixed: bool = False,
        on_epoch: Callable[[int], None] | None = None,
        may_stay: bool = False,
        threads: int = 1,
    ) -> None:
        super().__init__(nodes, labels, seed, on_epoch)
        self._make, self._threads = make, threads
        size = len(nodes) if batch_size is None else batch_size
        self.batch_size = whole_number("batch_size", size, 1, 2**31)
        self.shuffle = shuffle
        self._may_stay = may_stay
        self._keeps_batch = fixed and len(self) == 1
        self._keeps_all = fixed and not shuffle
        self._kept: list[GraphBatch] | None = None

    def __len__(self) -> int:
        return -(-len(self._nodes) // self.batch_size)

    def iterate(self, start_batch: int = 0) -> Iterator[GraphBatch]:
        """Return the batches of the epoch, from `start_batch` on."""
        if self._keeps_batch and self._kept is None:
            self._kept = [self._only_batch()]
        if self._kept is not None:
            return iter(self._kept[start_batch:])
        order = np.arange(len(self._nodes))
        if self.shuffle:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(len(order))
        steps = [
            (number, order[number * self.batch_size : (number + 1) * self.batch_size])
            for number in range(start_batch, len(self))
        ]

        def batch(step: tuple[int, NDArray[np.int64]]) -> GraphBatch:
            return self._batch(self._nodes[step[1]], step[0])

        def batches() -> Iterator[GraphBatch]:
            made = _in_order(batch, steps, self._threads)
            return self._kept_later(made) if self._keeps_all and start_batch == 0 else made

        return Prefetcher(batches, _AHEAD)

    def _only_batch(self) -> GraphBatch:
        with torch.inference_mode(False):
            batch = self._batch(self._nodes, 0)
        # Here also rows of a store stay on the device.
        return KeptBatch.of(replace(batch, inputs=tuple(map(DeviceCopy.of, batch.inputs))))

    def _kept_later(self, batches: Iterable[GraphBatch]) -> Iterator[GraphBatch]:
        """Return the batches, and keep them for the next epochs if they are small enough."""
        kept: list[GraphBatch] = []
        size = 0
        for batch in batches:
            size += sum(_bytes_of(part) for part in batch.inputs)
            if size <= _KEPT_BYTES:
                batch = KeptBatch.of(batch)
                kept.append(batch)
            yield batch
        if len(kept) == len(self):
            self._kept = kept

    def _batch(self, nodes: NDArray[np.int64], number: int) -> GraphBatch:
        inputs = self._make(nodes, (self.seed, self.epoch, number))
        return self._as_batch(inputs, nodes, self._may_stay)


def _bytes_of(part: Any) -> int:
    """Return the memory of an input; more than is ever kept if that is not known."""
    if isinstance(part, Tensor):
        return part.nbytes
    if isinstance(part, SparseMatrix):
        return part.offsets.nbytes + part.columns.nbytes + part.values.nbytes
    return part.nodes.nbytes if isinstance(part, LazyRows) else _KEPT_BYTES + 1


def _in_order(make: Callable[[Any], Any], steps: Iterable[Any], threads: int) -> Iterator[Any]:
    """Return `make` of each step, in the order of the steps, made by several threads.

    Example:
        >>> list(_in_order(lambda step: step + 1, range(4), 2))
        [1, 2, 3, 4]
    """
    if threads == 1:
        yield from map(make, steps)
        return
    with ThreadPoolExecutor(threads, "dhilgt-batches") as pool:
        waiting: deque[Future[Any]] = deque()
        for step in steps:
            waiting.append(pool.submit(make, step))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class PartitionLoader(_EpochLoader):
    """The whole graph in random blocks, drawn in each epoch; the loss is on their training nodes.

    All nodes are permuted and divided into blocks of about equal size, none above `block_size`. A
    batch is the subgraph induced by a block. A block without training nodes would have no loss: it
    gets one from a block with several, in exchange for one of its own nodes. If there are fewer
    training nodes than blocks, blocks without any are left out.

    Args:
        make: Returns the inputs from the edges within a block, its nodes (ascending), and the
            places of its training nodes in it.
        graph: The graph.
        nodes: The training nodes.
        labels: Class of each node of the graph.
        block_size: Largest number of nodes of a block.
        seed: Seed of the permutations.
        on_epoch: Called with the number of each epoch that begins.

    Example:
        >>> import dhilgt
        >>> graph = CleanGraph.of(dhilgt.generate(10, 2, num_classes=1, homophily=1, seed=1))
        >>> loader = PartitionLoader(lambda part, nodes, rows: (rows,), graph, np.arange(4),
        ...                          np.zeros(10, np.int64), block_size=4)
        >>> sorted(node for batch in loader.iterate() for node in batch.nodes.tolist())
        [0, 1, 2, 3]
    """

    def __init__(
        self,
        make: Callable[[CleanGraph, NDArray[np.int64], NDArray[np.int64]], tuple[Any, ...]],
        graph: CleanGraph,
        nodes: NDArray[np.int64],
        labels: NDArray[np.int64],
        *,
        block_size: int,
        seed: int = 0,
        on_epoch: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(nodes, labels, seed, on_epoch)
        self._make, self._graph = make, graph
        self._trains = np.zeros(graph.num_nodes, np.bool_)
        self._trains[nodes] = True
        self.block_size = whole_number("block_size", block_size, 1, 2**31)

    def __len__(self) -> int:
        return min(-(-self._graph.num_nodes // self.block_size), len(self._nodes))

    def blocks(self) -> list[NDArray[np.int64]]:
        """Return the nodes of each block of the epoch, ascending."""
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(self._graph.num_nodes)
        count = -(-len(order) // self.block_size)
        blocks = np.array_split(order, count)
        donors = [block for block in blocks if self._trains[block].sum() > 1]
        for block in blocks:
            if self._trains[block].any() or not donors:
                continue
            donor = donors[-1]
            places = np.flatnonzero(self._trains[donor])
            block[0], donor[places[0]] = donor[places[0]], block[0]
            if len(places) == 2:
                donors.pop()
        return [np.sort(block) for block in blocks if self._trains[block].any()]

    def iterate(self, start_batch: int = 0) -> Iterator[GraphBatch]:
        """Return the batches of the epoch, from `start_batch` on."""
        blocks = self.blocks()[start_batch:]
        return Prefetcher(lambda: map(self._batch, blocks), _AHEAD)

    def _batch(self, block: NDArray[np.int64]) -> GraphBatch:
        places = np.flatnonzero(self._trains[block])
        inputs = self._make(self._graph.induced(block), block, places)
        return self._as_batch(inputs, block[places])
