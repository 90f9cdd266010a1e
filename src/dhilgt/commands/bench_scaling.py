"""`dhilgt bench scaling`: time and memory of every system on larger and larger graphs."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.commands import shell
from dhilgt.errors import ArtifactError, DhilgtError


def run_scaling(
    models: Annotated[
        str, typer.Option(help="all, or a list like dhilgt,gcn:tuned (system, or system:variant).")
    ] = "all",
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
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of results, a JSON line per cell.")
    ] = Path("scaling.jsonl"),
    budget: Annotated[
        float | None, typer.Option(help="Seconds that each cell may take once its graph is loaded.")
    ] = None,
    total: Annotated[
        float | None, typer.Option(help="Seconds that the whole run may take; see --resume.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the file of results: skip what is done.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="Cells at once; more than one blurs all times.", min=1)
    ] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Measure nothing: show the file of results.")
    ] = False,
    table: Annotated[
        Path | None, typer.Option(help="Write the tables to a file, not to the screen.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the curves to a file: .png, .svg or .pdf.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="md, latex or html.")] = "md",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the tables only.")] = False,
) -> None:
    """Measure how time and memory grow with a graph, and hold them against the paper.

    Each cell runs in a process of its own. A system that runs out of memory or time on a graph is
    not tried on larger ones.

    \b
    Example:
      dhilgt bench scaling --budget 240 --total 550 -o scaling.jsonl
      dhilgt bench scaling --render-only -o scaling.jsonl --figure scaling.png
    """  # noqa: D301 - \b keeps the example's lines apart
    by_nodes = _numbers(nodes, "--nodes")
    by_degree = [] if degrees == "none" else _numbers(degrees, "--degrees")
    _check_outputs(form, figure)
    if not render_only:
        wanted = {
            "nodes": by_nodes,
            "degree": degree,
            "fixed_nodes": fixed_nodes,
            "degrees": by_degree,
            "features": features,
            "classes": classes,
        }
        limits = {"budget": budget, "total": total, "jobs": jobs, "device": device}
        _measure(models, wanted, limits, recipe, epochs, output, resume, quiet)
    elif not output.exists():
        raise ArtifactError(f"{output} is not there; name a file that dhilgt bench scaling wrote")
    _show(output, form, table, figure)


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise shell.usage_error(f"{text!r} is no list of whole numbers above 0", option)
    return sorted({int(part) for part in parts})


def _check_outputs(form: str, figure: Path | None) -> None:
    if form not in ("md", "latex", "html"):
        raise shell.usage_error(f"{form!r} is none of md, latex and html", "--format")
    if figure is not None:
        from dhilgt.benchmark import growth_plot

        growth_plot.check(figure.suffix.lstrip("."))


def _measure(
    models: str,
    wanted: dict[str, Any],
    bounds: dict[str, Any],
    recipe: str,
    epochs: int,
    output: Path,
    resume: bool,
    quiet: bool,
) -> None:
    try:
        from dhilgt import baselines
    except ImportError as error:
        raise DhilgtError(str(error)) from error
    from dhilgt.benchmark import Limits, Results, scaling
    from dhilgt.benchmark import models as systems_of
    from dhilgt.benchmark import recipe as recipes
    from dhilgt.benchmark.recipe import OURS

    systems = systems_of(models, references=False)
    settings = recipes.read(recipe, (OURS, *baselines.names()))

    def tell(cell: Any, line: dict[str, Any], done: int, of: int) -> None:
        if not quiet:
            typer.echo(f"[{done}/{of}] {cell.name}: {_outcome(line)}", err=True)

    def beyond(cell: Any, line: dict[str, Any]) -> None:
        if not quiet:
            typer.echo(f"{cell.name}: beyond ({line['status']} on {line['data']})", err=True)

    again = shlex.join(["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])])
    with Results(output).open(resume=resume) as results:
        try:
            found = scaling.run_scaling(
                systems,
                scaling.Sizes(**wanted),
                results,
                Limits(**bounds),
                recipe=settings,
                epochs=epochs,
                tell=tell,
                beyond=beyond,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; the cells that are done are in {output}; go on with: {again}"
            ) from None
    if not quiet:
        ran = f"{found.ran} run" + (f", {found.skipped} were done" if found.skipped else "")
        shell.note(f"{ran}; results in {output}")
    if found.left:
        shell.note(f"the time was over before {found.left} cells; go on with: {again}")


def _outcome(line: dict[str, Any]) -> str:
    if line["status"] != "ok":
        return f"{line['status']}, {' '.join(line['message'].split())[:200]}"
    return (
        f"precomputation {line['precompute_seconds'] or 0:.3g} s, "
        f"epoch {line['epoch_seconds'] or 0:.3g} s, "
        f"inference {line['inference_seconds'] or 0:.3g} s, total {line['total_seconds']:.1f} s"
    )


def _show(output: Path, form: str, table: Path | None, figure: Path | None) -> None:
    from dhilgt.benchmark import Results, growth, growth_plot
    from dhilgt.benchmark.render import render

    lines = Results(output).lines()
    text = render(growth.tables(lines), form)
    if figure is not None:
        drawn = growth_plot.draw(lines, figure.suffix.lstrip("."))
        with shell.written_whole(figure) as draft:
            draft.write_bytes(drawn)
    if table is None:
        typer.echo(text, nl=False)
        return
    with shell.written_whole(table) as draft:
        draft.write_text(text, encoding="utf-8")
