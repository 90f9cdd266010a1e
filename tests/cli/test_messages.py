"""Messages of the library show the options of the command in place of arguments."""

import ast
import errno
import functools
import inspect
import re
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
import typer.main
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli import shell
from dhilgt.cli.app import app
from dhilgt.errors import DhilgtError, advice, argument, element, setting, warn, wording


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
        (argument("resume", True), "resume=True"),  # an option of another command only
        (argument("verify", False), "verify=False"),  # of no command
        (argument("batch_size"), "batch size"),
        (advice("raise {}, or", "max_memory"), "raise --max-memory, or"),
        (advice("pass {}, or", "preflight", False), "pass --no-preflight, or"),
        (advice("raise {}, or", "batch_size"), ""),
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


MENTIONS = {"argument": argument, "setting": setting, "advice": advice}


@functools.cache
def mentioned():
    """Every argument that a message in the source of the package mentions, with its values."""
    found = set()
    for file in Path(dhilgt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MENTIONS:
                words = [one.value for one in node.args if isinstance(one, ast.Constant)]
                if len(words) == len(node.args):
                    found.add((node.func.id, *words))
    return sorted(found, key=str)


@functools.cache
def commands(command=None, path=()):
    """Every command of the program with its words."""
    command = command or typer.main.get_command(app)
    parts = getattr(command, "commands", {})
    return [(path, command)] if not parts else [
        one for name, part in parts.items() for one in commands(part, (*path, name))
    ]  # fmt: skip


def unknown_flags(text, own):
    """The options in a text that the command does not have; those of "dhilgt COMMAND" are its."""
    by_path = {path: options(command) for path, command in commands()}
    alien = []
    for part in re.split(r"(?=dhilgt [a-z])", text):
        known = own
        for path, flags in by_path.items():
            if part.startswith(f"dhilgt {' '.join(path)}"):
                known = flags
        alien += [flag for flag in re.findall(r"--[a-z][a-z-]+", part) if flag not in known]
    return alien


def options(command):
    everywhere = {"--help", "--debug", "--version", "--help-all"}
    return everywhere | {
        flag for one in command.params for flag in (*one.opts, *one.secondary_opts)
    }


def test_a_message_names_no_option_that_the_command_does_not_have():
    assert len(mentioned()) > 20
    for path, command in commands():
        context = typer.Context(command)
        for kind, *words in mentioned():
            text = shell.shell_message(DhilgtError(MENTIONS[kind](*words)), context)
            assert unknown_flags(text, options(command)) == [], (path, kind, words)


def texts(node):
    """The strings of a module; those with values in them as one text each."""
    if isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else "X" for one in node.values]
        yield "".join(parts)
    elif isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else ""
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


@pytest.mark.parametrize(("path", "command"), commands(), ids=lambda one: "-".join(one)
                         if isinstance(one, tuple) else "")  # fmt: skip
def test_the_texts_of_a_command_name_its_own_options(path, command):
    """Literal options in the module of a command are options of that command."""
    module = sys.modules[inspect.unwrap(command.callback).__module__]
    siblings = [
        one for _, one in commands()
        if inspect.unwrap(one.callback).__module__ == module.__name__
    ]  # fmt: skip
    known = set().union(*map(options, siblings))
    for text in texts(ast.parse(Path(module.__file__).read_text())):
        assert unknown_flags(text, known) == [], (path, text)


def test_help_and_completion_do_not_show_the_context():
    result = CliRunner().invoke(app, ["label", "--help"])
    assert "context" not in result.stdout.lower()


# ---- memory and disks --------------------------------------------------------------------------


def fails_with(error):
    def command() -> None:
        raise error

    program = typer.Typer()
    program.command()(shell.guarded(command))
    result = CliRunner().invoke(program, [])
    assert result.exit_code == 1
    return result.stderr.strip().removeprefix("dhilgt: ")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("std::bad_alloc"), "there is not enough memory; use a machine"),
        (MemoryError("Unable to allocate 2.00 GiB for an array"), "memory: 2.15 GB more were"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate "
                         "4000000000 bytes. Error code 12 (Cannot allocate memory)"),
            "memory: 4 GB more were asked for",
        ),
    ],
)  # fmt: skip
def test_an_error_of_an_allocator_is_explained(error, words):
    message = fails_with(error)
    assert words in message
    assert "alloc_" not in message
    assert "--" not in message


def test_a_full_disk_is_named(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    message = fails_with(full)
    assert re.search(r"(standard output|a file in /.*) cannot be written: No space left", message)
    words = r"out\.csv: No space left .* free\)"
    with (
        pytest.raises(dhilgt.ArtifactError, match=words),
        shell.written_whole(tmp_path / "out.csv"),
    ):
        raise full
    assert list(tmp_path.iterdir()) == []
