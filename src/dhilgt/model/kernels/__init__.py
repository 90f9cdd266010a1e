"""Kernels for a GPU, written in Triton; nothing here is imported before it is asked for."""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import torch

from dhilgt.model.config import DHILGTConfig

MOST_SLOTS = 128
"""Slots of a row with its virtual nodes that a program holds on the chip."""

MOST_CHANNELS = 1024
MOST_INNER = 4096
MOST_HEAD = 128


@cache
def has_triton() -> bool:
    """Says whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Says whether Triton was told to run kernels on the CPU, for tests."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def obstacle(
    config: DHILGTConfig, slots: int, device: torch.device, dtype: torch.dtype
) -> str | None:
    """Gives the reason why the fused path cannot run, or None if it can.

    Args:
        config: Settings of the model.
        slots: Slots of a row, virtual nodes not counted.
        device: Where the model is.
        dtype: Of its parameters.

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
