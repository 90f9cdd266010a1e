"""Which path attention takes: the fastest that can run, and a word where another was asked for."""

from __future__ import annotations

from functools import cache

import torch

from dhilgt.attention import default_path
from dhilgt.errors import TrainingWarning, warn
from dhilgt.fused import obstacle
from dhilgt.model_config import DHILGTConfig


def choose_path(config: DHILGTConfig, slots: int, device: torch.device, dtype: torch.dtype) -> str:
    """Gives "reference", "sdpa" or "fused".

    Args:
        config: Settings of the model.
        slots: Slots of a row, virtual nodes not counted.
        device: Where the model is.
        dtype: Of its parameters; under autocast the kernels compute in autocast's.

    Example:
        >>> config = DHILGTConfig(in_channels=4, hidden_channels=16, out_channels=2)
        >>> choose_path(config, 32, torch.device("cpu"), torch.float32)
        'reference'
    """
    wanted = config.attention
    if wanted in ("reference", "sdpa"):
        return wanted
    if wanted == "auto" and device.type != "cuda":
        return default_path(device)
    # The compiler fuses plain operations itself and cannot look into the kernels' launches.
    if wanted == "auto" and torch.compiler.is_compiling():
        return default_path(device)
    reason = obstacle(config, slots, device, compute_dtype(device, dtype))
    if reason is None:
        return "fused"
    _tell(reason, default_path(device))
    return default_path(device)


def compute_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Gives the precision of products: that of autocast where it is on."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return dtype


@cache
def _tell(reason: str, instead: str) -> None:
    warn(f'attention="fused" cannot run: {reason}; "{instead}" is used instead', TrainingWarning)
