"""Several processes as one: started by torchrun, or alone."""

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
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dhilgt.errors import ConfigError, GraphWarning, ProcessError
from dhilgt.utils.devices import choose_device, this_process

TIMEOUT = timedelta(minutes=30)
"""How long a process waits for the others before it gives up."""

_FAREWELL = timedelta(seconds=10)

_T = TypeVar("_T")


class Group:
    """The processes that train one model; a group of one needs no setting up.

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
        """Gives the model to call while training, whose backward pass averages gradients."""
        if self.size == 1 or not any(p.requires_grad for p in model.parameters()):
            return model
        devices = [device] if device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)

    def add_up(self, numbers: list[int]) -> list[int]:
        """Gives the sums of small numbers over all processes."""
        return self._reduce(numbers, dist.ReduceOp.SUM)

    def largest(self, number: int) -> int:
        """Gives the largest of the processes' numbers."""
        return self._reduce([number], dist.ReduceOp.MAX)[0]

    def _reduce(self, numbers: list[int], operation: Any) -> list[int]:
        if self.size == 1:
            return numbers
        # On the host, so that no process waits for its GPU to tell a count.
        shared = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(shared, op=operation)
        return [int(number) for number in shared]

    def collect(self, value: _T) -> list[_T] | None:
        """Gives the main process the value of each process, in order; None to the others."""
        if self.size == 1:
            return [value]
        found: list[Any] | None = [None] * self.size if self.is_main else None
        dist.gather_object(value, found, dst=0)
        return found

    def collect_everywhere(self, value: _T) -> list[_T]:
        """Gives every process the value of each process, in order."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def from_main(self, value: _T) -> _T:
        """Gives every process the main one's value."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """Has no process go on after a block that failed in one of them.

        All must enter it; inside, they must not wait for each other. Those in which nothing failed
        would otherwise wait for the one that did.

        Raises:
            ProcessError: Where the block went well here and failed in another process, or in one
                with a lower number, whose message is enough.
        """
        if self.size == 1:
            yield
            return
        trouble: BaseException | None = None
        try:
            yield
        except BaseException as error:
            trouble = error
        failed = self.collect_everywhere(trouble is not None)
        if isinstance(trouble, KeyboardInterrupt) or (trouble and True not in failed[: self.rank]):
            raise trouble
        if True in failed:
            raise ProcessError(f"process {failed.index(True)} failed, see its message")

    def wait(self) -> None:
        """Waits until every process is here."""
        self.add_up([0])


def _start() -> None:
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ConfigError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {', '.join(missing)} not set; start "
            "with torchrun, or unset WORLD_SIZE to train in one process"
        )
    # Both: gradients go over the GPUs' network, counts and scores over the hosts'.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(choose_device("cuda"))
    dist.init_process_group(backend, timeout=TIMEOUT)
    atexit.register(_end)


def _end() -> None:
    if not dist.is_initialized():
        return
    # A process that takes its connections down while another still uses them can bring that one
    # down with it; but one that died must not keep the others waiting.
    with contextlib.suppress(RuntimeError):
        dist.monitored_barrier(timeout=_FAREWELL)
    dist.destroy_process_group()


@contextlib.contextmanager
def warnings_of_main(group: Group) -> Iterator[None]:
    """Has warnings of a block, which all processes have alike, shown by the main one alone.

    Args:
        group: The processes.
    """
    if group.is_main:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield
