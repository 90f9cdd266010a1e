"""`dhilgt tune`: search for settings by validation score."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.classifier.planning import format_seconds
from dhilgt.cli import shell
from dhilgt.cli.flags import with_help_all, with_inputs
from dhilgt.cli.inputs import InputSource
from dhilgt.cli.train import classifier_class, combined, parse_seeds, read
from dhilgt.errors import ArtifactError
from dhilgt.settings import yaml_files
from dhilgt.settings.settings import Settings

_SHOWN = 8


@with_help_all("output", "space", "trials", "budget", "seeds", "jobs", "fix")
@with_inputs
def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to keep the search in.")],
    space: Annotated[
        str, typer.Option(help="What to choose from: paper, extended, large, or a YAML file.")
    ] = "paper",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Trials in all; 60, or no limit where --budget is given."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Seconds in all, those of earlier calls counted in.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Seeds a trial trains on, like 0-2; their mean is its score.")
    ] = "0-2",
    jobs: Annotated[int, typer.Option(min=1, help="Processes that try settings at once.")] = 1,
    pruner: Annotated[
        str, typer.Option(help="How trials that fall behind are ended: median, hyperband, none.")
    ] = "median",
    storage: Annotated[
        str | None,
        typer.Option(help="An Optuna storage to keep the trials in; a file in PATH by default."),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE: fix a setting, and search the others."),
    ] = None,
    cache: Annotated[
        bool, typer.Option(help="Keep labels for the next run, and look for them.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
    *,
    sources: dict[str, Any],
    config: Path | None,
    recipe: str | None,
) -> None:
    """Search for the settings with the best validation score.

    No training reads the labels of its own test nodes. Interrupted, the same command goes on with
    the search.

    \b
    Example:
      dhilgt tune --data chameleon -o search/chameleon
      dhilgt tune --edges e.csv --features x.csv --labels y.csv -o search/mine
      dhilgt tune --data cora -o search/cora --space extended --budget 3600
    """  # noqa: D301 - \b keeps the example's lines apart
    from dhilgt.tune.space import read_space

    seed_list = tuple(parse_seeds(seeds))
    fixed = parse_fixed(fix or [])
    base, inputs = combined(config, fixed, sources, recipe)
    inputs.check()
    classifier_class()
    from dhilgt.classifier.origin import input_digests  # needs torch
    from dhilgt.tune.study import Search, as_begun, run_search

    source = InputSource(inputs, base.threads)
    search = Search(
        source=source,
        base=base,
        space=read_space(space).without(fixed),
        folder=output,
        seeds=seed_list,
        trials=60 if trials is None and budget is None else trials,
        budget=budget,
        pruner=pruner,
        storage=storage,
        about=inputs.resolved(Path.cwd()).to_dict(),
        cache=cache,
    )
    if "feature_scale" not in fixed:
        search = as_begun(search)
    _check_place(output)
    verbose = not (quiet or as_json)
    graph = read(source, seed_list[0], verbose=verbose, bar=not quiet)
    search = replace(search, inputs=input_digests(graph))
    command = shlex.join(["dhilgt", *sys.argv[1:]])
    with Table(search, enabled=verbose) as table:
        try:
            run_search(search, jobs=jobs, watch=table.refresh)
        except KeyboardInterrupt:
            results = _write_results(search, command)
            raise KeyboardInterrupt(
                f"stopped after {len(results.trials)} trials; the same command goes on with the "
                "search"
            ) from None
    results = _write_results(search, command)
    _show(search, results, inputs.dataset, as_json, quiet)


def parse_fixed(texts: list[str]) -> dict[str, Any]:
    """Return the settings that NAME=VALUE texts fix.

    Example:
        >>> parse_fixed(["epochs=20", "lr=1e-3"])
        {'epochs': 20, 'lr': 0.001}
    """
    fixed: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise shell.usage_error(f"{text!r} is not NAME=VALUE, like epochs=20", "--set")
        plain: Any = {"true": True, "false": False}.get(value.strip().lower(), value.strip())
        fixed[name.strip()] = yaml_files.checked_value(name.strip(), plain, "--set")
    return fixed


def _check_place(folder: Path) -> None:
    from dhilgt.tune.results import is_search

    if folder.exists() and not is_search(folder):
        raise ArtifactError(
            f"{folder} is not the folder of a search; choose a new one, or that of a search"
        )


def _write_results(search: Any, command: str) -> Any:
    """Write the best settings so far, if there are any, and return all results."""
    from dhilgt.tune.results import look, write_best

    results = look(search)
    if results.settings is not None:
        write_best(search, results, command)
    return results


def rows_of(results: Any, metric: str, higher_is_better: bool) -> list[tuple[str, ...]]:
    """Return the table of the best trials: a heading, then a line for each."""
    ended = [one for one in results.trials if one["state"] == "complete"]
    ended.sort(key=lambda one: float(one["score"]), reverse=higher_is_better)
    rows: list[tuple[str, ...]] = [("stage", "trial", f"val {metric}", "chosen", "time")]
    for one in ended[:_SHOWN]:
        chosen = ", ".join(f"{name} {_value(value)}" for name, value in one["chosen"].items())
        seconds = format_seconds(one["seconds"])
        rows.append((one["stage"], str(one["number"]), f"{one['score']:.4f}", chosen, seconds))
    return rows


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).lower()


def counts(results: Any) -> str:
    """Return how many trials ended, and how."""
    parts = [f"{results.count(state)} {state}" for state in ("complete", "pruned", "failed")]
    return f"{len(results.trials)} trials ({', '.join(parts)}), {results.seconds:.0f} s"


class Table:
    """The best trials so far, redrawn while a search runs; nothing outside of a terminal.

    Args:
        search: The search.
        enabled: Whether to draw anything.
    """

    def __init__(self, search: Any, *, enabled: bool) -> None:
        self._search = search
        self._live: Any = None
        self._storage: Any = None
        if enabled and shell.watched():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)

    def __enter__(self) -> "Table":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Draw the state of the search."""
        if self._live is None:
            return
        from rich.table import Table as RichTable

        from dhilgt.tune.results import look
        from dhilgt.tune.storage import open_storage

        if self._storage is None:
            self._storage = open_storage(self._search.address)
        results = look(self._search, self._storage)
        metric = self._search.base.metric
        heading, *rows = rows_of(results, metric, self._search.higher_is_better)
        drawn = RichTable(*heading, title=counts(results))
        for row in rows:
            drawn.add_row(*row)
        self._live.update(drawn, refresh=True)


