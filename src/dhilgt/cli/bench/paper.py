"""`dhilgt bench paper`: the comparison of all systems, as they come and after an equal search."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dhilgt.cli import flags, shell
from dhilgt.cli.bench import running as shared
from dhilgt.cli.train import parse_seeds
from dhilgt.errors import ConfigError

if TYPE_CHECKING:
    from dhilgt.benchmark import Cell, Limits, Record, Table

_SCORES = ("defaults", "search")
_TABLES = {"scores": _SCORES, "defaults": ("defaults",), "search": ("search",), "times": ()}
_SPLITS = {"own": ("own",), "official": ("official",), "both": ("own", "official")}
_TITLES = {
    "defaults-own": "As they come, the package's splits",
    "defaults-official": "As they come, official splits",
    "search-own": "Equal search, the package's splits",
    "search-official": "Equal search, official splits",
    "known": "Known figures",
    "times": "Time and memory",
    "speed": "Speed of DHIL-GT beside the published figures",
}
_NOTHING = "Not measured yet.\n"


def run_paper(
    results: flags.Results = None,
    table: Annotated[
        str,
        typer.Option(
            help="scores: both tables; defaults: every system as it comes; search: after an equal "
            "search; times: time and memory in short trainings."
        ),
    ] = "scores",
    splits: Annotated[
        str, typer.Option(help="own (random, 60/20/20), official (of the data) or both.")
    ] = "both",
    trials: Annotated[
        int, typer.Option(help="Settings of each system that a search tries.", min=1)
    ] = 6,
    seeds: Annotated[
        str, typer.Option(help="Of the splits that are evaluated; 0 to 2 are those of searches.")
    ] = "10-19",
    models: Annotated[str, typer.Option(help="all, or a list of systems like dhilgt,gcn.")] = "all",
    data: Annotated[
        str, typer.Option(help="all (twelve graphs), or a list of datasets like cora,squirrel.")
    ] = "all",
    epochs: Annotated[
        int | None,
        typer.Option(help="The most epochs, to try the command; of times: epochs, else 10.", min=1),
    ] = None,
    output: flags.Output = Path("paper.jsonl"),
    budget: flags.Budget = None,
    total: flags.Total = None,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no further training after this time; see --resume.")
    ] = None,
    jobs: flags.Jobs = 1,
    device: flags.Device = "auto",
    root: flags.Root = None,
    resume: flags.Resume = False,
    in_process: flags.InProcess = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Run nothing: say what is left and how long it may take.")
    ] = False,
    render_only: flags.RenderOnly = False,
    into: flags.Into = None,
    form: flags.Form = "md",
    across: flags.Across = 3,
    published: flags.Published = True,
    quiet: bool = False,
) -> None:
    """Train all systems under one protocol, and print its tables with paired differences.

    No training is ended by the clock; few seeds and small graphs come first.

    \b
    Example:
      dhilgt bench paper --jobs 8 --minutes 8 --resume -o paper.jsonl
      dhilgt bench paper --render-only paper.jsonl --into docs/results
    """  # noqa: D301 - \b keeps the example's lines apart
    _check_word(table, _TABLES, "--table")
    _check_word(splits, _SPLITS, "--splits")
    shared.check_form(form)
    if minutes is not None and not minutes > 0:
        raise shell.usage_error(f"{minutes:g} is not a time above 0", "--minutes")
    shown = shared.files_to_show(results, render_only, output)
    if not render_only:
        shared.read_recipe("paper")  # refuses where training lacks a package
        cells = _cells(table, splits, trials, seeds, models, data, epochs, root)
        starts = None if minutes is None else 60 * minutes
        limits = shared.limits_of(budget, total, jobs, device, root, in_process, starts)
        if table == "times":  # memory of the host is that of one cell only in its own process
            limits = replace(limits, reuse=False)
        if plan_only:
            typer.echo(_plan(cells, output, limits))
            return
        _measure(cells, output, limits, resume, quiet)
    parts = _parts(shared.records_of(_files(shown)), table, splits, across, published)
    _show(parts, form, into)


def _check_word(word: str, known: Sequence[str] | dict[str, tuple[str, ...]], option: str) -> None:
    if word not in known:
        raise shell.usage_error(f"{word!r} is none of {', '.join(known)}", option)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return files, and those in folders."""
    return [
        file
        for path in paths
        for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
    ]


