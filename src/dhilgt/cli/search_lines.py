"""Lines about what a run tried before it chose, for `dhilgt train`, `inspect` and `explain`."""

from collections.abc import Mapping
from typing import Any

from dhilgt.classifier.planning import format_seconds
from dhilgt.report import text
from dhilgt.report.run import tried

Facts = Mapping[str, Any]
_LONGEST = 60


def summary_rows(record: Facts, metric: str, scores: Facts | None) -> list[tuple[str, str]]:
    """Return what was chosen, what the graph is worth, and what the search took.

    Args:
        record: Of the search.
        metric: Of the run.
        scores: Of the run, by part and metric; None if they are not known.
    """
    candidates, seeds = record["candidates"], record.get("seeds", 1)
    each = f", {seeds} seeds each" if seeds > 1 else ""
    seconds = format_seconds(float(record.get("seconds") or 0.0))
    rows = [
        ("chosen", record["sentence"]),
        ("worth", worth(record, metric, scores)),
        ("tried", f"{len(candidates)} candidates{each}, {seconds} in all"),
    ]
    return [(name, value) for name, value in rows if value]


def worth(record: Facts, metric: str, scores: Facts | None) -> str:
    """Return the sentence on what the graph is worth, by the test nodes where there are any."""
    for part in ("test", "val"):
        found = ((scores or {}).get(part) or {}).get(metric)
        if found is not None:
            return plain(tried.worth(record, metric, found, part))
    return ""


def candidate_rows(record: Facts) -> list[tuple[str, ...]]:
    """Return the table of what was tried: a heading, then a line per candidate."""
    epochs = tried.rungs(record)
    heads = [text.plural(at, "epoch") for at in epochs]
    rows: list[tuple[str, ...]] = [("candidate", *heads, "time", "outcome")]
    for one in record["candidates"]:
        found = tried.scores(one)
        shown = [_score(found.get(at)) for at in epochs]
        ending = plain(tried.outcome(record, one))
        ending = ending if len(ending) <= _LONGEST else f"{ending[: _LONGEST - 1]}…"
        rows.append((one["name"], *shown, format_seconds(tried.seconds(one)), ending))
    return rows


def _score(found: tuple[float, float | None] | None) -> str:
    if found is None:
        return "-"
    mean, deviation = found
    return f"{mean:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def plain(sentence: str) -> str:
    """Return a sentence of a page for a terminal, which breaks lines at no-break spaces too."""
    return sentence.replace("\N{NO-BREAK SPACE}", " ")
