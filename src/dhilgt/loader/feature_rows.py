"""Feature rows of some nodes, from memory, from a mapped file or from a device."""

import mmap
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.graph import checks


class Features(ABC):
    """Rows by node, on the host; loaders that are given the same ones share a copy on a device."""

    num_channels: int
    num_nodes: int
    nbytes: int

    def __init__(self) -> None:
        self._copies: WeakValueDictionary[torch.device, DeviceFeatures] = WeakValueDictionary()

    @abstractmethod
    def take(self, nodes: NDArray[np.integer[Any]]) -> "FeatureRows":
        """Return the rows of nodes."""

    @abstractmethod
    def _copy(self, device: torch.device) -> "DeviceFeatures":
        """Return all rows on a device, in memory of their own."""

    def to(self, device: torch.device) -> "DeviceFeatures":
        """Return all rows on a device: those of another loader where it has them there."""
        copy = self._copies.get(device)
        if copy is None:
            copy = self._copies[device] = self._copy(device)
        return copy


@dataclass(frozen=True)
class FeatureRows:
    """Gathered rows: dense values, or the three arrays of a CSR matrix."""

    shape: tuple[int, int]
    parts: tuple[torch.Tensor, ...]

    def build(self, place: "Placement") -> torch.Tensor:
        """Return them as one tensor on a device."""
        return _tensor([place(part) for part in self.parts], self.shape)


class Placement(Protocol):
    """Copies a host tensor to the device of the batches."""

    def __call__(self, tensor: torch.Tensor, /) -> torch.Tensor:
        """Return the tensor on that device."""


class DenseFeatures(Features):
    """Rows of an array; of a mapped one, only the rows that are taken are read."""

    def __init__(self, array: NDArray[Any], *, checked: bool) -> None:
        super().__init__()
        self._array = array
        self._checked = checked
        self.num_nodes, self.num_channels = array.shape
        self.nbytes = 4 * array.size

    def take(self, nodes: NDArray[np.integer[Any]]) -> FeatureRows:
        """Return the rows of nodes."""
        rows = self._array[nodes].astype(np.float32, copy=False)
        if not self._checked:
            _refuse_not_finite(rows, nodes)
        return FeatureRows((len(nodes), self.num_channels), (torch.from_numpy(np.asarray(rows)),))

    def _copy(self, device: torch.device) -> "DeviceFeatures":
        all_nodes = np.arange(len(self._array), dtype=np.int32)
        out = torch.empty(self._array.shape, dtype=torch.float32, device=device)
        for block in np.array_split(all_nodes, max(1, self.nbytes >> 26)):
            if block.size:
                out[int(block[0]) : int(block[-1]) + 1] = self.take(block).parts[0].to(device)
        return DeviceFeatures((out,), self.num_channels)


class SparseFeatures(Features):
    """Rows of a CSR matrix; they stay sparse."""

    def __init__(
        self,
        offsets: NDArray[np.int64],
        columns: NDArray[Any],
        values: NDArray[np.float32],
        num_channels: int,
    ) -> None:
        super().__init__()
        self._offsets, self._columns, self._values = offsets, columns, values
        self.num_nodes, self.num_channels = len(offsets) - 1, num_channels
        self.nbytes = 8 * len(offsets) + 12 * len(columns)
        # PyTorch warns once per process that this layout is in beta, and that its arrays are not
        # checked, which users cannot act on.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", module="dhilgt")
        warnings.filterwarnings("ignore", message="Sparse invariant checks", module="dhilgt")

    def take(self, nodes: NDArray[np.integer[Any]]) -> FeatureRows:
        """Return the rows of nodes."""
        starts = self._offsets[nodes]
        counts = self._offsets[nodes.astype(np.int64) + 1] - starts
        offsets = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        columns = self._columns[at].astype(np.int64, copy=False)
        parts = (offsets, columns, self._values[at])
        shape = (len(nodes), self.num_channels)
        return FeatureRows(shape, tuple(torch.from_numpy(part) for part in parts))

    def _copy(self, device: torch.device) -> "DeviceFeatures":
        columns = self._columns.astype(np.int64, copy=False)
        parts = (self._offsets, columns, self._values)
        return DeviceFeatures(
            tuple(torch.tensor(part, device=device) for part in parts), self.num_channels
        )


