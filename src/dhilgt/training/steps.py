"""How a model is run on batches: the protocol of step runners, and the eager one.

The trainer knows no model's kernels. A model with a step runner of its own offers it by a method
`step_runner`; every other model is called batch by batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dhilgt.training.protocols import Batch


class StepRunner(Protocol):
    """Runs one model on batches that are on its device."""

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of a batch, ``[B, C]``.

        Gradients are kept where the caller's mode keeps them. In evaluation mode the next call may
        overwrite the result.
        """

    def whole_step(
        self, batch: Batch, optimizer: torch.optim.Optimizer, clip_norm: float | None
    ) -> Tensor | None:
        """Take a whole training step and return its mean loss.

        That is: forward, loss, backward, clipping and the optimizer's step. The next call may
        overwrite the loss. None says that nothing was done, and that the caller has to take the
        step itself.
        """

    def release(self) -> None:
        """Free the memory of what was recorded; a later step records it again."""


@runtime_checkable
class OffersStepRunner(Protocol):
    """A model with a step runner of its own."""

    def step_runner(
        self, call: nn.Module, context: Callable[[], AbstractContextManager[Any]], record: bool
    ) -> StepRunner:
        """Return the step runner.

        Args:
            call: What to call: the model, or a wrapper of it that exchanges gradients.
            context: Makes the context of each forward pass: autocast, or one that does nothing.
            record: Whether steps may be recorded and replayed.
        """


@runtime_checkable
class AddsLoss(Protocol):
    """A model whose training loss has a term of its own."""

    def added_loss(self) -> Tensor | None:
        """Return the term of the training batch that the model was called with last, if any.

        It is added to the cross-entropy. A step runner with whole steps has to add it itself.
        """


class EagerSteps:
    """Calls a model batch by batch, and leaves training steps to the caller.

    Example:
        >>> class Batch:
        ...     inputs = (torch.eye(2),)
        >>> steps = EagerSteps(nn.Identity(), contextlib.nullcontext)
        >>> steps.logits(Batch()).shape
        torch.Size([2, 2])
    """

    def __init__(self, call: nn.Module, context: Callable[[], AbstractContextManager[Any]]) -> None:
        self._call, self._context = call, context

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of a batch, ``[B, C]``."""
        with self._context():
            logits: Tensor = self._call(*batch.inputs)
        return logits

    def whole_step(
        self, batch: Batch, optimizer: torch.optim.Optimizer, clip_norm: float | None
    ) -> None:
        """Return None: the caller takes the step."""
        return

    def release(self) -> None:
        """Do nothing: no step is recorded."""


def choose_steps(
    model: nn.Module,
    device: torch.device,
    precision: str,
    *,
    call: nn.Module | None = None,
    record: bool = False,
) -> StepRunner:
    """Return the step runner that a model offers, else `EagerSteps`.

    Args:
        model: On the device.
        device: Of model and batches.
        precision: "fp32" or "bf16".
        call: Wrapper of the model to call in its place.
        record: Whether steps may be recorded and replayed.
    """

    def context() -> AbstractContextManager[Any]:
        return autocast(device, precision)

    call = model if call is None else call
    if isinstance(model, OffersStepRunner):
        return model.step_runner(call, context, record)
    return EagerSteps(call, context)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Return the context in which a model runs in ``precision``."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
