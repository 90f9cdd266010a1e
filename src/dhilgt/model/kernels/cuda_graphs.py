"""Whole steps as CUDA graphs, so that small batches do not wait for kernel launches.

A step is more than a hundred kernels; for a small batch, launching each one takes longer than
running it. Batches of one shape run the same kernels at the same addresses, so they are recorded
once and replayed: forward, loss, backward, clipping and the optimizer in training, logits in
evaluation. Where rows are packed, a recorded step has room for batches of somewhat fewer rows. A
recording that fails leaves streams, generators and memory pools as they were.
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
from dhilgt.model.kernels.held_inputs import CopiedInputs, GraphInputs, HeldInputs, Inputs
from dhilgt.model.kernels.packing import Room, choose_room, packed_rows

# The function that ends the rerouting of memory into a graph's pool is not public, and was renamed.
_ENDS = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")


@cache
def recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream that steps are recorded on, which nothing else uses.

    PyTorch has 32 streams of each priority and hands them out in turn. Work that another thread
    queues on the stream of a recording becomes part of it or breaks it; hence a stream of the
    priority that loaders, and most other code, do not ask for.

    Args:
        device: A CUDA device.
    """
    stream: torch.cuda.Stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
    return stream


@contextlib.contextmanager
def recording(graph: torch.cuda.CUDAGraph, pool: Any, device: torch.device) -> Iterator[None]:
    """Record the kernels of a block; after a failure, undo what PyTorch leaves behind.

    After a recording that failed, PyTorch leaves its stream the current one, its generator drawing
    for a graph, and memory coming from the graph's pool: the next dropout would raise.

    Args:
        graph: Records the kernels.
        pool: From `torch.cuda.graph_pool_handle`.
        device: Where the kernels run.
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
            with contextlib.suppress(RuntimeError):  # it has ended already
                end(device.index, pool)


MOST_SHAPES = 6
"""Shapes of batches that are recorded; others run kernel by kernel."""


@dataclass(frozen=True)
class _Recorded:
    """A recorded step, with the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    inputs: HeldInputs | CopiedInputs | GraphInputs
    room: Room
    out: Tensor
    labels: Tensor | None = None


class StepRequest:
    """What a recorded step needs to be able to take a batch.

    Args:
        model: Called with the inputs.
        inputs: Of the batch.
        filled: Number of slots that hold a node, all egos counted; counted if None, which waits
            for the device.
    """

    def __init__(self, model: nn.Module, inputs: Inputs, filled: int | None) -> None:
        self.inputs = inputs
        x, index = inputs[:2]
        given = tuple(None if part is None else part.dtype for part in inputs)
        self.shape: tuple[Any, ...] = (index.shape, x.layout, given)
        self.batch, slots = index.shape
        config = getattr(model, "config", None)
        self.slots = slots + getattr(config, "num_virtual", 0)
        self.packs = getattr(model, "attention_used", None) == "fused" and hasattr(model, "packing")
        self.rows = packed_rows(model, index, filled) if self.packs else None  # type: ignore[arg-type]

    def room(self) -> Room:
        """Return the room of a step that is recorded for the batch."""
        return choose_room(self.rows, self.batch, self.slots)

    def keywords(self, room: Room) -> dict[str, Room]:
        """Return the keyword arguments with which the model computes on the rows of `room`."""
        return {"room": room} if self.packs else {}

    def hold(self) -> HeldInputs | CopiedInputs | GraphInputs:
        """Return a copy of the batch's inputs that a step is recorded with."""
        return HeldInputs(self.inputs)

    def fits(self, step: _Recorded) -> bool:
        """Return whether a recorded step takes the batch."""
        return step.inputs.holds(self.inputs) and step.room.holds(self.rows, self.slots)


