"""The state of a training run, in memory and in a checkpoint; the running mean of the weights."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from dhilgt.errors import ArtifactError
from dhilgt.training.checkpoint import Checkpoint


class WeightAverage:
    """The mean of the weights at the ends of epochs, later ones weighing more.

    Epoch by epoch the mean moves to the weights by the share ``1 - keep``, in the first epochs by
    more: the mean of k epochs never moves by less than 1 / k, so that it does not hang on to the
    weights that training began with. Running statistics of a model are not averaged.

    Args:
        model: Whose weights.
        keep: Share of the mean that an epoch leaves as it was, 0 to below 1.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> average = WeightAverage(model, keep=0.5)
        >>> for weight in (1.0, 3.0, 4.0):
        ...     _ = torch.nn.init.constant_(model.weight, weight)
        ...     with average.with_epoch():
        ...         average.commit()
        >>> average.tensors()["weight"].item(), model.weight.item()
        (3.0, 4.0)
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self._keep = keep
        self._weights = dict(model.named_parameters())
        self._mean: list[Tensor] = []
        self._next: list[Tensor] = []
        self._epochs = 0

    @property
    def epochs(self) -> int:
        """The epochs that the mean is of."""
        return self._epochs

    @contextlib.contextmanager
    @torch.no_grad()
    def with_epoch(self) -> Iterator[None]:
        """Gives the model, inside the block, the mean with its present weights counted in.

        It is counted for good by `commit` alone: an epoch whose scoring is interrupted is scored
        again, and must not count twice.
        """
        weights = [weight.data for weight in self._weights.values()]
        own = [weight.clone() for weight in weights]
        self._next = own
        if self._epochs:
            keep = min(self._keep, self._epochs / (self._epochs + 1))
            self._next = [
                torch.lerp(now, mean, keep) for now, mean in zip(own, self._mean, strict=True)
            ]
        _put(weights, self._next)
        try:
            yield
        finally:
            _put(weights, own)

    def commit(self) -> None:
        """Counts the epoch that the last `with_epoch` was of."""
        self._mean, self._next = self._next, []
        self._epochs += 1

    def tensors(self) -> dict[str, Tensor]:
        """Gives the mean by name of the weights; empty before the first epoch."""
        return dict(zip(self._weights, self._mean, strict=bool(self._mean)))

    def restore(self, tensors: Mapping[str, Tensor], epochs: int) -> None:
        """Takes up what `tensors` and `epochs` gave."""
        if epochs:
            self._mean = [tensors[name].to(w.device, w.dtype) for name, w in self._weights.items()]
            self._epochs = epochs


def _put(weights: list[Tensor], values: list[Tensor]) -> None:
    # In place: recorded steps and other holders of the tensors must see them.
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)


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
        attention: The path of attention that ran last; None for a model that does not say.
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
        """Gives plain values, for JSON; the history has a file of its own."""
        values = asdict(self)
        del values["history"]
        return values


@dataclass
class TrainState:
    """The position of a run and what it has found so far.

    Attributes:
        epoch: Epochs that are whole.
        batch: Batches done of the next one.
        step: Optimizer steps done in all.
        best_epoch: The best epoch so far (from 1), 0 before any.
        best_score: Its score on the validation metric.
        best_loss: Its validation loss.
        by_loss: Whether epochs are compared by loss, the metric having been undefined once.
        history: One line per whole epoch.
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
        """Whether an epoch with these numbers beats the best one so far.

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
        """Gives the state that `asdict` wrote."""
        try:
            return cls(**{item.name: values[item.name] for item in fields(cls)})
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"the checkpoint's state is not as written: {error}") from error


def number(value: float) -> float | None:
    """Gives what JSON can hold: None for a value that is not defined."""
    return value if math.isfinite(value) else None


def host_copy(model: nn.Module) -> dict[str, Tensor]:
    """Gives the model's tensors, copied to the host: later steps do not change them."""
    named = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    out: dict[str, Tensor] = {}
    # One copy per type and device: each one waits for the device.
    kinds = {(tensor.device, tensor.dtype) for tensor in named.values()}
    for kind in kinds:
        some = {name: t for name, t in named.items() if (t.device, t.dtype) == kind}
        flat = torch.cat([tensor.reshape(-1) for tensor in some.values()]).cpu()
        parts = torch.split(flat, [tensor.numel() for tensor in some.values()])
        for (name, tensor), part in zip(some.items(), parts, strict=True):
            out[name] = part.view(tensor.shape).clone()
    return {name: out[name] for name in named}


def load_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Gives the model the weights.

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


def pack(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor],
    values: dict[str, Any],
    processes: list[tuple[dict[str, Tensor], dict[str, Any]]],
    average: WeightAverage | None = None,
) -> Checkpoint:
    """Gives a checkpoint; ``processes`` holds tensors and values of each process's own."""
    training = {f"model.{name}": tensor for name, tensor in host_copy(model).items()}
    if average is not None:
        for name, tensor in average.tensors().items():
            training[f"average.{name}"] = tensor.to("cpu", copy=True)
        values = values | {"averaged_epochs": average.epochs}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            copied = value.detach().to("cpu", copy=True).contiguous()
            training[f"optimizer.{names[id(parameter)]}.{key}"] = copied
    for rank, (tensors, _) in enumerate(processes):
        training |= {f"rng.{rank}.{name}": tensor for name, tensor in tensors.items()}
    return Checkpoint(training, best, values | {"processes": [own for _, own in processes]})


def unpack(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    where: str,
    average: WeightAverage | None = None,
) -> None:
    """Gives model, optimizer and average what `pack` took from them."""
    found = checkpoint.training
    load_weights(model, _under(found, "model."), where)
    if average is not None:
        epochs = int(checkpoint.values.get("averaged_epochs", 0))
        average.restore(_under(found, "average."), epochs)
    states: dict[str, dict[str, Tensor]] = {}
    for name, tensor in _under(found, "optimizer.").items():
        parameter, _, key = name.rpartition(".")
        states.setdefault(parameter, {})[key] = tensor
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    packed = optimizer.state_dict()
    order = [
        names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]
    ]
    packed["state"] = {at: states[name] for at, name in enumerate(order) if name in states}
    optimizer.load_state_dict(packed)


def process_part(checkpoint: Checkpoint, rank: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Gives the tensors and values of process ``rank``."""
    own: dict[str, Any] = checkpoint.values["processes"][rank]
    return _under(checkpoint.training, f"rng.{rank}."), own


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
