"""The training loop: one for this package's model and for any other."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dhilgt.errors import TrainingError, TrainingInterrupted, TrainingWarning, warn
from dhilgt.training import resume as resuming
from dhilgt.training import run_folder
from dhilgt.training.checkpoint import Checkpoint, write_tensors
from dhilgt.training.clock import StageClock
from dhilgt.training.config import TrainConfig
from dhilgt.training.display import TrainDisplay
from dhilgt.training.distributed import Group
from dhilgt.training.epoch import EpochLoop
from dhilgt.training.optimizer import build_optimizer
from dhilgt.training.protocols import Loader, Metric
from dhilgt.training.rng import deterministic_algorithms, seed_all
from dhilgt.training.run_folder import RunFolder
from dhilgt.training.scoring import Scorer, Stopped
from dhilgt.training.signals import StopSignals
from dhilgt.training.state import (
    TrainResult,
    TrainState,
    WeightAverage,
    host_copy,
    load_weights,
    number,
)
from dhilgt.utils.devices import choose_device


class Trainer:
    """Trains a model so that it can be stopped, killed and resumed at any moment.

    Args:
        model: Called as ``model(*batch.inputs)``, gives logits ``[B, C]``. Moved to the device.
        config: The settings, as a `TrainConfig` or a mapping of them.
        run_dir: Folder for config, scores, checkpoints and result. None: nothing is written.
        device: "auto", "cpu", "cuda", "cuda:1", ...
        resume: Go on from the newest checkpoint in ``run_dir``; start anew if there is none.
        metric: Score of the validation nodes, in place of the one that ``config`` names.
        progress: False for no display; otherwise it is shown where someone can see it.
        resume_command: Command to name in the message of an interrupted run; ``{run_dir}`` in it
            stands for the folder.
        resume_call: The same for Python; ``{run_dir!r}`` stands for the folder.
        after_epoch: Called with each scored epoch's line of the history, in the main process. What
            it raises ends the training and reaches the caller of `fit`.

    Attributes:
        stages: Wall clock and memory by stage; ``trainer.stages.add("labels", seconds=...)`` adds
            stages from before the training to the run's result.

    Example:
        >>> import torch
        >>> class Batch:
        ...     nodes = torch.arange(4)
        ...     labels = torch.tensor([0, 0, 1, 1])
        ...     inputs = (torch.eye(4),)
        ...     __len__ = lambda self: 4
        ...     to = lambda self, device, non_blocking=False: self
        >>> class Loader:
        ...     num_nodes = 4
        ...     __len__ = lambda self: 1
        ...     set_epoch = lambda self, epoch: None
        ...     iterate = lambda self, start_batch=0: iter([Batch()][start_batch:])
        >>> config = TrainConfig(epochs=60, lr=0.1, warmup_epochs=0)
        >>> trainer = Trainer(torch.nn.Linear(4, 2), config, device="cpu")
        >>> trainer.fit(Loader()).epochs
        60
        >>> nodes, shares = trainer.predict(Loader())
        >>> shares.argmax(axis=1)
        array([0, 0, 1, 1])
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig | Mapping[str, Any] | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        device: str | torch.device = "auto",
        resume: bool = False,
        *,
        metric: Metric | None = None,
        progress: bool | Literal["auto"] = "auto",
        resume_command: str | None = None,
        resume_call: str = resuming.RESUME_CALL,
        after_epoch: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        if not isinstance(config, TrainConfig):
            config = TrainConfig.from_dict(config or {})
        self.config = config if metric is None else replace(config, metric=metric.name)
        self.group = Group()
        self.device = choose_device(device)
        self.model = model.to(self.device)
        self.stages = StageClock()
        self._scorer = Scorer(model, self.config, self.group, self.device, metric)
        self._resume = resume
        self._progress = progress
        self._resume_command = resume_command
        self._resume_call = resume_call
        self._after_epoch = after_epoch
        self._folder = None if run_dir is None else RunFolder(run_dir)
        self._best: dict[str, Tensor] = {}
        self._average: WeightAverage | None = None

    # ---- training ------------------------------------------------------------------------------

    def fit(self, train_loader: Loader, val_loader: Loader | None = None) -> TrainResult:
        """Trains, and leaves the model with the weights of its best epoch.

        Args:
            train_loader: Batches to learn from.
            val_loader: Nodes to score each epoch on; without them the last epoch is the best one
                and training never stops early.

        Raises:
            TrainingInterrupted: On SIGINT or SIGTERM, after the state was saved.
            TrainingError: If training cannot go on, for example because the loss is not a number.
            ArtifactError: If the run folder cannot be written or resumed from.
        """
        steps = self.group.largest(len(train_loader))
        if steps == 0 or train_loader.num_nodes == 0:
            raise TrainingError("the training loader has no nodes; check the training mask")
        if self.group.add_up([int(len(train_loader) == 0)])[0]:
            raise TrainingError(
                f"{train_loader.num_nodes} training nodes do not give each of {self.group.size} "
                "processes a batch; start fewer processes or lower the batch size"
            )
        if self.config.max_batches is not None:
            steps = min(steps, self.config.max_batches)
        if val_loader is not None and val_loader.num_nodes == 0:
            warn("the validation loader has no nodes; early stopping is off", TrainingWarning)
            val_loader = None
        if val_loader is not None:
            # A name that is not a metric is refused before any work.
            _ = self._scorer.metric
        with contextlib.ExitStack() as stack:
            stack.enter_context(deterministic_algorithms(self.config.deterministic))
            if self._folder is not None and self.group.is_main:
                self._folder.open(resume=self._resume)
                stack.callback(self._folder.close)
            stop = stack.enter_context(StopSignals())
            return self._fit(train_loader, val_loader, steps, stop)

    def _fit(
        self, loader: Loader, val_loader: Loader | None, steps: int, stop: StopSignals
    ) -> TrainResult:
        config = self.config
        seed_all(config.seed + self.group.rank)
        optimizer = build_optimizer(self.model, config)
        if config.weight_average:
            self._average = WeightAverage(self.model, config.weight_average)
        state = TrainState()
        where = run_folder.environment(self.device, self.group.size)
        checkpoint = self._load_checkpoint()
        if checkpoint is not None:
            state = resuming.check(checkpoint, config, loader, steps, where, self.group.size)
            resuming.restore_model(checkpoint, self.model, optimizer, self._average)
            self._best = checkpoint.best
            self.stages = StageClock(checkpoint.values["stages"] | self.stages.to_dict())
        loop = EpochLoop(self.model, optimizer, config, self.group, self.device, steps)
        if checkpoint is not None:
            resuming.restore_process(checkpoint, self.group, loop, config)
        if self._folder is not None and self.group.is_main:
            self._folder.write(run_folder.CONFIG, config.to_dict())
            self._folder.write(run_folder.ENVIRONMENT, where)
            self._folder.rewrite(state.history)
        display = TrainDisplay(
            f"training on {self.device}",
            config.epochs,
            enabled=self._progress if self.group.is_main else False,
        )
        display.start()

        def save() -> None:
            if self._folder is not None:
                facts = resuming.facts(
                    state, config, loader, steps, environment=where, stages=self.stages.to_dict()
                )
                resuming.save(
                    self._folder,
                    self.group,
                    self.model,
                    optimizer,
                    loop,
                    self._best,
                    state,
                    facts,
                    self._average,
                )

        def after_step(nodes: int) -> None:
            total = config.epochs * steps
            display.step(state.step, total, nodes, lambda: float(loop.loss_sum) / loop.count)
            every = config.checkpoint_batches
            if every is not None and state.batch < steps and state.batch % every == 0:
                save()

        try:
            late = self._out_of_time()
            while state.epoch < config.epochs and not (
                late or self._stops_early(state, val_loader)
            ):
                display.epoch(state.epoch + 1)
                with self.stages.measure("epoch", self.device):
                    whole = loop.run(loader, state, lambda: stop.requested, after_step)
                whole = whole and self._end_epoch(state, loop, val_loader, stop)
                if not whole:
                    save()
                    raise self._interrupted(state, stop)
                display.scored(state.history[-1], self._best_text(state))
                late = self._out_of_time()
                last = late or state.epoch == config.epochs or self._stops_early(state, val_loader)
                asked = self.group.add_up([int(stop.requested)])[0] > 0
                if last or asked or state.epoch % config.checkpoint_every == 0:
                    save()
                if self._folder is not None and self.group.is_main:
                    self._folder.append(state.history[-1])
                self._tell(state.history[-1])
                if asked and not last:
                    raise self._interrupted(state, stop)
        finally:
            display.stop()
        return self._finish(state, val_loader)

    def _end_epoch(
        self,
        state: TrainState,
        loop: EpochLoop,
        val_loader: Loader | None,
        stop: StopSignals,
    ) -> bool:
        """Scores the epoch and moves on; False if a signal came before it was scored."""
        config, done = self.config, state.epoch + 1
        loss = loop.mean_loss()
        if not math.isfinite(loss):
            raise TrainingError(
                f"the training loss of epoch {done} is {loss}; lower lr (now {config.lr:g}), set "
                "clip_norm (for example 1.0), or check the features for extreme values"
            )
        line: dict[str, Any] = {
            "epoch": done,
            "lr": loop.rate(state.step - 1),
            "train_loss": loss,
            "val_loss": None,
            "val_score": None,
            "metric": None if val_loader is None else config.metric,
        }
        average = self._average
        with contextlib.nullcontext() if average is None else average.with_epoch():
            if not self._score_epoch(state, line, val_loader, stop):
                return False
        if average is not None:
            average.commit()
        state.history.append(line)
        state.epoch, state.batch = done, 0
        return True

    def _score_epoch(
        self,
        state: TrainState,
        line: dict[str, Any],
        val_loader: Loader | None,
        stop: StopSignals,
    ) -> bool:
        """Scores the model as it is and keeps it if it is the best; False if a signal came."""
        config, done = self.config, line["epoch"]
        if val_loader is None:
            state.best_epoch = done
            # The last epoch is the best one; the model has its weights, but not a mean of them.
            self._best = {} if self._average is None else host_copy(self.model)
        elif done % config.eval_every == 0 or done == config.epochs:
            try:
                # Processes cannot give up one by one: the others would wait for their share.
                asked = (lambda: stop.requested) if self.group.size == 1 else (lambda: False)
                with self.stages.measure("evaluation", self.device):
                    val_loss, score = self._scorer.score(val_loader, asked)
            except Stopped:
                return False
            line |= {"val_loss": number(val_loss), "val_score": number(score)}
            if math.isnan(score) and not state.by_loss:
                state.by_loss = True
                if self.group.is_main:
                    warn(
                        f"{config.metric} is not defined on the validation nodes (epoch {done}); "
                        "epochs are compared by validation loss from here on",
                        TrainingWarning,
                    )
            if state.is_better(score, val_loss, self._scorer.metric.higher_is_better):
                state.best_epoch = done
                state.best_score, state.best_loss = number(score), number(val_loss)
                self._best = host_copy(self.model)
        return True

    def _tell(self, line: Mapping[str, Any]) -> None:
        if self._after_epoch is not None and self.group.is_main and line["val_loss"] is not None:
            self._after_epoch(dict(line))

    def _stops_early(self, state: TrainState, val_loader: Loader | None) -> bool:
        if val_loader is None or self.config.patience is None or state.best_epoch == 0:
            return False
        return state.epoch - state.best_epoch >= self.config.patience

    def _out_of_time(self) -> bool:
        """Says whether the time is over, to all processes the same."""
        limit = self.config.max_seconds
        if limit is None:
            return False
        spent = self.stages.seconds()
        late = spent.get("epoch", 0.0) + spent.get("evaluation", 0.0) >= limit
        return self.group.add_up([int(late)])[0] > 0

    def _finish(self, state: TrainState, val_loader: Loader | None) -> TrainResult:
        if self._best:
            load_weights(self.model, self._best, "the best epoch")
        unfinished = state.epoch < self.config.epochs
        result = TrainResult(
            best_epoch=state.best_epoch,
            best_score=state.best_loss if state.by_loss else state.best_score,
            epochs=state.epoch,
            stopped_early=unfinished and self._stops_early(state, val_loader),
            history=list(state.history),
            seconds=self.stages.seconds(),
            stages=self.stages.to_dict(),
            metric="loss" if state.by_loss else self.config.metric,
            attention=getattr(self.model, "attention_used", None),
            out_of_time=unfinished and self._out_of_time(),
        )
        if self._folder is not None and self.group.is_main:
            write_tensors(self._folder.path / run_folder.BEST, host_copy(self.model))
            self._folder.write(run_folder.RESULT, result.to_dict())
        self.group.wait()
        return result

    # ---- saving --------------------------------------------------------------------------------

    def _load_checkpoint(self) -> Checkpoint | None:
        if self._folder is None or not self._resume:
            return None
        found = self._folder.checkpoints.load()
        # The main process writes again once all have read.
        self.group.wait()
        return found

    def _interrupted(self, state: TrainState, stop: StopSignals) -> TrainingInterrupted:
        # Another process was told to stop, and this one with it: no signal came here.
        signum = stop.signum if stop.signum is not None else int(signal.SIGTERM)
        path = None if self._folder is None else str(self._folder.path)
        text = resuming.way_to_go_on(state, signum, path, self._resume_command, self._resume_call)
        return TrainingInterrupted(text, signum)

    # ---- scoring -------------------------------------------------------------------------------

    def evaluate(self, loader: Loader) -> dict[str, float]:
        """Gives mean loss and metric over a loader's nodes; NaN where one is not defined.

        Raises:
            TrainingError: If the loader has no labels.
        """
        with self.stages.measure("evaluation", self.device):
            loss, score = self._scorer.score(loader)
        return {"loss": loss, self._scorer.metric.name: score}

    def higher_is_better(self, result: TrainResult) -> bool:
        """Whether a larger ``best_score`` of this trainer's result is the better one."""
        return result.metric != "loss" and self._scorer.metric.higher_is_better

    def predict(self, loader: Loader) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Gives a loader's nodes in ascending order, and a row of class probabilities for each."""
        with self.stages.measure("inference", self.device):
            return self._scorer.predict(loader)

    def _best_text(self, state: TrainState) -> str:
        score = state.best_loss if state.by_loss else state.best_score
        return "" if score is None else f"{score:.4f} (epoch {state.best_epoch})"
