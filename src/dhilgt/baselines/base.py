"""The interface of a baseline: a model that prepares a graph and makes its own batches.

The trainer sees an ordinary model and ordinary loaders, so no system has a loop of its own. What a
system learns or decides between steps lies in parameters and buffers, which are what a checkpoint
holds; with them and the number of the epoch, a killed run continues exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from dhilgt.baselines.loaders import Kept, NodeLoader, PartitionLoader, RowStore, chosen_nodes
from dhilgt.baselines.settings import Settings
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.errors import GraphError, TrainingError
from dhilgt.graph.graph import Graph
from dhilgt.model.store import save_model
from dhilgt.training.clock import StageClock
from dhilgt.training.config import TrainConfig
from dhilgt.training.protocols import Loader

PRECOMPUTE = "precompute"
"""Name of the stage that `Baseline.prepare` is timed as."""


class Shape(NamedTuple):
    """What of a graph decides the shapes of a model's weights."""

    in_channels: int
    out_channels: int
    num_nodes: int

    @classmethod
    def of(cls, graph: Graph) -> Shape:
        """Gives the shape of a graph with features and labels."""
        if graph.features is None:
            raise GraphError("the graph has no features; pass features= when making it")
        if graph.num_classes == 0:
            raise GraphError("the graph has no labels; pass labels= when making it")
        # One logit would say nothing: a softmax of it is always 1.
        classes = max(2, graph.num_classes)
        return cls(int(graph.features.shape[1]), classes, graph.num_nodes)


class Phase(NamedTuple):
    """A part of training with settings of its own."""

    name: str
    config: TrainConfig


@dataclass(frozen=True)
class About:
    """What is known of a system before it is made.

    Attributes:
        title: Its name as people write it.
        source: Where it is described.
        batches: What a training batch is: "graph", "blocks", "tokens", "samples" or "nodes".
    """

    title: str
    source: str
    batches: str


