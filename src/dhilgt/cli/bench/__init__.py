"""`dhilgt bench`: every system on the same splits, and tables of what came out."""

from pathlib import Path
from typing import Annotated

import typer

from dhilgt.cli import flags, shell
from dhilgt.cli.bench.ablation import run_ablation
from dhilgt.cli.bench.default import run_default
from dhilgt.cli.bench.paper import run_paper
from dhilgt.cli.bench.running import check_form, measure, read_recipe, records_of
from dhilgt.cli.bench.scaling import run_scaling
from dhilgt.cli.bench.speed import run_speed
from dhilgt.cli.bench.study import run_study
from dhilgt.cli.train import parse_seeds
from dhilgt.errors import ArtifactError

app = typer.Typer(
    help="Compare systems: run a grid of trainings, show tables of the results.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# ---- table -------------------------------------------------------------------------------------


def run_table(
    models: flags.Models = "all",
    data: Annotated[
        str, typer.Option(help="small, paper, or a list of datasets like cora,chameleon.")
    ] = "small",
    seeds: Annotated[str, typer.Option(help="Seeds, like 0-2 or 1,5,7.")] = "0-2",
    output: flags.Output = Path("bench.jsonl"),
    budget: flags.Budget = None,
    total: flags.Total = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="paper (each by its own paper), best (ours by the best known), or a file."
        ),
    ] = "paper",
    epochs: Annotated[
        int | None, typer.Option(help="The most epochs of every system.", min=1)
    ] = None,
    jobs: flags.Jobs = 1,
    device: flags.Device = "auto",
    root: flags.Root = None,
    references: Annotated[
        bool, typer.Option(help="Run GCN, GraphSAGE, LINKX and MLP too where they are not named.")
    ] = True,
    resume: flags.Resume = False,
    in_process: flags.InProcess = False,
    reuse: flags.Reuse = False,
    across: flags.Across = 3,
    published: flags.Published = True,
    form: flags.Form = "md",
    quiet: bool = False,
) -> None:
    """Train systems on datasets with seeds, and print the table.

    Each cell runs in a process of its own; running out of memory or time is a result too.

    \b
    Example:
      dhilgt bench table --models all --data cora,chameleon --budget 600
      dhilgt bench table --models dhilgt,gcn:tuned --seeds 0-9 -o tuned.jsonl
    """  # noqa: D301 - \b keeps the example's lines apart
    parsed_seeds = parse_seeds(seeds)
    check_form(form)
    chosen = read_recipe(recipe)
    from dhilgt.benchmark import Limits, cells
    from dhilgt.benchmark import models as systems_of
    from dhilgt.benchmark.running import data as graphs

    grid = cells(
        systems_of(models, references=references),
        graphs.chosen(data),
        parsed_seeds,
        chosen,
        epochs=epochs,
    )
    limits = Limits(budget, total, jobs, device, not in_process, root, reuse)

    measure(grid, output, limits, resume=resume, quiet=quiet)
    _print(output, form, across, published)


# ---- show --------------------------------------------------------------------------------------


def run_show(
    results: Annotated[list[Path], typer.Argument(help="Files of results.")],
    form: flags.Form = "md",
    across: flags.Across = 3,
    published: flags.Published = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file, not to the screen.")
    ] = None,
) -> None:
    """Print the tables of results, ours beside the paper's figures.

    \b
    Example:
      dhilgt bench show bench.jsonl
      dhilgt bench show bench.jsonl --format latex -o table.tex
    """  # noqa: D301
    check_form(form)
    text = _text(results, form, across, published)
    if output is None:
        typer.echo(text, nl=False)
        return
    with shell.written_whole(output) as draft:
        draft.write_text(text, encoding="utf-8")


def _print(path: Path, form: str, across: int, published: bool) -> None:
    typer.echo(_text([path], form, across, published), nl=False)


def _text(paths: list[Path], form: str, across: int, published: bool) -> str:
    from dhilgt.benchmark import tables
    from dhilgt.benchmark.show.render import render

    shown = tables(records_of(paths), across=across, published=published)
    if not shown:
        raise ArtifactError(f"{paths[0]} holds no cells; run dhilgt bench table")
    return render(shown, form)


for _name, _run, _summary in (
    ("table", run_table, "Train systems on datasets with seeds, and print the table."),
    ("show", run_show, "Print the tables of results beside the paper's figures."),
    ("default", run_default, "Train DHIL-GT and all baselines, each with its defaults."),
    ("ablation", run_ablation, "Train DHIL-GT with one part left out at a time."),
    ("study", run_study, "Train DHIL-GT with different token rows."),
    ("paper", run_paper, "Compare all systems: as they come, and after an equal search."),
    ("scaling", run_scaling, "Measure how time and memory grow with the graph."),
    ("speed", run_speed, "Time every implementation of attention."),
):
    app.command(name=_name, short_help=_summary)(shell.guarded(_run))
