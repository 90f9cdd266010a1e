"""The folder of a run, read without its model: data, settings, scores, and how far it came."""

import json
import math
import os
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.splits import split_hash
from dhilgt.errors import ArtifactError, ConfigError, GraphError
from dhilgt.graph.checks import MASK_NAMES
from dhilgt.graph.store import read_columns
from dhilgt.metrics import METRICS, constant_score
from dhilgt.report.run.tried import read_search
from dhilgt.settings import yaml_files
from dhilgt.settings.earlier import renamed
from dhilgt.settings.settings import Settings
from dhilgt.settings.yaml_files import AUTO, PAPER
from dhilgt.store.artifact import Artifact
from dhilgt.store.files import explained, read_object, strict_json

WHOLE, DAMAGED, RUNNING, CUT_OFF, NOT_BEGUN = (
    "whole", "damaged", "running", "cut off", "not begun",
)  # fmt: skip
_BUNDLE, _RESULT, _METRICS, _ENVIRONMENT = (
    "bundle.json", "result.json", "metrics.jsonl", "environment.json",
)  # fmt: skip
_CHECKPOINTS, _GRAPH, _REPORT = "checkpoints", "graph", "report.html"
_STAGES = ("labels", "tokens", "features", "epoch", "evaluation", "inference")
_PARTS = ("model/model.safetensors", "graph/manifest.json", _RESULT, _METRICS)


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, complete or not."""
    names = (_BUNDLE, _CHECKPOINTS, _METRICS, yaml_files.NAME)
    return folder.is_dir() and any((folder / name).exists() for name in names)


def run_state(folder: Path) -> dict[str, Any]:
    """Return what the folder of a run holds, as plain values; None stands for what is not known.

    Nothing is executed and no weights are read. A part that is missing or cannot be read is listed
    under ``problems``.

    Args:
        folder: As `dhilgt train` or `NodeClassifier.fit` wrote it.

    Raises:
        ArtifactError: If the folder holds no run.
    """
    if not is_run(folder):
        raise ArtifactError(f"{folder} is not the folder of a run; give one that training wrote")
    problems: list[str] = []
    ended = (folder / _BUNDLE).exists()
    bundle = _bundle(folder / _BUNDLE, problems)
    result = _values(folder / _RESULT, problems) if bundle else None
    history = _history(folder / _METRICS, problems)
    saved, data = _saved_settings(folder, problems)
    search = _search(folder, problems)
    recipe = saved.pop("recipe", PAPER if search is None else AUTO)
    saved.pop("budget", None)
    settings = renamed((bundle or {}).get("settings") or saved)
    graph = _graph(folder / _GRAPH, problems)
    if ended:
        problems += [f"{one} is missing" for one in _PARTS if not (folder / one).exists()]
    if bundle and graph and graph["fingerprint"] != bundle.get("graph"):
        problems.append("the graph is not the one it was trained on")
    metric = str(settings.get("metric", "accuracy"))
    facts: dict[str, Any] = {
        "path": str(folder),
        "kind": "run",
        "state": _state(folder, ended, bool(history or search), bool(problems)),
        "problems": problems,
        "written_by": (bundle or {}).get("library"),
        "ended": _date(folder / _BUNDLE) if ended else None,
        "environment": _values(folder / _ENVIRONMENT, problems),
        "data": data,
        "graph": graph,
        "features": (bundle or {}).get("features"),
        "classes": (bundle or {}).get("classes"),
        "split": _by_part((bundle or {}).get("split")),
        "split_hash": None,
        "recipe": recipe,
        "search": search,
        "settings": settings,
        "changed_settings": changed(settings),
        "metric": metric,
        "scores": _by_part((bundle or {}).get("scores")),
        "majority": None,
        **_progress(history, result, settings, metric),
        "stages": _seconds(bundle),
        "files": {one.name: _size(one) for one in sorted(folder.iterdir())},
    }
    facts["seconds"] = sum(facts["stages"].values()) if facts["stages"] else None
    facts["bytes_on_disk"] = sum(facts["files"].values())
    if bundle is not None:
        facts |= _of_split(folder / _GRAPH, metric, len(bundle.get("classes") or ()))
    facts["next"] = next_commands(facts)
    return facts


def changed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the defaults.

    Example:
        >>> changed({"lr": 0.01, "seed": 0})
        {'lr': 0.01}
    """
    defaults = {one.name: one.default for one in fields(Settings)}
    return {
        name: settings[name]
        for name in defaults
        if name in settings and settings[name] != defaults[name]
    }


def next_commands(facts: Mapping[str, Any]) -> list[str]:
    """Return the commands that make sense for a run in this state."""
    place = shlex.quote(str(facts["path"]))
    if facts["state"] == RUNNING:
        return []
    if facts["state"] in (CUT_OFF, NOT_BEGUN):
        if yaml_files.NAME in facts["files"]:
            return [f"dhilgt train --resume -o {place}"]
        return [f"clf.fit(graph, run_dir={str(facts['path'])!r}, resume=True)"]
    if facts["state"] == DAMAGED:
        return []
    lost = [] if _REPORT in facts["files"] else [f"dhilgt report {place}"]
    return [
        f"dhilgt predict {place} -o predictions.csv",
        f"dhilgt evaluate {place}",
        *lost,
    ]


# ---- parts -------------------------------------------------------------------------------------


