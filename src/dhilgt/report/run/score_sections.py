"""Sections of the report about the score and about the training that led to it."""

from collections.abc import Mapping
from typing import Any

from dhilgt.metrics import METRICS
from dhilgt.report import text
from dhilgt.report.html import Markup, columns, figure, joined, section, table, tag
from dhilgt.report.run import charts, diagrams
from dhilgt.report.run.charts import ChartText, Curve

Facts = Mapping[str, Any]


# ---- the score ---------------------------------------------------------------------------------


def score(facts: Facts) -> Markup:
    """Return the headline: the score, its interval, and the score of a constant answer."""
    metric, evaluated = facts["metric"], facts["evaluated"]
    name, part = text.METRICS.get(metric, metric), text.PARTS[evaluated["part"]]
    shown = text.score(evaluated["score"], metric)
    undefined = shown == text.UNDEFINED
    nodes = text.plural(evaluated["nodes"], f"{part} node")
    left = joined(
        [
            tag("p", shown, class_="big word" if undefined else "big"),
            tag("p", f"{name} on {nodes}", class_="under"),
            tag("p", f"{evaluated['note']}.", class_="note") if evaluated["note"] else None,
            None if undefined else _scale(facts),
            *(tag("p", sentence) for sentence in _sentences(facts)),
        ]
    )
    return section("score", "Score", columns(left, joined([_parts_table(facts), _graph(facts)])))


def _sentences(facts: Facts) -> list[str]:
    metric, evaluated = facts["metric"], facts["evaluated"]
    interval, majority = evaluated["interval"], evaluated["majority"]
    sentences = []
    if interval is not None and text.is_number(interval["low"]):
        low, high = (text.score(interval[end], metric) for end in ("low", "high"))
        sentences.append(
            f"The {text.percent(0.95, 0)} interval ({interval['method']}) reaches from {low} to "
            f"{high}: chance alone could move the score this far on another sample of such nodes."
        )
    if text.is_number(majority["score"]):
        answer = f"the most common training class, {text.shortened(majority['class'], 48)},"
        if metric not in ("accuracy", "macro_f1"):
            answer = "how common each class is in training"
        better = METRICS[metric].better(evaluated["score"] or float("nan"), majority["score"])
        sentences.append(
            f"Answering {answer} for every node gives {text.score(majority['score'], metric)}"
            + (". The model is no better than that." if not better else ".")
        )
    if evaluated.get("warning"):
        sentences.append(f"{text.capital(evaluated['warning'])}.")
    if evaluated["part"] == "val":
        sentences.append(
            "There are no labelled test nodes. The validation nodes chose the epoch, so this "
            "score is a little too good."
        )
    if evaluated["part"] == "train":
        sentences.append(
            "There are no labelled nodes besides those the model learned from, so this score says "
            "little about other nodes."
        )
    return sentences


def _scale(facts: Facts) -> Markup | None:
    metric, evaluated = facts["metric"], facts["evaluated"]
    value, interval, majority = evaluated["score"], evaluated["interval"], evaluated["majority"]
    if metric == "log_loss" or not 0 <= value <= 1:
        return None
    ends = baseline = None
    if interval is not None and text.is_number(interval["low"]):
        ends = interval["low"], interval["high"]
    if text.is_number(majority["score"]):
        words = text.score(majority["score"], metric)
        baseline = majority["score"], f"one answer for all: {words}"
    shown = text.score(value, metric)
    names = ChartText("score-scale", "The score between 0 and 1", f"The score is {shown}.")
    return figure(
        diagrams.score_scale(names, (value, shown), ends, baseline),
        "The dot is the score, the band around it the interval, the dashed line the score of the "
        "same answer for every node.",
    )


def _parts_table(facts: Facts) -> Markup:
    names = sorted({name for values in facts["scores"].values() for name in values})
    names.sort(key=lambda name: name != facts["metric"])
    rows = [
        [
            text.capital(text.PARTS[part]),
            text.number(facts["split"].get(part, 0)),
            *(text.score(values.get(name), name) for name in names),
        ]
        for part in text.PARTS  # in this order, whatever the order of the facts
        if (values := facts["scores"].get(part)) is not None
    ]
    heads = ["Part", "Nodes", *(text.capital(text.METRICS.get(name, name)) for name in names)]
    return table("Scores by part of the nodes", heads, rows)


