"""The forward pass of the model, from features to representations, through the fused kernels."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dhilgt.model.kernels import attention, compute_dtype, encoder
from dhilgt.model.kernels.attention import Draw, draw_seed
from dhilgt.model.kernels.encoder import EncoderArgs
from dhilgt.model.kernels.gather import gather
from dhilgt.model.kernels.gradients import Weights
from dhilgt.model.kernels.packing import Packing, Room, pack
from dhilgt.model.kernels.row_ops import read_out, reads_out
from dhilgt.tokens.spec import PADDING

if TYPE_CHECKING:
    from dhilgt.model.dhilgt import DHILGT
    from dhilgt.model.layers import EncoderLayer


def embed(
    model: DHILGT,
    x: Tensor,
    index: Tensor,
    spd: Tensor,
    known: Tensor | None = None,
    ego: Tensor | None = None,
    room: Room | None = None,
) -> Tensor:
    """Return what `DHILGT.embed` returns, [B, F].

    Args:
        model: Whose parameters and settings are used.
        x: As for `DHILGT.forward`.
        index: As for `DHILGT.forward`.
        spd: As for `DHILGT.forward`.
        known: As for `DHILGT.forward`.
        ego: As for `DHILGT.forward`.
        room: As for `DHILGT.forward`.
    """
    with launching_on(index.device):
        return _embed(model, x, index, spd, known, ego, room)


def _embed(
    model: DHILGT,
    x: Tensor,
    index: Tensor,
    spd: Tensor,
    known: Tensor | None,
    ego: Tensor | None,
    room: Room | None,
) -> Tensor:
    dtype, virtual = model.norm.weight.dtype, model.config.num_virtual
    real = index != PADDING
    slots, readout = index.shape[1], model.readout
    fits = readout is None or reads_out(slots + virtual, model.config.hidden_channels)
    packing = pack(model, index, real, room) if fits else None
    normed = _encode(model, x, index, spd, known, ego, real, packing)
    if readout is None:
        egos = normed[:, 0] if packing is None else normed[packing.offsets[: len(index)]]
        return egos.to(dtype)
    if not fits:
        mixed: Tensor = readout(normed[:, :slots], real)
        return mixed.to(dtype)
    offsets = None if packing is None else packing.offsets
    return read_out(normed, real, readout.score.weight, virtual, offsets).to(dtype)


def encode(
    model: DHILGT,
    x: Tensor,
    index: Tensor,
    spd: Tensor,
    known: Tensor | None = None,
    ego: Tensor | None = None,
) -> Tensor:
    """Return the normed representations of all slots and virtual nodes, [B, t, F].

    The sums along the layers have the precision of the products: bfloat16 under autocast.

    Args:
        model: Whose parameters and settings are used.
        x: As for `DHILGT.forward`.
        index: As for `DHILGT.forward`.
        spd: As for `DHILGT.forward`.
        known: As for `DHILGT.forward`.
        ego: As for `DHILGT.forward`.
    """
    return _encode(model, x, index, spd, known, ego, index != PADDING, None)


def _encode(
    model: DHILGT,
    x: Tensor,
    index: Tensor,
    spd: Tensor,
    known: Tensor | None,
    ego: Tensor | None,
    real: Tensor,
    packing: Packing | None,
) -> Tensor:
    """Return what `encode` returns, or the packed rows of it, [rows, F]."""
    config, training = model.config, model.training
    dtype = compute_dtype(index.device, model.norm.weight.dtype)
    h: Tensor = model.input(x).to(dtype)  # [n, F]
    h = gather(*model.place_nodes(h, index, known, ego), model.virtual, packing)
    seed = draw_seed(index.device)
    dropped = config.bias_dropout if training else 0.0
    offsets = None if packing is None else packing.offsets
    codes = attention.make_codes(spd, real, config.num_virtual, Draw(seed, 0, dropped), offsets)
    args = EncoderArgs(
        heads=config.heads,
        eps=model.norm.eps,
        dropout=config.dropout if training else 0.0,
        attention_dropout=config.attention_dropout if training else 0.0,
        # Dropped pairs lose their bias in the codes; the others are scaled up to keep the mean.
        bias_scale=1.0 / (1.0 - dropped),
        recompute=model.recompute,
        keep=torch.is_grad_enabled(),
    )
    layers = [layer_weights(layer) for layer in model.layers]  # type: ignore[arg-type]
    return encoder.encode(h, codes, seed, args, layers, model.norm.weight, model.norm.bias)


def launching_on(device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which kernels start on a device: Triton takes the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def layer_weights(layer: EncoderLayer) -> Weights:
    """Return the parameters of a layer in the order of `Weights`."""
    linear = (layer.qkv, layer.projection, layer.ffn_in, layer.ffn_out)
    qkv, projection, ffn_in, ffn_out = ((part.weight, part.bias) for part in linear)
    norms = (layer.attention_norm, layer.ffn_norm)
    first, second = ((part.weight, part.bias) for part in norms)
    return Weights(
        *first,
        *qkv,
        *projection,
        *second,
        *ffn_in,
        *ffn_out,
        layer.spd_bias,
        layer.to_virtual_bias,
        layer.from_virtual_bias,
        layer.virtual_bias,
    )
