"""What a loader gives and a model takes: a batch of token rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

_known: ContextVar[tuple[torch.Tensor, int] | None] = ContextVar("known", default=None)


@dataclass(frozen=True)
class TokenBatch:
    """Some egos with everything a model needs to know about them.

    Attributes:
        inputs: What the model is called with: (x, index, spd), or (x, index, spd, known). `x`
            holds the features of the distinct nodes of the batch, [n, channels], dense or sparse
            CSR; `index` [B, size] int64 points into it, -1 = padding, column 0 = the ego; `spd`
            [B, size, size] uint8 holds the distances, row = source; `known` [n] int32 holds class
            + 1 of those nodes whose class the model may see, 0 for all others.
        labels: Classes of the egos, [B] int64; None where the loader has no labels.
        nodes: Node indices of the egos, [B] int64.
        filled: Slots that hold a node, with all egos, where the loader knows it: packing rows (see
            `DHILGT.packing`) then need not wait for the device.

    Example:
        >>> import torch
        >>> index, spd = torch.tensor([[0, -1]]), torch.tensor([[[0, 255], [255, 255]]])
        >>> batch = TokenBatch((torch.ones(1, 3), index, spd), None, torch.tensor([7]))
        >>> len(batch), batch.to("cpu").nodes.tolist()
        (1, [7])
    """

    inputs: tuple[torch.Tensor, ...]
    labels: torch.Tensor | None
    nodes: torch.Tensor
    filled: int | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def to(self, device: Any, non_blocking: bool = False) -> "TokenBatch":
        """Gives the batch on a device.

        Args:
            device: Where to.
            non_blocking: Do not wait for copies out of pinned memory.
        """
        inputs = tuple(part.to(device, non_blocking=non_blocking) for part in self.inputs)
        labels = self.labels
        return TokenBatch(
            inputs,
            None if labels is None else labels.to(device, non_blocking=non_blocking),
            self.nodes.to(device, non_blocking=non_blocking),
            self.filled,
        )

    def tensors(self) -> list[torch.Tensor]:
        """Gives all plain tensors, those inside a sparse one included."""
        found: list[torch.Tensor] = []
        for tensor in (*self.inputs, self.labels, self.nodes):
            if tensor is None:
                continue
            if tensor.layout == torch.sparse_csr:
                found += [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
            else:
                found.append(tensor)
        return found


@contextmanager
def knowing_fill(batch: Any) -> Iterator[None]:
    """Lets a model that is called inside know how many slots of a batch hold a node.

    Args:
        batch: Any batch; one that does not say it changes nothing.

    Example:
        >>> index = torch.tensor([[0, 1, -1]])
        >>> batch = TokenBatch((torch.ones(2, 3), index, index), None, torch.tensor([7]), filled=2)
        >>> with knowing_fill(batch):
        ...     known_fill(index), known_fill(index.clone())
        (2, None)
    """
    filled = getattr(batch, "filled", None)
    before = _known.set(None if filled is None else (batch.inputs[1], filled))
    try:
        yield
    finally:
        _known.reset(before)


def known_fill(index: torch.Tensor) -> int | None:
    """Gives the slots of `index` that hold a node, with all egos, where that is known.

    Args:
        index: This very tensor must be that of the batch.
    """
    known = _known.get()
    return known[1] if known is not None and known[0] is index else None
