"""`dhilgt bench scaling`: time and memory of every system on larger and larger graphs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dhilgt.cli import flags, shell
from dhilgt.cli.bench import running as shared

if TYPE_CHECKING:
    from dhilgt.benchmark import Cell, Limits, Record, Results
    from dhilgt.benchmark.experiments.scaling import GraphSizes
    from dhilgt.benchmark.running.runner import Summary


def run_scaling(
    results: flags.Results = None,
    models: flags.Models = "all",
    nodes: Annotated[
        str, typer.Option(metavar="LIST", help="Numbers of nodes.")
    ] = "2000,10000,50000,200000,500000,1000000,2000000",
    degree: Annotated[int, typer.Option(help="Neighbours of a node on average.", min=1)] = 20,
    fixed_nodes: Annotated[
        int, typer.Option(help="Nodes of the series in which edges grow.", min=1)
    ] = 200_000,
    degrees: Annotated[
        str,
        typer.Option(metavar="LIST", help="Degrees of the series in which edges grow, or none."),
    ] = "5,10,20,40",
    features: Annotated[int, typer.Option(help="Features per node.", min=1)] = 64,
    classes: Annotated[int, typer.Option(help="Classes.", min=2)] = 10,
    epochs: Annotated[
        int, typer.Option(help="Epochs of each training; the first is not counted.", min=1)
    ] = 3,
    recipe: Annotated[
        str, typer.Option(help="paper (each by its own paper), or a file of settings.")
    ] = "paper",
    output: flags.Output = Path("scaling.jsonl"),
    budget: flags.Budget = None,
    total: flags.Total = None,
    resume: flags.Resume = False,
    jobs: flags.Jobs = 1,
    device: flags.Device = "auto",
    render_only: flags.RenderOnly = False,
    into: flags.Into = None,
    form: flags.Form = "md",
    quiet: bool = False,
) -> None:
    """Measure how time and memory grow with a graph, and hold them against the paper.

    Each cell runs in a process of its own. A system that runs out of memory or time on a graph is
    not tried on larger ones.

    \b
    Example:
      dhilgt bench scaling --budget 240 --total 550 -o scaling.jsonl
      dhilgt bench scaling --render-only scaling.jsonl --into figures
    """  # noqa: D301 - \b keeps the example's lines apart
    by_nodes = _numbers(nodes, "--nodes")
    by_degree = [] if degrees == "none" else _numbers(degrees, "--degrees")
    shared.check_form(form)
    files = shared.files_to_show(results, render_only, output)
    if not render_only:
        from dhilgt.benchmark import Limits
        from dhilgt.benchmark.experiments.scaling import GraphSizes

        sizes = GraphSizes(by_nodes, degree, fixed_nodes, by_degree, features, classes)
        limits = Limits(budget, total, jobs, device)
        _measure(models, sizes, limits, recipe, epochs, output, resume=resume, quiet=quiet)
    from dhilgt.benchmark.experiments.growth import tables
    from dhilgt.benchmark.experiments.growth_plot import draw_growth

    records = shared.records_of(files)
    shared.show(
        tables(records), form, "scaling", into,
        lambda folder: draw_growth(records, folder / "scaling"),
    )  # fmt: skip


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise shell.usage_error(f"{text!r} is no list of whole numbers above 0", option)
    return sorted({int(part) for part in parts})


def _measure(
    models: str,
    sizes: "GraphSizes",
    limits: "Limits",
    recipe: str,
    epochs: int,
    output: Path,
    *,
    resume: bool,
    quiet: bool,
) -> None:
    settings = shared.read_recipe(recipe)
    from dhilgt.benchmark import models as systems_of
    from dhilgt.benchmark.experiments import scaling

    systems = systems_of(models, references=False)
    sizes.graphs()  # refuse wrong sizes before the file is changed

    def report(cell: "Cell", record: "Record", done: int, of: int) -> None:
        if not quiet:
            typer.echo(f"[{done}/{of}] {cell.name}: {_outcome(record)}", err=True)

    def beyond(cell: "Cell", record: "Record") -> None:
        if not quiet:
            why = f"{record.status} on {record.cell.data}"
            typer.echo(f"{cell.name}: beyond ({why})", err=True)

    from dhilgt.benchmark.lines import recorded_command

    def work(results: "Results") -> "Summary":
        return scaling.run_scaling(
            systems, sizes, results, limits,
            recipe=settings, epochs=epochs, tell=report, beyond=beyond,
            command=recorded_command(sys.argv[1:]),
        )  # fmt: skip

    shared.resumable(work, output, resume=resume, quiet=quiet)


def _outcome(record: "Record") -> str:
    if not record.ok:
        return shared.failure(record)
    costs = record.costs
    return (
        f"precomputation {costs.precompute_seconds or 0:.3g} s, "
        f"epoch {costs.epoch_seconds or 0:.3g} s, "
        f"inference {costs.inference_seconds or 0:.3g} s, total {record.total_seconds or 0:.1f} s"
    )