def _values(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """Return a JSON object; None where there is none, with the reason if it cannot be read."""
    if not path.exists():
        return None
    try:
        return read_object(path)
    except ArtifactError as error:
        problems.append(str(error))
        return None


def _bundle(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """Return the facts of a trained classifier, None where its file lacks what all of them have."""
    values = _values(path, problems)
    if values is None:
        return None
    parts = ("settings", "scores", "split", "stages")
    as_written = values.get("kind") == "dhilgt-classifier" and all(
        isinstance(values.get(part), dict) for part in parts
    )
    if not as_written or not all(isinstance(one, dict) for one in values["scores"].values()):
        problems.append(f"{path.name} is not as training wrote it")
        return None
    return values


def _history(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """Return the lines of the epochs; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines: list[dict[str, Any]] = []
    with explained("read", path):
        texts = path.read_bytes().splitlines()
    for number, text in enumerate(texts, start=1):
        try:
            line = strict_json(text)
        except ArtifactError:
            line = None
        if not isinstance(line, dict) or not isinstance(line.get("epoch"), int):
            if number < len(texts):
                problems.append(f"{path.name}, line {number} cannot be read")
            break
        lines.append(line)
    return lines


def _saved_settings(folder: Path, problems: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings and the sources of the graph that config.yaml has."""
    path = folder / yaml_files.NAME
    if not path.exists():
        return {}, {}
    try:
        values = yaml_files.read_settings(path)
    except ConfigError as error:
        problems.append(str(error))
        return {}, {}
    except ImportError:  # without PyYAML
        return {}, {}
    data = values.pop("data", {})
    return values, data if isinstance(data, dict) else {}


def _search(folder: Path, problems: list[str]) -> dict[str, Any] | None:
    """Return the record of what was tried; None for a run with fixed settings."""
    try:
        return read_search(folder)
    except ArtifactError as error:
        problems.append(str(error))
        return None


def _state(folder: Path, ended: bool, begun: bool, trouble: bool) -> str:
    if ended:
        return DAMAGED if trouble else WHOLE
    if _is_locked(folder):
        return RUNNING
    latest = folder / _CHECKPOINTS / "LATEST"
    return CUT_OFF if latest.exists() or begun else NOT_BEGUN


def _is_locked(folder: Path) -> bool:
    """Return whether a process of this machine trains in the folder now."""
    path = folder.resolve()
    try:
        holder = json.loads((path.parent / f".{path.name}.lock").read_text(encoding="utf-8"))
        if holder["host"] != socket.gethostname():
            return True
        os.kill(int(holder["pid"]), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _graph(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """Return sizes and checksums of the graph's parts, which its manifest has."""
    if not path.exists():
        return None
    try:
        artifact = Artifact.open(path)
        params = artifact.params
        both = 1 if params["directed"] else 2
        columns = read_columns(artifact)
        return {
            "nodes": params["num_nodes"],
            "edges": params["num_edges"] // both,
            "directed": params["directed"],
            "features": params["num_channels"],
            "columns": None if columns is None else columns.kinds,
            "cleaning": params["cleaning"],
            "fingerprint": artifact.fingerprint,
            "sha256": {name: entry.sha256 for name, entry in artifact.files.items()},
        }
    except (ArtifactError, GraphError, KeyError, TypeError) as error:
        problems.append(f"the graph: {error}")
        return None


def _of_split(path: Path, metric: str, num_classes: int) -> dict[str, Any]:
    """Return the score of a constant answer by part, and the hash of the split."""
    try:
        artifact = Artifact.open(path)
        classes = np.asarray(artifact.array("labels"))
        masks: dict[str, NDArray[np.bool_]] = {
            part: np.asarray(artifact.array(f"mask_{part}"))
            for part in MASK_NAMES
            if f"mask_{part}" in artifact.names
        }
        known = {part: classes[mask & (classes >= 0)] for part, mask in masks.items()}
        scores = {
            part: _finite(constant_score(metric, truth, known["train"], num_classes))
            for part, truth in known.items()
        }
    except (ArtifactError, KeyError, IndexError, ValueError):
        return {}  # the parts of a damaged run are listed as problems
    return {"majority": scores, "split_hash": split_hash(masks)}


def _progress(
    history: list[dict[str, Any]],
    result: dict[str, Any] | None,
    settings: Mapping[str, Any],
    metric: str,
) -> dict[str, Any]:
    """Return epochs and the best score, of the result or of the epochs so far."""
    default = next(one.default for one in fields(Settings) if one.name == "epochs")
    most = settings.get("epochs", default)
    if result is not None:
        kept = ("epochs", "best_epoch", "best_score", "stopped_early", "out_of_time")
        return {"most_epochs": most, **{name: result.get(name) for name in kept}}
    best: dict[str, Any] = {}
    for line in history:
        value = line.get("val_score")
        better = METRICS[metric].better if metric in METRICS else lambda new, old: new > old
        if value is not None and (not best or better(value, best["val_score"])):
            best = line
    return {
        "most_epochs": most,
        "epochs": history[-1]["epoch"] if history else 0,
        "best_epoch": best.get("epoch"),
        "best_score": best.get("val_score"),
        "stopped_early": None,
        "out_of_time": None,
    }


def _by_part(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return values in the order of training, validation and test; a file has them sorted."""
    if values is None:
        return None
    return {part: values[part] for part in MASK_NAMES if part in values} | values


def _seconds(bundle: dict[str, Any] | None) -> dict[str, float] | None:
    if bundle is None:
        return None
    measured = bundle["stages"]
    order = {name: at for at, name in enumerate(_STAGES)}
    names = sorted(measured, key=lambda name: order.get(name, len(order)))
    return {name: float(measured[name]["seconds"]) for name in names if "seconds" in measured[name]}


def _date(path: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    if path.is_dir() and not path.is_symlink():
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    return path.lstat().st_size


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
