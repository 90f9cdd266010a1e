"""The output of `dhilgt train --dry-run`: what a run would take."""

import typer

from dhilgt.cli import shell
from dhilgt.cli.request import Request
from dhilgt.graph.graph import Graph
from dhilgt.settings.yaml_files import AUTO
from dhilgt.utils.memory import format_bytes


def show(graph: Graph, request: Request, as_json: bool) -> None:
    """Print what a run would take in time, memory and disk.

    Args:
        graph: The graph.
        request: What the run is asked to be.
        as_json: Print one JSON object.
    """
    if request.recipe == AUTO:
        _show_search(graph, request, as_json)
        return
    from dhilgt.classifier.planning import plan

    costs = plan(graph, request.settings)
    if as_json:
        shell.print_json(costs.to_dict())
        return
    typer.echo(f"{costs.num_parameters:,} parameters, {costs.num_train:,} training nodes, "
               f"on {costs.device}")  # fmt: skip
    shell.print_columns(costs.lines())


def _show_search(graph: Graph, request: Request, as_json: bool) -> None:
    from dhilgt.classifier.auto.costs import search_costs
    from dhilgt.classifier.planning import format_seconds

    costs = search_costs(graph, request.given, request.budget)
    if as_json:
        shell.print_json(costs.to_dict())
        return
    times = "once each" if costs.seeds == 1 else f"with {costs.seeds} seeds each"
    rungs = ", ".join(map(str, costs.rungs))
    typer.echo(
        f"{len(costs.candidates)} candidates {times}, compared after {rungs} epochs; "
        f"{costs.plan.num_train:,} training nodes, on {costs.plan.device}"
    )
    rows: list[tuple[str, ...]] = [("candidate", "parameters", "to its end", "RAM", "learns from")]
    for one in costs.candidates:
        ram, seconds = format_bytes(one.ram_bytes), format_seconds(one.seconds)
        rows.append((one.name, f"{one.num_parameters:,}", seconds, ram, one.about))
    shell.print_columns(rows)
    typer.echo("")
    shell.print_columns(costs.plan.lines())
