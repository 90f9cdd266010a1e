"""The inputs of a recorded step, at fixed addresses and with some room."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dhilgt.loader.batch import all_inputs

_ROOM = 256  # room grows in steps of this many
Inputs = tuple[Any, ...]  # x, index, spd and, as far as a model takes them, known, ego, adjacency


class HeldInputs:
    """A batch's inputs at fixed addresses, with room for more rows and entries.

    An adjacency matrix, and the features of all nodes beside it, are read where they are: they are
    the same objects in all batches.

    Args:
        inputs: x (dense or CSR), index, spd and maybe known, ego and adjacency of a batch, on the
            device.
    """

    def __init__(self, inputs: Inputs) -> None:
        x, index, spd, known, ego, self.adjacency = all_inputs(inputs)
        self.index, self.spd = torch.empty_like(index), torch.empty_like(spd)
        rows = _spare_room(len(x), index.numel())
        if self.adjacency is not None:
            self.x = x
        elif x.layout == torch.strided:
            self.x = x.new_zeros(rows, x.shape[1])
        else:
            self.x = _empty_rows(x, rows + 1)  # at least one row is never looked at
        self.known = None if known is None else known.new_zeros(len(self.x))
        self.ego = None if ego is None else _empty_rows(ego, len(ego))
        self._given = len(inputs)
        self.put(inputs)

    def __call__(self) -> Inputs:
        """Return the inputs."""
        own = self.x, self.index, self.spd, self.known, self.ego, self.adjacency
        return own[: self._given]

    def holds(self, inputs: Inputs) -> bool:
        """Return whether there is room for the rows of a batch."""
        x, *_, ego, adjacency = all_inputs(inputs)
        if ego is not None and not _has_room(self.ego, ego):
            return False
        if adjacency is not None:
            return x is self.x and adjacency is self.adjacency
        if x.layout == torch.strided:
            return len(x) <= len(self.x)
        return len(x) < len(self.x) and _has_room(self.x, x)

    def put(self, inputs: Inputs) -> None:
        """Copy a batch into the inputs."""
        x, index, spd, known, ego, adjacency = all_inputs(inputs)
        if adjacency is not None:
            assert x is self.x, "otherwise there is no room"
        elif x.layout == torch.strided:
            # Later rows are those of an earlier batch; no slot points at them.
            self.x[: len(x)].copy_(x)
        else:
            _put_first_rows(self.x, x)
        self.index.copy_(index)
        self.spd.copy_(spd)
        if self.known is not None:
            self.known[: len(known)].copy_(known)
        if self.ego is not None:
            _put_all_rows(self.ego, ego)


class CopiedInputs:
    """Inputs at fixed addresses that are tensors of one shape from batch to batch.

    Args:
        inputs: Those of a batch, on the device.

    Example:
        >>> held = CopiedInputs((torch.ones(2),))
        >>> held.put((torch.zeros(2),))
        >>> held()[0].tolist()
        [0.0, 0.0]
    """

    def __init__(self, inputs: Inputs) -> None:
        self._own = tuple(part.clone() for part in inputs)

    def __call__(self) -> Inputs:
        """Return the inputs."""
        return self._own

    def holds(self, inputs: Inputs) -> bool:
        """Return whether a batch has the shapes of the inputs."""
        return [part.shape for part in inputs] == [part.shape for part in self._own]

    def put(self, inputs: Inputs) -> None:
        """Copy a batch into the inputs."""
        for own, part in zip(self._own, inputs, strict=True):
            own.copy_(part)


class GraphInputs:
    """Inputs that are the same in every batch, except the last: the nodes to classify.

    Args:
        inputs: Those of a batch, on the device.

    Example:
        >>> graph = torch.eye(2)
        >>> held = GraphInputs((graph, torch.tensor([0])))
        >>> held.put((graph, torch.tensor([1])))
        >>> held()[0] is graph, held()[1].tolist()
        (True, [1])
    """

    def __init__(self, inputs: Inputs) -> None:
        *self._same, rows = inputs
        self._rows = rows.clone()

    def __call__(self) -> Inputs:
        """Return the inputs."""
        return (*self._same, self._rows)

    def holds(self, inputs: Inputs) -> bool:
        """Return whether a batch has as many nodes to classify."""
        return len(inputs[-1]) == len(self._rows)

    def put(self, inputs: Inputs) -> None:
        """Copy the nodes to classify of a batch."""
        self._rows.copy_(inputs[-1])


def _spare_room(count: int, most: int) -> int:
    # An eighth more than now: the number of distinct nodes varies from batch to batch.
    room = -(-count * 9 // (8 * _ROOM)) * _ROOM
    return max(count, min(room, most))


# ---- sparse rows ---------------------------------------------------------------------------------


def _empty_rows(like: Tensor, rows: int) -> Tensor:
    """Return a CSR matrix with room for the entries of `like` and some more."""
    stored = _spare_room(len(like.col_indices()), 1 << 62)
    offsets = like.crow_indices().new_zeros(rows + 1)
    columns = torch.arange(stored, device=like.device) % like.shape[1]
    return torch.sparse_csr_tensor(
        offsets,
        columns.to(like.col_indices().dtype),
        like.values().new_zeros(stored),
        size=(rows, like.shape[1]),
        check_invariants=False,
    )


def _has_room(held: Tensor | None, rows: Tensor) -> bool:
    return held is not None and len(rows.col_indices()) <= len(held.col_indices())


def _put_first_rows(held: Tensor, rows: Tensor) -> None:
    """Copy rows into the first ones of a matrix that has more of them."""
    stored, offsets = len(rows.col_indices()), held.crow_indices()
    offsets[: len(rows) + 1].copy_(rows.crow_indices())
    # The unused entries are spread over the rows that no slot points at: one row with all of them
    # would take longer than the other rows together.
    unused, left = len(held) - len(rows), len(held.col_indices()) - stored
    steps = torch.arange(1, unused + 1, device=rows.device)
    offsets[len(rows) + 1 :].copy_(stored + steps * left // unused)
    held.col_indices()[:stored].copy_(rows.col_indices())
    held.values()[:stored].copy_(rows.values())


def _put_all_rows(held: Tensor, rows: Tensor) -> None:
    """Copy rows into a matrix of as many; the unused entries are zeros, some in each row."""
    stored, offsets = len(rows.col_indices()), rows.crow_indices()
    left = len(held.col_indices()) - stored
    before = torch.arange(len(rows) + 1, device=rows.device) * left // len(rows)  # unused ones
    held.crow_indices().copy_(offsets + before)
    at = torch.repeat_interleave(before[:-1], offsets.diff(), output_size=stored)
    at += torch.arange(stored, device=rows.device)
    held.values().zero_()
    held.values().index_copy_(0, at, rows.values())
    held.col_indices().index_copy_(0, at, rows.col_indices())
