"""All layers of the encoder as one differentiable operation.

For the backward pass each layer saves the residual stream, queries, keys and values, the mixed
values, the residual stream after attention and the input of GELU. Norms, GELU's output and all
dropout masks are recomputed. With `recompute` only the residual stream is saved. The backward pass
overwrites saved tensors with gradients and frees the others as soon as they are used.
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
    layer_gradients,
    weight_gradient,
)


@dataclass(frozen=True)
class EncoderArgs:
    """Settings of a forward pass and its backward pass.

    Attributes:
        heads: Number of heads.
        eps: Epsilon of the norms.
        dropout: Dropout probability of the output of each block.
        attention_dropout: Dropout probability of the attention weights.
        bias_scale: Factor on the learned biases of pairs.
        recompute: Save only the residual stream, and compute each layer twice.
        keep: Whether a backward pass may follow.
    """

    heads: int
    eps: float
    dropout: float
    attention_dropout: float
    bias_scale: float
    recompute: bool = False
    keep: bool = True


class _Saved(NamedTuple):
    """Tensors that a layer saves for its backward pass."""

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
    args: EncoderArgs,
    layers: Sequence[Weights],
    norm: Tensor,
    shift: Tensor,
) -> Tensor:
    """Return the normed representations after the last layer, in shape and dtype of `h`.

    Args:
        h: [B, t, F], or packed [rows, F]; in the precision of the computation.
        codes: Codes of the pairs.
        seed: Seed of all dropout; see `attention.draw_seed`.
        args: Settings of the pass.
        layers: Parameters of the layers, in their own precision.
        norm: Weight of the last norm.
        shift: Bias of the last norm.
    """
    flat = [tensor for layer in layers for tensor in layer]
    out: Tensor = _Encode.apply(h, codes, seed, args, norm, shift, *flat)  # type: ignore[no-untyped-call]
    return out


class _Encode(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        codes: Codes,
        seed: Tensor,
        args: EncoderArgs,
        norm: Tensor,
        shift: Tensor,
        *flat: Tensor,
    ) -> Tensor:
        shape, h = h.shape, h.contiguous().view(-1, h.shape[-1])
        layers, tables = _prepared(_layers(flat), h.dtype, args)
        kept: list[Tensor] = []
        first = layers[0]
        _, normed = row_ops.add_norm(
            h,
            None,
            first.attention_norm,
            first.attention_shift,
            args.eps,
            _branch(seed, args, 0, 0),
        )
        for at in range(len(layers)):
            saved, h, normed = _layer_forward(
                h, normed, layers, tables, (norm, shift), codes, seed, args, at
            )
            if args.keep:
                kept += saved[:1] if args.recompute else saved
        if args.keep:
            ctx.save_for_backward(seed, *codes[:2], codes.offsets, norm, shift, *flat)
            # Not through save_for_backward: the list lets each tensor be freed after its use.
            ctx.kept = [h, *kept]
            ctx.rest = (codes.slots, codes.virtual, args, layers, tables)
        return normed.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError(
                "a second backward pass through the fused kernels: they free what it needs; "
                'create the model with attention="sdpa"'
            )
        slots, virtual, args, layers, tables = ctx.rest
        seed, values, farthest, offsets, norm, shift, *flat = ctx.saved_tensors
        kept: list[Tensor] = ctx.kept
        ctx.kept = None
        codes = Codes(values, farthest, slots, virtual, offsets)
        count, shape = len(layers), grad.shape
        each = (len(kept) - 1) // count
        h = kept.pop(0)
        sums = Sums.empty(layers, codes, h, args.heads)
        last = row_ops.add_norm_backward(
            h,
            grad.contiguous().view(-1, shape[-1]),
            None,
            norm,
            shift,
            args.eps,
            _branch(seed, args, count - 1, 1),
            recompute=False,
            room=sums.norms[2 * count],
        )
        del h, grad
        stream, branch = last.stream, last.branch
        del last
        products: list[dict[str, Tensor]] = [{} for _ in layers]
        for at in reversed(range(count)):
            layer = layers[at]
            own = kept[at * each :]
            del kept[at * each :]
            if args.recompute:
                _, normed = row_ops.add_norm(
                    own[0],
                    None,
                    layer.attention_norm,
                    layer.attention_shift,
                    args.eps,
                    _branch(seed, args, at, 0),
                )
                saved, _, _ = _layer_forward(
                    own[0], normed, layers, tables, (norm, shift), codes, seed, args, at
                )
                del normed
            else:
                saved = _Saved(*own)
            assert branch is not None
            held = list(saved)
            del own, saved
            branches = [branch]  # a list, so that the callee can free it
            del branch
            weight_grads = products[at]
            branch = _ffn_backward(
                held, stream, branches, layer, seed, args, at, weight_grads, sums
            )
            down = _attention_backward(
                held, stream, branch, layer, tables[at], codes, seed, args, at, weight_grads, sums
            )
            stream, branch = down.stream, down.branch
            del down
        grads, ends = layer_gradients(_layers(flat), products, sums, codes, args.bias_scale)
        return (
            stream.view(shape),
            None,
            None,
            None,
            ends[0].to(norm.dtype),
            ends[1].to(shift.dtype),
            *grads,
        )


def _layers(flat: Sequence[Tensor]) -> list[Weights]:
    size = len(Weights._fields)
    return [Weights(*flat[start : start + size]) for start in range(0, len(flat), size)]


def _prepared(
    layers: Sequence[Weights], dtype: torch.dtype, args: EncoderArgs
) -> tuple[list[Weights], Tensor]:
    """Return the parameters in the precision of the computation, and all bias tables."""
    names = [name for name in Weights._fields if name.removesuffix("_bias") in PRODUCTS]
    chosen = [getattr(layer, name).detach() for layer in layers for name in names]
    if any(tensor.dtype != dtype for tensor in chosen):
        # Two kernels in all, not one per tensor.
        joined = torch.cat([tensor.reshape(-1) for tensor in chosen]).to(dtype)
        parts = torch.split(joined, [tensor.numel() for tensor in chosen])
        chosen = [part.view(like.shape) for part, like in zip(parts, chosen, strict=True)]
    each = len(names)
    ready = [
        layer._replace(**dict(zip(names, chosen[at * each : (at + 1) * each], strict=True)))
        for at, layer in enumerate(layers)
    ]
    return ready, all_tables(
        [layer[-4:] for layer in layers], args.heads, args.bias_scale, layers[0].qkv
    )


def _branch(seed: Tensor, args: EncoderArgs, layer: int, block: int) -> Draw:
    """Return the dropout of the output of attention (0) or of the feed-forward block (1)."""
    return Draw(seed, 2 + 3 * layer + block, args.dropout)


def _layer_forward(
    h: Tensor,
    normed: Tensor,
    layers: Sequence[Weights],
    tables: Tensor,
    end: tuple[Tensor, Tensor],
    codes: Codes,
    seed: Tensor,
    args: EncoderArgs,
    at: int,
) -> tuple[_Saved, Tensor, Tensor]:
    """Return what a layer saves, the residual stream after it, and its norm.

    Args:
        h: The residual stream before the layer, [R, F].
        normed: Its norm.
        layers: Parameters from `_prepared`.
        tables: Bias tables of all layers.
        end: Weight and bias of the norm after the last layer.
        codes: Codes of the pairs.
        seed: Seed of all dropout.
        args: Settings of the pass.
        at: Index of the layer.
    """
    layer = layers[at]
    next_norm = end
    if at + 1 < len(layers):
        next_norm = (layers[at + 1].attention_norm, layers[at + 1].attention_shift)
    qkv = torch.addmm(layer.qkv_bias, normed, layer.qkv.t())  # [R, 3 F]
    weights = Draw(seed, 1 + 3 * at, args.attention_dropout)
    mixed, lse = attention.attend_forward(qkv, codes, tables[at], args.heads, weights)
    draws = (_branch(seed, args, at, 0), _branch(seed, args, at, 1))
    if row_ops.fits(h, len(layer.ffn_in)):
        block = row_ops.run_block(
            mixed,
            h,
            (layer.projection, layer.projection_bias),
            (layer.ffn_norm, layer.ffn_shift),
            (layer.ffn_in, layer.ffn_in_bias),
            (layer.ffn_out, layer.ffn_out_bias),
            next_norm,
            args.eps,
            draws,
            args.keep,
        )
        middle, inner = (mixed if part is None else part for part in block[:2])
        return _Saved(h, qkv, lse, mixed, middle, inner), block.h, block.normed
    added = torch.addmm(layer.projection_bias, mixed, layer.projection.t())
    middle, middle_normed = row_ops.add_norm(
        h, added, layer.ffn_norm, layer.ffn_shift, args.eps, draws[0]
    )
    inner = torch.addmm(layer.ffn_in_bias, middle_normed, layer.ffn_in.t())
    added = torch.addmm(layer.ffn_out_bias, row_ops.gelu(inner), layer.ffn_out.t())
    out, normed = row_ops.add_norm(middle, added, *next_norm, args.eps, draws[1])
    return _Saved(h, qkv, lse, mixed, middle, inner), out, normed


def _ffn_backward(
    held: list[Tensor],
    stream: Tensor,
    branches: list[Tensor],
    layer: Weights,
    seed: Tensor,
    args: EncoderArgs,
    at: int,
    weight_grads: dict[str, Tensor],
    sums: Sums,
) -> Tensor:
    """Run a feed-forward block backwards; return the gradient of the output of attention.

    Args:
        held: The fields of `_Saved`; removed from the end.
        stream: Gradient of the layer's output; overwritten by that of the stream after attention.
        branches: Gradient of the output of the block; removed.
        layer: Parameters from `_prepared`.
        seed: Seed of all dropout.
        args: Settings of the pass.
        at: Index of the layer.
        weight_grads: Takes the gradients of the weights of `PRODUCTS`.
        sums: Takes the gradients of the other parameters.
    """
    inner, branch = held.pop(), branches.pop()
    inner_grad = branch @ layer.ffn_out
    row_ops.gelu_backward(inner, inner_grad, sums.gelus[at])
    weight_grads["ffn_out"] = weight_gradient(branch, inner)
    del inner, branch
    middle = row_ops.add_norm_backward(
        held.pop(),
        inner_grad @ layer.ffn_in,
        stream,
        layer.ffn_norm,
        layer.ffn_shift,
        args.eps,
        _branch(seed, args, at, 0),
        recompute=True,
        reuse=True,
        room=sums.norms[2 * at + 1],
    )
    assert middle.branch is not None
    assert middle.normed is not None
    weight_grads["ffn_in"] = weight_gradient(inner_grad, middle.normed)
    return middle.branch


def _attention_backward(
    held: list[Tensor],
    stream: Tensor,
    branch: Tensor,
    layer: Weights,
    table: Tensor,
    codes: Codes,
    seed: Tensor,
    args: EncoderArgs,
    at: int,
    weight_grads: dict[str, Tensor],
    sums: Sums,
) -> row_ops.NormGradients:
    """Run an attention block and the norm before it backwards.

    Args:
        held: The fields of `_Saved` that `_ffn_backward` left.
        stream: Gradient of the stream after attention; overwritten by that of the layer's input.
        branch: Gradient of the output of attention.
        layer: Parameters from `_prepared`.
        table: Its bias table.
        codes: Codes of the pairs.
        seed: Seed of all dropout.
        args: Settings of the pass.
        at: Index of the layer.
        weight_grads: Takes the gradients of the weights of `PRODUCTS`.
        sums: Takes the gradients of the other parameters.
    """
    weight_grads["projection"] = weight_gradient(branch, held.pop())
    h, qkv, lse = held
    held.clear()
    attended = attention.attend_backward(
        branch @ layer.projection,
        qkv,
        codes,
        table,
        lse,
        Draw(seed, 1 + 3 * at, args.attention_dropout),
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
        args.eps,
        _branch(seed, args, at - 1, 1) if at else None,
        recompute=True,
        reuse=at > 0,  # the first layer's input belongs to the caller
        room=sums.norms[2 * at],
    )
    assert down.normed is not None
    weight_grads["qkv"] = weight_gradient(attended.qkv, down.normed)
    return down