class Baseline(nn.Module):
    """A system under comparison. Subclasses fill in `build`, `_prepare`, `logits` and the batches.

    Subclass `kinds.GraphBaseline` for models over whole graphs or random blocks,
    `kinds.TokenBaseline` for models over fixed rows per node, and this class for any other.

    Args:
        settings: The system's own settings.
        shape: Sizes of the graph it is for.
        seed: For what is drawn while preparing.

    Attributes:
        about: Name and source.
        settings_type: Class of the settings; its defaults are the paper's.
        recipe: Training settings of the paper, for `TrainConfig`.
        needs_same_nodes: Whether it has weights for each node, and so fits one graph alone.
        seed: For what is drawn while preparing.
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
        self._on_host: str | None = None
        self._ran_on: str | None = None
        # The epoch last begun, so that one that is resumed does not begin twice.
        self.register_buffer("begun", torch.tensor(-1))
        self.build()

    # ---- for subclasses ------------------------------------------------------------------------

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Gives settings by name of variant; "paper" is the method as described."""
        return {"paper": {}}

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Gives changes of `recipe` by name of variant, where there are any."""
        return {}

    @abstractmethod
    def build(self) -> None:
        """Makes the layers, from `settings` and `shape`."""

    @abstractmethod
    def _prepare(self, graph: Graph) -> None:
        """Does everything that is done once, before training. Keeps it as plain attributes."""

    @abstractmethod
    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        """Gives the loader of training batches; it calls `begin_epoch` from `set_epoch`."""

    @abstractmethod
    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        """Gives the loader of inference batches, the same ones each time."""

    @abstractmethod
    def logits(self, *inputs: Any) -> Tensor:
        """Gives [B, C] from a batch's inputs, all on the device of the parameters."""

    def epoch_begins(self, epoch: int) -> None:
        """Called once before the first batch of each training epoch, resumed ones excepted.

        The place for what a system does between epochs: read its attention, change its buffers,
        draw new samples. Whatever it changes must be a buffer, or follow from buffers.

        Args:
            epoch: Number of the epoch, from 0.
        """

    def phases(self, config: TrainConfig) -> list[Phase]:
        """Gives the parts that training by some settings falls into; most systems have one.

        Each begins from the best weights of the one before, with an optimizer of its own, and the
        best weights of all are those that count; see `dhilgt.baselines.fit`.
        """
        return [Phase("train", config)]

    def begin_phase(self, name: str) -> None:
        """Called before a phase of training; which one it is must be kept in a buffer."""

    # ---- for users -----------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that was prepared."""
        if self._graph is None:
            raise TrainingError(f"{self.about.title} has no graph yet; call prepare(graph) first")
        return self._graph

    def prepare(self, graph: Graph) -> None:
        """Takes a graph and does all that is done once before training; timed as "precompute"."""
        found = Shape.of(graph)
        if found[:2] != self.shape[:2]:
            raise GraphError(
                f"the graph has {found.in_channels} features and {found.out_channels} classes, "
                f"the model was made for {self.shape.in_channels} and {self.shape.out_channels}; "
                "create the model for this graph"
            )
        if self.needs_same_nodes and found.num_nodes != self.shape.num_nodes:
            raise GraphError(
                f"{self.about.title} has weights for each of {self.shape.num_nodes} nodes, the "
                f"graph has {found.num_nodes}; create a model for this graph"
            )
        with self.stages.measure(PRECOMPUTE):
            self._prepare(graph)
        self._graph = graph

    def train_batches(self, nodes: Any, *, seed: int = 0) -> Loader:
        """Gives the loader to train on.

        Args:
            nodes: Training nodes: a mask or indices. All need a label.
            seed: Of the orders and samples.
        """
        labels = self.graph.labels
        assert labels is not None, "checked by prepare"
        chosen = chosen_nodes(nodes, self.graph.num_nodes)
        loader: Loader = self._train_loader(chosen, labels, seed)
        return loader

    def inference_batches(self, nodes: Any = None) -> Loader:
        """Gives the loader to score and predict with.

        Args:
            nodes: A mask or indices; None for all nodes. The batches have labels if every one of
                these nodes has one; without them they can be predicted, not scored.
        """
        labels = self.graph.labels
        chosen = chosen_nodes(nodes, self.graph.num_nodes)
        if labels is not None and (labels[chosen] < 0).any():
            labels = None
        loader: Loader = self._inference_loader(chosen, labels)
        return loader

    @classmethod
    def train_config(cls, variant: str = "paper", **changes: Any) -> TrainConfig:
        """Gives the paper's training settings with changes."""
        recipe = {**cls.recipe, **cls.variant_recipes().get(variant, {}), **changes}
        return TrainConfig.from_dict(recipe)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.begun.device

    @property
    def inference_device(self) -> str | None:
        """Where the last batch was run in evaluation mode: "cuda:0", "cpu", ...; None before."""
        return self._ran_on

    def begin_epoch(self, epoch: int) -> None:
        """Has `epoch_begins` run unless this epoch began before it was interrupted."""
        if int(self.begun) != epoch:
            self.epoch_begins(epoch)
            self.begun.fill_(epoch)

    def forward(self, *inputs: Any) -> Tensor:
        """Gives logits [B, C].

        In evaluation, inputs that do not fit the device, or work on them that does not, go to the
        host: the weights are copied there for the one call.
        """
        device = self.device
        there = _device_of(inputs, device)
        if self.training:
            return self.logits(*inputs)
        if there == device and self._on_host != str(device):
            try:
                found = self.logits(*inputs)
                self._ran_on = str(device)
                return found
            except torch.OutOfMemoryError:
                if device.type != "cuda":
                    raise
                self._on_host = str(device)  # and does not try again
            torch.cuda.empty_cache()
        return self._run_on_host(inputs)

    def _run_on_host(self, inputs: tuple[Any, ...]) -> Tensor:
        state = {name: tensor.cpu() for name, tensor in self.state_dict().items()}
        moved = tuple(part.to("cpu") for part in inputs)
        remembered = self._on_host
        self._on_host = None
        try:
            found: Tensor = functional_call(self, state, moved)
        finally:
            self._on_host = remembered
        return found

    # ---- files ---------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes config.json and model.safetensors; `dhilgt.baselines.load` reads them."""
        from dhilgt.baselines.registry import name_of

        name = name_of(type(self))
        config = BaselineConfig(name, self.settings.to_dict(), *self.shape, self.seed)
        save_model(config, self.state_dict(), folder, ARCHITECTURE)


