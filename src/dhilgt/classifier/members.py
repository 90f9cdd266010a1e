"""The models of a fitted classifier: one, or several whose probabilities are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhilgt.classifier.pipeline import Pipeline
from dhilgt.model.dhilgt import DHILGT
from dhilgt.settings.settings import Settings
from dhilgt.utils.devices import choose_device


@dataclass(frozen=True)
class Member:
    """A trained model, and what its inputs are made with.

    Attributes:
        settings: The settings it was trained with.
        pipeline: Makes its inputs from the graph of the training.
        model: In evaluation mode, with the weights of its best epoch.
        batch_size: Nodes per step.
    """

    settings: Settings
    pipeline: Pipeline
    model: DHILGT
    batch_size: int

    def probabilities(
        self, nodes: NDArray[np.int64], pipeline: Pipeline | None = None
    ) -> NDArray[np.float32]:
        """Return a row of class probabilities for each of some distinct, ascending nodes.

        Args:
            nodes: Node indices.
            pipeline: Of another graph that the nodes belong to; None for its own.
        """
        device = choose_device(self.settings.device)
        used = self.pipeline if pipeline is None else pipeline
        return used.probabilities(self.model.to(device), nodes, device, self.batch_size)


def mean(shares: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of the probabilities of members; those of a single one as they are.

    Example:
        >>> mean([np.float32([[0.5, 0.5]]), np.float32([[1.0, 0.0]])]).tolist()
        [[0.75, 0.25]]
    """
    if len(shares) == 1:
        return shares[0]
    averaged: NDArray[np.float32] = np.stack(shares).mean(axis=0, dtype=np.float64)
    return averaged.astype(np.float32)
