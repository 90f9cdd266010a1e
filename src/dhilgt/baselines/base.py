"""The interface of a baseline: a model that prepares a graph and makes its own batches.

The trainer sees an ordinary model and ordinary loaders; no system has a training loop of its own.
All state that a system changes during training is in parameters and buffers, which a checkpoint
holds; with them and the number of the epoch, an interrupted run continues exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from dhilgt.baselines.loaders import (
    DeviceCopy,
    NodeLoader,
    PartitionLoader,
    RowStore,
    chosen_nodes,
)
from dhilgt.baselines.settings import Settings
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.baselines.shared.recorded_steps import Recordable
from dhilgt.errors import GraphError, TrainingError
from dhilgt.graph.graph import Graph
from dhilgt.model.kernels.cuda_graphs import GraphRequest, StepRequest
from dhilgt.model.store import save_model
from dhilgt.training.clock import StageClock
from dhilgt.training.config import TrainConfig
from dhilgt.training.protocols import Loader

PRECOMPUTE = "precompute"
"""Name of the stage in which `Baseline.prepare` is timed."""

ARCHITECTURE = "baseline"
"""Name of the kind of model in the files of `Baseline.save`."""

CONSTANT_ADAM: Mapping[str, Any] = {"optimizer": "adam", "warmup_epochs": 0, "decay": "none"}
"""The part that most recipes have in common: Adam with a constant learning rate."""


class Shape(NamedTuple):
    """The sizes of a graph that the shapes of a model's weights depend on."""

    in_channels: int
    out_channels: int
    num_nodes: int

    @classmethod
    def of(cls, graph: Graph) -> Shape:
        """Return the shape of a graph with features and classes."""
        if graph.features is None:
            raise GraphError("the graph has no features; pass features= when making it")
        if graph.num_classes == 0:
            raise GraphError("the graph has no labels; pass labels= when making it")
        # At least two logits: the softmax of a single one is always 1.
        classes = max(2, graph.num_classes)
        return cls(int(graph.features.shape[1]), classes, graph.num_nodes)


class Phase(NamedTuple):
    """A part of training with settings of its own."""

    name: str
    config: TrainConfig


@dataclass(frozen=True)
class About:
    """Name and source of a system.

    Attributes:
        title: Its name as people write it.
        source: The publication that describes it.
        batches: Kind of training batch: "graph", "blocks", "tokens", "samples" or "nodes".
    """

    title: str
    source: str
    batches: str


