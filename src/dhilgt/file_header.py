"""The comment at the top of a file of settings: where it comes from, what was measured."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dhilgt.memory import format_bytes

_WIDTH = 98


def header(about: str, rows: Iterable[tuple[str, str]] = ()) -> str:
    r"""Gives comment lines: a sentence, then names and values.

    Args:
        about: What the file is.
        rows: What is known of it; rows without a value are left out.

    Example:
        >>> print(header("The paper's settings.", [("time", "3 s"), ("memory", "")]), end="")
        # The paper's settings.
        #   time: 3 s
    """
    lines = textwrap.wrap(about, _WIDTH)
    for name, value in rows:
        if value:
            lines += textwrap.wrap(
                f"{name}: {value}", _WIDTH, initial_indent="  ", subsequent_indent="    ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
    return "".join(f"# {line}\n" for line in lines)


def measured_rows(runs: Sequence[Mapping[str, Any]], command: str = "") -> list[tuple[str, str]]:
    """Gives the rows that some runs, lines of a runs.jsonl, have measured.

    Args:
        runs: One per seed, of the same settings.
        command: What made them.

    Example:
        >>> run = {"seed": 0, "metric": "accuracy", "seconds": 2.0, "scores": {"test": {"accuracy": 0.5}}}
        >>> measured_rows([run, {**run, "seed": 1, "seconds": 4.0}])
        [('test accuracy', '0.5000 ± 0.0000, seeds 0, 1'), ('time', '3.0 s a run')]
    """  # noqa: E501 - one run is one line
    if not runs:
        return []
    metric = str(runs[0]["metric"])
    seeds = ", ".join(str(run["seed"]) for run in runs)
    rows = [("command", command)] if command else []
    for part in ("val", "test"):
        values = [run["scores"][part][metric] for run in runs if part in run["scores"]]
        if values:
            rows.append((f"{part} {metric}", f"{mean_sd(values)}, seeds {seeds}"))
    seconds = statistics.fmean(float(run["seconds"]) for run in runs)
    rows.append(("time", f"{seconds:.1f} s a run"))
    memory = [run["memory"] for run in runs if "memory" in run]
    if memory:
        rows.append(("memory", memory_text(memory)))
    known = [run["environment"] for run in runs if "environment" in run]
    if known:
        rows += [("versions", versions_text(known[0])), ("hardware", hardware_text(known[0]))]
    return rows


def mean_sd(values: Sequence[float]) -> str:
    """Gives "mean ± standard deviation".

    Example:
        >>> mean_sd([0.5, 0.7])
        '0.6000 ± 0.1414'
    """
    mean = statistics.fmean(values)
    return f"{mean:.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def memory_text(memory: Sequence[Mapping[str, int]]) -> str:
    """Gives the largest host and device memory of some runs."""
    host = max(int(one.get("host_peak_bytes", 0)) for one in memory)
    device = max(int(one.get("device_peak_bytes", 0)) for one in memory)
    parts = [f"{format_bytes(host)} of the host"] if host else []
    return ", ".join(parts + ([f"{format_bytes(device)} of the GPU"] if device else []))


def versions_text(environment: Mapping[str, Any]) -> str:
    """Gives the versions of an environment as `run_folder.environment` describes it."""
    names = ("dhilgt", "python", "torch", "numpy", "cuda", "optuna")
    return ", ".join(f"{name} {environment[name]}" for name in names if environment.get(name))


def hardware_text(environment: Mapping[str, Any]) -> str:
    """Gives the machine of an environment."""
    gpus = list(environment.get("gpus") or [])
    if gpus and str(environment.get("device", "")).startswith("cuda"):
        return str(gpus[0])
    return f"{environment.get('cpus')} CPU cores ({environment.get('machine')})"
