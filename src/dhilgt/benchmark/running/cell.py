"""One cell: a system trained on a dataset with a seed, timed and scored."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from dhilgt import metrics
from dhilgt.benchmark.record import OK, OVER, Costs, Record
from dhilgt.benchmark.running import contenders, data
from dhilgt.benchmark.running.contenders import PREPARING, Contender
from dhilgt.benchmark.running.grid import Cell
from dhilgt.datasets import split_hash
from dhilgt.graph.graph import Graph
from dhilgt.training.clock import host_peak_bytes

_INFERENCE_PASSES = 3


class OverBudget(BaseException):
    """The time of a cell is over. A BaseException, so that no handler of errors catches it."""


def run_cell(
    cell: Cell,
    *,
    device: str = "auto",
    budget: float | None = None,
    root: str | PathLike[str] | None = None,
    threads: int | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Record:
    """Run a cell and return its record, also when it fails.

    Args:
        cell: What to do.
        device: Where to train.
        budget: Seconds that it may take once the graph is loaded; None for any time.
        root: Folder that holds datasets.
        threads: Threads of the process for labels, tokens and torch; None for all.
        begun: Called when the clock starts.

    Raises:
        KeyboardInterrupt: If it was stopped, which is no result.
    """
    info = data.about(cell.data)
    record = Record.of(cell, info, budget)
    costs = Costs(host_before_bytes=host_peak_bytes())
    contender: Contender | None = None
    start: float | None = None
    try:
        _use_threads(threads)
        costs = replace(costs, environment=environment(device))
        settings = contenders.resolved(cell, info.metrics[0])
        record = replace(record, settings=settings.model, training=settings.training.to_dict())
        loading = time.perf_counter()
        graph = data.load(cell.data, cell.seed, root, cell.split)
        costs = replace(costs, load_seconds=time.perf_counter() - loading)
        record = replace(record, graph=_graph_facts(graph), split_hash=split_hash(graph.masks))
        begun()
        start = time.perf_counter()
        with _alarm(budget):
            contender = contenders.contender(cell, settings, graph, device, threads)
            contender.prepare()
            training = contender.train()
            record = replace(
                record,
                epochs=training.epochs,
                best_epoch=training.best_epoch,
                val_score=_finite(training.best_score),
                chosen_by=training.chosen_by,
                out_of_time=training.out_of_time,
                settings=contender.settings.model,
                training=contender.settings.training.to_dict(),
                chosen=contender.chosen(),
            )
            # A trial is chosen by its validation score: the test nodes are not looked at.
            if cell.trial is None:
                scores, notes = _scores(contender, graph, info.metrics)
                seconds, where = _inference_seconds(contender), contender.inference_device
                costs = replace(costs, inference_seconds=seconds, inference_device=where)
                record = replace(record, scores=scores, score_notes=notes)
        record = replace(record, rows=contender.rows(), status=OK)
    except OverBudget:
        record = replace(record, status=OVER, message=f"not done after {budget:g} seconds")
    except Exception as error:
        record = record.after_error(error)
    if start is not None:
        record = replace(record, total_seconds=time.perf_counter() - start)
    if contender is not None:
        record = replace(record, num_parameters=contender.num_parameters)
        costs = replace(costs, **_stage_costs(contender))
    return replace(record, costs=replace(costs, host_peak_bytes=host_peak_bytes()))


def _scores(
    contender: Contender, graph: Graph, names: tuple[str, ...]
) -> tuple[dict[str, dict[str, float | None]], dict[str, str]]:
    """Return the scores of validation and test nodes, and notes on undefined ones."""
    assert graph.labels is not None, "checked by every system"
    scores: dict[str, dict[str, float | None]] = {}
    notes: dict[str, str] = {}
    for part in ("val", "test"):
        probabilities = contender.predict(part)
        logits = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
        scores[part] = {}
        for name in names:
            score = metrics.metric(name)(graph.labels[contender.part(part)], logits)
            scores[part][name] = _finite(score)
            if score.note:
                notes[f"{part} {name}"] = score.note
    return scores, notes


def _inference_seconds(contender: Contender) -> float:
    """Time the test nodes; the pass that scored them has paid for what is made once."""
    before = len(contender.clock.laps("inference"))
    for _ in range(_INFERENCE_PASSES):
        contender.predict("test")
    return statistics.median(contender.clock.laps("inference")[before:])


def _stage_costs(contender: Contender) -> dict[str, Any]:
    """Return times and memory of the stages that were completed."""
    stages = contender.clock.to_dict()
    laps = contender.clock.laps("epoch")
    prepared = [stages[name] for name in PREPARING if name in stages]
    complete = bool(prepared) and all(stage["times"] for stage in prepared)
    return {
        "precompute_seconds": sum(stage["seconds"] for stage in prepared) if complete else None,
        "epoch_seconds": statistics.median(laps) if laps else None,
        "first_epoch_seconds": laps[0] if laps else None,
        "gpu_peak_bytes": max((s["device_peak_bytes"] for s in stages.values()), default=0),
        "stages": stages,
    }


def _graph_facts(graph: Graph) -> dict[str, Any]:
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "classes": graph.num_classes,
        "fingerprint": graph.fingerprint,
    }


def environment(device: str) -> dict[str, Any]:
    """Return versions and hardware."""
    from dhilgt.training import run_folder
    from dhilgt.utils.devices import choose_device

    known = run_folder.environment(choose_device(device), 1)
    return {**known, "cpu": _cpu_name(), "memory_bytes": _memory_bytes()}


def _cpu_name() -> str:
    try:
        for text in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise `OverBudget` in the block when the time is over, where the system has timers."""
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
