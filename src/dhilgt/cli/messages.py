"""Messages of the library on the command line: options of the command in place of arguments."""

from collections.abc import Iterator
from typing import Any

import typer

from dhilgt.errors import ArgumentMessage, Mention

_ENDS = {"src": "source", "dst": "target"}


def shell_message(error: BaseException, context: typer.Context | None = None) -> str:
    """Return the message of an error or a warning with options in place of arguments.

    An argument is the option of the same name, or the one spelled like it. An argument without an
    option reads as in Python.

    Args:
        error: The error or warning.
        context: Of the command that runs.
    """
    if not isinstance(error, ArgumentMessage):
        return str(error)
    return "".join(
        _shell_text(part, context) if isinstance(part, Mention) else part for part in error.parts
    )


def _shell_text(mention: Mention, context: typer.Context | None) -> str:
    name, value = mention.name, mention.value
    if name is None:
        return str(value)
    if mention.index is not None:  # whoever typed a path has never seen an array
        place = f"edge {mention.index + 1}, {_ENDS.get(name)}"
        shown = place if value is None else f"{place} {value}"
        return shown if name in _ENDS else mention.python
    for command in _commands(context, others=not isinstance(value, str)):
        text = _as_option(command, name, value)
        if text is not None:
            return text
    return mention.python


def _commands(context: typer.Context | None, others: bool) -> Iterator[Any]:
    """Yield the command that runs, then the others, which "pass resume=True" may be about."""
    if context is None:
        return
    yield context.command
    waiting = [context.find_root().command] if others else []
    while waiting:
        command = waiting.pop(0)
        yield command
        waiting += getattr(command, "commands", {}).values()


def _as_option(command: Any, name: str, value: str | bool | None) -> str | None:
    """Return an argument as an option of a command; None if the command has none for it."""
    word = value.strip("'") if isinstance(value, str) else None
    for option in command.params:
        flags = [str(flag) for flag in option.opts if flag.startswith("--")]
        if not flags:
            continue
        if option.name == name or _spelled(name) in flags:
            if value is False:
                return str(option.secondary_opts[0]) if option.secondary_opts else None
            return f"{flags[0]} {value}" if isinstance(value, str) else flags[0]
        if word is not None and _spelled(f"{word}_{name}") in flags:  # weights='ignore'
            return flags[0]
    return None


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")
