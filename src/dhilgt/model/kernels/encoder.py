"""All layers of the encoder as one operation with a gradient.

What the backward pass needs is chosen by hand: of each layer the sum along the layers, queries,
keys and values, the mixed values, the sum behind attention and the input of GELU. Norms, GELU's
output and all dropout masks are computed again. With `recompute` the first of these alone is kept.
The backward pass writes slopes over what it has used, and lets go of the rest as it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.model.kernels import attention, row_ops
from dhilgt.model.kernels.attention import Codes, Draw
from dhilgt.model.kernels.gradients import (
    PRODUCTS,
    Sums,
    Weights,
    all_tables,
    slopes_of_layers,
    weight_slope,
)


@dataclass(frozen=True)
class EncoderArgs:
    """What stays the same over a forward pass and its backward pass.

    Attributes:
        heads: Number of heads.
        eps: Of the norms.
        dropout: Share dropped of what each block adds.
        attention_dropout: Share dropped of the attention weights.
        bias_scale: Factor on the learned biases of pairs.
        recompute: Keep the sum along the layers alone, and compute each layer twice.
        keep: Whether a backward pass may follow.
    """

    heads: int
    eps: float
    dropout: float
    attention_dropout: float
    bias_scale: float
    recompute: bool = False
    keep: bool = True


class _Kept(NamedTuple):
    """What a layer leaves for its backward pass."""

    h: Tensor  # [R, F]
    qkv: Tensor  # [R, 3 F]
    lse: Tensor  # [tokens, H, t]
    mixed: Tensor  # [R, F]
    middle: Tensor  # [R, F]
    inner: Tensor  # [R, ffn]


def encode(
    h: Tensor,
    codes: Codes,
    seed: Tensor,
    plan: EncoderArgs,
    layers: Sequence[Weights],
    norm: Tensor,
    shift: Tensor,
) -> Tensor:
    """Gives the normed representations behind the last layer, in shape and dtype of `h`.

    Args:
        h: [B, t, F], or packed [rows, F]; in the precision to compute in.
        codes: Of the pairs.
        seed: Of all dropout; see `attention.draw_seed`.
        plan: Settings.
        layers: Parameters of the layers, in their own precision.
        norm: Weight of the last norm.
        shift: Bias of the last norm.
    """
    flat = [tensor for layer in layers for tensor in layer]
    out: Tensor = _Encode.apply(h, codes, seed, plan, norm, shift, *flat)  # type: ignore[no-untyped-call]
    return out


class _Encode(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        codes: Codes,
        seed: Tensor,
        plan: EncoderArgs,
        norm: Tensor,
        shift: Tensor,
        *flat: Tensor,
    ) -> Tensor:
        shape, h = h.shape, h.contiguous().view(-1, h.shape[-1])
        layers, tables = _prepared(_layers(flat), h.dtype, plan)
        kept: list[Tensor] = []
        first = layers[0]
        _, normed = row_ops.add_norm(
            h,
            None,
            first.attention_norm,
            first.attention_shift,
            plan.eps,
            _branch(seed, plan, 0, 0),
        )
        for at in range(len(layers)):
            found, h, normed = _layer_forward(
                h, normed, layers, tables, (norm, shift), codes, seed, plan, at
            )
            if plan.keep:
                kept += found[:1] if plan.recompute else found
        if plan.keep:
            ctx.save_for_backward(seed, *codes[:2], codes.offsets, norm, shift, *flat)
            # Not as saved tensors, which stay to the end: each goes when it was used.
            ctx.kept = [h, *kept]
            ctx.rest = (codes.slots, codes.virtual, plan, layers, tables)
        return normed.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError(
                "a second backward pass through the fused kernels: they keep nothing for it; "
                'give the model attention="sdpa"'
            )
        slots, virtual, plan, layers, tables = ctx.rest
        seed, values, farthest, offsets, norm, shift, *flat = ctx.saved_tensors
        kept: list[Tensor] = ctx.kept
        ctx.kept = None
        codes = Codes(values, farthest, slots, virtual, offsets)
        count, shape = len(layers), slope.shape
        each = (len(kept) - 1) // count
        h = kept.pop(0)
        sums = Sums.empty(layers, codes, h, plan.heads)
        last = row_ops.add_norm_backward(
            h,
            slope.contiguous().view(-1, shape[-1]),
            None,
            norm,
            shift,
            plan.eps,
            _branch(seed, plan, count - 1, 1),
            again=False,
            room=sums.norms[2 * count],
        )
        del h, slope
        stream, branch = last.stream, last.branch
        del last
        products: list[dict[str, Tensor]] = [{} for _ in layers]
        for at in reversed(range(count)):
            layer = layers[at]
            mine = kept[at * each :]
            del kept[at * each :]
            if plan.recompute:
                _, normed = row_ops.add_norm(
                    mine[0],
                    None,
                    layer.attention_norm,
                    layer.attention_shift,
                    plan.eps,
                    _branch(seed, plan, at, 0),
                )
                found, _, _ = _layer_forward(
                    mine[0], normed, layers, tables, (norm, shift), codes, seed, plan, at
                )
                del normed
            else:
                found = _Kept(*mine)
            assert branch is not None
            held = list(found)
            del mine, found
            branches = [branch]  # the callee lets go of it
            del branch
            own = products[at]
            branch = _ffn_backward(held, stream, branches, layer, seed, plan, at, own, sums)
            down = _attention_backward(
                held, stream, branch, layer, tables[at], codes, seed, plan, at, own, sums
            )
            stream, branch = down.stream, down.branch
            del down
        own_slopes, ends = slopes_of_layers(_layers(flat), products, sums, codes, plan.bias_scale)
        return (
            stream.view(shape),
            None,
            None,
            None,
            ends[0].to(norm.dtype),
            ends[1].to(shift.dtype),
            *own_slopes,
        )


def _layers(flat: Sequence[Tensor]) -> list[Weights]:
    size = len(Weights._fields)
    return [Weights(*flat[start : start + size]) for start in range(0, len(flat), size)]


def _prepared(
    layers: Sequence[Weights], dtype: torch.dtype, plan: EncoderArgs
) -> tuple[list[Weights], Tensor]:
    """Gives the parameters as the products and kernels take them, and the tables of all layers."""
    names = [name for name in Weights._fields if name.removesuffix("_bias") in PRODUCTS]
    chosen = [getattr(layer, name).detach() for layer in layers for name in names]
    if any(tensor.dtype != dtype for tensor in chosen):
        # In two kernels, not one for each.
        joined = torch.cat([tensor.reshape(-1) for tensor in chosen]).to(dtype)
        parts = torch.split(joined, [tensor.numel() for tensor in chosen])
        chosen = [part.view(like.shape) for part, like in zip(parts, chosen, strict=True)]
    each = len(names)
    ready = [
        layer._replace(**dict(zip(names, chosen[at * each : (at + 1) * each], strict=True)))
        for at, layer in enumerate(layers)
    ]
    return ready, all_tables(
        [layer[-4:] for layer in layers], plan.heads, plan.bias_scale, layers[0].qkv
    )


def _branch(seed: Tensor, plan: EncoderArgs, layer: int, block: int) -> Draw:
    """Gives what is dropped of what attention (0) or the feed-forward block (1) adds."""
    return Draw(seed, 2 + 3 * layer + block, plan.dropout)


def _layer_forward(
    h: Tensor,
    normed: Tensor,
    layers: Sequence[Weights],
    tables: Tensor,
    end: tuple[Tensor, Tensor],
    codes: Codes,
    seed: Tensor,
    plan: EncoderArgs,
    at: int,
) -> tuple[_Kept, Tensor, Tensor]:
    """Gives what a layer keeps, the sum behind it and its norm.

    Args:
        h: The sum before the layer, [R, F].
        normed: Its norm.
        layers: Prepared parameters.
        tables: Of all layers.
        end: Weight and bias of the norm behind the last layer.
        codes: Of the pairs.
        seed: Of all dropout.
        plan: Settings.
        at: Number of the layer.
    """
    layer = layers[at]
    follows = end
    if at + 1 < len(layers):
        follows = (layers[at + 1].attention_norm, layers[at + 1].attention_shift)
    qkv = torch.addmm(layer.qkv_bias, normed, layer.qkv.t())  # [R, 3 F]
    weights = Draw(seed, 1 + 3 * at, plan.attention_dropout)
    mixed, lse = attention.attend_forward(qkv, codes, tables[at], plan.heads, weights)
    draws = (_branch(seed, plan, at, 0), _branch(seed, plan, at, 1))
    if row_ops.fits(h, len(layer.ffn_in)):
        found = row_ops.run_block(
            mixed,
            h,
            (layer.projection, layer.projection_bias),
            (layer.ffn_norm, layer.ffn_shift),
            (layer.ffn_in, layer.ffn_in_bias),
            (layer.ffn_out, layer.ffn_out_bias),
            follows,
            plan.eps,
            draws,
            plan.keep,
        )
        middle, inner = (mixed if part is None else part for part in found[:2])
        return _Kept(h, qkv, lse, mixed, middle, inner), found.h, found.normed
    added = torch.addmm(layer.projection_bias, mixed, layer.projection.t())
    middle, middle_normed = row_ops.add_norm(
        h, added, layer.ffn_norm, layer.ffn_shift, plan.eps, draws[0]
    )
    inner = torch.addmm(layer.ffn_in_bias, middle_normed, layer.ffn_in.t())
    added = torch.addmm(layer.ffn_out_bias, row_ops.gelu(inner), layer.ffn_out.t())
    out, normed = row_ops.add_norm(middle, added, *follows, plan.eps, draws[1])
    return _Kept(h, qkv, lse, mixed, middle, inner), out, normed


def _ffn_backward(
    held: list[Tensor],
    stream: Tensor,
    branches: list[Tensor],
    layer: Weights,
    seed: Tensor,
    plan: EncoderArgs,
    at: int,
    own: dict[str, Tensor],
    sums: Sums,
) -> Tensor:
    """Goes back through a feed-forward block; gives the slope of what attention added.

    Args:
        held: What the layer kept, as `_Kept`; used up from the end.
        stream: Slope of the layer's output; overwritten by that of the sum behind attention.
        branches: Slope of what the block added; used up.
        layer: Prepared parameters.
        seed: Of all dropout.
        plan: Settings.
        at: Number of the layer.
        own: Takes the slopes of the products' weights.
        sums: Takes those of the other parameters.
    """
    inner, branch = held.pop(), branches.pop()
    inner_slope = branch @ layer.ffn_out
    row_ops.gelu_backward(inner, inner_slope, sums.gelus[at])
    own["ffn_out"] = weight_slope(branch, inner)
    del inner, branch
    middle = row_ops.add_norm_backward(
        held.pop(),
        inner_slope @ layer.ffn_in,
        stream,
        layer.ffn_norm,
        layer.ffn_shift,
        plan.eps,
        _branch(seed, plan, at, 0),
        again=True,
        reuse=True,
        room=sums.norms[2 * at + 1],
    )
    assert middle.branch is not None
    assert middle.normed is not None
    own["ffn_in"] = weight_slope(inner_slope, middle.normed)
    return middle.branch


def _attention_backward(
    held: list[Tensor],
    stream: Tensor,
    branch: Tensor,
    layer: Weights,
    table: Tensor,
    codes: Codes,
    seed: Tensor,
    plan: EncoderArgs,
    at: int,
    own: dict[str, Tensor],
    sums: Sums,
) -> row_ops.NormSlopes:
    """Goes back through an attention block and the norm before it.

    Args:
        held: What the layer kept, without what `_ffn_backward` took.
        stream: Slope of the sum behind attention; overwritten by that of the layer's input.
        branch: Slope of what attention added.
        layer: Prepared parameters.
        table: Of its biases.
        codes: Of the pairs.
        seed: Of all dropout.
        plan: Settings.
        at: Number of the layer.
        own: Takes the slopes of the products' weights.
        sums: Takes those of the other parameters.
    """
    own["projection"] = weight_slope(branch, held.pop())
    h, qkv, lse = held
    held.clear()
    attended = attention.attend_backward(
        branch @ layer.projection,
        qkv,
        codes,
        table,
        lse,
        Draw(seed, 1 + 3 * at, plan.attention_dropout),
        layer.spd_bias is not None,
        in_place=True,
        room=(sums.qkv[at], sums.tables[at]),
    )
    down = row_ops.add_norm_backward(
        h,
        attended.qkv @ layer.qkv,
        stream,
        layer.attention_norm,
        layer.attention_shift,
        plan.eps,
        _branch(seed, plan, at - 1, 1) if at else None,
        again=True,
        reuse=at > 0,  # the first layer's input is not its own
        room=sums.norms[2 * at],
    )
    assert down.normed is not None
    own["qkv"] = weight_slope(attended.qkv, down.normed)
    return down
