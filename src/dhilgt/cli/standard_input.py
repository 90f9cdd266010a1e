"""Standard input as an input file, written `-`: one option of a command may ask for it."""

from pathlib import Path

import typer

from dhilgt.cli import processes

_FILES_AS_TEXT = ("features", "split", "pairs", "order")
_OUTPUTS = ("output", "to", "table", "plot", "into")


def check(context: typer.Context | None) -> None:
    """Raise a usage error if standard input is asked for twice, or by several processes."""
    if context is None:
        return
    named = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        is_file = isinstance(value, Path) or option.name in _FILES_AS_TEXT
        if str(value) == "-" and is_file and option.name not in _OUTPUTS:
            flags = [str(flag) for flag in option.opts if flag.startswith("--")]
            named.append(flags[0] if flags else str(option.name).upper())
    if len(named) > 1:
        raise typer.BadParameter(
            "standard input can be read once; name files for the others",
            param_hint=" and ".join(named),
        )
    if named and processes.several():
        raise typer.BadParameter(
            "standard input cannot be shared by several processes; name a file", param_hint=named[0]
        )