def _show(search: Any, results: Any, dataset: str | None, as_json: bool, quiet: bool) -> None:
    from dhilgt.tune.results import BEST, TRIALS

    path = search.folder / BEST
    next_ = ["dhilgt", "train", "--config", str(path), "-o", f"runs/{search.folder.name}"]
    if dataset is not None:
        next_ += ["--seeds", "0-9"]
    if as_json:
        values: Settings = results.settings
        shell.print_json(
            {
                "path": str(path),
                "metric": search.base.metric,
                "score": results.best["score"],
                "scores": results.best["scores"],
                "settings": values.to_dict(),
                "trials": len(results.trials),
                "complete": results.count("complete"),
                "pruned": results.count("pruned"),
                "failed": results.count("failed"),
                "seconds": results.seconds,
                "next": shlex.join(next_),
            }
        )
        return
    if quiet:
        return
    shell.print_columns(rows_of(results, search.base.metric, search.higher_is_better))
    best = f"{search.base.metric} {results.best['score']:.4f} on validation nodes"
    shell.print_table(
        [
            ("best", f"{best}, the mean of {len(search.seeds)} seeds"),
            ("searched", counts(results)),
            ("written", f"{path}, {TRIALS}"),
        ]
    )
    typer.echo(f"next: {shlex.join(next_)}")
