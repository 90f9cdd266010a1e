"""The parts of the page that tell of the run: tokens, time and memory, settings, versions."""

from collections.abc import Mapping
from typing import Any

from dhilgt.report import svg, text
from dhilgt.report.html import Markup, columns, figure, joined, section, table, tag
from dhilgt.utils.memory import format_bytes

Facts = Mapping[str, Any]


def tokens(facts: Facts) -> Markup:
    """Gives what the model saw of each node: its row of hubs and holders."""
    found = facts["tokens"]
    size = found["size"]
    said = (
        f"The model sees a node as a row of {text.plural(size, 'slot')}: the node itself, hubs "
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
        (name, share, text.percent(share), style) for name, share, style in shares if share > 0
    ]
    rows = [
        [
            name,
            text.number(found[key]["mean"], 1),
            f"{found[key]['least']:,} to {found[key]['most']:,}",
            text.number(found[key]["covered"]),
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
        f"{text.percent(found['fill_rate'])} of the slots hold a node.",
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
    shown = [(name, count / total, text.percent(count / total)) for name, count in bars]
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


def stages(facts: Facts) -> Markup:
    """Gives seconds and memory by stage."""
    found = facts["stages"]
    order = [name for name in text.STAGES if name in found]
    order += sorted(name for name in found if name not in text.STAGES)
    names = {name: text.STAGES.get(name, name) for name in order}
    seconds = [(names[key], float(found[key]["seconds"])) for key in order]
    bars = [(name, value, text.duration(value)) for name, value in seconds]
    total = text.duration(sum(value for _, value in seconds))
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
            text.duration(found[key]["seconds"]),
            text.number(found[key].get("times", 1)),
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
    return format_bytes(int(value)) if text.is_number(value) and value > 0 else "–"


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
        name = f"{text.plural(len(rows), 'setting')} left at the default"
        parts.append(tag("details", tag("summary", name), all_rest))
    return section("settings", "Settings", *parts)


def _value(value: Any) -> Markup:
    said = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return tag("code", said[value])
    return tag("code", f"{value:g}" if isinstance(value, float) else value)


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
        table(f"Where {facts['environment_of']}", ["What", "Value"], rows, text_columns=2),
    )


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
