"""One trial: settings in, mean validation score out. Classes of test nodes are never read."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from dhilgt import metrics
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.classifier import new_model, training_loaders
from dhilgt.classifier.inputs import FitInputs, prepare
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.errors import TrainingError
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.orders import DRAWN
from dhilgt.settings.settings import Settings
from dhilgt.tokens.single import TokenSource
from dhilgt.training.clock import host_peak_bytes
from dhilgt.training.state import TrainResult
from dhilgt.training.trainer import Trainer
from dhilgt.utils.devices import choose_device

REPORTS_PER_RUN = 20
"""How often a run's score is compared with those of other trials."""


class Source(Protocol):
    """Where the graph of a search comes from. It is pickled for the worker processes."""

    def __call__(self, seed: int) -> Graph:
        """Return the graph with the split of a seed; the graph itself is always the same."""


@dataclass(frozen=True)
class GraphSource:
    """A graph in memory: the split in its masks, or one held out by seed.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2])
        >>> GraphSource(graph)(3) is graph
        True
    """

    graph: Graph

    def __call__(self, seed: int) -> Graph:
        """Return the graph."""
        return self.graph


@dataclass(frozen=True)
class Outcome:
    """The result of a trial.

    Attributes:
        score: Mean of the scores.
        scores: Best validation score of each seed.
        best_epochs: The epochs they belong to.
        epochs: Epochs that were trained.
        seconds: Wall clock of the trial.
        host_peak_bytes: Most memory the process has held so far.
        device_peak_bytes: Most GPU memory of a stage.
    """

    score: float
    scores: list[float]
    best_epochs: list[int]
    epochs: list[int]
    seconds: float
    host_peak_bytes: int
    device_peak_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def without_test(graph: Graph) -> Graph:
    """Return the graph without the classes of its test nodes, and without the test mask.

    Where the graph has a training mask, nodes in no part lose their classes, too.

    Example:
        >>> masks = {"train": [1, 0, 0], "val": [0, 1, 0], "test": [0, 0, 1]}
        >>> masks = {name: np.array(mask, bool) for name, mask in masks.items()}
        >>> graph = Graph.from_edges([0, 1], [1, 2], labels=[4, 5, 6], masks=masks)
        >>> without_test(graph).labels.tolist()
        [4, 5, -1]
    """
    masks = dict(graph.masks or {})
    if graph.labels is None or not masks:
        return graph
    test = masks.pop("test", np.zeros(graph.num_nodes, np.bool_))
    hidden = test
    if "train" in masks:
        hidden = ~masks["train"] & ~masks.get("val", np.zeros(graph.num_nodes, np.bool_))
    labels = np.where(hidden, -1, graph.labels)
    return graph.with_nodes(labels=labels, masks=MappingProxyType(masks) if masks else None)


