"""The running mean of a model's weights at the ends of epochs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn


class WeightAverage:
    """The mean of the weights at the ends of epochs, later ones weighing more.

    At each epoch the mean moves towards the weights by the fraction ``1 - keep``, in the first
    epochs by more: at epoch k it moves by 1 / k at least, so that the weights that training began
    with do not count for long. Running statistics of a model are not averaged.

    Args:
        model: Whose weights.
        keep: Fraction of the mean that an epoch leaves as it was, 0 to below 1.

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
        """Number of epochs that the mean is taken over."""
        return self._epochs

    @contextlib.contextmanager
    @torch.no_grad()
    def with_epoch(self) -> Iterator[None]:
        """Load the mean, with the present weights counted in, into the model inside the block.

        Only `commit` makes it permanent: an epoch whose scoring is interrupted is scored again, and
        must not count twice.
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
        """Count the epoch of the last `with_epoch`."""
        self._mean, self._next = self._next, []
        self._epochs += 1

    def tensors(self) -> dict[str, Tensor]:
        """Return the mean by name of the weights; empty before the first epoch."""
        return dict(zip(self._weights, self._mean, strict=bool(self._mean)))

    def restore(self, tensors: Mapping[str, Tensor], epochs: int) -> None:
        """Continue from what `tensors` and `epochs` returned."""
        if epochs:
            self._mean = [tensors[name].to(w.device, w.dtype) for name, w in self._weights.items()]
            self._epochs = epochs


def _put(weights: list[Tensor], values: list[Tensor]) -> None:
    # In place: recorded steps hold the same tensors.
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)
