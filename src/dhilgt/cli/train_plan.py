"""The output of `dhilgt train --dry-run`: what a run would take."""

import typer

from dhilgt.cli import shell
from dhilgt.cli.request import Request
from dhilgt.graph.graph import Graph


def show(graph: Graph, request: Request, as_json: bool) -> None:
    """Print what a run would take in time, memory and disk.

    Args:
        graph: The graph.
        request: What the run is asked to be.
        as_json: Print one JSON object.
    """
    from dhilgt.classifier.planning import plan

    costs = plan(graph, request.settings)
    if as_json:
        shell.print_json(costs.to_dict())
        return
    typer.echo(f"{costs.num_parameters:,} parameters, {costs.num_train:,} training nodes, "
               f"on {costs.device}")  # fmt: skip
    shell.print_columns(costs.lines())
