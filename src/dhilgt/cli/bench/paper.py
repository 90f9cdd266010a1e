"""`dhilgt bench paper`: the result tables of the paper by one command each."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dhilgt.cli import flags, shell
from dhilgt.cli.bench.running import check_form, open_results, outcome
from dhilgt.cli.train import parse_seeds
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError

if TYPE_CHECKING:
    from dhilgt.benchmark import Cell, Limits, Record
    from dhilgt.benchmark.experiments.paper import Round

_FORMS = {".md": "md", ".tex": "latex", ".html": "html"}
_KINDS = ("main", "homophilous", "scores", "speed")


def run_paper(
    table: Annotated[
        str,
        typer.Option(help="main or homophilous; of both: scores alone, or speed of DHIL-GT."),
    ] = "main",
    part: Annotated[
        str,
        typer.Option(
            help="scores (graphs that are here), times (the same, short, one by one), stand-ins "
            "(time and memory where the graph is not here) or all."
        ),
    ] = "all",
    seeds: Annotated[str, typer.Option(help="Seeds, like 0-9 or 1,5,7.")] = "0-9",
    tune: flags.Tune = 0,
    epochs: Annotated[
        int, typer.Option(help="Epochs of cells run for time and memory only.", min=1)
    ] = 10,
    score_epochs: Annotated[
        int | None, typer.Option(help="The most epochs of cells that are scored.", min=1)
    ] = None,
    seconds: flags.Seconds = None,
    models: Annotated[str, typer.Option(help="all, or a list of systems like dhilgt,gcn.")] = "all",
    data: Annotated[
        str | None, typer.Option(help="Some datasets of the table only, like cora,citeseer.")
    ] = None,
    output: flags.Output = Path("paper.jsonl"),
    budget: flags.Budget = None,
    total: flags.Total = None,
    jobs: Annotated[
        int, typer.Option(help="Scored cells at once; their times are then marked.", min=1)
    ] = 1,
    timed_jobs: Annotated[
        int, typer.Option(help="Timed cells at once; more than one blurs and marks them.", min=1)
    ] = 1,
    device: flags.Device = "auto",
    root: flags.Root = None,
    resume: flags.Resume = False,
    in_process: flags.InProcess = False,
    reuse: flags.Reuse = False,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Run nothing: show the results that are there.")
    ] = False,
    results: Annotated[
        list[Path] | None,
        typer.Option(help="Further file of results, or folder of such; may be repeated."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Write all lines joined here, without what no table needs."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Write the table to this file, not to the screen.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="md, latex or html; else by the name of the file."),
    ] = None,
    across: flags.Across = 3,
    published: flags.Published = True,
    quiet: bool = False,
) -> None:
    """Run the systems of a table of the paper, and print it beside the published figures.

    Small graphs and few seeds of everything come first: a run cut short by --total is of use.

    \b
    Example:
      dhilgt bench paper --tune 20 --budget 120 --total 540 -o main.jsonl
      dhilgt bench paper --render-only --results main.jsonl --to main.md
    """  # noqa: D301 - \b keeps the example's lines apart
    if table not in _KINDS:
        raise shell.usage_error(f"{table!r} is none of {', '.join(_KINDS)}", "--table")
    form = form or _FORMS.get(to.suffix if to is not None else ".md", "md")
    check_form(form)
    names = _names(table, data)
    if not render_only:
        parsed_seeds = parse_seeds(seeds)
        try:
            from dhilgt import baselines  # noqa: F401 - says what to install
        except ImportError as error:
            raise DhilgtError(str(error)) from error
        from dhilgt.benchmark import Limits
        from dhilgt.benchmark.experiments import paper
        from dhilgt.benchmark.running.recipe import OURS

        work = paper.rounds(
            names,
            parsed_seeds,
            part=part,
            trials=tune,
            epochs=epochs,
            score_epochs=score_epochs,
            seconds=seconds,
            systems=_systems(models, (OURS,) if table == "speed" else (OURS, *paper.SYSTEMS)),
            root=root,
        )
        _measure(
            work,
            output,
            Limits(budget, total, jobs, device, not in_process, root, reuse),
            timed_jobs,
            resume,
            quiet,
        )
    records = _records([output] if not render_only or not results else [], results or [])
    if keep is not None:
        _keep(records, keep)
    text = _text(records, table, names if data else None, form, across, published)
    if to is None:
        typer.echo(text, nl=False)
        return
    with shell.written_whole(to) as draft:
        draft.write_text(text, encoding="utf-8")


def _names(table: str, data: str | None) -> list[str]:
    from dhilgt.benchmark.experiments.paper import TABLES
    from dhilgt.benchmark.running.data import chosen

    if data is not None:
        return chosen(data)
    return [name for kind in TABLES if table in (kind, "scores", "speed") for name in TABLES[kind]]


def _systems(models: str, known: Sequence[str]) -> list[str]:
    if models == "all":
        return list(known)
    systems = [name.strip() for name in models.split(",")]
    for name in systems:
        if name not in known:
            raise ConfigError(
                f"{name!r} is not a system of this table; choose among {', '.join(known)}"
            )
    return systems


# ---- measuring ---------------------------------------------------------------------------------


def _measure(
    work: "list[Round]", output: Path, limits: "Limits", timed_jobs: int, resume: bool, quiet: bool
) -> None:
    from dhilgt.benchmark import run
    from dhilgt.benchmark.experiments.paper import TIMES

    def report(place: str, cell: "Cell", record: "Record", done: int, of: int) -> None:
        if not quiet:
            timed = cell.recipe == TIMES and record.ok
            text = _seconds(record) if timed else outcome(record)
            typer.echo(f"[{place}, {done}/{of}] {cell.name}: {text}", err=True)

    ends = None if limits.total is None else time.monotonic() + limits.total
    ran = 0
    with open_results(output, resume) as (results, again):
        for at, one in enumerate(work, 1):
            rest = None if ends is None else ends - time.monotonic()
            if rest is not None and rest <= 0:
                break
            own = replace(limits, total=rest, jobs=timed_jobs if one.timed else limits.jobs)
            report_round = partial(report, f"round {at} of {len(work)}")
            ran += run(one.cells, results, own, report_round).ran
        known = results.by_key()
    keys = {cell.key for one in work for cell in one.cells}
    left = sum(key not in known or not known[key].is_final(limits.budget) for key in keys)
    if not quiet:
        shell.note(f"{ran} run, {len(keys) - left} of {len(keys)} cells done; results in {output}")
    if left:
        shell.note(f"{left} cells are not done; go on with: {again}")


def _seconds(record: "Record") -> str:
    """Return the times of a cell that is run for them, without its score."""
    known = ((name, record.costs.seconds(name)) for name in ("precompute", "epoch", "inference"))
    return ", ".join(f"{name} {value:.3g} s" for name, value in known if value is not None)


# ---- showing -----------------------------------------------------------------------------------


def _records(own: Sequence[Path], more: Sequence[Path]) -> "list[Record]":
    from dhilgt.benchmark import Results
    from dhilgt.benchmark.experiments.paper_tables import joined

    paths: list[Path] = list(own)
    for path in more:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files or not files[0].exists():
            raise ArtifactError(
                f"{path} holds no results; name a file that dhilgt bench paper wrote, or its folder"
            )
        paths += files
    for path in own:
        if not path.exists():
            raise ArtifactError(f"{path} is not there; run dhilgt bench paper, or pass --results")
    return joined(Results(path).lines() for path in paths)


def _keep(records: "list[Record]", path: Path) -> None:
    from dhilgt.benchmark.experiments.paper_tables import slim
    from dhilgt.store.files import canonical_json

    with shell.written_whole(path) as draft:
        draft.write_bytes(b"".join(canonical_json(slim(record)) + b"\n" for record in records))


def _text(
    records: "list[Record]",
    table: str,
    data: list[str] | None,
    form: str,
    across: int,
    published: bool,
) -> str:
    from dhilgt.benchmark.experiments.paper_tables import paper_tables, score_table, speed_table
    from dhilgt.benchmark.show.render import render

    if table == "scores":
        return render([score_table(records, data, published=published)], form)
    if table == "speed":
        return render([speed_table(records)], form)
    return render(paper_tables(records, table, data=data, across=across, published=published), form)
