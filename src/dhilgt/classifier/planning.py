"""Estimates of the memory, disk and time of a training run, from short trials on this machine."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ConfigError, argument
from dhilgt.features.ego_estimate import EgoEstimate, estimate_ego_rows
from dhilgt.features.from_graph import num_copies
from dhilgt.features.projection import is_projected, projected_width
from dhilgt.features.scale import AUTO, NONE, FeatureScale, check_scalable
from dhilgt.graph.graph import Graph
from dhilgt.labels.orders import node_order
from dhilgt.labels.radius import AUTO as RADIUS_AUTO
from dhilgt.labels.radius import radius_choices
from dhilgt.labels.sizes import LabelEstimate, estimate
from dhilgt.settings.settings import Settings
from dhilgt.tokens.store import TokenLayout
from dhilgt.utils.memory import format_bytes, memory_limit

_LABEL_DISK_BYTES = 2.5  # per entry, packed; 1.2 to 2.2 on the benchmark graphs
_SAMPLER_BYTES = 8.0  # per entry: holders by hub, decoded labels
_ADAM_COPIES = 4  # weights, gradients, two moments
_SAVED_COPIES = 4 * 2 + 2  # two checkpoints of weights, best ones and moments; both once more
_NODE_BYTES = 8 + 3 + 8  # label, masks, id
_MARGIN = 1.25  # for what allocators keep
_VECTOR_SECONDS = {"cpu": 5e-9, "cuda": 5e-11}  # of a step, per number of the learned vectors
_EDGE_BYTES = 2 * (8 + 4)  # of an entry of the adjacency matrix: two copies while one is made
_LATER_BYTES = 96 << 20  # modules and buffers that only a run has

_NO_LABELS = LabelEstimate(0, 0, 0, 0, 0.0)

_LONG_SECONDS = 300  # a longer run is announced
_WORTH = 0.7  # what is announced as faster takes at most this fraction of the time
_SLOW_FLOPS = 5e9  # a second, on a slow machine
_SLOW_GPU_FLOPS = 1e12  # likewise
_SLOW_TEST_SECONDS = 5e-9  # of a label entry against another
_FEW_NODES = 3000  # any labels of so few are quick


@dataclass(frozen=True)
class StagePlan:
    """One stage of a run.

    Attributes:
        name: labels, tokens, training or prediction; inputs, where neighbours, hubs or classes are.
        seconds: How long it takes.
        ram_bytes: Peak memory of the process.
        disk_bytes: Size of the files it leaves on disk.
        gpu_bytes: Peak memory of the GPU; 0 without one.
        sure: How far the numbers can be off, in words.
    """

    name: str
    seconds: float
    ram_bytes: int
    disk_bytes: int
    gpu_bytes: int
    sure: str


@dataclass(frozen=True)
class Plan:
    """The predicted cost of a run, stage by stage.

    Attributes:
        stages: In the order they run.
        num_parameters: Numbers in the model.
        num_train: Nodes to train on.
        device: "cpu" or "cuda:0".
        radius: Largest distance of a hub in the labels; None for all hubs.
    """

    stages: tuple[StagePlan, ...]
    num_parameters: int
    num_train: int
    device: str
    radius: int | None = None

    @property
    def ram_bytes(self) -> int:
        """Peak memory of the process over the run."""
        return max(stage.ram_bytes for stage in self.stages)

    @property
    def disk_bytes(self) -> int:
        """Size of all files the run leaves on disk."""
        return sum(stage.disk_bytes for stage in self.stages)

    @property
    def gpu_bytes(self) -> int:
        """Peak memory of the GPU over the run."""
        return max(stage.gpu_bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Seconds the run takes at most."""
        return sum(stage.seconds for stage in self.stages)

    def stage(self, name: str) -> StagePlan:
        """Return the stage with a name."""
        return next(stage for stage in self.stages if stage.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            **asdict(self),
            "stages": [asdict(stage) for stage in self.stages],
            "ram_bytes": self.ram_bytes,
            "disk_bytes": self.disk_bytes,
            "gpu_bytes": self.gpu_bytes,
            "seconds": self.seconds,
        }

    def lines(self) -> list[tuple[str, ...]]:
        """Return a table: a heading, a line per stage, and the total."""
        rows: list[tuple[str, ...]] = [("stage", "time", "RAM", "disk", "GPU", "how sure")]
        whole = StagePlan(
            "all", self.seconds, self.ram_bytes, self.disk_bytes, self.gpu_bytes,
            "highest RAM and GPU, sum of time and disk",
        )  # fmt: skip
        for stage in (*self.stages, whole):
            gpu = format_bytes(stage.gpu_bytes) if stage.gpu_bytes else "-"
            disk = format_bytes(stage.disk_bytes) if stage.disk_bytes else "-"
            ram = format_bytes(stage.ram_bytes)
            rows.append((stage.name, format_seconds(stage.seconds), ram, disk, gpu, stage.sure))
        return rows


