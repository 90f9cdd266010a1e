"""The command line: `dhilgt COMMAND`. Each command is one module of `dhilgt.cli`."""

import signal
import sys
from typing import Annotated

import typer

from dhilgt._version import __version__
from dhilgt.cli import (
    bench,
    cache,
    datasets,
    demo,
    doctor,
    evaluate,
    explain,
    export,
    generate,
    inspect,
    label,
    plot,
    predict,
    processes,
    query,
    report,
    shell,
    tokens,
    train,
    tune,
)
from dhilgt.cli.command_help import Command
from dhilgt.utils.openmp import wait_briefly

USAGE = 2  # the exit code for wrong arguments

app = typer.Typer(
    name="dhilgt",
    help="Classes of nodes and exact distances in large graphs, from hub labels.",
    epilog="Start with: dhilgt demo. Every command has its own --help with an example.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of use; the lines of `dhilgt --help`, which cuts off what is longer than these.
for command, summary in {
    train: "Train a classifier on your graph or a public one.",
    predict: "Write the predicted class of nodes.",
    evaluate: "Print the scores of a run.",
    explain: "Show which nodes a prediction rests on.",
    inspect: "Show what a run or another folder holds, or compare two.",
    report: "Write the page about a run, or about a folder of results.",
    export: "Write a model for ONNX Runtime or plain PyTorch.",
    tune: "Search for the settings with the best validation score.",
    label: "Build the hub labels of a graph.",
    query: "Print exact distances from hub labels.",
    tokens: "Draw the token rows of hub labels.",
    generate: "Write a random graph that looks like a real one.",
    cache: "Show or remove what is kept for the next run.",
    demo: "Show everything on a generated graph, in a minute.",
    doctor: "Check the installation.",
}.items():
    name = command.__name__.rpartition(".")[2]
    app.command(name=name, cls=Command, short_help=summary)(shell.guarded(command.run))
app.add_typer(datasets.app, name="datasets", short_help="List, fetch and check public graphs.")
app.add_typer(bench.app, name="bench", short_help="Compare systems on the same splits.")
app.add_typer(plot.app, name="plot", short_help="Draw a graph beside its label graph.")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dhilgt {__version__}")
        raise typer.Exit


@app.callback()
def _all_commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole traceback of an error.")
    ] = False,
) -> None:
    shell.set_debug(debug)


def main() -> None:
    """Run the command line with the process's arguments, and exit with its status."""
    # A scheduler's signal to stop is handled as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wait_briefly()
    if not processes.is_main():
        processes.silence()
    arguments = sys.argv[1:]
    # People add --debug at the end of the line that failed.
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--debug" in options:
        arguments.remove("--debug")
        arguments.insert(0, "--debug")
    try:
        app(arguments, prog_name="dhilgt")
    except SystemExit as end:
        if end.code == USAGE:
            processes.main_process_ends_first()
        raise
