"""The units of a build of labels, with faults: functions of a module, for workers to import."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dhilgt.cluster import labels
from dhilgt.cluster.units import Outcome
from dhilgt.store import files
from tests.cluster.small_units import FullDisk

UNITS = {
    "search": labels.search_range,
    "table": labels.write_table,
    "level": labels.find_level,
    "settled": labels.settle_entries,
    "rest": labels.write_others,
    "merge": labels.merge_found,
}


def _dying(name: str, folder: Path, arguments: dict[str, Any]) -> Outcome:
    """Do a unit; the first worker is killed before it, the second when its files are written."""
    marks = folder.parent / f"deaths-{name}"
    with marks.open("a") as file:
        file.write("x")
    deaths = marks.stat().st_size
    if deaths == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = UNITS[name](folder, **arguments)
    if deaths == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome


def dying_search(folder: Path, **arguments: Any) -> Outcome:
    return _dying("search", folder, arguments)


def dying_table(folder: Path, **arguments: Any) -> Outcome:
    return _dying("table", folder, arguments)


def dying_level(folder: Path, **arguments: Any) -> Outcome:
    return _dying("level", folder, arguments)


def dying_settled(folder: Path, **arguments: Any) -> Outcome:
    return _dying("settled", folder, arguments)


def dying_rest(folder: Path, **arguments: Any) -> Outcome:
    return _dying("rest", folder, arguments)


def dying_merge(folder: Path, **arguments: Any) -> Outcome:
    return _dying("merge", folder, arguments)


def slow_search(folder: Path, **arguments: Any) -> Outcome:
    time.sleep(0.4)
    return labels.search_range(folder, **arguments)


def slow_merge(folder: Path, **arguments: Any) -> Outcome:
    time.sleep(0.4)
    return labels.merge_found(folder, **arguments)


DYING: dict[str, Callable[..., Outcome]] = {
    "search_range": dying_search,
    "write_table": dying_table,
    "find_level": dying_level,
    "settle_entries": dying_settled,
    "write_others": dying_rest,
    "merge_found": dying_merge,
}
SLOW: dict[str, Callable[..., Outcome]] = {
    "search_range": slow_search,
    "merge_found": slow_merge,
}


def search_on_full_disk(folder: Path, **arguments: Any) -> Outcome:
    """Search; from the second stage on the disk is full."""
    if arguments["first"] < 1024:
        return labels.search_range(folder, **arguments)
    before, files.ops = files.ops, FullDisk()
    try:
        return labels.search_range(folder, **arguments)
    finally:
        files.ops = before
