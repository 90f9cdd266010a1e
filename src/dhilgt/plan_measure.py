"""Short trials on this machine: what a training step, labels and rows cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from dhilgt.generate import generate
from dhilgt.labels import HubLabels
from dhilgt.model import DHILGT
from dhilgt.model_config import DHILGTConfig
from dhilgt.settings import Settings
from dhilgt.token_sampler import TokenSampler

_TRIAL_NODES = 2000
_TRIAL_ROWS = 512
_TRIAL_EGOS = 32
_MOST_CHANNELS = 4096  # wider features are tried at this width: time is not theirs


@dataclass(frozen=True)
class ModelCost:
    """What the model costs per ego.

    Attributes:
        num_parameters: Numbers in the model.
        train_seconds: A training step, per ego.
        score_seconds: A prediction, per ego.
        saved_bytes: Memory that a step keeps for its way back, per ego.
    """

    num_parameters: int
    train_seconds: float
    score_seconds: float
    saved_bytes: int


@dataclass(frozen=True)
class GraphCost:
    """What labels and token rows cost.

    Attributes:
        entry_seconds: Labels, per entry.
        row_seconds: A token row with its distances.
    """

    entry_seconds: float
    row_seconds: float


def measure_model(config: DHILGTConfig, size: int, device: torch.device) -> ModelCost:
    """Tries a few steps on random rows; takes a second or so.

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
        kept: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
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
    saved = sum(size for place, size in kept.items() if place not in weights)
    return ModelCost(
        num_parameters, seconds / _TRIAL_EGOS, scoring / _TRIAL_EGOS, saved // _TRIAL_EGOS
    )


def measure_graph(settings: Settings, degree: float, directed: bool) -> GraphCost:
    """Builds labels and rows of a small random graph.

    Args:
        settings: For the shape of rows and the threads.
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
    """Gives the faster of two calls; others may use the machine too."""
    assert callable(step)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times)
