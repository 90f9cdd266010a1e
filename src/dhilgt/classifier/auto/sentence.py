"""What a search chose and why, in plain English."""

from __future__ import annotations

from collections.abc import Mapping

from dhilgt.classifier.auto.halving import mean_score
from dhilgt.classifier.auto.portfolio import FEATURES_ALONE
from dhilgt.classifier.auto.record import CHOSEN, SearchRecord, Trial


def sentence(record: SearchRecord, about: Mapping[str, str]) -> str:
    """Return what was chosen, by how much, and what the graph is worth.

    Args:
        record: Of a search that has ended.
        about: What each candidate learns from.
    """
    winner = next(one for one in record.candidates if one.status == CHOSEN)
    named = f"{winner.name} ({about[winner.name]})"
    score = _score(winner)
    if score is None:
        return f"There are no validation nodes to choose by: {named} was trained."
    count = len(winner.rungs[-1].scores)  # those that are averaged may have further ones
    seeds = f", mean of {count} seeds" if count > 1 else ""
    tried = sum(bool(one.rungs) for one in record.candidates)
    parts = [
        f"Of {tried} candidates {named} was chosen: {record.metric} {score:.4f} on the validation "
        f"nodes{seeds}.",
        _worth(record, winner, score),
    ]
    if len(record.chosen) > 1:
        parts.append(_averaged(record))
    if record.out_of_time:
        parts.append("The budget ended the search early: the best so far is used.")
    return " ".join(part for part in parts if part)


def _averaged(record: SearchRecord) -> str:
    models = f"The probabilities of {len(record.chosen)} models are averaged"
    others = len({one["name"] for one in record.chosen}) - 1
    if not others:
        return f"{models}: they differ by their seed."
    noun = "candidate" if others == 1 else "candidates"
    return f"{models}: {others} other {noun} did not score clearly worse."


def _worth(record: SearchRecord, winner: Trial, score: float) -> str:
    alone = next((one for one in record.candidates if one.name == FEATURES_ALONE), None)
    other = None if alone is None else _score(alone)
    if winner is alone:
        return "The graph did not help: the features alone did best." if _others(record) else ""
    if other is None:
        return ""
    gain = (score - other) * (1 if record.higher_is_better else -1)
    size = f"{abs(gain):.4f}" if record.metric == "loss" else f"{100 * abs(gain):.1f} points"
    verb = "is worth" if gain >= 0 else "costs"
    return f"The features alone have {other:.4f}: the graph {verb} {size}."


def _others(record: SearchRecord) -> bool:
    return any(one.rungs for one in record.candidates if one.status != CHOSEN)


def _score(trial: Trial) -> float | None:
    """Return the mean of the scores of the last rung that a candidate reached."""
    scores = [one for one in trial.rungs[-1].scores if one is not None] if trial.rungs else []
    return mean_score(scores) if scores else None
