"""Memory of the GPU that a process holds but does not use."""

from __future__ import annotations

import gc


def free_gpu() -> None:
    """Gives memory of trainings that are over back to the GPU, for the next one and for others.

    What a training leaves stays with its process: one process has use for it in its next training,
    several on one GPU fill it up with what none of them uses.
    """
    import torch

    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()
