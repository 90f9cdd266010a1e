"""Devices and processes: which one to use, which one this is, and the memory that is free."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from dhilgt.errors import ConfigError, setting
from dhilgt.utils.checks import whole_number
from dhilgt.utils.memory import available_bytes

if TYPE_CHECKING:
    import torch

MOST_PROCESSES = 2**31


class Process(NamedTuple):
    """This process among those that work together.

    Attributes:
        rank: Its number.
        world_size: Number of processes.
        local_rank: Its number on this machine.
    """

    rank: int
    world_size: int
    local_rank: int

    @property
    def is_alone(self) -> bool:
        """Whether there is no other process."""
        return self.world_size == 1


def this_process() -> Process:
    """Return rank and world size: those of torch.distributed, else those of the environment.

    PyTorch is not imported for it.

    Raises:
        ConfigError: If RANK, WORLD_SIZE or LOCAL_RANK is not a number, or they do not fit.

    Example:
        >>> this_process()
        Process(rank=0, world_size=1, local_rank=0)
    """
    try:
        rank = int(os.environ.get("RANK", "0"))
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    except ValueError as error:
        raise ConfigError(f"RANK and WORLD_SIZE must be whole numbers ({error})") from None
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
    return checked_process(rank, world_size, local_rank)


def checked_process(rank: int, world_size: int, local_rank: int = 0) -> Process:
    """Return a process, if its numbers fit each other.

    Args:
        rank: Its number.
        world_size: Number of processes.
        local_rank: Its number on its machine; of no meaning for a process alone.
    """
    world_size = whole_number("world_size", world_size, 1, MOST_PROCESSES)
    rank = whole_number("rank", rank, 0, world_size - 1)
    return Process(rank, world_size, local_rank if world_size > 1 else 0)


def choose_device(device: str | torch.device) -> torch.device:
    """Return the device that a setting means.

    "auto" is a GPU where there is one, else the CPU. A GPU without a number is, among several
    processes, the one of this process, else the current one.

    Args:
        device: As PyTorch names it, or "auto".

    Raises:
        ConfigError: If it is not available; the message lists those that are.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    available = ["cpu", *(f"cuda:{number}" for number in range(gpus))]
    if torch.backends.mps.is_available():
        available.append("mps")
    try:
        chosen = torch.device(("cuda" if gpus else "cpu") if device == "auto" else device)
    except (RuntimeError, TypeError):
        raise _unavailable(device, available) from None
    if chosen.type == "cuda" and chosen.index is None and gpus:
        return torch.device("cuda", _own_gpu(gpus))
    if str(chosen).removesuffix(":0") not in [name.removesuffix(":0") for name in available]:
        raise _unavailable(device, available)
    return chosen


def _own_gpu(gpus: int) -> int:
    import torch

    process = this_process()
    if not process.is_alone:
        return process.local_rank % gpus
    # By number: "the current one" can be another one in another thread.
    initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.current_device() if initialized else 0


def _unavailable(device: object, available: list[str]) -> ConfigError:
    return ConfigError(
        f'{setting("device", str(device))} is not available; use {", ".join(available)} or "auto"'
    )


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory of a device, None where it is not known."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes() if device.type == "cpu" else None


def free_gpu() -> None:
    """Return memory that ended trainings hold to the GPU, for the next one and for other processes.

    PyTorch keeps freed memory for its own process: several processes on one GPU would fill it with
    memory that none of them uses.
    """
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
