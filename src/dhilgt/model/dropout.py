"""Dropout that is fast on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_LEVELS = 1 << 16


def drop_mask(shape: Sequence[int], p: float, device: torch.device) -> Tensor:
    """Return a mask that is True with probability `p`, by PyTorch's default generator.

    On the CPU `p` is rounded to a multiple of 2 ** -16, unless compiled.
    """
    if not _by_bits(device):
        return torch.rand(shape, device=device) < p
    # Four entries from each draw of 64 bits: PyTorch's own mask takes one or more draws per entry,
    # and six times as long, which is a sixth of a training step.
    count = math.prod(shape)
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (bits.view(torch.int16)[:count] < _level(p) - _LEVELS // 2).view(shape)


def dropout(h: Tensor, p: float, training: bool = True) -> Tensor:
    """Return `h` with entries zeroed with probability `p`, the others scaled to keep the mean."""
    if not training or p == 0.0:
        return h
    if not _by_bits(h.device):
        return F.dropout(h, p)
    kept = drop_mask(h.shape, p, h.device).logical_not_()
    return h * kept.to(h.dtype).mul_(_LEVELS / (_LEVELS - _level(p)))


def _by_bits(device: torch.device) -> bool:
    # The compiler does not support draws of 64 bits, and fuses PyTorch's own mask.
    return device.type == "cpu" and not torch.compiler.is_compiling()


def _level(p: float) -> int:
    return min(round(p * _LEVELS), _LEVELS - 1)
