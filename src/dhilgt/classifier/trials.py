"""Short trials on this machine: what a training step, hub labels and token rows cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from dhilgt.features.adjacency import adjacency
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.sizes import LabelEstimate
from dhilgt.labels.trial import try_build
from dhilgt.loader.feature_rows import open_features
from dhilgt.loader.whole_graph import open_adjacency
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dhilgt import DHILGT
from dhilgt.settings.settings import Settings
from dhilgt.tokens.sampler import TokenSampler

_TRIAL_SECONDS = 1.0
_TRIAL_NODES = 2000
_TRIAL_CYCLE = 600
_TRIAL_ROWS = 256
_OUT_OF_CACHE = 2  # a row of labels that are too large for the cache takes longer; on ogbn-arxiv 3
_ENTRY_SECONDS = 2e-7  # of labels, where even the first entries take long
_TRIAL_EGOS = 32
_LARGER = 8  # times as many in the next trial, while a step is short
_LONG_STEP = 0.02  # seconds
_TRIAL_GRAPH_NODES = 20_000
_SPARSE = 0.5  # fraction of entries below which features are tried as sparse ones
_MOST_CHANNELS = 4096  # wider features are tried at this width; they hardly add time


@dataclass(frozen=True)
class ModelCost:
    """The cost of the model per ego.

    Attributes:
        num_parameters: Numbers in the model.
        train_seconds: Of a training step, per ego.
        score_seconds: Of a prediction, per ego.
        saved_bytes: Memory that a step keeps for the backward pass, per ego.
    """

    num_parameters: int
    train_seconds: float
    score_seconds: float
    saved_bytes: int


@dataclass(frozen=True)
class GraphCost:
    """The cost of labels and token rows.

    Attributes:
        label_seconds: Of all labels.
        sampler_seconds: Of preparing to draw rows.
        row_seconds: Of a token row with its distances.
    """

    label_seconds: float
    sampler_seconds: float
    row_seconds: float


@dataclass(frozen=True)
class MessageCost:
    """The cost of message passing over the whole graph, in a step of any number of egos.

    Attributes:
        train_seconds: Of a training step.
        score_seconds: Of a prediction.
        saved_bytes: Memory that a step keeps for the backward pass.
    """

    train_seconds: float
    score_seconds: float
    saved_bytes: int


def measure_messages(
    config: DHILGTConfig, graph: Graph, row_entries: float, device: torch.device
) -> MessageCost:
    """Measure a few steps on a random graph of the same degree; takes about a second.

    Args:
        config: The model's settings.
        graph: The graph; edges of a directed one count in both directions.
        row_entries: Entries of a row of the features that are not 0.
        device: Where it will be trained.

    Example:
        >>> config = DHILGTConfig(
        ...     in_channels=8, hidden_channels=16, out_channels=3, message_layers=2
        ... )
        >>> graph = Graph.from_edges([0, 1], [1, 2])
        >>> measure_messages(config, graph, 8, torch.device("cpu")).saved_bytes > 0
        True
    """
    num_nodes = graph.num_nodes
    count = max(2, min(num_nodes, _TRIAL_GRAPH_NODES))
    num_edges = graph.num_edges * (2 if graph.directed else 1)
    drawn = np.random.default_rng(0).integers(0, count, (2, max(1, num_edges * count // num_nodes)))
    with warnings.catch_warnings():  # of loops and repeats
        warnings.simplefilter("ignore")
        trial = Graph.from_edges(*drawn, num_nodes=count)
    weights = open_adjacency(adjacency(trial), count).to(device).whole()
    width = min(config.in_channels, _MOST_CHANNELS)
    changed = {"in_channels": width, "num_layers": 0, "ego_channels": 0, "ego_groups": 0}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        model = DHILGT(**{**config.to_dict(), **changed}).to(device)
        if row_entries < _SPARSE * width:
            x = _random_rows(count, width, row_entries * count).to(device)
        else:
            x = torch.randn(count, width, device=device)
        egos = torch.zeros(_TRIAL_EGOS, 1, dtype=torch.int64, device=device)
        spd = torch.zeros(_TRIAL_EGOS, 1, 1, dtype=torch.uint8, device=device)
        inputs = x, egos, spd, None, None, weights
        seconds, scoring, saved = _measured(model, inputs, device)
    times = num_nodes / count
    return MessageCost(seconds * times, scoring * times, int(saved * times))


def measure_model(
    config: DHILGTConfig,
    size: int,
    device: torch.device,
    ego_entries: float = 0.0,
    *,
    batch: int = 1024,
    distinct: float | None = None,
    row_entries: float | None = None,
) -> ModelCost:
    """Measure a few steps on random rows; takes about a second.

    Small models spend most of a small step on what a step costs whatever its size: the trial grows
    until a step is long, or as large as those of the training.

    Args:
        config: The model's settings.
        size: Slots of a row.
        device: Where it will be trained.
        ego_entries: With `ego_channels`, entries in the rows of an ego on average.
        batch: Egos of a step of the training.
        distinct: Distinct nodes in a batch, by ego; `size` if None.
        row_entries: Entries of a row of the features that are not 0; None for all.

    Example:
        >>> config = DHILGTConfig(in_channels=8, hidden_channels=16, out_channels=3)
        >>> measure_model(config, 8, torch.device("cpu")).num_parameters > 1000
        True
    """
    with torch.device("meta"):
        num_parameters = sum(one.numel() for one in DHILGT(**config.to_dict()).parameters())
    width = min(config.in_channels, _MOST_CHANNELS)
    egos = min(_TRIAL_EGOS, batch)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        narrow = {"in_channels": width, "message_layers": 0}  # see `measure_messages`
        if config.ego_channels:
            narrow["ego_channels"] = min(config.ego_channels, _MOST_CHANNELS)
        model = DHILGT(**{**config.to_dict(), **narrow}).to(device)
        while True:
            nodes = max(1, round(egos * (size if distinct is None else distinct)))
            inputs = _trial_inputs(model.config, egos, size, nodes, row_entries, ego_entries)
            on_device = [None if one is None else one.to(device) for one in inputs]
            seconds, scoring, saved = _measured(model.train(), on_device, device)
            if seconds > _LONG_STEP or egos >= batch:
                break
            egos = min(batch, _LARGER * egos)
    return ModelCost(num_parameters, seconds / egos, scoring / egos, saved // egos)


def _trial_inputs(
    config: DHILGTConfig,
    egos: int,
    size: int,
    nodes: int,
    row_entries: float | None,
    ego_entries: float,
) -> list[torch.Tensor | None]:
    """Return a random batch; entries are those of a node's features and of an ego's rows."""
    width = config.in_channels
    if row_entries is not None and row_entries < _SPARSE * width:
        x = _random_rows(nodes, width, row_entries * nodes)
    else:
        x = torch.randn(nodes, width)
    index = (torch.arange(egos * size) % nodes).reshape(egos, size)
    inputs = [x, index, torch.randint(0, 6, (egos, size, size)).to(torch.uint8)]
    known = torch.ones(nodes, dtype=torch.int32) if config.label_inputs else None
    rows = None
    if config.ego_channels:
        rows = _random_rows(egos * config.ego_groups, config.ego_channels, ego_entries * egos)
    return [*inputs, known, rows]


def _measured(
    model: DHILGT, inputs: Sequence[torch.Tensor | None], device: torch.device
) -> tuple[float, float, int]:
    """Return the seconds of a training step and of a prediction, and the bytes a step keeps."""
    index = inputs[1]
    assert index is not None, "every model takes it"
    labels = torch.zeros(len(index), dtype=torch.int64, device=device)
    saved_storages: dict[int, int] = {}  # bytes by address

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved_storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def step() -> None:
        F.cross_entropy(model(*inputs), labels).backward()  # type: ignore[no-untyped-call]

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    seconds = _seconds(step, device)
    model.eval()
    with torch.inference_mode():
        scoring = _seconds(lambda: model(*inputs), device)
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    saved = sum(count for place, count in saved_storages.items() if place not in weights)
    return seconds, scoring, saved


def _random_rows(count: int, channels: int, entries: float) -> torch.Tensor:
    """Return sparse rows with about as many entries in all."""
    import scipy.sparse

    length = max(1, round(entries / count))
    columns = np.random.default_rng(0).integers(0, channels, count * length)
    parts = np.ones(len(columns), np.float32), columns, np.arange(count + 1) * length
    rows = scipy.sparse.csr_array(parts, shape=(count, channels))
    return open_features(rows, count).take(np.arange(count)).build(lambda part: part)


def measure_graph(
    graph: Graph, labels: LabelEstimate, order: NDArray[np.uint32], settings: Settings
) -> GraphCost:
    """Measure a build of labels that is stopped after a second, and rows.

    Args:
        graph: The graph.
        labels: The predicted size of its labels.
        order: Nodes from most to least important.
        settings: They have the shape of rows and the number of threads.
    """
    trial = try_build(
        graph, labels.num_entries, order=order, threads=settings.threads,
        limit_seconds=_TRIAL_SECONDS, radius=labels.radius,
    )  # fmt: skip
    if trial.labels is not None and trial.seconds is not None:
        ready, row = _rows(trial.labels, settings)
        return GraphCost(trial.seconds, ready, row)
    # Too large to be tried: rows of small graphs of the same kind, in proportion to the labels.
    small = HubLabels.build(
        _small_graph(trial.deep), threads=settings.threads, progress=False,
        order="degree-id",  # on the cycle: its labels are long, as those of large deep graphs are
    )  # fmt: skip
    ready, row = _rows(small, settings)
    of_node = (labels.num_entries / graph.num_nodes) / (small.num_entries / small.num_nodes)
    of_all = labels.num_entries / small.num_entries
    if not trial.deep:
        of_node *= _OUT_OF_CACHE
    seconds = trial.seconds
    if seconds is None:
        seconds = labels.num_entries * _ENTRY_SECONDS
    return GraphCost(seconds, ready * of_all, row * of_node)


def _small_graph(deep: bool) -> Graph:
    """Return a graph with long distances, or with short ones: their labels differ in cost."""
    if deep:
        nodes = np.arange(_TRIAL_CYCLE)
        return Graph.from_edges(nodes, (nodes + 1) % _TRIAL_CYCLE, num_nodes=_TRIAL_CYCLE)
    ends = np.random.default_rng(0).integers(0, _TRIAL_NODES, (2, 4 * _TRIAL_NODES))
    with warnings.catch_warnings():  # of loops and repeats
        warnings.simplefilter("ignore")
        return Graph.from_edges(*ends, num_nodes=_TRIAL_NODES)


def _rows(labels: HubLabels, settings: Settings) -> tuple[float, float]:
    """Return the time to prepare the draw of rows, and the time of a row."""
    start = time.perf_counter()
    sampler = TokenSampler(
        labels, threads=settings.threads, progress=False, **settings.token_options()
    )
    ready = time.perf_counter() - start
    count = min(_TRIAL_ROWS, labels.num_nodes)
    nodes = np.linspace(0, labels.num_nodes - 1, count).astype(np.int64)
    sampler.packed_rows(nodes[:16])  # starts the threads
    start = time.perf_counter()
    sampler.packed_rows(nodes)
    return ready, (time.perf_counter() - start) / count


def _seconds(step: object, device: torch.device) -> float:
    """Return the seconds of the faster of two calls; other programs may use the machine too."""
    assert callable(step)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times)
