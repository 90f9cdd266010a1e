"""The encoder in kernels for a GPU, written in Triton, which is imported by the first launch."""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import torch

from dhilgt.model.config import DHILGTConfig

MOST_SLOTS = 128
"""Slots of a row, virtual nodes counted, that one program holds on the chip."""

MOST_CHANNELS = 1024
MOST_INNER = 4096
MOST_HEAD = 128


@cache
def has_triton() -> bool:
    """Return whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Return whether Triton runs kernels on the CPU, by its interpreter, as tests have it."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def compute_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Return the precision of products: that of autocast where it is on, else `dtype`."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return dtype


def obstacle(
    config: DHILGTConfig, slots: int, device: torch.device, dtype: torch.dtype
) -> str | None:
    """Return the reason why the kernels cannot run, or None if they can.

    Args:
        config: Settings of the model.
        slots: Slots of a row, virtual nodes not counted.
        device: Where the model is.
        dtype: The precision of products; see `compute_dtype`.

    Example:
        >>> config = DHILGTConfig(in_channels=4, hidden_channels=16, out_channels=2)
        >>> obstacle(config, 500, torch.device("cuda"), torch.float32) is None
        False
    """
    if not has_triton():
        return "the package triton is not installed (pip install triton)"
    if device.type != "cuda" and not (device.type == "cpu" and interpreted()):
        return f"the kernels run on CUDA, not on {device.type}"
    if dtype not in (torch.float32, torch.bfloat16):
        return f"the kernels compute in float32 or bfloat16, not in {dtype}"
    if config.message_layers:
        return f"message_layers={config.message_layers} are not part of the kernels"
    limits = (
        ("slots with virtual nodes", slots + config.num_virtual, MOST_SLOTS),
        ("hidden_channels", config.hidden_channels, MOST_CHANNELS),
        ("channels per head", config.hidden_channels // config.heads, MOST_HEAD),
        ("ffn_channels", config.ffn_channels or config.hidden_channels, MOST_INNER),
    )
    for name, value, most in limits:
        if value > most:
            return f"{value} {name} are more than the {most} that the kernels hold"
    return None
