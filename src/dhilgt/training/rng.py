"""The random number generators of training: seeding, saving, restoring."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dhilgt.errors import ArtifactError


def seed_all(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  user code may draw from the global generator
    torch.manual_seed(seed)


States = tuple[dict[str, Tensor], dict[str, Any]]
"""The states of all generators: byte tensors, and a few plain values."""


def capture() -> States:
    """Return the state of every generator: byte tensors, and a few plain values."""
    version, words, gauss = random.getstate()
    _, key, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    tensors = {
        "python": _bytes(np.array(words, dtype=np.uint32)),
        "numpy": _bytes(np.asarray(key, dtype=np.uint32)),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        for at, state in enumerate(torch.cuda.get_rng_state_all()):
            tensors[f"cuda.{at}"] = state
    values = {
        "python": [version, gauss],
        "numpy": [int(position), int(has_gauss), float(cached)],
    }
    return tensors, values


def restore(tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Set every generator to the state that `capture` returned.

    A CUDA device that did not exist then keeps its state; one that no longer exists is ignored.
    """
    try:
        version, gauss = values["python"]
        words = tuple(int(word) for word in _words(tensors["python"]))
        random.setstate((version, words, gauss))
        position, has_gauss, cached = values["numpy"]
        state = ("MT19937", _words(tensors["numpy"]), position, has_gauss, cached)
        np.random.set_state(state)  # noqa: NPY002
        torch.set_rng_state(tensors["torch"])
        if torch.cuda.is_available():
            for at in range(torch.cuda.device_count()):
                if f"cuda.{at}" in tensors:
                    torch.cuda.set_rng_state(tensors[f"cuda.{at}"], at)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ArtifactError(f"the saved random state cannot be used: {error}") from error


def _bytes(words: Any) -> Tensor:
    return torch.from_numpy(words.view(np.uint8).copy())


def _words(data: Tensor) -> Any:
    return data.numpy().view(np.uint32)


@contextlib.contextmanager
def deterministic_algorithms(enabled: bool) -> Iterator[None]:
    """Make torch refuse operations that vary between runs inside the block, if ``enabled``."""
    if not enabled:
        yield
        return
    # cuBLAS reads this when it starts; without it torch refuses its matrix products.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark
