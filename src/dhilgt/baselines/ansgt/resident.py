"""Features, sequences and powers on a GPU, so that a batch is nothing but numbers of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.ansgt.row_table import RowTable
from dhilgt.utils.devices import free_bytes


@dataclass(frozen=True)
class Tables:
    """What the inputs of sequences are gathered from, on the host.

    Attributes:
        x: Features of nodes, then of super-nodes, [tokens, F0].
        powers: Powers of Â of the graph.
        coarse_powers: Powers of Â of the coarse graph; None if there is none.
        super_of: Super-node of each node, then of each super-node, [tokens].
        sampled: Number of tokens at the start of a sequence that are nodes.
    """

    x: Tensor
    powers: RowTable
    coarse_powers: RowTable | None
    super_of: NDArray[np.int64]
    sampled: int

    @property
    def nbytes(self) -> int:
        """Bytes of all of them on a device."""
        tables = [self.powers, *([] if self.coarse_powers is None else [self.coarse_powers])]
        return self.x.nbytes + sum(table.nbytes for table in tables)


class Resident:
    """Tables and sequences on a device, at addresses that never change.

    Args:
        tables: On the host.
        shape: Of the sequences: all of them in rows, [sequences, tokens].
        device: Where to.
    """

    def __init__(self, tables: Tables, shape: tuple[int, int], device: torch.device) -> None:
        # Training cannot use a tensor created in inference mode.
        with torch.inference_mode(False):
            self._x = tables.x.to(device)
            self._tokens = torch.empty(shape, dtype=torch.int32, device=device)
            self._super_of = torch.from_numpy(tables.super_of).to(device)
            self._powers = DevicePairs(tables.powers, device)
            coarse = tables.coarse_powers
            self._coarse_powers = None if coarse is None else DevicePairs(coarse, device)
        self._sampled = tables.sampled
        self._held: NDArray[Any] | None = None

    @classmethod
    def where_it_fits(
        cls, tables: Tables, shape: tuple[int, int], device: torch.device
    ) -> Resident | None:
        """Return the tables on a GPU that has twice their memory free, else None."""
        if device.type == "cpu":
            return None
        need = tables.nbytes + 4 * shape[0] * shape[1]
        return cls(tables, shape, device) if 2 * need < (free_bytes(device) or 0) else None

    def put(self, sequences: NDArray[np.int64]) -> None:
        """Replace the sequences, if they are not those that were put before."""
        if self._held is not sequences:
            flat = sequences.reshape(-1, sequences.shape[-1]).astype(np.int32)
            self._tokens.copy_(torch.from_numpy(flat))
            self._held = sequences

    def inputs(self, which: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the inputs of `ANSGT.logits` for sequences by their number, [B, sequences]."""
        tokens = self._tokens[which].long()
        missing = tokens < 0
        tokens = torch.where(missing, tokens[..., :1], tokens)
        real = tokens[..., : self._sampled]
        bias = self._powers.among(real)
        if self._coarse_powers is not None:
            fine, bias = bias, self._coarse_powers.among(self._super_of[tokens])
            bias[..., : self._sampled, : self._sampled, :] = fine
        return self._x, tokens, missing, bias


class DevicePairs:
    """A `RowTable` on a device.

    Example:
        >>> pairs = DevicePairs(RowTable.full([np.array([[1, 2], [3, 4]])]), torch.device("cpu"))
        >>> pairs.among(torch.tensor([1, 0]))[..., 0].tolist()
        [[4.0, 3.0], [2.0, 1.0]]
    """

    def __init__(self, table: RowTable, device: torch.device) -> None:
        values, keys = torch.from_numpy(table.values), table.keys
        self._keys: Tensor | None = None
        if keys is not None:
            # A last entry of zeros, which all pairs have that are not stored.
            values = torch.cat([values, values.new_zeros(1, table.kinds)])
            last = np.append(keys, np.iinfo(np.int64).max)
            self._keys = torch.from_numpy(last).to(device)
        self._values = values.to(device)
        self._num_nodes = table.num_nodes

    def among(self, nodes: Tensor) -> Tensor:
        """Return the values of all pairs of a row of nodes, [..., t] to [..., t, t, K]."""
        keys = nodes[..., :, None] * self._num_nodes + nodes[..., None, :]
        if self._keys is None:
            return self._values[keys]
        at = torch.searchsorted(self._keys, keys)
        at.masked_fill_(self._keys[at] != keys, len(self._keys) - 1)
        return self._values[at]