class DeviceFeatures:
    """All rows on a device, gathered there."""

    def __init__(self, parts: tuple[torch.Tensor, ...], num_channels: int) -> None:
        self._parts = parts
        self.num_channels = num_channels
        self._whole: torch.Tensor | None = None

    def whole(self) -> torch.Tensor:
        """Return all rows: always the same tensor, which recorded steps read where it is."""
        if self._whole is None:
            with torch.inference_mode(False):  # training may use it later
                count = len(self._parts[0]) - (len(self._parts) > 1)
                self._whole = _tensor(list(self._parts), (count, self.num_channels))
        return self._whole

    def take(self, nodes: torch.Tensor, stored: int | None = None) -> torch.Tensor:
        """Return the rows of nodes.

        Args:
            nodes: Indices on the device, int64.
            stored: Number of entries of these rows, of sparse ones; counted if None, which waits
                for the device.
        """
        shape = (len(nodes), self.num_channels)
        if len(self._parts) == 1:
            return self._parts[0].index_select(0, nodes)
        all_offsets, columns, values = self._parts
        starts = all_offsets[nodes]
        counts = all_offsets[nodes + 1] - starts
        offsets = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=nodes.device)
        torch.cumsum(counts, 0, out=offsets[1:])
        shift = torch.repeat_interleave(starts - offsets[:-1], counts, output_size=stored)
        at = shift + torch.arange(len(shift), device=nodes.device)
        return _tensor([offsets, columns[at], values[at]], shape)


def open_features(values: Any, num_nodes: int) -> Features:
    """Open features: a NumPy array, a mapped one, a SciPy sparse matrix, or a torch tensor.

    Values in memory are checked at once, those of a mapped file row by row as they are read, so
    that a file larger than memory opens without reading it. Features that are open stay as they
    are.
    """
    if isinstance(values, Features):
        if values.num_nodes != num_nodes:
            raise GraphError(
                f"features has {values.num_nodes:,} rows, but the graph has {num_nodes:,} nodes; "
                "pass one row per node"
            )
        return values
    if isinstance(values, torch.Tensor):
        if values.layout != torch.strided:
            return _sparse_tensor(values.detach().cpu(), num_nodes)
        values = values.detach()
        if values.dtype == torch.bfloat16:  # NumPy has no such type
            values = values.float()
    if hasattr(values, "tocsr"):
        matrix = checks.features(values, num_nodes)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        offsets = matrix.indptr.astype(np.int64, copy=False)
        return SparseFeatures(offsets, matrix.indices, matrix.data, matrix.shape[1])
    if isinstance(values, np.ndarray) and is_mapped(values):
        _check_mapped(values, num_nodes)
        return DenseFeatures(values, checked=False)
    return DenseFeatures(checks.features(values, num_nodes), checked=True)


def is_mapped(array: NDArray[Any]) -> bool:
    """Return whether the values of an array are in a file."""
    base: Any = array
    while base is not None:
        if isinstance(base, (np.memmap, mmap.mmap)):
            return True
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return False


def _check_mapped(array: NDArray[Any], num_nodes: int) -> None:
    wrong = array.ndim != 2 or array.shape[0] != num_nodes or array.dtype.kind not in "biuf"
    if wrong:  # the check of an array of one repeated value raises the same, and reads nothing
        checks.features(np.broadcast_to(np.zeros((), array.dtype), array.shape), num_nodes)


def _refuse_not_finite(rows: NDArray[np.float32], nodes: NDArray[np.integer[Any]]) -> None:
    if np.isfinite(rows).all():
        return
    row, column = np.argwhere(~np.isfinite(rows))[0]
    raise GraphError(
        f"features[{nodes[row]}, {column}] = {rows[row, column]} is not finite as float32; fill "
        "such values in the file first, for example with numpy.nan_to_num"
    )


def _sparse_tensor(tensor: torch.Tensor, num_nodes: int) -> SparseFeatures:
    if tensor.ndim != 2 or tensor.shape[0] != num_nodes:
        raise GraphError(
            f"features has shape {tuple(tensor.shape)}, but the graph has {num_nodes} nodes; pass "
            "one row per node"
        )
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()  # sums duplicates and sorts
    matrix = tensor.to_sparse_csr()
    offsets, columns = matrix.crow_indices().numpy(), matrix.col_indices().numpy()
    values = matrix.values().float().numpy()
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = int(np.searchsorted(offsets, bad[0], side="right")) - 1
        raise GraphError(
            f"features[{row}, {columns[bad[0]]}] = {values[bad[0]]} is not finite as float32 "
            f"({bad.size} NaN or infinite values); fill them first"
        )
    return SparseFeatures(offsets.astype(np.int64), columns, values, tensor.shape[1])


def _tensor(parts: list[torch.Tensor], shape: tuple[int, int]) -> torch.Tensor:
    if len(parts) == 1:
        return parts[0]
    offsets, columns, values = parts
    return torch.sparse_csr_tensor(offsets, columns, values, size=shape, check_invariants=False)
