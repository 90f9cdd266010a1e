"""The parts of the page in order, and the first two: the score, and how it was reached."""

from collections.abc import Callable, Mapping
from typing import Any

from dhilgt.metrics import METRICS
from dhilgt.report import svg, text
from dhilgt.report.html import Markup, columns, figure, joined, section, table, tag
from dhilgt.report.run import diagrams
from dhilgt.report.run.class_sections import calibration, classes, confusion
from dhilgt.report.run.run_sections import settings, stages, surroundings, tokens

Facts = Mapping[str, Any]


# ---- the score ---------------------------------------------------------------------------------


def score(facts: Facts) -> Markup:
    """Gives the headline: the score, how sure it is, and what it has to beat."""
    metric, found = facts["metric"], facts["evaluated"]
    name, part = text.METRICS.get(metric, metric), found["part"]
    shown = text.score(found["score"], metric)
    undefined = shown == text.UNDEFINED
    left = joined(
        [
            tag("p", shown, class_="big word" if undefined else "big"),
            tag(
                "p",
                f"{name} on {text.plural(found['nodes'], f'{text.PARTS[part]} node')}",
                class_="under",
            ),
            tag("p", f"{found['note']}.", class_="note") if found["note"] else None,
            None if undefined else _scale(facts),
            *(tag("p", line) for line in _sentences(facts)),
        ]
    )
    return section("score", "Score", columns(left, joined([_parts_table(facts), _graph(facts)])))


def _sentences(facts: Facts) -> list[str]:
    metric, found = facts["metric"], facts["evaluated"]
    between, majority = found["interval"], found["majority"]
    lines = []
    if between is not None and text.is_number(between["low"]):
        low, high = (text.score(between[end], metric) for end in ("low", "high"))
        lines.append(
            f"The {text.percent(0.95, 0)} interval ({between['method']}) reaches from {low} to "
            f"{high}: so much could chance alone move the score on other nodes like these."
        )
    if text.is_number(majority["score"]):
        answer = f"the most common training class, {text.shortened(majority['class'], 48)},"
        if metric not in ("accuracy", "macro_f1"):
            answer = "how common each class is in training"
        better = METRICS[metric].better(found["score"] or float("nan"), majority["score"])
        lines.append(
            f"Answering {answer} for every node gives {text.score(majority['score'], metric)}"
            + (". The model is no better than that." if not better else ".")
        )
    if found["part"] == "val":
        lines.append(
            "There are no labelled test nodes. The validation nodes chose the epoch, so this "
            "score is a little too good."
        )
    if found["part"] == "train":
        lines.append(
            "There are no labelled nodes besides those the model learned from, so this score says "
            "little about other nodes."
        )
    return lines


def _scale(facts: Facts) -> Markup | None:
    metric, found = facts["metric"], facts["evaluated"]
    value, between, majority = found["score"], found["interval"], found["majority"]["score"]
    if metric == "log_loss" or not 0 <= value <= 1:
        return None
    ends = None
    if between is not None and text.is_number(between["low"]):
        ends = between["low"], between["high"]
    plain = None
    if text.is_number(majority):
        plain = majority, f"one answer for all: {text.score(majority, metric)}"
    shown = text.score(value, metric)
    return figure(
        diagrams.score_scale(
            "score-scale",
            "The score between 0 and 1",
            f"The score is {shown}.",
            (value, shown),
            ends,
            plain,
        ),
        "The dot is the score, the band around it the interval, the dashed line what one and the "
        "same answer for every node gets.",
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
        for part in text.PARTS  # in this order, whatever that of a file
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
    """Gives the curves of the epochs."""
    run = facts["training"]
    best, epochs, history = run["best_epoch"], run["epochs"], run["history"]
    name = text.METRICS.get(facts["metric"], facts["metric"])
    scored = any(text.is_number(line.get("val_score")) for line in history)
    validated = scored or any(text.is_number(line.get("val_loss")) for line in history)
    said = f"Training ran for {text.plural(epochs, 'epoch')}"
    if validated:
        said += f"; the weights are those of epoch {best:,}, the best on the validation nodes."
        if run["stopped_early"]:
            said += " It stopped early because the validation score no longer got better."
        if run["out_of_time"]:
            said += " It stopped because the time it was given was over."
    else:
        said += " without validation nodes; the weights are those of the last one."
    if run["metric"] == "loss" and facts["metric"] != "loss":
        said += f" The {name} was undefined on them, so epochs were compared by loss."
    mark = (float(best), f"best: {best:,}") if validated and best else None
    losses = [
        svg.Line("training loss", _curve(history, "train_loss"), "first"),
        svg.Line("validation loss", _curve(history, "val_loss"), "second"),
    ]
    figures = [
        figure(
            svg.line_chart(
                "loss-curve",
                "Loss by epoch",
                _spoken(losses),
                losses,
                x_name="epoch",
                mark=mark,
            ),
            "Both lines should fall; where the validation loss rises while the training loss "
            "falls, the model learns its training nodes by heart.",
        )
    ]
    if scored:
        lines = [svg.Line(f"validation {name}", _curve(history, "val_score"), "second")]
        way = "higher" if _higher(facts["metric"]) else "lower"
        figures.append(
            figure(
                svg.line_chart(
                    "score-curve",
                    f"Validation {name} by epoch",
                    _spoken(lines),
                    lines,
                    x_name="epoch",
                    mark=mark,
                ),
                f"The score on the validation nodes after each epoch, {way} is better; the dashed "
                "line marks the epoch that was kept.",
            )
        )
    return section("training", "Training", tag("p", said), columns(*figures))


def _higher(metric: str) -> bool:
    return METRICS[metric].higher_is_better if metric in METRICS else True


def _curve(history: list[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    return [
        (float(line["epoch"]), float(line[key]))
        for line in history
        if text.is_number(line.get(key))
    ]


def _spoken(lines: list[svg.Line]) -> str:
    return " ".join(
        f"The {line.name} goes from {line.points[0][1]:.3g} in epoch {line.points[0][0]:.0f} to "
        f"{line.points[-1][1]:.3g} in epoch {line.points[-1][0]:.0f}."
        for line in lines
        if line.points
    )


ALL: tuple[Callable[[Facts], Markup], ...] = (
    score,
    training,
    confusion,
    classes,
    calibration,
    tokens,
    stages,
    settings,
    surroundings,
)
