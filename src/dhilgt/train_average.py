"""A running mean of the weights over epochs, scored and kept in place of those of one epoch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn


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
