"""Scores and predictions of a model, over all processes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dhilgt import metrics
from dhilgt.distributed import Group
from dhilgt.errors import TrainingError
from dhilgt.inference import Outputs, autocast, collect, cross_entropy, probabilities, run_model
from dhilgt.train_config import TrainConfig
from dhilgt.train_protocols import Loader, Metric


class Scorer:
    """Runs a model over loaders and scores what comes out, the same for any number of processes."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        group: Group,
        device: torch.device,
        metric: Metric | None,
    ) -> None:
        self._model = model
        self._config = config
        self._group = group
        self._device = device
        self._metric = metric
        self._forward: Callable[..., Tensor] | None = None

    @property
    def metric(self) -> Metric:
        """The score; looked up on first use, as training without validation needs none."""
        if self._metric is None:
            self._metric = metrics.metric(self._config.metric)
        return self._metric

    def score(
        self, loader: Loader, stop: Callable[[], bool] = lambda: False
    ) -> tuple[float, float]:
        """Gives mean loss and score; NaN where one is not defined.

        Raises:
            Stopped: If ``stop()`` said so between two batches.
            TrainingError: If the loader has no labels.
        """
        metric = self.metric
        found = collect(self._run(loader, stop), self._group, everywhere=False)
        scores = (math.nan, math.nan)
        if found is not None and len(found.nodes):
            if found.labels is None:
                raise TrainingError("a loader without labels cannot be scored; use predict")
            loss = cross_entropy(found.labels, found.logits)
            scores = (loss, float(metric(found.labels, found.logits)))
        return self._group.from_main(scores)

    def predict(self, loader: Loader) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Gives nodes in ascending order and their class probabilities, to every process."""
        found = collect(self._run(loader, lambda: False), self._group, everywhere=True)
        assert found is not None, "collected everywhere"
        return found.nodes, probabilities(found.logits).astype(np.float32)

    def _run(self, loader: Loader, stop: Callable[[], bool]) -> Outputs:
        return run_model(
            self._model,
            loader,
            self._device,
            precision=self._config.precision,
            max_batches=self._config.max_eval_batches,
            stop=stop,
            forward=self._recorded(),
        )

    def _recorded(self) -> Callable[..., Tensor] | None:
        """Gives the model as CUDA graphs, where it has run the fused kernels."""
        if (
            self._forward is None
            and self._device.type == "cuda"
            and self._config.cuda_graph == "auto"
            and getattr(self._model, "attention_used", None) == "fused"
        ):
            from dhilgt.fused.graphs import ForwardGraphs

            self._forward = ForwardGraphs(
                self._model, lambda: autocast(self._device, self._config.precision)
            )
        return self._forward
