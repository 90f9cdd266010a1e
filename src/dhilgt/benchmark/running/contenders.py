"""The systems of a comparison behind one interface: prepare, train, predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.inputs import Inputs, usable_scale
from dhilgt.benchmark.running.recipe import AS_IN_PAPER, AUTO, OURS
from dhilgt.graph.graph import Graph
from dhilgt.settings.settings import Settings
from dhilgt.training.clock import StageClock

if TYPE_CHECKING:
    from dhilgt.training.config import TrainConfig

PREPARING = ("precompute", "labels", "tokens", "features")
"""Stages that together are the precomputation of a system."""


@dataclass(frozen=True)
class Training:
    """How the training of a contender ended."""

    epochs: int
    best_epoch: int
    best_score: float | None
    chosen_by: str
    out_of_time: bool = False


@dataclass(frozen=True)
class Resolved:
    """All settings of a cell: those of the system, and of its training."""

    model: dict[str, Any]
    training: TrainConfig


def resolved(cell: Cell, metric: str) -> Resolved:
    """Return all settings of a cell.

    Args:
        cell: The cell.
        metric: The score that chooses the epoch.

    Raises:
        ConfigError: If a setting does not exist or has a wrong value.
    """
    run = {"metric": metric, "seed": cell.seed}
    if cell.system == OURS:
        given = {**cell.changes.model, **cell.changes.training, **run}
        if chooses_settings(cell):
            return Resolved(dict(cell.changes.model), Settings.from_dict(given).train_config())
        return of_settings(Settings.from_dict({**AS_IN_PAPER, **given}))
    from dhilgt.baselines.registry import system

    cls = system(cell.system)
    inputs, changes = Inputs.parted(cell.changes.model)
    own = {**cls.variants()[cell.variant], **changes}
    config = cls.train_config(cell.variant, **cell.changes.training, **run)
    return Resolved({**cls.settings_type.from_dict(own).to_dict(), **inputs.changed()}, config)


def chooses_settings(cell: Cell) -> bool:
    """Return whether a cell is of the recipe "auto": what it does not fix is chosen in training.

    Example:
        >>> cell = Cell("dhilgt", "cora", 0, recipe="auto")
        >>> chooses_settings(cell), chooses_settings(cell.varied("no hops", {"hops": 0}))
        (True, True)
        >>> chooses_settings(Cell("dhilgt", "cora", 0))
        False
    """
    return cell.system == OURS and cell.recipe.partition(", ")[0] == AUTO


def of_settings(settings: Settings) -> Resolved:
    """Return the settings of DHIL-GT as those of the system and those of its training."""
    config = settings.train_config()
    training = config.to_dict()
    model = {name: v for name, v in settings.to_dict().items() if name not in training}
    return Resolved(model, config)


class Contender(ABC):
    """A system on a graph with a split.

    Attributes:
        settings: All of its settings; after `train`, those that were used.
        clock: What each stage took, in seconds and memory; also after an error.
        num_parameters: Trained numbers; 0 before `prepare`.
    """

    def __init__(
        self,
        cell: Cell,
        settings: Resolved,
        graph: Graph,
        device: str,
        threads: int | None = None,
    ) -> None:
        self.cell, self.settings, self.graph = cell, settings, graph
        self.clock = StageClock()
        self.num_parameters = 0
        self._device, self._threads = device, threads
        self._loaders: dict[str, Any] = {}  # of inference: made once, as in serving
        assert graph.masks is not None, "loaded with a split"
        self._split = {part: np.flatnonzero(mask) for part, mask in graph.masks.items()}

    @abstractmethod
    def prepare(self) -> None:
        """Do all that is done once, before training; timed under the names of `PREPARING`."""

    @abstractmethod
    def train(self) -> Training:
        """Train, choosing the epoch by the validation nodes; timed as "epoch"."""

    @abstractmethod
    def predict(self, part: str) -> NDArray[np.float32]:
        """Return class probabilities of the nodes of a part; timed as "inference"."""

    @property
    @abstractmethod
    def inference_device(self) -> str:
        """Where the last predictions were made."""

    def rows(self) -> dict[str, float] | None:
        """Return what token rows hold on average; None for systems without them."""
        return None

    def chosen(self) -> dict[str, Any] | None:
        """Return what a system that chooses its own settings tried and chose; None for others."""
        return None

    def part(self, name: str) -> NDArray[np.int64]:
        """Return the nodes of a part of the split, ascending."""
        return self._split[name]


class OurContender(Contender):
    """DHIL-GT: labels and tokens made without the cache, the model, the trainer."""

    def prepare(self) -> None:
        """Make labels, tokens and hops, without the cache: the time is that of making them."""
        from dhilgt.classifier.classifier import new_model
        from dhilgt.classifier.pipeline import Pipeline
        from dhilgt.utils.devices import choose_device

        training = self.settings.training.to_dict()
        settings = Settings.from_dict({**AS_IN_PAPER, **self.settings.model, **training})
        kind = usable_scale(settings.feature_scale, self.graph.features)
        if kind != settings.feature_scale:
            settings = replace(settings, feature_scale=kind)
            self.settings = of_settings(settings)
        if self._threads is not None:
            settings = replace(settings, threads=self._threads)
        self._pipeline = Pipeline(
            self.graph, settings, cache=None, progress=False, clock=self.clock
        )
        made = self._pipeline  # here, not in the first epoch
        _ = made.tokens, made.features, made.ego, made.adjacency
        self._on = choose_device(self._device)
        classes = max(2, self.graph.num_classes)
        self._model = new_model(self._pipeline, classes).to(self._on)
        self.num_parameters = sum(weight.numel() for weight in self._model.parameters())

    def train(self) -> Training:
        """Train by the one trainer."""
        from dhilgt.training.batch_size import CPU_BATCH, auto_batch_size
        from dhilgt.training.trainer import Trainer

        config = self.settings.training
        trainer = self._trainer = Trainer(self._model, config, device=self._on, progress=False)
        size = self.settings.model["batch_size"]
        self._batch_size: int = CPU_BATCH if size == "auto" else size
        train = self._loader("train", training=True)
        if size == "auto":
            self._batch_size = auto_batch_size(self._model, train, config, self._on)
            train = train.with_batch_size(self._batch_size)
        try:
            result = trainer.fit(train, self._loader("val"))
        finally:
            self.clock.join(trainer.stages)
            trainer.stages = self.clock
        score, metric = result.best_score, result.metric
        return Training(result.epochs, result.best_epoch, score, metric, result.out_of_time)

    def _loader(self, part: str, training: bool = False) -> Any:
        return self._pipeline.loader(
            self.part(part),
            self.graph.labels,
            device=self._on,
            batch_size=self._batch_size,
            training=training,
        )

    def predict(self, part: str) -> NDArray[np.float32]:
        """Return probabilities, batch by batch."""
        if part not in self._loaders:
            self._loaders[part] = self._loader(part)
        return self._trainer.predict(self._loaders[part])[1]

    def rows(self) -> dict[str, float] | None:
        """Return what token rows hold on average; None where they are drawn for each batch."""
        from dhilgt.tokens.stats import mean_slots
        from dhilgt.tokens.tokens import Tokens

        tokens = self._pipeline.tokens
        return mean_slots(tokens) if isinstance(tokens, Tokens) else None

    @property
    def inference_device(self) -> str:
        """The device of training."""
        return str(self._on)


class BaselineContender(Contender):
    """Any other system, through `dhilgt.baselines`."""

    def prepare(self) -> None:
        """Make the inputs and create the system, which prepares the graph."""
        from dhilgt import baselines

        inputs, changes = Inputs.parted(self.cell.changes.model)
        with self.clock.measure("features"):
            graph = inputs.of(self.graph)
        self._model = baselines.create(
            self.cell.system, graph, variant=self.cell.variant, seed=self.cell.seed, **changes
        )
        self.clock.join(self._model.stages)
        self.num_parameters = sum(weight.numel() for weight in self._model.parameters())

    def train(self) -> Training:
        """Train through all phases of the system."""
        from dhilgt import baselines

        clock = StageClock()
        try:
            result = baselines.fit(
                self._model,
                self.part("train"),
                self.part("val"),
                self.settings.training,
                device=self._device,
                progress=False,
                stages=clock,
            )
        finally:
            for name in ("epoch", "evaluation"):  # preparation is counted already
                self.clock.take(name, clock)
        self._trainer = result.trainer
        self._trainer.stages = self.clock
        before = 0
        for name, phase in result.phases.items():
            if name == result.best_phase:
                break
            before += phase.epochs
        best = result.phases[result.best_phase]
        out_of_time = any(phase.out_of_time for phase in result.phases.values())
        return Training(
            result.epochs, before + best.best_epoch, result.best_score, best.metric, out_of_time
        )

    def predict(self, part: str) -> NDArray[np.float32]:
        """Return probabilities, on the host where the graph does not fit the device."""
        if part not in self._loaders:
            self._loaders[part] = self._model.inference_batches(self.part(part))
        return self._trainer.predict(self._loaders[part])[1]

    @property
    def inference_device(self) -> str:
        """Where the last batch was run."""
        return self._model.inference_device or str(self._trainer.device)


def contender(
    cell: Cell, settings: Resolved, graph: Graph, device: str, threads: int | None = None
) -> Contender:
    """Return the contender of a cell.

    Args:
        cell: The cell.
        settings: All of its settings.
        graph: With features, classes and a split.
        device: Where to train.
        threads: For labels and tokens; None for all.
    """
    kind: type[Contender] = OurContender if cell.system == OURS else BaselineContender
    if chooses_settings(cell):
        from dhilgt.benchmark.running.default_contender import DefaultContender

        kind = DefaultContender
    return kind(cell, settings, graph, device, threads)
