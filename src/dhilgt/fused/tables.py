"""The bias tables of all layers at once: from parameters to what kernels read, and slopes back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from dhilgt.attention import NUM_DISTANCES
from dhilgt.fused.launch import LOG2_E, LOWEST, NEAR, num_pairs

Biases = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]
"""Of distances, and of pairs with virtual nodes: seen, seeing and among themselves."""


def all_tables(layers: Sequence[Biases], heads: int, scale: float, like: Tensor) -> Tensor:
    """Gives the tables of layers, [layers, H, codes] float32, in powers of two.

    Args:
        layers: Learned biases of each layer; None for what is not learned.
        heads: Number of heads.
        scale: Factor on them.
        like: A parameter.
    """
    device, dtype = like.device, like.dtype
    virtual = 0 if layers[0][1] is None else len(layers[0][1])
    none, fixed = _fixed(heads, scale * LOG2_E, device, dtype)
    parts: list[Tensor] = []
    for spd, *pairs in layers:
        parts.append(none if spd is None else spd.detach())
        parts += [part.detach().reshape(-1, heads) for part in pairs if part is not None]
        parts.append(fixed)
    joined = torch.cat(parts).view(len(layers), -1).float()  # [layers, codes * H]
    picked = joined.index_select(1, _picks(virtual, heads, device)).mul_(scale * LOG2_E)
    return picked.view(len(layers), heads, -1)


def slopes_of_tables(
    sums: Tensor, layers: Sequence[Biases], virtual: int, scale: float
) -> list[tuple[Tensor | None, ...]]:
    """Gives the slopes of each layer's biases.

    Args:
        sums: Slopes of the first places of each table, [layers, places, H].
        layers: The biases.
        virtual: Number of virtual nodes.
        scale: Factor on them.
    """
    distances = layers[0][0] is not None
    order = _places(virtual, distances, sums.device)
    whole = sums.index_select(1, order).mul_(scale)  # [layers, biases, H]
    first = NUM_DISTANCES if distances else 0
    ends = (first, first + virtual, first + 2 * virtual, len(order))
    found = []
    for at, biases in enumerate(layers):
        cuts = zip((0, *ends), ends, strict=False)
        found.append(
            tuple(
                None if bias is None else whole[at, start:end].view(bias.shape).to(bias.dtype)
                for bias, (start, end) in zip(biases, cuts, strict=True)
            )
        )
    return found


@cache
def _fixed(
    heads: int, scale: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Gives what stands for distances without a bias, and the rows of lost bias and of padding."""
    none = torch.zeros(NUM_DISTANCES, heads, device=device, dtype=dtype)
    last = torch.tensor([[0.0], [LOWEST / scale]], device=device, dtype=dtype)
    return none, last.expand(2, heads).contiguous()


@cache
def _places(virtual: int, distances: bool, device: torch.device) -> Tensor:
    """Gives the kernels' place of every bias, in the order of the parameters."""
    pairs = num_pairs(virtual)
    rotated = [(distance + 2) % NUM_DISTANCES for distance in range(NUM_DISTANCES)]
    own = [place if place < NEAR else place + pairs for place in rotated] if distances else []
    return torch.tensor(own + [NEAR + pair for pair in range(pairs)], device=device)


@cache
def _picks(virtual: int, heads: int, device: torch.device) -> Tensor:
    """Gives, for a table [H, codes], the places of its numbers among biases [codes, H]."""
    known = _places(virtual, True, torch.device("cpu"))
    order = torch.empty(len(known) + 2, dtype=torch.int64)
    order[known] = torch.arange(len(known))
    order[-2:] = torch.arange(len(known), len(known) + 2)
    picks = order[None, :] * heads + torch.arange(heads)[:, None]  # [H, codes]
    return picks.reshape(-1).to(device)
