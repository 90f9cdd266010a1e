"""Slopes of parameters in the backward pass of all layers.

Kernels leave sums of their programs; those of all layers lie side by side, so that a single
operation adds up all of one kind, in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dhilgt.fused import launch, launch_rows
from dhilgt.fused.launch import Codes
from dhilgt.fused.tables import slopes_of_tables
from dhilgt.fused.weights import Weights

# Since PyTorch 2.8 a product can give float32 from bfloat16 without rounding in between.
_WIDENS = hasattr(torch.ops.aten.mm, "dtype")


class Sums(NamedTuple):
    """Room for the sums of programs, of all layers."""

    norms: Tensor  # [2 layers + 1, programs, 3, F]: weight, bias, and what was added before
    gelus: Tensor  # [layers, programs, inner]
    qkv: Tensor  # [layers, tokens, 3 F]
    tables: Tensor  # [layers, programs, places, H]

    @classmethod
    def empty(cls, layers: Sequence[Weights], codes: Codes, h: Tensor, heads: int) -> Sums:
        """Gives room, nothing in it.

        Args:
            layers: Parameters.
            codes: Of the pairs.
            h: The sum along the layers, [R, F].
            heads: Number of heads.
        """
        rows, width = h.shape
        rooms = launch_rows.empty_sums(len(layers), rows, width, len(layers[0].ffn_in), h)
        learned = layers[0].spd_bias is not None
        of_pairs = launch.empty_sums(codes, len(layers), width, heads, h, learned)
        return cls(*rooms, *of_pairs)


def weight_slope(above: Tensor, below: Tensor) -> Tensor:
    """Gives above^T below, in float32 where that costs nothing.

    Args:
        above: Slope of a product, [R, out].
        below: What was multiplied, [R, in].
    """
    if _WIDENS and above.is_cuda and above.dtype == torch.bfloat16:
        return torch.mm(above.t(), below, out_dtype=torch.float32)
    return above.t() @ below


def slopes_of_layers(
    layers: Sequence[Weights],
    products: Sequence[dict[str, Tensor]],
    sums: Sums,
    codes: Codes,
    scale: float,
) -> tuple[list[Tensor | None], tuple[Tensor, Tensor]]:
    """Gives the slopes of all parameters in the order of `Weights`, and of the last norm.

    Args:
        layers: The parameters themselves.
        products: Slopes of the weights of products, of each layer.
        sums: What kernels left.
        codes: Of the pairs.
        scale: Factor on the biases of pairs.
    """
    norms = sums.norms.sum(1)  # [2 layers + 1, 3, F]
    inner, qkv = sums.gelus.sum(1), sums.qkv.sum(1)
    biases = [layer[-4:] for layer in layers]
    tables: list[tuple[Tensor | None, ...]] = [(None,) * 4 for _ in layers]
    if biases[0][0] is not None or codes.virtual:
        tables = slopes_of_tables(sums.tables.sum(1), biases, codes.virtual, scale)
    found: list[Tensor | None] = []
    for at, layer in enumerate(layers):
        first, second, behind = norms[2 * at], norms[2 * at + 1], norms[2 * at + 2]
        slopes = Weights(
            first[0],
            first[1],
            products[at]["qkv"],
            qkv[at],
            products[at]["projection"],
            second[2],
            second[0],
            second[1],
            products[at]["ffn_in"],
            inner[at],
            products[at]["ffn_out"],
            behind[2],
            *tables[at],
        )
        found += [
            None if own is None or like is None else own.to(like.dtype)
            for own, like in zip(slopes, layer, strict=True)
        ]
    return found, (norms[-1, 0], norms[-1, 1])
