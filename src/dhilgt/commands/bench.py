"""`dhilgt bench`: every system on the same splits, and tables of what came out."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.commands import shell
from dhilgt.commands.bench_speed import run_speed
from dhilgt.commands.train import parse_seeds
from dhilgt.errors import ArtifactError, DhilgtError

app = typer.Typer(
    help="Compare systems: run a grid of trainings, show tables of the results.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Format = Annotated[str, typer.Option("--format", help="md, latex or html.")]
_Across = Annotated[int, typer.Option(help="Datasets side by side in a table.", min=1, max=12)]
_Published = Annotated[
    bool, typer.Option(help="Show the paper's figures under each system, or not.")
]


# ---- table -------------------------------------------------------------------------------------


def run_table(
    models: Annotated[
        str, typer.Option(help="all, or a list like dhilgt,gcn:tuned (system, or system:variant).")
    ] = "all",
    data: Annotated[
        str, typer.Option(help="small, paper, or a list of datasets like cora,chameleon.")
    ] = "small",
    seeds: Annotated[str, typer.Option(help="Seeds, like 0-2 or 1,5,7.")] = "0-2",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of results, a JSON line per cell.")
    ] = Path("bench.jsonl"),
    budget: Annotated[
        float | None, typer.Option(help="Seconds that each cell may take once its graph is loaded.")
    ] = None,
    total: Annotated[
        float | None, typer.Option(help="Seconds that the whole run may take; see --resume.")
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="paper (each by its own paper), best (ours by the best known), or a file."
        ),
    ] = "paper",
    epochs: Annotated[
        int | None, typer.Option(help="The most epochs of every system.", min=1)
    ] = None,
    tune: Annotated[
        int,
        typer.Option(
            metavar="TRIALS", help="Search before: so many settings of each system.", min=0
        ),
    ] = 0,
    jobs: Annotated[
        int, typer.Option(help="Cells at once; more than one blurs all times.", min=1)
    ] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    root: Annotated[
        Path | None,
        typer.Option(help="Folder with datasets; else $DHILGT_DATA, else the user's cache."),
    ] = None,
    references: Annotated[
        bool, typer.Option(help="Run GCN, GraphSAGE, LINKX and MLP too where they are not named.")
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the file of results: skip what is done.")
    ] = False,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Run cells in this process; memory is then shared."),
    ] = False,
    across: _Across = 3,
    published: _Published = True,
    form: _Format = "md",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the table only.")] = False,
) -> None:
    """Train systems on datasets with seeds, and print the table.

    Each cell runs in a process of its own; running out of memory or time is a result too.

    \b
    Example:
      dhilgt bench table --models all --data cora,chameleon --seeds 0-2 --budget 600
      dhilgt bench table --models dhilgt,gcn:tuned --data small --tune 20 -o tuned.jsonl
    """  # noqa: D301 - \b keeps the example's lines apart
    wanted = parse_seeds(seeds)
    _check_form(form)
    try:
        from dhilgt import baselines
    except ImportError as error:
        raise DhilgtError(str(error)) from error
    from dhilgt.benchmark import Limits, Results, cells, run
    from dhilgt.benchmark import data as graphs
    from dhilgt.benchmark import models as systems_of
    from dhilgt.benchmark import recipe as recipes
    from dhilgt.benchmark.recipe import OURS

    grid = cells(
        systems_of(models, references=references),
        graphs.chosen(data),
        wanted,
        recipes.read(recipe, (OURS, *baselines.names())),
        epochs=epochs,
        trials=tune,
    )
    limits = Limits(budget, total, jobs, device, not in_process, root)

    def tell(cell: Any, line: dict[str, Any], done: int, of: int) -> None:
        if not quiet:
            typer.echo(f"[{done}/{of}] {cell.name}: {_outcome(line)}", err=True)

    again = shlex.join(["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])])
    with Results(output).open(resume=resume) as results:
        try:
            found = run(grid, results, limits, tell)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; the cells that are done are in {output}; go on with: {again}"
            ) from None
    if not quiet:
        ran = f"{found.ran} run" + (f", {found.skipped} were done" if found.skipped else "")
        shell.note(f"{ran}; results in {output}")
    if found.left:
        shell.note(f"the time was over before {found.left} cells; go on with: {again}")
    _print(output, form, across, published)


def _outcome(line: dict[str, Any]) -> str:
    if line["status"] != "ok":
        message = " ".join(line["message"].split())
        return f"{line['status']}, {message[:200]}"
    seconds = f"{line['total_seconds']:.1f} s"
    metric = line["metrics"][0]
    test = line["scores"].get("test", {}).get(metric)
    name, score = (f"validation {metric}", line["val_score"]) if test is None else (metric, test)
    shown = "undefined" if score is None else f"{score:.4f}"
    return f"{name} {shown}, {line['epochs']} epochs, {seconds}"


# ---- show --------------------------------------------------------------------------------------


def run_show(
    results: Annotated[list[Path], typer.Argument(help="Files of results.")],
    form: _Format = "md",
    across: _Across = 3,
    published: _Published = True,
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
    _check_form(form)
    text = _text(results, form, across, published)
    if output is None:
        typer.echo(text, nl=False)
        return
    with shell.written_whole(output) as draft:
        draft.write_text(text, encoding="utf-8")


def _print(path: Path, form: str, across: int, published: bool) -> None:
    typer.echo(_text([path], form, across, published), nl=False)


def _text(paths: list[Path], form: str, across: int, published: bool) -> str:
    from dhilgt.benchmark import Results, tables
    from dhilgt.benchmark.render import render

    lines: dict[str, dict[str, Any]] = {}
    for path in paths:
        if not path.exists():
            raise ArtifactError(f"{path} is not there; name a file that dhilgt bench table wrote")
        lines |= {line["key"]: line for line in Results(path).lines()}
    found = tables(lines.values(), across=across, published=published)
    if not found:
        raise ArtifactError(f"{paths[0]} holds no cells; run dhilgt bench table")
    return render(found, form)


def _check_form(form: str) -> None:
    if form not in ("md", "latex", "html"):
        raise shell.usage_error(f"{form!r} is none of md, latex and html", "--format")


for _name, _run in (("table", run_table), ("show", run_show), ("speed", run_speed)):
    app.command(name=_name)(shell.guarded(_run))