@dataclass(frozen=True)
class BaselineConfig:
    """The configuration in the files of `Baseline.save`."""

    system: str
    settings: dict[str, Any]
    in_channels: int
    out_channels: int
    num_nodes: int
    seed: int

    @property
    def shape(self) -> Shape:
        """Sizes of the graph that the model was created for."""
        return Shape(self.in_channels, self.out_channels, self.num_nodes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BaselineConfig:
        """Return the configuration that `to_dict` returned."""
        try:
            config = cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error
        numbers = (*config.shape, config.seed)
        if not isinstance(config.settings, dict) or not all(isinstance(n, int) for n in numbers):
            raise ValueError("settings, sizes or seed are not of the right type")
        return config


class Baseline(nn.Module):
    """A system to compare with. Subclasses define `build`, `_prepare`, `logits` and the loaders.

    Subclass `GraphBaseline` for models over whole graphs or random blocks, `TokenBaseline` for
    models over fixed rows per node, `NodeBaseline` where a batch is determined by its nodes, and
    this class for any other.

    Args:
        settings: The system's own settings.
        shape: Sizes of the graph it is for.
        seed: Seed of the draws of `prepare`.

    Attributes:
        about: Name and source.
        settings_type: Class of the settings; its defaults are the paper's.
        recipe: Training settings of the paper, for `TrainConfig`.
        needs_same_nodes: Whether it has weights per node, and so works only on one graph.
        seed: Seed of the draws of `prepare`.
        stages: Times of `prepare`, to be added to a trainer's.
    """

    about: ClassVar[About]
    settings_type: ClassVar[type[Settings]]
    recipe: ClassVar[Mapping[str, Any]] = {}
    needs_same_nodes: ClassVar[bool] = False

    begun: Tensor

    def __init__(self, settings: Settings, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        self.settings = settings
        self.shape = shape
        self.stages = StageClock()
        self._graph: Graph | None = None
        self._too_small: str | None = None  # a device on which inference ran out of memory
        self._ran_on: str | None = None
        # The last epoch that began, so that a resumed epoch does not begin twice.
        self.register_buffer("begun", torch.tensor(-1))
        self.build()

    # ---- for subclasses ------------------------------------------------------------------------

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return settings by name of variant; "paper" is the method as described."""
        return {"paper": {}}

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Return changes of `recipe` by name of variant, where there are any."""
        return {}

    @abstractmethod
    def build(self) -> None:
        """Create the layers, from `settings` and `shape`."""

    @abstractmethod
    def _prepare(self, graph: Graph) -> None:
        """Do all work that is done once, before training; store it in plain attributes."""

    @abstractmethod
    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        """Return the loader of training batches; it calls `begin_epoch` from `set_epoch`."""

    @abstractmethod
    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        """Return the loader of inference batches, the same ones each time."""

    @abstractmethod
    def logits(self, *inputs: Any) -> Tensor:
        """Return [B, C] from a batch's inputs, all on the device of the parameters."""

    def epoch_begins(self, epoch: int) -> None:
        """Run once before the first batch of each training epoch, except resumed ones.

        The place for work between epochs: reading attention, changing buffers, drawing new
        samples. All that it changes must be a buffer, or follow from buffers.

        Args:
            epoch: Number of the epoch, from 0.
        """

    def phases(self, config: TrainConfig) -> list[Phase]:
        """Return the phases that training consists of; most systems have one.

        Each starts from the best weights of the one before, with an optimizer of its own, and the
        best weights of all phases are the result; see `dhilgt.baselines.fit`.
        """
        return [Phase("train", config)]

    def begin_phase(self, name: str) -> None:
        """Run before a phase of training; the current phase must be kept in a buffer."""

    # ---- for users -----------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that was prepared."""
        if self._graph is None:
            raise TrainingError(f"{self.about.title} has no graph yet; call prepare(graph) first")
        return self._graph

    def prepare(self, graph: Graph) -> None:
        """Do all work on a graph that is done once before training; timed as "precompute"."""
        shape = Shape.of(graph)
        if shape[:2] != self.shape[:2]:
            raise GraphError(
                f"the graph has {shape.in_channels} features and {shape.out_channels} classes, "
                f"the model was made for {self.shape.in_channels} and {self.shape.out_channels}; "
                "create the model for this graph"
            )
        if self.needs_same_nodes and shape.num_nodes != self.shape.num_nodes:
            raise GraphError(
                f"{self.about.title} has weights for each of {self.shape.num_nodes} nodes, the "
                f"graph has {shape.num_nodes}; create a model for this graph"
            )
        with self.stages.measure(PRECOMPUTE):
            self._prepare(graph)
        self._graph = graph

    def train_batches(self, nodes: Any, *, seed: int = 0) -> Loader:
        """Return the loader to train with.

        Args:
            nodes: Training nodes: a mask or indices. All need a label.
            seed: Seed of the orders and samples.
        """
        labels = self.graph.labels
        assert labels is not None, "checked by prepare"
        chosen = chosen_nodes(nodes, self.graph.num_nodes)
        loader: Loader = self._train_loader(chosen, labels, seed)
        return loader

    def inference_batches(self, nodes: Any = None) -> Loader:
        """Return the loader to score and predict with.

        Args:
            nodes: A mask or indices; None for all nodes. The batches have labels if every one of
                these nodes has one; without labels they can be predicted, not scored.
        """
        labels = self.graph.labels
        chosen = chosen_nodes(nodes, self.graph.num_nodes)
        if labels is not None and (labels[chosen] < 0).any():
            labels = None
        loader: Loader = self._inference_loader(chosen, labels)
        return loader

    @classmethod
    def train_config(cls, variant: str = "paper", **changes: Any) -> TrainConfig:
        """Return the paper's training settings with changes.

        With fewer epochs than the paper's, warm-up and decay keep their fractions of the run, so
        that a short run does not end before its warm-up does. Values in `changes` are not scaled.

        Example:
            >>> from dhilgt.baselines.registry import system
            >>> system("hsgt").train_config().warmup_epochs
            10.0
            >>> system("hsgt").train_config(epochs=50).warmup_epochs
            1.0
        """
        recipe = {**cls.recipe, **cls.variant_recipes().get(variant, {})}
        own = TrainConfig.from_dict(recipe)
        config = TrainConfig.from_dict({**recipe, **changes})
        fraction = min(1.0, config.epochs / own.epochs)
        scaled: dict[str, Any] = {"warmup_epochs": own.warmup_epochs * fraction}
        if own.warmup_steps is not None:
            scaled["warmup_steps"] = round(own.warmup_steps * fraction)
        if own.decay_steps is not None:
            scaled["decay_steps"] = max(1, round(own.decay_steps * fraction))
        return replace(config, **{name: scaled[name] for name in scaled if name not in changes})

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.begun.device

    @property
    def inference_device(self) -> str | None:
        """Device of the last batch in evaluation mode: "cuda:0", "cpu", ...; None before it."""
        return self._ran_on

    def begin_epoch(self, epoch: int) -> None:
        """Run `epoch_begins`, unless this epoch had begun before training was interrupted."""
        if int(self.begun) != epoch:
            self.epoch_begins(epoch)
            self.begun.fill_(epoch)

    def forward(self, *inputs: Any) -> Tensor:
        """Return logits [B, C].

        In evaluation, if the inputs or the work on them do not fit on the device, the host does it
        with a copy of the weights for this call.
        """
        if self.training:
            return self.logits(*inputs)
        device = self.device
        if _device_of(inputs, device) == device and self._too_small != str(device):
            try:
                logits = self.logits(*inputs)
                self._ran_on = str(device)
                return logits
            except torch.OutOfMemoryError:
                if device.type != "cuda":
                    raise
                self._too_small = str(device)
            torch.cuda.empty_cache()
        return self._run_on_host(inputs)

    def _run_on_host(self, inputs: tuple[Any, ...]) -> Tensor:
        state = {name: tensor.cpu() for name, tensor in self.state_dict().items()}
        moved = tuple(part.to("cpu") for part in inputs)
        too_small, self._too_small = self._too_small, None
        try:
            logits: Tensor = functional_call(self, state, moved)
        finally:
            self._too_small = too_small
        return logits

    def save(self, folder: str | PathLike[str]) -> None:
        """Write config.json and model.safetensors; `dhilgt.baselines.load` reads them."""
        from dhilgt.baselines.registry import name_of

        name = name_of(type(self))
        config = BaselineConfig(name, self.settings.to_dict(), *self.shape, self.seed)
        save_model(config, self.state_dict(), folder, ARCHITECTURE)


def _device_of(inputs: tuple[Any, ...], default: torch.device) -> torch.device:
    devices = (getattr(part, "device", None) for part in inputs)
    return next((device for device in devices if isinstance(device, torch.device)), default)


_RECORDED_ENTRIES = 1 << 22
"""Most edges and loops of a graph whose steps are recorded: others wait for no kernel launch."""


class GraphBaseline(Recordable, Baseline):
    """A model over a graph: the whole one, or random blocks of it in training.

    `logits(x, ..., rows)` gets the features of all nodes of the graph or block, the result of
    `graph_inputs`, and the places of the nodes to classify. Scores use the whole graph.

    The settings need a field ``batch_size``: the most nodes of a block, None for the whole graph.
    """

    step_request: ClassVar[type[StepRequest]] = GraphRequest

    def fixed_tables(self) -> object | None:
        """Return the whole graph; None if it has many edges, or is trained in blocks."""
        in_blocks = self.training and getattr(self.settings, "batch_size", None) is not None
        if self._graph is None or in_blocks or len(self._clean.targets) > _RECORDED_ENTRIES:
            return None
        return self._whole

    def _prepare(self, graph: Graph) -> None:
        self._clean = self.clean(graph)
        self._x = self.features(graph)
        self._whole: tuple[DeviceCopy, ...] = tuple(
            DeviceCopy(part) for part in (self._x, *self.graph_inputs(self._clean))
        )

    def clean(self, graph: Graph) -> CleanGraph:
        """Return the edges to use: by default both directions, one self-loop per node."""
        return CleanGraph.of(graph)

    def features(self, graph: Graph) -> Tensor:
        """Return the features, [n, F0]."""
        return dense_features(graph)

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Return further inputs of `logits`: by default Â = D^-1/2 (A + I) D^-1/2."""
        return (part.adjacency("symmetric"),)

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        size: int | None = getattr(self.settings, "batch_size", None)
        if size is None:
            return NodeLoader(
                self._with_rows, nodes, labels, seed=seed, fixed=True, on_epoch=self.begin_epoch
            )
        return PartitionLoader(
            self._block,
            self._clean,
            nodes,
            labels,
            block_size=size,
            seed=seed,
            on_epoch=self.begin_epoch,
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        return NodeLoader(self._with_rows, nodes, labels, fixed=True, may_stay=True)

    def _with_rows(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        return (*self._whole, torch.from_numpy(nodes))

    def _block(
        self, part: CleanGraph, nodes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[Any, ...]:
        x = self._x.index_select(0, torch.from_numpy(nodes))
        return (x, *self.graph_inputs(part), torch.from_numpy(rows))


class NodeBaseline(Baseline):
    """A model whose batches are determined by their nodes: `_inputs(nodes, key)` makes one.

    The settings need a field ``batch_size``: nodes per batch, None for all at once.

    Attributes:
        draws: Whether `_inputs` draws by its key; if not, equal nodes have equal inputs.
        may_stay: Whether inputs that do not fit on the device may stay on the host in evaluation.
        threads: Batches that are made at once; more than one if `_inputs` can run in several
            threads, as it can if it changes nothing.
    """

    draws: ClassVar[bool] = False
    may_stay: ClassVar[bool] = True
    threads: ClassVar[int] = 1

    @abstractmethod
    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        """Return the inputs of `logits` for some nodes; all draws come from the key."""

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        size = self._batch_size()
        return NodeLoader(
            self._inputs,
            nodes,
            labels,
            batch_size=size,
            shuffle=size is not None,
            seed=seed,
            fixed=not self.draws,
            on_epoch=self.begin_epoch,
            threads=self.threads,
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        # The same draws each time, so that scores of two epochs differ only by the weights.
        return NodeLoader(
            self._inputs,
            nodes,
            labels,
            batch_size=self._batch_size(),
            fixed=True,
            may_stay=self.may_stay,
            threads=self.threads,
        )

    def _batch_size(self) -> int | None:
        size: int | None = getattr(self.settings, "batch_size", None)
        return size


class TokenBaseline(NodeBaseline):
    """A model over fixed rows per node, computed once; the graph is not needed after that.

    `logits` gets the rows of a batch's nodes, one input for each tensor of `tokens`.
    """

    may_stay: ClassVar[bool] = False

    @abstractmethod
    def tokens(self, graph: Graph) -> tuple[Tensor, ...]:
        """Return one or more tensors on the host, [n, ...] each."""

    def _prepare(self, graph: Graph) -> None:
        self._stores = tuple(RowStore(rows) for rows in self.tokens(graph))

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        return tuple(store.rows(nodes) for store in self._stores)
