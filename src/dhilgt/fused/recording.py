"""Recording of kernels into a CUDA graph that leaves everything as it was when it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

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
