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
for command in (
    cache, demo, doctor, evaluate, explain, export, generate, inspect, label,
    predict, query, report, tokens, train, tune,
):  # fmt: skip
    name = command.__name__.rpartition(".")[2]
    app.command(name=name, cls=Command)(shell.guarded(command.run))
app.add_typer(datasets.app, name="datasets")
app.add_typer(bench.app, name="bench")
app.add_typer(plot.app, name="plot")


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
