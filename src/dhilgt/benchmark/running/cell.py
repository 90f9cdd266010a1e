"""One cell: a system trained on a dataset with a seed, timed and scored, as a line of results."""

from __future__ import annotations

import contextlib
import math
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from os import PathLike
from types import FrameType
from typing import Any

import numpy as np

from dhilgt import metrics
from dhilgt.benchmark.running import contenders, data, results
from dhilgt.benchmark.running.contenders import PREPARING, Contender
from dhilgt.benchmark.running.grid import Cell
from dhilgt.datasets import split_hash
from dhilgt.graph.graph import Graph
from dhilgt.training.clock import host_peak_bytes

_INFERENCE_PASSES = 3


class OverBudget(BaseException):
    """The time of a cell is over; no error, so that nothing on the way takes it for one."""


def run_cell(
    cell: Cell,
    *,
    device: str = "auto",
    budget: float | None = None,
    root: str | PathLike[str] | None = None,
    threads: int | None = None,
    begun: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return the line of a cell. Whatever goes wrong in it is a line too.

    Args:
        cell: What to do.
        device: Where to train.
        budget: Seconds that it may take once the graph is loaded; None for any time.
        root: Folder that holds datasets.
        threads: Threads of the process for labels, tokens and torch; None for all.
        begun: Called when the clock starts.

    Raises:
        KeyboardInterrupt: If it was stopped: that is no result.
    """
    about = data.about(cell.data)
    line = results.line_of(cell, about, budget)
    runner: Contender | None = None
    started: float | None = None
    line["host_before_bytes"] = host_peak_bytes()
    try:
        _use_threads(threads)
        line["environment"] = results.environment(device)
        settings = contenders.resolved(cell, about.metrics[0])
        line["settings"] = settings.model
        line["training"] = settings.training.to_dict()
        loading = time.perf_counter()
        graph = data.load(cell.data, cell.seed, root)
        line["load_seconds"] = time.perf_counter() - loading
        line |= results.graph_facts(graph)
        line["split_hash"] = split_hash(graph.masks)
        begun()
        started = time.perf_counter()
        with _alarm(budget):
            runner = contenders.contender(cell, settings, graph, device, threads)
            runner.prepare()
            done = runner.train()
            line |= {"epochs": done.epochs, "best_epoch": done.best_epoch}
            line |= {"val_score": _plain(done.best_score), "chosen_by": done.chosen_by}
            line["out_of_time"] = done.out_of_time
            # A trial is chosen by its validation score: the test nodes are not looked at.
            if cell.trial is None:
                line |= _scored(runner, graph, about.metrics)
        line["rows"] = runner.rows()
        line["status"] = results.OK
    except OverBudget:
        line |= {"status": results.OVER, "message": f"not done after {budget:g} seconds"}
    except Exception as error:
        line |= results.failure(error)
    line["total_seconds"] = None if started is None else time.perf_counter() - started
    if runner is not None:
        line |= _measured(runner)
    line["host_peak_bytes"] = host_peak_bytes()
    return line


def _scored(runner: Contender, graph: Graph, names: tuple[str, ...]) -> dict[str, Any]:
    """Return scores of validation and test nodes, and how long the test nodes take."""
    assert graph.labels is not None, "checked by every system"
    scores: dict[str, dict[str, float | None]] = {}
    notes: dict[str, str] = {}
    for part in ("val", "test"):
        shares = runner.predict(part)
        logits = np.log(np.maximum(shares, np.finfo(np.float32).tiny))
        scores[part] = {}
        for name in names:
            found = metrics.metric(name)(graph.labels[runner.part(part)], logits)
            scores[part][name] = _plain(found)
            if found.note:
                notes[f"{part} {name}"] = found.note
    before = len(runner.clock.laps("inference"))
    for _ in range(_INFERENCE_PASSES):  # the pass above has paid for what is made once
        runner.predict("test")
    passes = runner.clock.laps("inference")[before:]
    return {
        "scores": scores,
        "score_notes": notes,
        "inference_seconds": statistics.median(passes),
        "inference_device": runner.inference_device,
    }


def _measured(runner: Contender) -> dict[str, Any]:
    """Return times and memory, as far as the cell came: of stages that came to their end."""
    stages = runner.clock.to_dict()
    laps = runner.clock.laps("epoch")
    prepared = [stages[name] for name in PREPARING if name in stages]
    whole = bool(prepared) and all(stage["times"] for stage in prepared)
    return {
        "precompute_seconds": sum(stage["seconds"] for stage in prepared) if whole else None,
        "epoch_seconds": statistics.median(laps) if laps else None,
        "first_epoch_seconds": laps[0] if laps else None,
        "gpu_peak_bytes": max((s["device_peak_bytes"] for s in stages.values()), default=0),
        "num_parameters": runner.num_parameters,
        "stages": stages,
    }


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise `OverBudget` in the block when the time is over, where the system can tell."""
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not able:
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise OverBudget

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
