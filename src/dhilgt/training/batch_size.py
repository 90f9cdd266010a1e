"""The largest batch that fits into memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from dhilgt.errors import ConfigError, MemoryLimitError
from dhilgt.loader.loader import TokenLoader
from dhilgt.training.config import TrainConfig
from dhilgt.training.distributed import Group
from dhilgt.training.steps import choose_steps
from dhilgt.utils.devices import free_gpu

CPU_BATCH = 1024
"""The batch size that "auto" means on the CPU."""


def find_batch_size(
    step: Callable[[int], object], start: int = 64, limit: int = 1 << 20, margin: float = 0.1
) -> int:
    """Return the largest batch size that ``step`` can do, less a margin.

    The size is doubled until memory runs out or ``limit`` is reached; then the interval between the
    last size that fits and the first that does not is halved until it is a sixteenth of that size.

    Args:
        step: Does one whole training step with a batch of the size it is called with.
        start: The size to try first; halved if it does not fit.
        limit: The largest useful size, for example the number of training nodes.
        margin: Fraction taken off once memory has run out: later batches can be a little larger.

    Raises:
        MemoryLimitError: If not even a batch of one fits.

    Example:
        >>> def step(size):
        ...     if size > 1000:
        ...         raise MemoryError
        >>> find_batch_size(step, start=64, limit=5000)
        864
        >>> find_batch_size(step, start=64, limit=500)
        500
    """
    if start < 1 or limit < 1 or not 0 <= margin < 1:
        raise ConfigError(
            f"start = {start}, limit = {limit}, margin = {margin}; pass start and limit of at "
            "least 1 and a margin from 0 up to 1"
        )
    size, refused = min(start, limit), 0
    while not _fits(step, size):
        if size == 1:
            raise MemoryLimitError(
                "a batch of 1 does not fit the memory; use a smaller model, smaller tokens or "
                "another device"
            )
        size, refused = size // 2, size
    while not refused and size < limit:
        larger = min(2 * size, limit)
        if _fits(step, larger):
            size = larger
        else:
            refused = larger
    if not refused:
        return size
    precision = max(1, refused // 16)
    while refused - size > precision:
        middle = (size + refused) // 2
        if _fits(step, middle):
            size = middle
        else:
            refused = middle
    return max(1, int(size * (1 - margin)))


def auto_batch_size(
    model: nn.Module, loader: TokenLoader, config: TrainConfig, device: torch.device
) -> int:
    """Return the batch size that "auto" means.

    On a GPU that is the largest batch that a whole training step of the model can do, at most this
    process's part of the loader's nodes. On the CPU it is `CPU_BATCH`: memory seldom is the limit,
    a larger batch is no faster, and fewer steps per epoch learn less. Several processes agree on
    their smallest size.

    Args:
        model: On the device; its weights and gradients are as before afterwards.
        loader: The training nodes, with labels.
        config: Precision of the step.
        device: Where it trains.
    """
    limit = max(1, -(-loader.num_nodes // loader.world_size))
    if device.type == "cpu":
        return min(CPU_BATCH, limit)
    training = model.training
    model.train()
    runner = choose_steps(model, device, config.precision)

    def step(size: int) -> None:
        batches = loader.with_batch_size(size).iterate()
        try:
            batch = next(batches).to(device)
            logits = runner.logits(batch)
            assert batch.labels is not None, "a loader to train with"
            functional.cross_entropy(logits.float(), batch.labels).backward()  # type: ignore[no-untyped-call]
        finally:
            model.zero_grad(set_to_none=True)
            getattr(batches, "close", lambda: None)()

    try:
        size = find_batch_size(step, limit=limit)
    finally:
        model.train(training)
    return -Group().largest(-size)


def _fits(step: Callable[[int], object], size: int) -> bool:
    try:
        step(size)
    except (MemoryError, torch.OutOfMemoryError):
        pass
    else:
        return True
    # Outside of the handler: its traceback would keep the tensors of the failed step alive.
    free_gpu()
    return False
