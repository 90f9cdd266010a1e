"""How a trainer runs the model on batches: kernel by kernel, or recorded as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from dhilgt.model.dhilgt import DHILGT
    from dhilgt.model.kernels.cuda_graphs import ForwardGraphs, StepGraphs


class ModelBatch(Protocol):
    """The part of a batch that running a model on it needs."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The model's arguments."""

    @property
    def labels(self) -> Tensor | None:
        """Class of each ego, [B] int64."""


class TokenStepRunner:
    """Run a `DHILGT` on token batches, recorded where that can be done on a GPU.

    It has the methods that the trainer asks of a step runner (`dhilgt.training.steps.StepRunner`).

    Args:
        model: The model; on its device.
        call: What to call: the model, or a wrapper of it that exchanges gradients.
        context: Makes the context of each forward pass: autocast, or one that does nothing.
        record: Whether steps may be recorded.
    """

    def __init__(
        self,
        model: DHILGT,
        call: nn.Module,
        context: Callable[[], AbstractContextManager[Any]],
        record: bool,
    ) -> None:
        self._model, self._call = model, call
        self._context, self._record = context, record
        self._step_graphs: StepGraphs | None = None
        self._forward_graphs: ForwardGraphs | None = None

    def logits(self, batch: ModelBatch) -> Tensor:
        """Return the logits of a batch on the model's device, [B, C].

        In evaluation mode the next call may overwrite them.
        """
        filled = getattr(batch, "filled", None)
        if self._recordable(batch) and not self._model.training:
            if self._forward_graphs is None:
                from dhilgt.model.kernels.cuda_graphs import ForwardGraphs

                self._forward_graphs = ForwardGraphs(self._model, self._context)
            return self._forward_graphs(*batch.inputs, filled=filled)
        room = None if filled is None else self._model.batch_room(batch.inputs[1], filled)
        with self._context():
            logits: Tensor = self._call(*batch.inputs, room=room)
        return logits

    def whole_step(
        self, batch: ModelBatch, optimizer: torch.optim.Optimizer, clip_norm: float | None
    ) -> Tensor | None:
        """Take a training step by replaying it, and return its mean loss.

        The next step overwrites the loss. None says that nothing was done: the step cannot be
        recorded, and has to be taken kernel by kernel.

        Args:
            batch: On the model's device.
            optimizer: Over the model's parameters; always the same one.
            clip_norm: Largest norm of all gradients; None for no limit.
        """
        # The first step of an optimizer gives it its state, which a recording must find.
        if batch.labels is None or not optimizer.state or not self._recordable(batch):
            return None
        if self._step_graphs is None:
            from dhilgt.model.kernels.cuda_graphs import StepGraphs

            self._step_graphs = StepGraphs(self._model, optimizer, clip_norm, self._context)
        filled = getattr(batch, "filled", None)
        return self._step_graphs.step(batch.inputs, batch.labels, filled)

    def release(self) -> None:
        """Free the memory of the recorded graphs; a later step records them again."""
        self._step_graphs = self._forward_graphs = None

    def _recordable(self, batch: ModelBatch) -> bool:
        on_gpu = batch.inputs[1].device.type == "cuda"
        return self._record and on_gpu and self._model.is_recordable()
