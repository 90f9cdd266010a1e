"""Batches of a baseline: whole graphs, blocks of one, rows of tokens, sampled pieces.

What a batch is made of has a method ``to(device)``, which the trainer calls through the batch:
tensors and sparse matrices have it, and the two kinds of parts here add something to it. `Kept` is
moved once and stays there, for inputs that every batch shares. `Rows` are taken out of a `RowStore`
where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.errors import ConfigError, GraphError
from dhilgt.graph.checks import as_array, node_mask
from dhilgt.loader.checks import refuse_unlabelled
from dhilgt.loader.prefetch import Prefetcher
from dhilgt.utils.checks import whole_number
from dhilgt.utils.devices import free_bytes, this_process

Key = tuple[int, int, int]
"""Seed, epoch and number of a batch: what random draws for it depend on, and nothing else."""

Make = Callable[[NDArray[np.int64], Key], tuple[Any, ...]]
"""Gives the model's inputs for some nodes."""

_AHEAD = 2


@dataclass(frozen=True)
class GraphBatch:
    """Some nodes with everything a model needs to classify them.

    Attributes:
        inputs: What the model is called with, once moved by `to`.
        labels: Classes of the nodes, [B] int64; None where not known.
        nodes: Node indices, [B] int64.
        may_stay: Whether the inputs stay on the host where the device is too small for them; the
            model then runs there.

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
        """Gives the batch on a device."""
        try:
            inputs = tuple(part.to(device, non_blocking=non_blocking) for part in self.inputs)
        except torch.OutOfMemoryError:
            if not self.may_stay:
                raise
            inputs = tuple(part.to("cpu") for part in self.inputs)
        labels = self.labels
        return GraphBatch(
            inputs,
            None if labels is None else labels.to(device, non_blocking=non_blocking),
            self.nodes.to(device, non_blocking=non_blocking),
            self.may_stay,
        )


class Kept:
    """A part that is moved to a device once, and kept there and on the host.

    Example:
        >>> kept = Kept(torch.ones(2))
        >>> kept.to("cpu") is kept.to("cpu")
        True
    """

    def __init__(self, part: Any) -> None:
        self._host = part
        self._there: dict[torch.device, Any] = {}

    def to(self, device: Any, non_blocking: bool = False) -> Any:
        """Gives the part on a device."""
        where = torch.device(device)
        if where not in self._there:
            # A copy made while scoring would be of no use to training.
            with torch.inference_mode(False):
                self._there[where] = self._host.to(where, non_blocking=non_blocking)
        return self._there[where]


class RowStore:
    """One row per node on the host; on a GPU with room for twice as much, there too.

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

    def rows(self, nodes: NDArray[np.int64]) -> Rows:
        """Gives the rows of some nodes, to be taken when they are moved."""
        return Rows(self, torch.from_numpy(nodes))

    def take(self, nodes: Tensor, device: torch.device, non_blocking: bool) -> Tensor:
        """Gives rows on a device."""
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
class Rows:
    """Rows of a store that are not yet taken out of it."""

    store: RowStore
    nodes: Tensor

    def to(self, device: Any, non_blocking: bool = False) -> Tensor:
        """Gives the rows on a device."""
        return self.store.take(self.nodes, torch.device(device), non_blocking)


def chosen_nodes(nodes: Any, count: int) -> NDArray[np.int64]:
    """Gives node indices from a mask or from indices; all nodes from None."""
    if nodes is None:
        return np.arange(count)
    given = as_array(nodes)
    mask = node_mask(given, count, "nodes")
    chosen = np.flatnonzero(mask) if given.dtype == np.bool_ else given.astype(np.int64)
    if chosen.size == 0:
        raise GraphError("nodes selects no node; check the mask, or pass None for all")
    return chosen


def alone() -> None:
    """Refuses to go on as one of several processes."""
    size = this_process().world_size
    if size > 1:
        raise ConfigError(
            f"baselines train in one process, not in {size}; start without torchrun, one per GPU"
        )


