"""`dhilgt bench ablation`: what each part of the model does to the score."""

from pathlib import Path
from typing import Annotated

import typer

from dhilgt.cli import flags
from dhilgt.cli.bench import running as shared


def run_ablation(
    results: flags.Results = None,
    data: flags.Data = "citeseer,chameleon,cora,squirrel,reed98,amherst41",
    seeds: flags.Seeds = "0-9",
    output: flags.Output = Path("ablation.jsonl"),
    recipe: flags.StudiedRecipes = "paper,short,auto",
    options: Annotated[
        bool,
        typer.Option(
            "--options", help="Remove the token row and options beyond the paper instead."
        ),
    ] = False,
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
    """Train DHIL-GT without readout, virtual nodes, SPD bias and all three, on the same splits.

    Prints scores and paired differences to the whole model, with their intervals. Trainings end by
    the rule of their recipe, not by a clock.

    \b
    Example:
      dhilgt bench ablation --jobs 8 -o ablation.jsonl
      dhilgt bench ablation --data cora --recipe best --options -o a.jsonl
      dhilgt bench ablation --render-only ablation.jsonl --into figures
    """  # noqa: D301 - \b keeps the example's lines apart
    shared.check_form(form)
    files = shared.files_to_show(results, render_only, output)
    if not render_only:
        cells = shared.whole_cells(data, seeds, recipe, epochs)
        from dhilgt.benchmark.experiments.ablation import BEYOND, WITHOUT, ablation_cells

        limits = shared.limits_of(budget, total, jobs, device, root, in_process)
        ablated = ablation_cells(cells, BEYOND if options else WITHOUT)
        shared.measure(ablated, output, limits, resume=resume, quiet=quiet)
    from dhilgt.benchmark.experiments.ablation import ablation_tables, draw_ablation

    records = shared.records_of(files)
    shared.show(
        ablation_tables(records), form, "ablation", into,
        lambda folder: draw_ablation(records, folder / "ablation"),
    )  # fmt: skip