def plan(graph: Graph, settings: Settings) -> Plan:
    """Predict memory, disk and time of training on a graph; nothing is built.

    Sizes follow from the settings and from the label sizes of a few nodes, times from trials of
    about a second on this machine.

    Args:
        graph: The graph, with features and labels.
        settings: All settings.

    Raises:
        ConfigError: If the graph has no features or no labels, or the features cannot be scaled
            as the settings ask.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(500, 6, seed=1, num_features=8)
        >>> predicted = plan(graph, Settings(size=8, hidden_channels=16, epochs=2))
        >>> [stage.name for stage in predicted.stages]
        ['labels', 'tokens', 'training', 'prediction']
    """
    if graph.features is None or graph.labels is None:
        raise ConfigError("a plan needs features and labels; add them to the graph")
    check_scalable(graph.features, settings.feature_scale)
    # These need torch, which a command that only shows its help must not wait for.
    from dhilgt.classifier.trials import (
        GraphCost,
        MessageCost,
        measure_graph,
        measure_messages,
        measure_model,
    )
    from dhilgt.training import clock
    from dhilgt.utils.devices import choose_device

    n = graph.num_nodes
    device = choose_device(settings.device)
    copies = num_copies(settings.hops, settings.hop_kind)
    channels = projected_width(graph.features.shape[1], settings.hop_channels) * copies
    has_tokens = settings.num_layers > 0
    fresh = settings.fresh or not has_tokens  # nothing is stored
    order, labels, cost = None, _NO_LABELS, GraphCost(0.0, 0.0, 0.0)
    if has_tokens or settings.hub_inputs:
        order = node_order(graph, settings.order, settings.seed)
        labels = planned_labels(graph, settings, order)
        cost = measure_graph(graph, labels, order, settings)
    ego = _ego_estimate(graph, settings, labels)
    table = (0, 0) if ego is None else (ego.num_channels, ego.num_groups)
    config = settings.model_config(channels, max(2, graph.num_classes), *table)
    size = settings.size if has_tokens else 1
    num_train, num_val = _part_sizes(graph, settings)
    batch = min(settings.batch_size if isinstance(settings.batch_size, int) else 1024, num_train)
    model = measure_model(
        config,
        size,
        device,
        0 if ego is None else ego.num_entries / n,
        batch=batch,
        distinct=min(n, batch * size) / batch,
        row_entries=None if settings.hops else _mean_width(graph),
    )
    messages = MessageCost(0.0, 0.0, 0)
    if settings.message_layers:
        messages = measure_messages(config, graph, _mean_width(graph) * copies, device)
    rows = _token_plan(graph, settings)

    in_use = max(clock.host_peak_bytes(), _graph_bytes(graph))  # by now: libraries and the graph
    feature_bytes = _made_feature_bytes(graph, settings, copies)
    weights = 4 * model.num_parameters
    step_bytes = int(batch * (model.saved_bytes + _batch_bytes(size, channels)) * _MARGIN)
    if settings.message_layers:  # all nodes in every step; their features and edges on the device
        edge_bytes = _EDGE_BYTES * graph.num_edges * (2 if graph.directed else 1)
        step_bytes += int(messages.saved_bytes * _MARGIN) + _feature_bytes(graph) * copies
        step_bytes += edge_bytes
    label_bytes = labels.num_bytes
    token_bytes = 0 if fresh else rows.row_bytes * rows.num_rows
    sampler_bytes = label_bytes + int(_SAMPLER_BYTES * labels.num_entries)
    feature_bytes += 0 if ego is None else ego.num_bytes
    shard_bytes = 3 * min(rows.shard_rows, rows.num_rows) * rows.row_bytes
    on_gpu = device.type == "cuda"
    inputs = token_bytes  # mapped files count as memory too
    if settings.fresh and has_tokens:
        inputs = sampler_bytes
    elif settings.hub_inputs:
        inputs += label_bytes
    at_work = inputs + feature_bytes + (0 if on_gpu else step_bytes + _ADAM_COPIES * weights)
    # A GPU keeps features and rows where they take less than half of it.
    gpu = step_bytes + _ADAM_COPIES * weights + token_bytes + feature_bytes if on_gpu else 0
    visits = settings.epochs * (num_train * model.train_seconds)
    visits += settings.epochs / settings.eval_every * num_val * model.score_seconds
    # The optimizer changes every vector in every step.
    of_step = _VECTOR_SECONDS["cuda" if on_gpu else "cpu"] * table[0] * settings.hidden_channels
    score_steps = 1 if not has_tokens else -(-num_val // batch)
    visits += settings.epochs * -(-num_train // batch) * (of_step + messages.train_seconds)
    visits += settings.epochs / settings.eval_every * score_steps * messages.score_seconds
    if settings.fresh and has_tokens:
        visits += settings.epochs * num_train * cost.row_seconds
    until = "all epochs" if settings.patience is None else "all epochs; often ends earlier"

    def ram(extra: float) -> int:
        return int(in_use + _LATER_BYTES + extra * _MARGIN)

    label_plan = StagePlan("labels", 0.0, ram(0), 0, 0, "not needed")
    if labels is not _NO_LABELS:
        label_plan = StagePlan(
            "labels",
            cost.label_seconds,
            ram(labels.peak_bytes),
            int(_LABEL_DISK_BYTES * labels.num_entries) + 24 * n,
            0,
            f"{_radius_words(labels, settings)}entries {_spread(labels)}, time within a factor "
            "of 2; none if cached",
        )
    token_plan = StagePlan("tokens", 0.0, ram(0), 0, 0, "not needed")
    if has_tokens:
        token_plan = StagePlan(
            "tokens",
            cost.sampler_seconds + (0 if fresh else rows.num_rows * cost.row_seconds),
            ram(sampler_bytes + (0 if fresh else shard_bytes)),
            token_bytes,
            0,
            "disk exact, time within a factor of 4; none if cached",
        )
    ego_plans = []
    if ego is not None:
        vectors = _ADAM_COPIES * 4 * ego.num_channels * settings.hidden_channels
        ego_plans.append(
            StagePlan(
                "inputs",
                ego.seconds,
                ram(label_bytes + ego.peak_bytes),
                0,
                0,
                f"{ego.summary}; rows {format_bytes(ego.num_bytes)}, vectors with gradient and "
                f"moments {format_bytes(vectors)}",
            )
        )
    return Plan(
        stages=(
            label_plan,
            token_plan,
            *ego_plans,
            StagePlan(
                "training",
                visits,
                ram(at_work),
                _graph_bytes(graph) + _NODE_BYTES * n + checkpoint_bytes(model.num_parameters),
                int(gpu * _MARGIN),
                f"{until}, time within a factor of 2",
            ),
            StagePlan(
                "prediction",
                n * (settings.copies if has_tokens else 1) * model.score_seconds
                + (-(-n // batch) if has_tokens else 1) * messages.score_seconds,
                ram(at_work + 8 * n * max(2, graph.num_classes)),
                0,
                int(gpu * _MARGIN),
                "time within a factor of 2",
            ),
        ),
        num_parameters=model.num_parameters,
        num_train=num_train,
        device=str(device),
        radius=labels.radius,
    )


def planned_labels(graph: Graph, settings: Settings, order: NDArray[np.uint32]) -> LabelEstimate:
    """Predict the labels that a run will have, with the radius that "auto" chooses.

    Args:
        graph: The graph.
        settings: All settings.
        order: Nodes from most to least important.

    Raises:
        MemoryLimitError: If "auto" finds no radius that fits.
    """
    if isinstance(settings.radius, int):
        return estimate(graph, order=order, radius=settings.radius)
    full = estimate(graph, order=order)
    chosen = radius_choices(graph, order, memory_limit(None), predicted=full)[0]
    return full.within(chosen.radius)


def long_run(graph: Graph, settings: Settings) -> str | None:
    """Return a sentence about a run of more than a few minutes, with what would be faster.

    Args:
        graph: The graph, with features, labels and the split.
        settings: All settings.

    Returns:
        None for a shorter run. One that is short on any machine is known from its size; for others
        this takes some seconds.
    """
    if _surely_short(graph, settings):
        return None
    costs = plan(graph, settings)
    limited = settings.max_seconds or math.inf
    training = min(costs.stage("training").seconds, limited)
    before = costs.stage("labels").seconds + costs.stage("tokens").seconds
    total = before + training + costs.stage("prediction").seconds
    if total < _LONG_SECONDS:
        return None
    ways = _faster_labels(graph, settings) if before > training else []
    if training >= before:
        fewer = max(1, settings.epochs // 4)
        ways = [] if costs.device.startswith("cuda") else ["a GPU"]
        ways.append(f"{argument('epochs', fewer)} (about {format_seconds(training / 4)})")
    faster = f"; faster: {', '.join(ways)}" if ways else ""
    return (
        f"this run takes up to about {format_seconds(total)}: labels and tokens "
        f"{format_seconds(before)} (none if cached), training {format_seconds(training)} on "
        f"{costs.device}{faster}"
    )


def _surely_short(graph: Graph, settings: Settings) -> bool:
    """Return whether a run is short even on a slow machine."""
    from dhilgt.utils.devices import choose_device

    num_train, _ = _part_sizes(graph, settings)
    per_epoch = num_train
    if settings.max_batches is not None and isinstance(settings.batch_size, int):
        per_epoch = min(num_train, settings.max_batches * settings.batch_size)
    hidden, size = settings.hidden_channels, settings.size
    per_ego = 6.0 * settings.num_layers * (12 * size * hidden**2 + 4 * size**2 * hidden)
    if settings.num_layers == 0:
        per_ego = 6 * hidden * (_mean_width(graph) * num_copies(settings.hops, settings.hop_kind))
    if settings.message_layers:  # of a step, shared out among its egos
        of_step = 6.0 * graph.num_nodes * hidden * (_mean_width(graph) + 2 * hidden)
        batch = settings.batch_size if isinstance(settings.batch_size, int) else 1024
        per_ego += settings.message_layers * of_step / min(batch, num_train)
    on_gpu = choose_device(settings.device).type == "cuda"
    flops = _SLOW_GPU_FLOPS if on_gpu else _SLOW_FLOPS
    if settings.epochs * per_epoch * per_ego > _LONG_SECONDS * flops:
        return False
    if graph.num_nodes <= _FEW_NODES or not (settings.num_layers or settings.hub_inputs):
        return True
    order = node_order(graph, settings.order, settings.seed)
    entries = planned_labels(graph, settings, order).num_entries
    return entries**2 / graph.num_nodes * _SLOW_TEST_SECONDS < _LONG_SECONDS / 2


def _faster_labels(graph: Graph, settings: Settings) -> list[str]:
    """Return orders of the nodes that make labels much smaller, as probed on this graph."""
    order = node_order(graph, settings.order, settings.seed)
    predicted = planned_labels(graph, settings, order)
    now, end = predicted.num_entries, predicted.radius
    ways = []
    for name in ("degree", "closeness", "core"):
        order = node_order(graph, name, settings.seed)
        entries = estimate(graph, order=order, radius=end).num_entries
        if name != settings.order and entries < _WORTH * now:
            ways.append(f"{argument('order', name)} (about {entries / now:.0%} of the labels)")
    return ways


def format_seconds(seconds: float) -> str:
    """Return a time in words.

    Example:
        >>> [format_seconds(s) for s in (0.01, 5.2, 75, 7300, 200000)]
        ['under 1 s', '5 s', '1 min 15 s', '2 h 1 min', '2 d 7 h']
    """
    if seconds < 1:
        return "under 1 s"
    whole = round(seconds)
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {part}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def checkpoint_bytes(num_parameters: int) -> int:
    """Return the bytes that the checkpoints of a training take.

    Example:
        >>> checkpoint_bytes(1000)
        40000
    """
    return _SAVED_COPIES * 4 * num_parameters


def _radius_words(labels: LabelEstimate, settings: Settings) -> str:
    """Return what the labels leave out, and why."""
    if labels.radius is None:
        return ""
    why = "; all hubs do not fit the memory" if settings.radius == RADIUS_AUTO else ""
    return f"hubs within a radius of {labels.radius}{why}; "


def _spread(labels: LabelEstimate) -> str:
    return f"± {100 * labels.relative_error:.0f} %"


def _token_plan(graph: Graph, settings: Settings) -> TokenLayout:
    from dhilgt.tokens.spec import TokenSpec

    return TokenLayout(
        spec=TokenSpec(**settings.token_options()),
        copies=settings.copies,
        bits=8,
        directed=graph.directed,
        num_nodes=graph.num_nodes,
        num_egos=graph.num_nodes,
        graph_fingerprint="",
        labels_fingerprint="",
    )


def _part_sizes(graph: Graph, settings: Settings) -> tuple[int, int]:
    """Return the number of training nodes and of validation nodes."""
    masks = graph.masks or {}
    assert graph.labels is not None
    known = int((graph.labels >= 0).sum())
    if "train" in masks:
        train = int(np.count_nonzero(masks["train"]))
        if "val" in masks:
            return train, int(np.count_nonzero(masks["val"]))
        known = train
    held_out = round(settings.validation * known)
    return max(1, known - held_out), held_out


def _feature_bytes(graph: Graph) -> int:
    x = graph.features
    return int(x.data.nbytes + 8 * len(x.indices)) if hasattr(x, "indptr") else int(x.nbytes)


def _made_feature_bytes(graph: Graph, settings: Settings, copies: int) -> int:
    """Return the bytes of the features that are made beside the graph's own."""
    scaled = _scaled_copies(graph, settings, copies)
    if not is_projected(graph.features, settings.hop_channels):
        hop_copies = copies - 1 if copies > 1 else min(settings.hops, 1)
        return _feature_bytes(graph) * (hop_copies + scaled)
    # Dense, whatever the features are; with "auto" it is those that are scaled, before.
    width = projected_width(graph.features.shape[1], settings.hop_channels)
    before, after = (scaled, 0) if settings.feature_scale == AUTO else (0, scaled)
    block = 4 * graph.num_nodes * width  # of one round, held beside the result
    weights = 4 * graph.features.shape[1] * width
    return int(_feature_bytes(graph) * before + block * (copies + after + 1) + weights)


def _scaled_copies(graph: Graph, settings: Settings, hop_copies: int) -> int:
    """Return how many times the graph's features the scaled ones take."""
    if settings.feature_scale == AUTO:  # before the hops
        return int(len(FeatureScale.fit(graph.features, AUTO).columns) > 0)
    return 0 if settings.feature_scale == NONE else hop_copies


def _mean_width(graph: Graph) -> float:
    """Return the entries of a row of the features."""
    x = graph.features
    return float(x.nnz / len(x.indptr) if hasattr(x, "indptr") else x.shape[1])


def _graph_bytes(graph: Graph) -> int:
    return int(graph.offsets.nbytes + graph.targets.nbytes + _feature_bytes(graph))


def _batch_bytes(size: int, channels: int) -> int:
    """Return the bytes of one ego's inputs (features of its slots, distances, ids), held twice."""
    return 2 * (4 * size * channels + size**2 + 8 * size)


def _ego_estimate(graph: Graph, settings: Settings, labels: LabelEstimate) -> EgoEstimate | None:
    """Return the size of the rows of neighbours, hubs and classes; None where none are inputs."""
    if not (settings.neighbor_inputs or settings.hub_inputs or settings.class_inputs):
        return None
    found = estimate_ego_rows(
        graph,
        labels.num_entries,
        neighbors=settings.neighbor_inputs,
        hubs=settings.hub_inputs,
        num_classes=max(2, graph.num_classes) if settings.class_inputs else 0,
        table_rows=settings.table_rows,
    )
    return found if found.num_channels else None