class Objective:
    """Trains on each of some seeds and returns the mean of the best validation scores.

    Hub labels are made once; tokens and features are kept while their settings stay the same.

    Args:
        source: Where the graph comes from.
        seeds: Of splits, tokens and weights.
        cache: Where hub labels are kept between processes; None keeps them in memory.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(60, 6, seed=1, num_features=4, num_classes=2)
        >>> objective = Objective(GraphSource(graph), [0, 1], cache=None)
        >>> outcome = objective(Settings(size=4, hidden_channels=8, num_layers=1, epochs=2))
        >>> len(outcome.scores), outcome.epochs
        (2, [2, 2])
    """

    def __init__(self, source: Source, seeds: Sequence[int], *, cache: Cache | None) -> None:
        self._source = source
        self._cache = cache
        self.seeds = tuple(seeds)
        self._inputs: dict[tuple[int, float], FitInputs] = {}
        self._labels: dict[tuple[str, int | str, int], HubLabels] = {}
        self._tokens: dict[int, tuple[dict[str, Any], TokenSource]] = {}
        self._features: tuple[tuple[Any, ...], Any] | None = None

    def __call__(
        self,
        settings: Settings,
        report: Callable[[int, float], None] | None = None,
        alive: Callable[[], None] | None = None,
    ) -> Outcome:
        """Return the outcome of some settings; their own seed is ignored.

        Args:
            settings: To try.
            report: Called now and then with a step and the score so far: the mean over the seeds
                that have ended and the best of the current one. What it raises ends the trial.
            alive: Called after every epoch. What it raises ends the trial.
        """
        start = time.perf_counter()
        results: list[TrainResult] = []
        for at, seed in enumerate(self.seeds):
            chosen = Settings.from_dict(settings.to_dict() | {"seed": seed})
            done = [float(one.best_score or 0.0) for one in results]
            watch = _Watch(chosen, at, done, report, alive)
            results.append(self._train(chosen, watch))
        scores = [float(one.best_score) for one in results if one.best_score is not None]
        return Outcome(
            score=statistics.fmean(scores),
            scores=scores,
            best_epochs=[one.best_epoch for one in results],
            epochs=[one.epochs for one in results],
            seconds=round(time.perf_counter() - start, 3),
            host_peak_bytes=host_peak_bytes(),
            device_peak_bytes=max(
                stage["device_peak_bytes"] for one in results for stage in one.stages.values()
            ),
        )

    def _train(self, settings: Settings, watch: Callable[[Mapping[str, Any]], None]) -> TrainResult:
        inputs = self._prepared(settings)
        pipeline = self._pipeline(inputs.graph, settings)
        device = choose_device(settings.device)
        model = new_model(pipeline, len(inputs.classes)).to(device)
        trainer = Trainer(
            model, settings.train_config(), None, device, progress=False, after_epoch=watch
        )
        loaders, _ = training_loaders(inputs, pipeline, model, trainer, None, False)
        result = trainer.fit(loaders["train"], loaders["val"])
        if result.metric == "loss" or result.best_score is None:
            raise TrainingError(
                f"{settings.metric} is not defined on the validation nodes of seed "
                f"{settings.seed}; choose another metric or a larger validation part"
            )
        return result

    # ---- kept between trials -------------------------------------------------------------------

    def _prepared(self, settings: Settings) -> FitInputs:
        key = (settings.seed, settings.validation)
        if key not in self._inputs:
            inputs = prepare(
                without_test(self._source(settings.seed)), None, train=None, val=None,
                validation=settings.validation, seed=settings.seed,
            )  # fmt: skip
            if "val" not in inputs.split:
                raise TrainingError("there are no validation nodes, and a search needs some")
            self._inputs[key] = inputs
        return self._inputs[key]

    def _pipeline(self, graph: Graph, settings: Settings) -> Pipeline:
        drawn = settings.seed if settings.order in DRAWN else 0
        ranked = (settings.order, settings.radius, drawn)
        if ranked not in self._labels:
            first = Pipeline(graph, settings, cache=self._cache, progress=False)
            self._labels[ranked] = first.labels
        options = settings.token_options() | {
            "copies": settings.copies,
            "fresh": settings.fresh,
            "order": settings.order,
            "radius": settings.radius,
            "layers": settings.num_layers > 0,  # rows of a model without them are of one slot
        }
        known = self._tokens.get(settings.seed)
        tokens = known[1] if known is not None and known[0] == options else None
        made = (
            settings.hops, settings.hop_kind, settings.hop_restart, settings.hop_channels,
            settings.feature_scale,
        )  # fmt: skip
        has_features = self._features is not None and self._features[0] == made
        pipeline = Pipeline(
            graph,
            settings,
            cache=None,
            progress=False,
            labels=self._labels[ranked],
            tokens=tokens,
            features=self._features[1] if has_features and self._features else None,
        )
        self._tokens[settings.seed] = (options, pipeline.tokens)
        self._features = (made, pipeline.features)
        return pipeline


class _Watch:
    """Reports the running score of one seed's training."""

    def __init__(
        self,
        settings: Settings,
        at: int,
        done: Sequence[float],
        report: Callable[[int, float], None] | None,
        alive: Callable[[], None] | None,
    ) -> None:
        self._epochs = settings.epochs
        self._every = max(1, settings.epochs // REPORTS_PER_RUN)
        self._better = metrics.metric(settings.metric).better
        self._at, self._done, self._report, self._alive = at, list(done), report, alive
        self._best: float | None = None
        self._next = self._every

    def __call__(self, line: Mapping[str, Any]) -> None:
        if self._alive is not None:
            self._alive()
        score, epoch = line["val_score"], int(line["epoch"])
        if score is not None and (self._best is None or self._better(score, self._best)):
            self._best = float(score)
        if self._report is None or self._best is None or epoch < self._next:
            return
        self._next = epoch - epoch % self._every + self._every
        mean = statistics.fmean([*self._done, self._best])
        self._report(self._at * self._epochs + epoch, mean)
