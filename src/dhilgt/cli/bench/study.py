"""`dhilgt bench study`: scores against the settings of the token rows."""

from pathlib import Path
from typing import Annotated

import typer

from dhilgt.cli import flags
from dhilgt.cli.bench import running as shared


def run_study(
    results: flags.Results = None,
    data: flags.Data = "chameleon,citeseer,reed98,amherst41",
    seeds: flags.Seeds = "0-9",
    output: flags.Output = Path("study.jsonl"),
    grid: Annotated[
        bool, typer.Option("--grid", help="Run all pairs of exponents, for heat maps.")
    ] = False,
    recipe: flags.StudiedRecipes = "paper,short,auto",
    epochs: flags.Epochs = None,
    budget: flags.Budget = None,
    total: flags.Total = None,
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
    """Train DHIL-GT with different token rows: s, s_in, r_in and r_out, one at a time.

    Prints scores and paired differences to the base (s = 32, s_in = 15, r_in = r_out = -1).
    Trainings end by the rule of their recipe, not by a clock.

    \b
    Example:
      dhilgt bench study --data cora --recipe short --seeds 0-4 -o s.jsonl
      dhilgt bench study --render-only s.jsonl --into figures
    """  # noqa: D301 - \b keeps the example's lines apart
    shared.check_form(form)
    files = shared.files_to_show(results, render_only, output)
    if not render_only:
        cells = shared.whole_cells(data, seeds, recipe, epochs)
        from dhilgt.benchmark.experiments.study import study_cells

        limits = shared.limits_of(budget, total, jobs, device, root, in_process)
        shared.measure(study_cells(cells, grid=grid), output, limits, resume=resume, quiet=quiet)
    from dhilgt.benchmark.experiments.study import study_tables
    from dhilgt.benchmark.experiments.study_plot import draw_curves, draw_squares

    records = shared.records_of(files)
    shared.show(
        study_tables(records), form, "study", into,
        lambda folder: draw_curves(records, folder / "study"),
        lambda folder: draw_squares(records, folder / "study-grid"),
    )  # fmt: skip
