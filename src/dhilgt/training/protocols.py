"""The protocols of batches, loaders and metrics that the trainer works with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor


class Batch(Protocol):
    """Some ego nodes, ready for the model: ``model(*batch.inputs)`` returns logits ``[B, C]``."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The model's arguments."""

    @property
    def labels(self) -> Tensor | None:
        """Class of each node, int64 ``[B]``; None where not known."""

    @property
    def nodes(self) -> Tensor:
        """The ego nodes, int64 ``[B]``."""

    def __len__(self) -> int: ...

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """Return the batch on ``device``."""


class Loader(Protocol):
    """Batches of an epoch, a function of the loader's own seed and the epoch alone."""

    @property
    def num_nodes(self) -> int:
        """Ego nodes of an epoch, over all processes."""

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch (from 0) whose batches are iterated next."""

    def iterate(self, start_batch: int = 0) -> Iterable[Batch]:
        """Yield the batches of the epoch from number ``start_batch`` on."""


@runtime_checkable
class MetricLike(Protocol):
    """A score of predictions; NaN where it is not defined for them."""

    @property
    def name(self) -> str:
        """Name of the score in files and messages."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value is the better one."""

    def __call__(self, labels: npt.NDArray[np.int64], logits: npt.NDArray[np.float32]) -> float:
        """Return the score of logits ``[B, C]`` against the classes ``[B]``."""
