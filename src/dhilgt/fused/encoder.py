"""All layers of the encoder as one operation with a gradient.

What the backward pass needs is chosen by hand: of each layer the sum along the layers, queries,
keys and values, the mixed values, the sum behind attention and the input of GELU. Norms, GELU's
output and all dropout masks are computed again. With `recompute` the first of these alone is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dhilgt.fused import launch, launch_rows
from dhilgt.fused.launch import Codes, Draw


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
    table: Tensor


_PRODUCTS = {"qkv", "projection", "ffn_in", "ffn_out"}  # with their biases: in compute precision


@dataclass(frozen=True)
class Plan:
    """What stays the same over a forward pass and its backward pass.

    Attributes:
        heads: Number of heads.
        eps: Of the norms.
        dropout: Share dropped of what each block adds.
        attention_dropout: Share dropped of the attention weights.
        distances: Whether distances have a bias that is learned.
        recompute: Keep the sum along the layers alone, and compute each layer twice.
        keep: Whether a backward pass may follow.
    """

    heads: int
    eps: float
    dropout: float
    attention_dropout: float
    distances: bool
    recompute: bool = False
    keep: bool = True


class _Kept(NamedTuple):
    """What a layer leaves for its backward pass."""

    h: Tensor  # [R, F]
    qkv: Tensor  # [B, t, 3 F]
    lse: Tensor  # [B, H, t]
    mixed: Tensor  # [R, F]
    middle: Tensor  # [R, F]
    inner: Tensor  # [R, ffn]


def encode(
    h: Tensor,
    codes: Codes,
    seed: Tensor,
    plan: Plan,
    layers: Sequence[Weights],
    norm: Tensor,
    shift: Tensor,
) -> Tensor:
    """Gives the normed representations behind the last layer, [B, t, F], in the dtype of `h`.

    Args:
        h: [B, t, F], in the precision to compute in.
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
        plan: Plan,
        norm: Tensor,
        shift: Tensor,
        *flat: Tensor,
    ) -> Tensor:
        shape, h = h.shape, h.contiguous().view(-1, h.shape[-1])
        layers = [_prepared(layer, h.dtype) for layer in _layers(flat)]
        kept: list[Tensor] = []
        first = layers[0]
        _, normed = launch_rows.add_norm(
            h,
            None,
            first.attention_norm,
            first.attention_shift,
            plan.eps,
            _branch(seed, plan, 0, 0),
        )
        for at, layer in enumerate(layers):
            found = _first_half(h, normed, layer, codes, seed, plan, at)
            added = torch.addmm(
                layer.ffn_out_bias, launch_rows.gelu(found.inner), layer.ffn_out.t()
            )
            follows = layers[at + 1] if at + 1 < len(layers) else None
            weight, bias = (
                (norm, shift)
                if follows is None
                else (follows.attention_norm, follows.attention_shift)
            )
            h, normed = launch_rows.add_norm(
                found.middle, added, weight, bias, plan.eps, _branch(seed, plan, at, 1)
            )
            if plan.keep:
                kept += found[:1] if plan.recompute else found
        if plan.keep:
            ctx.save_for_backward(seed, codes.values, codes.farthest, norm, shift, h, *kept, *flat)
            ctx.rest = (codes.slots, codes.virtual, plan, len(layers), len(kept))
        return normed.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        slots, virtual, plan, count, num_kept = ctx.rest
        seed, values, farthest, norm, shift, h, *rest = ctx.saved_tensors
        kept, flat = rest[:num_kept], rest[num_kept:]
        del rest
        codes = Codes(values, farthest, slots, virtual)
        originals = _layers(flat)
        each = num_kept // count
        shape = slope.shape
        last = launch_rows.add_norm_backward(
            h,
            slope.contiguous().view(-1, shape[-1]),
            None,
            norm,
            shift,
            plan.eps,
            _branch(seed, plan, count - 1, 1),
            again=False,
        )
        slopes: list[Tensor] = []
        stream, branch, branch_sum = last.stream, last.branch, last.branch_sum
        for at in reversed(range(count)):
            layer = _prepared(originals[at], h.dtype)
            mine = kept[at * each : (at + 1) * each]
            if plan.recompute:
                _, normed = launch_rows.add_norm(
                    mine[0],
                    None,
                    layer.attention_norm,
                    layer.attention_shift,
                    plan.eps,
                    _branch(seed, plan, at, 0),
                )
                found = _first_half(mine[0], normed, layer, codes, seed, plan, at)
                del normed
            else:
                found = _Kept(*mine)
            assert branch is not None
            down, own = _layer_backward(found, stream, branch, layer, codes, seed, plan, at)
            own["ffn_out_bias"] = branch_sum
            stream, branch, branch_sum = down.stream, down.branch, down.branch_sum
            own_slopes = [
                own[name].to(getattr(originals[at], name).dtype) for name in Weights._fields
            ]
            slopes = own_slopes + slopes
        ends = (last.weight.to(norm.dtype), last.bias.to(shift.dtype))
        return (stream.view(shape), None, None, None, *ends, *slopes)


