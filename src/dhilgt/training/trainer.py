"""The trainer: the loop over epochs, for this package's model and for any other."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dhilgt.errors import (
    TrainingError,
    TrainingInterrupted,
    TrainingWarning,
    argument,
    warn,
)
from dhilgt.training import resume as resuming
from dhilgt.training import rng, run_folder
from dhilgt.training.average import WeightAverage
from dhilgt.training.checkpoint import Checkpoint, write_tensors
from dhilgt.training.clock import StageClock
from dhilgt.training.config import TrainConfig
from dhilgt.training.display import TrainDisplay
from dhilgt.training.distributed import Group
from dhilgt.training.epoch import EpochLoop
from dhilgt.training.optimizer import build_optimizer
from dhilgt.training.protocols import Loader, MetricLike
from dhilgt.training.resume import TrainingRun
from dhilgt.training.rng import deterministic_algorithms, seed_all
from dhilgt.training.run_folder import RunFolder
from dhilgt.training.scoring import Scorer, ScoringStopped
from dhilgt.training.signals import StoppedAtOnce, StopSignals
from dhilgt.training.state import (
    TrainResult,
    TrainState,
    finite_or_none,
    host_copy,
    load_weights,
)
from dhilgt.utils.devices import choose_device
from dhilgt.utils.memory import memory_for

_SECONDS_BETWEEN_SAVES = 1.0
_SMALLER = (
    f"lower {argument('batch_size')}, {argument('size')}, {argument('hidden_channels')} or "
    f"{argument('num_layers')}"
)


class Trainer:
    """Trains a model, such that the run can be stopped, killed and resumed at any moment.

    Args:
        model: Called as ``model(*batch.inputs)``, returns logits ``[B, C]``. Moved to the device. A
            model may offer its own step runner (`dhilgt.training.steps.OffersStepRunner`) and add a
            term to the loss (`dhilgt.training.steps.AddsLoss`).
        config: The settings, as a `TrainConfig` or a mapping of them.
        run_dir: Folder for config, scores, checkpoints and result. None: nothing is written.
        device: "auto", "cpu", "cuda", "cuda:1", ...
        resume: Continue from the newest checkpoint in ``run_dir``; start anew if there is none.
        metric: Score of the validation nodes, in place of the one that ``config`` names.
        progress: False for no display; otherwise it is shown where someone can see it.
        resume_command: Command to name in the message of an interrupted run; ``{run_dir}`` in it
            stands for the folder.
        resume_call: The same for Python; ``{run_dir!r}`` stands for the folder.
        after_epoch: Called with each scored epoch's line of the history, in the main process. An
            exception that it raises ends the training and reaches the caller of `fit`.
        origin: Plain values about what the run is trained on, kept in its checkpoints for the
            caller to compare before it resumes.

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
        >>> nodes, probabilities = trainer.predict(Loader())
        >>> probabilities.argmax(axis=1)
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
        metric: MetricLike | None = None,
        progress: bool | Literal["auto"] = "auto",
        resume_command: str | None = None,
        resume_call: str = resuming.RESUME_CALL,
        after_epoch: Callable[[Mapping[str, Any]], None] | None = None,
        origin: Mapping[str, Any] | None = None,
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
        self._origin = dict(origin or {})
        self._folder = None if run_dir is None else RunFolder(run_dir)
        self._run: TrainingRun | None = None
        self._rng: rng.States | None = None  # of a run that is paused
        self._given: Checkpoint | None = None
        self._saved_at = -math.inf

    # ---- training ------------------------------------------------------------------------------

    def fit(self, train_loader: Loader, val_loader: Loader | None = None) -> TrainResult:
        """Train, and leave the model with the weights of its best epoch.

        Args:
            train_loader: Batches to learn from.
            val_loader: Nodes to score each epoch on; without them the last epoch is the best one
                and training never stops early.

        Raises:
            TrainingInterrupted: On SIGINT or SIGTERM, after the state was saved; on a second SIGINT
                at once. The message says what is saved.
            TrainingError: If training cannot go on, for example because the loss is not a number.
            ArtifactError: If the run folder cannot be written or resumed from.
        """
        val_loader = self._checked_validation(val_loader)
        try:
            with self._training(train_loader) as (run, stop):
                with memory_for(self._batch_words(train_loader), _SMALLER):
                    self._run_epochs(run, train_loader, val_loader, stop)
                return self._finish(run, val_loader)
        finally:
            self._run = None

    def advance(
        self, train_loader: Loader, val_loader: Loader | None = None, *, until: int
    ) -> TrainState:
        """Train to the end of an epoch, for another `advance` or `fit` to go on from there.

        The plan stays that of all epochs, and the result that of one uninterrupted `fit`.

        Args:
            train_loader: As for `fit`.
            val_loader: As for `fit`.
            until: The epoch (from 1). A run that is past it, or over, is left as it is.

        Returns:
            Where the run stands, and its best score so far.

        Raises:
            TrainingInterrupted: As `fit` does. The run stands where it stopped: `checkpoint`
                returns it.
            TrainingError: As `fit` does.
        """
        val_loader = self._checked_validation(val_loader)
        with self._training(train_loader) as (run, stop):
            try:
                with memory_for(self._batch_words(train_loader), _SMALLER):
                    self._run_epochs(run, train_loader, val_loader, stop, until)
                # Where the part is over, what it is a part of has to stop.
                if self.group.add_up([int(stop.requested)])[0]:
                    raise self._interrupted(run.state, stop)
            finally:
                # Other trainings draw random numbers before this one goes on.
                self._rng = rng.capture()
            return run.state

    def release(self) -> None:
        """Free the GPU memory of recorded steps; an `advance` after this records them again."""
        self._scorer.release()
        if self._run is not None:
            self._run.loop.release()

    def end(self, train_loader: Loader, val_loader: Loader | None = None) -> TrainResult:
        """End a run where it stands, and leave the model with the weights of its best epoch.

        Args:
            train_loader: As for `fit`.
            val_loader: As for `fit`.
        """
        try:
            with self._training(train_loader) as (run, _):
                return self._finish(run, val_loader)
        finally:
            self._run = None

    @contextlib.contextmanager
    def _training(self, loader: Loader) -> Iterator[tuple[TrainingRun, StopSignals]]:
        """Prepare for epochs: determinism, folder, signals, and the run, new or continued."""
        steps = self._count_steps(loader)
        with contextlib.ExitStack() as stack:
            stack.enter_context(deterministic_algorithms(self.config.deterministic))
            if self._folder is not None and self.group.is_main:
                self._folder.open(resume=self._resume or self._run is not None)
                stack.callback(self._folder.close)
            stop = stack.enter_context(StopSignals())
            try:
                if self._run is None:
                    self._run = self._begin(loader, steps)
                elif self._rng is not None:
                    rng.restore(*self._rng)
                self._rng = None
                yield self._run, stop
            except StoppedAtOnce as error:
                self._run = self._rng = None  # it may stand inside a step
                text = resuming.cut_off_message(
                    self._folder, self._resume_command, self._resume_call
                )
                raise TrainingInterrupted(text, error.signum) from None

    def _batch_words(self, loader: Loader) -> str:
        size = getattr(loader, "batch_size", None)
        nodes = f" of {size:,} nodes" if isinstance(size, int) else ""
        return f"training batches{nodes} on {self.device}"

    def _count_steps(self, loader: Loader) -> int:
        """Return the optimizer steps of an epoch; refuse a loader without them."""
        steps = self.group.largest(len(loader))
        if steps == 0 or loader.num_nodes == 0:
            raise TrainingError("the training loader has no nodes; check the training mask")
        if self.group.add_up([int(len(loader) == 0)])[0]:
            raise TrainingError(
                f"{loader.num_nodes} training nodes do not give each of {self.group.size} "
                "processes a batch; start fewer processes or lower the batch size"
            )
        if self.config.max_batches is not None:
            steps = min(steps, self.config.max_batches)
        return steps

    def _checked_validation(self, loader: Loader | None) -> Loader | None:
        if loader is None:
            return None
        if loader.num_nodes == 0:
            warn("the validation loader has no nodes; early stopping is off", TrainingWarning)
            return None
        # A name that is not a metric is refused before any work.
        _ = self._scorer.metric
        return loader

    def _begin(self, loader: Loader, steps: int) -> TrainingRun:
        """Return a new run, or the one of the checkpoint to resume from."""
        config = self.config
        seed_all(config.seed + self.group.rank)
        optimizer = build_optimizer(self.model, config)
        average = (
            WeightAverage(self.model, config.weight_average) if config.weight_average else None
        )
        environment = run_folder.environment(self.device, self.group.size)
        facts = self._origin | resuming.run_facts(config, loader, steps, environment)
        state = TrainState()
        checkpoint = self._load_checkpoint()
        if checkpoint is not None:
            state = resuming.check(checkpoint, config, facts, self.group.size)
            resuming.restore_model(checkpoint, self.model, optimizer, average)
            self.stages = StageClock(checkpoint.values["stages"] | self.stages.to_dict())
        # After the weights are restored: several processes start from those of the main one.
        loop = EpochLoop(self.model, optimizer, config, self.group, self.device, steps)
        run = TrainingRun(self.model, optimizer, loop, state, average, facts=facts)
        if checkpoint is not None:
            run.best = checkpoint.best
            resuming.restore_process(checkpoint, self.group, loop, config)
        if self._folder is not None and self.group.is_main:
            self._folder.write(run_folder.CONFIG, config.to_dict())
            self._folder.write(run_folder.ENVIRONMENT, environment)
            self._folder.rewrite(state.history)
        return run

    def _run_epochs(
        self,
        run: TrainingRun,
        loader: Loader,
        val_loader: Loader | None,
        stop: StopSignals,
        until: int | None = None,
    ) -> None:
        """Train epoch by epoch until the run is over, or epoch ``until`` is, and save it."""
        state = run.state
        display = TrainDisplay(
            f"training on {self.device}",
            self.config.epochs,
            enabled=self._progress if self.group.is_main else False,
        )
        display.start()
        try:
            is_over = self._is_over(state, val_loader, until)
            while not is_over:
                display.epoch(state.epoch + 1)
                is_whole = self._train_epoch(run, loader, stop, display)
                if not is_whole or not self._end_epoch(run, val_loader, stop):
                    self._save(run)
                    raise self._interrupted(state, stop)
                display.scored(state.history[-1], _best_text(state))
                is_over = self._is_over(state, val_loader, until)
                stop_asked = self.group.add_up([int(stop.requested)])[0] > 0
                is_saved = is_over or stop_asked or self._is_save_due(state)
                if is_saved:
                    self._save(run)
                self._report(state.history[-1], is_saved)
                if stop_asked and not is_over:
                    raise self._interrupted(state, stop)
        finally:
            display.stop()

    def _train_epoch(
        self, run: TrainingRun, loader: Loader, stop: StopSignals, display: TrainDisplay
    ) -> bool:
        """Train to the end of the epoch; return False if a signal came before it."""
        state, loop = run.state, run.loop
        total, every = self.config.epochs * loop.steps, self.config.checkpoint_batches

        def after_step(nodes: int) -> None:
            display.step(state.step, total, nodes, lambda: float(loop.loss_sum) / loop.count)
            if every is not None and state.batch < loop.steps and state.batch % every == 0:
                self._save(run)

        with self.stages.measure("epoch", self.device):
            return loop.run(loader, state, lambda: stop.requested, after_step)

    def _end_epoch(self, run: TrainingRun, val_loader: Loader | None, stop: StopSignals) -> bool:
        """Score the epoch and move on; return False if a signal came before it was scored."""
        config, state = self.config, run.state
        loss = run.loop.mean_loss()
        if not math.isfinite(loss):
            raise TrainingError(
                f"the training loss of epoch {state.epoch + 1} is {loss}; lower lr (now "
                f"{config.lr:g}), set clip_norm (for example 1.0), or check the features for "
                "extreme values"
            )
        line: dict[str, Any] = {
            "epoch": state.epoch + 1,
            "lr": run.loop.rate(state.step - 1),
            "train_loss": loss,
            "val_loss": None,
            "val_score": None,
            "metric": None if val_loader is None else config.metric,
        }
        with contextlib.nullcontext() if run.average is None else run.average.with_epoch():
            if not self._score_epoch(run, line, val_loader, stop):
                return False
        if run.average is not None:
            run.average.commit()
        state.history.append(line)
        state.epoch, state.batch = line["epoch"], 0
        return True

    def _score_epoch(
        self, run: TrainingRun, line: dict[str, Any], val_loader: Loader | None, stop: StopSignals
    ) -> bool:
        """Score the model as it is and keep it if it is the best; return False on a signal."""
        config, state, epoch = self.config, run.state, line["epoch"]
        if val_loader is None:
            state.best_epoch = epoch
            # The last epoch is the best one: the model has its weights, but not their mean.
            run.best = {} if run.average is None else host_copy(self.model)
            return True
        if epoch % config.eval_every and epoch != config.epochs:
            return True
        try:
            # Processes cannot give up one by one: the others would wait for their part.
            asked = (lambda: stop.requested) if self.group.size == 1 else (lambda: False)
            with self.stages.measure("evaluation", self.device):
                val_loss, score = self._scorer.score(val_loader, asked)
        except ScoringStopped:
            return False
        line |= {"val_loss": finite_or_none(val_loss), "val_score": finite_or_none(score)}
        if math.isnan(score) and not state.by_loss:
            state.by_loss = True
            if self.group.is_main:
                warn(
                    f"{config.metric} is not defined on the validation nodes (epoch {epoch}); "
                    "epochs are compared by validation loss from here on",
                    TrainingWarning,
                )
        if state.is_better(score, val_loss, self._scorer.metric.higher_is_better):
            state.best_epoch = epoch
            state.best_score, state.best_loss = finite_or_none(score), finite_or_none(val_loss)
            run.best = host_copy(self.model)
        return True

    def _report(self, line: Mapping[str, Any], is_saved: bool) -> None:
        """Pass on the line of an epoch, after what it is about was saved."""
        if not self.group.is_main:
            return
        if self._folder is not None:
            self._folder.append(line, wait=is_saved)
        if self._after_epoch is not None and line["val_loss"] is not None:
            self._after_epoch(dict(line))

    def _is_over(self, state: TrainState, val_loader: Loader | None, until: int | None) -> bool:
        out_of_time = self._out_of_time()  # all processes must ask
        epochs = self.config.epochs if until is None else min(until, self.config.epochs)
        at_end = state.epoch >= epochs
        return out_of_time or at_end or self._stops_early(state, val_loader)

    def _stops_early(self, state: TrainState, val_loader: Loader | None) -> bool:
        if val_loader is None or self.config.patience is None or state.best_epoch == 0:
            return False
        assert self._run is not None, "a run has begun"
        # While the rate still rises, a score that does not improve says little.
        loop = self._run.loop
        warmed_up = math.ceil(loop.warmup_steps / loop.steps)
        return state.epoch - max(state.best_epoch, warmed_up) >= self.config.patience

    def _out_of_time(self) -> bool:
        """Return whether the time is up, the same to all processes."""
        limit = self.config.max_seconds
        if limit is None:
            return False
        spent = self.stages.seconds()
        late = spent.get("epoch", 0.0) + spent.get("evaluation", 0.0) >= limit
        return self.group.add_up([int(late)])[0] > 0

    def _finish(self, run: TrainingRun, val_loader: Loader | None) -> TrainResult:
        state = run.state
        if run.best:
            load_weights(self.model, run.best, "the best epoch")
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

    def _is_save_due(self, state: TrainState) -> bool:
        """Return whether to save after this epoch, the same to all processes."""
        if state.epoch % self.config.checkpoint_every:
            return False
        # A save waits for the disk several times, longer than a short epoch takes. The clocks of
        # several processes do not agree.
        late = time.monotonic() - self._saved_at >= _SECONDS_BETWEEN_SAVES
        return late or self.group.size > 1

    def _save(self, run: TrainingRun) -> None:
        if self._folder is not None:
            resuming.save(run, self._folder, self.group, self.stages.to_dict())
            self._saved_at = time.monotonic()

    def checkpoint(self) -> Checkpoint | None:
        """Return the state of a run that `advance` left, to the main process.

        Returns:
            None in other processes, and where no run can be continued: a second SIGINT ended it.
        """
        if self._run is None or self._rng is None:
            return None
        return resuming.packed(self._run, self.group, self.stages.to_dict(), self._rng)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Begin from what `checkpoint` returned, when training begins."""
        self._given = checkpoint

    def _load_checkpoint(self) -> Checkpoint | None:
        if self._given is not None:
            return self._given
        if self._folder is None or not self._resume:
            return None
        checkpoint = self._folder.checkpoints.load()
        # The main process writes again once all have read.
        self.group.wait()
        return checkpoint

    def _interrupted(self, state: TrainState, stop: StopSignals) -> TrainingInterrupted:
        # Where the signal has reached only other processes, this one stops with them.
        theirs = self.group.largest(stop.signum or 0)
        signum = stop.signum or theirs
        path = None if self._folder is None else str(self._folder.path)
        text = resuming.interruption_message(
            state, signum, path, self._resume_command, self._resume_call
        )
        return TrainingInterrupted(text, signum)

    # ---- scoring -------------------------------------------------------------------------------

    def evaluate(self, loader: Loader) -> dict[str, float]:
        """Return mean loss and metric over a loader's nodes; NaN where one is not defined.

        Raises:
            TrainingError: If the loader has no labels.
        """
        with self.stages.measure("evaluation", self.device):
            loss, score = self._scorer.score(loader)
        return {"loss": loss, self._scorer.metric.name: score}

    def higher_is_better(self, result: TrainResult) -> bool:
        """Return whether a larger ``best_score`` of this trainer's result is the better one."""
        return result.metric != "loss" and self._scorer.metric.higher_is_better

    def predict(self, loader: Loader) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return a loader's nodes in ascending order, and a row of class probabilities for each."""
        with self.stages.measure("inference", self.device):
            return self._scorer.predict(loader)


def _best_text(state: TrainState) -> str:
    score = state.best_loss if state.by_loss else state.best_score
    return "" if score is None else f"{score:.4f} (epoch {state.best_epoch})"
