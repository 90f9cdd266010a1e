"""Batches from token rows and features: made on the host, or on the device that holds them."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.loader.batch import TokenBatch
from dhilgt.loader.ego_rows import DeviceEgoRows, EgoRows
from dhilgt.loader.feature_rows import DeviceFeatures, Features
from dhilgt.loader.whole_graph import WholeGraph
from dhilgt.tokens.sampler import PackedRows, unpack_distances
from dhilgt.tokens.spec import NO_PATH, PADDING, TokenSpec

_BLOCK = 32_768  # rows read at once while they move to a device


class RowSource(Protocol):
    """Stored tokens or a sampler."""

    @property
    def spec(self) -> TokenSpec:
        """Shape of the rows."""

    @property
    def directed(self) -> bool:
        """Whether distances depend on the direction."""

    def packed_rows(self, nodes: NDArray[np.int64], copy: int = 0) -> PackedRows:
        """Return the rows of nodes."""


def on_host(
    source: RowSource,
    features: Features,
    labels: NDArray[np.int64] | None,
    num_nodes: int,
    place: Callable[[torch.Tensor], torch.Tensor],
    device: torch.device,
    known: NDArray[np.int32] | None = None,
    ego: EgoRows | None = None,
    whole: WholeGraph | None = None,
) -> Callable[[NDArray[np.int64], NDArray[np.int64], int], TokenBatch]:
    """Return a function that makes batches from rows and features on the host.

    Args:
        source: Where rows come from.
        features: Where features come from.
        labels: Classes of all nodes.
        num_nodes: Nodes of the graph.
        place: Copies a host tensor to the device.
        device: Of the batches.
        known: Class + 1 of all nodes, 0 for those whose class the model may not see.
        ego: The sparse rows of all nodes.
        whole: With message passing, what all batches have in common; slots are node indices then.
    """
    distinct = Distinct(num_nodes)

    def make(_: NDArray[np.int64], nodes: NDArray[np.int64], copy: int) -> TokenBatch:
        ids, packed, _parts = source.packed_rows(nodes, copy)
        if whole is None:
            members, index = distinct(ids)
            x = features.take(members).build(place)
        else:
            index, x = ids.astype(np.int64), whole.x
        if device.type == "cpu":
            spd = torch.from_numpy(unpack_distances(ids, packed, source.directed))
            at = torch.from_numpy(index)
        else:  # half the bytes to move; unpacked on the device
            at = place(torch.from_numpy(index))
            spd = unpack_triangles(place(torch.from_numpy(packed)), at < 0, source.directed)
        classes = None if labels is None else place(torch.from_numpy(labels[nodes]))
        seen = None if known is None else place(torch.from_numpy(known[members]))
        own = None if ego is None else ego.take(nodes).build(place)
        filled = int((ids[:, 1:] != PADDING).sum()) + len(ids)
        inputs = model_inputs(x, at, spd, seen, own, whole)
        return TokenBatch(inputs, classes, place(torch.from_numpy(nodes)), filled)

    return make


def on_device(
    rows: Callable[[NDArray[np.int64], NDArray[np.int64], int], tuple[torch.Tensor, torch.Tensor]],
    features: DeviceFeatures,
    labels: torch.Tensor | None,
    directed: bool,
    place: Callable[[torch.Tensor], torch.Tensor],
    known: torch.Tensor | None = None,
    ego: DeviceEgoRows | None = None,
    whole: WholeGraph | None = None,
) -> Callable[[NDArray[np.int64], NDArray[np.int64], int], TokenBatch]:
    """Return a function that makes batches on the device; the host only sends node indices.

    Args:
        rows: Returns ids and packed distances on the device for (places, nodes, copy).
        features: Features on the device.
        labels: Classes of all nodes, on the device.
        directed: Whether distances depend on the direction.
        place: Copies a host tensor to the device.
        known: Class + 1 of all nodes, 0 for those whose class the model may not see; on the device.
        ego: The sparse rows of all nodes, on the device.
        whole: As for `on_host`.
    """

    def make(places: NDArray[np.int64], nodes: NDArray[np.int64], copy: int) -> TokenBatch:
        egos = place(torch.from_numpy(nodes))
        ids, packed = rows(places, nodes, copy)
        spd = unpack_triangles(packed, ids < 0, directed)
        if whole is None:
            members, index = distinct_on_device(ids)
            x = features.take(members)
        else:
            index, x = ids.long(), whole.x
        classes = None if labels is None else labels[egos]
        seen = None if known is None else known[members]
        own = None if ego is None else ego.take(egos)
        filled = int((ids[:, 1:] != PADDING).sum()) + len(ids)
        inputs = model_inputs(x, index, spd, seen, own, whole)
        return TokenBatch(inputs, classes, egos, filled)

    return make


def model_inputs(
    x: torch.Tensor,
    index: torch.Tensor,
    spd: torch.Tensor,
    known: torch.Tensor | None,
    ego: torch.Tensor | None,
    whole: WholeGraph | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """Return the arguments of a model, without the ones at the end that it does not take."""
    if whole is not None:
        return x, index, spd, known, ego, whole.adjacency
    if ego is not None:
        return x, index, spd, known, ego
    return (x, index, spd) if known is None else (x, index, spd, known)


class DeviceRows:
    """The packed rows of chosen nodes on a device; each copy is read on its first use."""

    def __init__(self, source: RowSource, nodes: NDArray[np.int64], device: torch.device) -> None:
        self._source, self._nodes, self._device = source, nodes, device
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._lock = threading.Lock()

    def gather(self, places: torch.Tensor, copy: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and packed distances of nodes, by position among the chosen ones."""
        with self._lock:  # two iterations may be the first to use the same copy
            if copy not in self._copies:
                self._copies[copy] = self._read(copy)
        ids, packed = self._copies[copy]
        return ids.index_select(0, places), packed.index_select(0, places)

    def _read(self, copy: int) -> tuple[torch.Tensor, torch.Tensor]:
        count, device = len(self._nodes), self._device
        spec, directed = self._source.spec, self._source.directed
        ids = torch.empty((count, spec.size), dtype=torch.int32, device=device)
        packed = torch.empty((count, spec.num_pairs(directed)), dtype=torch.uint8, device=device)
        for start in range(0, count, _BLOCK):
            rows = self._source.packed_rows(self._nodes[start : start + _BLOCK], copy)
            ids[start : start + _BLOCK] = torch.from_numpy(rows.ids).to(device)
            packed[start : start + _BLOCK] = torch.from_numpy(rows.spd).to(device)
        if device.type == "cuda":  # later batches may be made on another stream
            torch.cuda.synchronize(device)
        return ids, packed


