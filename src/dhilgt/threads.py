"""How many threads the native core may use."""

import os


def num_threads(threads: int | None) -> int:
    """Gives the number of threads to use: the one asked for, or one per usable core.

    Example:
        >>> num_threads(3)
        3
    """
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads = {threads!r}; pass a positive number, or None for every core")
    return threads