class NodeLoader:
    """Batches of nodes whose inputs a function makes, by the protocol that the trainer asks for.

    Args:
        make: Gives the inputs of some nodes; a function of the nodes and the key alone. Runs in a
            thread, ahead of the model.
        nodes: The nodes, [B] int64.
        labels: One class per node of the graph; None for none.
        batch_size: Nodes per batch; None for all at once.
        shuffle: Another order each epoch.
        seed: Of the orders and of the keys.
        fixed: Whether the inputs of a node are the same each time. A single batch in a fixed order
            is then made once, and stays on the device.
        on_epoch: Called with each epoch that begins.
        may_stay: As for `GraphBatch`.

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
    ) -> None:
        alone()
        self._make = make
        self._nodes = nodes
        self._labels = labels
        if labels is not None:
            refuse_unlabelled(nodes, labels)
        size = len(nodes) if batch_size is None else batch_size
        self.batch_size = whole_number("batch_size", size, 1, 2**31)
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        self._on_epoch = on_epoch
        self._may_stay = may_stay
        self._keeps = fixed and len(self) == 1
        self._only: GraphBatch | None = None

    @property
    def num_nodes(self) -> int:
        """Nodes of an epoch."""
        return len(self._nodes)

    def __len__(self) -> int:
        return -(-len(self._nodes) // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch whose batches come next."""
        self.epoch = epoch
        if self._on_epoch is not None:
            self._on_epoch(epoch)

    def iterate(self, start_batch: int = 0) -> Iterator[GraphBatch]:
        """Gives the batches of the epoch from one on."""
        if self._keeps:
            if self._only is None:
                with torch.inference_mode(False):
                    batch = self._batch(self._nodes, 0)
                kept = tuple(
                    part if isinstance(part, Kept) else Kept(part) for part in batch.inputs
                )
                self._only = GraphBatch(kept, batch.labels, batch.nodes, batch.may_stay)
            return iter([self._only][start_batch:])
        order = np.arange(len(self._nodes))
        if self.shuffle:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(len(order))
        steps = [
            (number, order[number * self.batch_size : (number + 1) * self.batch_size])
            for number in range(start_batch, len(self))
        ]
        return Prefetcher(
            lambda: (self._batch(self._nodes[places], number) for number, places in steps), _AHEAD
        )

    def _batch(self, nodes: NDArray[np.int64], number: int) -> GraphBatch:
        inputs = self._make(nodes, (self.seed, self.epoch, number))
        return GraphBatch(inputs, _labels_of(self._labels, nodes), torch.from_numpy(nodes),
                          self._may_stay)  # fmt: skip


class PartitionLoader:
    """The whole graph in random blocks, anew each epoch; the loss is on a block's training nodes.

    All nodes are permuted and cut into blocks of about equal size, none above `block_size`. A block
    learns from its induced subgraph. A block without training nodes would have no loss: it gets one
    from a block that has several, in exchange for one of its own nodes; where there are fewer
    training nodes than blocks, the blocks that stay without are left out.

    Args:
        make: Gives the inputs from the edges within a block, its nodes (ascending), and the places
            of its training nodes in it.
        graph: The graph.
        nodes: The training nodes.
        labels: One class per node of the graph.
        block_size: The most nodes of a block.
        seed: Of the permutations.
        on_epoch: Called with each epoch that begins.

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
        alone()
        refuse_unlabelled(nodes, labels)
        self._make, self._graph, self._labels = make, graph, labels
        self._nodes = nodes
        self._wanted = np.zeros(graph.num_nodes, np.bool_)
        self._wanted[nodes] = True
        self.block_size = whole_number("block_size", block_size, 1, 2**31)
        self.seed, self.epoch = seed, 0
        self._on_epoch = on_epoch

    @property
    def num_nodes(self) -> int:
        """Training nodes of an epoch."""
        return len(self._nodes)

    def __len__(self) -> int:
        return min(-(-self._graph.num_nodes // self.block_size), len(self._nodes))

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch whose blocks come next."""
        self.epoch = epoch
        if self._on_epoch is not None:
            self._on_epoch(epoch)

    def blocks(self) -> list[NDArray[np.int64]]:
        """Gives the nodes of each block of the epoch, ascending."""
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(self._graph.num_nodes)
        count = -(-len(order) // self.block_size)
        blocks = np.array_split(order, count)
        rich = [block for block in blocks if self._wanted[block].sum() > 1]
        for block in blocks:
            if self._wanted[block].any() or not rich:
                continue
            giver = rich[-1]
            given = np.flatnonzero(self._wanted[giver])
            block[0], giver[given[0]] = giver[given[0]], block[0]
            if len(given) == 2:
                rich.pop()
        return [np.sort(block) for block in blocks if self._wanted[block].any()]

    def iterate(self, start_batch: int = 0) -> Iterator[GraphBatch]:
        """Gives the batches of the epoch from one on."""
        blocks = self.blocks()[start_batch:]
        return Prefetcher(lambda: map(self._batch, blocks), _AHEAD)

    def _batch(self, block: NDArray[np.int64]) -> GraphBatch:
        places = np.flatnonzero(self._wanted[block])
        nodes = block[places]
        inputs = self._make(self._graph.induced(block), block, places)
        return GraphBatch(inputs, _labels_of(self._labels, nodes), torch.from_numpy(nodes))


def _labels_of(labels: NDArray[np.int64] | None, nodes: NDArray[np.int64]) -> Tensor | None:
    return None if labels is None else torch.from_numpy(labels[nodes])
