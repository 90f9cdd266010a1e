"""`dhilgt train`: from files of edges, features and labels to a trained classifier."""

import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhilgt.cli import processes, shell, train_output, train_plan, train_runs
from dhilgt.cli.flags import ClusterOption, with_help_all, with_inputs, with_settings
from dhilgt.cli.inputs import Inputs, InputSource
from dhilgt.cli.request import Request, check_metric, file_values, requested
from dhilgt.cli.train_runs import Options, train_one, train_seeds
from dhilgt.cluster.session import check_cluster
from dhilgt.errors import ArtifactError, DhilgtError, GraphWarning
from dhilgt.graph.graph import Graph
from dhilgt.settings import recipes, yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.utils.devices import choose_device

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

RUNS = "runs.jsonl"


@with_help_all("output", "budget", "seeds", "resume")
@with_settings
@with_inputs
def run(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write the run to.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Seconds that the search of --recipe auto may take.", min=1),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Train once per seed, like 0-9 or 1,5,7, each in its own folder."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Seeds to train at once, each in a process of its own.")
    ] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, or start one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what it would take, and stop.")
    ] = False,
    cluster: ClusterOption = None,
    cache: Annotated[
        bool, typer.Option(help="Keep labels and tokens for the next run, and look for them.")
    ] = True,
    report: Annotated[
        bool, typer.Option(help="Write report.html, a page about the run, into the folder.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
    *,
    sources: dict[str, Any],
    config: Path | None,
    recipe: str | None,
    settings: dict[str, Any],
) -> None:
    """Train a classifier of nodes on your graph or a public one and write it to a folder.

    A few kinds of models are tried and the best is kept; settings that you give hold in all of
    them. The folder will hold config.yaml: passed with --config, it repeats the run.

    \b
    Example:
      dhilgt train --edges e.csv --features x.csv --labels y.csv -o runs/mine
      dhilgt train --edges e.csv --features x.npy --labels y.csv --dry-run
      dhilgt train --config runs/mine/config.yaml --lr 1e-3 --seeds 0-4 -o five
      dhilgt train --data chameleon --seeds 0-9 -o runs/chameleon
    """  # noqa: D301 - \b keeps the example's lines apart
    if output is None and not dry_run:
        raise shell.usage_error("name the folder to write, or ask for --dry-run", "--output / -o")
    if jobs > 1 and processes.several():
        raise shell.usage_error("torchrun divides each run; leave out one of them", "--jobs")
    if cluster is not None:
        check_cluster(cluster)
        if jobs > 1:
            raise shell.usage_error("a cluster divides each run; leave out one of them", "--jobs")
    if seeds is not None and "seed" in settings:
        raise shell.usage_error("give --seed or --seeds, not both", "--seeds")
    seed_list = None if seeds is None else parse_seeds(seeds)
    if resume and config is None and output is not None and (output / yaml_files.NAME).exists():
        config = output / yaml_files.NAME
    request, inputs = requested(config, settings, sources, recipe, budget)
    folders = {} if output is None else run_folders(output, request, seed_list)
    # All that can be refused is refused before the files, which may be large, are read.
    with processes.agreed():
        if processes.is_main() and not dry_run:
            for folder in folders:
                train_runs.check_place(folder, resume=resume)
        if resume and inputs == Inputs():
            raise ArtifactError(
                f"{output} holds no run to go on with; check the path, or name the files to start "
                "one with: --edges, --features and --labels"
            )
        inputs.check()
        classifier_class()
        choose_device(request.settings.device)
    verbose = not (quiet or as_json)
    source = InputSource(inputs, request.settings.threads)
    first = next(iter(folders.values()), request).settings
    with processes.agreed():
        graph = read(source, first.seed, verbose=verbose, bar=not quiet)
    if dry_run:
        if processes.is_main():
            train_plan.show(graph, request, as_json)
        return
    assert output is not None
    again = anew = shlex.join(["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])])
    if seed_list is None:
        again = f"dhilgt train --resume -o {shlex.quote(str(output))}"
        if cluster is not None:
            again += f" --cluster {shlex.quote(cluster)}"
    options = Options(
        data=inputs.resolved(Path.cwd()).to_dict(),
        again=processes.launched(again),
        anew=processes.launched(anew),
        resume=resume,
        cache=cache,
        report=report,
        progress=False if quiet else "auto",
        cluster=cluster,
    )
    if seed_list is None:
        train_output.show(train_one(source, request, output, options), as_json, quiet)
        return
    runs = train_seeds(source, folders, options, jobs, output / RUNS, verbose=verbose)
    train_output.show_seeds(runs, output / RUNS, as_json, quiet)


def run_folders(output: Path, request: Request, seeds: list[int] | None) -> dict[Path, Request]:
    """Return what each run is asked to be by its folder.

    Args:
        output: Folder of the command.
        request: What the command line asks for.
        seeds: One run for each, in a folder of its own; None for one run.
    """
    if seeds is None:
        return {output: request}
    return {output / f"seed-{seed}": request.with_seed(seed) for seed in seeds}


def combined(
    config: Path | None,
    flags: dict[str, Any],
    sources: dict[str, Any],
    recipe: str | None = None,
) -> tuple[Settings, Inputs]:
    """Return fixed settings and inputs: options override a file, which overrides a recipe.

    Args:
        config: File of settings.
        flags: Settings of the command line.
        sources: Inputs of the command line.
        recipe: Name of the recipe; None is the paper's where the graph is a public one.
    """
    values, inputs = file_values(config, sources)
    values = {name: value for name, value in values.items() if name not in ("recipe", "budget")}
    if recipe is not None or inputs.dataset is not None:
        values = recipes.recipe(recipe or yaml_files.PAPER, inputs.dataset) | values
    chosen = Settings.from_dict({**values, **flags})
    check_metric(chosen.metric)
    return chosen, inputs


def classifier_class() -> "type[NodeClassifier]":
    """Return the class of the classifier, or raise the error that names what to install."""
    try:
        import dhilgt

        return dhilgt.NodeClassifier
    except ImportError as error:
        raise DhilgtError(str(error)) from error


def read(source: InputSource, seed: int, *, verbose: bool, bar: bool) -> Graph:
    """Return the graph; describe it on standard error if ``verbose``."""
    with warnings.catch_warnings():
        if verbose:  # the description covers the cleaning
            warnings.filterwarnings("ignore", "the input was cleaned", GraphWarning)
        graph = source(seed, progress=shell.watched() and bar)
    if verbose:
        for line in train_output.graph_lines(graph, source.inputs.title):
            typer.echo(line, err=True)
    return graph


def parse_seeds(text: str) -> list[int]:
    """Return the seeds in '0-9' or '1,5,7'.

    Example:
        >>> parse_seeds("0-2,7")
        [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + 10_000:
            raise shell.usage_error(f"{part!r} is not a seed or a range like 0-9", "--seeds")
        seeds += [seed for seed in range(first, last + 1) if seed not in seeds]
    return seeds