ARCHITECTURE = "baseline"


@dataclass(frozen=True)
class BaselineConfig:
    """What a saved baseline says about itself."""

    system: str
    settings: dict[str, Any]
    in_channels: int
    out_channels: int
    num_nodes: int
    seed: int

    @property
    def shape(self) -> Shape:
        """Sizes of the graph it was made for."""
        return Shape(self.in_channels, self.out_channels, self.num_nodes)

    def to_dict(self) -> dict[str, Any]:
        """Gives plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BaselineConfig:
        """Gives the config that `to_dict` wrote."""
        try:
            config = cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error
        whole = (*config.shape, config.seed)
        if not isinstance(config.settings, dict) or not all(isinstance(n, int) for n in whole):
            raise ValueError("settings, sizes or seed are not of the right type")
        return config


def _device_of(inputs: tuple[Any, ...], otherwise: torch.device) -> torch.device:
    for part in inputs:
        found = getattr(part, "device", None)
        if isinstance(found, torch.device):
            return found
    return otherwise


class GraphBaseline(Baseline):
    """A model over a graph: the whole one, or random blocks of it in training.

    `logits(x, ..., rows)` gets the features of all nodes in sight, what `graph_inputs` gives, and
    the places of the nodes that are asked for. Scores are made on the whole graph.

    The settings need a field ``batch_size``: the most nodes of a block, None for the whole graph.
    """

    def _prepare(self, graph: Graph) -> None:
        self._clean = self.clean(graph)
        self._x = self.features(graph)
        self._whole: tuple[Kept, ...] = tuple(
            Kept(part) for part in (self._x, *self.graph_inputs(self._clean))
        )

    def clean(self, graph: Graph) -> CleanGraph:
        """Gives the edges to work on: both directions, one loop per node."""
        return CleanGraph.of(graph)

    def features(self, graph: Graph) -> Tensor:
        """Gives the features, [n, F0]."""
        return dense_features(graph)

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Gives what `logits` gets besides features: by default Â = D^-1/2 (A + I) D^-1/2."""
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
    """A model whose batches follow from their nodes alone: `_inputs(nodes, key)` makes one.

    The settings need a field ``batch_size``: nodes per batch, None for all at once.

    Attributes:
        draws: Whether `_inputs` draws by its key; otherwise a batch of the same nodes is the same.
        may_stay: Whether inputs that do not fit the device may stay on the host in evaluation.
    """

    draws: ClassVar[bool] = False
    may_stay: ClassVar[bool] = True

    @abstractmethod
    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        """Gives what `logits` gets for some nodes; all draws come from the key."""

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
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        # The same draws each time: scores of two epochs differ by the weights alone.
        return NodeLoader(
            self._inputs,
            nodes,
            labels,
            batch_size=self._batch_size(),
            fixed=True,
            may_stay=self.may_stay,
        )

    def _batch_size(self) -> int | None:
        size: int | None = getattr(self.settings, "batch_size", None)
        return size


class TokenBaseline(NodeBaseline):
    """A model over fixed rows per node, made once; no graph is needed after that.

    `logits` gets the rows of a batch's nodes, one input for each tensor that `tokens` gives.
    """

    may_stay: ClassVar[bool] = False

    @abstractmethod
    def tokens(self, graph: Graph) -> tuple[Tensor, ...]:
        """Gives one or more tensors on the host, [n, ...] each."""

    def _prepare(self, graph: Graph) -> None:
        self._stores = tuple(RowStore(rows) for rows in self.tokens(graph))

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        return tuple(store.rows(nodes) for store in self._stores)
