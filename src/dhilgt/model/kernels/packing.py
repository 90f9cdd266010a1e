"""Rows of a batch without its padding.

A token of s slots seldom has s nodes, but products, norms and attention take as long for a slot of
padding as for a node. Packed, a token has a row for each of its nodes and for each virtual node,
and tokens lie one behind the other: `offsets` says where each begins. An ego's slot is always kept.

A CUDA graph runs on tensors of one size. So a recorded step has room for more rows than its batch
needs, and fillers behind the batch: tokens of no nodes that take the rows that are left, see
nothing, and give zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from dhilgt.loader.batch import known_fill

if TYPE_CHECKING:
    from dhilgt.model.dhilgt import DHILGT

WORTH = 0.88
"""Share of all slots below which their rows are packed."""

_STEPS = 32  # room is provided for in steps of this part of all slots
_FILLERS = 8  # one for so many tokens: a recorded step takes batches of an eighth fewer rows
_BLOCK = 256


class Room(NamedTuple):
    """Rows that a recorded step has room for, and its fillers; no rows: it is not packed."""

    rows: int | None
    fillers: int = 0

    def holds(self, rows: int | None, slots: int) -> bool:
        """Says whether a batch of `rows` rows fits: its fillers must reach the last row.

        Args:
            rows: Of the batch; None where it is not packed.
            slots: Slots of a token with virtual nodes.
        """
        if rows is None or self.rows is None:
            return rows is self.rows
        return rows <= self.rows <= rows + self.fillers * slots


class Packing(NamedTuple):
    """Where the rows of tokens lie."""

    offsets: Tensor  # [tokens + 1] int32: the first row of each; fillers stand behind the batch
    rows: int


_room: ContextVar[Room | None] = ContextVar("room", default=None)


@contextmanager
def room_for(room: Room) -> Iterator[None]:
    """Has models inside pack into this room, which costs no look at the batch.

    Args:
        room: See `choose_room`.
    """
    before = _room.set(room)
    try:
        yield
    finally:
        _room.reset(before)


def packed_rows(model: DHILGT, index: Tensor, filled: int | None = None) -> int | None:
    """Gives the rows of a batch if it is worth packing, else None.

    The same batch has one answer, however it is run: what dropout drops depends on it.

    Args:
        model: Whose setting `packing` counts.
        index: [B, s].
        filled: Slots that hold a node, with all egos; if None and not known otherwise (see
            `batch.knowing_fill`) it is found out, which waits for the device.
    """
    if model.packing == "off" or not len(index):
        return None
    virtual = model.config.num_virtual
    if filled is None:
        filled = known_fill(index)
    if filled is None:
        filled = int((index[:, 1:] >= 0).sum()) + len(index)
    rows, whole = filled + len(index) * virtual, len(index) * (index.shape[1] + virtual)
    return rows if model.packing == "on" or rows <= WORTH * whole else None


def choose_room(rows: int | None, batch: int, slots: int) -> Room:
    """Gives room for a batch and others like it.

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
    # At least a third of a step more: batches of one size differ by less, most of the time.
    most = -(-(3 * rows + step) // (3 * step)) * step
    return Room(min(most, batch * slots), max(1, batch // _FILLERS))


def pack(model: DHILGT, index: Tensor, real: Tensor) -> Packing | None:
    """Gives where the rows of a batch lie; None where they are not packed.

    Args:
        model: Whose settings count.
        index: [B, s].
        real: Which slots hold a node, [B, s] bool.
    """
    room = _room.get()
    if room is None:
        if index.is_cuda and torch.cuda.is_current_stream_capturing():
            return None  # nothing can be looked at
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
