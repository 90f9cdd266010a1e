"""Whole steps as CUDA graphs, so that small batches do not wait for kernel launches.

A step is more than a hundred kernels; for a small batch, launching each one costs more than running
it. Batches of one shape run the same kernels at the same addresses, so they are recorded once and
replayed: forward, loss, backward, clipping and the optimizer in training, logits in evaluation.
Where rows are packed, a recorded step has room for batches of somewhat fewer rows. A recording that
fails leaves streams, generators and memory pools as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.errors import TrainingWarning, warn
from dhilgt.model.kernels.packing import Room, choose_room, packed_rows, room_for

# What ends the rerouting of memory into a graph's pool has no public name, and had two.
_ENDS = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")


@cache
def recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Gives the stream that steps are recorded on, which nothing else uses.

    PyTorch has 32 streams of each priority and hands them out in turn. Work that another thread
    puts on the stream of a recording becomes part of it or breaks it; hence one of the priority
    that loaders, and most other code, do not ask for.

    Args:
        device: A CUDA device.
    """
    stream: torch.cuda.Stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
    return stream


@contextlib.contextmanager
def recording(graph: torch.cuda.CUDAGraph, pool: Any, device: torch.device) -> Iterator[None]:
    """Records what is done inside; after a failure work goes on kernel by kernel.

    PyTorch lets a recording that broke leave its stream the current one, its generator drawing for
    a graph and memory coming from the graph's pool: the next dropout would raise.

    Args:
        graph: Takes the kernels.
        pool: Of `torch.cuda.graph_pool_handle`.
        device: Of the kernels.
    """
    generator = torch.cuda.default_generators[device.index]
    before = generator.clone_state()
    with torch.cuda.stream(torch.cuda.current_stream(device)):
        try:
            # A loader may be making the next batch in another thread.
            with torch.cuda.graph(
                graph, pool, recording_stream(device), capture_error_mode="thread_local"
            ):
                yield
        except BaseException:
            generator.graphsafe_set_state(before)
            _end_rerouting(pool, device)
            raise


def _end_rerouting(pool: Any, device: torch.device) -> None:
    for name in _ENDS:
        end = getattr(torch._C, name, None)
        if end is not None:
            with contextlib.suppress(RuntimeError):  # it was ended already
                end(device.index, pool)


MOST_SHAPES = 6
"""Shapes of batches that are recorded; others run step by step."""

_ROOM = 256  # rows of features are provided for in steps of this many
Inputs = tuple[Tensor, ...]  # x, index, spd and, with label inputs, known


