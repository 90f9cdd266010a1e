"""The parts of the page that tell of the run: score, curves, tokens, time, settings."""

from collections.abc import Callable, Mapping
from typing import Any

from dhilgt.memory import format_bytes
from dhilgt.metrics import METRICS
from dhilgt.report import diagrams, svg, words
from dhilgt.report.blocks import columns, figure, section, table
from dhilgt.report.markup import Markup, joined, tag
from dhilgt.report.sections_classes import calibration, classes, confusion

Facts = Mapping[str, Any]


# ---- the score ---------------------------------------------------------------------------------


def score(facts: Facts) -> Markup:
    """Gives the headline: the score, how sure it is, and what it has to beat."""
    metric, found = facts["metric"], facts["evaluated"]
    name, part = words.METRICS.get(metric, metric), found["part"]
    shown = words.score(found["score"], metric)
    undefined = shown == words.UNDEFINED
    left = joined(
        [
            tag("p", shown, class_="big word" if undefined else "big"),
            tag(
                "p",
                f"{name} on {words.plural(found['nodes'], f'{words.PARTS[part]} node')}",
                class_="under",
            ),
            None if undefined else _scale(facts),
            *(tag("p", line) for line in _sentences(facts)),
        ]
    )
    return section("score", "Score", columns(left, joined([_parts_table(facts), _graph(facts)])))


def _sentences(facts: Facts) -> list[str]:
    metric, found = facts["metric"], facts["evaluated"]
    between, majority = found["interval"], found["majority"]
    lines = []
    if between is not None and words.is_number(between["low"]):
        low, high = (words.score(between[end], metric) for end in ("low", "high"))
        lines.append(
            f"The {words.percent(0.95, 0)} interval ({between['method']}) reaches from {low} to "
            f"{high}: so much could chance alone move the score on other nodes like these."
        )
    if words.is_number(majority["score"]):
        answer = f"the most common training class, {words.shortened(majority['class'], 48)},"
        if metric not in ("accuracy", "macro_f1"):
            answer = "how common each class is in training"
        better = METRICS[metric].better(found["score"] or float("nan"), majority["score"])
        lines.append(
            f"Answering {answer} for every node gives {words.score(majority['score'], metric)}"
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
    if between is not None and words.is_number(between["low"]):
        ends = between["low"], between["high"]
    plain = None
    if words.is_number(majority):
        plain = majority, f"one answer for all: {words.score(majority, metric)}"
    shown = words.score(value, metric)
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
            words.capital(words.PARTS.get(part, part)),
            words.number(facts["split"].get(part, 0)),
            *(words.score(values.get(name), name) for name in names),
        ]
        for part, values in facts["scores"].items()
    ]
    heads = ["Part", "Nodes", *(words.capital(words.METRICS.get(name, name)) for name in names)]
    notes = [
        tag("p", f"{words.capital(words.PARTS.get(part, part))}: {note}.", class_="note")
        for part in facts["scores"]
        for name in names
        if (note := facts["notes"].get(f"{part} {name}"))
    ]
    return joined([table("Scores by part of the nodes", heads, rows), *notes])


def _graph(facts: Facts) -> Markup:
    graph, cleaning = facts["graph"], facts["graph"]["cleaning"]
    cleaned = [
        f"{words.plural(cleaning[key], noun)} {done}"
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
        ["Edges inside one class", words.percent(within)],
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
    name = words.METRICS.get(facts["metric"], facts["metric"])
    scored = any(words.is_number(line.get("val_score")) for line in history)
    validated = scored or any(words.is_number(line.get("val_loss")) for line in history)
    said = f"Training ran for {words.plural(epochs, 'epoch')}"
    if validated:
        said += f"; the weights are those of epoch {best:,}, the best on the validation nodes."
        if run["stopped_early"]:
            said += " It stopped early because the validation score no longer got better."
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
        if words.is_number(line.get(key))
    ]


def _spoken(lines: list[svg.Line]) -> str:
    return " ".join(
        f"The {line.name} goes from {line.points[0][1]:.3g} in epoch {line.points[0][0]:.0f} to "
        f"{line.points[-1][1]:.3g} in epoch {line.points[-1][0]:.0f}."
        for line in lines
        if line.points
    )


# ---- tokens ------------------------------------------------------------------------------------


def tokens(facts: Facts) -> Markup:
    """Gives what the model saw of each node: its row of hubs and holders."""
    found = facts["tokens"]
    size = found["size"]
    said = (
        f"The model sees a node as a row of {words.plural(size, 'slot')}: the node itself, hubs "
        "(landmarks that tell where in the graph it lies), holders (nodes around it that it is a "
        f"hub of), and the exact distances between all of them. Counted over {found['rows']:,} "
        f"{'rows, a sample' if found['sampled'] else 'rows'}."
    )
    shares = [
        ("the node itself", 1 / size, "ego"),
        ("hubs", found["hubs"]["mean"] / size, "hubs"),
        ("holders", found["holders"]["mean"] / size, "holders"),
        ("neighbours as filler", found["neighbors"] / size, "neighbors"),
        ("empty", found["padding"], "empty"),
    ]
    pieces = [
        (name, share, words.percent(share), style) for name, share, style in shares if share > 0
    ]
    rows = [
        [
            name,
            words.number(found[key]["mean"], 1),
            f"{found[key]['least']:,} to {found[key]['most']:,}",
            words.number(found[key]["covered"]),
        ]
        for key, name in (("hubs", "Hubs"), ("holders", "Holders"))
    ]
    filled = figure(
        svg.share_bar(
            "token-fill",
            "What fills a row",
            ", ".join(f"{name} {shown}" for name, _, shown, _ in pieces) + ".",
            pieces,
        ),
        "The bar is a whole row, cut by what its slots hold on average; "
        f"{words.percent(found['fill_rate'])} of the slots hold a node.",
    )
    numbers = table(
        "Hubs and holders in the rows",
        ["Kind", "Mean in a row", "Least to most", "Distinct nodes"],
        rows,
        hidden_when_narrow=[2],
    )
    return section(
        "tokens", "Tokens", tag("p", said), columns(joined([filled, numbers]), _distances(found))
    )


