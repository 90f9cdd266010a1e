"""Logits of a model for every node of a loader, and scores of them, over all processes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dhilgt import metrics
from dhilgt.errors import TrainingError
from dhilgt.loader.copies import CopyAverage, probabilities
from dhilgt.training.config import TrainConfig
from dhilgt.training.distributed import Group
from dhilgt.training.protocols import Loader, MetricLike
from dhilgt.training.steps import StepRunner, choose_steps


class ScoringStopped(Exception):  # noqa: N818  not an error: the caller asked for it
    """The caller asked to stop between two batches."""


class Outputs(NamedTuple):
    """Logits of nodes in ascending order; labels are None where the loader has none."""

    nodes: npt.NDArray[np.int64]
    logits: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | None


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode, without gradients, while the block runs."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def run_model(
    model: nn.Module,
    loader: Loader,
    device: torch.device,
    *,
    precision: str = "fp32",
    max_batches: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    runner: StepRunner | None = None,
) -> Outputs:
    """Return this process's part of a loader's nodes with their logits.

    Where the loader has several copies of tokens per node, the probabilities of the copies are
    averaged, and their logarithms stand for the logits. ``runner`` runs the model in place of the
    one that the model offers.

    Raises:
        ScoringStopped: If ``stop()`` returned True between two batches.
    """
    runner = choose_steps(model, device, precision) if runner is None else runner
    copies = int(getattr(loader, "copies", 1))
    if copies == 1:
        return _one_pass(model, runner, loader, device, max_batches, stop)
    average = CopyAverage(copies)
    for copy in range(copies):
        part: Loader = loader.with_copy(copy)  # type: ignore[attr-defined]
        outputs = _one_pass(model, runner, part, device, max_batches, stop)
        average.add(outputs.logits)
    return outputs._replace(logits=average.logits())


def _one_pass(
    model: nn.Module,
    runner: StepRunner,
    loader: Loader,
    device: torch.device,
    max_batches: int | None,
    stop: Callable[[], bool],
) -> Outputs:
    nodes, logits, labels = [], [], []
    with evaluating(model), contextlib.ExitStack() as stack:
        batches = iter(loader.iterate(start_batch=0)) if len(loader) else iter(())
        # A loader with a background thread ends it when its iterator is closed.
        stack.callback(getattr(batches, "close", lambda: None))
        for batch in islice(batches, max_batches):
            if stop():
                raise ScoringStopped
            moved = batch.to(device, non_blocking=True)
            logits.append(runner.logits(moved).float().cpu().numpy())
            # Those before the move: a batch from the host need not come back from the device.
            nodes.append(batch.nodes.cpu().numpy())
            if batch.labels is not None:
                labels.append(batch.labels.cpu().numpy())
    if not nodes:
        return Outputs(np.zeros(0, np.int64), np.zeros((0, 0), np.float32), None)
    return _sorted(nodes, logits, labels)


def _sorted(nodes: list[Any], logits: list[Any], labels: list[Any]) -> Outputs:
    """Join parts by ascending node, so that nothing depends on how the nodes were divided."""
    ids, values = np.concatenate(nodes), np.concatenate(logits)
    classes = np.concatenate(labels) if labels else None
    if bool((ids[1:] >= ids[:-1]).all()):  # as loaders of inference yield them
        return Outputs(ids, values, classes)
    order = np.argsort(ids, kind="stable")
    return Outputs(ids[order], values[order], None if classes is None else classes[order])


def join(parts: list[Outputs]) -> Outputs:
    """Return the parts of all processes as one."""
    full = [part for part in parts if len(part.nodes)]
    if len(full) < 2:
        return full[0] if full else parts[0]
    labels = [part.labels for part in full if part.labels is not None]
    return _sorted([part.nodes for part in full], [part.logits for part in full], labels)


def collect(outputs: Outputs, group: Group, everywhere: bool) -> Outputs | None:
    """Return the parts of all processes as one: to all of them, or to the main one."""
    parts = group.collect_everywhere(outputs) if everywhere else group.collect(outputs)
    return None if parts is None else join(parts)


def cross_entropy(labels: npt.NDArray[np.int64], logits: npt.NDArray[np.float32]) -> float:
    """Return the mean cross entropy, NaN without nodes."""
    if not len(labels):
        return float("nan")
    mean = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits.astype(np.float64)), torch.from_numpy(labels)
    )
    return float(mean)


class Scorer:
    """Runs a model over loaders and scores its logits, the same for any number of processes."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        group: Group,
        device: torch.device,
        metric: MetricLike | None,
    ) -> None:
        self._model = model
        self._config = config
        self._group = group
        self._device = device
        self._metric = metric
        self._runner = choose_steps(
            model, device, config.precision, record=config.cuda_graph == "auto"
        )

    @property
    def metric(self) -> MetricLike:
        """The metric; looked up on first use, as training without validation needs none."""
        if self._metric is None:
            self._metric = metrics.metric(self._config.metric)
        return self._metric

    def score(
        self, loader: Loader, stop: Callable[[], bool] = lambda: False
    ) -> tuple[float, float]:
        """Return mean loss and score; NaN where one is not defined.

        Raises:
            ScoringStopped: If ``stop()`` returned True between two batches.
            TrainingError: If the loader has no labels.
        """
        metric = self.metric
        outputs = collect(self._run(loader, stop), self._group, everywhere=False)
        scores = (math.nan, math.nan)
        if outputs is not None and len(outputs.nodes):
            if outputs.labels is None:
                raise TrainingError("a loader without labels cannot be scored; use predict")
            loss = cross_entropy(outputs.labels, outputs.logits)
            scores = (loss, float(metric(outputs.labels, outputs.logits)))
        return self._group.from_main(scores)

    def predict(self, loader: Loader) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return nodes in ascending order and their class probabilities, to every process."""
        outputs = collect(self._run(loader, lambda: False), self._group, everywhere=True)
        assert outputs is not None, "collected everywhere"
        return outputs.nodes, probabilities(outputs.logits).astype(np.float32)

    def _run(self, loader: Loader, stop: Callable[[], bool]) -> Outputs:
        return run_model(
            self._model,
            loader,
            self._device,
            precision=self._config.precision,
            max_batches=self._config.max_eval_batches,
            stop=stop,
            runner=self._runner,
        )