class Distinct:
    """Finds the distinct nodes of rows, in ascending order, and each slot's position among them.

    A table with an entry per node takes time in proportion to the slots alone; sorting all slots
    takes several times as long. The table is never cleared: only entries just written are read.
    """

    def __init__(self, num_nodes: int) -> None:
        self._table = np.empty(num_nodes + 1, np.int32)  # the last entry is for padding, -1

    def __call__(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the distinct nodes and each slot's position as int64; padding stays -1."""
        table, slots = self._table, ids.reshape(-1)
        numbers = np.arange(slots.size, dtype=np.int32)
        table[slots] = numbers
        members = slots[table[slots] == numbers]  # of equal slots, the one written last
        members.sort()
        if members.size and members[0] == PADDING:
            members = members[1:]
        table[members] = numbers[: members.size]
        table[-1] = PADDING
        return members, table[slots].astype(np.int64).reshape(ids.shape)


def distinct_on_device(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what `Distinct` returns, by torch operations.

    Args:
        ids: [b, size] int32, -1 = padding.
    """
    # With a padding slot in front there always is one: no value has to be read by the host.
    slots = torch.nn.functional.pad(ids.reshape(-1).long(), (1, 0), value=PADDING)
    members, places = torch.unique(slots, sorted=True, return_inverse=True)
    return members[1:], (places[1:] - 1).reshape(ids.shape)


def unpack_triangles(packed: torch.Tensor, padding: torch.Tensor, directed: bool) -> torch.Tensor:
    """Return what `unpack_distances` returns, by torch operations on any device.

    Args:
        packed: [b, pairs] uint8.
        padding: [b, size], true where a slot holds no node.
        directed: Whether both directions are packed.
    """
    rows, size = padding.shape
    diagonal = packed.new_zeros(rows, 1)
    places = _square_places(size, directed, packed.device)
    spd = torch.cat([packed, diagonal], 1).index_select(1, places).view(rows, size, size)
    return spd.masked_fill_(padding[:, :, None] | padding[:, None, :], NO_PATH)


@cache
def _square_places(size: int, directed: bool, device: torch.device) -> torch.Tensor:
    """Return the position of each entry of the square in a packed row; the diagonal's is last."""
    pairs = size * (size - 1) // 2
    later, earlier = np.tril_indices(size, -1)
    square = np.full((size, size), 2 * pairs if directed else pairs, np.int64)
    square[earlier, later] = np.arange(pairs)
    square[later, earlier] = np.arange(pairs) + (pairs if directed else 0)
    return torch.from_numpy(square.reshape(-1)).to(device)
