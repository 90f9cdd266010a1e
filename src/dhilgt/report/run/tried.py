"""What a run tried before it chose: the record of its search, checked and put into words.

The record is the one that training with the recipe "auto" leaves in `search.json`.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.errors import ArtifactError
from dhilgt.metrics import METRICS
from dhilgt.report import text
from dhilgt.store.files import read_object

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

SEARCH = "search.json"
Record = Mapping[str, Any]
_CANDIDATE = {"name": str, "about": str, "settings": dict, "rungs": list, "status": str}
_RECORD = {
    "metric": str, "higher_is_better": bool, "rungs": list, "candidates": list,
    "references": dict, "chosen": list, "sentence": str,
}  # fmt: skip
_STATUS = {
    "chosen": "chosen",
    "averaged": "averaged with it",
    "reference": "for comparison",
    "dropped": "dropped",
    "failed": "failed",
    "running": "not ended",
}


def search_record(clf: "NodeClassifier") -> dict[str, Any] | None:
    """Return the record of a classifier's search, None for one with fixed settings."""
    record = getattr(clf, "search_", None)
    return None if record is None else _shown(record.to_dict())


def read_search(folder: Path) -> dict[str, Any] | None:
    """Return the record of a run's search, None where the folder has none.

    Args:
        folder: Of the run; it is not trusted.

    Raises:
        ArtifactError: If the file is damaged, or is no such record.
    """
    path = folder / SEARCH
    if not path.exists():
        return None
    record = read_object(path)
    if not is_record(record):
        raise ArtifactError(f"{path} is not the record of a search; it cannot be shown")
    return _shown(record)


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what only a search that goes on needs."""
    return {name: value for name, value in record.items() if name != "began"}


def is_record(values: Any) -> bool:
    """Return whether values have the parts of a search's record.

    Example:
        >>> is_record({"metric": "accuracy"})
        False
    """
    return (
        _has(values, _RECORD)
        and all(_is_candidate(one) for one in values["candidates"])
        and all(_has(one, {"name": str}) for one in values["chosen"])
        and all(isinstance(one, dict) for one in values["references"].values())
    )


def _is_candidate(one: Any) -> bool:
    return _has(one, _CANDIDATE) and all(
        _has(rung, {"epochs": int, "scores": list})
        and all(score is None or text.is_number(score) for score in rung["scores"])
        for rung in one["rungs"]
    )


def _has(values: Any, parts: Mapping[str, type]) -> bool:
    return isinstance(values, dict) and all(
        isinstance(values.get(name), kind) for name, kind in parts.items()
    )


def chosen_names(record: Record | None) -> str:
    """Return the names of what was chosen, joined by a plus sign; "" without a search.

    Example:
        >>> chosen_names({"chosen": [{"name": "hubs"}, {"name": "token row"}, {"name": "hubs"}]})
        'hubs + token row'
    """
    return " + ".join(dict.fromkeys(one["name"] for one in (record or {}).get("chosen", ())))


# ---- candidates --------------------------------------------------------------------------------


def rungs(record: Record) -> list[int]:
    """Return the numbers of epochs after which candidates were compared, in ascending order."""
    reached = {rung["epochs"] for one in record["candidates"] for rung in one["rungs"]}
    return sorted(reached)


def scores(candidate: Record) -> dict[int, tuple[float, float | None]]:
    """Return mean and standard deviation over the seeds by epochs; one seed has no deviation.

    Args:
        candidate: One of the record's candidates.

    Example:
        >>> scores({"rungs": [{"epochs": 30, "scores": [0.6]}, {"epochs": 90, "scores": []}]})
        {30: (0.6, None)}
    """
    found: dict[int, tuple[float, float | None]] = {}
    for rung in candidate["rungs"]:
        known = [float(score) for score in rung["scores"] if text.is_number(score)]
        if known:
            deviation = statistics.stdev(known) if len(known) > 1 else None
            found[rung["epochs"]] = statistics.fmean(known), deviation
    return found


def seconds(candidate: Record) -> float:
    """Return the seconds that a candidate took, over all its rungs and seeds."""
    return float(sum(rung.get("seconds") or 0.0 for rung in candidate["rungs"]))


def outcome(record: Record, candidate: Record) -> str:
    """Return what became of a candidate, in words.

    Example:
        >>> record = {"chosen": []}
        >>> outcome(record, {"name": "a", "status": "dropped", "rungs": [{"epochs": 30}]})
        'dropped after 30 epochs'
    """
    status = str(candidate["status"])
    words = _STATUS.get(status, status)
    if status == "dropped" and candidate["rungs"]:
        words += f" after {text.plural(candidate['rungs'][-1]['epochs'], 'epoch')}"
    if status == "failed" and candidate.get("error"):
        words += f": {candidate['error']}"
    members = [one for one in record["chosen"] if one["name"] == candidate["name"]]
    total = sum(one.get("weight") or 1.0 for one in record["chosen"])
    if members and len(record["chosen"]) > 1:
        weight = sum(one.get("weight") or 1.0 for one in members) / total
        words += f", weight {text.percent(weight, 0)}"
    return words


# ---- the graph's worth -------------------------------------------------------------------------


def reference(record: Record, name: str, part: str) -> float | None:
    """Return the score of "mlp" or "majority" on a part of the nodes; None if not known."""
    value: Any = (record["references"].get(name) or {}).get(part)
    return float(value) if text.is_number(value) else None


def worth(record: Record, metric: str, score: float | None, part: str) -> str:
    """Return a sentence on whether the graph helps, and by how much; "" where it is not known.

    Args:
        record: Of the search.
        metric: Of the run; the search goes by the loss where it is undefined.
        score: Of the run, on the part.
        part: "test", or "val" where there are no test nodes.

    Example:
        >>> record = {"references": {"mlp": {"val": 0.7, "test": 0.75}}}
        >>> worth(record, "roc_auc", 0.8, "test")[:59]
        'The graph helps: ROC AUC on the test nodes is 0.800 with it'
    """
    alone = reference(record, "mlp", part)
    if alone is None or not text.is_number(score):
        return ""
    assert score is not None
    known = METRICS.get(metric)
    gain = (score - alone) * (1 if known is None or known.higher_is_better else -1)
    size = _difference(abs(gain), metric)
    name, nodes = text.METRICS.get(metric, metric), text.PARTS[part]
    numbers = (
        f"{name} on the {nodes} nodes is {text.score(score, metric)} with it, "
        f"{text.score(alone, metric)} without it (a plain MLP on the features alone)"
    )
    if size == _difference(0.0, metric):
        return f"The graph makes no difference here: {numbers}."
    if gain < 0:
        return f"The graph does not help here: {numbers}, {size} worse."
    return f"The graph helps: {numbers}, {size} better."


def _difference(size: float, metric: str) -> str:
    return f"{100 * size:.1f} points" if metric == "accuracy" else text.number(size)
