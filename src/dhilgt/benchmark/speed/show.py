"""Lines of figures as a table, and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dhilgt.errors import DhilgtError

_SHAPE = ("rows", "slots", "width", "fill")


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return a table of sizes, and one of the other measures where there are some.

    Args:
        lines: See `measure`.
    """
    sizes = [line for line in lines if line["measure"] == "size"]
    rows = [
        "| batch | slots | width | filled | way | training, ms / 100 K egos | GiB "
        "| inference, ms / 100 K egos | GiB |",
        "|---:|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    first = {_shape(line): line for line in reversed(sizes)}
    for line in sizes:
        plain = first[_shape(line)]
        cells = [f"{line['rows']:,}", f"{line['slots']}", f"{line['width']}", f"{line['fill']:.0%}"]
        cells.append(_name(line))
        for part in ("train", "infer"):
            ms, gib = line[f"ms_{part}"], line[f"gib_{part}"]
            ratio = "" if line is plain else f" ({plain[f'ms_{part}'] / ms:.1f} x)"
            cells += [f"{ms:,.1f}{ratio}", "" if gib is None else f"{gib:.2f}"]
        rows.append(f"| {' | '.join(cells)} |")
    rest = [row for line in lines for row in _rows(line)]
    if rest:
        rows += ["", "| what | measured |", "|---|---|", *rest]
    return "\n".join(rows) + "\n"


def _shape(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in _SHAPE)


def _name(line: dict[str, Any]) -> str:
    padded = ", padding left in" if line["packing"] == "off" else ""
    return str(line["way"]) + padded + (", layers computed twice" if line["recompute"] else "")


def _rows(line: dict[str, Any]) -> list[str]:
    """Return the rows of a measure that is no size."""
    if line["measure"] == "small":
        rows = []
        for part, text in (("train", "a training step"), ("infer", "an evaluation")):
            figures = {name: line[f"ms_{part} {name}"] for name in ("reference fp32", "fused bf16")}
            graph = line[f"ms_{part} fused bf16 graph"]
            rows.append(
                f"| {text} of {line['rows']} nodes, {line['fill']:.0%} filled | {graph:.2f} ms "
                f"(kernel by kernel {figures['fused bf16']:.1f}, "
                f"reference {figures['reference fp32']:.1f}) |"
            )
        return rows
    if line["measure"] == "sparse":
        return [
            f"| input stage of 4,814 sparse features | {line['share']:.0%} of a step of "
            f"{line['ms_graph']:.1f} ms (kernel by kernel {line['ms_kernels']:.1f}) |"
        ]
    if line["measure"] == "streamed":
        return [f"| speed of streamed against resident rows | {line['share']:.0%} |"]
    return []


def draw(lines: Sequence[dict[str, Any]], path: Path, suffix: str = "") -> None:
    """Plot the time of every implementation at the main size.

    Args:
        lines: See `measure`.
        path: Of the picture.
        suffix: Of the format, like ".png"; that of `path` by default.

    Raises:
        DhilgtError: If matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise DhilgtError(
            "a plot needs matplotlib: pip install 'dhilgt[plot]', or leave --plot out"
        ) from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    chosen = [line for line in lines if line.get("main") and not line["recompute"]]
    if not chosen:
        raise DhilgtError("there are no figures of a main size to plot")
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.8 + 0.45 * len(chosen)))
    for axis, part in zip(axes, ("train", "infer"), strict=True):
        times = [line[f"ms_{part}"] for line in chosen]
        bars = axis.barh([_name(line) for line in chosen], times)
        axis.bar_label(bars, fmt="%.0f", padding=2)
        axis.set_title(f"{'training' if part == 'train' else 'inference'}: ms per 100 K egos")
        axis.set_xscale("log")
        axis.set_xlim(min(times) / 2, 3 * max(times))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=150, format=(suffix or path.suffix).lstrip(".") or "png")
    plt.close(figure)
