"""`dhilgt train`: from files of edges, features and labels to a trained classifier."""

import re
import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhilgt.cli import processes, shell, train_output, train_runs
from dhilgt.cli.flags import in_flag_words, with_help_all, with_inputs, with_settings
from dhilgt.cli.inputs import Inputs, InputSource
from dhilgt.cli.train_runs import Options, train_one, train_seeds
from dhilgt.errors import ConfigError, DhilgtError, GraphWarning
from dhilgt.graph.graph import Graph
from dhilgt.settings import recipes, yaml_files
from dhilgt.settings.settings import Settings

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

RUNS = "runs.jsonl"


@with_help_all("output", "seeds", "resume")
@with_settings
@with_inputs
def run(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write the run to.")
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
    cache: Annotated[
        bool, typer.Option(help="Keep labels and tokens for the next run, and look for them.")
    ] = True,
    report: Annotated[
        bool, typer.Option(help="Write report.html, a page about the run, into the folder.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    *,
    sources: dict[str, Any],
    config: Path | None,
    recipe: str | None,
    settings: dict[str, Any],
) -> None:
    """Train a classifier of nodes on your graph or a public one and write it to a folder.

    The settings below are the paper's by default. The folder holds config.yaml: given back with
    --config it repeats the run.

    \b
    Example:
      dhilgt train --edges e.csv --features x.csv --labels y.csv -o runs/mine
      dhilgt train --edges e.csv --features x.npy --labels y.csv --dry-run
      dhilgt train --config runs/mine/config.yaml --lr 1e-3 --seeds 0-4 -o runs/five
      dhilgt train --data chameleon --seeds 0-9 -o runs/chameleon
    """  # noqa: D301 - \b keeps the example's lines apart
    if output is None and not dry_run:
        raise shell.usage_error("name the folder to write, or ask for --dry-run", "--output / -o")
    if jobs > 1 and processes.several():
        raise shell.usage_error("torchrun shares out each run; leave out one of them", "--jobs")
    wanted = None if seeds is None else parse_seeds(seeds)
    if wanted is not None and "seed" in settings:
        raise shell.usage_error("give --seed or --seeds, not both", "--seeds")
    left_over = None if output is None else output / yaml_files.NAME
    if resume and config is None and left_over is not None and left_over.exists():
        config = left_over
    chosen, inputs = combined(config, settings, sources, recipe)
    places: dict[Path, Settings] = {}
    if output is not None and wanted is None:
        places = {output: chosen}
    elif output is not None and wanted is not None:
        chosen_values = chosen.to_dict()
        places = {
            output / f"seed-{seed}": Settings.from_dict({**chosen_values, "seed": seed})
            for seed in wanted
        }
    # All that can be refused is refused before the files, which may be large, are read.
    with processes.agreed():
        if processes.is_main() and not dry_run:
            for place in places:
                train_runs.check_place(place, resume=resume)
        inputs.check()
        classifier_class()
    told = not (quiet or as_json)
    source = InputSource(inputs, chosen.threads)
    first = next(iter(places.values()), chosen)
    with processes.agreed():
        graph = read(source, first.seed, told=told, bar=not quiet)
    if dry_run:
        if processes.is_main():
            _print_plan(graph, chosen, as_json)
        return
    assert output is not None
    options = Options(
        data=inputs.resolved(Path.cwd()).to_dict(),
        again=processes.launched(
            shlex.join(["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])])
        ),
        resume=resume,
        cache=cache,
        report=report,
        progress=False if quiet else "auto",
    )
    if wanted is None:
        again = processes.launched(f"dhilgt train --resume -o {shlex.quote(str(output))}")
        done = train_one(source, chosen, output, replace(options, again=again))
        train_output.show(done, as_json, quiet)
        return
    found = train_seeds(source, places, options, jobs, output / RUNS, told=told)
    train_output.show_seeds(found, output / RUNS, as_json, quiet)


def combined(
    config: Path | None,
    flags: dict[str, Any],
    given: dict[str, Any],
    recipe: str | None = None,
) -> tuple[Settings, Inputs]:
    """Gives the settings and inputs of a recipe, a file over it, and the command line over both.

    Args:
        config: File of settings.
        flags: Settings of the command line.
        given: Inputs of the command line.
        recipe: Its name; None is the paper's where the graph is a public one.
    """
    inputs = Inputs()
    values: dict[str, Any] = {}
    if config is not None:
        values = yaml_files.read_settings(config)
        inputs = Inputs.from_file(values.pop("data", {}), config)
    inputs = inputs.updated(given)
    if recipe is not None or inputs.dataset is not None:
        values = recipes.recipe(recipe or "paper", inputs.dataset) | values
    try:
        chosen = Settings.from_dict({**values, **flags})
        _check_metric(chosen.metric)
    except ConfigError as error:
        raise ConfigError(in_flag_words(str(error))) from error
    return chosen, inputs


def _check_metric(name: str) -> None:
    from dhilgt import metrics

    metrics.metric(name)


def classifier_class() -> "type[NodeClassifier]":
    """Gives the classifier, or the error that says what to install."""
    try:
        import dhilgt

        return dhilgt.NodeClassifier
    except ImportError as error:
        raise DhilgtError(str(error)) from error


def read(source: InputSource, seed: int, *, told: bool, bar: bool) -> Graph:
    """Reads the graph, and says what was found."""
    with warnings.catch_warnings():
        if told:  # the cleaning is part of what is told
            warnings.filterwarnings("ignore", "the input was cleaned", GraphWarning)
        graph = source(seed, progress=shell.watched() and bar)
    if told:
        for line in train_output.graph_lines(graph, source.inputs.title):
            typer.echo(line, err=True)
    return graph


def parse_seeds(text: str) -> list[int]:
    """Gives the seeds meant by '0-9' or '1,5,7'.

    Example:
        >>> parse_seeds("0-2,7")
        [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + 10_000:
            raise shell.usage_error(f"{part!r} is not a seed or a range like 0-9", "--seeds")
        found += [seed for seed in range(first, last + 1) if seed not in found]
    return found


def _print_plan(graph: Graph, settings: Settings, as_json: bool) -> None:
    from dhilgt.classifier.planning import plan

    found = plan(graph, settings)
    if as_json:
        shell.print_json(found.to_dict())
        return
    typer.echo(f"{found.num_parameters:,} parameters, {found.num_train:,} training nodes, "
               f"on {found.device}")  # fmt: skip
    shell.print_columns(found.lines())
