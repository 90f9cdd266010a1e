"""Settings that ship with the package: the paper's for every dataset, tuned ones for some.

A recipe is a YAML file of settings. Comments at its top tell where it comes from and, once
measured, the command, the score, the time and the memory.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from dhilgt.datasets.registry import info
from dhilgt.errors import ConfigError
from dhilgt.settings import yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.utils.memory import format_bytes

NAMES = ("paper", "best")
_HEADER_WIDTH = 98

# ---- reading -----------------------------------------------------------------------------------


def recipe(name: str, dataset: str | None = None) -> dict[str, Any]:
    """Return the settings of a recipe: the paper's, overridden by those of a dataset.

    Args:
        name: "paper", or "best" for the best settings of a search on the dataset.
        dataset: Name of a public dataset; None for the paper's settings alone.

    Raises:
        ConfigError: If there is no such recipe.

    Example:
        >>> recipe("paper", "tolokers")["metric"], recipe("paper", "cora")["lr"]
        ('roc_auc', 0.0001)
    """
    if name not in NAMES:
        raise ConfigError(f"there is no recipe {name!r}; choose {' or '.join(NAMES)}")
    values = yaml_files.read_settings(_folder() / "paper.yaml")
    if dataset is None:
        if name == "best":
            raise ConfigError("the recipe 'best' is a dataset's own; name the dataset with --data")
        return values
    about = info(dataset)
    values["metric"] = about.metric
    file = recipe_file(name, about.standin_for or about.name)
    if file is not None:
        values |= yaml_files.read_settings(file)
        values.pop("data", None)  # the user says where the graph comes from
    elif name == "best":
        known = sorted(path.stem for path in (_folder() / name).glob("*.yaml"))
        others = f" (there are those of {', '.join(known)})" if known else ""
        raise ConfigError(
            f"no best settings of {about.name!r} come with this version{others}; take the recipe "
            "'paper', or search with dhilgt tune"
        )
    return values


def recipe_file(name: str, dataset: str) -> Path | None:
    """Return the file of a dataset's own settings, None if there is none.

    Args:
        name: Name of the recipe.
        dataset: Name of the dataset.
    """
    path = _folder() / name / f"{dataset}.yaml"
    return path if path.is_file() else None


def _folder() -> Path:
    return Path(str(files("dhilgt.settings"))) / "recipe_files"


# ---- writing -----------------------------------------------------------------------------------


def render(
    dataset: str,
    settings: Settings,
    runs: Sequence[Mapping[str, Any]] = (),
    *,
    about: str,
    command: str = "",
    searched: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the text of a recipe's file.

    Args:
        dataset: Name of the dataset.
        settings: All settings; those equal to the paper's recipe and those of the group "run" are
            left out.
        runs: Runs with these settings, lines of a runs.jsonl.
        about: First sentence of the header.
        command: The command of the runs.
        searched: Names and values about the search.

    Example:
        >>> settings = Settings.from_dict(recipe("paper", "cora") | {"hops": 2})
        >>> print(render("cora", settings, about="Tried once, not measured."), end="")
        # Tried once, not measured.
        data:
          dataset: cora
        <BLANKLINE>
        features:
          hops: 2
    """
    paper = Settings.from_dict(recipe("paper", dataset))
    rows = [*searched, *measured_rows(runs, command)]
    sections: dict[str, dict[str, Any]] = {"data": {"dataset": info(dataset).name}}
    for one in fields(settings):
        group, value = one.metadata["group"], getattr(settings, one.name)
        if group != "run" and value != getattr(paper, one.name):
            sections.setdefault(group, {})[one.name] = value
    return header(about, rows) + yaml_files.sections_text(sections)


def header(about: str, rows: Iterable[tuple[str, str]] = ()) -> str:
    """Return comment lines for the top of a file: a sentence, then names and values.

    Args:
        about: What the file is.
        rows: Facts about it; rows without a value are left out.

    Example:
        >>> print(header("The paper's settings.", [("time", "3 s"), ("memory", "")]), end="")
        # The paper's settings.
        #   time: 3 s
    """
    lines = textwrap.wrap(about, _HEADER_WIDTH)
    for name, value in rows:
        if value:
            lines += textwrap.wrap(
                f"{name}: {value}", _HEADER_WIDTH, initial_indent="  ", subsequent_indent="    ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
    return "".join(f"# {line}\n" for line in lines)


def measured_rows(runs: Sequence[Mapping[str, Any]], command: str = "") -> list[tuple[str, str]]:
    """Return the rows of a header about some runs, lines of a runs.jsonl.

    Args:
        runs: One per seed, of the same settings.
        command: The command of the runs.

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
    """Return "mean ± standard deviation".

    Example:
        >>> mean_sd([0.5, 0.7])
        '0.6000 ± 0.1414'
    """
    mean = statistics.fmean(values)
    return f"{mean:.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def memory_text(memory: Sequence[Mapping[str, int]]) -> str:
    """Return the largest host and device memory of some runs."""
    host = max(int(one.get("host_peak_bytes", 0)) for one in memory)
    device = max(int(one.get("device_peak_bytes", 0)) for one in memory)
    parts = [f"{format_bytes(host)} of the host"] if host else []
    return ", ".join(parts + ([f"{format_bytes(device)} of the GPU"] if device else []))


def versions_text(environment: Mapping[str, Any]) -> str:
    """Return the versions in the environment.json of a run."""
    names = ("dhilgt", "python", "torch", "numpy", "cuda", "optuna")
    return ", ".join(f"{name} {environment[name]}" for name in names if environment.get(name))


def hardware_text(environment: Mapping[str, Any]) -> str:
    """Return the machine in the environment.json of a run."""
    gpus = list(environment.get("gpus") or [])
    if gpus and str(environment.get("device", "")).startswith("cuda"):
        return str(gpus[0])
    return f"{environment.get('cpus')} CPU cores ({environment.get('machine')})"
