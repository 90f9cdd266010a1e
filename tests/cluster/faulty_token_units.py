"""Units that draw tokens, with faults: functions of a module, for workers to import."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from dhilgt.cluster import tokens
from dhilgt.cluster.units import Outcome
from dhilgt.store import files
from tests.cluster.small_units import FullDisk

draw_shard = tokens.draw_shard


def draw_but_shard_3(folder: Path, *, number: int, **arguments: Any) -> Outcome:
    """Draw a shard; have a bug at the fourth."""
    if number == 3:
        raise ValueError("no 3")
    return draw_shard(folder, number=number, **arguments)


def dying_draw(folder: Path, *, number: int, **arguments: Any) -> Outcome:
    """Draw a shard; the first workers are killed before it, and when its files are written."""
    if number > 3:
        return draw_shard(folder, number=number, **arguments)
    marks = folder.parent / f"deaths-{number}"
    with marks.open("a") as file:
        file.write("x")
    deaths = marks.stat().st_size
    if deaths == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = draw_shard(folder, number=number, **arguments)
    if deaths == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome


def slow_draw(folder: Path, **arguments: Any) -> Outcome:
    """Draw a shard in some time."""
    time.sleep(0.5)
    return draw_shard(folder, **arguments)


def draw_on_full_disk(folder: Path, *, number: int, **arguments: Any) -> Outcome:
    """Draw a shard; from the third on the disk is full."""
    if number < 2:
        return draw_shard(folder, number=number, **arguments)
    before, files.ops = files.ops, FullDisk()
    try:
        return draw_shard(folder, number=number, **arguments)
    finally:
        files.ops = before