def _distances(found: Mapping[str, Any]) -> Markup:
    bars = [(str(at), count) for at, count in enumerate(found["distances"]) if at > 0]
    if found["far"]:
        bars.append(("far", found["far"]))
    if found["unreachable"]:
        bars.append(("no path", found["unreachable"]))
    total = sum(count for _, count in bars) or 1
    shown = [(name, count / total, words.percent(count / total)) for name, count in bars]
    spoken = ", ".join(f"{name}: {share}" for name, _, share in shown[:20])
    return figure(
        svg.bar_chart(
            "token-distances",
            "Distances inside the rows",
            f"Share of pairs by distance: {spoken}." if shown else "There are no pairs.",
            shown,
            x_name="distance in edges",
        ),
        "Each bar is the share of pairs of nodes in a row that are so many edges apart; the model "
        "can tell apart only the distances that occur.",
    )


# ---- time, settings, surroundings --------------------------------------------------------------


def stages(facts: Facts) -> Markup:
    """Gives seconds and memory by stage."""
    found = facts["stages"]
    order = [name for name in words.STAGES if name in found]
    order += sorted(name for name in found if name not in words.STAGES)
    names = {name: words.STAGES.get(name, name) for name in order}
    seconds = [(names[key], float(found[key]["seconds"])) for key in order]
    bars = [(name, value, words.duration(value)) for name, value in seconds]
    total = words.duration(sum(value for _, value in seconds))
    drawn = figure(
        svg.row_chart(
            "stage-seconds",
            "Time by stage",
            ", ".join(f"{name}: {shown}" for name, _, shown in bars) + ".",
            bars,
        ),
        f"Longer bars took more time; {total} in all.",
    )
    rows = [
        [
            names[key],
            words.duration(found[key]["seconds"]),
            words.number(found[key].get("times", 1)),
            _memory(found[key].get("host_peak_bytes")),
            _memory(found[key].get("device_peak_bytes")),
        ]
        for key in order
    ]
    heads = ["Stage", "Time", "Runs", "Peak memory", "Peak GPU memory"]
    note = tag(
        "p",
        "Peak memory is the most that the process had held up to the end of the stage; stages that "
        "reused earlier work from the cache took next to no time.",
        class_="note",
    )
    return section(
        "stages",
        "Time and memory",
        columns(drawn, joined([table("By stage", heads, rows, hidden_when_narrow=[2]), note])),
    )


def _memory(value: Any) -> str:
    return format_bytes(int(value)) if words.is_number(value) and value > 0 else "–"


def settings(facts: Facts) -> Markup:
    """Gives all settings, what differs from the defaults first."""
    changed = [one for one in facts["settings"] if one["changed"]]
    rest = [one for one in facts["settings"] if not one["changed"]]
    parts: list[Markup] = []
    if changed:
        rows = [
            [
                tag("code", one["name"]),
                joined([_value(one["value"]), tag("small", "default ", _value(one["default"]))]),
                one["help"],
            ]
            for one in changed
        ]
        heads = ["Setting", "Value", "What it does"]
        parts.append(table("Set for this run", heads, rows, text_columns=3))
    else:
        parts.append(tag("p", "All settings have their defaults."))
    rows = [[tag("code", one["name"]), _value(one["value"]), one["help"]] for one in rest]
    if rows:
        all_rest = table(
            "Left at their defaults", ["Setting", "Value", "What it does"], rows, text_columns=3
        )
        name = f"{words.plural(len(rows), 'setting')} left at the default"
        parts.append(tag("details", tag("summary", name), all_rest))
    return section("settings", "Settings", *parts)


def _value(value: Any) -> Markup:
    said = {None: "none", True: "yes", False: "no"}
    plain = value is None or isinstance(value, bool)
    return tag("code", said[value] if plain else f"{value:g}" if _fraction(value) else value)


def _fraction(value: Any) -> bool:
    return isinstance(value, float)


def surroundings(facts: Facts) -> Markup:
    """Gives versions and hardware."""
    known = {
        "dhilgt": "dhilgt",
        "python": "Python",
        "torch": "PyTorch",
        "numpy": "NumPy",
        "safetensors": "safetensors",
        "cuda": "CUDA",
        "system": "System",
        "release": "System release",
        "machine": "Machine",
        "cpus": "CPU cores",
        "threads": "Threads",
        "gpus": "GPUs",
        "device": "Device",
        "processes": "Processes",
    }
    found = facts["environment"]
    rows = [
        [known.get(key, key), _said(found[key])]
        for key in [*(name for name in known if name in found), *sorted(set(found) - set(known))]
    ]
    rows.append(["Graph fingerprint", tag("code", facts["graph"]["fingerprint"])])
    return section(
        "environment",
        "Versions and hardware",
        table("Where the report was made", ["What", "Value"], rows, text_columns=2),
    )


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


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
