"""The state of a training run, and its result."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from dhilgt.errors import ArtifactError


@dataclass(frozen=True)
class TrainResult:
    """How a training run ended.

    Attributes:
        best_epoch: The epoch (from 1) whose weights the model now has.
        best_score: Its validation score; None where there was none.
        epochs: Epochs that were trained.
        stopped_early: Whether the score stopped getting better before the last epoch.
        history: One line per epoch, as in ``metrics.jsonl``.
        seconds: Wall clock by stage.
        stages: The same with counts and peak memory.
        metric: What the score is; "loss" where the metric was not defined.
        attention: The path of attention that ran last; None for a model without paths.
        out_of_time: Whether ``max_seconds`` ended it.

    Example:
        >>> TrainResult(3, 0.9, 5, False, [], {"epoch": 1.5}, {}, "accuracy").best_epoch
        3
    """

    best_epoch: int
    best_score: float | None
    epochs: int
    stopped_early: bool
    history: list[dict[str, Any]]
    seconds: dict[str, float]
    stages: dict[str, dict[str, Any]]
    metric: str
    attention: str | None = None
    out_of_time: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; the history has a file of its own."""
        values = asdict(self)
        del values["history"]
        return values


@dataclass
class TrainState:
    """The position of a run and its scores so far.

    Attributes:
        epoch: Epochs that are complete.
        batch: Batches done of the next one.
        step: Optimizer steps done in all.
        best_epoch: The best epoch so far (from 1), 0 before any.
        best_score: Its score on the validation metric.
        best_loss: Its validation loss.
        by_loss: Whether epochs are compared by loss, because the metric was undefined once.
        history: One line per complete epoch.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_epoch: int = 0
    best_score: float | None = None
    best_loss: float | None = None
    by_loss: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def is_better(self, score: float, loss: float, higher_is_better: bool) -> bool:
        """Return whether an epoch with these numbers is better than the best one so far.

        Example:
            >>> state = TrainState(best_epoch=1, best_score=0.5, best_loss=1.0)
            >>> state.is_better(0.6, 2.0, True), state.is_better(0.5, 0.1, True)
            (True, False)
        """
        if self.best_epoch == 0:
            return True
        if self.by_loss or self.best_score is None:
            return not math.isnan(loss) and (self.best_loss is None or loss < self.best_loss)
        return score > self.best_score if higher_is_better else score < self.best_score

    @classmethod
    def from_dict(cls, values: Any) -> TrainState:
        """Return the state that `asdict` wrote."""
        try:
            return cls(**{item.name: values[item.name] for item in fields(cls)})
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"the checkpoint's state is not as written: {error}") from error


def finite_or_none(value: float) -> float | None:
    """Return a value as JSON can hold it: None where it is NaN or infinite."""
    return value if math.isfinite(value) else None


def host_copy(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's tensors, copied to the host: later steps do not change them."""
    named = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    out: dict[str, Tensor] = {}
    # One transfer per type and device: each one waits for the device.
    kinds = {(tensor.device, tensor.dtype) for tensor in named.values()}
    for kind in kinds:
        group = {name: t for name, t in named.items() if (t.device, t.dtype) == kind}
        flat = torch.cat([tensor.reshape(-1) for tensor in group.values()]).cpu()
        parts = torch.split(flat, [tensor.numel() for tensor in group.values()])
        for (name, tensor), part in zip(group.items(), parts, strict=True):
            out[name] = part.view(tensor.shape).clone()
    return {name: out[name] for name in named}


def load_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Load weights into the model.

    Raises:
        ArtifactError: If they are another model's.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ArtifactError(
            f"{where} does not fit the model; build it with the settings it was trained with: "
            f"{error}"
        ) from error