class HeldInputs:
    """A batch's inputs at fixed addresses, with room for more rows of features.

    Args:
        inputs: x (dense or CSR), index, spd and maybe known of a batch, on the device.
    """

    def __init__(self, inputs: Inputs) -> None:
        x, index, spd, *known = inputs
        self.index, self.spd = torch.empty_like(index), torch.empty_like(spd)
        rows = _room(len(x), index.numel())
        if x.layout == torch.strided:
            self.x = x.new_zeros(rows, x.shape[1])
        else:
            stored = _room(len(x.col_indices()), 1 << 62)
            offsets = x.crow_indices().new_zeros(rows + 2)  # at least one row is never looked at
            columns = torch.arange(stored, device=x.device) % x.shape[1]
            columns = columns.to(x.col_indices().dtype)
            values = x.values().new_zeros(stored)
            shape = (rows + 1, x.shape[1])
            self.x = torch.sparse_csr_tensor(
                offsets, columns, values, size=shape, check_invariants=False
            )
        self.known = [one.new_zeros(len(self.x)) for one in known]
        self.put(inputs)

    def __call__(self) -> Inputs:
        """Gives the inputs."""
        return self.x, self.index, self.spd, *self.known

    def holds(self, x: Tensor) -> bool:
        """Says whether there is room for the rows of `x`."""
        if x.layout == torch.strided:
            return len(x) <= len(self.x)
        stored = len(self.x.col_indices())
        return len(x) < len(self.x) and len(x.col_indices()) <= stored

    def put(self, inputs: Inputs) -> None:
        """Takes a batch."""
        x, index, spd, *known = inputs
        if x.layout == torch.strided:
            # Rows behind these are those of an earlier batch; no slot points at them.
            self.x[: len(x)].copy_(x)
        else:
            stored = len(x.col_indices())
            offsets = self.x.crow_indices()
            offsets[: len(x) + 1].copy_(x.crow_indices())
            # Rows that no slot points at share the entries that are not needed: all of them in one
            # row would take longer than the others together.
            unused, left = len(self.x) - len(x), len(self.x.col_indices()) - stored
            steps = torch.arange(1, unused + 1, device=x.device)
            offsets[len(x) + 1 :].copy_(stored + steps * left // unused)
            self.x.col_indices()[:stored].copy_(x.col_indices())
            self.x.values()[:stored].copy_(x.values())
        self.index.copy_(index)
        self.spd.copy_(spd)
        for own, given in zip(self.known, known, strict=True):
            own[: len(given)].copy_(given)


def _room(count: int, most: int) -> int:
    # An eighth more than now: the number of distinct nodes varies from batch to batch.
    room = -(-count * 9 // (8 * _ROOM)) * _ROOM
    return max(count, min(room, most))


@dataclass(frozen=True)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    inputs: HeldInputs
    room: Room
    out: Tensor
    labels: Tensor | None = None


class _Wanted:
    """What a recorded step must be like to take a batch."""

    def __init__(self, model: nn.Module, inputs: Inputs, filled: int | None) -> None:
        self.inputs = inputs
        index = inputs[1]
        x = inputs[0]
        self.shape = (index.shape, index.dtype, x.dtype, x.layout)
        self.batch, slots = index.shape
        config = getattr(model, "config", None)
        self.slots = slots + getattr(config, "num_virtual", 0)
        packs = getattr(model, "attention_used", None) == "fused" and hasattr(model, "packing")
        self.rows = packed_rows(model, index, filled) if packs else None  # type: ignore[arg-type]

    def room(self) -> Room:
        """Gives the room that a step recorded for it has."""
        return choose_room(self.rows, self.batch, self.slots)

    def fits(self, held: _Recorded) -> bool:
        """Says whether a recorded step takes it."""
        return held.inputs.holds(self.inputs[0]) and held.room.holds(self.rows, self.slots)


class _Recorder:
    """What recording a training step and recording an evaluation have in common."""

    def __init__(self, model: nn.Module, context: Callable[[], Any]) -> None:
        self._model, self._context = model, context
        self._held: dict[tuple[Any, ...], list[_Recorded]] = {}
        self._given_up = False
        self._pool: Any = None

    def _found(self, wanted: _Wanted) -> _Recorded | None:
        """Gives the step with the least room that takes a batch."""
        fitting = [held for held in self._held.get(wanted.shape, ()) if wanted.fits(held)]
        return min(fitting, key=lambda held: held.room.rows or 0, default=None)

    def _keep(self, wanted: _Wanted, held: _Recorded) -> None:
        """Holds a new step; it replaces one of its room, whose table of features was too small."""
        others = self._held.get(wanted.shape, [])
        self._held[wanted.shape] = [old for old in others if old.room != held.room] + [held]

    def _is_full(self, wanted: _Wanted) -> bool:
        """Says whether no further step can be recorded beside those that are."""
        known = any(old.room == wanted.room() for old in self._held.get(wanted.shape, ()))
        return not known and sum(map(len, self._held.values())) >= MOST_SHAPES

    def _warmed_up(self, device: torch.device, work: Callable[[], Any]) -> None:
        """Has products and kernels choose their plans, without drawing random numbers for it."""
        beside = recording_stream(device)
        beside.wait_stream(torch.cuda.current_stream(device))
        with torch.random.fork_rng(devices=[device]), torch.cuda.stream(beside):
            for _ in range(2):
                work()
        torch.cuda.current_stream(device).wait_stream(beside)
        # What was set aside for single kernels is not needed any more.
        torch.cuda.empty_cache()

    def _recording(self, graph: torch.cuda.CUDAGraph, device: torch.device) -> Any:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return recording(graph, self._pool, device)  # all shapes share memory: no two run at once

    def _give_up(self, error: RuntimeError) -> None:
        self._given_up = True
        self._held.clear()
        warn(f"steps are not recorded as CUDA graphs: {error}", TrainingWarning)


class StepGraphs(_Recorder):
    """Replays training steps of batches whose shape it has seen.

    The optimizer must have taken a step before, so that its state exists, and must be able to run
    inside a graph (`dhilgt.schedule.build_optimizer` sees to it on CUDA).

    Args:
        model: Called with a batch's inputs.
        optimizer: Over the model's parameters; its rate is a tensor.
        clip_norm: Largest norm of all gradients; None for no limit.
        context: Gives the context of the forward pass: autocast, or one that does nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        context: Callable[[], Any],
    ) -> None:
        super().__init__(model, context)
        self._optimizer, self._clip_norm = optimizer, clip_norm
        self._parameters = [p for p in model.parameters() if p.requires_grad]

    def step(self, inputs: Inputs, labels: Tensor, filled: int | None = None) -> Tensor | None:
        """Takes a step and gives its loss, which the next step overwrites; None: not recorded.

        Args:
            inputs: x, index, spd and maybe known of a batch, on the device.
            labels: Classes of the egos.
            filled: Slots that hold a node, with all egos; found out if None, which waits for the
                device.
        """
        if self._given_up:
            return None
        wanted = _Wanted(self._model, inputs, filled)
        held = self._found(wanted)
        if held is None:
            if self._is_full(wanted):
                return None
            held = self._record(wanted, labels)
            if held is None:
                return None
            self._keep(wanted, held)
        assert held.labels is not None
        held.inputs.put(inputs)
        held.labels.copy_(labels)
        held.graph.replay()
        return held.out

    def _record(self, wanted: _Wanted, labels: Tensor) -> _Recorded | None:
        own, own_labels, room = HeldInputs(wanted.inputs), labels.clone(), wanted.room()

        def learn() -> None:
            self._optimizer.zero_grad(set_to_none=True)
            self._loss(own(), own_labels, room).backward()  # type: ignore[no-untyped-call]

        try:
            self._optimizer.zero_grad(set_to_none=True)
            self._warmed_up(labels.device, learn)
            self._optimizer.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            with self._recording(graph, labels.device):
                loss = self._loss(own(), own_labels, room)
                loss.backward()  # type: ignore[no-untyped-call]
                if self._clip_norm is not None:
                    nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
                self._optimizer.step()
                loss = loss.detach()
        except RuntimeError as error:
            self._optimizer.zero_grad(set_to_none=True)
            self._give_up(error)
            return None
        return _Recorded(graph, own, room, loss, own_labels)

    def _loss(self, inputs: tuple[Tensor, ...], labels: Tensor, room: Room) -> Tensor:
        with room_for(room), self._context():
            logits = self._model(*inputs)
        return functional.cross_entropy(logits.float(), labels)


class ForwardGraphs(_Recorder):
    """Gives the logits of a model in evaluation mode; of batches whose shape it has seen, replayed.

    Recording takes as long as some batches do, so that a shape is recorded when it comes again.

    Args:
        model: Called with a batch's inputs; on CUDA.
        context: Gives the context of the forward pass: autocast, or one that does nothing.
    """

    def __init__(self, model: nn.Module, context: Callable[[], Any]) -> None:
        super().__init__(model, context)
        self._seen: set[tuple[Any, ...]] = set()
        self._addresses: list[int] = []

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Gives logits, which the next call may overwrite.

        Args:
            inputs: x, index, spd and maybe known of a batch, on the device.
        """
        with torch.inference_mode():
            held = self._find(inputs)
            if held is None:
                with self._context():
                    logits: Tensor = self._model(*inputs)
                return logits
            held.inputs.put(inputs)
            held.graph.replay()
            return held.out

    def _find(self, inputs: Inputs) -> _Recorded | None:
        model = self._model
        if self._given_up or model.training or getattr(model, "attention_used", "") != "fused":
            return None
        addresses = [p.data_ptr() for p in model.parameters()]
        if addresses != self._addresses:  # weights that lie elsewhere now
            self._held.clear()
            self._addresses = addresses
        wanted = _Wanted(model, inputs, None)
        held = self._found(wanted)
        if held is not None:
            return held
        if wanted.shape not in self._seen:
            self._seen.add(wanted.shape)
            return None
        if self._is_full(wanted):
            return None
        held = self._record(wanted)
        if held is not None:
            self._keep(wanted, held)
        return held

    def _record(self, wanted: _Wanted) -> _Recorded | None:
        own, room = HeldInputs(wanted.inputs), wanted.room()

        def answer() -> Tensor:
            with room_for(room), self._context():
                logits: Tensor = self._model(*own())
            return logits

        device = wanted.inputs[1].device
        try:
            self._warmed_up(device, answer)
            graph = torch.cuda.CUDAGraph()
            with self._recording(graph, device):
                logits = answer()
        except RuntimeError as error:
            self._give_up(error)
            return None
        return _Recorded(graph, own, room, logits)
