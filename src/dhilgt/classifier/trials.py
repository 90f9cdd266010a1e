"""Short trials on this machine: what a training step, hub labels and token rows cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from dhilgt.graph.random_graphs import generate
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dhilgt import DHILGT
from dhilgt.settings.settings import Settings
from dhilgt.tokens.sampler import TokenSampler

_TRIAL_NODES = 2000
_TRIAL_ROWS = 512
_TRIAL_EGOS = 32
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
        entry_seconds: Of labels, per entry.
        row_seconds: Of a token row with its distances.
    """

    entry_seconds: float
    row_seconds: float


def measure_model(config: DHILGTConfig, size: int, device: torch.device) -> ModelCost:
    """Measure a few steps on random rows; takes about a second.

    Args:
        config: The model's settings.
        size: Slots of a row.
        device: Where it will be trained.

    Example:
        >>> config = DHILGTConfig(in_channels=8, hidden_channels=16, out_channels=3)
        >>> measure_model(config, 8, torch.device("cpu")).num_parameters > 1000
        True
    """
    with torch.device("meta"):
        num_parameters = sum(one.numel() for one in DHILGT(**config.to_dict()).parameters())
    width = min(config.in_channels, _MOST_CHANNELS)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        model = DHILGT(**{**config.to_dict(), "in_channels": width}).to(device)
        x = torch.randn(_TRIAL_EGOS * size, width, device=device)
        index = torch.arange(_TRIAL_EGOS * size, device=device).reshape(_TRIAL_EGOS, size)
        spd = torch.randint(0, 6, (_TRIAL_EGOS, size, size), device=device).to(torch.uint8)
        inputs = [x, index, spd]
        if config.label_inputs:
            inputs.append(torch.ones(len(x), dtype=torch.int32, device=device))
        labels = torch.zeros(_TRIAL_EGOS, dtype=torch.int64, device=device)
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
    return ModelCost(
        num_parameters, seconds / _TRIAL_EGOS, scoring / _TRIAL_EGOS, saved // _TRIAL_EGOS
    )


def measure_graph(settings: Settings, degree: float, directed: bool) -> GraphCost:
    """Measure the labels and rows of a small random graph.

    Args:
        settings: They have the shape of rows and the number of threads.
        degree: Average number of neighbours.
        directed: Whether edges have a direction.
    """
    graph = generate(_TRIAL_NODES, max(1.0, min(degree, 100.0)), seed=0, directed=directed)
    start = time.perf_counter()
    labels = HubLabels.build(graph, threads=settings.threads, progress=False)
    middle = time.perf_counter()
    sampler = TokenSampler(
        labels, threads=settings.threads, progress=False, **settings.token_options()
    )
    begin = time.perf_counter()
    sampler.packed_rows(np.arange(_TRIAL_ROWS))
    end = time.perf_counter()
    return GraphCost((middle - start) / labels.num_entries, (end - begin) / _TRIAL_ROWS)


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