class PlainRequest(StepRequest):
    """The request of a model whose inputs are tensors of one shape from batch to batch."""

    def __init__(self, model: nn.Module, inputs: Inputs, filled: int | None) -> None:
        self.inputs = inputs
        self.shape = tuple((part.shape, part.dtype) for part in inputs)
        self.packs, self.rows = False, None

    def room(self) -> Room:
        """Return that nothing is packed."""
        return Room(None)

    def hold(self) -> CopiedInputs | GraphInputs:
        """Return a copy of the batch's inputs that a step is recorded with."""
        return CopiedInputs(self.inputs)

    def fits(self, step: _Recorded) -> bool:
        """Return True: a recorded step takes all batches of its shape."""
        return True


class GraphRequest(PlainRequest):
    """The request of a model over one graph, of which a batch asks for some nodes, its last input.

    Inputs before the last are read where they are: they must be the same objects in all batches.
    """

    def __init__(self, model: nn.Module, inputs: Inputs, filled: int | None) -> None:
        super().__init__(model, inputs[-1:], filled)
        self.inputs = inputs

    def hold(self) -> GraphInputs:
        """Return the graph, and a copy of the nodes that a step is recorded with."""
        return GraphInputs(self.inputs)


class _Recorder:
    """What recording a training step and recording an evaluation have in common."""

    def __init__(
        self,
        model: nn.Module,
        context: Callable[[], Any],
        request: type[StepRequest] = StepRequest,
    ) -> None:
        self._model, self._context, self._request = model, context, request
        self._held: dict[tuple[Any, ...], list[_Recorded]] = {}
        self._given_up = False
        self._pool: Any = None

    def _smallest_fitting(self, request: StepRequest) -> _Recorded | None:
        """Return the recorded step with the least room that takes a batch."""
        fitting = [step for step in self._held.get(request.shape, ()) if request.fits(step)]
        return min(fitting, key=lambda step: step.room.rows or 0, default=None)

    def _keep(self, request: StepRequest, step: _Recorded) -> None:
        """Keep a new step; it replaces one of its room, whose table of features was too small."""
        others = self._held.get(request.shape, [])
        self._held[request.shape] = [old for old in others if old.room != step.room] + [step]

    def _is_full(self, request: StepRequest) -> bool:
        """Return whether no further step can be recorded."""
        replaces = any(old.room == request.room() for old in self._held.get(request.shape, ()))
        return not replaces and sum(map(len, self._held.values())) >= MOST_SHAPES

    def _warm_up(self, device: torch.device, work: Callable[[], Any]) -> None:
        """Let products and kernels choose their plans; random numbers and buffers are kept."""
        stream = recording_stream(device)
        # Running statistics of batch normalisation move with every pass in training.
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.random.fork_rng(devices=[device]), torch.cuda.stream(stream):
            for _ in range(2):
                work()
            for buffer, before in buffers:
                buffer.copy_(before)
        torch.cuda.current_stream(device).wait_stream(stream)
        # Memory that was set aside for single kernels is no longer needed.
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
    """Replay training steps on batches of shapes that were seen before.

    The optimizer must have taken a step before, so that its state exists, and must be able to run
    inside a graph (as `dhilgt.training.optimizer.build_optimizer` makes it on CUDA).

    Args:
        model: Called with a batch's inputs.
        optimizer: Over the model's parameters; its rate is a tensor.
        clip_norm: Largest norm of all gradients; None for no limit.
        context: Makes the context of each forward pass: autocast, or one that does nothing.
        request: Kind of inputs that the model has.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        context: Callable[[], Any],
        request: type[StepRequest] = StepRequest,
    ) -> None:
        super().__init__(model, context, request)
        self._optimizer, self._clip_norm = optimizer, clip_norm
        self._parameters = [p for p in model.parameters() if p.requires_grad]

    def step(self, inputs: Inputs, labels: Tensor, filled: int | None = None) -> Tensor | None:
        """Take a step and return its loss, which the next step overwrites; None: not recorded.

        Args:
            inputs: Those of a batch, on the device; see `HeldInputs`.
            labels: Classes of the egos.
            filled: Number of slots that hold a node, all egos counted; counted if None, which
                waits for the device.
        """
        if self._given_up:
            return None
        request = self._request(self._model, inputs, filled)
        step = self._smallest_fitting(request)
        if step is None:
            if self._is_full(request):
                return None
            step = self._record(request, labels)
            if step is None:
                return None
            self._keep(request, step)
        assert step.labels is not None
        step.inputs.put(inputs)
        step.labels.copy_(labels)
        step.graph.replay()
        return step.out

    def _record(self, request: StepRequest, labels: Tensor) -> _Recorded | None:
        own, own_labels, room = request.hold(), labels.clone(), request.room()

        def compute_loss() -> Tensor:
            with self._context():
                logits = self._model(*own(), **request.keywords(room))
            loss = functional.cross_entropy(logits.float(), own_labels)
            added = getattr(self._model, "added_loss", lambda: None)()
            return loss if added is None else loss + added

        def learn() -> None:
            self._optimizer.zero_grad(set_to_none=True)
            compute_loss().backward()  # type: ignore[no-untyped-call]

        try:
            self._optimizer.zero_grad(set_to_none=True)
            self._warm_up(labels.device, learn)
            self._optimizer.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            with self._recording(graph, labels.device):
                loss = compute_loss()
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


class ForwardGraphs(_Recorder):
    """Compute logits of a model in evaluation mode, replayed for shapes that were seen before.

    Recording takes as long as several batches do, so a shape is recorded when it comes again.

    Args:
        model: Called with a batch's inputs; on CUDA.
        context: Makes the context of each forward pass: autocast, or one that does nothing.
        request: Kind of inputs that the model has.
    """

    def __init__(
        self,
        model: nn.Module,
        context: Callable[[], Any],
        request: type[StepRequest] = StepRequest,
    ) -> None:
        super().__init__(model, context, request)
        self._seen: set[tuple[Any, ...]] = set()
        self._addresses: list[int] = []

    def __call__(self, *inputs: Any, filled: int | None = None) -> Tensor:
        """Return logits, which the next call may overwrite.

        Args:
            inputs: Those of a batch, on the device; see `HeldInputs`.
            filled: Number of slots that hold a node, all egos counted; counted if None, which
                waits for the device.
        """
        with torch.inference_mode():
            if self._given_up or self._model.training or not self._is_recordable():
                return self._run(inputs, {})
            request = self._request(self._model, inputs, filled)
            step = self._find(request)
            if step is None:
                return self._run(inputs, request.keywords(Room(request.rows)))
            step.inputs.put(inputs)
            step.graph.replay()
            return step.out

    def _is_recordable(self) -> bool:
        recordable: bool = getattr(self._model, "is_recordable", lambda: False)()
        return recordable

    def _run(self, inputs: Inputs, keywords: dict[str, Room]) -> Tensor:
        with self._context():
            logits: Tensor = self._model(*inputs, **keywords)
        return logits

    def _find(self, request: StepRequest) -> _Recorded | None:
        addresses = [p.data_ptr() for p in self._model.parameters()]
        if addresses != self._addresses:  # the weights have moved
            self._held.clear()
            self._addresses = addresses
        step = self._smallest_fitting(request)
        if step is not None:
            return step
        if request.shape not in self._seen:
            self._seen.add(request.shape)
            return None
        if self._is_full(request):
            return None
        step = self._record(request)
        if step is not None:
            self._keep(request, step)
        return step

    def _record(self, request: StepRequest) -> _Recorded | None:
        own, room = request.hold(), request.room()

        def compute_logits() -> Tensor:
            return self._run(own(), request.keywords(room))

        device = request.inputs[0].device
        try:
            self._warm_up(device, compute_logits)
            graph = torch.cuda.CUDAGraph()
            with self._recording(graph, device):
                logits = compute_logits()
        except RuntimeError as error:
            self._give_up(error)
            return None
        return _Recorded(graph, own, room, logits)
