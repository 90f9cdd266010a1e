"""Time and memory of a piece of work on a device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

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
