"""What the commands of `dhilgt bench` share: running cells, reading lines, showing them."""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dhilgt.cli import shell
from dhilgt.cli.train import parse_seeds
from dhilgt.errors import ArtifactError, DhilgtError

if TYPE_CHECKING:
    from dhilgt import benchmark
    from dhilgt.benchmark import Cell, Limits, Record, Table
    from dhilgt.benchmark.running.recipe import Recipe
    from dhilgt.benchmark.running.runner import Summary

# ---- running -----------------------------------------------------------------------------------


def whole_cells(data: str, seeds: str, recipes: str, epochs: int | None) -> "list[Cell]":
    """Return cells of DHIL-GT by some recipes, seed by seed, from the options of a command."""
    parsed_seeds = parse_seeds(seeds)
    from dhilgt.benchmark.experiments import studied
    from dhilgt.benchmark.running import data as graphs

    try:
        chosen = studied.studied_recipes(recipes)
    except ImportError as error:
        raise DhilgtError(str(error)) from error
    return studied.whole_cells(chosen, graphs.chosen(data), parsed_seeds, epochs)


def read_recipe(name: str) -> "Recipe":
    """Return the recipe "paper", "best" or that of a file; refuse if training lacks a package."""
    try:
        from dhilgt import baselines
    except ImportError as error:
        raise DhilgtError(str(error)) from error
    from dhilgt.benchmark.running import recipe as recipes

    return recipes.read(name, (recipes.OURS, *baselines.names()))


def limits_of(
    budget: float | None,
    total: float | None,
    jobs: int,
    device: str,
    root: Path | None,
    in_process: bool,
    starts: float | None = None,
) -> "Limits":
    """Return the limits of many small cells: a process runs several, as its start takes longer."""
    from dhilgt.benchmark import Limits

    return Limits(
        budget, total, jobs, device, not in_process, root, reuse=not in_process, starts=starts
    )


def measure(
    grid: "list[Cell]", output: Path, limits: "Limits", *, resume: bool, quiet: bool
) -> None:
    """Run the cells that are not done, and print how each ended and how to go on."""
    from dhilgt.benchmark import run
    from dhilgt.benchmark.lines import recorded_command

    def report(cell: "Cell", record: "Record", done: int, of: int) -> None:
        if not quiet:
            recipe = "" if cell.recipe == "paper" else f" ({cell.recipe})"
            typer.echo(f"[{done}/{of}] {cell.name}{recipe}: {outcome(record)}", err=True)

    def work(results: "benchmark.Results") -> "Summary":
        return run(grid, results, limits, report, recorded_command(sys.argv[1:]))

    resumable(work, output, resume=resume, quiet=quiet)


def resumable(
    work: "Callable[[benchmark.Results], Summary]", output: Path, *, resume: bool, quiet: bool
) -> None:
    """Do work that adds records to a file, and print how to go on when it was cut short."""
    with open_results(output, resume) as (results, again):
        summary = work(results)
    if not quiet:
        ran = f"{summary.ran} run" + (f", {summary.skipped} were done" if summary.skipped else "")
        shell.note(f"{ran}; results in {output}")
    if summary.left:
        shell.note(f"the time was over before {summary.left} cells; go on with: {again}")


@contextmanager
def open_results(output: Path, resume: bool) -> "Iterator[tuple[benchmark.Results, str]]":
    """Yield the open file of results, and the command to go on with, which an interrupt names."""
    from dhilgt.benchmark import Results

    again = shlex.join(["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])])
    with Results(output).open(resume=resume) as results:
        try:
            yield results, again
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; the cells that are done are in {output}; go on with: {again}"
            ) from None


def outcome(record: "Record") -> str:
    """Return how a cell ended, in a few words."""
    if not record.ok:
        return failure(record)
    metric, test = record.metrics[0], record.test_score()
    name, score = (f"validation {metric}", record.val_score) if test is None else (metric, test)
    shown = "undefined" if score is None else f"{score:.4f}"
    return f"{name} {shown}, {record.epochs} epochs, {record.total_seconds or 0:.1f} s"


def failure(record: "Record") -> str:
    """Return why a cell did not end well, in a few words."""
    return f"{record.status}, {' '.join(record.message.split())[:200]}"


# ---- showing -----------------------------------------------------------------------------------


def files_to_show(results: list[Path] | None, render_only: bool, output: Path) -> list[Path]:
    """Return the files that an experiment shows: those named, or after a run its own."""
    if not render_only:
        if results:
            raise shell.usage_error("files to show need --render-only", "RESULTS")
        return [output]
    if not results:
        raise shell.usage_error("name the files of results to show", "--render-only")
    return results


def records_of(paths: Iterable[Path]) -> "list[Record]":
    """Return the records of several files; of two of one cell the later counts."""
    from dhilgt.benchmark import Results

    records: dict[str, Record] = {}
    for path in paths:
        if not path.exists():
            raise ArtifactError(f"{path} is not there; name a file that dhilgt bench wrote")
        records |= Results(path).by_key()
    return list(records.values())


def show(
    tables: "list[Table]", form: str, name: str, into: Path | None, *draw: Callable[[Path], object]
) -> None:
    """Print tables; write them and figures to a folder if one is named.

    Args:
        tables: What to show.
        form: "md", "latex" or "html".
        name: First part of the names of the files.
        into: The folder.
        draw: Functions that write figures to the folder.
    """
    from dhilgt.benchmark.show.render import render

    if not tables:
        raise ArtifactError(f"there are no cells of this kind; run dhilgt bench {name} first")
    text = render(tables, form)
    typer.echo(text, nl=False)
    if into is None:
        return
    into.mkdir(parents=True, exist_ok=True)
    suffix = {"latex": "tex"}.get(form, form)
    with shell.written_whole(into / f"{name}-table.{suffix}") as draft:
        draft.write_text(text, encoding="utf-8")
    for figure in draw:
        figure(into)


def check_form(form: str) -> None:
    """Refuse a format that is not known, before any work."""
    if form not in ("md", "latex", "html"):
        raise shell.usage_error(f"{form!r} is none of md, latex and html", "--format")
