"""Messages of the library on the command line: options of the command in place of arguments."""

from typing import Any

import typer

from dhilgt.errors import ArgumentMessage, Mention

_ENDS = {"src": "source", "dst": "target"}


def shell_message(error: BaseException, context: typer.Context | None = None) -> str:
    """Return the message of an error or a warning with options in place of arguments.

    An argument is the option of the same name, or the one spelled like it. Advice about an argument
    that is no option of the command is left out; elsewhere such an argument is a plain word, or
    reads as in Python where it has a value.

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
        if name == "id" and value is not None:  # one that was typed
            return str(value)
        return shown if name in _ENDS else mention.python
    if context is None:
        return mention.python
    option = _as_option(context.command, name, value)
    if mention.advice is not None:
        return "" if option is None else mention.advice.format(option)
    if option is not None:
        return option
    return mention.python if value is not None else name.replace("_", " ")


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
