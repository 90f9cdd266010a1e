"""`dhilgt bench default`: the default against every baseline, nothing set."""

from pathlib import Path
from typing import Annotated

import typer

from dhilgt.cli import flags, shell
from dhilgt.cli.bench import running as shared
from dhilgt.cli.train import parse_seeds


def run_default(
    results: flags.Results = None,
    models: flags.Models = "all",
    data: Annotated[
        str, typer.Option(help="all (the twelve graphs of the results), or a list like cora,actor.")
    ] = "all",
    seeds: flags.Seeds = "10-19",
    output: flags.Output = Path("default.jsonl"),
    epochs: flags.Epochs = None,
    budget: flags.Budget = None,
    total: flags.Total = None,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no further cell after this time; see --resume.")
    ] = None,
    jobs: flags.Jobs = 1,
    device: flags.Device = "auto",
    root: flags.Root = None,
    resume: flags.Resume = False,
    in_process: flags.InProcess = False,
    render_only: flags.RenderOnly = False,
    into: flags.Into = None,
    form: flags.Form = "md",
    quiet: bool = False,
) -> None:
    """Train DHIL-GT with its defaults and all baselines with theirs, on the same splits.

    Prints the default beside the MLP and the best baseline, with paired differences.

    \b
    Example:
      dhilgt bench default --jobs 8 --minutes 8 --resume -o default.jsonl
      dhilgt bench default --render-only default.jsonl --into docs/results
    """  # noqa: D301 - \b keeps the example's lines apart
    shared.check_form(form)
    parsed_seeds = parse_seeds(seeds)
    files = shared.files_to_show(results, render_only, output)
    if minutes is not None and not minutes > 0:
        raise shell.usage_error(f"{minutes:g} is not a time above 0", "--minutes")
    if not render_only:
        shared.read_recipe("paper")  # refuses where training lacks a package
        from dhilgt.benchmark import models as systems_of
        from dhilgt.benchmark.experiments.default import GRAPHS, default_cells
        from dhilgt.benchmark.running import data as graphs

        systems = None if models == "all" else systems_of(models, references=False)
        names = GRAPHS if data == "all" else graphs.chosen(data)
        cells = default_cells(systems, names, parsed_seeds, epochs=epochs)
        starts = None if minutes is None else 60 * minutes
        limits = shared.limits_of(budget, total, jobs, device, root, in_process, starts)
        shared.measure(cells, output, limits, resume=resume, quiet=quiet)
    from dhilgt.benchmark.experiments.default import default_tables

    shared.show(default_tables(shared.records_of(files)), form, "default", into)
