"""The lines of `dhilgt inspect` about a run, runs of several seeds, a model and checkpoints."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dhilgt.classifier.planning import format_seconds
from dhilgt.cli import search_lines
from dhilgt.cli.shell import columns
from dhilgt.cli.train_output import score_rows, score_text, spread_text
from dhilgt.report.run import folder, parts, seeds, tried
from dhilgt.utils.memory import format_bytes

Facts = Mapping[str, Any]
Rows = list[tuple[str, str]]
RECIPES = {
    "auto": "auto: several kinds of models tried, the best kept",
    "paper": "paper: fixed settings",
    "best": "best: fixed settings",
}
_CLASSES_SHOWN = 8
_COLUMNS_SHOWN = 6


def facts_of(path: Path, *, verify: bool) -> dict[str, Any] | None:
    """Return what a folder holds that is no artifact; None for any other folder.

    Args:
        path: The folder.
        verify: Read every byte and compare it with the checksums.
    """
    if parts.is_model(path):
        return parts.model_state(path)
    if parts.checkpoint_folders(path):
        return parts.checkpoints_state(path, verify=verify)
    if seeds.seed_folders(path):
        return seeds.seeds_state(path)
    if not folder.is_run(path):
        return None
    facts = folder.run_state(path)
    if verify and facts["state"] == folder.WHOLE:
        _load(path)
    return facts


def _load(path: Path) -> None:
    """Read a run as a prediction does, and every byte of its graph and newest checkpoint."""
    from dhilgt.classifier.classifier import NodeClassifier
    from dhilgt.graph.store import load_graph
    from dhilgt.training.run_folder import RunFolder

    load_graph(path / "graph", verify=True)
    NodeClassifier.load(path, device="cpu")
    RunFolder(path).checkpoints.load()


def lines_of(facts: Facts) -> tuple[Rows, list[str]]:
    """Return names and values, and the text below them."""
    describe = {"run": _run, "runs": _runs, "model": _model, "checkpoints": _checkpoints}
    return describe[facts["kind"]](facts)


# ---- one run -----------------------------------------------------------------------------------


def _run(facts: Facts) -> tuple[Rows, list[str]]:
    rows: Rows = [("run", state_text(facts))]
    rows += [("problem", one) for one in facts["problems"]]
    if facts["ended"] is not None:
        rows.append(("ended", f"{facts['ended']}{_where(facts['environment'])}"))
    data = facts["data"]
    rows += [("data", ", ".join(f"{name} {value}" for name, value in data.items()))] if data else []
    if facts["graph"] is not None:
        rows += graph_rows(facts)
    if facts["split"]:
        rows.append(("split", split_text(facts["split"])))
    record = facts["search"]
    rows.append(("recipe", RECIPES[facts["recipe"]]))
    if record is not None:
        rows += search_lines.summary_rows(record, facts["metric"], facts["scores"])
    rows.append(("settings", settings_text(facts["changed_settings"])))
    rows.append(("epochs", epochs_text(facts)))
    if facts["stages"]:
        stages = ", ".join(f"{name} {value:.2f}" for name, value in facts["stages"].items())
        rows.append(("seconds", f"{facts['seconds']:.2f}: {stages}"))
    files = ", ".join(facts["files"])
    rows.append(("files", f"{format_bytes(facts['bytes_on_disk'])}: {files}"))
    lines = ["", *columns(score_rows(dict(facts)))] if facts["scores"] else []
    if record is not None:
        lines += ["", *columns(search_lines.candidate_rows(record)), ""]
    return rows, [*lines, *_next(facts["next"])]


def _where(environment: Facts | None) -> str:
    if not environment:
        return ""
    names = [f"{name} {environment[name]}" for name in ("dhilgt", "torch") if name in environment]
    gpus = environment.get("gpus") or []
    place = gpus[0] if gpus else environment.get("device", "an unknown device")
    return f", {', '.join(names)} on {place}" if names else f" on {place}"


def state_text(facts: Facts) -> str:
    """Return where a run stands, in words."""
    state = facts["state"]
    if state == folder.WHOLE:
        return "ended, all parts are there"
    if state == folder.DAMAGED:
        return "damaged: train again, or restore it from a copy"
    if state == folder.RUNNING:
        return f"running now: epoch {facts['epochs'] + 1:,} of at most {facts['most_epochs']:,}"
    if state == folder.NOT_BEGUN:
        return "stopped before its first epoch was over"
    if facts["search"] is not None and not facts["epochs"]:
        return f"cut off in its search, after {facts['search']['num_epochs']:,} epochs in all"
    return f"cut off after epoch {facts['epochs']:,} of at most {facts['most_epochs']:,}"


def columns_row(kinds: Mapping[str, str] | None) -> Rows:
    """Return the line about the columns that features were encoded from, if they have names."""
    if not kinds:
        return []
    shown = [f"{name} ({kind})" for name, kind in itertools.islice(kinds.items(), _COLUMNS_SHOWN)]
    more = f" and {len(kinds) - _COLUMNS_SHOWN:,} more" if len(kinds) > _COLUMNS_SHOWN else ""
    return [("columns", ", ".join(shown) + more)]


def graph_rows(facts: Facts) -> Rows:
    """Return the lines about the graph of a run."""
    graph, classes = facts["graph"], facts["classes"] or []
    kind = "directed" if graph["directed"] else "undirected"
    shown = ", ".join(map(str, classes[:_CLASSES_SHOWN]))
    more = ", ..." if len(classes) > _CLASSES_SHOWN else ""
    scale = facts["settings"].get("feature_scale", "none")
    return [
        ("graph", f"{kind}, {graph['nodes']:,} nodes, {graph['edges']:,} edges"),
        ("features", f"{graph['features'] or 0:,} a node, scale {scale}"),
        *columns_row(graph["columns"]),
        ("classes", f"{len(classes):,}: {shown}{more}"),
    ]


def split_text(split: Facts) -> str:
    """Return the sizes of the parts of a split.

    Example:
        >>> split_text({"train": 1600, "val": 400})
        '1,600 train, 400 val'
    """
    return ", ".join(f"{count:,} {part}" for part, count in split.items())


def settings_text(changed: Facts) -> str:
    """Return the settings that are not defaults.

    Example:
        >>> settings_text({"lr": 0.001, "fresh": True}), settings_text({})
        ('lr 0.001, fresh true; the others are defaults', 'all are defaults')
    """
    if not changed:
        return "all are defaults"
    listed = ", ".join(f"{name} {value_text(value)}" for name, value in changed.items())
    return f"{listed}; the others are defaults"


def value_text(value: Any) -> str:
    """Return the value of a setting as files of settings write it."""
    if isinstance(value, float):
        return f"{value:g}"
    return (
        "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def epochs_text(facts: Facts) -> str:
    """Return how many epochs were trained, and which was the best."""
    count = f"{facts['epochs']:,}"
    if not facts["best_epoch"]:
        return count
    score = ""
    if facts["best_score"] is not None:
        score = f" (validation {facts['metric']} {facts['best_score']:.4f})"
    why = "; it stopped early" if facts["stopped_early"] else ""
    why = "; its time was over" if facts["out_of_time"] else why
    best = "the best was" if facts["ended"] else "the best so far is"
    return f"{count}, {best} {facts['best_epoch']:,}{score}{why}"


def _next(commands: list[str]) -> list[str]:
    heads = ["next: "] + ["      "] * len(commands)
    return [f"{head}{one}" for head, one in zip(heads, commands, strict=False)]


# ---- several seeds -----------------------------------------------------------------------------


def _runs(facts: Facts) -> tuple[Rows, list[str]]:
    runs, metric = facts["runs"], facts["metric"]
    rows: Rows = [("runs", f"{facts['ended']:,} of {len(runs):,} have ended")]
    first = next((one for one in runs if one["graph"] is not None), runs[0])
    if first["graph"] is not None:
        rows += graph_rows(first)
    changed = {name: value for name, value in first["changed_settings"].items() if name != "seed"}
    rows.append(("settings", settings_text(changed)))
    used = list(facts["summary"])
    searched = any(one["search"] for one in runs)
    heads = [f"{part} {metric}" for part in used] + (["chosen"] if searched else [])
    table: list[tuple[str, ...]] = [("seed", *heads, "state")]
    for one in runs:
        scores = one["scores"] or {}
        shown = [_of_part(scores, part, metric) for part in used]
        shown += [tried.chosen_names(one["search"])] if searched else []
        table.append((Path(one["path"]).name.removeprefix(seeds.PREFIX), *shown, _ending(one)))
    spread = [spread_text(one) for one in facts["summary"].values()]
    table.append(("mean ± sd", *spread, *([""] if searched else []), ""))
    again = [command for one in runs if one["state"] != folder.WHOLE for command in one["next"]]
    return rows, ["", *columns(table), *_next(again)]


def _of_part(scores: Facts, part: str, metric: str) -> str:
    return score_text(scores[part].get(metric)) if part in scores else "-"


def _ending(facts: Facts) -> str:
    if facts["state"] == folder.WHOLE:
        return f"ended, {format_seconds(facts['seconds'] or 0.0)}"
    return state_text(facts)


# ---- model and checkpoints ---------------------------------------------------------------------


def _model(facts: Facts) -> tuple[Rows, list[str]]:
    settings = ", ".join(f"{name} {value_text(one)}" for name, one in facts["config"].items())
    return [
        ("model", f"{facts['parameters']:,} parameters in {facts['tensors']:,} tensors"),
        ("settings", settings),
        ("on disk", format_bytes(facts["bytes_on_disk"])),
    ], []


def _checkpoints(facts: Facts) -> tuple[Rows, list[str]]:
    rows: Rows = [("newest", facts["latest"])] if facts["latest"] else []
    for one in facts["checkpoints"]:
        batches = f" and {one['batch']:,} batches" if one["batch"] else ""
        best = "none yet"
        if one["best_epoch"]:
            best = f"epoch {one['best_epoch']:,}, score {score_text(one['best_score'])}"
        size = format_bytes(one["bytes_on_disk"])
        rows.append((one["name"], f"after {one['epoch']:,} epochs{batches}; best: {best}; {size}"))
    return rows, []
