"""Batches of random rows, a model that takes steps on them, and their time and memory."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dhilgt.model.dhilgt import DHILGT
from dhilgt.model.kernels.packing import Room
from dhilgt.tokens.spec import NO_PATH, PADDING
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer

CHANNELS, CLASSES, NODES = 128, 10, 50_000
Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def draw_batch(
    device: torch.device,
    rows: int,
    slots: int,
    fill: float = 0.8,
    nodes: int = NODES,
    channels: int = CHANNELS,
) -> Batch:
    """Draws features, rows, distances from 1 to 7, and classes; the same ones every time.

    Rows are as tokens are: the ego first, padding at the end. They have from few nodes to all
    slots, drawn so that the mean is wanted.

    Args:
        device: Where it is wanted.
        rows: Number of rows.
        slots: Slots of a row.
        fill: Mean share of slots that hold a node.
        nodes: Distinct nodes.
        channels: Features of a node.

    Example:
        >>> _, index, _, _ = draw_batch(torch.device("cpu"), 1000, 20, fill=0.6, nodes=50)
        >>> 0.58 < float((index >= 0).double().mean()) < 0.62
        True
    """
    draw = torch.Generator(device).manual_seed(0)

    def whole(high: int, *shape: int, low: int = 0) -> Tensor:
        return torch.randint(low, high, shape, device=device, generator=draw)

    index = whole(nodes, rows, slots)
    index[:, 0] = torch.arange(rows, device=device) % nodes
    # Half of the missing share at either side of the mean: a whole row at most, the ego at least.
    least = max(1.0, slots * (2 * fill - 1))
    spread = torch.rand(rows, device=device, generator=draw)
    lengths = (least + spread * (2 * (slots * fill - least))).round().clamp(1, slots)
    empty = torch.arange(slots, device=device) >= lengths[:, None]
    index[empty] = PADDING
    upper = whole(8, rows, slots, slots, low=1).triu(1)
    spd = (upper + upper.transpose(1, 2)).to(torch.uint8)
    spd[empty[:, :, None] | empty[:, None, :]] = NO_PATH
    x = torch.randn(nodes, channels, device=device, generator=draw)
    return x, index, spd, whole(CLASSES, rows)


class Step:
    """A model with its optimizer, and what it does with a batch.

    Args:
        path: "reference", "sdpa" or "fused".
        precision: "fp32" or "bf16".
        batch: What it works on.
        width: Channels.
        recompute: See `DHILGT.recompute`.
        packing: See `DHILGT.packing`.
        layers: Transformer layers.
    """

    def __init__(
        self,
        path: str,
        precision: str,
        batch: Batch,
        width: int,
        recompute: bool = False,
        packing: str = "auto",
        layers: int = 4,
    ) -> None:
        self.device, self.precision, self.batch = batch[1].device, precision, batch
        self.filled = int((batch[1] != PADDING).sum())  # as a loader knows it
        torch.manual_seed(0)
        model = DHILGT(batch[0].shape[1], width, CLASSES, num_layers=layers, attention=path)
        self.model = model.to(self.device)
        self.model.recompute, self.model.packing = recompute, packing
        self.optimizer = build_optimizer(self.model, TrainConfig())
        self.records = path == "fused" and self.device.type == "cuda"
        if self.records:
            from dhilgt.model.kernels.cuda_graphs import ForwardGraphs, StepGraphs

            self._steps = StepGraphs(self.model, self.optimizer, None, self.context)
            self._forward = ForwardGraphs(self.model, self.context)

    def context(self) -> Any:
        """Gives the context of a forward pass."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def train(self) -> None:
        """Takes a training step, kernel by kernel."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        with self.context():
            logits = self.model(*self.batch[:3], room=self._room())
        cross_entropy(logits.float(), self.batch[3]).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def infer(self) -> None:
        """Gives logits, kernel by kernel."""
        self.model.eval()
        with torch.inference_mode(), self.context():
            self.model(*self.batch[:3], room=self._room())

    def train_graph(self) -> None:
        """Takes a training step as the trainer does: as a CUDA graph."""
        self.model.train()
        if self._steps.step(self.batch[:3], self.batch[3], self.filled) is None:
            raise RuntimeError("the step was not recorded")

    def infer_graph(self) -> None:
        """Gives logits as the trainer does: as a CUDA graph."""
        self.model.eval()
        self._forward(*self.batch[:3], filled=self.filled)

    def _room(self) -> Room:
        return self.model.batch_room(self.batch[1], self.filled)


_WARM = 3


def milliseconds(work: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """Gives the median time of a call, after some to warm up; on a GPU by its own clock.

    Args:
        work: What is timed.
        device: Where it runs.
        repeats: Calls that are timed.

    Example:
        >>> milliseconds(lambda: sum(range(10)), torch.device("cpu"), 3) < 1000
        True
    """
    for _ in range(_WARM if device.type == "cuda" else 1):
        work()
    found: list[float] = []
    for _ in range(repeats):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            work()
            end.record()
            end.synchronize()
            found.append(float(start.elapsed_time(end)))
        else:
            began = time.perf_counter()
            work()
            found.append(1000 * (time.perf_counter() - began))
    return statistics.median(found)


def timed(
    work: Callable[[], Any], device: torch.device, repeats: int
) -> tuple[float, float | None]:
    """Gives the time of a call, and the most GiB that it took beside what was held before.

    Args:
        work: What is timed.
        device: Where it runs.
        repeats: Calls that are timed.
    """
    if device.type != "cuda":  # what a process on the host takes cannot be told apart
        return milliseconds(work, device, repeats), None
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    taken = milliseconds(work, device, repeats)
    return taken, (torch.cuda.max_memory_allocated(device) - held) / 2**30


def machine(device: torch.device) -> dict[str, Any]:
    """Gives what figures depend on: the device and the versions.

    Args:
        device: Where figures come from.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return {"device": name, "torch": torch.__version__, "threads": torch.get_num_threads()}
