"""A batch of token rows: the unit that a loader yields and a model takes."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class TokenBatch:
    """Some egos with everything a model needs to know about them.

    Attributes:
        inputs: The arguments of the model: (x, index, spd), followed by known, ego and adjacency as
            far as it takes them, with None for those in between that it does not. `x` holds the
            features of the distinct nodes of the batch, [n, channels], dense or sparse CSR; `index`
            [B, size] int64 points into it, -1 = padding, column 0 = the ego; `spd` [B, size, size]
            uint8 holds the distances, row = source; `known` [n] int32 holds class + 1 of those
            nodes whose class the model may see, 0 for all others; `ego` holds the sparse rows of
            the egos, CSR [B * groups, columns]; `adjacency` [n, n] CSR the weights of all edges:
            `x` has a row for every node of the graph then, and `index` holds node indices.
        labels: Classes of the egos, [B] int64; None where the loader has no labels.
        nodes: Node indices of the egos, [B] int64.
        filled: Number of slots that hold a node, all egos counted; None where it is not known.
            With it, a model that packs rows (see `DHILGT.packing`) need not wait for the device.

    Example:
        >>> import torch
        >>> index, spd = torch.tensor([[0, -1]]), torch.tensor([[[0, 255], [255, 255]]])
        >>> batch = TokenBatch((torch.ones(1, 3), index, spd), None, torch.tensor([7]))
        >>> len(batch), batch.to("cpu").nodes.tolist()
        (1, [7])
    """

    inputs: tuple[Any, ...]
    labels: torch.Tensor | None
    nodes: torch.Tensor
    filled: int | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def to(self, device: Any, non_blocking: bool = False) -> "TokenBatch":
        """Return the batch on a device.

        Args:
            device: Where to.
            non_blocking: Do not wait for copies out of pinned memory.
        """

        def moved(tensor: torch.Tensor | None) -> Any:
            return None if tensor is None else tensor.to(device, non_blocking=non_blocking)

        inputs = tuple(moved(part) for part in self.inputs)
        return TokenBatch(inputs, moved(self.labels), moved(self.nodes), self.filled)

    def tensors(self) -> list[torch.Tensor]:
        """Return all strided tensors of the batch; of a sparse one, the three it consists of."""
        parts: list[torch.Tensor] = []
        for tensor in (*self.inputs, self.labels, self.nodes):
            if tensor is None:
                continue
            if tensor.layout == torch.sparse_csr:
                parts += [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
            else:
                parts.append(tensor)
        return parts


def all_inputs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return x, index, spd, known, ego and adjacency, with None for what a batch does not have.

    Example:
        >>> all_inputs(("x", "index", "spd", "known"))
        ('x', 'index', 'spd', 'known', None, None)
    """
    return (*inputs, None, None, None)[:6]
