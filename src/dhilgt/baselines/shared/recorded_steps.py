"""Steps of a baseline that are recorded as CUDA graphs and replayed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dhilgt.model.kernels.cuda_graphs import ForwardGraphs, PlainRequest, StepGraphs, StepRequest
from dhilgt.training.protocols import Batch


class Recordable(ABC):
    """A model whose steps read, besides weights and inputs, only tensors that stay in place.

    Attributes:
        step_request: What a recorded step asks of a batch.
    """

    step_request: ClassVar[type[StepRequest]] = PlainRequest

    training: bool

    @abstractmethod
    def fixed_tables(self) -> object | None:
        """Return what holds these tensors; None while steps cannot be recorded."""

    def branch(self) -> object:
        """Return what decides, beside the mode, which operations a step consists of."""
        return None

    def is_recordable(self) -> bool:
        """Return whether steps can be recorded as CUDA graphs."""
        return self.fixed_tables() is not None

    def step_runner(
        self, call: nn.Module, context: Callable[[], AbstractContextManager[Any]], record: bool
    ) -> RecordedSteps:
        """Return how a trainer runs this model on batches; see `RecordedSteps`."""
        return RecordedSteps(self, call, context, record)


class RecordedSteps:
    """Run a baseline on batches; on a GPU its steps are recorded once per shape of batch.

    It has the methods that the trainer asks of a step runner (`dhilgt.training.steps.StepRunner`).

    Args:
        model: On its device.
        call: What to call: the model, or a wrapper of it.
        context: Makes the context of each forward pass: autocast, or one that does nothing.
        record: Whether steps may be recorded.
    """

    def __init__(
        self,
        model: Recordable,
        call: nn.Module,
        context: Callable[[], AbstractContextManager[Any]],
        record: bool,
    ) -> None:
        self._model, self._call, self._context, self._record = model, call, context, record
        self._tables: object | None = None
        self._branch: object = None
        self._step_graphs: StepGraphs | None = None
        self._forward_graphs: ForwardGraphs | None = None

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of a batch, [B, C]; in evaluation the next call may overwrite them."""
        if not self._model.training and self._is_recordable(batch):
            if self._forward_graphs is None:
                self._forward_graphs = ForwardGraphs(
                    self._call, self._context, self._model.step_request
                )
            return self._forward_graphs(*batch.inputs)
        with self._context():
            logits: Tensor = self._call(*batch.inputs)
        return logits

    def whole_step(
        self, batch: Batch, optimizer: torch.optim.Optimizer, clip_norm: float | None
    ) -> Tensor | None:
        """Take a training step by replaying it, and return its mean loss; None: not recorded."""
        # The first step of an optimizer gives it its state, which a recording must find.
        if batch.labels is None or not optimizer.state or not self._is_recordable(batch):
            return None
        if self._step_graphs is None:
            self._step_graphs = StepGraphs(
                self._call, optimizer, clip_norm, self._context, self._model.step_request
            )
        return self._step_graphs.step(batch.inputs, batch.labels)

    def release(self) -> None:
        """Free the memory of the recorded graphs; a later step records them again."""
        self._step_graphs = self._forward_graphs = None

    def _is_recordable(self, batch: Batch) -> bool:
        if not self._record or not _is_on_gpu(batch):
            return False
        tables, branch = self._model.fixed_tables(), self._model.branch()
        # Recorded steps would read what is gone, or replay what the model does not do any more.
        if tables is not self._tables or branch != self._branch:
            self._tables, self._branch = tables, branch
            self.release()
        return tables is not None


def _is_on_gpu(batch: Batch) -> bool:
    return all(getattr(part, "is_cuda", False) for part in batch.inputs)