# ---- measuring ---------------------------------------------------------------------------------


def _cells(
    table: str,
    splits: str,
    trials: int,
    seeds: str,
    models: str,
    data: str,
    epochs: int | None,
    root: Path | None,
) -> "list[Cell]":
    from dhilgt.benchmark.experiments import default, paper, protocol
    from dhilgt.benchmark.running import data as graphs

    systems = _systems(models, paper.known_systems())
    if table == "times":
        names: Sequence[str] = paper.GRAPHS if data == "all" else graphs.chosen(data)
        return paper.time_cells(names, systems, epochs=epochs or 10, root=root)
    return protocol.protocol_cells(
        default.GRAPHS if data == "all" else graphs.chosen(data),
        parse_seeds(seeds),
        tables=_TABLES[table],
        splits=_SPLITS[splits],
        trials=trials,
        systems=systems,
        epochs=epochs,
    )


def _systems(models: str, known: Sequence[str]) -> list[str]:
    if models == "all":
        return list(known)
    systems = [name.strip() for name in models.split(",")]
    for name in systems:
        if name not in known:
            raise ConfigError(
                f"{name!r} is not a system of the comparison; choose among {', '.join(known)}"
            )
    return systems


def _plan(cells: "list[Cell]", output: Path, limits: "Limits") -> str:
    from dhilgt.benchmark import Results
    from dhilgt.benchmark.running.agenda import plan

    return plan(cells, Results(output).by_key(), limits.budget).text(limits.jobs)


def _measure(
    cells: "list[Cell]", output: Path, limits: "Limits", resume: bool, quiet: bool
) -> None:
    from dhilgt.benchmark import run
    from dhilgt.benchmark.lines import recorded_command

    def report(cell: "Cell", record: "Record", done: int, of: int) -> None:
        if not quiet:
            recipe = "" if cell.recipe == "paper" else f" ({cell.recipe})"
            typer.echo(f"[{done}/{of}] {cell.name}{recipe}: {shared.outcome(record)}", err=True)

    with shared.open_results(output, resume) as (results, again):
        if not quiet:
            shell.note(_plan(cells, output, limits))
        command = recorded_command(sys.argv[1:])
        summary = run(cells, results, limits, report, command)
    if not quiet:
        shell.note(f"{summary.ran} run, results in {output}; {_plan(cells, output, limits)}")
    if summary.left:
        shell.note(f"{summary.left} trainings are not done; go on with: {again}")


# ---- showing -----------------------------------------------------------------------------------


def _parts(
    records: "list[Record]", table: str, splits: str, across: int, published: bool
) -> "dict[str, list[Table]]":
    """Return the tables by the name of their part, empty where there are no lines."""
    from dhilgt.benchmark.experiments import paper_tables, protocol_tables

    if table == "times":
        joined = paper_tables.joined([records])
        times = paper_tables.times_tables(joined, across=across, published=published)
        return {"times": times, "speed": [paper_tables.speed_table(joined)] if times else []}
    parts = {
        f"{kind}-{split}": protocol_tables.protocol_tables(
            records, kind, split, across=across, published=published
        )
        for kind in _TABLES[table]
        for split in _SPLITS[splits]
    }
    if table == "scores":
        known = protocol_tables.known_table(records)
        parts["known"] = [] if known is None else [known]
    return parts


def _show(parts: "dict[str, list[Table]]", form: str, into: Path | None) -> None:
    """Print the parts that have tables, and write each to a file of the folder."""
    from dhilgt.benchmark.show.render import render

    texts = {name: render(tables, form) if tables else "" for name, tables in parts.items()}
    for name, text in texts.items():
        if text:
            heading = f"## {_TITLES[name]}\n\n" if form == "md" else ""
            typer.echo(f"{heading}{text}")
    if not any(texts.values()):
        typer.echo(_NOTHING, nl=False)
    if into is None:
        return
    into.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        suffix = {"latex": "tex"}.get(form, form)
        with shell.written_whole(into / f"paper-{name}-table.{suffix}") as draft:
            draft.write_text(text or _NOTHING, encoding="utf-8")
