"""Train a baseline: run the trainer once for each phase of the system."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from dhilgt.baselines.base import PRECOMPUTE, Baseline
from dhilgt.training.clock import StageClock
from dhilgt.training.config import TrainConfig
from dhilgt.training.protocols import MetricLike
from dhilgt.training.state import TrainResult, host_copy, load_weights
from dhilgt.training.trainer import Trainer


@dataclass(frozen=True)
class FitResult:
    """Result of training a baseline.

    Attributes:
        trainer: The trainer, to score and predict with the best weights.
        phases: Result of each phase, by name.
        best_phase: The phase whose weights the model has.
        best_score: Their validation score; None without validation.
        epochs: Number of epochs of all phases.
        stages: Times and memory of all phases, and of preparing the graph.
    """

    trainer: Trainer
    phases: dict[str, TrainResult]
    best_phase: str
    best_score: float | None
    epochs: int
    stages: StageClock


def fit(
    model: Baseline,
    train: Any,
    val: Any = None,
    config: TrainConfig | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    device: str | torch.device = "auto",
    resume: bool = False,
    metric: MetricLike | None = None,
    progress: bool | Literal["auto"] = "auto",
    stages: StageClock | None = None,
) -> FitResult:
    """Train a system through all of its phases, and load its best weights.

    Args:
        model: From `create`.
        train: Training nodes: a mask or indices.
        val: Validation nodes, by which the best epoch and the best phase are chosen.
        config: Training settings; None for those of the paper. Its seed is also that of batches;
            each phase gets an equal part of its ``max_seconds``.
        run_dir: Folder for checkpoints and result; with several phases, each has a folder in it.
        device: Where to train.
        resume: Whether to continue the run in `run_dir`.
        metric: As for `Trainer`.
        progress: As for `Trainer`.
        stages: Clock that takes the times, also if training ends by an error; None for a new one.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(60, 4, seed=1, num_features=8)
        >>> model = dhilgt.baselines.create("mlp", graph)
        >>> config = model.train_config(epochs=3)
        >>> result = fit(model, range(30), range(30, 45), config, device="cpu")
        >>> result.epochs, sorted(result.stages.seconds())
        (3, ['epoch', 'evaluation', 'precompute'])
    """
    config = model.train_config() if config is None else config
    phases = model.phases(config)
    if config.max_seconds is not None:
        each = config.max_seconds / len(phases)
        phases = [
            phase._replace(config=replace(phase.config, max_seconds=each)) for phase in phases
        ]
    val_loader = None if val is None else model.inference_batches(val)
    stages = StageClock() if stages is None else stages
    stages.extend(PRECOMPUTE, model.stages.to_dict()[PRECOMPUTE])
    results: dict[str, TrainResult] = {}
    best: tuple[str, dict[str, torch.Tensor]] | None = None
    trainer: Trainer | None = None
    for number, phase in enumerate(phases):
        folder = run_dir
        if run_dir is not None and len(phases) > 1:
            folder = Path(run_dir) / f"{number + 1}-{phase.name}"
        model.begun.fill_(-1)
        model.begin_phase(phase.name)
        trainer = Trainer(
            model, phase.config, folder, device, resume, metric=metric, progress=progress
        )
        loader = model.train_batches(train, seed=config.seed)
        try:
            result = results[phase.name] = trainer.fit(loader, val_loader)
        finally:
            stages.join(trainer.stages)
        if best is None or _beats(trainer, result, results[best[0]]):
            best = phase.name, host_copy(model) if number + 1 < len(phases) else {}
    assert trainer is not None and best is not None, "a system has at least one phase"  # noqa: PT018
    if best[1]:
        load_weights(model, best[1], f"the best epoch of phase {best[0]}")
    return FitResult(
        trainer,
        results,
        best[0],
        results[best[0]].best_score,
        sum(result.epochs for result in results.values()),
        stages,
    )


def _beats(trainer: Trainer, new: TrainResult, old: TrainResult) -> bool:
    if new.best_score is None or old.best_score is None:
        return True  # without validation, the last phase counts
    if trainer.higher_is_better(new):
        return new.best_score > old.best_score
    return new.best_score < old.best_score
