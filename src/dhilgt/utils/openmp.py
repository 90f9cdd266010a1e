"""How threads of PyTorch wait for each other on a CPU."""

import os
import sys

_SPIN = "GOMP_SPINCOUNT"
_POLICY = "OMP_WAIT_POLICY"
_TURNS = "2000"  # OpenMP itself takes 300,000, which outlasts most steps of a small model


def wait_briefly() -> None:
    """Let threads of PyTorch that wait for another one give their core away after a moment.

    Where another program uses the same cores, a thread that waits busily keeps the very thread
    from running that it waits for: two trainings side by side take several times as long. OpenMP
    reads this once, as PyTorch is imported, so that it has no effect later, and a value that the
    user has set stays.

    Example:
        >>> wait_briefly()  # before `import torch`
    """
    if "torch" not in sys.modules and _POLICY not in os.environ:
        os.environ.setdefault(_SPIN, _TURNS)
