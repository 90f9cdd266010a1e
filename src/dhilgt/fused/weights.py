"""The parameters of a layer as the fused encoder takes them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Weights(NamedTuple):
    """The parameters of a layer, in the order in which they are used."""

    attention_norm: Tensor
    attention_shift: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    projection: Tensor
    projection_bias: Tensor
    ffn_norm: Tensor
    ffn_shift: Tensor
    ffn_in: Tensor
    ffn_in_bias: Tensor
    ffn_out: Tensor
    ffn_out_bias: Tensor
    spd_bias: Tensor | None
    to_virtual_bias: Tensor | None
    from_virtual_bias: Tensor | None
    virtual_bias: Tensor | None


PRODUCTS = ("qkv", "projection", "ffn_in", "ffn_out")
"""With their biases these are used in the precision to compute in."""
