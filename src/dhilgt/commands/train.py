"""`dhilgt train`: from files of edges, features and labels to a trained classifier."""

import re
import shlex
import sys
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhilgt import settings_file
from dhilgt.cache import Cache
from dhilgt.commands import processes, run_target, shell, train_report
from dhilgt.commands.inputs import Inputs
from dhilgt.commands.setting_flags import in_flag_words, with_settings
from dhilgt.errors import ConfigError, DhilgtError, GraphError, GraphWarning, TrainingInterrupted
from dhilgt.graph import Graph
from dhilgt.settings import Settings

if TYPE_CHECKING:
    from dhilgt.estimator import NodeClassifier

RUNS = "runs.jsonl"


@with_settings
def run(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write the run to.")
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="File of edges: text, Parquet, NPZ or MatrixMarket.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="CSV or Parquet with a column of ids, .npy, .npz, or 'degree'."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="CSV or Parquet of id and class; .npy, one per node.")
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(help="File of all ids, one per line: the order of the rows of .npy files."),
    ] = None,
    split: Annotated[
        Path | None, typer.Option(help="CSV or Parquet of id and part: train, val or test.")
    ] = None,
    directed: Annotated[
        bool | None,
        typer.Option("--directed/--undirected", help="Keep the direction of edges, or not."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="The two columns of edges, by name or position: 'from,to', '0,2'."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Between the columns of edges; found out by default.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="First line of edges is a header, or not."),
    ] = None,
    ignore_weights: Annotated[
        bool | None,
        typer.Option("--ignore-weights", help="Pass over further columns of edges."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of settings; flags count more than it.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Train once per seed, like 0-9 or 1,5,7, each in its own folder."),
    ] = None,
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
    settings: dict[str, Any],
) -> None:
    """Train a classifier of nodes on your graph and write it to a folder.

    The settings below are the paper's by default. The folder holds config.yaml: given back with
    --config it repeats the run.

    \b
    Example:
      dhilgt train --edges e.csv --features x.csv --labels y.csv -o runs/mine
      dhilgt train --edges e.csv --features x.npy --labels y.csv --dry-run
      dhilgt train --config runs/mine/config.yaml --lr 1e-3 --seeds 0-4 -o runs/five
    """  # noqa: D301 - \b keeps the example's lines apart
    if output is None and not dry_run:
        raise shell.usage_error("name the folder to write, or ask for --dry-run", "--output / -o")
    wanted = None if seeds is None else parse_seeds(seeds)
    if wanted is not None and "seed" in settings:
        raise shell.usage_error("give --seed or --seeds, not both", "--seeds")
    left_over = None if output is None else output / settings_file.NAME
    if resume and config is None and left_over is not None and left_over.exists():
        config = left_over
    given = {
        "edges": edges, "features": features, "labels": labels, "nodes": nodes, "split": split,
        "directed": directed, "columns": columns, "separator": separator, "header": header,
        "ignore_weights": ignore_weights,
    }  # fmt: skip
    chosen, inputs = combined(config, settings, given)
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
                run_target.check_place(place, resume=resume)
        if inputs.labels is None:
            raise GraphError("no labels are given, and training needs some; pass --labels FILE")
        if inputs.features is None:
            raise GraphError(
                "no features are given; pass --features FILE, or --features degree to learn from "
                "the number of neighbours"
            )
    classifier = classifier_class()
    told = not (quiet or as_json)
    with processes.agreed():
        graph = read(inputs, chosen, told=told, bar=not quiet)
    if dry_run:
        if processes.is_main():
            _print_plan(graph, chosen, as_json)
        return
    assert output is not None
    data = inputs.resolved(Path.cwd()).to_dict()
    again = processes.launched(
        shlex.join(["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])])
    )
    done = []
    for place, its in places.items():
        if told and wanted is not None:
            typer.echo(f"seed {its.seed}: {place}", err=True)
        if wanted is None:
            again = processes.launched(f"dhilgt train --resume -o {shlex.quote(str(place))}")
        found = _finished(classifier, place, its) if resume else None
        if found is None:
            clf = classifier(**its.to_dict(), cache=cache, progress=False if quiet else "auto")
            found = _trained(clf, graph, its, data, place, resume, again, report)
        done.append(found)
        if wanted is not None and processes.is_main():
            _write_lines(output / RUNS, done)
    if wanted is None:
        train_report.show(done[0], as_json, quiet)
    else:
        train_report.show_seeds(done, output / RUNS, as_json, quiet)


def combined(
    config: Path | None, flags: dict[str, Any], given: dict[str, Any]
) -> tuple[Settings, Inputs]:
    """Gives the settings and inputs of a file, with those of the command line over them."""
    inputs = Inputs()
    values: dict[str, Any] = {}
    if config is not None:
        values = settings_file.read_settings(config)
        inputs = Inputs.from_file(values.pop("data", {}), config)
    paths = {name: str(v) if isinstance(v, Path) else v for name, v in given.items()}
    inputs = inputs.updated(paths)
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


def read(inputs: Inputs, settings: Settings, *, told: bool, bar: bool) -> Graph:
    """Reads the graph, and says what was found."""
    with warnings.catch_warnings():
        if told:  # the cleaning is part of what is told
            warnings.filterwarnings("ignore", "the input was cleaned", GraphWarning)
        graph = inputs.load(threads=settings.threads, progress=shell.watched() and bar)
    if told:
        for line in train_report.graph_lines(graph, inputs.edges):
            typer.echo(line, err=True)
    return graph


def _finished(
    classifier: "type[NodeClassifier]", place: Path, settings: Settings
) -> dict[str, Any] | None:
    """Gives what is worth knowing of a run that has ended with the same settings, else None."""
    if not (place / "bundle.json").exists():
        return None
    clf = classifier.load(place)
    return train_report.facts(clf, place, set(), 0.0) if clf.settings_ == settings else None


def _trained(
    clf: "NodeClassifier",
    graph: Graph,
    settings: Settings,
    data: dict[str, Any],
    place: Path,
    resume: bool,
    again: str,
    report: bool,
) -> dict[str, Any]:
    """Trains once and gives what is worth knowing."""
    clf._resume_command = again.replace("{", "{{").replace("}", "}}")
    cache = Cache() if clf.cache and graph.num_edges else None
    before = set() if cache is None else {entry.path for entry in cache.entries()}
    started = time.perf_counter()
    text = settings_file.settings_text(settings, data)
    with ExitStack() as stack:
        with processes.agreed():
            if processes.is_main():
                stack.enter_context(run_target.started(place, text))
        try:
            clf.fit(graph, run_dir=place, resume=resume)
        except TrainingInterrupted as stop:
            said = re.sub(r"go on with .* or: ", "go on with: ", str(stop))
            raise KeyboardInterrupt(said) from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted before the first epoch; give the same command again, what is in the "
                "cache is reused"
            ) from None
    if report:
        _write_report(clf, place)
    reused: set[str] = set()
    if cache is not None:
        made = {entry.kind for entry in cache.entries() if entry.path not in before}
        reused = {"labels"} - made if settings.fresh else {"labels", "tokens"} - made
    return train_report.facts(clf, place, reused, time.perf_counter() - started)


def _write_report(clf: "NodeClassifier", place: Path) -> None:
    """Writes the page about a run; one that fails is no reason to lose the run."""
    from dhilgt.report import write_report

    try:
        write_report(clf, place / "report.html")
    except (DhilgtError, OSError) as error:
        shell.note(f"the report was not written: {error}")


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
    from dhilgt.plan import plan

    found = plan(graph, settings)
    if as_json:
        shell.print_json(found.to_dict())
        return
    typer.echo(f"{found.num_parameters:,} parameters, {found.num_train:,} training nodes, "
               f"on {found.device}")  # fmt: skip
    shell.print_columns(found.lines())


def _write_lines(path: Path, done: list[dict[str, Any]]) -> None:
    from dhilgt.store_files import canonical_json, explained, write_file

    with explained("write", path):
        lines = b"".join(canonical_json(facts) + b"\n" for facts in done)
        write_file(path, iter((memoryview(lines),)))
