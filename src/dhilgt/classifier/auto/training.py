"""One candidate of a search with one seed: a training that stops at each rung and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dhilgt.classifier.classifier import new_model, training_loaders
from dhilgt.classifier.inputs import FitInputs
from dhilgt.classifier.members import Member
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.loader.loader import TokenLoader
from dhilgt.model.dhilgt import DHILGT
from dhilgt.training.checkpoint import CheckpointFolder
from dhilgt.training.distributed import Group
from dhilgt.training.state import TrainResult, TrainState
from dhilgt.training.trainer import Trainer
from dhilgt.utils.devices import choose_device

_SECONDS_PER_PART = 2.0
SECONDS_BETWEEN_SAVES = 10.0
"""Training that a killed process may have to repeat; a save takes a moment, too."""
_SEED_STEP = 1_000_003


def seed_of(seed: int, at: int) -> int:
    """Return the seed of training ``at`` (from 0) of a candidate; the first is the user's own.

    Example:
        >>> seed_of(7, 0), seed_of(7, 2)
        (7, 2000013)
    """
    return (seed + at * _SEED_STEP) % 2**63


class CandidateData:
    """Batches of one candidate; its trainings take turns with them.

    Args:
        inputs: The graph and the split.
        pipeline: With the settings of the candidate.
        batch_size: As found by an earlier run; None to take that of the settings.
    """

    def __init__(self, inputs: FitInputs, pipeline: Pipeline, batch_size: int | None) -> None:
        self.inputs = inputs
        self.pipeline = pipeline
        self.batch_size = batch_size
        self._loaders: dict[str, TokenLoader] = {}

    def loaders(self, trainer: Trainer) -> dict[str, TokenLoader]:
        """Return the batches of training and validation, made on the first call."""
        if not self._loaders:
            self._loaders, self.batch_size = training_loaders(
                self.inputs, self.pipeline, model_of(trainer), trainer, None, False,
                self.batch_size,
            )  # fmt: skip
        return self._loaders


class Training:
    """A candidate with one seed.

    Args:
        data: Its batches.
        seed: Of weights and dropout. Tokens keep the seed of the settings: all share them.
        folder: For checkpoints; None keeps none.
        after_epoch: Called after each scored epoch, in the main process.

    Attributes:
        epoch: Epochs that are complete.
        cut_short: Whether the last `advance` ended for want of time.
    """

    def __init__(
        self,
        data: CandidateData,
        seed: int,
        folder: Path | None,
        after_epoch: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.seed = seed
        self.data = data
        settings = data.pipeline.settings
        self._checkpoints = None if folder is None else CheckpointFolder(folder)
        device = choose_device(settings.device)
        model = new_model(data.pipeline, len(data.inputs.classes), seed)
        self.trainer = Trainer(
            model.to(device),
            replace(settings.train_config(), seed=seed),
            None,
            device,
            progress=False,
            after_epoch=after_epoch,
        )
        self._group = Group()
        self._unsaved_seconds = 0.0
        self._epoch_seconds: float | None = None
        self.epoch = 0
        self.cut_short = False
        self._restore()

    def _restore(self) -> None:
        if self._checkpoints is None:
            return
        checkpoint = self._checkpoints.load()
        self._group.wait()
        if checkpoint is not None:
            self.trainer.restore(checkpoint)
            self.epoch = int(checkpoint.values["state"]["epoch"])

    def seconds_to(self, until: int) -> float | None:
        """Return the time to an epoch by that of the epochs so far; None before the first."""
        if self._epoch_seconds is None:
            return None
        until = min(until, self.data.pipeline.settings.epochs)
        return max(0, until - self.epoch) * self._epoch_seconds

    def advance(self, until: int, in_time: Callable[[], bool]) -> TrainState:
        """Train to an epoch in parts of a few seconds; long trainings are saved now and then.

        Args:
            until: The epoch.
            in_time: Asked between parts, the same in all processes; False ends the training where
                it stands.

        Raises:
            TrainingInterrupted: On a signal; `save` keeps where it stands.
        """
        loaders = self.data.loaders(self.trainer)
        train, val = loaders["train"], loaders.get("val")
        try:
            return self._advance(train, val, until, in_time)
        finally:
            # Dozens of trainings wait for their turn.
            self.trainer.release()

    def _advance(
        self, train: TokenLoader, val: TokenLoader | None, until: int, in_time: Callable[[], bool]
    ) -> TrainState:
        while True:
            part = min(until, self.epoch + self._part())
            start, before = time.monotonic(), self.epoch
            state = self.trainer.advance(train, val, until=part)
            self.epoch, seconds = state.epoch, time.monotonic() - start
            if state.epoch > before:
                self._epoch_seconds = seconds / (state.epoch - before)
            self._unsaved_seconds += seconds
            if self._group.from_main(self._unsaved_seconds > SECONDS_BETWEEN_SAVES):
                self.save()
            if state.epoch < part or state.epoch >= until:
                return state
            self.cut_short = not in_time()
            if self.cut_short:
                return state

    def _part(self) -> int:
        """Return the epochs of the next part, the same in all processes."""
        known = self._epoch_seconds
        epochs = 1 if known is None else max(1, int(_SECONDS_PER_PART / max(known, 1e-6)))
        return self._group.from_main(epochs)

    def save(self) -> None:
        """Write a checkpoint, where there is a folder; trainings that did not go on have theirs."""
        if self._checkpoints is not None:
            checkpoint = self.trainer.checkpoint()
            if checkpoint is not None:
                state = checkpoint.values["state"]
                self._checkpoints.save(state["epoch"], state["batch"], checkpoint)
        self._unsaved_seconds = 0.0

    def finish(self) -> tuple[Member, TrainResult]:
        """Return the model with the weights of its best epoch, and how its training went."""
        loaders = self.data.loaders(self.trainer)
        result = self.trainer.end(loaders["train"], loaders.get("val"))
        assert self.data.batch_size is not None, "the loaders have one"
        pipeline = self.data.pipeline
        model = model_of(self.trainer).eval()
        pipeline.hold_statistics(model, self.trainer.device)
        return Member(pipeline.settled, pipeline, model, self.data.batch_size), result


def model_of(trainer: Trainer) -> DHILGT:
    """Return the model that a trainer trains."""
    assert isinstance(trainer.model, DHILGT), "new_model made it"
    return trainer.model
