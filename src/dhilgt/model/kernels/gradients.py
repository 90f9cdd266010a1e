"""Parameters of all layers in the kernels' layout, and their gradients in the backward pass.

Each kernel program writes partial sums; those of all layers are in one tensor per kind, so that a
single operation adds them up, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from dhilgt.model.codes import NUM_DISTANCES
from dhilgt.model.kernels import attention, row_ops
from dhilgt.model.kernels.attention import LOG2_E, LOWEST, NEAR, Codes, num_pairs

Biases = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]
"""Biases of distances, and of pairs with virtual nodes: to them, from them, among them."""


def all_tables(layers: Sequence[Biases], heads: int, scale: float, like: Tensor) -> Tensor:
    """Return the bias tables of layers, [layers, H, codes] float32, times log2(e).

    Args:
        layers: Learned biases of each layer; None for biases that are not learned.
        heads: Number of heads.
        scale: Factor on the biases.
        like: A tensor with the device and precision of the parameters.
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


def table_gradients(
    sums: Tensor, layers: Sequence[Biases], virtual: int, scale: float
) -> list[tuple[Tensor | None, ...]]:
    """Return the gradients of each layer's biases.

    Args:
        sums: Gradients of the first places of each table, [layers, places, H].
        layers: The biases.
        virtual: Number of virtual nodes.
        scale: Factor on the biases.
    """
    distances = layers[0][0] is not None
    order = _places(virtual, distances, sums.device)
    whole = sums.index_select(1, order).mul_(scale)  # [layers, biases, H]
    first = NUM_DISTANCES if distances else 0
    ends = (first, first + virtual, first + 2 * virtual, len(order))
    grads = []
    for at, biases in enumerate(layers):
        cuts = zip((0, *ends), ends, strict=False)
        grads.append(
            tuple(
                None if bias is None else whole[at, start:end].view(bias.shape).to(bias.dtype)
                for bias, (start, end) in zip(biases, cuts, strict=True)
            )
        )
    return grads


@cache
def _fixed(
    heads: int, scale: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return zero biases of distances, and the rows of dropped bias and of padding."""
    none = torch.zeros(NUM_DISTANCES, heads, device=device, dtype=dtype)
    last = torch.tensor([[0.0], [LOWEST / scale]], device=device, dtype=dtype)
    return none, last.expand(2, heads).contiguous()


@cache
def _places(virtual: int, distances: bool, device: torch.device) -> Tensor:
    """Return the place in a kernel's table of every bias, in the order of the parameters."""
    pairs = num_pairs(virtual)
    rotated = [(distance + 2) % NUM_DISTANCES for distance in range(NUM_DISTANCES)]
    near_first = (
        [place if place < NEAR else place + pairs for place in rotated] if distances else []
    )
    return torch.tensor(near_first + [NEAR + pair for pair in range(pairs)], device=device)


@cache
def _picks(virtual: int, heads: int, device: torch.device) -> Tensor:
    """Return, for a table [H, codes], the positions of its entries in flat biases [codes, H]."""
    known = _places(virtual, True, torch.device("cpu"))
    order = torch.empty(len(known) + 2, dtype=torch.int64)
    order[known] = torch.arange(len(known))
    order[-2:] = torch.arange(len(known), len(known) + 2)
    picks = order[None, :] * heads + torch.arange(heads)[:, None]  # [H, codes]
    return picks.reshape(-1).to(device)


class Weights(NamedTuple):
    """Parameters of a layer, in the order of their use."""

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
"""Linear maps, which with their biases are cast to the precision of the computation."""


# Since PyTorch 2.8 a product of bfloat16 can be returned in float32 without rounding.
_WIDENS = hasattr(torch.ops.aten.mm, "dtype")


class Sums(NamedTuple):
    """Partial sums of programs, of all layers."""

    norms: Tensor  # [2 layers + 1, programs, 3, F]: weight, bias, and the branch added before
    gelus: Tensor  # [layers, programs, inner]
    qkv: Tensor  # [layers, tokens, 3 F]
    tables: Tensor  # [layers, programs, places, H]

    @classmethod
    def empty(cls, layers: Sequence[Weights], codes: Codes, h: Tensor, heads: int) -> Sums:
        """Return empty tensors.

        Args:
            layers: Parameters of the layers.
            codes: Codes of the pairs.
            h: The residual stream, [R, F].
            heads: Number of heads.
        """
        rows, width = h.shape
        rooms = row_ops.empty_sums(len(layers), rows, width, len(layers[0].ffn_in), h)
        learned = layers[0].spd_bias is not None
        of_pairs = attention.empty_sums(codes, len(layers), width, heads, h, learned)
        return cls(*rooms, *of_pairs)


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of a weight, grad^T x, in float32 where that is free.

    Args:
        grad: Gradient of the output of a linear map, [R, out].
        x: Its input, [R, in].
    """
    if _WIDENS and grad.is_cuda and grad.dtype == torch.bfloat16:
        return torch.mm(grad.t(), x, out_dtype=torch.float32)
    return grad.t() @ x


def layer_gradients(
    layers: Sequence[Weights],
    products: Sequence[dict[str, Tensor]],
    sums: Sums,
    codes: Codes,
    scale: float,
) -> tuple[list[Tensor | None], tuple[Tensor, Tensor]]:
    """Return the gradients of all parameters in the order of `Weights`, and of the last norm.

    Args:
        layers: The parameters.
        products: Gradients of the weights of `PRODUCTS`, of each layer.
        sums: Partial sums of the kernels.
        codes: Codes of the pairs.
        scale: Factor on the biases of pairs.
    """
    norms = sums.norms.sum(1)  # [2 layers + 1, 3, F]
    inner, qkv = sums.gelus.sum(1), sums.qkv.sum(1)
    biases = [layer[-4:] for layer in layers]
    tables: list[tuple[Tensor | None, ...]] = [(None,) * 4 for _ in layers]
    if biases[0][0] is not None or codes.virtual:
        tables = table_gradients(sums.tables.sum(1), biases, codes.virtual, scale)
    grads: list[Tensor | None] = []
    for at, layer in enumerate(layers):
        first, second, next_norm = norms[2 * at], norms[2 * at + 1], norms[2 * at + 2]
        layer_grads = Weights(
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
            next_norm[2],
            *tables[at],
        )
        grads += [
            None if grad is None or parameter is None else grad.to(parameter.dtype)
            for grad, parameter in zip(layer_grads, layer, strict=True)
        ]
    return grads, (norms[-1, 0], norms[-1, 1])
