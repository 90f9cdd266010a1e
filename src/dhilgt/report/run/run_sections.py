"""Sections of the report about the run: tokens, time and memory, settings, versions."""

from collections.abc import Mapping
from typing import Any

from dhilgt.report import text
from dhilgt.report.html import Markup, columns, figure, joined, section, table, tag
from dhilgt.report.run import charts
from dhilgt.report.run.charts import ChartText
from dhilgt.utils.memory import format_bytes

Facts = Mapping[str, Any]

_ENVIRONMENT = {
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


def tokens(facts: Facts) -> Markup:
    """Return what the model sees of each node: its token row of hubs and holders."""
    stats = facts["tokens"]
    if stats is None:
        alone = "The chosen model sees a node's own inputs only: it draws no token rows."
        return section("tokens", "What the model sees of a node", tag("p", alone))
    size = stats["size"]
    about = tag(
        "p",
        f"The model sees a node as a row of {text.plural(size, 'slot')}: the node itself, hubs "
        "(landmarks that locate it in the graph), holders (nodes around it that have it as a "
        f"hub), and the exact distances between all of them. Counted over {stats['rows']:,} "
        f"{'rows, a sample' if stats['sampled'] else 'rows'}.",
    )
    fractions = [
        ("the node itself", 1 / size, "ego"),
        ("hubs", stats["hubs"]["mean"] / size, "hubs"),
        ("holders", stats["holders"]["mean"] / size, "holders"),
        ("neighbours as filler", stats["neighbors"] / size, "neighbors"),
        ("empty", stats["padding"], "empty"),
    ]
    pieces = [(name, one, text.percent(one), style) for name, one, style in fractions if one > 0]
    desc = ", ".join(f"{name} {shown}" for name, _, shown, _ in pieces) + "."
    filled = figure(
        charts.stacked_bar(ChartText("token-fill", "What fills a row", desc), pieces),
        "The bar is a whole row, divided by what its slots hold on average; "
        f"{text.percent(stats['fill_rate'])} of the slots hold a node.",
    )
    rows = [
        [
            name,
            text.number(stats[key]["mean"], 1),
            f"{stats[key]['least']:,} to {stats[key]['most']:,}",
            text.number(stats[key]["covered"]),
        ]
        for key, name in (("hubs", "Hubs"), ("holders", "Holders"))
    ]
    heads = ["Kind", "Mean in a row", "Least to most", "Distinct nodes"]
    numbers = table("Hubs and holders in the rows", heads, rows, hidden_when_narrow=[2])
    return section("tokens", "Tokens", about, columns(joined([filled, numbers]), _distances(stats)))


def _distances(stats: Mapping[str, Any]) -> Markup:
    counts = [(str(at), count) for at, count in enumerate(stats["distances"]) if at > 0]
    if stats["far"]:
        counts.append(("far", stats["far"]))
    if stats["unreachable"]:
        counts.append(("no path", stats["unreachable"]))
    total = sum(count for _, count in counts) or 1
    bars = [(name, count / total, text.percent(count / total)) for name, count in counts]
    listed = ", ".join(f"{name}: {shown}" for name, _, shown in bars[:20])
    desc = f"Fraction of pairs by distance: {listed}." if bars else "There are no pairs."
    return figure(
        charts.bar_chart(
            ChartText("token-distances", "Distances inside the rows", desc),
            bars,
            x_name="distance in edges",
        ),
        "Each bar is the fraction of pairs of nodes in a row that are this many edges apart; the "
        "model can distinguish only the distances that occur.",
    )


def stages(facts: Facts) -> Markup:
    """Return time and memory by stage."""
    measured = facts["stages"]
    order = [name for name in text.STAGES if name in measured]
    order += sorted(name for name in measured if name not in text.STAGES)
    names = {name: text.STAGES.get(name, name) for name in order}
    seconds = [(names[key], float(measured[key]["seconds"])) for key in order]
    bars = [(name, value, text.duration(value)) for name, value in seconds]
    total = text.duration(sum(value for _, value in seconds))
    desc = ", ".join(f"{name}: {shown}" for name, _, shown in bars) + "."
    drawn = figure(
        charts.row_chart(ChartText("stage-seconds", "Time by stage", desc), bars),
        f"Longer bars took more time; {total} in all.",
    )
    rows = [
        [
            names[key],
            text.duration(measured[key]["seconds"]),
            text.number(measured[key].get("times", 1)),
            _memory(measured[key].get("host_peak_bytes")),
            _memory(measured[key].get("device_peak_bytes")),
        ]
        for key in order
    ]
    heads = ["Stage", "Time", "Runs", "Peak memory", "Peak GPU memory"]
    note = tag(
        "p",
        "Peak memory is the largest amount the process had held up to the end of the stage; stages "
        "that reused earlier work from the cache took almost no time.",
        class_="note",
    )
    numbers = table("By stage", heads, rows, hidden_when_narrow=[2])
    return section("stages", "Time and memory", columns(drawn, joined([numbers, note])))


def _memory(value: Any) -> str:
    return format_bytes(int(value)) if text.is_number(value) and value > 0 else "–"


def settings(facts: Facts) -> Markup:
    """Return all settings, those that differ from the defaults first."""
    changed = [
        [
            tag("code", one["name"]),
            joined([_value(one["value"]), tag("small", "default ", _value(one["default"]))]),
            one["help"],
        ]
        for one in facts["settings"]
        if one["changed"]
    ]
    default = [
        [tag("code", one["name"]), _value(one["value"]), one["help"]]
        for one in facts["settings"]
        if not one["changed"]
    ]
    heads = ["Setting", "Value", "What it does"]
    caption = "Given or chosen for this run" if facts.get("search") else "Set for this run"
    parts = [
        table(caption, heads, changed, text_columns=3)
        if changed
        else tag("p", "All settings have their defaults.")
    ]
    if default:
        summary = tag("summary", f"{text.plural(len(default), 'setting')} left at the default")
        listed = table("Left at their defaults", heads, default, text_columns=3)
        parts.append(tag("details", summary, listed))
    return section("settings", "Settings", *parts)


def _value(value: Any) -> Markup:
    if value is None or isinstance(value, bool):
        return tag("code", {None: "none", True: "yes", False: "no"}[value])
    return tag("code", f"{value:g}" if isinstance(value, float) else value)


def environment(facts: Facts) -> Markup:
    """Return versions and hardware."""
    values = facts["environment"]
    order = [*(key for key in _ENVIRONMENT if key in values), *sorted(values.keys() - _ENVIRONMENT)]
    rows: list[list[Any]] = [[_ENVIRONMENT.get(key, key), _words(values[key])] for key in order]
    rows.append(["Graph fingerprint", tag("code", facts["graph"]["fingerprint"])])
    return section(
        "environment",
        "Versions and hardware",
        table(f"Where {facts['environment_of']}", ["What", "Value"], rows, text_columns=2),
    )


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
