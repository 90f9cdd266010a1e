"""Section of the report about what the run tried before it chose."""

from collections.abc import Mapping
from typing import Any

from dhilgt.report import text
from dhilgt.report.html import Markup, columns, figure, joined, named, section, table, tag
from dhilgt.report.run import charts, tried
from dhilgt.report.run.charts import ChartText, Curve

Facts = Mapping[str, Any]


def search(facts: Facts) -> Markup:
    """Return what was tried, what was chosen and why, and what the graph is worth.

    Empty for a run whose settings were fixed.
    """
    record: Any = facts.get("search")
    if not tried.is_record(record):
        return Markup("")
    evaluated = facts["evaluated"]
    sentences = [
        record["sentence"],
        tried.worth(record, facts["metric"], evaluated["score"], evaluated["part"]),
        _within(facts, record),
    ]
    return section(
        "search",
        "What was tried",
        *(tag("p", sentence) for sentence in sentences if sentence),
        columns(_beside(facts, record), _chart(record)),
        _table(record),
    )


def _within(facts: Facts, record: Facts) -> str:
    """Return a caution where the difference to the plain MLP is within the score's interval."""
    evaluated = facts["evaluated"]
    alone = tried.reference(record, "mlp", evaluated["part"])
    ends = evaluated["interval"]
    if alone is None or ends is None or not text.is_number(ends["low"]):
        return ""
    if not ends["low"] <= alone <= ends["high"]:
        return ""
    return (
        f"With {text.plural(evaluated['nodes'], 'node')} to compare on, chance alone could make "
        "this difference: the score of the plain MLP lies within the interval of the run's score."
    )


def _beside(facts: Facts, record: Facts) -> Markup:
    """Return the scores of the run, of a plain MLP and of one answer for all nodes."""
    metric = str(facts["metric"])
    own = {part: (facts["scores"].get(part) or {}).get(metric) for part in ("val", "test")}
    parts = [part for part in own if text.is_number(own[part])]
    rows = [["This run", *(text.score(own[part], metric) for part in parts)]]
    for key, name in (("mlp", "Plain MLP, features alone"), ("majority", "One answer for all")):
        values = [tried.reference(record, key, part) for part in parts]
        if any(value is not None for value in values):
            rows.append([name, *(text.score(value, metric) for value in values)])
    heads = ["", *(f"{text.capital(text.PARTS[part])} nodes" for part in parts)]
    called = text.METRICS.get(metric, metric)
    return table(f"{text.capital(called)} with the graph and without it", heads, rows)


def _chart(record: Facts) -> Markup:
    """Return the score of each candidate over the epochs at which candidates were compared."""
    metric = text.METRICS.get(record["metric"], record["metric"])
    averaged = [one["name"] for one in record["chosen"]]
    named_averaged = False
    curves, told = [], []
    for one in record["candidates"]:
        points = [(float(at), mean) for at, (mean, _) in sorted(tried.scores(one).items())]
        if not points:
            continue
        # A legend of all candidates has no room; the table names them.
        style, shown = "other", ""
        if one["status"] == "reference":
            style, shown = "second", text.shortened(one["name"], 20)
        elif one["name"] in averaged[:1]:
            style, shown = "first", text.shortened(one["name"], 20)
        elif one["name"] in averaged:
            style, shown = "also", "" if named_averaged else "averaged with it"
            named_averaged = True
        curves.append(Curve(shown, points, style))
        told.append(f"{one['name']}: {text.score(points[-1][1], record['metric'])}")
    curves.sort(key=lambda curve: ("other", "also", "second", "first").index(curve.style))
    words = ChartText(
        "tried-curve", f"Validation {metric} by epoch", f"Last scores: {', '.join(told)}."
    )
    return figure(
        charts.line_chart(words, curves, x_name="epochs trained"),
        f"The validation {metric} of every candidate when it was compared with the others; grey "
        "lines end where a candidate was dropped.",
    )


def _table(record: Facts) -> Markup:
    epochs = tried.rungs(record)
    rows = []
    for one in record["candidates"]:
        found = tried.scores(one)
        rows.append(
            [
                joined([named(one["name"]), tag("small", one["about"])]),
                text.capital(tried.outcome(record, one)),
                *(_score(found.get(at), record["metric"]) for at in epochs),
                text.duration(tried.seconds(one)),
            ]
        )
    heads = ["Candidate", "Outcome", *(text.plural(at, "epoch") for at in epochs), "Time"]
    seeds = record.get("seeds", 1)
    over = f", mean ± deviation of {text.plural(seeds, 'seed')}" if seeds > 1 else ""
    caption = f"Candidates and their scores on the validation nodes{over}"
    return table(caption, heads, rows, text_columns=2, hidden_when_narrow=range(2, 1 + len(epochs)))


def _score(found: tuple[float, float | None] | None, metric: str) -> str:
    if found is None:
        return "–"
    mean, deviation = found
    if deviation is None:
        return text.score(mean, metric)
    spread = f"{100 * deviation:.1f}" if metric == "accuracy" else text.number(deviation)
    return f"{text.score(mean, metric)} ± {spread}"
