"""`dhilgt plot`: pictures of graphs."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.cli import shell
from dhilgt.cli.flags import with_inputs
from dhilgt.cli.inputs import Inputs
from dhilgt.hierarchy.numbers import HierarchyNumbers
from dhilgt.hierarchy.plot import check_ending, plot_hierarchy

app = typer.Typer(
    help="Draw graphs beside their label graphs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_NOT_DRAWN = ("features", "feature_columns", "split", "split_column", "config", "recipe")


class Layout(StrEnum):
    """Where the nodes of the two graphs are drawn."""

    OWN = "own"
    SHARED = "shared"


class DotColor(StrEnum):
    """What dots are coloured by."""

    CLASS = "class"
    RANK = "rank"


@app.callback()
def _plot() -> None:
    """Keep `hierarchy` a subcommand: Typer would drop the name of a single command."""


def run_hierarchy(
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Picture (.png, .svg) or interactive page (.html) to write; may be repeated. "
            "NAME-hierarchy.png by default.",
        ),
    ] = None,
    only_numbers: Annotated[
        bool, typer.Option("--numbers", help="Draw nothing, print the numbers.")
    ] = False,
    layout: Annotated[
        Layout, typer.Option(help="A layout for each graph, or one for both.")
    ] = Layout.OWN,
    color: Annotated[DotColor, typer.Option(help="What dots are coloured by.")] = DotColor.CLASS,
    max_edges: Annotated[
        int,
        typer.Option(min=0, help="Most edges to draw of each graph; of more, a uniform sample."),
    ] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the layout and of that sample.")] = 0,
    title: Annotated[str | None, typer.Option(help="Heading of the picture.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use; all cores by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
    *,
    sources: dict[str, Any],
) -> None:
    """Draw a graph beside its label graph, and print both in numbers.

    \b
    Example:
      dhilgt plot hierarchy --data chameleon
      dhilgt plot hierarchy --edges e.csv --labels y.csv -o web.png -o web.html
    """  # noqa: D301 - \b keeps the example's lines apart
    if only_numbers and output:
        raise shell.usage_error("not together with --output / -o", "--numbers")
    inputs = Inputs().updated(sources)
    if inputs.dataset is not None:
        inputs.check()
    name = title or inputs.dataset or Path(inputs.edges or "graph").name
    files = [] if only_numbers else output or [Path(f"{_plain(name)}-hierarchy.png")]
    for file in files:
        check_ending(file)
    graph = inputs.load(threads=threads, progress=shell.watched())
    numbers = plot_hierarchy(
        graph,
        *files,
        layout=layout.value,
        color=color.value,
        max_edges=max_edges,
        seed=seed,
        title=title or graph.name or name,  # the name of a generated stand-in marks it as one
        threads=threads,
    )
    if as_json:
        shell.print_json({**numbers.to_dict(), "files": [str(file) for file in files]})
        return
    if files and quiet:
        return
    print_numbers(numbers)
    for file in files:
        shell.note(f"wrote {file}")


def _plain(name: str) -> str:
    """Return a name that is safe in every file system."""
    return re.sub(r"[^\w.-]+", "-", name)


def print_numbers(numbers: HierarchyNumbers) -> None:
    """Print the statistics as tables.

    Args:
        numbers: What to print.
    """
    shell.print_table(
        [
            ("graph", numbers.name),
            ("nodes", f"{numbers.nodes:,}"),
            ("edges kept", f"{100 * numbers.kept:.1f} %"),
        ]
    )
    typer.echo()
    rows = [("", "raw graph", "label graph")]
    for name, shown in (
        ("edges", "{:,}"),
        ("average_degree", "{:.2f}"),
        ("homophily", "{:.3f}"),
        ("chance", "{:.3f}"),
        ("modularity", "{:.3f}"),
        ("clustering", "{:.3f}"),
    ):
        values = (getattr(numbers.raw, name), getattr(numbers.label, name))
        raw, label = ("not known" if one is None else shown.format(one) for one in values)
        rows.append((name.replace("_", " "), raw, label))
    shell.print_columns(rows)
    typer.echo()
    by_distance = [("distance", "label edges", "share", "homophily")]
    for one in numbers.distances:
        same = "not known" if one.homophily is None else f"{one.homophily:.3f}"
        by_distance.append((str(one.distance), f"{one.edges:,}", f"{100 * one.share:.1f} %", same))
    shell.print_columns(by_distance)


# Features, splits and settings are for training only.
app.command(name="hierarchy")(shell.guarded(with_inputs(run_hierarchy, without=_NOT_DRAWN)))
