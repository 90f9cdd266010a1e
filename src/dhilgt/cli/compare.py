"""`dhilgt inspect A B`: the differences of two runs, or of two artifacts of one kind."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dhilgt.cli.inspect_runs import value_text
from dhilgt.cli.shell import columns
from dhilgt.cli.train_output import score_text, spread_text
from dhilgt.errors import ArtifactError
from dhilgt.report.run import folder, seeds, tried
from dhilgt.settings.settings import Settings
from dhilgt.store.artifact import Artifact

if TYPE_CHECKING:
    from numpy.typing import NDArray

Facts = Mapping[str, Any]
_LONGEST = 40
_KINDS = {"run": "a run", "runs": "runs of several seeds", "graph": "a graph", "model": "a model"}
# What the arrays of a graph are to people; other arrays are compared under their own names.
_GRAPH_PARTS = {
    "offsets": "edges", "targets": "edges", "features": "features", "labels": "classes",
    "mask_train": "training nodes", "mask_val": "validation nodes", "mask_test": "test nodes",
}  # fmt: skip
# Facts of every artifact that say nothing about its content.
_BESIDE = {"path", "kind", "format", "written_by", "verified"}


def check_kinds(first: Facts, second: Facts) -> None:
    """Raise for two things that cannot be compared."""
    if first["kind"] != second["kind"]:
        one, other = (
            f"{about['path']} holds {_KINDS.get(about['kind'], about['kind'])}"
            for about in (first, second)
        )
        raise ArtifactError(f"{one}, {other}; compare two of one kind")


def compared(first: Facts, second: Facts) -> dict[str, Any]:
    """Return the differences of two descriptions of one kind, as plain values."""
    check_kinds(first, second)
    facts: dict[str, Any] = {
        "kind": first["kind"],
        "paths": [first["path"], second["path"]],
    }
    if first["kind"] == "run":
        return facts | _runs(first, second)
    if first["kind"] == "runs":
        return facts | _seeds(first, second)
    return facts | {"differences": _differences(first, second), "arrays": _arrays(first, second)}


def lines_of(facts: Facts) -> list[str]:
    """Return the comparison as text."""
    one, other = facts["paths"]
    lines = [f"A  {one}", f"B  {other}", ""]
    if "settings" in facts:
        lines += _table("setting", facts["settings"], "settings: the same")
        if facts["choice"]:
            lines += ["", *_table("choice", facts["choice"], "")]
        lines += ["", *_data_lines(facts)]
    else:
        lines += _table("", facts["differences"], "the descriptions are the same")
        differ = [name for name, same in facts["arrays"].items() if not same]
        same = [name for name, equal in facts["arrays"].items() if equal]
        lines += [f"content that differs: {', '.join(differ)}"] if differ else []
        lines += [f"content that is the same, byte for byte: {', '.join(same)}"] if same else []
    if facts.get("scores"):
        lines += ["", *columns(_score_rows(facts["scores"]))]
    if facts.get("paired"):
        lines.append(_paired_text(facts["paired"]))
    return lines


# ---- runs --------------------------------------------------------------------------------------


def _runs(first: Facts, second: Facts) -> dict[str, Any]:
    data = _data(first, second)
    return {
        "settings": _settings(first["settings"], second["settings"]),
        "choice": _choice(first, second),
        "data": data,
        "scores": _scores(first, second),
        "paired": _paired(first, second, data),
    }


def _settings(first: Facts, second: Facts) -> dict[str, list[Any]]:
    defaults = {one.name: one.default for one in fields(Settings)}
    pairs = {
        name: [first.get(name, default), second.get(name, default)]
        for name, default in defaults.items()
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _choice(first: Facts, second: Facts) -> dict[str, list[Any]]:
    """Return how the settings of two runs came about, where that differs."""
    pairs = {
        "recipe": [one["recipe"] for one in (first, second)],
        "chosen": [tried.chosen_names(one["search"]) or None for one in (first, second)],
        "tried": [
            None if one["search"] is None else len(one["search"]["candidates"])
            for one in (first, second)
        ],
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _data(first: Facts, second: Facts) -> dict[str, bool | None]:
    """Return whether the parts of two graphs are the same, byte for byte; None: not known."""
    if first["graph"] is None or second["graph"] is None:
        return {}
    return _same_parts(first["graph"]["sha256"], second["graph"]["sha256"])


def _same_parts(first: Facts, second: Facts) -> dict[str, bool | None]:
    same: dict[str, bool | None] = {}
    for name in sorted({*first, *second}, key=lambda name: (name not in _GRAPH_PARTS, name)):
        sparse = name.startswith("features_")
        ids = name.startswith("ids")
        part = "features" if sparse else "ids" if ids else _GRAPH_PARTS.get(name, name)
        same[part] = bool(same.get(part, True)) and first.get(name) == second.get(name)
    return same


def _scores(first: Facts, second: Facts) -> list[dict[str, Any]]:
    if not first["scores"] or not second["scores"]:
        return []
    rows = []
    for part in [one for one in first["scores"] if one in second["scores"]]:
        for name in first["scores"][part]:
            pair = [one["scores"][part].get(name) for one in (first, second)]
            known = None not in pair
            rows.append({"part": part, "score": name, "values": pair,
                         "difference": pair[1] - pair[0] if known else None})  # fmt: skip
    return rows


def _paired(first: Facts, second: Facts, data: Facts) -> dict[str, Any] | None:
    """Return the difference on the same test nodes with its interval; None if they differ."""
    whole = first["state"] == second["state"] == folder.WHOLE
    same_nodes = all(data.get(part, True) for part in ("ids", "classes", "test nodes"))
    sizes = {one["graph"]["nodes"] for one in (first, second) if one["graph"]}
    if not whole or not same_nodes or len(sizes) != 1 or not (first["split"] or {}).get("test"):
        return None
    if first["metric"] != second["metric"] or first["classes"] != second["classes"]:
        return None
    from dhilgt.report.run.analysis import paired_interval

    truth, one = _test_logits(Path(first["path"]))
    _, other = _test_logits(Path(second["path"]))
    difference, interval = paired_interval(first["metric"], truth, one, other)
    right = [logits.argmax(axis=1) == truth for logits in (one, other)]
    return {
        "score": first["metric"],
        "nodes": len(truth),
        "difference": difference,
        "low": interval.low,
        "high": interval.high,
        "only_first_right": int((right[0] & ~right[1]).sum()),
        "only_second_right": int((right[1] & ~right[0]).sum()),
    }


def _test_logits(path: Path) -> "tuple[NDArray[np.int64], NDArray[Any]]":
    from dhilgt.cli.predict import load

    clf = load(path, None, False)
    nodes = clf.split_["test"]
    assert clf.graph_.labels is not None
    nodes = nodes[clf.graph_.labels[nodes] >= 0]
    probabilities = clf.predict_proba(clf.graph_.ids_of(nodes))
    return clf.graph_.labels[nodes], np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))


def _seeds(first: Facts, second: Facts) -> dict[str, Any]:
    """Return the comparison of runs with several seeds, paired by seed."""
    named = [{Path(run["path"]).name: run for run in one["runs"]} for one in (first, second)]
    shared = [name for name in named[0] if name in named[1]]
    one, other = (runs[shared[0]] if shared else next(iter(runs.values())) for runs in named)
    settings = _settings(one["settings"], other["settings"])
    if not shared:
        settings.pop("seed", None)
    same_metric = first["metric"] == second["metric"]
    rows = []
    for part in [part for part in first["summary"] if same_metric and part in second["summary"]]:
        pair = [about["summary"][part]["mean"] for about in (first, second)]
        rows.append({
            "part": part,
            "score": first["metric"],
            "values": pair,
            "spread": [spread_text(about["summary"][part]) for about in (first, second)],
            "difference": None if None in pair else pair[1] - pair[0],
        })  # fmt: skip
    pairs = [(named[0][name], named[1][name]) for name in shared] if same_metric else []
    return {
        "settings": settings,
        "choice": _choice(one, other),
        "data": _data(one, other),
        "scores": rows,
        "paired": _paired_seeds(pairs),
    }


def _paired_seeds(pairs: Sequence[tuple[Facts, Facts]]) -> dict[str, Any] | None:
    """Return mean and standard deviation of the differences on the test nodes, seed by seed."""
    scores = [(_test_score(one), _test_score(other)) for one, other in pairs]
    changes = [b - a for a, b in scores if a is not None and b is not None]
    if len(changes) < 2:
        return None
    found = seeds.summary([{"test": {"change": change}} for change in changes], "change")["test"]
    return {"seeds": len(changes), **found}


def _test_score(run: Facts) -> float | None:
    score: float | None = ((run["scores"] or {}).get("test") or {}).get(run["metric"])
    return score


# ---- artifacts ---------------------------------------------------------------------------------


def _differences(first: Facts, second: Facts) -> dict[str, list[Any]]:
    names = [name for name in {**first, **second} if name not in _BESIDE]
    return {
        name: [first.get(name), second.get(name)]
        for name in names
        if first.get(name) != second.get(name)
    }


def _arrays(first: Facts, second: Facts) -> dict[str, bool | None]:
    """Return whether the arrays of two artifacts are the same, byte for byte."""
    if first["kind"] in ("model", "checkpoints"):
        return {}
    sums = [
        {name: entry.sha256 for name, entry in Artifact.open(one["path"]).files.items()}
        for one in (first, second)
    ]
    return _same_parts(*sums)


# ---- text --------------------------------------------------------------------------------------


def _table(heading: str, differences: Facts, nothing: str) -> list[str]:
    if not differences:
        return [nothing]
    rows: list[Sequence[str]] = [(heading, "A", "B")]
    rows += [(name, *(_short(value) for value in pair)) for name, pair in differences.items()]
    return columns(rows)


def _short(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else ""
    text = text or value_text(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _data_lines(facts: Facts) -> list[str]:
    data: Facts = facts["data"]
    if not data:
        return ["data: not known, as a graph is missing"]
    differ = [part for part, same in data.items() if not same]
    if not differ:
        return ["data: the same edges, features, classes and split"]
    return [f"data: other {' and '.join(differ)}"]


def _score_rows(scores: Sequence[Facts]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("part", "score", "A", "B", "B - A")]
    for one in scores:
        shown = one.get("spread") or [score_text(value) for value in one["values"]]
        change = "undefined" if one["difference"] is None else f"{one['difference']:+.4f}"
        rows.append((one["part"], one["score"], *shown, change))
    return rows


def _paired_text(paired: Facts) -> str:
    if "seeds" in paired:
        return (
            f"paired by seed on {paired['seeds']} seeds: B - A = {paired['mean']:+.4f} ± "
            f"{paired['sd']:.4f} (standard deviation)"
        )
    low, high = paired["low"], paired["high"]
    decided = "" if low > 0 or high < 0 else "; chance alone could make this difference"
    return (
        f"on the same {paired['nodes']:,} test nodes: B - A = {paired['difference']:+.4f} "
        f"{paired['score']}, 95 % interval {low:+.4f} to {high:+.4f}{decided}\n"
        f"right in A only: {paired['only_first_right']:,} nodes, in B only: "
        f"{paired['only_second_right']:,} nodes"
    )
