"""The codes of pairs of slots: rows of the table that holds the bias of attention."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

NUM_DISTANCES = 256
"""Rows of a distance table: 0 to 253 exact, 254 far, 255 no path."""

NO_BIAS = NUM_DISTANCES
"""The code of pairs that are attended to without a bias."""

MASKED = NUM_DISTANCES + 1
"""The code of pairs that are not attended to."""

FIRST_VIRTUAL = NUM_DISTANCES + 2
"""The first code of pairs with virtual nodes: node to virtual, virtual to node, both virtual."""


class Pairs(NamedTuple):
    """What attention needs to know about the pairs of slots; the same for every layer and head.

    Attributes:
        codes: Row of the bias table for each pair, [B, t, t] int64, row = query.
        real: Which slots hold a node, [B, t] bool.
    """

    codes: Tensor
    real: Tensor
