"""The loader: batches of token rows on a device, for a mask or a list of nodes."""

import copy as copying
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.graph import checks
from dhilgt.loader import collate
from dhilgt.loader.batch import TokenBatch
from dhilgt.loader.checks import (
    checked_copies,
    checked_egos,
    checked_known,
    checked_rank,
    checked_resident,
    refuse_unlabelled,
)
from dhilgt.loader.ego_rows import DeviceEgoRows, open_ego_rows
from dhilgt.loader.feature_rows import DeviceFeatures, open_features
from dhilgt.loader.prefetch import Prefetcher
from dhilgt.loader.whole_graph import WholeGraph, open_adjacency
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.tokens.single import TokenSource
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.checks import whole_number
from dhilgt.utils.devices import choose_device

_LARGEST_BATCH = 1 << 24
_MOST_AHEAD = 64
_MOST_KEPT = 4  # copies of one batch that are kept as they are
_KEPT_BYTES = 1 << 28


class TokenLoader:
    """Yields batches of token rows with features and labels.

    Batches depend on (seed, epoch) and on nodes, batch size, shuffling and processes, not on where
    they are made: they are the same for any `resident` and `prefetch`, and for stored tokens as for
    a sampler with the same settings.

    Iterating twice yields the same batches twice; call `set_epoch` in between for another order
    and, with `fresh`, other tokens.

    Args:
        tokens: Stored `Tokens`, or a `TokenSampler` that makes rows when they are needed.
        features: One row per node of the graph: NumPy array, mapped array, SciPy sparse matrix or
            torch tensor. Mapped files are read row by row, sparse rows stay sparse (CSR).
        labels: One class per node, -1 = unlabelled; None for inference.
        nodes: The egos: a boolean mask or indices; None for all nodes with rows.
        batch_size: Egos per batch and process.
        shuffle: Another order each epoch.
        seed: Key of the orders.
        device: Where batches are made available; "auto" takes a GPU if there is one.
        resident: True keeps features and rows on the device and builds batches there, "features"
            keeps features alone and sends rows batch by batch, False keeps nothing. "auto" chooses
            on a GPU what takes less than half of its free memory, on the CPU False, where files are
            mapped anyway.
        fresh: Draw new rows each epoch; needs a sampler.
        copies: Rows per node to use: one after the other, epoch by epoch, in training; all of
            them, averaged, in inference (`averaged_logits`).
        drop_last: Leave out the last batch if it is not full.
        prefetch: Batches made ahead in a thread; 0 makes each one when it is asked for.
        rank: Number of this process; None for that of torch.distributed, or of the environment.
        world_size: Number of processes; likewise.
        known: The class of each node that a model with `label_inputs` may see, -1 for all other
            nodes: classes of training nodes alone. None for models without `label_inputs`.
        ego: The sparse rows that a model with `ego_channels` takes for each ego: a SciPy sparse
            matrix whose rows v * groups to (v + 1) * groups - 1 are those of node v. None for
            models without.
        adjacency: The weights of all edges that a model with `message_layers` takes: a symmetric
            SciPy sparse matrix, as `dhilgt.features.adjacency` returns it. Features of all nodes
            and the matrix stay on the device then. None for models without.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(100, 6, seed=1, num_features=8)
        >>> labels = dhilgt.HubLabels.build(graph, progress=False)
        >>> tokens = dhilgt.Tokens.build(labels, size=4, progress=False)
        >>> loader = TokenLoader(tokens, graph.features, graph.labels, batch_size=64)
        >>> [len(batch) for batch in loader]
        [64, 36]
        >>> x, index, spd = next(iter(loader)).inputs
        >>> x.shape[1], tuple(index.shape), tuple(spd.shape)
        (8, (64, 4), (64, 4, 4))
    """

    def __init__(
        self,
        tokens: TokenSource,
        features: Any,
        labels: Any = None,
        *,
        nodes: Any = None,
        batch_size: int = 1024,
        shuffle: bool = False,
        seed: int = 0,
        device: "str | torch.device" = "cpu",
        resident: bool | Literal["auto", "features"] = "auto",
        fresh: bool = False,
        copies: int = 1,
        drop_last: bool = False,
        prefetch: int = 2,
        rank: int | None = None,
        world_size: int | None = None,
        known: Any = None,
        ego: Any = None,
        adjacency: Any = None,
    ) -> None:
        if not isinstance(tokens, TokenSource):
            raise TypeError(f"tokens is a {type(tokens).__name__}; pass Tokens or a TokenSampler")
        self.tokens = tokens
        self.batch_size = whole_number("batch_size", batch_size, 1, _LARGEST_BATCH)
        self.shuffle = bool(shuffle)
        self.seed = whole_number("seed", seed, 0, 2**63 - 1)
        self.device = choose_device(device)
        self.fresh = bool(fresh)
        self.copies = checked_copies(tokens, copies, self.fresh)
        self.drop_last = bool(drop_last)
        self.prefetch = whole_number("prefetch", prefetch, 0, _MOST_AHEAD)
        self.rank, self.world_size = checked_rank(rank, world_size)
        self.epoch = 0
        self._fixed_copy: int | None = None
        self._nodes = checked_egos(tokens, nodes)
        self._labels: NDArray[np.int64] | None = None
        self.class_names: tuple[str, ...] | None = None
        if labels is not None:
            self._labels, self.class_names = checks.labels(labels, tokens.num_nodes)
            refuse_unlabelled(self._nodes, self._labels)
        self._known = None if known is None else checked_known(known, tokens.num_nodes)
        self._ego = None if ego is None else open_ego_rows(ego, tokens.num_nodes)
        self._adjacency = None if adjacency is None else open_adjacency(adjacency, tokens.num_nodes)
        if self._adjacency is not None and known is not None:
            raise ValueError(
                "known classes and an adjacency matrix are passed: messages would bring the class "
                "of a node back to it; leave out one of them"
            )
        self._refuse_no_batches()
        self._features = open_features(features, tokens.num_nodes)
        self.resident = checked_resident(
            resident, self.device, self._resident_bytes(True), self._resident_bytes(False)
        )
        self._device_features: DeviceFeatures | None = None
        self._device_labels: torch.Tensor | None = None
        self._device_known: torch.Tensor | None = None
        self._device_ego: DeviceEgoRows | None = None
        self._device_rows: collate.DeviceRows | None = None
        self._whole: WholeGraph | None = None
        if self._adjacency is not None:
            self._whole = WholeGraph(
                self._features.to(self.device), self._adjacency.to(self.device)
            )
            self._wait_for_copies()
        self._kept: dict[int, TokenBatch] = {}
        if self.resident:
            self._move()

    # ---- sizes ---------------------------------------------------------------------------------

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Indices of the egos, in the order of an epoch without shuffling."""
        return self._nodes

    @property
    def num_nodes(self) -> int:
        """Egos of an epoch, over all processes."""
        whole = self.batch_size * self.world_size
        return len(self._nodes) // whole * whole if self.drop_last else len(self._nodes)

    @property
    def num_channels(self) -> int:
        """Width of the features."""
        return self._features.num_channels

    @property
    def num_classes(self) -> int:
        """Largest label of any node + 1, or the number of class names; 0 without labels."""
        if self.class_names is not None:
            return len(self.class_names)
        return 0 if self._labels is None else int(self._labels.max(initial=-1)) + 1

    def __len__(self) -> int:
        steps = self._num_steps()
        return steps - (len(self._part(steps - 1)) == 0)  # only the last part can be empty

    def total(self, batch: int) -> int:
        """Return the number of egos of a batch over all processes, to weight gradients with.

        Args:
            batch: Number of the batch in the epoch.
        """
        whole = self.batch_size * self.world_size
        return max(0, min(whole, self.num_nodes - batch * whole))

    def __repr__(self) -> str:
        kind = "sampler" if isinstance(self.tokens, TokenSampler) else "stored"
        return (
            f"TokenLoader({self.num_nodes:,} nodes, {len(self):,} batches of {self.batch_size:,}, "
            f"{kind} tokens, device={self.device}, resident={self.resident})"
        )

    # ---- iterating -----------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch: the order of the egos and, with `fresh` or `copies`, their rows.

        Args:
            epoch: Number of the epoch, from 0.
        """
        self.epoch = whole_number("epoch", epoch, 0, 2**62)

    def __iter__(self) -> Iterator[TokenBatch]:
        return self.iterate()

    def iterate(self, start_batch: int = 0) -> Iterator[TokenBatch]:
        """Yield the batches of the epoch from one on, the same as in a whole epoch.

        Args:
            start_batch: Number of the first batch, 0 to len(loader).
        """
        copy = self._copy_now()
        steps = self._steps(start_batch)
        if len(steps) == 1 and self._is_kept():
            return self._from_kept(steps[0], copy)
        return self._run([(step, copy) for step in steps])

    def iterate_copies(self, start_batch: int = 0) -> Iterator[list[TokenBatch]]:
        """Yield lists of `copies` batches: the same egos with each of their rows.

        Args:
            start_batch: Number of the first batch.
        """
        copies = range(self.copies) if self._fixed_copy is None else [self._fixed_copy]
        steps = self._steps(start_batch)
        batches = self._run([(step, copy) for step in steps for copy in copies])
        return _grouped(batches, len(copies))

    def with_copy(self, copy: int) -> "TokenLoader":
        """Return a loader that always takes one copy of the rows; it shares everything else.

        Args:
            copy: Which copy: below `copies` for stored tokens, any for a sampler.
        """
        most = self.tokens.copies - 1 if isinstance(self.tokens, Tokens) else 2**62
        other = copying.copy(self)
        other._fixed_copy = whole_number("copy", copy, 0, most)
        other.copies, other.fresh = 1, False
        return other

    def with_batch_size(self, batch_size: int) -> "TokenLoader":
        """Return a loader with another batch size; it shares everything else.

        Args:
            batch_size: Egos per batch and process.
        """
        other = copying.copy(self)
        other.batch_size = whole_number("batch_size", batch_size, 1, _LARGEST_BATCH)
        other._refuse_no_batches()
        return other

    # ---- the order -----------------------------------------------------------------------------

    def _copy_now(self) -> int:
        if self._fixed_copy is not None:
            return self._fixed_copy
        return self.epoch if self.fresh else self.epoch % self.copies

    def _order(self) -> NDArray[np.int64]:
        """Return the egos' positions in the order of the epoch, the same in every process."""
        if not self.shuffle:
            return np.arange(len(self._nodes))
        return np.random.default_rng([self.seed, self.epoch]).permutation(len(self._nodes))

    def _num_steps(self) -> int:
        return -(-self.num_nodes // (self.batch_size * self.world_size))

    def _part(self, step: int) -> range:
        """Return this process's part of a step: `batch_size` egos, of the last step its fraction.

        The parts of all processes make up the batch that a single process with the same global
        batch size would take.
        """
        total, first = self.total(step), step * self.batch_size * self.world_size
        return range(
            first + total * self.rank // self.world_size,
            first + total * (self.rank + 1) // self.world_size,
        )

    def _steps(self, start_batch: int) -> list[NDArray[np.int64]]:
        start = whole_number("start_batch", start_batch, 0, len(self))
        order = self._order()
        parts = [self._part(step) for step in range(start, len(self))]
        return [order[part.start : part.stop] for part in parts]

    # ---- making batches ------------------------------------------------------------------------

    def _run(self, jobs: list[tuple[NDArray[np.int64], int]]) -> Iterator[TokenBatch]:
        is_one = len(jobs) == 1 and self.device.type == "cpu"  # a thread would only be waited for
        if self.prefetch == 0 or not jobs or is_one:
            return self._made(jobs, self._maker())
        if self.device.type != "cuda":
            return Prefetcher(lambda: self._made(jobs, self._maker()), self.prefetch)
        ahead = Prefetcher(lambda: self._made_on_stream(jobs), self.prefetch)
        return _handed_over(ahead, self.device)

    def _is_kept(self) -> bool:
        """Return whether all rows are one small batch, which is made only once."""
        at_hand = self._device_rows is not None or self.device.type == "cpu"
        return (
            at_hand
            and not self.fresh
            and len(self._nodes) <= self.batch_size
            and self.world_size == 1
            and self.copies <= _MOST_KEPT
            and len(self._nodes) * self.tokens.spec.size**2
            + (self._features.nbytes if self._whole is None else 0)
            + self._ego_bytes()
            <= _KEPT_BYTES
        )

    def _from_kept(self, places: NDArray[np.int64], copy: int) -> Iterator[TokenBatch]:
        """Yield the one batch in the order of `places`; its distinct nodes are always the same."""
        whole = self._kept.get(copy)
        if whole is None:
            with torch.inference_mode(False):  # another epoch may learn from it
                whole = self._maker()(np.arange(len(self._nodes)), self._nodes, copy)
            if self.device.type == "cuda":  # later epochs may read it on another stream
                torch.cuda.current_stream(self.device).synchronize()
            self._kept[copy] = whole
        if self.shuffle:
            at = self._place(torch.from_numpy(places))
            x, index, spd, *more = whole.inputs
            labels = None if whole.labels is None else whole.labels.index_select(0, at)
            nodes = whole.nodes.index_select(0, at)
            if self._device_ego is not None:
                stored = more[1].values().numel()  # known: the device need not be waited for
                more[1] = self._device_ego.take(nodes, stored)
            elif self._ego is not None:
                more[1] = self._ego.take(self._nodes[places]).build(self._place)
            rows = (x, index.index_select(0, at), spd.index_select(0, at), *more)
            whole = TokenBatch(rows, labels, nodes, whole.filled)
        yield whole

    def _made(
        self, jobs: list[tuple[NDArray[np.int64], int]], make: "Maker"
    ) -> Iterator[TokenBatch]:
        for places, copy in jobs:
            yield make(places, self._nodes[places], copy)

    def _made_on_stream(
        self, jobs: list[tuple[NDArray[np.int64], int]]
    ) -> Iterator[tuple[TokenBatch, torch.cuda.Event]]:
        torch.cuda.set_device(self.device)  # a new thread begins on the first
        stream = _batch_stream(self.device)
        make = self._maker()
        for places, copy in jobs:
            with torch.cuda.stream(stream):
                batch = make(places, self._nodes[places], copy)
                done = torch.cuda.Event()  # type: ignore[no-untyped-call]
                done.record(stream)
            yield batch, done

    def _maker(self) -> "Maker":
        place = self._place
        if self._device_features is None:
            return collate.on_host(
                self.tokens,
                self._features,
                self._labels,
                self.tokens.num_nodes,
                place,
                self.device,
                self._known,
                self._ego,
                self._whole,
            )
        return collate.on_device(
            self._rows,
            self._device_features,
            self._device_labels,
            self.tokens.directed,
            place,
            self._device_known,
            self._device_ego,
            self._whole,
        )

    def _rows(
        self, places: NDArray[np.int64], nodes: NDArray[np.int64], copy: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self._device_rows is not None:
            return self._device_rows.gather(self._place(torch.from_numpy(places)), copy)
        ids, packed, _ = self.tokens.packed_rows(nodes, copy)
        return self._place(torch.from_numpy(ids)), self._place(torch.from_numpy(packed))

    def _place(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.device.type == "cpu":
            return tensor
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    # ---- memory --------------------------------------------------------------------------------

    def _resident_bytes(self, rows: bool) -> int:
        spec = self.tokens.spec
        row = 4 * spec.size + spec.num_pairs(self.tokens.directed)
        row_bytes = len(self._nodes) * self.copies * row if rows and not self.fresh else 0
        known_bytes = 0 if self._known is None else self._known.nbytes
        edge_bytes = 0 if self._adjacency is None else self._adjacency.nbytes
        other_bytes = known_bytes + self._ego_bytes() + edge_bytes + 8 * self.tokens.num_nodes
        return self._features.nbytes + row_bytes + other_bytes

    def _ego_bytes(self) -> int:
        return 0 if self._ego is None else self._ego.nbytes

    def _move(self) -> None:
        self._device_features = self._features.to(self.device)
        if self._labels is not None:
            self._device_labels = torch.tensor(self._labels, device=self.device)
        if self._known is not None:
            self._device_known = torch.tensor(self._known, device=self.device)
        if self._ego is not None:
            self._device_ego = self._ego.to(self.device)
        if not self.fresh and self.resident is True:
            self._device_rows = collate.DeviceRows(self.tokens, self._nodes, self.device)
        self._wait_for_copies()

    def _wait_for_copies(self) -> None:
        if self.device.type == "cuda":  # batches are made on other streams
            torch.cuda.synchronize(self.device)

    def _refuse_no_batches(self) -> None:
        if self.num_nodes == 0:
            raise ValueError(
                f"drop_last leaves no batch: {len(self._nodes)} nodes are fewer than batch_size "
                f"{self.batch_size} x {self.world_size} processes; use a smaller batch_size"
            )


Maker = Callable[[NDArray[np.int64], NDArray[np.int64], int], TokenBatch]


@cache
def _batch_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which batches are made, so that they do not wait for the model.

    One for all loaders: PyTorch has 32 streams and hands them out in turn, so that a new one for
    every epoch would sooner or later be one that other code is using.
    """
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


def _grouped(batches: Iterator[TokenBatch], count: int) -> Iterator[list[TokenBatch]]:
    group = []
    for batch in batches:
        group.append(batch)
        if len(group) == count:
            yield group
            group = []


def _handed_over(
    ahead: "Prefetcher[tuple[TokenBatch, torch.cuda.Event]]", device: torch.device
) -> Iterator[TokenBatch]:
    try:
        for batch, done in ahead:
            stream = torch.cuda.current_stream(device)
            stream.wait_event(done)
            for tensor in batch.tensors():
                tensor.record_stream(stream)  # its memory is not reused while the model reads it
            yield batch
    finally:
        ahead.close()
