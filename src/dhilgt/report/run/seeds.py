"""Runs that differ in their seed: their folders, and mean and spread of their scores."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dhilgt.report.run.folder import WHOLE, is_run, run_state

RUNS = "runs.jsonl"
PREFIX = "seed-"


def seed_folders(folder: Path) -> list[Path]:
    """Return the folders of the runs in a folder, by seed; none if it is something else."""
    if not folder.is_dir() or is_run(folder):
        return []
    found = [one for one in folder.glob(f"{PREFIX}*") if is_run(one)]
    return sorted(found, key=lambda one: (len(one.name), one.name))


def seeds_state(folder: Path) -> dict[str, Any]:
    """Return what the runs in a folder hold, as plain values.

    Args:
        folder: As `dhilgt train --seeds` wrote it.
    """
    runs = [run_state(one) for one in seed_folders(folder)]
    metric = runs[0]["metric"]
    ended = [one for one in runs if one["state"] == WHOLE]
    return {
        "path": str(folder),
        "kind": "runs",
        "metric": metric,
        "ended": len(ended),
        "summary": summary([one["scores"] for one in ended], metric),
        "runs": runs,
    }


def summary(
    scores: Sequence[dict[str, dict[str, Any]]], metric: str
) -> dict[str, dict[str, float | None]]:
    """Return mean and standard deviation of a score by part; None where they are undefined.

    Args:
        scores: Scores of each run, by part and metric.
        metric: The score.

    Example:
        >>> summary([{"test": {"accuracy": 0.5}}, {"test": {"accuracy": 0.5}}], "accuracy")
        {'test': {'mean': 0.5, 'sd': 0.0}}
    """
    parts = list(dict.fromkeys(part for one in scores for part in one))
    found: dict[str, dict[str, float | None]] = {}
    for part in parts:
        values = [one.get(part, {}).get(metric) for one in scores]
        known = [value for value in values if value is not None]
        found[part] = {
            "mean": statistics.mean(known) if known else None,
            "sd": statistics.stdev(known) if len(known) > 1 else None,
        }
    return found
