"""Messages of the library show the options of the command in place of arguments."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from dhilgt.cli import shell
from dhilgt.cli.app import app
from dhilgt.errors import DhilgtError, argument, element, setting, warn, wording


def said(text, command="first"):
    """The message of a command of a small program that fails with `text`."""

    def first(
        num_nodes: Annotated[int, typer.Option("--nodes")] = 1,
        file_format: Annotated[str, typer.Option("--format", "-f")] = "",
        ignore_weights: Annotated[bool, typer.Option("--ignore-weights")] = False,
        preflight: bool = True,
        max_memory: str = "",
        columns: str = "",
    ) -> None:
        warn(f"a warning: {text}")
        raise DhilgtError(text)

    def second(resume: Annotated[bool, typer.Option("--resume")] = False) -> None:
        raise DhilgtError(text)

    program = typer.Typer()
    program.command()(shell.guarded(first))
    program.command()(shell.guarded(second))
    result = CliRunner().invoke(program, [command])
    assert result.exit_code == 1
    *notes, last = result.stderr.splitlines()
    if command == "first":
        assert notes[0].removeprefix("note: a warning: ") == last.removeprefix("dhilgt: ")
    return last.removeprefix("dhilgt: ")


@pytest.mark.parametrize(
    ("mention", "text"),
    [
        (argument("max_memory"), "--max-memory"),
        (argument("max_memory", ...), "--max-memory"),
        (argument("num_nodes", 3), "--nodes 3"),
        (setting("num_nodes", 3), "--nodes 3"),
        (argument("format", "csv"), "--format csv"),
        (argument("format", "a|b"), "--format 'a|b'"),
        (argument("format", "a\nb"), "--format 'a\\nb'"),
        (argument("format", ("a", 2)), "--format a,2"),
        (argument("columns", (0, 1)), "--columns 0,1"),
        (argument("preflight", False), "--no-preflight"),
        (argument("weights", "ignore"), "--ignore-weights"),
        (argument("resume", True), "--resume"),  # of another command
        (argument("verify", False), "verify=False"),  # of no command
        (setting("size", 3), "size = 3"),
        (element("src", 3, 9), "edge 4, source 9"),
        (element("dst", 0), "edge 1, target"),
        (element("nodes", 3, "a"), "nodes[3] = 'a'"),
        (wording(", or call it", ""), ""),
    ],
)
def test_arguments_read_as_options(mention, text):
    assert said(f"it failed {mention} {{x}}") == f"it failed {text} {{x}}"


def test_a_command_shows_its_own_option_first():
    assert said(argument("resume", True), "second") == "--resume"
    assert said(argument("num_nodes", 3), "second") == "num_nodes=3"


def test_other_errors_stay_as_they_are():
    assert shell.shell_message(ValueError("threads=3")) == "threads=3"
    assert shell.shell_message(DhilgtError(argument("threads", 3))) == "threads=3"


def test_help_and_completion_do_not_show_the_context():
    result = CliRunner().invoke(app, ["label", "--help"])
    assert "context" not in result.stdout.lower()
