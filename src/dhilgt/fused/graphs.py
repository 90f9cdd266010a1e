"""A whole training step as one CUDA graph: small batches do not wait for launches.

A step of a small batch is some hundreds of short kernels, and starting each one costs more than
running it. Batches of one shape run the same kernels at the same addresses, so they are recorded
once and replayed: forward, loss, backward, clipping and the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.errors import TrainingWarning, warn

MOST_SHAPES = 4
"""Shapes of batches that are recorded; others run step by step."""

_ROOM = 256  # rows of features are provided for in steps of this many


@dataclass(frozen=True)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    x: Tensor
    index: Tensor
    spd: Tensor
    labels: Tensor
    loss: Tensor


class StepGraphs:
    """Replays training steps of batches whose shape it has seen.

    The optimizer must have taken a step before, so that its state exists, and must be able to run
    inside a graph (`dhilgt.schedule.build_optimizer` sees to it on CUDA).

    Args:
        model: Called with a batch's inputs.
        optimizer: Over the model's parameters; its rate is a tensor.
        clip_norm: Largest norm of all gradients; None for no limit.
        context: Gives the context of the forward pass: autocast, or one that does nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        context: Callable[[], Any],
    ) -> None:
        self._model, self._optimizer = model, optimizer
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._clip_norm, self._context = clip_norm, context
        self._held: dict[tuple[Any, ...], _Recorded] = {}
        self._given_up = False

    def step(self, inputs: tuple[Tensor, Tensor, Tensor], labels: Tensor) -> Tensor | None:
        """Takes a step and gives its loss, which the next step overwrites; None: not recorded.

        Args:
            inputs: x, index and spd of a batch, on the device.
            labels: Classes of the egos.
        """
        x, index, spd = inputs
        if self._given_up or x.layout != torch.strided:
            return None
        shape = (index.shape, index.dtype, x.dtype)
        held = self._held.get(shape)
        if held is None or len(x) > len(held.x):
            if held is None and len(self._held) == MOST_SHAPES:
                return None
            held = self._record(inputs, labels)
            if held is None:
                return None
            self._held[shape] = held
        # Rows of x behind these are those of an earlier batch; no slot points at them.
        held.x[: len(x)].copy_(x)
        held.index.copy_(index)
        held.spd.copy_(spd)
        held.labels.copy_(labels)
        held.graph.replay()
        return held.loss

    def _record(self, inputs: tuple[Tensor, Tensor, Tensor], labels: Tensor) -> _Recorded | None:
        x, index, spd = inputs
        # An eighth more than now: the number of distinct nodes varies from batch to batch.
        room = -(-len(x) * 9 // (8 * _ROOM)) * _ROOM
        room = max(len(x), min(room, index.numel()))
        own_x = x.new_zeros(room, x.shape[1])
        own_x[: len(x)] = x
        own = (own_x, index.clone(), spd.clone())
        own_labels = labels.clone()
        device = x.device
        try:
            # Products and kernels choose their plans first, and draw no random numbers for it.
            beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            beside.wait_stream(torch.cuda.current_stream(device))
            with torch.random.fork_rng(devices=[device]), torch.cuda.stream(beside):
                for _ in range(2):
                    self._optimizer.zero_grad(set_to_none=True)
                    self._loss(own, own_labels).backward()  # type: ignore[no-untyped-call]
            torch.cuda.current_stream(device).wait_stream(beside)
            self._optimizer.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            # A loader may be making the next batch in another thread.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                loss = self._loss(own, own_labels)
                loss.backward()  # type: ignore[no-untyped-call]
                if self._clip_norm is not None:
                    nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
                self._optimizer.step()
                loss = loss.detach()
        except RuntimeError as error:
            self._given_up = True
            self._optimizer.zero_grad(set_to_none=True)
            warn(f"steps are not recorded as CUDA graphs: {error}", TrainingWarning)
            return None
        return _Recorded(graph, *own, own_labels, loss)

    def _loss(self, inputs: tuple[Tensor, ...], labels: Tensor) -> Tensor:
        with self._context():
            logits = self._model(*inputs)
        return functional.cross_entropy(logits.float(), labels)
