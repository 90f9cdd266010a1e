"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from dhilgt.training.config import TrainConfig


def rate_factor(step: int, total: int, warmup: float, decay: str) -> float:
    """Return the factor on the learning rate at optimizer step ``step`` (from 0).

    It depends on the step alone, so that resuming needs nothing but the step.

    Example:
        >>> [rate_factor(step, 8, 2, "linear") for step in range(8)][:4]
        [0.5, 1.0, 1.0, 0.8333333333333334]
        >>> rate_factor(7, 8, 2, "none")
        1.0
        >>> [round(rate_factor(step, 8, 2, "cosine"), 3) for step in range(2, 6)]
        [1.0, 0.933, 0.75, 0.5]
    """
    if step < warmup:
        return min(1.0, (step + 1) / warmup)
    if decay == "none":
        return 1.0
    left = max(0.0, (total - step) / max(total - warmup, 1.0))
    return left if decay == "linear" else (1 - math.cos(math.pi * left)) / 2


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return AdamW over the model's trainable parameters, with decay on weight matrices only.

    Parameters with at most one dimension (biases, norms), `nn.Embedding` tables, and those that
    ``model.no_weight_decay()`` names, where the model has such a method, do not decay: they are
    offsets, scales and look-up tables, for which zero has no special meaning.

    With the setting "adam", it is Adam: all parameters decay, by a term of the loss.

    Example:
        >>> groups = build_optimizer(nn.Linear(3, 2), TrainConfig()).param_groups
        >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
        [(1, 0.01), (1, 0.0)]
    """
    if config.optimizer == "adam":
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        decay = config.weight_decay
        if all(parameter.is_cuda for parameter in trainable):
            rate = torch.tensor(config.lr, device=trainable[0].device)
            return torch.optim.Adam(
                trainable, lr=rate, weight_decay=decay, fused=True, capturable=True
            )
        return torch.optim.Adam(
            trainable, lr=config.lr, weight_decay=decay, fused=_fuses(trainable)
        )
    exempt = set(getattr(model, "no_weight_decay", lambda: ())())
    for prefix, module in model.named_modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            exempt.add(f"{prefix}.weight" if prefix else "weight")
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (plain if parameter.ndim <= 1 or name in exempt else decayed).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    chosen = [group for group in groups if group["params"]]
    if all(parameter.is_cuda for parameter in (*decayed, *plain)):
        # One kernel for all parameters; with its rate on the device it can be part of a CUDA graph.
        rate = torch.tensor(config.lr, device=(decayed or plain)[0].device)
        return torch.optim.AdamW(chosen, lr=rate, fused=True, capturable=True)
    return torch.optim.AdamW(chosen, lr=config.lr, fused=_fuses([*decayed, *plain]))


def _fuses(parameters: list[nn.Parameter]) -> bool | None:
    # One pass over memory in place of a dozen; only on the CPU and on CUDA.
    return True if all(one.device.type == "cpu" for one in parameters) else None


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