def _graph(facts: Facts) -> Markup:
    graph, cleaning = facts["graph"], facts["graph"]["cleaning"]
    cleaned = [
        f"{text.plural(cleaning[key], noun)} {done}"
        for key, noun, done in (
            ("self_loops", "self-loop", "removed"),
            ("duplicates", "duplicate edge", "merged"),
            ("reversed_added", "reverse edge", "added"),
        )
        if cleaning[key]
    ]
    within = graph["edges_within_classes"]
    rows = [
        ["Nodes", f"{graph['nodes']:,} ({graph['labelled']:,} with a class)"],
        ["Edges", f"{graph['edges']:,}, {'directed' if graph['directed'] else 'undirected'}"],
        ["Edges inside one class", text.percent(within)],
        ["Features", f"{graph['features']:,}"],
        ["Classes", f"{len(facts['classes']):,}"],
        ["Cleaned on reading", "; ".join(cleaned) or "nothing"],
    ]
    return tag("div", table("The graph", ["What", "Value"], rows, text_columns=2), class_="gap")


# ---- training ----------------------------------------------------------------------------------


def training(facts: Facts) -> Markup:
    """Return the curves of loss and score over the epochs."""
    run = facts["training"]
    best, history = run["best_epoch"], run["history"]
    name = text.METRICS.get(facts["metric"], facts["metric"])
    scored = any(text.is_number(epoch.get("val_score")) for epoch in history)
    validated = scored or any(text.is_number(epoch.get("val_loss")) for epoch in history)
    about = f"Training ran for {text.plural(run['epochs'], 'epoch')}"
    if validated:
        about += f"; the weights are those of epoch {best:,}, the best on the validation nodes."
        if run["stopped_early"]:
            about += " It stopped early because the validation score no longer improved."
        if run["out_of_time"]:
            about += " It stopped because its time limit was reached."
    else:
        about += " without validation nodes; the weights are those of the last one."
    if run["metric"] == "loss" and facts["metric"] != "loss":
        about += f" The {name} was undefined on them, so epochs were compared by loss."
    members = (facts.get("search") or {}).get("chosen", ())
    if len(members) > 1:
        about += (
            f" The run averages {len(members):,} trained models; this is the first of them, "
            f"{members[0]['name']!r}."
        )
    mark = (float(best), f"best: {best:,}") if validated and best else None
    losses = [
        Curve("training loss", _points(history, "train_loss"), "first"),
        Curve("validation loss", _points(history, "val_loss"), "second"),
    ]
    figures = [
        figure(
            _chart("loss-curve", "Loss by epoch", losses, mark),
            "Both lines should fall; where the validation loss rises while the training loss "
            "falls, the model overfits.",
        )
    ]
    if scored:
        scores = [Curve(f"validation {name}", _points(history, "val_score"), "second")]
        metric = METRICS.get(facts["metric"])
        better = "higher" if metric is None or metric.higher_is_better else "lower"
        figures.append(
            figure(
                _chart("score-curve", f"Validation {name} by epoch", scores, mark),
                f"The score on the validation nodes after each epoch, {better} is better; the "
                "dashed line marks the epoch whose weights were kept.",
            )
        )
    return section("training", "Training", tag("p", about), columns(*figures))


def _chart(name: str, title: str, curves: list[Curve], mark: tuple[float, str] | None) -> Markup:
    desc = " ".join(
        f"The {curve.name} goes from {curve.points[0][1]:.3g} in epoch {curve.points[0][0]:.0f} to "
        f"{curve.points[-1][1]:.3g} in epoch {curve.points[-1][0]:.0f}."
        for curve in curves
        if curve.points
    )
    return charts.line_chart(ChartText(name, title, desc), curves, x_name="epoch", mark=mark)


def _points(history: list[dict[str, Any]], key: str) -> list[charts.Point]:
    return [
        (float(epoch["epoch"]), float(epoch[key]))
        for epoch in history
        if text.is_number(epoch.get(key))
    ]