def _layers(flat: Sequence[Tensor]) -> list[Weights]:
    size = len(Weights._fields)
    return [Weights(*flat[start : start + size]) for start in range(0, len(flat), size)]


def _prepared(layer: Weights, dtype: torch.dtype) -> Weights:
    """Gives the parameters as the products and kernels take them."""
    values = {
        name: tensor.detach().to(dtype)
        for name, tensor in layer._asdict().items()
        if name.removesuffix("_bias") in _PRODUCTS
    }
    return layer._replace(table=launch.flat_table(layer.table), **values)


def _branch(seed: Tensor, plan: Plan, layer: int, block: int) -> Draw:
    """Gives what is dropped of what attention (0) or the feed-forward block (1) adds."""
    return Draw(seed, 2 + 3 * layer + block, plan.dropout)


def _first_half(
    h: Tensor, normed: Tensor, layer: Weights, codes: Codes, seed: Tensor, plan: Plan, at: int
) -> _Kept:
    """Goes from a layer's input to the input of GELU."""
    batch = codes.values.shape[0]
    qkv = torch.addmm(layer.qkv_bias, normed, layer.qkv.t())  # [R, 3 F]
    qkv = qkv.view(batch, -1, qkv.shape[1])
    weights = Draw(seed, 1 + 3 * at, plan.attention_dropout)
    mixed, lse = launch.attend_forward(qkv, codes, layer.table, plan.heads, weights)
    mixed = mixed.view(h.shape)
    added = torch.addmm(layer.projection_bias, mixed, layer.projection.t())
    middle, middle_normed = launch_rows.add_norm(
        h, added, layer.ffn_norm, layer.ffn_shift, plan.eps, _branch(seed, plan, at, 0)
    )
    inner = torch.addmm(layer.ffn_in_bias, middle_normed, layer.ffn_in.t())
    return _Kept(h, qkv, lse, mixed, middle, inner)


def _layer_backward(
    found: _Kept,
    stream: Tensor,
    branch: Tensor,
    layer: Weights,
    codes: Codes,
    seed: Tensor,
    plan: Plan,
    at: int,
) -> tuple[launch_rows.NormSlopes, dict[str, Tensor]]:
    """Goes back through a layer.

    Args:
        found: What the layer kept.
        stream: Slope of the layer's output; overwritten.
        branch: Slope of what the feed-forward block added.
        layer: Prepared parameters.
        codes: Of the pairs.
        seed: Of all dropout.
        plan: Settings.
        at: Number of the layer.
    """
    own: dict[str, Tensor] = {}
    inner_slope = branch @ layer.ffn_out
    outer, own["ffn_in_bias"] = launch_rows.gelu_backward(found.inner, inner_slope)
    own["ffn_out"] = branch.t() @ outer
    del outer, branch
    middle = launch_rows.add_norm_backward(
        found.middle,
        inner_slope @ layer.ffn_in,
        stream,
        layer.ffn_norm,
        layer.ffn_shift,
        plan.eps,
        _branch(seed, plan, at, 0),
        again=True,
    )
    assert middle.branch is not None
    assert middle.normed is not None
    own["ffn_norm"], own["ffn_shift"] = middle.weight, middle.bias
    own["projection_bias"] = middle.branch_sum
    own["ffn_in"] = inner_slope.t() @ middle.normed
    del inner_slope
    own["projection"] = middle.branch.t() @ found.mixed
    attended = launch.attend_backward(
        (middle.branch @ layer.projection).view(codes.values.shape[0], -1, found.h.shape[1]),
        found.qkv,
        codes,
        layer.table,
        found.lse,
        Draw(seed, 1 + 3 * at, plan.attention_dropout),
        plan.distances,
    )
    own["qkv_bias"], own["table"] = attended.bias, attended.table
    qkv_slope = attended.qkv.view(-1, attended.qkv.shape[-1])
    down = launch_rows.add_norm_backward(
        found.h,
        qkv_slope @ layer.qkv,
        middle.stream,
        layer.attention_norm,
        layer.attention_shift,
        plan.eps,
        _branch(seed, plan, at - 1, 1) if at else None,
        again=True,
    )
    assert down.normed is not None
    own["qkv"] = qkv_slope.t() @ down.normed
    own["attention_norm"], own["attention_shift"] = down.weight, down.bias
    return down, own


def read_out(normed: Tensor, real: Tensor, weight: Tensor) -> Tensor:
    """Gives the ego plus the weighted members of its row, [B, F] float32.

    Args:
        normed: [B, t, F]; slots behind those of `real` are left out.
        real: [B, s] bool.
        weight: Of the scores, [1, F].
    """
    out: Tensor = _ReadOut.apply(normed, real, weight)  # type: ignore[no-untyped-call]
    return out


class _ReadOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, normed: Tensor, real: Tensor, weight: Tensor) -> Tensor:
        normed, real = normed.contiguous(), real.contiguous()
        ctx.save_for_backward(normed, real, weight)
        return launch_rows.readout(normed, real, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        normed, real, weight = ctx.saved_tensors
        down, own = launch_rows.readout_backward(slope.float().contiguous(), normed, real, weight)
        return down, None, own.view(weight.shape).to(weight.dtype)
