"""The processes that train one model: started by torchrun, or a single one."""

from __future__ import annotations

import atexit
import contextlib
import os
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

# Its functions take the process group that exists when it is imported as a default. Imported later
# (DistributedDataParallel does so), it would keep the group and its threads alive until the
# interpreter has ended, which sometimes aborts the process.
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dhilgt.errors import ConfigError, GraphWarning, ProcessError
from dhilgt.utils.devices import choose_device, this_process

TIMEOUT = timedelta(minutes=30)
"""The time that a process waits for the others before it fails."""

_EXIT_TIMEOUT = timedelta(seconds=10)

_T = TypeVar("_T")


class Group:
    """The processes that train one model; a group of one needs no setup.

    Example:
        >>> group = Group()
        >>> group.rank, group.size, group.is_main, group.add_up([3, 0])
        (0, 1, True, [3, 0])
    """

    def __init__(self) -> None:
        if not dist.is_initialized() and not this_process().is_alone:
            _start()
        self.rank, self.size, _ = this_process()

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Return the model to call in training, whose backward pass averages gradients."""
        if self.size == 1 or not any(p.requires_grad for p in model.parameters()):
            return model
        devices = [device] if device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)

    def add_up(self, numbers: list[int]) -> list[int]:
        """Return the sums of numbers over all processes."""
        return self._reduce(numbers, dist.ReduceOp.SUM)

    def largest(self, number: int) -> int:
        """Return the largest of the processes' numbers."""
        return self._reduce([number], dist.ReduceOp.MAX)[0]

    def _reduce(self, numbers: list[int], operation: Any) -> list[int]:
        if self.size == 1:
            return numbers
        # On the host, so that no process waits for its GPU.
        reduced = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(reduced, op=operation)
        return [int(number) for number in reduced]

    def collect(self, value: _T) -> list[_T] | None:
        """Return to the main process the value of each process, in order; None to the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.is_main else None
        dist.gather_object(value, values, dst=0)
        return values

    def collect_everywhere(self, value: _T) -> list[_T]:
        """Return to every process the value of each process, in order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def from_main(self, value: _T) -> _T:
        """Return to every process the value of the main one."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """Raise in every process if the block fails in one of them.

        All processes must enter it; inside, they must not wait for each other. Without it, the
        processes in which the block succeeded would wait for the one in which it failed.

        Raises:
            ProcessError: Where the block failed in another process, unless it also failed in this
                one and in none of a lower rank: then the error itself is raised.
        """
        if self.size == 1:
            yield
            return
        own_error: BaseException | None = None
        try:
            yield
        except BaseException as error:
            own_error = error
        failed = self.collect_everywhere(own_error is not None)
        if own_error is not None and (
            isinstance(own_error, KeyboardInterrupt) or True not in failed[: self.rank]
        ):
            raise own_error
        if True in failed:
            raise ProcessError(f"process {failed.index(True)} failed, see its message")

    def wait(self) -> None:
        """Wait until every process has called this."""
        self.add_up([0])


def _start() -> None:
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ConfigError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {', '.join(missing)} not set; start "
            "with torchrun, or unset WORLD_SIZE to train in one process"
        )
    # Both backends: gradients are exchanged between GPUs, counts and scores between hosts.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(choose_device("cuda"))
    dist.init_process_group(backend, timeout=TIMEOUT)
    atexit.register(_end)


def _end() -> None:
    if not dist.is_initialized():
        return
    # A process that closes its connections while another still uses them can make that one fail;
    # but a process that has died must not keep the others waiting.
    with contextlib.suppress(RuntimeError):
        dist.monitored_barrier(timeout=_EXIT_TIMEOUT)
    dist.destroy_process_group()


@contextlib.contextmanager
def warnings_of_main(group: Group) -> Iterator[None]:
    """Show the warnings of a block in the main process only; all processes raise the same ones.

    Args:
        group: The processes.
    """
    if group.is_main:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield
