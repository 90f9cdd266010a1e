"""Rows of a batch without its padding.

A token of s slots seldom has s nodes, but products, norms and attention take as long for a slot of
padding as for a node. Packed, a token has a row for each of its nodes and for each virtual node,
and tokens are stored one after the other: `offsets` holds the first row of each. The slot of the
ego is always kept.

A CUDA graph runs on tensors of one size. So a recorded step has room for more rows than its batch
needs, and fillers after the batch: tokens without nodes that take the remaining rows, attend to
nothing, and result in zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dhilgt.model.dhilgt import DHILGT

WORTH = 0.88
"""Fraction of all slots below which their rows are packed."""

_STEPS = 32  # room grows in steps of this part of all slots
_FILLERS = 8  # one for so many tokens: a recorded step takes batches of an eighth fewer rows
_BLOCK = 256


class Room(NamedTuple):
    """The rows that a forward pass computes on.

    Attributes:
        rows: Rows in all; None where the batch is not packed.
        fillers: Tokens after the batch that take the rows it does not need.
    """

    rows: int | None
    fillers: int = 0

    def holds(self, rows: int | None, slots: int) -> bool:
        """Return whether a batch of `rows` rows fits: its fillers must reach the last row.

        Args:
            rows: Of the batch; None where it is not packed.
            slots: Slots of a token with virtual nodes.
        """
        if rows is None or self.rows is None:
            return rows is self.rows
        return rows <= self.rows <= rows + self.fillers * slots


class Packing(NamedTuple):
    """Where the rows of tokens are."""

    offsets: Tensor  # [tokens + 1] int32: the first row of each; fillers follow the batch
    rows: int


def packed_rows(model: DHILGT, index: Tensor, filled: int | None = None) -> int | None:
    """Return the number of rows of a batch if it is worth packing, else None.

    It depends on the batch alone, not on how the batch is run: the numbers that dropout draws
    depend on it.

    Args:
        model: Whose setting `packing` counts.
        index: [B, s].
        filled: Number of slots that hold a node, all egos counted; counted here if None, which
            waits for the device.
    """
    if model.packing == "off" or not len(index):
        return None
    virtual = model.config.num_virtual
    if filled is None:
        filled = int((index[:, 1:] >= 0).sum()) + len(index)
    rows, whole = filled + len(index) * virtual, len(index) * (index.shape[1] + virtual)
    return rows if model.packing == "on" or rows <= WORTH * whole else None


def choose_room(rows: int | None, batch: int, slots: int) -> Room:
    """Return the room of a recorded step: for this batch and for others like it.

    Args:
        rows: Of the batch; None where it is not packed.
        batch: Number of tokens.
        slots: Slots of a token with virtual nodes.

    Example:
        >>> choose_room(20_000, 1024, 36)
        Room(rows=20736, fillers=128)
    """
    if rows is None:
        return Room(None)
    step = max(1, batch * slots // _STEPS)
    # At least a third of a step more: batches of one size mostly differ by less.
    most = -(-(3 * rows + step) // (3 * step)) * step
    return Room(min(most, batch * slots), max(1, batch // _FILLERS))


def pack(model: DHILGT, index: Tensor, real: Tensor, room: Room | None = None) -> Packing | None:
    """Return where the rows of a batch are; None where they are not packed.

    Args:
        model: Whose settings count.
        index: [B, s].
        real: Which slots hold a node, [B, s] bool.
        room: The rows to compute on; None for exactly those of the batch, which are counted: that
            waits for the device.
    """
    if room is None:
        if index.is_cuda and torch.cuda.is_current_stream_capturing():
            return None  # a recording cannot wait for the device
        room = Room(packed_rows(model, index))
    if room.rows is None:
        return None
    from dhilgt.model.kernels import pair_kernels  # needs Triton, unlike the rest

    batch, slots = real.shape
    virtual = model.config.num_virtual
    tokens = batch + room.fillers
    filled = real[:, 1:].sum(1, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    offsets = filled.new_empty(tokens + 1)
    pair_kernels.offsets_kernel[(-(-(tokens + 1) // _BLOCK),)](
        filled,
        offsets,
        batch,
        tokens,
        room.rows,
        T=slots + virtual,
        LEAST=1 + virtual,
        BLOCK=_BLOCK,
        num_warps=4,
    )
    return Packing(offsets, room.rows)
